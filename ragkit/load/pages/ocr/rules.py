"""Ruled lines of scanned pages: long dark runs of pixels, and how far a page is turned."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from statistics import median
from typing import TypeAlias

import numpy as np

from ragkit.load.pages.ocr.words import OcrWord, PageImage

Pixels: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]"
Lines: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.float64]]"

INK = 185
"""Shades below it are dark: hairlines are pale."""
MIN_LENGTH = 0.3
"""A shorter run is a stroke of a letter, in inches."""
MAX_GAP = 2
"""White pixels that do not end a run."""
MIN_FILLED = 0.85
"""Share of a run that is dark: the feet of letters in a row are no line."""
THICKEST = 0.035
"""A thicker line is a dark area, in inches."""
MAX_RUNS = 20_000
MEETS = 0.05
"""How far lines that meet may be apart, in inches."""
WIDE_SHARE = 0.2
"""Width of a piece of a line of a wide table, as a share of the page: a turned line is in several pieces."""
MIN_COLUMNS = 3
"""Vertical lines that meet the horizontal ones of a wide table."""
MIN_LINE_WORDS = 5
"""Words of a line of text that tell how far the page is turned."""


def find_rules(image: PageImage) -> tuple[Lines, Lines]:
    """(start, end, at) of the pieces of horizontal lines and of vertical ones, in pixels.

    A piece of a turned line ends where the line reaches the next row of pixels.
    """
    return _find_rules(np.frombuffer(image.pixels, np.uint8).reshape(image.height, image.width), image.dpi)


def take_grid(pixels: Pixels, dpi: int) -> tuple[Pixels, bool]:
    """The page, (height, width) shades of grey, without the lines of a table as wide as the text; whether it has one.

    Tesseract loses words beside lines.
    """
    across, along = _find_rules(pixels, dpi)
    near = MEETS * dpi
    wide = [at for start, end, at in across.tolist() if end - start > WIDE_SHARE * pixels.shape[1]]
    met = {round(at / near) for start, end, at in along.tolist() if any(start - near < y < end + near for y in wide)}
    if len(wide) < 2 or len(met) < MIN_COLUMNS:
        return pixels, False
    cleaned = pixels.copy()
    for grid, runs in ((cleaned, across), (cleaned.T, along)):
        for start, end, at in runs.astype(np.int64).tolist():
            grid[max(0, at - 1) : at + 2, start:end] = 255
    return cleaned, True


def _find_rules(pixels: Pixels, dpi: int) -> tuple[Lines, Lines]:
    ink = pixels < INK
    return _find_runs(ink, dpi), _find_runs(np.ascontiguousarray(ink.T), dpi)


def _find_runs(ink: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], dpi: int) -> Lines:
    height, width = ink.shape
    flat = np.zeros((height, width + MAX_GAP + 2), np.int8)  # white between rows
    flat[:, 1 : width + 1] = ink
    row = flat.ravel()
    edges = np.flatnonzero(row[1:] != row[:-1]) + 1
    starts, ends = edges[::2], edges[1::2]
    if not len(starts):
        return np.zeros((0, 3))
    first = np.flatnonzero(np.concatenate(([True], starts[1:] - ends[:-1] > MAX_GAP)))
    dark = np.add.reduceat(ends - starts, first)
    starts, ends = starts[first], ends[np.append(first[1:], len(ends)) - 1]
    length = ends - starts
    long = (length >= MIN_LENGTH * dpi) & (dark >= MIN_FILLED * length)
    starts, ends = starts[long][:MAX_RUNS], ends[long][:MAX_RUNS]
    at, x0 = np.divmod(starts, flat.shape[1])
    x1 = x0 + (ends - starts)
    reach = max(2, round(THICKEST * dpi))
    thin = np.zeros(len(at), np.int64)
    for share in (0.2, 0.5, 0.8):
        x = np.clip((x0 + share * (x1 - x0)).astype(np.int64) - 1, 0, width - 1)
        thin += ~(ink[np.maximum(at - reach, 0), x] & ink[np.minimum(at + reach, height - 1), x])
    kept = thin >= 2
    return np.stack([x0[kept] - 1, x1[kept] - 1, at[kept]], axis=1).astype(np.float64)


def find_slope(words: Sequence[OcrWord]) -> float:
    """How far lines of text sink to the right, in pixels a pixel: the page was turned when it was scanned."""
    slopes: list[float] = []
    for _, group in groupby(words, key=lambda word: word.line):
        line = list(group)
        width = line[-1].x1 - line[0].x0
        if len(line) >= MIN_LINE_WORDS and width > 12 * (line[0].bottom - line[0].top):
            x = np.array([(word.x0 + word.x1) / 2 for word in line])
            y = np.array([(word.top + word.bottom) / 2 for word in line])
            x -= x.mean()
            slopes.append(float((x * y).sum() / (x * x).sum()))
    return median(slopes) if len(slopes) >= 3 else 0.0
