"""The splitter `code`: splits any document as source code."""

from __future__ import annotations

from ragkit.records import Document
from ragkit.split.base import CharSpan
from ragkit.split.base_splitter import BaseSplitter
from ragkit.split.code_segments import code_segments
from ragkit.split.options import SplitOptions
from ragkit.split.packing import ChunkLimits, pack_segments
from ragkit.split.token_index import TokenIndex


class CodeSplitter(BaseSplitter[SplitOptions]):
    """Prefers to split before definitions, then at blank lines, then at the least indented lines."""

    def _split(self, document: Document, token_index: TokenIndex, limits: ChunkLimits) -> list[CharSpan]:
        return pack_segments(code_segments(document), token_index, limits)
