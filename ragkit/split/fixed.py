"""Chunks of one length, whatever stands in the text: the yardstick that other splitters are measured against."""

from __future__ import annotations

from collections.abc import Sequence

from ragkit.records import Document
from ragkit.split.base import Span, TokenStarts
from ragkit.split.cuts import word_after, word_end
from ragkit.split.lines import first_visible, rstripped
from ragkit.split.measure import Ruler
from ragkit.split.options import SplitOptions


class FixedSplitter:
    """Fills each chunk to `chunk_size` and begins the next one `chunk_overlap` before its end, both at words.

    An edit moves every border behind it.
    """

    def __init__(self, options: SplitOptions) -> None:
        self._options = options

    @property
    def chunk_tokens(self) -> int | None:
        """Most tokens of a chunk; None when characters are counted."""
        return self._options.chunk_tokens

    def spans(self, document: Document, token_starts: TokenStarts, reserve: int = 0) -> Sequence[Span]:
        """Where the chunks begin and end; see `Splitter`."""
        ruler, size = self._options.ruler(document, token_starts), self._options.size(reserve)
        text, length = document.text, rstripped(document.text, 0, len(document.text))
        spans: list[Span] = []
        start, done = first_visible(text, 0, length), 0
        while done < length:
            end = _end_of(ruler, start, done, size.limit)
            if not text[max(start, done) : end].strip():  # nothing but white space behind the overlap
                start = first_visible(text, done, length)
                end = _end_of(ruler, start, done, size.limit)
            done = rstripped(text, start, min(end, length))
            spans.append((start, done))
            start = _next_start(ruler, spans[-1], size.overlap)
        return spans


def _next_start(ruler: Ruler, span: Span, overlap: int) -> int:
    start, end = span
    if overlap:
        offset = ruler.offset_after(ruler.count_before(end) - overlap)
        end = word_after(ruler.text, max(offset, start + 1), end)
    return first_visible(ruler.text, end, len(ruler.text))


def _end_of(ruler: Ruler, start: int, done: int, limit: int) -> int:
    """Behind the last word that fits and is not `done`; behind the last character that fits if that word is long."""
    before = ruler.count_before(start)
    most = ruler.offset_within(before + limit)
    if most <= start:  # the next character alone has more tokens
        most = ruler.offset_after(before + 1)
    return word_end(ruler.text, most, min(most, max(done, ruler.offset_within(before + limit // 2))))
