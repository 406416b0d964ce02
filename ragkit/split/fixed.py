"""The splitter `fixed`: chunks of equal length, regardless of structure. A baseline for other splitters."""

from __future__ import annotations

from ragkit.records import Document
from ragkit.split.base import CharSpan
from ragkit.split.base_splitter import BaseSplitter
from ragkit.split.lines import rstrip_end, skip_whitespace
from ragkit.split.options import SplitOptions
from ragkit.split.packing import ChunkLimits
from ragkit.split.text_boundaries import last_word_end, next_word_start
from ragkit.split.token_index import TokenIndex


class FixedSplitter(BaseSplitter[SplitOptions]):
    """Fills each chunk to `chunk_size` and starts the next one `chunk_overlap` before its end, at word boundaries.

    An edit moves every later boundary.
    """

    def _split(self, document: Document, token_index: TokenIndex, limits: ChunkLimits) -> list[CharSpan]:
        text, length = document.text, rstrip_end(document.text, 0, len(document.text))
        spans: list[CharSpan] = []
        start, covered = skip_whitespace(text, 0, length), 0
        while covered < length:
            end = _chunk_end(token_index, start, covered, limits.max_tokens)
            if not text[max(start, covered) : end].strip():  # only white space after the overlap
                start = skip_whitespace(text, covered, length)
                end = _chunk_end(token_index, start, covered, limits.max_tokens)
            covered = rstrip_end(text, start, min(end, length))
            spans.append((start, covered))
            start = _next_start(token_index, spans[-1], limits.overlap)
        return spans


def _next_start(token_index: TokenIndex, span: CharSpan, overlap: int) -> int:
    start, end = span
    if overlap:
        offset = token_index.offset_after(token_index.token_count_before(end) - overlap)
        end = next_word_start(token_index.text, max(offset, start + 1), end)
    return skip_whitespace(token_index.text, end, len(token_index.text))


def _chunk_end(token_index: TokenIndex, start: int, covered: int, limit: int) -> int:
    """The end of the last word that fits and is not covered; of the last character that fits if the word is long."""
    before = token_index.token_count_before(start)
    max_end = token_index.offset_within(before + limit)
    if max_end <= start:  # the next character alone has more tokens
        max_end = token_index.offset_after(before + 1)
    min_end = max(covered, token_index.offset_within(before + limit // 2))
    return last_word_end(token_index.text, max_end, min(max_end, min_end))
