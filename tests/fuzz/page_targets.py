"""Fuzz targets of pages: boxes of a PDF or of the OCR into the layout. No character may be lost or appear twice."""

from __future__ import annotations

from collections import Counter

import numpy as np

from ragkit.load.pages.blocks import page_blocks
from ragkit.load.pages.layout import lay_out
from ragkit.load.pages.ocr.leaders import Leader
from ragkit.load.pages.ocr.page import build_page
from ragkit.load.pages.ocr.words import LEADER_TEXT, OcrWord, PageImage, insert_leaders
from ragkit.load.pages.page import PdfPage, Piece, Rule, stand_beside
from ragkit.load.shared.layout_blocks import join_blocks
from tests.fuzz.reader import Reader

PAGE = 600.0, 800.0
MAX_PIECES = 80


def layout(data: bytes) -> None:
    """A page of pieces and rules keeps all of its characters, in lines and tables."""
    reader = Reader(data)
    scan, tables, step = reader.number(2) == 1, reader.number(4) != 0, reader.choice((0.0, 20.0, 97.0))
    rules = [_rule(reader) for _ in range(reader.number(12))]
    pieces: list[Piece] = []
    start = 0
    while reader.left and len(pieces) < MAX_PIECES:
        piece = _piece(reader, step, start)
        if piece.text.strip():  # as a PDF is read: words have characters
            pieces.append(piece)
            start += len(piece.text) + 1
    boxes = np.array([(p.x0, p.top, p.x1, p.bottom) for p in pieces], np.float32).reshape(-1, 4)
    is_beside = stand_beside(boxes)
    check_page(PdfPage(*PAGE, pieces, boxes, rules if is_beside else (), is_beside, is_scan=scan), tables=tables)


def _piece(reader: Reader, step: float, start: int) -> Piece:
    """A piece of one to three words; with a step, the pieces stand in a grid, as in columns and tables."""
    if step:
        x0, top = 40 + step * 1.5 * reader.number(6), 40 + step * reader.number(30)
    else:
        x0, top = reader.place(PAGE[0]), reader.place(PAGE[1])
    height = (1 + reader.number(40)) / 2
    texts, words, at, x = [], [], 0, x0
    for _ in range(1 + reader.number(3)):
        text = reader.word()
        if not text.strip():
            continue
        width = len(text) * height * 0.5
        words.append((at, at + len(text), x, x + width))
        texts.append(text)
        at, x = at + len(text) + 1, x + width + height * 0.3
    right = words[-1][3] if words else x0
    return Piece(" ".join(texts), x0, top, right, top + height, size=height, made=words, start=start)


def _rule(reader: Reader) -> Rule:
    x0, top, length = reader.place(PAGE[0]), reader.place(PAGE[1]), abs(reader.place(PAGE[0]))
    return Rule(x0, top, x0 + length, top) if reader.number(2) else Rule(x0, top, x0, top + length)


def ocr(data: bytes) -> None:
    """The words that an engine read, and dots between them, keep all of their characters."""
    reader = Reader(data)
    width, height = 40 + reader.number(200), 40 + reader.number(200)
    dark = reader.bytes(reader.number(400))
    pixels = (dark + b"\xff" * 400)[:400] * (width * height // 400 + 1)
    leaders = [_leader(reader, width, height) for _ in range(reader.number(4))]
    words: list[OcrWord] = []
    line = 0
    while reader.left and len(words) < MAX_PIECES:
        text = reader.word().strip().replace(" ", "_")
        x0, top = reader.place(width), reader.place(height)
        size = 1 + reader.number(30)
        line += reader.number(4) == 0
        if text:
            words.append(OcrWord(text, x0, top, x0 + len(text) * size / 2, top + size, reader.number(101), line))
    placed = insert_leaders(words, leaders)
    before, after = Counter(word.text for word in words), Counter(word.text for word in placed)
    assert not before - after, before - after
    assert set(after - before) <= {LEADER_TEXT}, after - before
    image = PageImage(width, height, pixels[: width * height], 72 + 10 * reader.number(30))
    check_page(build_page(placed, image), tables=True)


def _leader(reader: Reader, width: int, height: int) -> Leader:
    x0, x1 = sorted((reader.place(width), reader.place(width)))
    return Leader(x0, x1, reader.place(height), 1 + reader.number(20))


def check_page(page: PdfPage, *, tables: bool) -> None:
    """Lay a page out, make its text, and compare the characters."""
    expected = _characters(" ".join(piece.text for piece in page.pieces))
    found = lay_out(page, tables=tables)
    texts = [line.text for line in found.lines if line.table is None]
    cells = [cell.text for line in found.lines if line.table is not None for cell in line.table.cells]
    actual = _characters(" ".join([*texts, *cells]))
    assert actual == expected, (actual - expected, expected - actual)
    for line in found.lines:
        if line.table is not None:
            rows = line.table.grid()
            assert all(len(row) == line.table.column_count for row in rows)
    text = join_blocks([block for blocks in page_blocks([found]) for block in blocks])
    starts = [heading.start for heading in text.headings]
    assert starts == sorted(starts)
    assert all(0 <= start <= len(text.text) for start in starts)


def _characters(text: str) -> Counter[str]:
    return Counter("".join(text.split()))
