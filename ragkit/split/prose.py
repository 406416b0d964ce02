"""Pieces of running text: sentences, with the cost of the border before each."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ragkit.split.base import CharSpan
from ragkit.split.lines import rstrip_end, skip_whitespace
from ragkit.split.segments import LEAD_IN_COST, LINE_COST, PARAGRAPH_COST, SENTENCE_COST, Segment
from ragkit.split.sentence_segmentation import sentence_spans

_LINE_BREAK = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")


def prose_segments(text: str, start: int = 0, end: int | None = None) -> Iterator[Segment]:
    """The sentences of `text[start:end]`; the first one costs what the border before it costs in `text`."""
    before = start
    part = text[start:end]
    for first, last in sentence_spans(part):
        piece = (start + first, start + last)
        yield Segment(*piece, boundary_cost(text, before, piece[0]))
        before = piece[1]


def boundary_cost(text: str, end: int, start: int) -> int:
    """What the white space `text[end:start]` between two pieces says about the border there."""
    gap = text[end:start]
    if gap == " " or not gap:
        return SENTENCE_COST
    breaks = 2 if gap == "\n\n" else len(_LINE_BREAK.findall(gap))
    if not breaks:
        return SENTENCE_COST
    lead_in = LEAD_IN_COST if end and text[end - 1] in ":：" else 0
    return (PARAGRAPH_COST if breaks > 1 else LINE_COST) + lead_in


def trim_span(text: str, span: CharSpan) -> CharSpan:
    """The span without the white space at both of its ends."""
    start, end = span
    first = skip_whitespace(text, start, end)
    return first, rstrip_end(text, first, end)
