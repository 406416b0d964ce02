"""The base class of the splitters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

from ragkit.records import Document
from ragkit.split.base import CharSpan, TokenStartsFunction
from ragkit.split.options import SplitOptions
from ragkit.split.packing import ChunkLimits
from ragkit.split.token_index import TokenIndex

OptionsT = TypeVar("OptionsT", bound=SplitOptions)


class BaseSplitter(ABC, Generic[OptionsT]):
    """A `Splitter` with options; a subclass implements `_split`."""

    def __init__(self, options: OptionsT) -> None:
        self._options = options

    @property
    def max_chunk_tokens(self) -> int | None:
        """See `Splitter`."""
        return self._options.max_chunk_tokens

    def spans(self, document: Document, token_starts: TokenStartsFunction, reserve: int = 0) -> Sequence[CharSpan]:
        """See `Splitter`."""
        token_index = self._options.token_index(document, token_starts)
        return self._split(document, token_index, self._options.chunk_limits(reserve))

    @abstractmethod
    def _split(self, document: Document, token_index: TokenIndex, limits: ChunkLimits) -> list[CharSpan]: ...
