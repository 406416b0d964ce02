"""The pieces that chunks are packed from, and what it costs to begin a chunk at each.

Finds no structure itself: sentences, blocks and lines of code come from the modules that read them. Here
pieces that are too long for a chunk are cut at words and characters, and crowds of tiny ones are thinned out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragkit.split.base import CharSpan
from ragkit.split.text_boundaries import last_grapheme_break, next_grapheme_break
from ragkit.split.token_index import OffsetArray, TokenIndex

# What it costs to begin a chunk at a border, in thousandths of what an empty chunk costs (see pack.py).
PARAGRAPH_COST = 0
LINE_COST = 60
SENTENCE_COST = 150
CLAUSE_COST = 220
WORD_COST = 600
CHARACTER_COST = 1500
LEAD_IN_COST = 250
"""More, when the piece before ends with a colon: what it announces comes next."""
LAST_RESORT_COST = 9000
"""More than a chunk can gain: only where nothing else fits (behind a heading, inside a block that fits)."""

_WORD_BOUNDARY = re.compile(r"\s+|(?<=[，、；：])(?=[^\s，、；：])")
_CLAUSE_ENDS = np.array([ord(mark) for mark in ",;:—–)，、；："], np.uint32)
_NOISE_STEP = 20  # what a border gets cheaper with each halving, and a tenth of what it costs
_MAX_NOISE_COST = 500  # a border that costs more varies no more than one that costs this
_MAX_HALVINGS = 9
_NOISE_CONTEXT_CHARS = 8  # characters on each side that it is drawn from
_MAX_BOUNDARIES_PER_CHUNK = 16  # borders among tiny pieces that are kept for each chunk's length


class Segment(NamedTuple):
    """A sentence, a line, a block: text that a chunk takes in whole if it can. Trimmed, except for indentation."""

    start: int
    end: int
    cost: int
    """Of beginning a chunk here."""
    starts_section: bool = False
    """A new subject: a chunk that begins here carries nothing over from the one before."""
    atomic: bool = False
    """A row or a line of code: an overlap takes in the whole of it or nothing, never its last words."""


@dataclass(frozen=True)
class SegmentArray:
    """Pieces in order, column by column."""

    starts: OffsetArray
    ends: OffsetArray
    costs: OffsetArray
    starts_section: NDArray[np.bool_]
    atomic: NDArray[np.bool_]
    overlap_starts: OffsetArray
    """Where an overlap may begin, in rising order: sentences, lines, and words of what is longer than a chunk."""

    @classmethod
    def from_segments(cls, pieces: Iterable[Segment], resumes: Iterable[int] | None = None) -> SegmentArray:
        """From pieces; an overlap may begin at each of them unless `resumes` says where."""
        rows = np.array(list(pieces), np.int64).reshape(-1, len(Segment._fields))
        starts, ends, costs, hard, rigid = rows.T.copy()
        again = starts if resumes is None else np.fromiter(resumes, np.int64)
        return cls(starts, ends, costs, hard.astype(bool), rigid.astype(bool), again)


def fit_segments(units: SegmentArray, ruler: TokenIndex, limit: int) -> SegmentArray:
    """The same text in units of at most `limit` tokens each, and not too many of them for each chunk."""
    return _thin_boundaries(_add_noise(_split_oversized(units, ruler, limit), ruler), ruler, limit)


def _add_noise(units: SegmentArray, ruler: TokenIndex) -> SegmentArray:
    """The same units, each border made cheaper by an amount drawn from the text beside it.

    Equal surroundings give an equal amount wherever they stand: this is what lets borders fall at the same
    places again behind an edit. Amounts are spread as logarithms are (each step half as frequent as the one
    below), so that among many borders one stands out as clearly as among few. Bad borders vary more than
    good ones: among words, one border is as bad as the next, and the text alone must decide.
    """
    starts, ends = units.starts[1:], units.ends[:-1]
    last = len(ruler.code_points) - 1
    mixed = np.zeros(len(starts), np.uint64)
    for step in range(_NOISE_CONTEXT_CHARS):
        for places in (ends - 1 - step, starts + step):
            mixed = (mixed ^ ruler.code_points[np.clip(places, 0, last)]) * np.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> np.uint64(29)
    # log2 with its curve drawn straight between powers of two: exact, so equal on every machine
    mantissa, exponent = np.frexp((mixed >> np.uint64(32)).astype(np.float64) + 1)
    halvings = np.minimum(32 - exponent + 2 * (1 - mantissa), _MAX_HALVINGS)
    scale = _NOISE_STEP + np.clip(units.costs[1:], 0, _MAX_NOISE_COST) // 10
    costs = units.costs.copy()
    costs[1:] -= (scale * halvings).astype(np.int64)
    return replace(units, costs=costs)


def _split_oversized(units: SegmentArray, ruler: TokenIndex, limit: int) -> SegmentArray:
    sizes = ruler.token_counts_before(units.ends) - ruler.token_counts_before(units.starts)
    too_long = np.flatnonzero(sizes > limit)
    if not len(too_long):
        return units
    parts: list[SegmentArray] = []
    done = 0
    for index in too_long.tolist():
        parts.append(_slice_segments(units, slice(done, index)))
        parts.append(_split_into_words(units, index, ruler, limit))
        done = index + 1
    parts.append(_slice_segments(units, slice(done, None)))
    again = np.sort(np.concatenate([units.overlap_starts, *(part.overlap_starts for part in parts)]), kind="stable")
    columns = zip(*(_columns(part) for part in parts), strict=True)
    starts, ends, costs, hard, rigid = (np.concatenate(column) for column in columns)
    return SegmentArray(starts, ends, costs, hard.astype(bool), rigid.astype(bool), again)


def _columns(units: SegmentArray) -> tuple[NDArray[np.int64] | NDArray[np.bool_], ...]:
    return units.starts, units.ends, units.costs, units.starts_section, units.atomic


def _slice_segments(units: SegmentArray, rows: slice) -> SegmentArray:
    starts, ends, costs = units.starts[rows], units.ends[rows], units.costs[rows]
    return SegmentArray(starts, ends, costs, units.starts_section[rows], units.atomic[rows], np.empty(0, np.int64))


def _split_into_words(units: SegmentArray, index: int, ruler: TokenIndex, limit: int) -> SegmentArray:
    """One unit that is longer than a chunk, word by word."""
    start, end = int(units.starts[index]), int(units.ends[index])
    found = _WORD_BOUNDARY.finditer(ruler.text, start + 1, end)
    gaps = np.fromiter((edge for gap in found for edge in gap.span()), np.int64).reshape(-1, 2)
    starts, ends = np.append(start, gaps[:, 1]), np.append(gaps[:, 0], end)
    at_clause = np.isin(ruler.code_points[np.maximum(starts - 1, 0)], _CLAUSE_ENDS)
    at_clause[1:] |= np.isin(ruler.code_points[ends[:-1] - 1], _CLAUSE_ENDS)
    costs = np.where(at_clause, CLAUSE_COST, WORD_COST)
    costs[0] = units.costs[index]
    sizes = ruler.token_counts_before(ends) - ruler.token_counts_before(starts)
    most = max(1, limit // 4)
    long = np.flatnonzero(sizes > most)
    inside = [
        cut for word in long.tolist() for cut in _breaks_in_word(ruler, (int(starts[word]), int(ends[word])), limit)
    ]
    cuts = np.array(inside, np.int64)
    order = np.argsort(np.concatenate([starts, cuts]), kind="stable")
    all_starts = np.concatenate([starts, cuts])[order]
    all_ends = np.sort(np.concatenate([ends, cuts]), kind="stable")
    all_costs = np.concatenate([costs, np.full(len(cuts), CHARACTER_COST, np.int64)])[order]
    hard = np.zeros(len(all_starts), bool)
    hard[0] = units.starts_section[index]
    return SegmentArray(all_starts, all_ends, all_costs, hard, np.zeros(len(all_starts), bool), all_starts)


def _breaks_in_word(ruler: TokenIndex, word: CharSpan, limit: int) -> Iterator[int]:
    """Cuts between characters of a word, an eighth of a chunk apart where no cluster is torn by it."""
    position, end = word
    step = max(1, limit // 8)
    while True:
        before = ruler.token_count_before(position)
        wanted = ruler.offset_within(before + step)
        if wanted <= position:  # the next character alone has more tokens
            wanted = ruler.offset_after(before + 1)
        cut = last_grapheme_break(ruler.text, position, wanted) if wanted < end else None
        if cut is None:
            cut = next_grapheme_break(ruler.text, wanted, min(end, ruler.offset_within(before + limit)))
        if cut >= end:
            return
        yield cut
        position = cut


def _thin_boundaries(units: SegmentArray, ruler: TokenIndex, limit: int) -> SegmentArray:
    """Of tiny units beside each other, only the best border in each sixteenth of a chunk is kept.

    A chunk of 200 tokens may begin at some 16 places among words, not at 200; what is dropped is a
    border, never text.
    """
    step = limit // _MAX_BOUNDARIES_PER_CHUNK
    if step < 2 or len(units.starts) < 2:
        return units
    first = ruler.token_counts_before(units.starts)
    tiny = ruler.token_counts_before(units.ends) - first <= step // 2
    rows = np.flatnonzero(tiny[1:] & tiny[:-1]) + 1
    if not len(rows):
        return units
    bucket = first[rows] // step
    bucket_starts = np.flatnonzero(np.append(True, bucket[1:] != bucket[:-1]))
    # the cheapest border of each bucket, the first of equals: cost and row in one number
    best = np.minimum.reduceat((units.costs[rows] << 40) + rows, bucket_starts) & ((1 << 40) - 1)
    kept = np.ones(len(units.starts), bool)
    kept[rows] = False
    kept[best] = True
    begins = np.flatnonzero(kept)
    ends = np.append(units.ends[begins[1:] - 1], units.ends[-1])
    rigid = units.atomic[np.append(begins[1:] - 1, len(kept) - 1)]
    return SegmentArray(
        units.starts[begins], ends, units.costs[begins], units.starts_section[begins], rigid, units.overlap_starts
    )
