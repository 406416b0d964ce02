"""PowerPoint files before 2007: one page per slide.

Source: [MS-PPT] PowerPoint (.ppt) Binary File Format, 2.1.2 PowerPoint Document Stream.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from ragkit.errors import LoadError
from ragkit.load.office.ole_file import OleFile
from ragkit.load.office.slides import build_slides
from ragkit.load.options import LOADER_VERSIONS, PptOptions
from ragkit.load.shared.encoding import replace_invalid_chars
from ragkit.load.shared.layout_blocks import LayoutBlock
from ragkit.load.shared.loader_utils import collapse_whitespace
from ragkit.records import Document

CONTAINER = 0xF
SLIDE_LIST, SLIDE_PERSIST, NOTES_ATOM = 4080, 1011, 1009
TEXT_HEADER, TEXT_CHARS, TEXT_BYTES = 3999, 4000, 4008
USER_EDIT, PERSIST_DIRECTORY = 4085, 6002
TITLE_KINDS = (0, 6)
"""Kinds of a text header: title, centered title."""
SLIDES, NOTES = 0, 2
"""Instances of the list of slides."""
MAX_DEPTH = 30
_CONTROLS = {0x0D: "\n", 0x0B: "\n", 0xAD: None}
MAX_EDITS = 1_000


class _Record(NamedTuple):
    kind: int
    instance: int
    data: bytes
    is_container: bool


@dataclass
class _Slide:
    """The texts of a slide: (is it a title, text)."""

    persist_id: int
    slide_id: int
    texts: list[tuple[bool, str]] = field(default_factory=list)


class PptLoader:
    """The texts of slides in presentation order, titles as headings, notes below."""

    version = LOADER_VERSIONS["ppt"]

    def __init__(self, options: PptOptions | None = None) -> None:
        self.options = options or PptOptions()

    def load(self, data: bytes, source: str) -> Document:
        """The document in `data`. Raises LoadError when it is damaged."""
        with OleFile(data, source) as ole:
            if "EncryptedSummary" in ole:
                raise LoadError(source, "password-protected", "save it without a password")
            slides = list(_read_slides(ole, notes=self.options.notes))
            known = ole.read_properties()
        return build_slides("ppt", source, slides, known)


def _read_slides(ole: OleFile, *, notes: bool) -> Iterator[list[LayoutBlock]]:
    stream = ole.read("PowerPoint Document")
    offsets = _persist_offsets(stream, ole.read("Current User"))
    lists = _slide_lists(stream)
    comments: dict[int, list[str]] = {}
    for page in lists.get(NOTES, ()) if notes else ():
        record = _record_at(stream, offsets.get(page.persist_id, -1))
        if record is not None:
            atom = next((child for child in _walk(record.data) if child.kind == NOTES_ATOM), None)
            slide_id = struct.unpack_from("<I", atom.data)[0] if atom is not None else 0
            comments[slide_id] = [text for _, text in _texts(record.data)]
    for slide in lists.get(SLIDES, ()):
        record = _record_at(stream, offsets.get(slide.persist_id, -1))
        texts = dict.fromkeys([*slide.texts, *(_texts(record.data) if record is not None else ())])
        blocks = [LayoutBlock("h", collapse_whitespace(text), 1) for is_title, text in texts if is_title]
        blocks += [LayoutBlock("p", text) for is_title, text in texts if not is_title]
        lines = comments.get(slide.slide_id)
        yield [*blocks, LayoutBlock("p", "Notes: " + "\n".join(lines))] if lines else blocks


def _slide_lists(stream: bytes) -> dict[int, list[_Slide]]:
    """Instance of a list -> its slides, in presentation order, with the texts of their outline."""
    lists: dict[int, list[_Slide]] = {}
    for found in _walk(stream):
        if found.kind != SLIDE_LIST:
            continue
        slides = lists.setdefault(found.instance, [])
        slides.clear()  # a later save replaces the list
        is_title = False
        for record in _walk(found.data):
            if record.kind == SLIDE_PERSIST:
                persist_id, _, _, slide_id = struct.unpack_from("<4I", record.data)
                slides.append(_Slide(persist_id, slide_id))
            elif record.kind == TEXT_HEADER:
                is_title = struct.unpack_from("<I", record.data)[0] in TITLE_KINDS
            elif slides and (text := _text_of(record)):
                slides[-1].texts.append((is_title, text))
    return lists


def _texts(data: bytes) -> Iterator[tuple[bool, str]]:
    is_title = False
    for record in _walk(data):
        if record.kind == TEXT_HEADER:
            is_title = struct.unpack_from("<I", record.data)[0] in TITLE_KINDS
        elif text := _text_of(record):
            yield is_title, text


def _text_of(record: _Record) -> str:
    """The text of a text atom; '' for other records and for the number of the slide."""
    if record.kind not in (TEXT_CHARS, TEXT_BYTES):
        return ""
    raw = record.data.decode("utf-16-le" if record.kind == TEXT_CHARS else "latin-1", "replace")
    text = replace_invalid_chars(raw.translate(_CONTROLS)).strip()
    return "" if text == "*" else text


def _walk(data: bytes) -> Iterator[_Record]:
    """The records of a container and of those inside it, in order."""
    pending = [(0, len(data), 0)]
    while pending:
        position, end, depth = pending.pop()
        if position + 8 > end:
            continue
        version, kind, length = struct.unpack_from("<HHI", data, position)
        start, stop = position + 8, min(end, position + 8 + length)
        is_container = version & 0xF == CONTAINER
        pending.append((stop, end, depth))
        if is_container and depth < MAX_DEPTH:
            pending.append((start, stop, depth + 1))
        yield _Record(kind, version >> 4, data[start:stop], is_container)


def _record_at(data: bytes, offset: int) -> _Record | None:
    return next(_walk(data[offset:]), None) if 0 <= offset < len(data) else None


def _persist_offsets(stream: bytes, current_user: bytes) -> dict[int, int]:
    """Persist id -> offset of its record, of the newest save first."""
    offsets: dict[int, int] = {}
    if len(current_user) < 20:
        return offsets
    (edit,) = struct.unpack_from("<I", current_user, 16)
    for _ in range(MAX_EDITS):
        if not 0 < edit <= len(stream) - 28:
            break
        edit, directory = struct.unpack_from("<II", stream, edit + 16)
        _add_directory(offsets, stream, directory)
    return offsets


def _add_directory(offsets: dict[int, int], stream: bytes, position: int) -> None:
    _, kind, length = struct.unpack_from("<HHI", stream, position)
    if kind != PERSIST_DIRECTORY:
        return
    data = stream[position + 8 : position + 8 + length]
    cursor = 0
    while cursor + 4 <= len(data):
        (head,) = struct.unpack_from("<I", data, cursor)
        first, count = head & 0xFFFFF, head >> 20
        for number in range(min(count, (len(data) - cursor - 4) // 4)):
            (offset,) = struct.unpack_from("<I", data, cursor + 4 + 4 * number)
            offsets.setdefault(first + number, offset)
        cursor += 4 + 4 * count
