"""OLE files: Word, PowerPoint and Excel before 2007, and Outlook messages. Written byte by byte."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Mapping, Sequence

SECTOR = 512
END, FREE, FAT = 0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFD
MIN_STREAM = 4096
"""Shorter streams would be in the small-block table: they are padded with zeros."""


def ole_file(streams: Mapping[str, bytes]) -> bytes:
    """A compound file; `folder/name` is a stream in a storage."""
    nodes: list[tuple[str, int, list[int], bytes]] = [("Root Entry", 5, [], b"")]
    folders: dict[str, int] = {}
    for path, data in streams.items():
        folder, _, name = path.rpartition("/")
        parent = 0
        if folder:
            if folder not in folders:
                nodes.append((folder, 1, [], b""))
                folders[folder] = len(nodes) - 1
                nodes[0][2].append(len(nodes) - 1)
            parent = folders[folder]
        nodes.append((name, 2, [], data.ljust(MIN_STREAM, b"\0")))
        nodes[parent][2].append(len(nodes) - 1)
    fat: list[int] = []
    sectors: list[bytes] = []
    starts = [_store(data, fat, sectors) if kind == 2 else 0 for _, kind, _, data in nodes]
    siblings = {a: b for _, _, below, _ in nodes for a, b in itertools.pairwise(below)}
    entries = b"".join(
        name.encode("utf-16-le").ljust(64, b"\0")
        + struct.pack("<HBBIII", 2 * len(name) + 2, kind, 1, FREE, siblings.get(i, FREE), below[0] if below else FREE)
        + bytes(36)
        + struct.pack("<IQ", starts[i] if kind == 2 else END if kind == 5 else 0, len(data))
        for i, (name, kind, below, data) in enumerate(nodes)
    )
    directory = _store(entries, fat, sectors)
    fat_sectors = 1
    while (len(fat) + fat_sectors) > fat_sectors * SECTOR // 4:
        fat_sectors += 1
    fat_starts = list(range(len(fat), len(fat) + fat_sectors))
    table = struct.pack(f"<{len(fat) + fat_sectors}I", *fat, *[FAT] * fat_sectors).ljust(fat_sectors * SECTOR, b"\xff")
    header = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16) + struct.pack("<HHHHH", 0x3E, 3, 0xFFFE, 9, 6) + bytes(10)
    header += struct.pack("<IIIIIIIII", fat_sectors, directory, 0, MIN_STREAM, END, 0, END, 0, 0)[:36]
    header = header[:76] + struct.pack(f"<{fat_sectors}I", *fat_starts)
    return header.ljust(SECTOR, b"\xff") + b"".join(sectors) + table


def _store(data: bytes, fat: list[int], sectors: list[bytes]) -> int:
    first, count = len(fat), max(1, -(-len(data) // SECTOR))
    fat += [*range(first + 1, first + count), END]
    sectors.append(data.ljust(count * SECTOR, b"\0"))
    return first


def word_file(pieces: Sequence[tuple[str, bool]], notes: str = "") -> bytes:
    """A Word file; a piece is (text, is it stored with one byte per character)."""
    text_start = 1024
    parts = [*pieces, (notes, False)]
    body, ends, descriptors = b"", [0], b""
    for text, narrow in parts:
        offset = text_start + len(body)
        descriptors += struct.pack("<HIH", 0, (2 * offset) | 0x40000000 if narrow else offset, 0)
        body += text.encode("cp1252" if narrow else "utf-16-le")
        ends.append(ends[-1] + len(text))
    plc = struct.pack(f"<{len(ends)}I", *ends) + descriptors
    clx = b"\x01\x02\x00xx\x02" + struct.pack("<I", len(plc)) + plc
    head = bytearray(text_start)
    struct.pack_into("<HH", head, 0, 0xA5EC, 0xC1)
    struct.pack_into("<H", head, 0x0A, 0x0200)
    struct.pack_into("<II", head, 0x4C, sum(len(text) for text, _ in pieces), len(notes))
    struct.pack_into("<II", head, 0x01A2, 0, len(clx))
    return ole_file({"WordDocument": bytes(head) + body, "1Table": clx})


def record(kind: int, data: bytes, instance: int = 0, *, container: bool = False) -> bytes:
    """A record of a PowerPoint file."""
    return struct.pack("<HHI", (instance << 4) | (0xF if container else 0), kind, len(data)) + data


def show_file(slides: Sequence[tuple[str, str, str]]) -> bytes:
    """A PowerPoint file; a slide is (title, text of a box, notes)."""
    lists: dict[int, bytes] = {0: b"", 2: b""}
    parts: list[bytes] = []
    for number, (title, box, notes) in enumerate(slides):
        slide_id = 256 + number
        lists[0] += record(1011, struct.pack("<5I", len(parts) + 1, 0, 1, slide_id, 0))
        lists[0] += record(3999, struct.pack("<I", 0)) + record(4008, title.encode("latin-1"))
        boxed = record(3999, struct.pack("<I", 4)) + record(4000, box.encode("utf-16-le"))
        parts.append(record(1006, record(0xF00D, boxed, container=True), container=True))
        lists[2] += record(1011, struct.pack("<5I", len(parts) + 1, 0, 1, 0, 0))
        noted = record(1009, struct.pack("<II", slide_id, 0)) + record(4000, notes.encode("utf-16-le"))
        parts.append(record(1008, noted, container=True))
    document = b"".join(record(4080, data, instance, container=True) for instance, data in lists.items())
    stream = record(1000, document, container=True)
    offsets: list[int] = []
    for part in parts:
        offsets.append(len(stream))
        stream += part
    directory = len(stream)
    stream += record(6002, struct.pack("<I", 1 | (len(offsets) << 20)) + struct.pack(f"<{len(offsets)}I", *offsets))
    edit = len(stream)
    stream += record(
        4085, struct.pack("<IIIII", 0, 0, 0, directory, 1)[:0] + struct.pack("<IIIII", 0, 0, 0, directory, 1)
    )
    return ole_file({"Current User": bytes(16) + struct.pack("<I", edit), "PowerPoint Document": stream})


def message_file(
    properties: Mapping[str, str],
    attachments: Sequence[tuple[str, bytes]] = (),
    more: Mapping[str, bytes] | None = None,
) -> bytes:
    """An Outlook message; `properties` are texts by their number in hexadecimal digits."""
    sent = struct.pack("<HHIQ", 0x0040, 0x0039, 6, 133_500_000_000_000_000)
    streams = {"__properties_version1.0": bytes(32) + sent}
    for key, text in properties.items():
        streams[f"__substg1.0_{key}001F"] = text.encode("utf-16-le")
    for number, (name, data) in enumerate(attachments):
        folder = f"__attach_version1.0_#{number:08X}"
        streams[f"{folder}/__substg1.0_3707001F"] = name.encode("utf-16-le")
        streams[f"{folder}/__substg1.0_37010102"] = data
    return ole_file({**streams, **(more or {})})


def summary(values: Mapping[int, str]) -> bytes:
    """The stream of the properties of a file in UTF-8: 2 is the title, 4 the author."""
    texts = {1: struct.pack("<Ii", 2, 65001 - 65536)}  # the code page
    for key, value in values.items():
        encoded = value.encode() + b"\0"
        texts[key] = struct.pack("<II", 30, len(encoded)) + encoded.ljust(-(-len(encoded) // 4) * 4, b"\0")
    offsets = itertools.accumulate(map(len, texts.values()), initial=8 + 8 * len(texts))
    places = b"".join(struct.pack("<II", key, offset) for key, offset in zip(texts, offsets, strict=False))
    body = places + b"".join(texts.values())
    kind = bytes.fromhex("e0859ff2f94f6810ab9108002b27b3d9")
    head = struct.pack("<HHI", 0xFFFE, 0, 0) + bytes(16) + struct.pack("<I", 1) + kind + struct.pack("<I", 48)
    return head + struct.pack("<II", 8 + len(body), len(texts)) + body


def sheet_file(rows: Sequence[Sequence[str | float]], properties: bytes = b"") -> bytes:
    """An Excel file with one sheet `Pumps`, and the stream of its properties."""

    def piece(kind: int, data: bytes) -> bytes:
        return struct.pack("<HH", kind, len(data)) + data

    def first(kind: int) -> bytes:
        return piece(0x0809, struct.pack("<HHHHII", 0x0600, kind, 0, 0, 0, 0))

    cells = b""
    for y, row in enumerate(rows):
        for x, value in enumerate(row):
            if isinstance(value, str):
                text = struct.pack("<HB", len(value), 1) + value.encode("utf-16-le")
                cells += piece(0x0204, struct.pack("<HHH", y, x, 0) + text)
            else:
                cells += piece(0x0203, struct.pack("<HHHd", y, x, 0, value))
    name = b"Pumps"
    sheet = first(0x0010) + cells + piece(0x000A, b"")
    codepage = piece(0x0042, struct.pack("<H", 1200))
    length = len(first(5)) + len(codepage) + 4 + 8 + len(name) + 4
    bound = piece(0x0085, struct.pack("<IBBBB", length, 0, 0, len(name), 0) + name)
    book = {"Workbook": first(5) + codepage + bound + piece(0x000A, b"") + sheet}
    return ole_file({**book, "\5SummaryInformation": properties} if properties else book)
