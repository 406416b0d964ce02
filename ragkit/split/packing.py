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

from ragkit.split.base import CharSpan
from ragkit.split.segments import SegmentArray, fit_segments
from ragkit.split.text_boundaries import next_word_start
from ragkit.split.token_index import OffsetArray, TokenIndex

_EMPTY_CHUNK_COST = 1000  # the cost of a chunk with nothing in it; border costs are measured by it
_LOST_OVERLAP_COST = (
    4000  # more than a chunk of several pieces gains by giving up some overlap; less than tearing a block
)


@dataclass(frozen=True)
class ChunkLimits:
    """How long chunks may be, in tokens."""

    max_tokens: int
    """Most tokens of a chunk, what it carries over included; at least 1."""
    overlap: int
    """Most tokens that a chunk carries over; less than `limit`."""


def pack_segments(units: SegmentArray, ruler: TokenIndex, size: ChunkLimits) -> list[CharSpan]:
    """The spans of the chunks: every unit in at least one, rising in start and in end, `size.limit` tokens at most.

    Linear in the number of units.
    """
    units = fit_segments(units, ruler, size.max_tokens)
    if not len(units.starts):
        return []
    carries = _overlap_starts(units, ruler, size.overlap)
    borders = _cheapest_path(units, ruler, carries, size.max_tokens)
    return _chunk_spans(units, ruler, borders, (carries, size.max_tokens))


def _overlap_starts(units: SegmentArray, ruler: TokenIndex, overlap: int) -> OffsetArray:
    """Where a chunk would begin that carries over as many whole sentences as `overlap` holds, for each unit."""
    carries = units.starts.copy()
    if not overlap:
        return carries
    least = ruler.token_counts_before(units.ends[:-1]) - overlap
    resumes = np.append(units.overlap_starts, len(ruler.text))
    found = resumes[np.searchsorted(ruler.token_counts_before(units.overlap_starts), least)]
    carries[1:] = np.minimum(found, units.starts[1:])
    nothing_whole = (found >= units.starts[1:]) & ~units.atomic[:-1]
    for index in (np.flatnonzero(nothing_whole) + 1).tolist():
        offset = ruler.offset_after(int(least[index - 1]))
        carries[index] = next_word_start(ruler.text, offset, int(units.starts[index]))
    carries[units.starts_section] = units.starts[units.starts_section]
    return carries


def _cheapest_path(units: SegmentArray, ruler: TokenIndex, carries: OffsetArray, limit: int) -> list[int]:
    """Numbers of the units that chunks begin with, and the number of units at the end."""
    border_costs = [*units.costs.tolist(), 0]
    lacks = [_EMPTY_CHUNK_COST * lack * lack // (limit * limit) for lack in range(limit + 1)]
    carried = ruler.token_counts_before(carries).tolist()
    begins = ruler.token_counts_before(units.starts).tolist()
    ends = ruler.token_counts_before(units.ends).tolist()
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
                cost += _LOST_OVERLAP_COST
            end += 1
            if cost < cheapest[end]:
                cheapest[end], came_from[end] = cost, begin
    borders = [count]
    while borders[-1]:
        borders.append(came_from[borders[-1]])
    return borders[::-1]


def _chunk_spans(
    units: SegmentArray, ruler: TokenIndex, borders: list[int], carried: tuple[OffsetArray, int]
) -> list[CharSpan]:
    """The chunks between these borders, each with what it carries over from the one before."""
    carries, limit = carried
    spans: list[CharSpan] = []
    fresh_before = -1  # where the new text of the chunk before began
    for begin, stop in pairwise(borders):
        fresh, end = int(units.starts[begin]), int(units.ends[stop - 1])
        start = int(carries[begin])
        least = ruler.token_count_before(end) - limit
        if start < fresh and (start <= fresh_before or ruler.token_count_before(start) < least):
            token = max(least, ruler.token_count_before(fresh_before + 1))
            start = _overlap_start_after(units, ruler.text, ruler.offset_after(token), begin)
        spans.append((start, end))
        fresh_before = fresh
    return spans


def _overlap_start_after(units: SegmentArray, text: str, offset: int, begin: int) -> int:
    """Where the chunk that begins with this unit may begin its overlap when it must not be before `offset`."""
    fresh = int(units.starts[begin])
    place = int(np.searchsorted(units.overlap_starts, offset))
    if place < len(units.overlap_starts) and units.overlap_starts[place] < fresh:
        return int(units.overlap_starts[place])
    return fresh if units.atomic[begin - 1] else next_word_start(text, offset, fresh)
