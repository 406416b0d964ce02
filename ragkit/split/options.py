"""What every splitter can be told: how long chunks are, how much they share, and in which unit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ragkit.errors import InvalidOption
from ragkit.records import Document
from ragkit.split.base import TokenStartsFunction, character_starts
from ragkit.split.packing import ChunkLimits
from ragkit.split.token_index import TokenIndex

Unit: TypeAlias = Literal["tokens", "characters"]
"""What lengths are counted in. Tokens are those of the embedder in use."""


@dataclass(frozen=True)
class SplitOptions:
    """The options of a splitter. Raises InvalidOption for a value out of range."""

    chunk_size: int = 200
    """Most units of a chunk, what it shares with the one before included; at least 1."""
    chunk_overlap: int = 40
    """Most units that a chunk repeats from the one before; less than `chunk_size`."""
    unit: Unit = "tokens"
    """`tokens` of the embedder in use, or `characters`."""
    header: bool = field(default=True, kw_only=True)
    """Whether title and headings are embedded and indexed with each chunk, on a line before its text."""

    def __post_init__(self) -> None:
        if not _is_int(self.chunk_size) or self.chunk_size < 1:
            raise InvalidOption("chunk_size", self.chunk_size, "an integer >= 1")
        if not _is_int(self.chunk_overlap) or not 0 <= self.chunk_overlap < self.chunk_size:
            raise InvalidOption(
                "chunk_overlap", self.chunk_overlap, f"a whole number from 0 to {self.chunk_size - 1} (chunk_size - 1)"
            )
        if self.unit not in ("tokens", "characters"):
            raise InvalidOption("unit", self.unit, "'tokens' or 'characters'")

    @property
    def max_chunk_tokens(self) -> int | None:
        """`chunk_size` where it counts tokens, else None."""
        return self.chunk_size if self.unit == "tokens" else None

    def chunk_limits(self, reserve: int = 0) -> ChunkLimits:
        """What is left of `chunk_size`, a quarter of it at least; the overlap shrinks in proportion."""
        limit = max(self.chunk_size - max(0, reserve), -(-self.chunk_size // 4))
        return ChunkLimits(limit, self.chunk_overlap * limit // self.chunk_size)

    def token_index(self, document: Document, token_starts: TokenStartsFunction) -> TokenIndex:
        """What the lengths in `document` are measured with; reads the whole text once."""
        return TokenIndex(document.text, token_starts if self.unit == "tokens" else character_starts)


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
