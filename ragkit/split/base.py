"""The protocol of splitters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ragkit.records import Document

CharSpan: TypeAlias = "tuple[int, int]"
"""Character offsets (start, end) into a document's text, end exclusive."""

TokenStartsFunction: TypeAlias = Callable[[str], NDArray[np.int64]]
"""A text -> the character offset of each token start, ascending: (n_tokens,)."""


def character_starts(text: str) -> NDArray[np.int64]:
    """Treats every character as a token, for `unit: characters`."""
    return np.arange(len(text), dtype=np.int64)


class Splitter(Protocol):
    """Splits a document into chunks that fit into an embedder."""

    @property
    def max_chunk_tokens(self) -> int | None:
        """Maximum number of tokens per chunk; None when the unit is characters."""

    def spans(self, document: Document, token_starts: TokenStartsFunction, reserve: int = 0) -> Sequence[CharSpan]:
        """The spans of the chunks, ascending by start and by end.

        Every character except white space is in at least one span. A span is not empty, does not start or end with
        white space (except the indentation of a first line of code), and is not contained in another span.
        Equal arguments give equal spans.

        Args:
            document: the document to split.
            token_starts: tokenizer for `max_chunk_tokens`, called once on the whole text. The tokens of a span are
                those that start in it.
            reserve: tokens per chunk (or characters, by unit) that the caller needs; reduces the chunk size by up to
                three quarters.
        """


@runtime_checkable
class EmbeddingSplitter(Protocol):
    """A splitter that compares texts by their vectors."""

    def use_embedder(self, embed: Callable[[Sequence[str]], NDArray[np.float32]]) -> None:
        """Compare texts by these unit vectors, (len(texts), dimension). Called once, before the first `spans`."""
