"""Files that try to exhaust memory, time or the stack, or that lie about their own structure."""

from __future__ import annotations

import io
import json
import sqlite3
import struct
import zipfile
from collections.abc import Callable, Mapping
from contextlib import closing

import pyarrow as pa
import pyarrow.parquet

from tests.load import odf_files, ole_files, record_files, sample_files, xlsb_files

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
S = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
ENTITIES = '<!DOCTYPE x [<!ENTITY a0 "words ">{}]>'.format(
    "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 10))
)


def _xml(data: bytes, name: str, old: str, new: str) -> bytes:
    """The zip file with a changed part."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        text = archive.read(name).decode()
    assert old in text
    return sample_files.replaced(data, {name: text.replace(old, new, 1).encode()})


def _open_text(body: str, prolog: str = "") -> bytes:
    data = odf_files.text("<text:p>BODY</text:p>")
    data = _xml(data, "content.xml", "<text:p>BODY</text:p>", body)
    return _xml(data, "content.xml", "<office:document-content", f"{prolog}<office:document-content")


def _word(body: str) -> bytes:
    document = f'<w:document xmlns:w="{W}"><w:body>{body}</w:body></w:document>'
    return sample_files.replaced(sample_files.word(), {"word/document.xml": document.encode()})


def _sheet(body: str, more: str = "") -> bytes:
    data = f'<worksheet xmlns="{S}"><sheetData>{body}</sheetData>{more}</worksheet>'
    book = sample_files.workbook({"a": [["x"]]})
    return sample_files.replaced(book, {"xl/worksheets/sheet1.xml": data.encode()})


def _lying_zip() -> bytes:
    """A part of 80 MB whose directory says 10 bytes."""
    data = bytearray(sample_files.replaced(odf_files.text("<text:p>x</text:p>"), {"content.xml": b" " * 80_000_000}))
    for signature, offset in ((b"PK\x01\x02", 24), (b"PK\x03\x04", 22)):
        at = data.find(b"content.xml") - (46 if signature == b"PK\x01\x02" else 30)
        while at >= 0:
            if data[at : at + 4] == signature:
                data[at + offset : at + offset + 4] = struct.pack("<I", 10)
            at = data.find(b"content.xml", at + 60) - (46 if signature == b"PK\x01\x02" else 30)
            if at < 0 or data.find(b"content.xml", at + 30) < 0:
                break
    return bytes(data)


def _changed(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


def _loop_in_fat(data: bytes) -> bytes:
    """The OLE file whose sectors all lead back to its first one."""
    fat = (struct.unpack_from("<I", data, 76)[0] + 1) * ole_files.SECTOR
    return _changed(data, fat, struct.pack("<I", 0) * (ole_files.SECTOR // 4))


def _directory(change: Callable[[bytearray, int], None], data: bytes) -> bytes:
    """The OLE file with a changed entry of its root."""
    out = bytearray(data)
    change(out, (struct.unpack_from("<I", data, 48)[0] + 1) * ole_files.SECTOR)
    return bytes(out)


def _root_in_itself(data: bytearray, at: int) -> None:
    for entry in range(3):
        struct.pack_into("<3I", data, at + entry * 128 + 68, 0, 0, 0)


def _huge_streams(data: bytearray, at: int) -> None:
    for entry in range(1, 4):
        struct.pack_into("<Q", data, at + entry * 128 + 120, 0xFFFFFFF0)


def _message(depth: int) -> bytes:
    data = b"Subject: last\n\nlast words"
    for number in range(depth):
        mark = f"b{number}".encode()
        head = b'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="' + mark + b'"\n\n--' + mark + b"\n"
        data = head + data + b"\n--" + mark + b"--\n"
    return b"Subject: deep\n" + data


def _table(**columns: object) -> bytes:
    out = io.BytesIO()
    pa.parquet.write_table(pa.table(columns), out)
    return out.getvalue()


def _database(*statements: str) -> bytes:
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
        return connection.serialize()


MESSAGE = b"From a@x.org Mon Jan  1 00:00:00 2024\n"
"""The line that starts a message of a mailbox."""
COUNT = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"


def _notebook(cells: object) -> bytes:
    return json.dumps({"cells": cells, "nbformat": 4, "metadata": {}}).encode()


def _cell(text: object) -> Mapping[str, object]:
    return {"cell_type": "markdown", "source": text, "metadata": {}}


FILES: Mapping[str, Callable[[], bytes]] = {
    # zip files and XML
    "zeros.odt": lambda: sample_files.replaced(odf_files.text(""), {"Pictures/0.png": b"\0" * 300_000_000}),
    "lying-size.odt": _lying_zip,
    "many-entries.ods": lambda: sample_files.zipped(
        {"mimetype": "application/vnd.oasis.opendocument.spreadsheet", "content.xml": "<a/>"}
        | {f"{n}": "" for n in range(20_000)}
    ),
    "entities.odt": lambda: _open_text("<text:p>&a9;</text:p>", ENTITIES),
    "external-entity.odt": lambda: _open_text(
        "<text:p>words &e;</text:p>", '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>'
    ),
    "deep-spans.odt": lambda: _open_text(f"<text:p>{'<text:span>' * 100_000}words{'</text:span>' * 100_000}</text:p>"),
    "deep-lists.odt": lambda: _open_text(
        f"{'<text:list><text:list-item>' * 5_000}<text:p>words</text:p>{'</text:list-item></text:list>' * 5_000}"
    ),
    "spaces.odt": lambda: _open_text('<text:p>words<text:s text:c="2000000000"/>end</text:p>'),
    "deep-shapes.odp": lambda: _xml(
        odf_files.show([("Title", "box", "")]), "content.xml", "<draw:page>", "<draw:page>" + "<draw:g>" * 2_000
    ),
    "spans.ods": lambda: odf_files.sheets(
        {
            "S": '<table:table-row><table:table-cell table:number-columns-spanned="16000" '
            'table:number-rows-spanned="1000000"><text:p>words</text:p></table:table-cell></table:table-row>' * 2_000
        }
    ),
    "far-cell.xlsx": lambda: _sheet('<row r="1048576"><c r="XFD1048576" t="inlineStr"><is><t>words</t></is></c></row>'),
    "merges.xlsx": lambda: _sheet(
        '<row r="1"><c r="A1" t="inlineStr"><is><t>words</t></is></c></row>',
        "<mergeCells>" + '<mergeCell ref="A1:XFD1048576"/>' * 50_000 + "</mergeCells>",
    ),
    "no-such-string.xlsx": lambda: _sheet('<row r="1"><c r="A1" t="s"><v>99999999</v></c></row>'),
    "wide-span.docx": lambda: _word(
        '<w:tbl><w:tr><w:tc><w:tcPr><w:gridSpan w:val="2000000000"/></w:tcPr><w:p><w:r><w:t>words</w:t></w:r></w:p>'
        "</w:tc></w:tr></w:tbl>"
    ),
    "deep-tables.docx": lambda: _word(
        f"{'<w:tbl><w:tr><w:tc>' * 3_000}<w:p><w:r><w:t>words</w:t></w:r></w:p>{'</w:tc></w:tr></w:tbl>' * 3_000}"
    ),
    "cut.xlsb": lambda: sample_files.replaced(
        xlsb_files.sheet_file([["a", 1.0]]), {"xl/worksheets/sheet1.bin": b"\x81\x01\x00\x91\x01\xff\xff\xff\x7f"}
    ),
    "long-text.xlsb": lambda: sample_files.replaced(
        xlsb_files.sheet_file([["a", 1.0]]),
        {
            "xl/worksheets/sheet1.bin": b"\x81\x01\0\x94\x01\x10%b\x91\x01\0\0\x11%b\x06\x0c%b%b"
            % (b"\0" * 16, b"\0" * 17, b"\0" * 8, b"\xff\xff\xff\x7f\x92\x01\0")
        },
    ),
    # Office files before 2007
    "fat-loop.doc": lambda: _loop_in_fat(ole_files.word_file([("words " * 5000, True)])),
    "fat-loop.xls": lambda: _loop_in_fat(ole_files.sheet_file([["x", 1.0]])),
    "folder-loop.doc": lambda: _directory(_root_in_itself, ole_files.word_file([("words", True)])),
    "huge-streams.ppt": lambda: _directory(_huge_streams, ole_files.show_file([("Title", "box", "")])),
    "header-only.xls": lambda: ole_files.sheet_file([["x", 1.0]])[:512],
    "deep-records.ppt": lambda: ole_files.ole_file(
        {"PowerPoint Document": struct.pack("<HHI", 0xF, 1000, 0x7FFFFFFF) * 100_000, "Current User": b"\0" * 40}
    ),
    "strings.xls": lambda: ole_files.ole_file(
        {"Workbook": struct.pack("<HH16sHHII", 0x809, 16, b"\0\6\5\0" * 4, 0xFC, 8, 0x7FFFFFFF, 0x7FFFFFFF)}
    ),
    "attachments.msg": lambda: ole_files.message_file(
        {"0037": "x", "1000": "words"}, [(f"{n}.txt", b"words") for n in range(500)]
    ),
    # RTF
    "open-groups.rtf": lambda: rb"{\rtf1 words " + b"{" * 2_000_000,
    "closed-groups.rtf": lambda: rb"{\rtf1 words " + b"}" * 2_000_000,
    "numbers.rtf": lambda: rb"{\rtf1 words \u999999999 \u-99999999999999999999 \'zz\uc99999999 \u65 end\par}",
    "binary.rtf": lambda: rb"{\rtf1 words\par\bin999999999 }" + b"x" * 1_000,
    "paragraphs.rtf": lambda: rb"{\rtf1 words" + rb"\par " * 200_000 + b"}",
    "footnotes.rtf": lambda: rb"{\rtf1 words" + rb"{\footnote " * 300_000,
    # tables
    "footer.parquet": lambda: b"PAR1" + b"\0" * 100 + struct.pack("<I", 0x7FFFFFFF) + b"PAR1",
    "repeated.parquet": lambda: _table(
        a=pa.DictionaryArray.from_arrays(pa.array([0] * 900_000, pa.int32()), pa.array(["words " * 2_000]))
    ),
    "cut.parquet": lambda: record_files.table_data()[: len(record_files.table_data()) // 2],
    "columns.parquet": lambda: _table(**{f"c{n}": [n] for n in range(5_000)}),
    "damaged.feather": lambda: (
        b"ARROW1\0\0" + b"\xff\xff\xff\xff" + struct.pack("<I", 0x7FFFFFF0) + b"\0" * 200 + b"ARROW1"
    ),
    "generated.db": lambda: _database(
        "CREATE TABLE t (a INT, b TEXT AS (hex(zeroblob(400000000))))", "INSERT INTO t (a) VALUES (1)"
    ),
    "endless-view.db": lambda: _database(
        "CREATE TABLE t (a TEXT)", "INSERT INTO t VALUES ('words')", f"CREATE VIEW v AS {COUNT}) SELECT i FROM n"
    ),
    "triggers.db": lambda: _database(
        "CREATE TABLE t (a TEXT)",
        "INSERT INTO t VALUES ('words')",
        "CREATE TRIGGER g AFTER INSERT ON t BEGIN INSERT INTO t VALUES (load_extension('x')); END",
    ),
    "pages.db": lambda: _changed(
        _database("CREATE TABLE t (a TEXT)", f"INSERT INTO t {COUNT} WHERE i < 5000) SELECT 'words ' || i FROM n"),
        8192,
        b"\xff" * 4096,
    ),
    "cut.db": lambda: _database("CREATE TABLE t (a TEXT)", "INSERT INTO t VALUES ('words')")[:4096],
    "many-tables.db": lambda: _database(*(f"CREATE TABLE t{n} (a TEXT)" for n in range(3_000))),
    # mails
    "messages.mbox": lambda: b"From a@x.org Mon Jan  1 00:00:00 2024\nSubject: x\n\n" * 10_000,
    "long-header.mbox": lambda: MESSAGE + b"Subject: " + b"words " * 4_000_000 + b"\n\nbody",
    "headers.mbox": lambda: MESSAGE + b"X-A: b\n" * 200_000 + b"\nwords",
    "deep.eml": lambda: _message(1_000),
    "parts.eml": lambda: (
        b'Subject: x\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="b"\n\n'
        + b'--b\nContent-Disposition: attachment; filename="a.txt"\n\nwords\n' * 20_000
    ),
    # text
    "deep.json": lambda: b"[" * 1_000_000,
    "digits.json": lambda: b'[{"a": ' + b"9" * 5_000_000 + b"}]",
    "columns.csv": lambda: b",".join(b"c%d" % n for n in range(200_000)) + b"\n" + b",".join([b"x"] * 200_000) + b"\n",
    "quote.csv": lambda: b'a,b\n1,"' + b"words\n" * 1_000_000,
    "cells.ipynb": lambda: _notebook([_cell("words")] * 20_000),
    "deep.ipynb": lambda: b'{"cells": [{"cell_type": "markdown", "source": ' + b"[" * 100_000,
    "cues.vtt": lambda: b"WEBVTT\n\n" + b"00:00.000 --> 99:59:59.999\nwords\n\n" * 50_000,
    "times.srt": lambda: b"1\n99999999999999999999:00:00,000 --> 00:00:00,000\nwords\n",
    "headings.org": lambda: b"".join(b"*" * (n % 1_000 + 1) + b" words\n" for n in range(20_000)),
    "tables.html": lambda: b"<table><tr><td>" * 20_000 + b"words",
}
