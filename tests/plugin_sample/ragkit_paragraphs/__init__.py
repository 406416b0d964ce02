"""Two components for ragkit: a splitter with options, and an embedder without."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ragkit.embed.base import Row, Rows, normalize_rows
from ragkit.errors import InvalidOption
from ragkit.records import Document
from ragkit.split.base import CharSpan, TokenStartsFunction


@dataclass(frozen=True)
class ParagraphOptions:
    """What ends a paragraph."""

    blank_lines: int = 1
    """Blank lines between two paragraphs, >= 1."""
    keep: Literal["all", "long"] = "all"
    """`long` leaves out paragraphs of one word."""

    def __post_init__(self) -> None:
        if self.blank_lines < 1:
            raise InvalidOption("blank_lines", self.blank_lines, ">= 1")


class ParagraphSplitter:
    """One chunk per paragraph."""

    max_chunk_tokens = None
    """The length of a chunk is not limited."""

    def __init__(self, options: ParagraphOptions) -> None:
        self._options = options

    def spans(self, document: Document, token_starts: TokenStartsFunction, reserve: int = 0) -> Sequence[CharSpan]:
        """The paragraphs."""
        end = re.compile(rf"\n(?:[ \t]*\n){{{self._options.blank_lines},}}")
        cuts = [0, *(place for match in end.finditer(document.text) for place in match.span()), len(document.text)]
        spans = [
            (start, stop)
            for start, stop in zip(cuts[::2], cuts[1::2], strict=True)
            if document.text[start:stop].strip()
        ]
        return [span for span in spans if self._options.keep == "all" or len(document.text[slice(*span)].split()) > 1]


class LetterEmbedder:
    """Counts of the letters a to z, and 1 for the text itself."""

    dimension = 27
    fingerprint = "letters-1"

    def embed_texts(self, texts: Sequence[str]) -> Rows:
        """(len(texts), 27)."""
        counts = [[1, *(text.lower().count(chr(97 + place)) for place in range(26))] for text in texts]
        return normalize_rows(np.array(counts, np.float32).reshape(-1, self.dimension))

    def embed_query(self, text: str) -> Row:
        """(27,)."""
        return np.asarray(self.embed_texts([text])[0], np.float32)
