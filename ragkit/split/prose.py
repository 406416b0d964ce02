"""Pieces of running text: sentences, with the cost of the border before each."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ragkit.split.base import Span
from ragkit.split.lines import first_visible, rstripped
from ragkit.split.sentences import sentence_spans
from ragkit.split.units import LEAD_IN, LINE, PARAGRAPH, SENTENCE, Piece

_BREAKS = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")


def prose_pieces(text: str, start: int = 0, end: int | None = None) -> Iterator[Piece]:
    """The sentences of `text[start:end]`; the first one costs what the border before it costs in `text`."""
    before = start
    part = text[start:end]
    for first, last in sentence_spans(part):
        piece = (start + first, start + last)
        yield Piece(*piece, border_cost(text, before, piece[0]))
        before = piece[1]


def border_cost(text: str, end: int, start: int) -> int:
    """What the white space `text[end:start]` between two pieces says about the border there."""
    gap = text[end:start]
    if gap == " " or not gap:
        return SENTENCE
    breaks = 2 if gap == "\n\n" else len(_BREAKS.findall(gap))
    if not breaks:
        return SENTENCE
    lead_in = LEAD_IN if end and text[end - 1] in ":：" else 0
    return (PARAGRAPH if breaks > 1 else LINE) + lead_in


def trimmed(text: str, span: Span) -> Span:
    """The span without the white space at both of its ends."""
    start, end = span
    first = first_visible(text, start, end)
    return first, rstripped(text, first, end)
