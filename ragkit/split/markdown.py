"""The splitter `markdown`: splits any document as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from ragkit.records import Document
from ragkit.split.base import CharSpan, TokenStartsFunction
from ragkit.split.options import SplitOptions
from ragkit.split.packing import pack_segments
from ragkit.split.structure import markdown_blocks, structured_segments


class MarkdownSplitter:
    """Prefers to split at headings; never inside a fenced block or a table that fits into a chunk."""

    def __init__(self, options: SplitOptions) -> None:
        self._options = options

    @property
    def max_chunk_tokens(self) -> int | None:
        """See `Splitter`."""
        return self._options.max_chunk_tokens

    def spans(self, document: Document, token_starts: TokenStartsFunction, reserve: int = 0) -> Sequence[CharSpan]:
        """See `Splitter`."""
        token_index, limits = self._options.token_index(document, token_starts), self._options.chunk_limits(reserve)
        return pack_segments(
            structured_segments(token_index, markdown_blocks(document), limits.max_tokens), token_index, limits
        )
