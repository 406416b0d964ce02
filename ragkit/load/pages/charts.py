"""Files that are one chart: the numbers along its axes and its marks are no text; its title, labels and legend are.

Independent of the PDF library.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ragkit.load.pages.page import CAPTION, PdfPage, Piece
from ragkit.load.pages.tables.open import is_prose

MAX_CHART_CHARS = 3000
"""A page with more text is no chart."""
MAX_CHART_PAGES = 40
"""A file with more pages is no collection of charts."""
MAX_TITLES = 2
"""Pieces of a chart as long as a line of a paragraph: its title and subtitle."""
MIN_IDEOGRAPHS = 14
"""A line of Chinese, Japanese or Korean with as many signs is one of a paragraph."""
MIN_TICKS = 3
"""Numbers of an axis, at least."""
SAME_EDGE = 2.0
"""Points by which the numbers of an upright axis may be out of line."""

_NUMBER = re.compile(r"[-−–]?\d[\d,]{0,20}(?:\.\d{1,20})?(?:[eE]-?\d{1,3})?%?")
_IDEOGRAPH = re.compile(r"[\u3040-\u9fff\uac00-\ud7a3]")
_WORD = re.compile(r"[^\W\d_]{2}")


def has_paragraph(page: PdfPage) -> bool:
    """Whether a page has more lines of prose, or more text, than the titles of a chart, or a caption."""
    texts = [piece.text for piece in page.pieces]
    lines = sum(is_prose(piece) or len(_IDEOGRAPH.findall(piece.text)) >= MIN_IDEOGRAPHS for piece in page.pieces)
    return lines > MAX_TITLES or sum(map(len, texts)) > MAX_CHART_CHARS or any(map(CAPTION.match, texts))


def find_chart_words(page: PdfPage) -> PdfPage | None:
    """The page without the numbers along the axes and the marks, if it is one chart; None if it is not.

    A chart has an upright axis, whose numbers rise in equal steps or by one factor, no paragraph, and at most as many
    numbers elsewhere as along its axes: a table has more, and those of lists and calendars rise downwards.
    """
    pieces = page.pieces
    if has_paragraph(page):
        return None
    numbers = {number: values for number, piece in enumerate(pieces) if (values := _read_numbers(piece.text))}
    turned = dict(_turned_axes(page.turned))
    upright = [*_upright_axes(pieces, numbers)]
    level = [*_level_axes(pieces, numbers)]
    axes = [*turned.values(), *([numbers[number][0] for number in axis] for axis in upright)]
    if not axes or (len(axes) + len(level) == 1 and _is_counted(axes[0])):
        return None
    ticks = {number for axis in (*upright, *level) for number in axis}
    others = sum(len(values) for number, values in numbers.items() if number not in ticks)
    if others > sum(len(numbers[number]) for number in ticks) + sum(map(len, turned.values())):
        return None
    kept = [number for number, piece in enumerate(pieces) if number not in ticks and any(map(str.isalnum, piece.text))]
    labels = [piece for number, piece in enumerate(page.turned) if not any(number in axis for axis in turned)]
    if not any(_WORD.search(piece.text) for piece in (*(pieces[number] for number in kept), *labels)):
        kept, labels = [], []
    words = [pieces[number] for number in kept]
    return replace(page, pieces=words, boxes=page.boxes[kept], rules=(), is_beside=False, turned=labels)


def _read_numbers(text: str) -> list[float]:
    """The numbers of a text that consists of nothing else; [] for any other."""
    words = text.split()
    if not words or not all(map(_NUMBER.fullmatch, words)):
        return []
    return [float(re.sub("[−–]", "-", word).replace(",", "").strip("%")) for word in words]


def _count_ticks(values: Sequence[float]) -> int:
    """How many numbers stand in runs of equal steps, or of one factor; the signs of negative ones may be lost."""
    count = 0
    for change in (_step, _factor):
        steps = [change(a, b) for a, b in itertools.pairwise(values)]
        runs = [len([*run]) for step, run in itertools.groupby(steps) if step]
        count = max(count, sum(run + 1 for run in runs if run + 1 >= MIN_TICKS))
    return min(count, len(values))


def _step(a: float, b: float) -> float:
    return float(f"{abs(b - a):.3g}")


def _factor(a: float, b: float) -> float:
    return float(f"{b / a:.3g}") if a and b / a >= 2 else 0


def _is_counted(values: Sequence[float]) -> bool:
    """Whether an axis may be a list of years or places."""
    return all(_step(a, b) == 1 for a, b in itertools.pairwise(values))


def _upright_axes(pieces: Sequence[Piece], numbers: dict[int, list[float]]) -> Iterator[list[int]]:
    """The numbers of the pieces of each axis whose numbers rise from the bottom to the top."""
    single = [number for number, values in numbers.items() if len(values) == 1]
    edges: list[Callable[[int], float]] = [
        lambda number: pieces[number].x1,
        lambda number: (pieces[number].x0 + pieces[number].x1) / 2,
        lambda number: pieces[number].x0,
    ]
    found: set[int] = set()
    for edge in edges:
        for column in _in_line([number for number in single if number not in found], edge):
            axis = sorted(column, key=lambda number: -pieces[number].top)
            values = [numbers[number][0] for number in axis]
            is_scale = _count_ticks(values) == len(axis) and values[0] < values[-1]
            if is_scale and 2 * sum(_has_label(pieces, number) for number in axis) < len(axis):
                found.update(axis)
                yield axis


def _turned_axes(pieces: Sequence[Piece]) -> Iterator[tuple[tuple[int, ...], list[float]]]:
    """The numbers of the pieces, and the values, of each upright axis whose numbers are turned as it is."""
    numbers = {number: values for number, piece in enumerate(pieces) if (values := _read_numbers(piece.text))}
    for column in _in_line([*numbers], lambda number: pieces[number].x0):
        axis = sorted(column, key=lambda number: -pieces[number].top)
        values = [value for number in axis for value in numbers[number]]
        if 2 * _count_ticks(values) > len(values):
            yield tuple(axis), values


def _has_label(pieces: Sequence[Piece], number: int) -> bool:
    """Whether words stand before a number in its line: a row of a table, or code."""
    tick = pieces[number]
    return any(
        piece.x1 <= tick.x0 and piece.top < tick.middle < piece.bottom and _WORD.search(piece.text) is not None
        for piece in pieces
    )


def _level_axes(pieces: Sequence[Piece], numbers: dict[int, list[float]]) -> Iterator[list[int]]:
    """The numbers of the pieces of each axis from left to right; those of charts beside each other are one."""
    for row in _in_line([*numbers], lambda number: pieces[number].middle):
        axis = sorted(row, key=lambda number: pieces[number].x0)
        values = [value for number in axis for value in numbers[number]]
        if 2 * _count_ticks(values) > len(values):
            yield axis


def _in_line(numbers: Sequence[int], edge: Callable[[int], float]) -> Iterator[list[int]]:
    """The numbers of pieces with one edge."""
    line: list[int] = []
    for number in sorted(numbers, key=edge):
        if line and edge(number) - edge(line[-1]) > SAME_EDGE:
            yield line
            line = []
        line.append(number)
    if line:
        yield line
