"""Chunks of one length, whatever stands in the text: the yardstick that other splitters are measured against."""

from __future__ import annotations

from collections.abc import Sequence

from ragkit.records import Document
from ragkit.split.base import CharSpan, TokenStartsFunction
from ragkit.split.lines import rstrip_end, skip_whitespace
from ragkit.split.options import SplitOptions
from ragkit.split.text_boundaries import last_word_end, next_word_start
from ragkit.split.token_index import TokenIndex


class FixedSplitter:
    """Fills each chunk to `chunk_size` and begins the next one `chunk_overlap` before its end, both at words.

    An edit moves every border behind it.
    """

    def __init__(self, options: SplitOptions) -> None:
        self._options = options

    @property
    def max_chunk_tokens(self) -> int | None:
        """Most tokens of a chunk; None when characters are counted."""
        return self._options.max_chunk_tokens

    def spans(self, document: Document, token_starts: TokenStartsFunction, reserve: int = 0) -> Sequence[CharSpan]:
        """Where the chunks begin and end; see `Splitter`."""
        ruler, size = self._options.token_index(document, token_starts), self._options.chunk_limits(reserve)
        text, length = document.text, rstrip_end(document.text, 0, len(document.text))
        spans: list[CharSpan] = []
        start, done = skip_whitespace(text, 0, length), 0
        while done < length:
            end = _chunk_end(ruler, start, done, size.max_tokens)
            if not text[max(start, done) : end].strip():  # nothing but white space behind the overlap
                start = skip_whitespace(text, done, length)
                end = _chunk_end(ruler, start, done, size.max_tokens)
            done = rstrip_end(text, start, min(end, length))
            spans.append((start, done))
            start = _next_start(ruler, spans[-1], size.overlap)
        return spans


def _next_start(ruler: TokenIndex, span: CharSpan, overlap: int) -> int:
    start, end = span
    if overlap:
        offset = ruler.offset_after(ruler.token_count_before(end) - overlap)
        end = next_word_start(ruler.text, max(offset, start + 1), end)
    return skip_whitespace(ruler.text, end, len(ruler.text))


def _chunk_end(ruler: TokenIndex, start: int, done: int, limit: int) -> int:
    """Behind the last word that fits and is not `done`; behind the last character that fits if that word is long."""
    before = ruler.token_count_before(start)
    most = ruler.offset_within(before + limit)
    if most <= start:  # the next character alone has more tokens
        most = ruler.offset_after(before + 1)
    return last_word_end(ruler.text, most, min(most, max(done, ruler.offset_within(before + limit // 2))))
