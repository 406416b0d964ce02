"""Word files before 2007: paragraphs and table rows.

Source: [MS-DOC] Word (.doc) Binary File Format, 2.4.1 Retrieving Text.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from ragkit.errors import LoadError
from ragkit.load.office.ole_file import SAVE_NEW_HINT, OleFile
from ragkit.load.options import LOADER_VERSIONS
from ragkit.load.shared.encoding import replace_invalid_chars
from ragkit.load.shared.layout_blocks import LayoutBlock, join_blocks
from ragkit.load.shared.loader_utils import build_document, collapse_whitespace
from ragkit.records import Document, Place

WORD_MAGIC = (0xA5EC, 0xA5DC)
"""Since Word 97; Word 6 and 95."""
WORD_97 = 0xC1
"""The first version with a piece table."""
ENCRYPTED_FLAG = 0x0100
TABLE_1_FLAG = 0x0200
COMPRESSED_FLAG = 0x4000_0000
"""Of the offset of a piece: one byte per character, at half the offset."""
TEXT_LENGTHS = slice(0x4C, 0x6C)
"""Characters of the text, footnotes, headers, macros, comments, endnotes and text boxes, which follow each other."""
HEADER_PART = 2

_FIELD_MARK = re.compile("([\x13-\x15])")
_CONTROLS = {**dict.fromkeys(range(32)), 9: "\t", 11: "\n", 12: "\r", 13: "\r", 7: "\x07", 30: "-"}


class DocLoader:
    """Footnotes, comments and text boxes follow the text; headings and lists are paragraphs."""

    version = LOADER_VERSIONS["doc"]

    def load(self, data: bytes, source: str) -> Document:
        """The document in `data`. Raises LoadError when it is damaged or encrypted."""
        with OleFile(data, source) as ole:
            text, known = _read_text(ole, source), ole.read_properties()
        title = str(known.pop("title", ""))
        return build_document("doc", source, join_blocks(_blocks(text)), known, title)


def _blocks(text: str) -> Iterator[LayoutBlock]:
    """The paragraphs; a cell mark ends a cell, and a second one its row."""
    cells: list[str] = []
    for number, paragraph in enumerate(re.split(r"(?<=[\r\x07])", text), start=1):
        place = Place(0, "paragraph", number)
        if not paragraph.endswith("\x07"):
            yield LayoutBlock("p", replace_invalid_chars(paragraph.strip()), place=place)
        elif paragraph != "\x07":
            cells.append(collapse_whitespace(replace_invalid_chars(paragraph.strip("\x07"))))
        elif cells:
            yield LayoutBlock("row", " | ".join(cells).rstrip(" |"), place=place)
            cells = []


def _read_text(ole: OleFile, source: str) -> str:
    """The characters of all parts of the document, without field codes."""
    stream = ole.read("WordDocument")
    magic, version = struct.unpack_from("<HH", stream, 0)
    (flags,) = struct.unpack_from("<H", stream, 0x0A)
    if magic not in WORD_MAGIC:
        raise LoadError(source, "damaged Word file", SAVE_NEW_HINT)
    if flags & ENCRYPTED_FLAG:
        raise LoadError(source, "password-protected", "save it without a password")
    if version < WORD_97:
        first, last = struct.unpack_from("<II", stream, 0x18)
        return _drop_field_codes(stream[first:last].decode("cp1252", "replace")).translate(_CONTROLS)
    table = ole.read("1Table" if flags & TABLE_1_FLAG else "0Table")
    characters = "".join(_read_pieces(stream, table))
    parts: list[str] = []
    position = 0
    for part, length in enumerate(struct.unpack("<8I", stream[TEXT_LENGTHS])):
        if part != HEADER_PART:
            parts.append(characters[position : position + length])
        position += length
    return _drop_field_codes("\r".join(parts)).translate(_CONTROLS)


def _read_pieces(stream: bytes, table: bytes) -> Iterator[str]:
    """The pieces of text, in order."""
    start, size = struct.unpack_from("<II", stream, 0x01A2)
    pieces = table[start : start + size]
    position = 0
    while pieces[position : position + 1] == b"\x01":  # properties
        position += 3 + int(struct.unpack_from("<H", pieces, position + 1)[0])
    if pieces[position : position + 1] != b"\x02":
        raise ValueError("the piece table is missing")
    (length,) = struct.unpack_from("<I", pieces, position + 1)
    count = (min(length, len(pieces)) - 4) // 12
    ends = struct.unpack_from(f"<{count + 1}I", pieces, position + 5)
    for number in range(count):
        (offset,) = struct.unpack_from("<I", pieces, position + 5 + 4 * (count + 1) + 8 * number + 2)
        characters = ends[number + 1] - ends[number]
        if offset & COMPRESSED_FLAG:
            begin = (offset & ~COMPRESSED_FLAG) // 2
            yield stream[begin : begin + characters].decode("cp1252", "replace")
        else:
            yield stream[offset : offset + 2 * characters].decode("utf-16-le", "replace")


def _drop_field_codes(text: str) -> str:
    """The text with the results of fields, without their codes."""
    kept: list[str] = []
    in_code: list[bool] = []
    for piece in _FIELD_MARK.split(text):
        if piece == "\x13":
            in_code.append(True)
        elif piece in ("\x14", "\x15"):
            if in_code:
                in_code.pop()
            if piece == "\x14":
                in_code.append(False)
        elif not any(in_code[-50:]):
            kept.append(piece)
    return "".join(kept)
