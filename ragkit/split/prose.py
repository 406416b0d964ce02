"""Segments of running text: sentences, with the cost of a chunk boundary before each."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ragkit.split.base import CharSpan
from ragkit.split.lines import rstrip_end, skip_whitespace
from ragkit.split.segments import LEAD_IN_COST, LINE_COST, PARAGRAPH_COST, SENTENCE_COST, Segment
from ragkit.split.sentence_segmentation import sentence_spans

_LINE_BREAK = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")


def prose_segments(text: str, start: int = 0, end: int | None = None) -> Iterator[Segment]:
    """The sentences of `text[start:end]`, with costs by the white space before each in `text`."""
    before = start
    part = text[start:end]
    for first, last in sentence_spans(part):
        span = (start + first, start + last)
        yield Segment(*span, boundary_cost(text, before, span[0]))
        before = span[1]


def boundary_cost(text: str, end: int, start: int) -> int:
    """The cost of a boundary in the white space `text[end:start]` between two segments."""
    gap = text[end:start]
    if gap == " " or not gap:
        return SENTENCE_COST
    breaks = 2 if gap == "\n\n" else len(_LINE_BREAK.findall(gap))
    if not breaks:
        return SENTENCE_COST
    lead_in = LEAD_IN_COST if end and text[end - 1] in ":：" else 0
    return (PARAGRAPH_COST if breaks > 1 else LINE_COST) + lead_in


def trim_span(text: str, span: CharSpan) -> CharSpan:
    """The span without leading and trailing white space."""
    start, end = span
    first = skip_whitespace(text, start, end)
    return first, rstrip_end(text, first, end)
