"""The segments that chunks are packed from, and the cost of starting a chunk at each.

Segments that are too long for a chunk are split at words and characters, and boundaries between tiny segments are
thinned out. Sentences, blocks and lines of code are found in other modules.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragkit.split.base import CharSpan
from ragkit.split.text_boundaries import last_grapheme_break, next_grapheme_break
from ragkit.split.token_index import OffsetArray, TokenIndex

# Cost of a boundary, in thousandths of the cost of an empty chunk (see packing.py).
PARAGRAPH_COST = 0
LINE_COST = 60
SENTENCE_COST = 150
CLAUSE_COST = 220
WORD_COST = 600
CHARACTER_COST = 1500
LEAD_IN_COST = 250
"""Added after a colon, which introduces the next segment."""
LAST_RESORT_COST = 9000
"""More than a chunk can gain: used only if nothing else fits (after a heading, inside a block that fits)."""

_WORD_BOUNDARY = re.compile(r"\s+|(?<=[，、；：])(?=[^\s，、；：])")
_CLAUSE_ENDS = np.array([ord(mark) for mark in ",;:—–)|，、；："], np.uint32)
_NOISE_STEP = 20  # subtracted per halving, plus a tenth of the cost
_MAX_NOISE_COST = 500  # the noise does not grow with costs above this
_MAX_HALVINGS = 9
_NOISE_CONTEXT_CHARS = 8  # characters on each side that determine the noise
_NOISE_BLOCK = 4096  # boundaries at a time, whose characters stay in the CPU cache
_NOISE_FACTOR, _NOISE_SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(29)
_MAX_BOUNDARIES_PER_CHUNK = 16  # boundaries between tiny segments, per length of a chunk


class Segment(NamedTuple):
    """A sentence, line or block that a chunk contains as a whole if possible. Trimmed, except for indentation."""

    start: int
    end: int
    cost: int
    """Cost of starting a chunk here."""
    starts_section: bool = False
    """A chunk that starts here has no overlap with the previous one."""
    atomic: bool = False
    """A table row or a line of code: an overlap contains all of it or nothing."""


@dataclass(frozen=True)
class SegmentArray:
    """Segments in order, as columns."""

    starts: OffsetArray
    ends: OffsetArray
    costs: OffsetArray
    starts_section: NDArray[np.bool_]
    atomic: NDArray[np.bool_]
    overlap_starts: OffsetArray
    """Where an overlap may start, ascending: sentences, lines, and words of segments that are longer than a chunk."""

    @classmethod
    def from_segments(cls, segments: Iterable[Segment], overlap_starts: Iterable[int] | None = None) -> SegmentArray:
        """From segments; without `overlap_starts`, an overlap may start at each of them."""
        rows = np.fromiter(chain.from_iterable(segments), np.int64).reshape(-1, len(Segment._fields))
        starts, ends, costs, starts_section, atomic = rows.T.copy()
        overlap_starts = starts if overlap_starts is None else np.fromiter(overlap_starts, np.int64)
        return cls(starts, ends, costs, starts_section.astype(bool), atomic.astype(bool), overlap_starts)


def fit_segments(segments: SegmentArray, token_index: TokenIndex, limit: int) -> SegmentArray:
    """The same text in segments of at most `limit` tokens, with a limited number of boundaries per chunk."""
    return _thin_boundaries(_add_noise(_split_oversized(segments, token_index, limit), token_index), token_index, limit)


def _add_noise(segments: SegmentArray, token_index: TokenIndex) -> SegmentArray:
    """The same segments, with the cost of each boundary reduced by an amount derived from the text next to it.

    Equal surroundings give equal amounts, so that boundaries after an edit fall at the same places again. Amounts are
    distributed exponentially (each step is half as frequent as the previous one), so that one boundary stands out
    among many as clearly as among few. Expensive boundaries vary more than cheap ones, because all word boundaries
    cost the same.
    """
    starts, ends = segments.starts[1:], segments.ends[:-1]
    if not len(starts):
        return segments
    costs = segments.costs.copy()
    for first in range(0, len(starts), _NOISE_BLOCK):
        block = slice(first, first + _NOISE_BLOCK)
        mixed = _context_hashes(token_index.code_points, ends[block], starts[block])
        # log2, linear between powers of two: exact, so equal on every machine
        mantissa, exponent = np.frexp((mixed >> np.uint64(32)).astype(np.float64) + 1)
        halvings = np.minimum(32 - exponent + 2 * (1 - mantissa), _MAX_HALVINGS)
        reduced = costs[1:][block]  # a view
        scale = _NOISE_STEP + np.minimum(np.maximum(reduced, 0), _MAX_NOISE_COST) // 10
        reduced -= (scale * halvings).astype(np.int64)
    return replace(segments, costs=costs)


def _context_hashes(code_points: NDArray[np.uint32], ends: OffsetArray, starts: OffsetArray) -> NDArray[np.uint64]:
    """A hash of the characters before each end and after each start: (n,)."""
    places = np.empty((_NOISE_CONTEXT_CHARS, 2, len(starts)), np.int64)
    steps = np.arange(_NOISE_CONTEXT_CHARS)[:, None]
    np.subtract(ends - 1, steps, out=places[:, 0])
    np.add(starts, steps, out=places[:, 1])
    np.minimum(np.maximum(places, 0, out=places), len(code_points) - 1, out=places)
    mixed = np.zeros(len(starts), np.uint64)
    shifted = np.empty_like(mixed)
    for characters in code_points.take(places.reshape(-1, len(starts))):
        mixed ^= characters
        mixed *= _NOISE_FACTOR
        mixed ^= np.right_shift(mixed, _NOISE_SHIFT, out=shifted)
    return mixed


def _split_oversized(segments: SegmentArray, token_index: TokenIndex, limit: int) -> SegmentArray:
    sizes = token_index.token_counts_before(segments.ends) - token_index.token_counts_before(segments.starts)
    too_long = np.flatnonzero(sizes > limit)
    if not len(too_long):
        return segments
    parts: list[SegmentArray] = []
    done = 0
    for index in too_long.tolist():
        parts.append(_slice_segments(segments, slice(done, index)))
        parts.append(_split_into_words(segments, index, token_index, limit))
        done = index + 1
    parts.append(_slice_segments(segments, slice(done, None)))
    overlap_starts = np.concatenate([segments.overlap_starts, *(part.overlap_starts for part in parts)])
    columns = zip(*(_columns(part) for part in parts), strict=True)
    starts, ends, costs, starts_section, atomic = (np.concatenate(column) for column in columns)
    return SegmentArray(
        starts, ends, costs, starts_section.astype(bool), atomic.astype(bool), np.sort(overlap_starts, kind="stable")
    )


def _columns(segments: SegmentArray) -> tuple[NDArray[np.int64] | NDArray[np.bool_], ...]:
    return segments.starts, segments.ends, segments.costs, segments.starts_section, segments.atomic


def _slice_segments(segments: SegmentArray, rows: slice) -> SegmentArray:
    starts, ends, costs = segments.starts[rows], segments.ends[rows], segments.costs[rows]
    starts_section, atomic = segments.starts_section[rows], segments.atomic[rows]
    return SegmentArray(starts, ends, costs, starts_section, atomic, np.empty(0, np.int64))


def _split_into_words(segments: SegmentArray, index: int, token_index: TokenIndex, limit: int) -> SegmentArray:
    """The words of a segment that is longer than a chunk."""
    start, end = int(segments.starts[index]), int(segments.ends[index])
    matches = _WORD_BOUNDARY.finditer(token_index.text, start + 1, end)
    gaps = np.fromiter((offset for match in matches for offset in match.span()), np.int64).reshape(-1, 2)
    starts, ends = np.append(start, gaps[:, 1]), np.append(gaps[:, 0], end)
    at_clause = np.isin(token_index.code_points[np.maximum(starts - 1, 0)], _CLAUSE_ENDS)
    at_clause[1:] |= np.isin(token_index.code_points[ends[:-1] - 1], _CLAUSE_ENDS)
    costs = np.where(at_clause, CLAUSE_COST, WORD_COST)
    costs[0] = segments.costs[index]
    sizes = token_index.token_counts_before(ends) - token_index.token_counts_before(starts)
    max_word_tokens = max(1, limit // 4)
    long = np.flatnonzero(sizes > max_word_tokens)
    words = zip(starts[long].tolist(), ends[long].tolist(), strict=True)
    cuts = np.array([cut for word in words for cut in _breaks_in_word(token_index, word, limit)], np.int64)
    order = np.argsort(np.concatenate([starts, cuts]), kind="stable")
    all_starts = np.concatenate([starts, cuts])[order]
    all_ends = np.sort(np.concatenate([ends, cuts]), kind="stable")
    all_costs = np.concatenate([costs, np.full(len(cuts), CHARACTER_COST, np.int64)])[order]
    starts_section = np.zeros(len(all_starts), bool)
    starts_section[0] = segments.starts_section[index]
    return SegmentArray(all_starts, all_ends, all_costs, starts_section, np.zeros(len(all_starts), bool), all_starts)


def _breaks_in_word(token_index: TokenIndex, word: CharSpan, limit: int) -> Iterator[int]:
    """Breaks inside a word, an eighth of a chunk apart, between grapheme clusters."""
    position, end = word
    step = max(1, limit // 8)
    while True:
        before = token_index.token_count_before(position)
        target = token_index.offset_within(before + step)
        if target <= position:  # the next character alone has more tokens
            target = token_index.offset_after(before + 1)
        cut = last_grapheme_break(token_index.text, position, target) if target < end else None
        if cut is None:
            cut = next_grapheme_break(token_index.text, target, min(end, token_index.offset_within(before + limit)))
        if cut >= end:
            return
        yield cut
        position = cut


def _thin_boundaries(segments: SegmentArray, token_index: TokenIndex, limit: int) -> SegmentArray:
    """Between adjacent tiny segments, keep only the best boundary per sixteenth of a chunk.

    A chunk of 200 tokens has about 16 possible boundaries between words, not 200. Only boundaries are dropped, never
    text.
    """
    step = limit // _MAX_BOUNDARIES_PER_CHUNK
    if step < 2 or len(segments.starts) < 2:
        return segments
    first = token_index.token_counts_before(segments.starts)
    tiny = token_index.token_counts_before(segments.ends) - first <= step // 2
    rows = np.flatnonzero(tiny[1:] & tiny[:-1]) + 1
    if not len(rows):
        return segments
    bucket = first[rows] // step
    bucket_starts = np.flatnonzero(np.append(True, bucket[1:] != bucket[:-1]))
    # the cheapest boundary of each bucket, the first of equal ones: cost and row in one number
    best = np.minimum.reduceat((segments.costs[rows] << 40) + rows, bucket_starts) & ((1 << 40) - 1)
    kept = np.ones(len(segments.starts), bool)
    kept[rows] = False
    kept[best] = True
    begins = np.flatnonzero(kept)
    ends = np.append(segments.ends[begins[1:] - 1], segments.ends[-1])
    atomic = segments.atomic[np.append(begins[1:] - 1, len(kept) - 1)]
    starts, costs, starts_section = segments.starts[begins], segments.costs[begins], segments.starts_section[begins]
    return SegmentArray(starts, ends, costs, starts_section, atomic, segments.overlap_starts)
