"""What every splitter keeps: a Document in, spans of its text out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ragkit.records import Document

CharSpan: TypeAlias = "tuple[int, int]"
"""Character offsets (start, end) into a document's text, end exclusive."""

TokenStartsFunction: TypeAlias = Callable[[str], NDArray[np.int64]]
"""A text -> the character offset at which each of its tokens begins, in rising order: (n_tokens,)."""


def character_starts(text: str) -> NDArray[np.int64]:
    """Every character is a token: the measure behind `unit: characters`."""
    return np.arange(len(text), dtype=np.int64)


class Splitter(Protocol):
    """Cuts a document into pieces that an embedder can take in whole."""

    @property
    def max_chunk_tokens(self) -> int | None:
        """Most tokens of a chunk; None when chunks are not measured in tokens."""

    def spans(self, document: Document, token_starts: TokenStartsFunction, reserve: int = 0) -> Sequence[CharSpan]:
        """Where the chunks of `document` begin and end, rising in start and in end.

        Every character but white space lies in at least one span. No span is empty, begins or ends with
        white space (the indentation of a first line of code excepted), or lies within another.
        Equal arguments give equal spans.

        Args:
            document: what is cut.
            token_starts: the measure of `max_chunk_tokens`; called once, on the whole text. A span's tokens are
                those that start in it.
            reserve: tokens of each chunk that the caller needs for itself; a splitter gives up three
                quarters of its chunk size at most. Counted in characters where chunks are.
        """
