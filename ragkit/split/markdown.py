"""The splitter `markdown`: splits any document as Markdown."""

from __future__ import annotations

from ragkit.records import Document
from ragkit.split.base import CharSpan
from ragkit.split.base_splitter import BaseSplitter
from ragkit.split.options import SplitOptions
from ragkit.split.packing import ChunkLimits, pack_segments
from ragkit.split.structure import markdown_blocks, structured_segments
from ragkit.split.token_index import TokenIndex


class MarkdownSplitter(BaseSplitter[SplitOptions]):
    """Prefers to split at headings; never inside a fenced block or a table that fits into a chunk."""

    def _split(self, document: Document, token_index: TokenIndex, limits: ChunkLimits) -> list[CharSpan]:
        segments = structured_segments(token_index, markdown_blocks(document), limits.max_tokens)
        return pack_segments(segments, token_index, limits)
