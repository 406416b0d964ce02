"""Words that were read from the image of a page, as a page of text: in PDF points, for the layout step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np

from ragkit.load.pages.ocr.rules import find_rules, find_slope
from ragkit.load.pages.ocr.words import OcrWord, PageImage
from ragkit.load.pages.page import PdfPage, Piece, Rule, stand_beside

POINTS_PER_INCH = 72
WIDE_GAP = 1.6
"""A gap between words that ends a piece, as a share of the height of the line. In print a space is about a third."""

MIN_SLOPE = 0.001
"""A page that is turned less is straight."""


def build_page(words: Sequence[OcrWord], image: PageImage) -> PdfPage:
    """The page of an image, in the order of the words."""
    scale = POINTS_PER_INCH / image.dpi
    slope = find_slope(words)
    words = [_straighten(word, slope) for word in words] if abs(slope) > MIN_SLOPE else words
    pieces: list[Piece] = []
    start = 0
    for _, line in groupby(words, key=lambda word: word.line):
        for run in _split_at_gaps(list(line)):
            piece = _build_piece(run, scale, start)
            start += len(piece.text) + 1
            pieces.append(piece)
    boxes = np.array([(piece.x0, piece.top, piece.x1, piece.bottom) for piece in pieces], np.float32).reshape(-1, 4)
    size = image.width * scale, image.height * scale
    is_beside = stand_beside(boxes)
    rules = [*_straight_rules(image, slope)] if is_beside else ()
    return PdfPage(*size, pieces, boxes, rules, is_beside, is_scan=True)


def _straighten(word: OcrWord, slope: float) -> OcrWord:
    """A word of a turned page, where it stands on a straight one."""
    down, right = slope * (word.x0 + word.x1) / 2, slope * (word.top + word.bottom) / 2
    return replace(word, x0=word.x0 + right, x1=word.x1 + right, top=word.top - down, bottom=word.bottom - down)


def _straight_rules(image: PageImage, slope: float) -> Iterator[Rule]:
    """The ruled lines of a page, in points."""
    scale = POINTS_PER_INCH / image.dpi
    across, along = find_rules(image)
    for start, end, at in across.tolist():
        y, right = (at - slope * (start + end) / 2) * scale, slope * at
        yield Rule((start + right) * scale, y, (end + right) * scale, y)
    for start, end, at in along.tolist():
        x, down = (at + slope * (start + end) / 2) * scale, slope * at
        yield Rule(x, (start - down) * scale, x, (end - down) * scale)


def _split_at_gaps(line: list[OcrWord]) -> Iterable[list[OcrWord]]:
    height = max(word.bottom for word in line) - min(word.top for word in line)
    run: list[OcrWord] = []
    for word in line:
        if run and word.x0 - run[-1].x1 > WIDE_GAP * height:
            yield run
            run = []
        run.append(word)
    yield run


def _build_piece(run: list[OcrWord], scale: float, start: int) -> Piece:
    texts: list[str] = []
    words: list[tuple[int, int, float, float]] = []
    at = 0
    for word in run:
        words.append((at, at + len(word.text), word.x0 * scale, word.x1 * scale))
        texts.append(word.text)
        at += len(word.text) + 1
    top, bottom = min(word.top for word in run) * scale, max(word.bottom for word in run) * scale
    x0, x1 = min(word.x0 for word in run) * scale, max(word.x1 for word in run) * scale
    return Piece(" ".join(texts), x0, top, x1, bottom, size=bottom - top, made=words, start=start)
