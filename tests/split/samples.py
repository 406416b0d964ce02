"""Sample texts and tokenizers."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ragkit.records import Document
from ragkit.split.base import CharSpan
from ragkit.split.options import RecursiveOptions
from ragkit.split.recursive import RecursiveSplitter

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
    """Like byte-pair tokenizers: the token of a word starts at the space before it."""
    return np.fromiter((word.start() for word in re.finditer(r" ?\S+|\s+(?=\s)|\s", text)), np.int64)


def sentence(rng: random.Random, min_count: int = 6, max_count: int = 24) -> str:
    words = " ".join(rng.choice(WORDS) for _ in range(rng.randint(min_count, max_count)))
    return words.capitalize() + "."


def paragraph(rng: random.Random, min_count: int = 3, max_count: int = 8) -> str:
    return " ".join(sentence(rng) for _ in range(rng.randint(min_count, max_count)))


def prose(seed: int, paragraphs: int = 200) -> str:
    """Paragraphs of three to eight sentences, no headings."""
    rng = random.Random(seed)
    return "\n\n".join(paragraph(rng) for _ in range(paragraphs))


def handbook(seed: int, sections: int = 40) -> str:
    """Markdown: a title, sections of one to five paragraphs, some with fenced code or a subsection."""
    rng = random.Random(seed)
    parts = ["# The handbook", paragraph(rng)]
    for number in range(sections):
        parts.append(f"## Section {number}")
        parts += [paragraph(rng, 2, 6) for _ in range(rng.randint(1, 5))]
        if rng.random() < 0.4:
            calls = "\n".join(f"x{call} = call_{call}(a, b)" for call in range(rng.randint(2, 12)))
            parts.append(f"```python\n{calls}\n```")
        if rng.random() < 0.3:
            parts += [f"### Detail {number}", paragraph(rng)]
    return "\n\n".join(parts)


def recursive(document: Document, chunk_size: int = 200, chunk_overlap: int = 40) -> list[CharSpan]:
    """The spans of the default splitter, with words as tokens."""
    options = RecursiveOptions(chunk_size, chunk_overlap)
    return list(RecursiveSplitter(options).spans(document, word_starts))


def texts(document: Document, spans: Sequence[CharSpan]) -> list[str]:
    return [document.text[start:end] for start, end in spans]
