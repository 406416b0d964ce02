"""The splitter `code`: splits any document as source code."""

from __future__ import annotations

from collections.abc import Sequence

from ragkit.records import Document
from ragkit.split.base import CharSpan, TokenStartsFunction
from ragkit.split.code_segments import code_segments
from ragkit.split.options import SplitOptions
from ragkit.split.packing import pack_segments


class CodeSplitter:
    """Prefers to split before definitions, then at blank lines, then at the least indented lines."""

    def __init__(self, options: SplitOptions) -> None:
        self._options = options

    @property
    def max_chunk_tokens(self) -> int | None:
        """See `Splitter`."""
        return self._options.max_chunk_tokens

    def spans(self, document: Document, token_starts: TokenStartsFunction, reserve: int = 0) -> Sequence[CharSpan]:
        """See `Splitter`."""
        token_index, limits = self._options.token_index(document, token_starts), self._options.chunk_limits(reserve)
        return pack_segments(code_segments(document), token_index, limits)
