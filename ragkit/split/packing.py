"""Pack segments into chunks, with overlap.

Finds the cheapest path through all possible boundaries, like line breaking in typesetting (Knuth and Plass, Software:
Practice and Experience 11, 1981). A chunk that is not full costs the square of its unused length; a boundary costs
more the closer the texts on both sides belong together. The cost of a boundary includes some noise derived from the
text next to it, so that an edit changes only nearby boundaries; greedy packing would move all later ones.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from ragkit.split.base import CharSpan
from ragkit.split.segments import SegmentArray, fit_segments
from ragkit.split.token_index import OffsetArray, TokenIndex

_EMPTY_CHUNK_COST = 1000  # the unit of boundary costs
_LOST_OVERLAP_COST = 4000  # more than a chunk gains by giving up overlap; less than splitting a block


@dataclass(frozen=True)
class ChunkLimits:
    """The limits of a chunk, in tokens."""

    max_tokens: int
    """Maximum length of a chunk, including its overlap; at least 1."""
    overlap: int
    """Length of the overlap, at most; a single sentence may have twice this length, up to half of `max_tokens`. Less
    than `max_tokens`."""


def pack_segments(segments: SegmentArray, token_index: TokenIndex, limits: ChunkLimits) -> list[CharSpan]:
    """The spans of the chunks, ascending by start and by end, of at most `limits.max_tokens` tokens.

    Every segment is in at least one span. Linear in the number of segments.
    """
    segments = fit_segments(segments, token_index, limits.max_tokens)
    if not len(segments.starts):
        return []
    carry_starts = _overlap_starts(segments, token_index, limits)
    boundaries = _cheapest_path(segments, token_index, carry_starts, limits.max_tokens)
    return _chunk_spans(segments, token_index, boundaries, carry_starts, limits.max_tokens)


def _overlap_starts(segments: SegmentArray, token_index: TokenIndex, limits: ChunkLimits) -> OffsetArray:
    """For each segment, the start of a chunk that overlaps the previous one by as many sentences as fit, or by a single
    longer one: an overlap begins where a sentence does."""
    carry_starts = segments.starts.copy()
    if not limits.overlap:
        return carry_starts
    before, starts = segments.overlap_starts, segments.starts[1:]
    tokens = token_index.token_counts_before(before)
    ends = token_index.token_counts_before(segments.ends[:-1])
    first = np.searchsorted(tokens, ends - limits.overlap)
    last = np.searchsorted(before, starts) - 1
    is_near = ends - tokens[last] <= min(2 * limits.overlap, limits.max_tokens // 2)
    is_long = (first > last) & (last >= 0) & ~segments.atomic[:-1] & is_near
    first[is_long] = last[is_long]
    carry_starts[1:] = np.minimum(np.append(before, len(token_index.text))[first], starts)
    carry_starts[segments.starts_section] = segments.starts[segments.starts_section]
    return carry_starts


def _cheapest_path(segments: SegmentArray, token_index: TokenIndex, carry_starts: OffsetArray, limit: int) -> list[int]:
    """The indices of the segments that start a chunk, and the number of segments."""
    boundary_costs = [*segments.costs.tolist(), 0]
    fill_costs = _fill_costs(limit)
    carry_tokens = token_index.token_counts_before(carry_starts).tolist()
    token_starts = token_index.token_counts_before(segments.starts).tolist()
    ends = token_index.token_counts_before(segments.ends).tolist()
    count = len(ends)
    best_costs = [0] + [1 << 62] * count
    previous = [0] * (count + 1)
    for first in range(count):
        cost_before, max_end = best_costs[first], carry_tokens[first] + limit
        last = bisect_right(ends, token_starts[first] + limit, first)  # those up to here fit without overlap
        fitting = bisect_right(ends, max_end, first, last)
        for end in range(first + 1, fitting + 1):
            cost = cost_before + boundary_costs[end] + fill_costs[max_end - ends[end - 1]]
            if cost < best_costs[end]:
                best_costs[end], previous[end] = cost, first
        for end in range(fitting + 1, last + 1):
            # a single long segment may replace some of the overlap at no cost
            cost = cost_before + boundary_costs[end] + (_LOST_OVERLAP_COST if end > first + 1 else 0)
            if cost < best_costs[end]:
                best_costs[end], previous[end] = cost, first
    boundaries = [count]
    while boundaries[-1]:
        boundaries.append(previous[boundaries[-1]])
    return boundaries[::-1]


@lru_cache(maxsize=8)
def _fill_costs(limit: int) -> list[int]:
    """The cost of a chunk with each number of unused tokens, from 0 to `limit`."""
    return [_EMPTY_CHUNK_COST * unused * unused // (limit * limit) for unused in range(limit + 1)]


def _chunk_spans(
    segments: SegmentArray, token_index: TokenIndex, boundaries: list[int], carry_starts: OffsetArray, limit: int
) -> list[CharSpan]:
    """The chunks between these boundaries, with overlap."""
    spans: list[CharSpan] = []
    last_new_start = -1  # of the previous chunk, without its overlap
    for first, last in pairwise(boundaries):
        new_start, end = int(segments.starts[first]), int(segments.ends[last - 1])
        start = int(carry_starts[first])
        min_token = token_index.token_count_before(end) - limit
        if start < new_start and (start <= last_new_start or token_index.token_count_before(start) < min_token):
            token = max(min_token, token_index.token_count_before(last_new_start + 1))
            start = _overlap_start_after(segments, token_index.offset_after(token), first)
        spans.append((start, end))
        last_new_start = new_start
    return spans


def _overlap_start_after(segments: SegmentArray, offset: int, first: int) -> int:
    """The start of the overlap of a chunk that starts with segment `first`, at or after `offset`."""
    index = int(np.searchsorted(segments.overlap_starts, offset))
    return min(int(start) for start in (*segments.overlap_starts[index : index + 1], segments.starts[first]))
