"""Choose where chunks begin, and how much each carries over from the one before.

The choice is the cheapest path through all borders, as a paragraph is broken into lines in typesetting
(Knuth and Plass, Software: Practice and Experience 11, 1981): a chunk that is not full costs the square of
what it lacks, a border costs more the more it tears apart. Each border's cost holds a little noise drawn
from the text beside it. So the best path through a stretch does not depend on how the text far before it
was cut, and an edit moves the borders near it only; packing from the top would move them all.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from ragkit.split.base import Span
from ragkit.split.graphemes import next_cut
from ragkit.split.measure import Offsets, Ruler
from ragkit.split.units import Units, fitted

_EMPTY_CHUNK = 1000  # the cost of a chunk with nothing in it; border costs are measured by it
_WORD_START = re.compile(r"(?<=\s)\S")


@dataclass(frozen=True)
class Size:
    """How long chunks may be, in tokens."""

    limit: int
    """Most tokens of a chunk, what it carries over included; at least 1."""
    overlap: int
    """Most tokens that a chunk carries over; less than `limit`."""


def pack(units: Units, ruler: Ruler, size: Size) -> list[Span]:
    """The spans of the chunks: every unit in at least one, rising in start and in end, `size.limit` tokens at most.

    Linear in the number of units.
    """
    units = fitted(units, ruler, size.limit)
    if not len(units.starts):
        return []
    carries = _carries(units, ruler, size.overlap)
    borders = _cheapest_path(units, ruler, carries, size.limit)
    return _spans(units, ruler, borders, (carries, size.limit))


def _carries(units: Units, ruler: Ruler, overlap: int) -> Offsets:
    """Where a chunk would begin that carries over as many whole sentences as `overlap` holds, for each unit."""
    carries = units.starts.copy()
    if not overlap:
        return carries
    least = ruler.tokens_before(units.ends[:-1]) - overlap
    resumes = np.append(units.resumes, len(ruler.text))
    found = resumes[np.searchsorted(ruler.tokens_before(units.resumes), least)]
    carries[1:] = np.minimum(found, units.starts[1:])
    for index in (np.flatnonzero(found >= units.starts[1:]) + 1).tolist():
        carries[index] = _word_after(ruler, int(least[index - 1]), int(units.starts[index]))
    carries[units.hard] = units.starts[units.hard]
    return carries


def _word_after(ruler: Ruler, token: int, end: int) -> int:
    """The first word that begins at or after this token and before `end`; else the token itself; else `end`."""
    offset = ruler.offset_after(max(0, token))
    if offset >= end:
        return end
    word = _WORD_START.search(ruler.text, offset, end)
    return word.start() if word else next_cut(ruler.text, offset, end)


def _cheapest_path(units: Units, ruler: Ruler, carries: Offsets, limit: int) -> list[int]:
    """Numbers of the units that chunks begin with, and the number of units at the end."""
    border_costs = [*units.costs.tolist(), 0]
    lacks = [_EMPTY_CHUNK * lack * lack // (limit * limit) for lack in range(limit + 1)]
    begins = ruler.tokens_before(carries).tolist()
    ends = ruler.tokens_before(units.ends).tolist()
    count = len(ends)
    cheapest = [0] + [1 << 62] * count
    came_from = [0] * (count + 1)
    for begin in range(count):
        so_far, room = cheapest[begin], begins[begin] + limit
        end = begin
        while end < count and (ends[end] <= room or end == begin):
            lack = max(0, room - ends[end])  # below 0: one unit that leaves less room for the overlap
            end += 1
            cost = so_far + lacks[lack] + border_costs[end]
            if cost < cheapest[end]:
                cheapest[end], came_from[end] = cost, begin
    borders = [count]
    while borders[-1]:
        borders.append(came_from[borders[-1]])
    return borders[::-1]


def _spans(units: Units, ruler: Ruler, borders: list[int], carried: tuple[Offsets, int]) -> list[Span]:
    """The chunks between these borders, each with what it carries over from the one before."""
    carries, limit = carried
    spans: list[Span] = []
    fresh_before = -1  # where the new text of the chunk before began
    for begin, stop in zip(borders, borders[1:], strict=False):
        fresh, end = int(units.starts[begin]), int(units.ends[stop - 1])
        start = int(carries[begin])
        least = ruler.count_before(end) - limit
        if start < fresh and (start <= fresh_before or ruler.count_before(start) < least):
            token = max(least, ruler.count_before(fresh_before + 1))
            start = _sentence_after(units, ruler, token, fresh)
        spans.append((start, end))
        fresh_before = fresh
    return spans


def _sentence_after(units: Units, ruler: Ruler, token: int, end: int) -> int:
    place = int(np.searchsorted(units.resumes, ruler.offset_after(token)))
    if place < len(units.resumes) and units.resumes[place] < end:
        return int(units.resumes[place])
    return _word_after(ruler, token, end)
