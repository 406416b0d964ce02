"""Leaders of scanned pages: rows of dots between a title and its page number. They are taken out before the page is
read, since Tesseract reads them as letters and loses the words beside them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeAlias

import numpy as np

Pixels: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]"
Dots: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.int64]]"

DOT = 0.026
"""The side of a dot, at most, in inches."""
STEP = 0.16
"""From one dot to the next, at most, in inches."""
MIN_DOTS = 6
"""An ellipsis has three or four."""
UNEQUAL = 0.25
"""How much a step may differ from the median, as a share; some dots may be lost."""
_INK = 160
"""Shades below it are dark."""


@dataclass(frozen=True, slots=True)
class Leader:
    """A row of dots, in pixels."""

    x0: float
    x1: float
    y: float
    """The middle of its dots, on the left."""
    dot: int
    """The side of a dot."""


def remove_dot_leaders(pixels: Pixels, dpi: int) -> tuple[Pixels, list[Leader]]:
    """The page, (height, width) shades of grey, without its leaders; and these from top to bottom."""
    side = max(2, round(DOT * dpi))
    rows = _find_rows(_find_dots(pixels < _INK, side), dpi)
    if not rows:
        return pixels, []
    cleaned = pixels.copy()
    for row in rows:
        for (x, y), (next_x, next_y) in itertools.pairwise([*row, row[-1]]):
            top, bottom = min(y, next_y) - side, max(y, next_y) + side
            cleaned[max(0, top) : bottom + 1, max(0, x - side) : max(x, next_x) + side + 1] = 255
    leaders = [Leader(row[0][0], row[-1][0], row[0][1], side) for row in rows]
    return cleaned, sorted(leaders, key=lambda leader: leader.y)


def _find_dots(ink: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], side: int) -> Dots:
    """(x, y) of the middle of each dot: dark, at most `side` wide and high, and white around; from left to right."""
    margin = side + 2
    padded = np.zeros((ink.shape[0] + 2 * margin, ink.shape[1] + 2 * margin), np.bool_)
    padded[margin:-margin, margin:-margin] = ink
    # the first pixel of a dot: dark, and white on the left, above, and above on both sides
    first = padded[1:-1, 1:-1] & ~(padded[1:-1, :-2] | padded[:-2, 1:-1] | padded[:-2, :-2] | padded[:-2, 2:])
    y, x = np.nonzero(first)
    y, x = y + 1, x + 1
    near = (y > 1) & (y < padded.shape[0] - margin) & (x > side) & (x < padded.shape[1] - margin)
    y, x = y[near], x[near]
    total = np.zeros((padded.shape[0] + 1, padded.shape[1] + 1), np.int32)
    np.cumsum(padded, 0, dtype=np.int32, out=total[1:, 1:])
    np.cumsum(total[1:, 1:], 1, out=total[1:, 1:])

    def count(left: Dots, top: Dots, right: Dots, bottom: Dots) -> Dots:
        return np.asarray(total[bottom, right] - total[top, right] - total[bottom, left] + total[top, left], np.int64)

    half = (side + 1) // 2
    inner = count(x - half, y, x + side, y + side)
    outer = count(x - half - 1, y - 1, x + side + 1, y + side + 1)
    is_dot = (inner == outer) & (inner >= max(2, side * side // 12))
    dots = np.stack([x[is_dot] - margin, y[is_dot] - margin + side // 3], 1)
    return dots[np.argsort(dots[:, 0], kind="stable")]


def _find_rows(dots: Dots, dpi: int) -> list[list[tuple[int, int]]]:
    """Dots that follow each other in equal steps."""
    reach = STEP * dpi
    slack = max(1, round(0.01 * dpi))
    open_rows: dict[int, list[tuple[int, int]]] = {}
    found: list[list[tuple[int, int]]] = []
    for x, y in dots.tolist():
        near = [at for at in range(y - slack, y + slack + 1) if at in open_rows and x - open_rows[at][-1][0] <= reach]
        at = min(near, key=lambda other: abs(other - y), default=None)
        row = open_rows.pop(at) if at is not None else []
        row.append((x, y))
        if len(row) == 1:
            found.append(row)
        open_rows[y] = row
    return [row for row in found if len(row) >= MIN_DOTS and _is_even(row)]


def _is_even(row: Sequence[tuple[int, int]]) -> bool:
    steps = [b[0] - a[0] for a, b in itertools.pairwise(row)]
    usual = median(steps)
    even = sum(abs(step - usual) <= max(1.5, UNEQUAL * usual) for step in steps)
    return even >= 0.7 * len(steps)
