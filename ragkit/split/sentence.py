"""The splitter `sentence`: whole sentences, without regard to headings and paragraphs."""

from __future__ import annotations

from collections.abc import Sequence

from ragkit.records import Document
from ragkit.split.base import CharSpan, TokenStartsFunction
from ragkit.split.options import SplitOptions
from ragkit.split.packing import pack_segments
from ragkit.split.segments import Segment, SegmentArray
from ragkit.split.sentence_segmentation import sentence_spans


class SentenceSplitter:
    """Packs sentences; a sentence that is longer than a chunk is split at clauses, words and characters."""

    def __init__(self, options: SplitOptions) -> None:
        self._options = options

    @property
    def max_chunk_tokens(self) -> int | None:
        """See `Splitter`."""
        return self._options.max_chunk_tokens

    def spans(self, document: Document, token_starts: TokenStartsFunction, reserve: int = 0) -> Sequence[CharSpan]:
        """See `Splitter`."""
        token_index, limits = self._options.token_index(document, token_starts), self._options.chunk_limits(reserve)
        sentences = (Segment(*sentence, cost=0) for sentence in sentence_spans(document.text))
        return pack_segments(SegmentArray.from_segments(sentences), token_index, limits)
