"""Choose where chunks begin, and how much each carries over from the one before.

The choice is the cheapest path through all borders, as a paragraph is broken into lines in typesetting
(Knuth and Plass, Software: Practice and Experience 11, 1981): a chunk that is not full costs the square of
what it lacks, a border costs more the more it tears apart. Each border's cost holds a little noise drawn
from the text beside it. So the best path through a stretch does not depend on how the text far before it
was cut, and an edit moves the borders near it only; packing from the top would move them all.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ragkit.split.base import Span
from ragkit.split.cuts import word_after
from ragkit.split.measure import Offsets, Ruler
from ragkit.split.units import Units, fitted

_EMPTY_CHUNK = 1000  # the cost of a chunk with nothing in it; border costs are measured by it
_SQUEEZED = 4000  # more than a chunk of several pieces gains by giving up some overlap; less than tearing a block


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
    nothing_whole = (found >= units.starts[1:]) & ~units.rigid[:-1]
    for index in (np.flatnonzero(nothing_whole) + 1).tolist():
        offset = ruler.offset_after(int(least[index - 1]))
        carries[index] = word_after(ruler.text, offset, int(units.starts[index]))
    carries[units.hard] = units.starts[units.hard]
    return carries


def _cheapest_path(units: Units, ruler: Ruler, carries: Offsets, limit: int) -> list[int]:
    """Numbers of the units that chunks begin with, and the number of units at the end."""
    border_costs = [*units.costs.tolist(), 0]
    lacks = [_EMPTY_CHUNK * lack * lack // (limit * limit) for lack in range(limit + 1)]
    carried = ruler.tokens_before(carries).tolist()
    begins = ruler.tokens_before(units.starts).tolist()
    ends = ruler.tokens_before(units.ends).tolist()
    count = len(ends)
    cheapest = [0] + [1 << 62] * count
    came_from = [0] * (count + 1)
    for begin in range(count):
        so_far, room, most = cheapest[begin], carried[begin] + limit, begins[begin] + limit
        end = begin
        while end < count and ends[end] <= most:
            cost = so_far + border_costs[end + 1]
            lack = room - ends[end]
            if lack >= 0:
                cost += lacks[lack]
            elif end > begin:  # a single long unit may push out some of the overlap for nothing
                cost += _SQUEEZED
            end += 1
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
    for begin, stop in pairwise(borders):
        fresh, end = int(units.starts[begin]), int(units.ends[stop - 1])
        start = int(carries[begin])
        least = ruler.count_before(end) - limit
        if start < fresh and (start <= fresh_before or ruler.count_before(start) < least):
            token = max(least, ruler.count_before(fresh_before + 1))
            start = _carry_from(units, ruler.text, ruler.offset_after(token), begin)
        spans.append((start, end))
        fresh_before = fresh
    return spans


def _carry_from(units: Units, text: str, offset: int, begin: int) -> int:
    """Where the chunk that begins with this unit may begin its overlap when it must not be before `offset`."""
    fresh = int(units.starts[begin])
    place = int(np.searchsorted(units.resumes, offset))
    if place < len(units.resumes) and units.resumes[place] < fresh:
        return int(units.resumes[place])
    return fresh if units.rigid[begin - 1] else word_after(text, offset, fresh)
