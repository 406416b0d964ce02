"""The words and pieces of lines of a PDF page, from its characters."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from ragkit.load.pages.page import PageWords, PdfPage, Piece, Rule, stand_beside
from ragkit.load.pages.pdfium import Floats, PdfiumPage

Flags: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]"
Integers: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.int64]]"
Codes: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.uint32]]"

WIDE_GAP = 0.8
"""A gap between words that ends a piece, as a share of the height of the line."""
EDGE = 2.0
"""A ruled line that is not further from the edge of the page, in points, is a frame around it."""
SAME_TURN = 10.0
"""Degrees by which words of one direction may differ."""
MAP_SAMPLE = 16
"""Characters per page whose font is asked for its map."""
MAX_ODD_WORDS = 0.2
"""Share of words with marks between letters: at most .06 of readable pages in fonts without a map, .3 and more of
others."""
_MARK_IN_WORD = re.compile(r"[^\W\d_][^\w\s'’.,:;()/\-\u2010\u2013\u2014][^\W\d_]")
MIN_READABLE = 0.25
"""Share of the characters of a page that stand in words and numbers: at most .22 where a font names others than it
shows, .46 and more where it lacks only those of formulas and leaders."""
_READABLE = re.compile(r"[^\W\d_]{3,}|\d+|[\u0590-\u1fff\u3040-\ud7ff]+")
_HYPHEN_MARKS = (2, 0xFFFE)
"""A hyphen at the end of a line, often without a line break behind it."""
_BLANK = np.zeros(256, np.bool_)
_BLANK[[*range(33), 0xA0]] = True
_BLANK[_HYPHEN_MARKS[0]] = False


def read_page(page: PdfiumPage, *, tables: bool, fonts: bool) -> PdfPage:
    """The pieces of a page; its ruled lines if it may hold tables, if `tables`; the names of its fonts if `fonts`."""
    codes = np.frombuffer(page.text.encode("utf-32-le", "surrogatepass"), np.uint32)
    starts, ends = _find_words(codes)
    left, bottom, right, top = page.bounds
    if not len(starts):
        return PdfPage(right - left, top - bottom, [])
    starts, ends, is_turned = _split_turned(page, starts, ends)
    odd = starts[is_turned], ends[is_turned]
    starts, ends = starts[~is_turned], ends[~is_turned]
    first, last = page.boxes(starts.tolist()), page.boxes((ends - 1).tolist())
    turn = find_turn(first, last, page.rotation)
    broken = find_broken(first, last, turn)
    if broken.any():
        many = int(broken.sum()) > max(1, 0.02 * len(broken)) and not is_turned.any()
        starts, ends = _split_by_position(page, codes, turn) if many else _split_words(starts, ends, broken)
        first, last = page.boxes(starts.tolist()), page.boxes((ends - 1).tolist())
    width, height = (right - left, top - bottom) if turn % 180 == 0 else (top - bottom, right - left)
    words = turn_boxes(join_boxes(first, last), page.bounds, turn)
    is_shown = _on_page(words, width, height)
    pieces, boxes, is_beside = _join_words(page, starts[is_shown], ends[is_shown], words[is_shown], fonts=fonts)
    rules = _page_rules(page, turn, width, height) if tables and is_beside else ()
    turned = _turned_pieces(page, *odd, turn) if len(odd[0]) else ()
    return PdfPage(width, height, pieces, boxes, rules, is_beside, _is_garbled(page, codes), False, turned)


def _on_page(boxes: Floats, width: float, height: float) -> Flags:
    """Whether the middle of each box is on the page as it is shown; all, if none is."""
    x, y = (boxes[:, 0] + boxes[:, 2]) / 2, (boxes[:, 1] + boxes[:, 3]) / 2
    shown: Flags = (x >= 0) & (x <= width) & (y >= 0) & (y <= height)
    return shown if shown.any() else ~shown


def _page_rules(page: PdfiumPage, turn: int, width: float, height: float) -> list[Rule]:
    """The ruled lines, cut at the edges of the page; marks of printers and frames outside of it, and on its edges, are
    left out."""
    boxes = turn_boxes(page.rules(), page.bounds, turn).clip(0, np.array([width, height, width, height], np.float32))
    x0, top, x1, bottom = boxes.T
    across = x1 - x0 >= bottom - top
    at_edge = np.minimum(np.where(across, top, x0), np.where(across, height - bottom, width - x1)) < EDGE
    edge = at_edge | (np.maximum(x1 - x0, bottom - top) < 4)
    return [Rule(*box) for box in boxes[~edge].tolist()]


def _split_turned(page: PdfiumPage, starts: Integers, ends: Integers) -> tuple[Integers, Integers, Flags]:
    """The words, and which are turned against most words of the page: stamps in the margin, upright names, marks."""
    first, last = page.turns(starts.tolist()), page.turns((ends - 1).tolist())
    mixed = _differ(first, last)
    if mixed.any():
        starts, ends = _split_words(starts, ends, mixed)
        first = page.turns(starts.tolist())
    rounded = np.round(first / SAME_TURN).astype(np.int64) % int(360 / SAME_TURN)
    usual = float(np.median(first[rounded == int(np.argmax(np.bincount(rounded)))]))
    return starts, ends, _differ(first, np.full_like(first, usual))


def _differ(turns: Floats, others: Floats) -> Flags:
    differ: Flags = np.abs((turns - others + 180) % 360 - 180) > SAME_TURN
    return differ


def _turned_pieces(page: PdfiumPage, starts: Integers, ends: Integers, turn: int) -> list[Piece]:
    """Words that are turned against the page, as lines where they stand: in the order of the file."""
    boxes = turn_boxes(join_boxes(page.boxes(starts.tolist()), page.boxes((ends - 1).tolist())), page.bounds, turn)
    low, high = np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])
    angles = page.turns(starts.tolist())
    apart = np.abs(np.diff(low + high, axis=0)) > (high - low)[1:]  # the middles, against the sizes
    upright, flat = ((angles[1:] - at) % 180 < SAME_TURN for at in (90 - SAME_TURN / 2, 180 - SAME_TURN / 2))
    cut = _differ(angles[1:], angles[:-1]) | (apart[:, 0] & upright) | (apart[:, 1] & flat)
    cut |= np.array(["\n" in page.text[a:b] or b - a > 3 for a, b in zip(ends[:-1], starts[1:], strict=True)], np.bool_)
    cuts = [0, *(np.flatnonzero(cut) + 1).tolist(), len(starts)]
    sizes = page.sizes(starts[cuts[:-1]].tolist())
    pieces = []
    for (a, b), size in zip(itertools.pairwise(cuts), sizes, strict=True):
        text = " ".join(page.text[starts[a] : ends[b - 1]].split())
        (x0, top), (x1, bottom) = low[a:b].min(0).tolist(), high[a:b].max(0).tolist()
        pieces.append(Piece(text, x0, top, x1, bottom, ("", ""), size, [(0, len(text), x0, x1)], int(starts[a])))
    return pieces


def _find_words(codes: Codes) -> tuple[Integers, Integers]:
    """The first and the end of each run of characters that are not white space."""
    blank = np.empty(len(codes) + 2, np.bool_)
    blank[0] = blank[-1] = True
    blank[1:-1] = _BLANK[np.minimum(codes, 255)]
    edges = np.flatnonzero(blank[1:] != blank[:-1])
    starts, ends = edges[::2], edges[1::2]
    marks = (codes == _HYPHEN_MARKS[0]) | (codes == _HYPHEN_MARKS[1])
    if marks.any():
        behind = np.flatnonzero(marks[:-1] & ~blank[2:-1]) + 1
        starts, ends = np.sort(np.concatenate((starts, behind))), np.sort(np.concatenate((ends, behind)))
    return starts, ends


def find_turn(first: Floats, last: Floats, page_rotation: int) -> int:
    """How far the text is turned against the page: 0, 90 (it runs upwards), 180 or 270."""
    across = np.abs(last[:, 0] - first[:, 0])
    along = np.abs(last[:, 1] - first[:, 1])
    if int((along > across).sum()) > int((across > along).sum()):
        rising = float(np.sign(last[:, 1] - first[:, 1])[along > across].sum())
        return 90 if rising > 0 else 270
    return 180 if page_rotation == 180 else 0


def find_broken(first: Floats, last: Floats, turn: int) -> Flags:
    """Which words end on another line than they begin: those around a line break that PDFium has left out."""
    axis = 1 if turn % 180 == 0 else 0
    height = np.abs(first[:, 1] - first[:, 3]) if axis else np.abs(first[:, 0] - first[:, 2])
    off: Flags = np.abs(last[:, axis] - first[:, axis]) > np.maximum(height, 1)
    return off


def _split_words(starts: Integers, ends: Integers, broken: Flags) -> tuple[Integers, Integers]:
    """The words, with those that are broken as single characters."""
    singles = [
        number for a, b in zip(starts[broken].tolist(), ends[broken].tolist(), strict=True) for number in range(a, b)
    ]
    extra = np.array(singles, np.int64)
    starts, ends = np.concatenate((starts[~broken], extra)), np.concatenate((ends[~broken], extra + 1))
    return np.sort(starts), np.sort(ends)


def _split_by_position(page: PdfiumPage, codes: Codes, turn: int) -> tuple[Integers, Integers]:
    """Words by the position of each character, where PDFium has left out spaces and line breaks."""
    every = turn_boxes(page.boxes(range(len(codes))), page.bounds, turn)
    shown = np.flatnonzero((codes > 32) & (codes != 0xA0))
    box = every[shown]
    height = np.maximum(box[:, 3] - box[:, 1], 1)
    gap = box[1:, 0] - box[:-1, 2]
    middle = (box[:, 1] + box[:, 3]) / 2
    cut = (np.diff(shown) > 1) | (np.abs(np.diff(middle)) > 0.6 * height[1:])
    cut |= (gap > 0.3 * height[1:]) | (gap < -1.5 * height[1:])
    at = np.flatnonzero(cut)
    starts = shown[np.concatenate(([0], at + 1))]
    ends = shown[np.concatenate((at, [len(shown) - 1]))] + 1
    return starts, ends


def turn_boxes(boxes: Floats, bounds: tuple[float, float, float, float], turn: int) -> Floats:
    """Boxes of `PdfiumPage.boxes` as x0, top, x1, bottom from the top left corner of the upright text."""
    left, bottom, right, top = bounds
    x0, y1, x1, y0 = boxes.T
    if turn == 90:
        columns = (y0 - bottom, x0 - left, y1 - bottom, x1 - left)
    elif turn == 180:
        columns = (right - x1, y0 - bottom, right - x0, y1 - bottom)
    elif turn == 270:
        columns = (top - y1, right - x1, top - y0, right - x0)
    else:
        columns = (x0 - left, top - y1, x1 - left, top - y0)
    turned: Floats = np.stack(columns, axis=1)
    return turned


def join_boxes(first: Floats, last: Floats) -> Floats:
    """The boxes of words, from those of their first and last characters; left, top, right, bottom."""
    joined = np.empty_like(first)
    joined[:, ::3] = np.minimum(first[:, ::3], last[:, ::3])
    joined[:, 1:3] = np.maximum(first[:, 1:3], last[:, 1:3])
    return joined


def _join_words(
    page: PdfiumPage, starts: Integers, ends: Integers, words: Floats, *, fonts: bool
) -> tuple[list[Piece], Floats, bool]:
    """Words of one line of PDFium, up to a wide gap, with their boxes; whether they stand beside each other."""
    height = words[:, 3] - words[:, 1]
    gap = words[1:, 0] - words[:-1, 2]
    tallest = np.maximum(np.maximum(height[1:], height[:-1]), 1)
    leftward = _is_leftward(page.text, starts)
    gap = np.where(leftward[1:] | leftward[:-1], np.maximum(gap, words[:-1, 0] - words[1:, 2]), gap)
    middle = words[:, 3] + words[:, 1]
    breaks = np.abs(middle[1:] - middle[:-1]) > 1.2 * tallest
    breaks |= (gap > WIDE_GAP * tallest) | (gap < -2 * tallest)
    cuts = np.concatenate(([0], np.flatnonzero(breaks) + 1, [len(words)]))
    low, high = np.minimum.reduceat(words, cuts[:-1]), np.maximum.reduceat(words, cuts[:-1])
    low[:, 2:] = high[:, 2:]
    begins, bounds = starts[cuts[:-1]].tolist(), cuts.tolist()
    count = len(begins)
    is_beside = stand_beside(low)
    names = [""] * 2 * count
    if fonts or is_beside:  # tables of monospaced text are none
        names = page.fonts([*begins, *starts[cuts[1:] - 1].tolist()])
    sizes = page.sizes(starts[(cuts[1:] + cuts[:-1]) // 2].tolist())
    source = PageWords(starts, ends, words) if is_beside else None
    text, pieces = page.text, []
    rows = zip(low.tolist(), begins, ends[cuts[1:] - 1].tolist(), sizes, strict=True)
    for number, ((x0, top, x1, bottom), start, end, size) in enumerate(rows):
        piece = Piece(text[start:end], x0, top, x1, bottom, (names[number], names[count + number]), size, (), start)
        if source is not None:
            piece.source = source, bounds[number], bounds[number + 1]
        pieces.append(piece)
    return pieces, low, is_beside


def _is_leftward(text: str, starts: Integers) -> Flags:
    """Whether each word is read from right to left, as Hebrew and Arabic are."""
    codes = np.fromiter(map(ord, map(text.__getitem__, starts.tolist())), np.int64, len(starts))
    leftward: Flags = (codes >= 0x590) & (codes < 0x900) | (codes >= 0xFB1D) & (codes < 0xFE00)
    return leftward | (codes >= 0xFE70) & (codes < 0xFF00)


def _is_garbled(page: PdfiumPage, codes: Codes) -> bool:
    """Whether many characters are no characters: a font without a map, or with a broken one."""
    shown = int(np.count_nonzero(codes > 32) - np.count_nonzero(codes == 0xA0))
    high = codes[codes >= 0x7F]
    low = codes[codes < 32]
    broken = np.count_nonzero((high < 0xA0) | (high == 0xFFFD) | ((high >= 0xE000) & (high <= 0xF8FF)))
    broken += np.count_nonzero((low != 10) & (low != 13) & (low != _HYPHEN_MARKS[0]))
    if shown < 40:
        return bool(broken > 0.5 * max(1, shown))
    if broken > 0.3 * shown:
        return True
    share = page.share_without_map(range(0, len(codes), max(1, len(codes) // MAP_SAMPLE)))
    if share >= 0.25 and is_unreadable([page.text]):  # the spaces between letters have a map
        return True
    if share < 0.5:
        return False
    letters = np.count_nonzero(((codes | 32) >= 97) & ((codes | 32) <= 122)) + np.count_nonzero(high > 0xBF)
    return bool(letters < 0.5 * shown) or is_ciphered(page.text)


def is_unreadable(texts: Sequence[str]) -> bool:
    """Whether texts have hardly a word or a number, but single letters and marks."""
    shown = sum(len(word) for text in texts for word in text.split())
    read = sum(len(found) for text in texts for found in _READABLE.findall(text))
    return read < MIN_READABLE * shown


def is_ciphered(text: str) -> bool:
    """Whether many words have marks between letters, as those of a font whose characters are others than they seem."""
    words = text.split()
    return sum(_MARK_IN_WORD.search(word) is not None for word in words) > MAX_ODD_WORDS * len(words)
