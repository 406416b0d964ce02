"""20 zip-based files: bombs, path traversal, entities, missing parts."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Sequence

from tests.hostile.case import Case, Failed, case
from tests.load import sample_files

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
TYPES = '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>'


def body(inner: str, prolog: str = "") -> str:
    """The main part of a Word file."""
    return f'{prolog}<w:document xmlns:w="{W}"><w:body><w:p><w:r><w:t>{inner}</w:t></w:r></w:p></w:body></w:document>'


def word(inner: str = "plain words", *, prolog: str = "", more: dict[str, str | bytes] | None = None) -> bytes:
    """The smallest Word file."""
    return sample_files.zipped({"[Content_Types].xml": TYPES, "word/document.xml": body(inner, prolog), **(more or {})})


def zeros(name: str, megabytes: int) -> bytes:
    """A zip file with one entry of zeros."""
    return sample_files.zipped({name: bytes(megabytes * 2**20)})


def flat_bomb() -> bytes:
    """One entry that unpacks to 700 MB, from repeated compressed blocks."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    head = packer.compress(b"") + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(bytes(2**20)) + packer.flush(zlib.Z_FULL_FLUSH)
    packed = head + block * 700 + packer.flush()
    data = word(more={"word/media/x.png": b"?"})
    position = data.index(b"PK\x01\x02")
    size = 700 * 2**20
    name = b"word/media/y.png"
    local = struct.pack("<4s5H3L2H", b"PK\x03\x04", 20, 0, 8, 0, 0, 0, len(packed), size, len(name), 0) + name
    entry = struct.pack(
        "<4s6H3L5H2L", b"PK\x01\x02", 20, 20, 0, 8, 0, 0, 0, len(packed), size, len(name), 0, 0, 0, 0, 0, position
    )
    end = data.index(b"PK\x05\x06")
    directory = data[position:end] + entry + name
    tail = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 4, 4, len(directory), position + len(local) + len(packed), 0)
    return data[:position] + local + packed + directory + tail


def overlapping() -> bytes:
    """Many entries of the central directory that share one local entry."""
    data = sample_files.zipped({"[Content_Types].xml": TYPES, "word/document.xml": body("x"), "word/z": bytes(2**20)})
    start = data.index(b"PK\x01\x02")
    end = data.index(b"PK\x05\x06")
    last = data[data.rindex(b"PK\x01\x02") : end]
    entries = data[start:end] + b"".join(last.replace(b"word/z", b"word/%c" % (97 + n)) for n in range(20))
    tail = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 23, 23, len(entries), start, 0)
    return data[:start] + entries + tail


def many_parts() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("[Content_Types].xml", TYPES)
        archive.writestr("word/document.xml", body("plain words"))
        for number in range(65_536 - 2):
            archive.writestr(f"word/{number}", b"")
    return out.getvalue()


def duplicate_entry() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("[Content_Types].xml", TYPES)
        archive.writestr("word/document.xml", body("first"))
        archive.writestr("word/documenT.xml", body("second"))
    return out.getvalue().replace(b"word/documenT.xml", b"word/document.xml")


def with_entry(name: str) -> bytes:
    return word(more={name: "owned"})


def name_with_nul() -> bytes:
    return with_entry("word/evilXtxt").replace(b"evilXtxt", b"evil\0txt")


def encrypted_zip() -> bytes:
    data = bytearray(word())
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        position = data.find(mark)
        while position >= 0:
            data[position + offset] |= 1
            position = data.find(mark, position + 4)
    return bytes(data)


def compound() -> bytes:
    return b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504) + "EncryptedPackage".encode("utf-16-le") + bytes(900)


def entity(definition: str) -> bytes:
    return word("[&e;]", prolog=f"<!DOCTYPE d [{definition}]>")


LAUGHS = '<!ENTITY a "ha">' + "".join(f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 10}">' for n in range(4))
QUADRATIC = f'<!ENTITY e "{"x" * 100_000}">'


def quadratic() -> bytes:
    return word("&e;" * 10_000, prolog=f"<!DOCTYPE d [{QUADRATIC}]>")


def external_relationship() -> bytes:
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/attachedTemplate"
    relations = (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        f'<Relationship Id="r" Type="{kind}" Target="http://127.0.0.1:9/x" TargetMode="External"/></Relationships>'
    )
    return word(more={"word/_rels/document.xml.rels": relations})


def last_cell() -> bytes:
    sheet = (
        '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>'
        '<row r="1048576"><c r="XFD1048576" t="inlineStr"><is><t>corner</t></is></c></row></sheetData></worksheet>'
    )
    return sample_files.replaced(sample_files.workbook({"one": [["x"]]}), {"xl/worksheets/sheet1.xml": sheet})


def many_strings() -> bytes:
    strings = "".join(f"<si><t>{number}</t></si>" for number in range(STRINGS))
    sheet = (
        '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>'
        f'<row r="1"><c r="A1" t="s"><v>{STRINGS - 1}</v></c></row></sheetData></worksheet>'
    )
    shared = f'<sst xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">{strings}</sst>'
    plain = sample_files.workbook({"one": [["x"]]})
    with zipfile.ZipFile(io.BytesIO(plain)) as archive:
        types = archive.read("[Content_Types].xml").decode()
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml.sharedStrings+xml"
    types = types.replace("</Types>", f'<Override PartName="/xl/sharedStrings.xml" ContentType="{kind}"/></Types>')
    parts = {"xl/worksheets/sheet1.xml": sheet, "xl/sharedStrings.xml": shared, "[Content_Types].xml": types}
    return sample_files.replaced(plain, parts)


def nested_zip() -> bytes:
    inner = zeros("x", 20)
    for _ in range(5):
        inner = sample_files.zipped({f"{number}.zip": inner for number in range(10)})
    return word(more={"word/embeddings/inner.zip": inner})


STRINGS = 100_000
"""A million entries would take 15 s of CPU time."""

BOMB_NOTE = "unpacks to 700 MB, the limit is 512 MB"

CASES: Sequence[Case] = (
    case("zip-flat-bomb.docx", flat_bomb, Failed(BOMB_NOTE)),
    case("zip-nested.docx", nested_zip, "plain words"),
    case("zip-overlap.docx", overlapping, Failed("overlapping zip entries (zip bomb)")),
    case("zip-65536-parts.docx", many_parts, Failed("has 65536 zip entries, the limit is 10000")),
    case("zip-twice.docx", duplicate_entry, "second"),
    case("zip-climbs.docx", lambda: with_entry("../../../tmp/ragkit-owned"), "plain words"),
    case("zip-absolute.docx", lambda: with_entry("/tmp/ragkit-owned"), "plain words"),
    case("zip-drive.docx", lambda: with_entry("C:\\ragkit-owned"), "plain words"),
    case("zip-nul.docx", name_with_nul, "plain words"),
    case("zip-locked.docx", encrypted_zip, Failed("password-protected")),
    case("zip-compound.docx", compound, Failed("password-protected")),
    case("xml-file.docx", lambda: entity('<!ENTITY e SYSTEM "file:///etc/passwd">'), "[]"),
    case("xml-http.docx", lambda: entity('<!ENTITY e SYSTEM "http://127.0.0.1:9/">'), "[]"),
    case("xml-laughs.docx", lambda: entity(LAUGHS), "[]"),
    case("xml-quadratic.docx", quadratic, Failed("part 'word/document.xml' is not valid XML (…")),
    case("zip-outside.docx", external_relationship, "plain words"),
    case("xlsx-corner.xlsx", last_cell, "one\n\n" + " | " * 16 + "corner"),
    case("xlsx-many-strings.xlsx", many_strings, f"one\n\n{STRINGS - 1}"),
    case(
        "zip-no-types.docx",
        lambda: sample_files.zipped({"word/document.xml": body("x")}),
        Failed("part '[Content_Types].xml' is missing"),
    ),
    case(
        "zip-wrong-mimetype.epub",
        lambda: sample_files.zipped({"mimetype": "application/vnd.oasis.opendocument.text"}),
        Failed("part 'content.xml' is missing"),
    ),
)
