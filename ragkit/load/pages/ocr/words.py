"""Images of pages, and the words that were read from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from ragkit.load.pages.ocr.leaders import Leader

LEADER_TEXT = "......"
"""What stands for a leader, of any length."""
MAX_PLACE_CHARS = 14
"""A word behind a leader is a page number or the like."""


@dataclass(frozen=True, slots=True)
class PageImage:
    """A page in shades of grey."""

    width: int
    height: int
    pixels: bytes
    """One byte a pixel, row by row, 0 is black."""
    dpi: int


@dataclass(frozen=True, slots=True)
class OcrWord:
    """A word on a page."""

    text: str
    x0: float
    top: float
    x1: float
    bottom: float
    """Its edges in pixels, from the top left corner."""
    confidence: float
    """In percent, as the engine estimates it."""
    line: int
    """The number of its line; words of one line follow each other."""


def insert_leaders(words: Sequence[OcrWord], leaders: Sequence[Leader]) -> list[OcrWord]:
    """The words, where a leader joins what stands before it and the number behind it to one line."""
    lines = [list(line) for _, line in groupby(words, key=lambda word: word.line)]
    for leader in leaders:
        before = _nearest(lines, leader, is_behind=False)
        behind = _nearest(lines, leader, is_behind=True)
        if before is None:
            continue
        line, at = before
        word = lines[line][at]
        dots = OcrWord(LEADER_TEXT, leader.x0, word.top, leader.x1, word.bottom, word.confidence, word.line)
        place: list[OcrWord] = []
        if behind is not None and behind != (line, at + 1):
            other, first = behind
            end = first
            while end < len(lines[other]) and _is_place(lines[other], first, end):
                end += 1
            place = lines[other][first:end]
            del lines[other][first:end]
        lines[line][at + 1 : at + 1] = [dots, *place]
    return [replace(word, line=number) for number, line in enumerate(filter(None, lines)) for word in line]


def _is_place(line: Sequence[OcrWord], first: int, end: int) -> bool:
    """Whether a word belongs to the number that begins with `first`."""
    word = line[end]
    gap = word.x0 - line[end - 1].x1 if end > first else 0.0
    return len(word.text) <= MAX_PLACE_CHARS and gap < word.bottom - word.top


def _nearest(lines: Sequence[Sequence[OcrWord]], leader: Leader, *, is_behind: bool) -> tuple[int, int] | None:
    """The line and word that stand before or behind a leader, at most 12 dots from it; None for none."""
    found: list[tuple[float, int, int]] = []
    for line, words in enumerate(lines):
        for at, word in enumerate(words):
            gap = word.x0 - leader.x1 if is_behind else leader.x0 - word.x1
            height = word.bottom - word.top
            # dots stand at the foot of the letters, which a turned page moves up or down
            if -leader.dot <= gap <= 12 * leader.dot + height and word.top < leader.y < word.bottom + 0.5 * height:
                found.append((gap, line, at))
    if not found:
        return None
    _, line, at = min(found)
    return line, at
