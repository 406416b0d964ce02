"""Texts and measures that the tests of this folder share."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ragkit.records import Document
from ragkit.split.base import CharSpan
from ragkit.split.recursive import RecursiveOptions, RecursiveSplitter

_VOCABULARY = (
    "river bridge engine method value result city year people light signal field pressure surface heat model "
    "system network index query measured found built shows large small common under over between above after"
)
WORDS = _VOCABULARY.split()


def word_starts(text: str) -> NDArray[np.int64]:
    """Every run of visible characters is one token."""
    return np.fromiter((word.start() for word in re.finditer(r"\S+", text)), np.int64)


def byte_starts(text: str) -> NDArray[np.int64]:
    """Every byte of UTF-8 is one token: several tokens share a start."""
    sizes = [len(character.encode("utf-8", "surrogatepass")) for character in text]
    return np.repeat(np.arange(len(text), dtype=np.int64), sizes)


def spaced_starts(text: str) -> NDArray[np.int64]:
    """As byte-pair tokenizers do it: a word's token begins at the space before it."""
    return np.fromiter((word.start() for word in re.finditer(r" ?\S+|\s+(?=\s)|\s", text)), np.int64)


def sentence(chance: random.Random, fewest: int = 6, most: int = 24) -> str:
    words = " ".join(chance.choice(WORDS) for _ in range(chance.randint(fewest, most)))
    return words.capitalize() + "."


def paragraph(chance: random.Random, fewest: int = 3, most: int = 8) -> str:
    return " ".join(sentence(chance) for _ in range(chance.randint(fewest, most)))


def prose(seed: int, paragraphs: int = 200) -> str:
    """Paragraphs of three to eight sentences, no headings."""
    chance = random.Random(seed)
    return "\n\n".join(paragraph(chance) for _ in range(paragraphs))


def handbook(seed: int, sections: int = 40) -> str:
    """Markdown: a title, sections of one to five paragraphs, some with fenced code or a subsection."""
    chance = random.Random(seed)
    parts = ["# The handbook", paragraph(chance)]
    for number in range(sections):
        parts.append(f"## Section {number}")
        parts += [paragraph(chance, 2, 6) for _ in range(chance.randint(1, 5))]
        if chance.random() < 0.4:
            calls = "\n".join(f"x{call} = call_{call}(a, b)" for call in range(chance.randint(2, 12)))
            parts.append(f"```python\n{calls}\n```")
        if chance.random() < 0.3:
            parts += [f"### Detail {number}", paragraph(chance)]
    return "\n\n".join(parts)


def recursive(document: Document, chunk_size: int = 200, chunk_overlap: int = 40) -> list[CharSpan]:
    """The default splitter, measured in words."""
    options = RecursiveOptions(chunk_size, chunk_overlap)
    return list(RecursiveSplitter(options).spans(document, word_starts))


def texts(document: Document, spans: Sequence[CharSpan]) -> list[str]:
    return [document.text[start:end] for start, end in spans]
