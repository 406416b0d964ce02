"""Excel files in the binary format (XLSB), in the shape that Excel writes."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from tests.load.sample_files import zipped

TYPES = (
    '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Default Extension="bin" ContentType="application/vnd.ms-excel.sheet.binary.macroEnabled.main"/></Types>'
)
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"


def sheet_file(rows: Sequence[Sequence[str | float | bool]], name: str = "Pumps") -> bytes:
    """A workbook with one sheet."""
    return zipped(
        {
            "[Content_Types].xml": TYPES,
            "_rels/.rels": _relations("officeDocument", "xl/workbook.bin"),
            "xl/_rels/workbook.bin.rels": _relations("worksheet", "worksheets/sheet1.bin"),
            "xl/workbook.bin": _workbook(name),
            "xl/worksheets/sheet1.bin": _sheet(rows),
        }
    )


def _relations(kind: str, target: str) -> str:
    link = f'<Relationship Id="rId1" Type="{RELATIONS}/{kind}" Target="{target}"/>'
    return f'<Relationships xmlns="{PACKAGE}">{link}</Relationships>'


def _workbook(name: str) -> bytes:
    sheet = struct.pack("<II", 0, 1) + _text("rId1") + _text(name)
    pieces = ((0x83, b""), (0x8F, b""), (0x9C, sheet), (0x90, b""), (0x9D, b"\0" * 26), (0x84, b""))
    return b"".join(_piece(kind, data) for kind, data in pieces)


def _sheet(rows: Sequence[Sequence[str | float | bool]]) -> bytes:
    out = _piece(0x81) + _piece(0x94, struct.pack("<4I", 0, len(rows) - 1, 0, max(map(len, rows)) - 1)) + _piece(0x91)
    for number, row in enumerate(rows):
        out += _piece(0, struct.pack("<II", number, 0) + b"\0" * 9)
        for column, value in enumerate(row):
            out += _cell(column, value)
    return out + _piece(0x92) + _piece(0x82)


def _cell(column: int, value: str | float | bool) -> bytes:
    head = struct.pack("<II", column, 0)
    if isinstance(value, bool):
        return _piece(4, head + bytes([value]))
    if isinstance(value, str):
        return _piece(6, head + _text(value))
    return _piece(5, head + struct.pack("<d", value))


def _text(text: str) -> bytes:
    return struct.pack("<I", len(text)) + text.encode("utf-16-le")


def _piece(kind: int, data: bytes = b"") -> bytes:
    code = bytes([kind]) if kind < 0x80 else bytes([kind & 0x7F | 0x80, kind >> 7])
    size, length = len(data), b""
    while size >= 0x80:
        length, size = length + bytes([size & 0x7F | 0x80]), size >> 7
    return code + length + bytes([size]) + data
