"""The lines, tables and paragraphs of a PDF page, in reading order. Independent of the PDF library."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TypeAlias

import numpy as np

from ragkit.load.pages.page import Numbers, PdfPage, Piece
from ragkit.load.pages.tables.open import find_open_tables, is_prose
from ragkit.load.pages.tables.ruled import find_ruled_tables
from ragkit.load.pages.tables.table import PdfTable, drop_empty_columns

MIN_COLUMN_PIECES = 12
"""A page with fewer pieces has one column."""
MIN_COLUMN_LINES = 8
"""Lines of paragraphs beside a strip that make a column of a scan, whatever their order."""

Box: TypeAlias = tuple[float, float, float, float]
"""Left, top, right, bottom."""

APART = 40.0
"""Points below a line at which the next one may belong elsewhere."""

_PAGE_NUMBER = re.compile(
    r"(?i)(?:page|seite|p\.)? {0,3}(?:\d{1,4}|[ivxlc]{1,7}|[A-Z]-\d{1,3})(?: {0,3}(?:/|of|von|de) {0,3}\d{1,4})?"
)
_BREAK_BEFORE_SIGN, _BREAK = re.compile(r"(?<![\r\n])[\r\n]++(?=[,.;:!?)\]])"), re.compile(r"[\r\n]+")


@dataclass(slots=True)
class PdfLine:
    """A line of text, or a table."""

    text: str
    x0: float
    top: float
    x1: float
    bottom: float
    fonts: tuple[str, str] = ("", "")
    """Of its first and last word."""
    height: float = 0
    """Of its font, in points."""
    table: PdfTable | None = None
    new_block: bool = True
    """It begins a paragraph."""
    level: int = 0
    """Of a heading, from 1; else 0."""
    is_note: bool = False
    """It begins a caption or a picture of text, which stands apart from the text."""
    joints: tuple[int, ...] = ()
    """Offsets of its text at which a wide gap is."""


@dataclass(slots=True)
class PageLayout:
    """A page."""

    width: float
    height: float
    lines: list[PdfLine] = field(default_factory=list)
    """In reading order."""
    is_garbled: bool = False
    """Its fonts do not say which characters they show."""
    turned: list[PdfLine] = field(default_factory=list)
    """Lines that are turned against the others, outside of tables; read behind them."""


def lay_out(page: PdfPage, *, tables: bool) -> PageLayout:
    """The lines and tables of a page in reading order."""
    pieces = page.pieces
    gutters = _find_gutters(page) if page.is_beside else []
    found = _find_tables(page, gutters) if tables and page.is_beside else []
    rest: Sequence[Piece] = _without_tables(pieces, found) if found else pieces
    lines = _insert_tables(_join_lines(rest), found, pieces)
    orders = [_place_runs(lines), lines]
    if (page.is_scan and gutters) or any(_jumps_up(a, b) for a, b in itertools.pairwise(lines)):
        orders.append(_order(lines, gutters))
    if any(order != lines for order in orders):
        lines = max(orders, key=_continuity)
    _mark_blocks(lines)
    turned = _join_lines(_without_tables(page.turned, found))
    return PageLayout(page.width, page.height, lines, page.is_garbled, turned)


def _find_gutters(page: PdfPage) -> list[float]:
    """The white strips between text columns, from left to right: the file writes one side after the other."""
    pieces, boxes = page.pieces, page.boxes
    if len(pieces) < MIN_COLUMN_PIECES:
        return []
    starts = boxes[:, 0].astype(np.int64)
    ends = np.maximum(boxes[:, 2].astype(np.int64), starts + 1)
    left = int(starts.min())
    size = int(ends.max()) - left + 2
    covered = np.cumsum(np.bincount(starts + 1 - left, minlength=size) - np.bincount(ends - left, minlength=size))
    limit = 0.12 * len(pieces)
    over = np.flatnonzero(covered > limit)
    lengths = np.fromiter((len(piece.text) for piece in pieces), np.int64, len(pieces))
    gutters: list[float] = []
    for before, behind in itertools.pairwise(over.tolist()):
        if behind > before + 1:  # the widest part of the strip that the fewest pieces cross
            strip = covered[before + 1 : behind]
            first = int(np.argmin(strip))
            above = np.flatnonzero(strip[first:] > strip[first])
            last = first + int(above[0]) - 1 if len(above) else len(strip) - 1
            at = left + before + 1 + (first + last) / 2
            if _separates_columns(page, lengths, at):
                gutters.append(at)
    return gutters


def _separates_columns(page: PdfPage, lengths: Numbers, at: float) -> bool:
    """Whether the file writes what is left of a strip before what is right of it, and both are several rows high.

    `lengths` are the characters of each piece.
    """
    x0, top, x1, bottom = page.boxes.astype(np.float64).T
    on_right = x0 > at - 1
    beside = np.flatnonzero((x1 < at + 1) | on_right)
    sides = on_right[beside]
    left, right = beside[~sides], beside[sides]
    if min(len(left), len(right)) < MIN_COLUMN_PIECES / 3:
        return False
    if min(lengths[left].sum() / len(left), lengths[right].sum() / len(right)) <= 8:
        return False
    shared = min(bottom[left].max(), bottom[right].max()) - max(top[left].min(), top[right].min())
    if shared / median((bottom - top)[beside].tolist()) <= 5:
        return False
    if np.count_nonzero(sides[1:] != sides[:-1]) <= max(3, 0.06 * len(sides)):
        return True
    if not page.is_scan:
        return False
    return all(_is_column([page.pieces[number] for number in side.tolist()]) for side in (left, right))


def _is_column(side: Sequence[Piece]) -> bool:
    """Whether most of the width beside a strip is filled with lines of paragraphs: no column of a table."""
    prose = [piece for piece in side if is_prose(piece)]
    if len(prose) < MIN_COLUMN_LINES:
        return False
    width = max(piece.x1 for piece in prose) - min(piece.x0 for piece in prose)
    return median(piece.x1 - piece.x0 for piece in prose) > 0.7 * width


def _find_tables(page: PdfPage, gutters: Sequence[float]) -> list[PdfTable]:
    tables = find_ruled_tables(page) if page.rules else []
    left = _without_tables(page.pieces, tables)
    for column in _columns(left, gutters):
        tables += find_open_tables(column, page.rules)
    for table in tables:
        drop_empty_columns(table)
    return sorted(tables, key=lambda table: table.top)


def _columns(pieces: Sequence[Piece], gutters: Sequence[float]) -> list[list[Piece]]:
    if not gutters:
        return [list(pieces)]
    columns: list[list[Piece]] = [[] for _ in range(len(gutters) + 2)]
    top, bottom = _column_band(pieces, gutters)
    for piece in pieces:
        across = not top <= piece.middle <= bottom or _crosses(piece, gutters)
        columns[-1 if across else sum(1 for gutter in gutters if gutter <= piece.x0 + 2)].append(piece)
    return columns


def _column_band(pieces: Sequence[Piece], gutters: Sequence[float]) -> tuple[float, float]:
    """From the top to the bottom of the columns: what stands apart from their paragraphs, with a line across above it,
    is a table as wide as the page."""
    prose = [piece for piece in pieces if is_prose(piece)]
    across = [piece for piece in prose if _crosses(piece, gutters)]
    rows = [(piece.top, piece.bottom) for piece in across]
    beside = [
        piece
        for piece in prose
        if not _crosses(piece, gutters) and not any(top < piece.middle < bottom for top, bottom in rows)
    ]
    top = min((piece.top for piece in beside), default=0)
    bottom = max((piece.bottom for piece in beside), default=0)
    is_headed = any(piece.bottom <= top for piece in across)
    is_footed = any(piece.top >= bottom for piece in across)
    return top if is_headed else -math.inf, bottom if is_footed else math.inf


def _crosses(box: Piece | PdfLine, gutters: Sequence[float]) -> bool:
    return any(box.x0 + 2 < gutter < box.x1 - 2 for gutter in gutters)


def _without_tables(pieces: Sequence[Piece], tables: Sequence[PdfTable]) -> list[Piece]:
    """The pieces outside tables. Positions decide, for tables cut and join pieces; what stands over a table stays."""
    return [piece for piece in pieces if not any(_holds(table, piece) for table in tables)]


def _holds(table: PdfTable, piece: Piece) -> bool:
    if table.starts is not None and piece.start not in table.starts:
        return False
    middle = (piece.x0 + piece.x1) / 2
    return table.x0 - 3 < middle < table.x1 + 3 and table.top - 1 < piece.middle < table.bottom + 1


def _join_lines(pieces: Sequence[Piece]) -> list[PdfLine]:
    """Pieces that follow each other on one line as lines."""
    lines: list[PdfLine] = []
    before: Piece | None = None
    for piece in pieces:
        if (
            before is not None
            and piece.x0 >= before.x1 - 1
            and abs(piece.middle - before.middle) < 0.5 * max(piece.height, before.height)
            and not (is_prose(piece) and is_prose(before) and piece.x0 - before.x1 > before.height)
        ):
            line = lines[-1]
            line.joints += (len(line.text),)
            line.text += " " + _on_one_line(piece.text)
            line.x1 = piece.x1
            line.top, line.bottom = min(line.top, piece.top), max(line.bottom, piece.bottom)
            line.fonts = (line.fonts[0], piece.fonts[1])
            if len(piece.text) > 0.6 * len(line.text):
                line.height = piece.size
        else:
            text = _on_one_line(piece.text)
            lines.append(PdfLine(text, piece.x0, piece.top, piece.x1, piece.bottom, piece.fonts, piece.size))
        before = piece
    return lines


def _on_one_line(text: str) -> str:
    """The text of a piece without the line breaks that PDFium writes behind raised and lowered marks."""
    return _BREAK.sub(" ", _BREAK_BEFORE_SIGN.sub("", text)) if "\n" in text else text


def _insert_tables(lines: list[PdfLine], tables: Sequence[PdfTable], pieces: Sequence[Piece]) -> list[PdfLine]:
    """Each table before the first line that stands below it in the same column, behind a line above it."""
    for table in tables:
        item = PdfLine("", table.x0, table.top, table.x1, table.bottom, table=table)
        lines.insert(_place_above(lines, table.x0, table.top, table.x1), item)
    return lines


def _place_above(lines: Sequence[PdfLine], x0: float, top: float, x1: float) -> int:
    """The number of the first line that stands below `top` between `x0` and `x1`, behind a line above it."""
    for number, line in enumerate(lines):
        beside = line.x1 < x0 or line.x0 > x1
        if not beside and line.top >= top and (number == 0 or lines[number - 1].top < line.top):
            return number
    return len(lines)


def insert_picture(lines: list[PdfLine], picture: list[PdfLine]) -> None:
    """The lines of a picture before the first line below it in the same column, behind a line above it."""
    x0, x1 = min(line.x0 for line in picture), max(line.x1 for line in picture)
    at = _place_above(lines, x0, min(line.top for line in picture), x1)
    for behind in lines[at : at + 1]:
        behind.new_block = behind.is_note = True
    picture[0].new_block = picture[0].is_note = True
    lines[at:at] = picture


def _order(lines: list[PdfLine], gutters: Sequence[float]) -> list[PdfLine]:
    """Column by column between the lines that cross the gutters."""
    ordered: list[PdfLine] = []
    band: list[list[PdfLine]] = [[] for _ in range(len(gutters) + 1)]
    for line in sorted(lines, key=lambda item: (round(item.top), item.x0)):
        if _crosses(line, gutters):
            ordered += [item for column in band for item in column]
            band = [[] for _ in range(len(gutters) + 1)]
            ordered.append(line)
        else:
            band[sum(1 for gutter in gutters if gutter <= line.x0 + 2)].append(line)
    return ordered + [item for column in band for item in column]


def _place_runs(lines: Sequence[PdfLine]) -> list[PdfLine]:
    """Lines that the file writes after what is below them, as a title after its text, before it."""
    runs: list[list[PdfLine]] = []
    for number, line in enumerate(lines):
        before = lines[number - 1] if number else None
        is_apart = before is None or line.bottom <= before.top or line.top > before.bottom + APART
        if is_apart or line.table or (before is not None and before.table):
            runs.append([])
        runs[-1].append(line)
    placed: list[tuple[Box, list[PdfLine]]] = []
    for run in runs:
        left, top = min(line.x0 for line in run), min(line.top for line in run)
        right, bottom = max(line.x1 for line in run), max(line.bottom for line in run)
        below = (n for n, (box, _) in enumerate(placed) if box[1] >= bottom - 1 and box[0] < right and left < box[2])
        placed.insert(next(below, len(placed)), ((left, top, right, bottom), run))
    return [line for _, run in placed for line in run]


def _continuity(lines: Sequence[PdfLine]) -> float:
    """How much the order of the lines explains: sentences and words that go on in the next line, lines below each
    other."""
    score = 0.0
    for before, line in itertools.pairwise(lines):
        score -= 0.5 * _jumps_up(before, line)
        if before.table or line.table:
            continue
        end, begin = before.text[-1:], line.text[:1]
        if begin.islower():
            score += 1 if end.isalpha() or end in ",;-\xad\u2010\x02\ufffe" else -1 if end in ".!?" else 0
        step = line.top - before.top
        overlap = min(before.x1, line.x1) - max(before.x0, line.x0)
        is_below = 0 < step < 2.2 * (line.bottom - line.top)
        score += 0.5 * (is_below and overlap > 0.5 * min(before.x1 - before.x0, line.x1 - line.x0))
    return score


def _jumps_up(before: PdfLine, line: PdfLine) -> bool:
    if line.bottom >= before.top + 1:
        return False
    overlap = min(before.x1, line.x1) - max(before.x0, line.x0)
    return overlap > 0.3 * min(before.x1 - before.x0, line.x1 - line.x0)


def _mark_blocks(lines: Sequence[PdfLine]) -> None:
    """Which lines begin a paragraph: those below a gap, in another size, or indented behind the end of a sentence."""
    steps = [b.top - a.top for a, b in itertools.pairwise(lines) if 0 < b.top - a.top < 3 * (a.height + 1)]
    leading = median(steps) if steps else 0
    for before, line in itertools.pairwise(lines):
        if before.table or line.table:
            continue
        step = line.bottom - before.bottom
        larger = abs(line.height - before.height) > 0.12 * max(line.height, before.height)
        indented = line.x0 - before.x0 > 0.8 * line.height and before.text[-1:] in ".!?:"
        usual = max(leading, 1.05 * line.height)
        line.new_block = (
            step < -0.5 * line.height or step > 1.28 * usual or (larger and step > 0.8 * line.height) or indented
        )


def is_page_number(text: str) -> bool:
    """Whether a line is only a page number."""
    return len(text) < 40 and _PAGE_NUMBER.fullmatch(text.strip("-–—| ")) is not None
