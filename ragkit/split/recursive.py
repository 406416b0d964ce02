"""The splitter `recursive`, the default: splits a document along the structure of its format."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ragkit.records import Document
from ragkit.split.base import CharSpan
from ragkit.split.base_splitter import BaseSplitter
from ragkit.split.code_segments import code_segments
from ragkit.split.options import RecursiveOptions
from ragkit.split.packing import ChunkLimits, pack_segments
from ragkit.split.prose import trim_span
from ragkit.split.segments import Segment, SegmentArray
from ragkit.split.structure import heading_blocks, markdown_blocks, structured_segments
from ragkit.split.token_index import TokenIndex

_FIRST_SEPARATOR_COST = -200
_SEPARATOR_COST_STEP = 200  # added for each further separator
_MARKDOWN_FORMATS = frozenset({"markdown", "notebook"})
_ROW_FORMATS = frozenset({"csv", "json", "jsonl", "ods", "parquet", "sqlite", "xls", "xlsx"})
"""Formats whose lines are table rows, or values with their names."""
_PROSE_FORMATS = frozenset({"", "text", "asciidoc", "org", "rst"})
"""Formats whose lines are no table rows. In all others, a line with ` | ` is one."""
_CHARS_PER_TOKEN = 3
"""At least, in most text: what is kept whole is rather a little smaller than a chunk."""
_EVERY_LINE, _CELLS = re.compile(r"\S"), re.compile(r" \| ?")


class RecursiveSplitter(BaseSplitter[RecursiveOptions]):
    """Splits Markdown at headings, never inside a block that fits; code at definitions; other text at headings (if
    the loader found any), paragraphs, lines, sentences, words and characters, in this order."""

    def _split(self, document: Document, token_index: TokenIndex, limits: ChunkLimits) -> list[CharSpan]:
        if self._options.separators:
            pieces = _split_at_separators(document.text, self._options.separators)
            return pack_segments(SegmentArray.from_segments(pieces), token_index, limits)
        if document.format == "code":
            return pack_segments(code_segments(document), token_index, limits)
        if document.format in _MARKDOWN_FORMATS:
            blocks = markdown_blocks(document)
        else:
            is_row = _EVERY_LINE if document.format in _ROW_FORMATS else _CELLS
            row = None if document.format in _PROSE_FORMATS else is_row
            blocks = heading_blocks(document, row, _CHARS_PER_TOKEN * limits.max_tokens)
        return pack_segments(structured_segments(token_index, blocks, limits.max_tokens), token_index, limits)


def _split_at_separators(text: str, separators: Sequence[str]) -> Iterator[Segment]:
    """The text between separators; each separator belongs to the segment before it."""
    ranks = {separator: rank for rank, separator in reversed(list(enumerate(separators))) if separator}
    pattern = re.compile("|".join(re.escape(separator) for separator in sorted(ranks, key=ranks.__getitem__)))
    start, cost = 0, _FIRST_SEPARATOR_COST
    for match in pattern.finditer(text) if ranks else ():
        following = _FIRST_SEPARATOR_COST + _SEPARATOR_COST_STEP * ranks[match.group()]
        span = trim_span(text, (start, match.end()))
        if span[0] == span[1]:  # consecutive separators: the stronger one counts
            cost = min(cost, following)
        else:
            yield Segment(*span, cost)
            cost = following
        start = match.end()
    span = trim_span(text, (start, len(text)))
    if span[0] < span[1]:
        yield Segment(*span, cost)
