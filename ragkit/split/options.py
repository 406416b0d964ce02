"""The options of splitters: chunk size, overlap and unit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from ragkit.errors import InvalidOption
from ragkit.records import Document
from ragkit.split.base import TokenStartsFunction, character_starts

if TYPE_CHECKING:  # imported where they are used: a pipeline file is read without splitting anything
    from ragkit.split.packing import ChunkLimits
    from ragkit.split.token_index import TokenIndex

Unit: TypeAlias = Literal["tokens", "characters"]
"""Unit of lengths; tokens are those of the embedder."""


@dataclass(frozen=True)
class ChunkContextOptions:
    """Contextual chunks: a model writes one sentence on where each chunk stands in its document.

    The sentence is embedded and indexed before the text of the chunk; it is never part of the text.
    """

    model: str
    """The model, as `provider:model`."""
    max_tokens: int = 80
    """Maximum length of the sentence, in tokens."""
    document_tokens: int = 4000
    """The model gets documents up to this length (in tokens) whole; of longer ones title, headings and the text around
    the chunk."""
    concurrency: int = 4
    """Maximum number of parallel requests."""

    def __post_init__(self) -> None:
        provider, _, model = self.model.partition(":")
        if not (provider and model) or provider in ("auto", "extractive"):
            raise InvalidOption("context.model", self.model, "provider:model, such as openai:gpt-4.1-mini")
        for name, least in (("max_tokens", 10), ("document_tokens", 200), ("concurrency", 1)):
            value = getattr(self, name)
            if type(value) is not int or value < least:  # a bool is not an int here
                raise InvalidOption(f"context.{name}", value, f"an integer >= {least}")


@dataclass(frozen=True)
class SplitOptions:
    """The options of a splitter. Raises InvalidOption for a value out of range."""

    chunk_size: int = 200
    """Maximum length of a chunk, including its overlap with the previous one; at least 1."""
    chunk_overlap: int = 40
    """Maximum length of the whole sentences, lines or rows that a chunk repeats from the previous one; a single
    sentence may have twice this length, up to half a chunk. Less than `chunk_size`."""
    unit: Unit = "tokens"
    """`tokens` of the embedder, or `characters`."""
    header: bool = field(default=True, kw_only=True)
    """Embed and index title and headings with each chunk, on a line before its text."""
    context: ChunkContextOptions | None = field(default=None, kw_only=True)
    """Let a model write one sentence on where each chunk stands, embedded and indexed with it; null: no model. Only in
    a knowledge base."""

    def __post_init__(self) -> None:
        if type(self.chunk_size) is not int or self.chunk_size < 1:  # a bool is not an int here
            raise InvalidOption("chunk_size", self.chunk_size, "an integer >= 1")
        if type(self.chunk_overlap) is not int or not 0 <= self.chunk_overlap < self.chunk_size:
            expected = f"an integer from 0 to {self.chunk_size - 1} (chunk_size - 1)"
            raise InvalidOption("chunk_overlap", self.chunk_overlap, expected)
        if self.unit not in ("tokens", "characters"):
            raise InvalidOption("unit", self.unit, "'tokens' or 'characters'")

    @property
    def max_chunk_tokens(self) -> int | None:
        """`chunk_size` if the unit is tokens, else None."""
        return self.chunk_size if self.unit == "tokens" else None

    def chunk_limits(self, reserve: int = 0) -> ChunkLimits:
        """The limits after subtracting `reserve`, but at least a quarter of `chunk_size`; the overlap shrinks too."""
        from ragkit.split.packing import ChunkLimits  # noqa: PLC0415

        limit = max(self.chunk_size - max(0, reserve), -(-self.chunk_size // 4))
        return ChunkLimits(limit, self.chunk_overlap * limit // self.chunk_size)

    def token_index(self, document: Document, token_starts: TokenStartsFunction) -> TokenIndex:
        """The token index of a document, in the unit of these options."""
        from ragkit.split.token_index import TokenIndex  # noqa: PLC0415

        return TokenIndex(document.text, token_starts if self.unit == "tokens" else character_starts)


@dataclass(frozen=True)
class RecursiveOptions(SplitOptions):
    """The options of the default splitter. Raises InvalidOption for a value out of range."""

    separators: tuple[str, ...] = ()
    """Split after these instead of by document structure, in order of preference; then at words and characters.
    Empty: headings, blocks, paragraphs, lines, sentences."""

    def __post_init__(self) -> None:
        super().__post_init__()
        separators = self.separators
        if isinstance(separators, str) or not all(isinstance(separator, str) for separator in separators):
            raise InvalidOption("separators", separators, "a list of strings")
        object.__setattr__(self, "separators", tuple(separators))


@dataclass(frozen=True)
class SemanticOptions(SplitOptions):
    """The options of `semantic`. Raises InvalidOption for a value out of range."""

    chunk_overlap: int = 0
    """Maximum length of the whole sentences that a chunk repeats from the previous one; less than `chunk_size`."""
    min_tokens: int = 40
    """Minimum length of a chunk before a break, in the unit; at most `chunk_size` counts. Shorter ones go on."""
    percentile: float = 80.0
    """Break at the distances between sentences from this percentile of the document on, between 0 and 100."""
    window: int = 3
    """Sentences on each side of a break that are compared; at least 1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.min_tokens < 0:
            raise InvalidOption("min_tokens", self.min_tokens, "an integer >= 0")
        if not 0 <= self.percentile <= 100:
            raise InvalidOption("percentile", self.percentile, "between 0 and 100")
        if self.window < 1:
            raise InvalidOption("window", self.window, "an integer >= 1")
