"""What every splitter keeps: a Document in, spans of its text out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ragkit.records import Document

Span: TypeAlias = "tuple[int, int]"
"""Character offsets (start, end) into a document's text, end exclusive."""

TokenStarts: TypeAlias = Callable[[str], NDArray[np.int64]]
"""A text -> the character offset at which each of its tokens begins, in rising order: (n_tokens,)."""


def character_starts(text: str) -> NDArray[np.int64]:
    """Every character is a token: the measure behind `unit: characters`."""
    return np.arange(len(text), dtype=np.int64)


class Splitter(Protocol):
    """Cuts a document into pieces that an embedder can take in whole."""

    def spans(self, document: Document, token_starts: TokenStarts, reserve: int = 0) -> Sequence[Span]:
        """Where the chunks of `document` begin and end, in rising order of start.

        No character but white space is left out of every span, and no span is empty or white space only.

        Args:
            document: what is cut.
            token_starts: the measure of `chunk_size`.
            reserve: tokens of each chunk that the caller needs for itself (a header).
        """
