"""The splitter `sentence`: whole sentences, without regard to headings and paragraphs."""

from __future__ import annotations

from ragkit.records import Document
from ragkit.split.base import CharSpan
from ragkit.split.base_splitter import BaseSplitter
from ragkit.split.options import SplitOptions
from ragkit.split.packing import ChunkLimits, pack_segments
from ragkit.split.segments import Segment, SegmentArray
from ragkit.split.sentence_segmentation import sentence_spans
from ragkit.split.token_index import TokenIndex


class SentenceSplitter(BaseSplitter[SplitOptions]):
    """Packs sentences; a sentence that is longer than a chunk is split at clauses, words and characters."""

    def _split(self, document: Document, token_index: TokenIndex, limits: ChunkLimits) -> list[CharSpan]:
        sentences = (Segment(*sentence, cost=0) for sentence in sentence_spans(document.text))
        return pack_segments(SegmentArray.from_segments(sentences), token_index, limits)
