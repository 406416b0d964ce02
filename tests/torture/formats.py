"""A folder with a file of every format that can be indexed: every loader, and archives of files."""

from __future__ import annotations

import io
import json
import os
import random
import sqlite3
import tarfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from email.message import EmailMessage
from functools import cache
from html import escape

from tests.torture.folder import Files, paragraphs_of

SMALL_WORDS = (6, 10)
"""Words of a paragraph: pages are drawn and read, so they are short."""
Rows = Sequence[tuple[str, str]]
Write = Callable[[Sequence[str]], bytes]
"""Paragraphs -> file."""


def _rows(parts: Sequence[str]) -> list[dict[str, object]]:
    """Records: a number, a text, a date."""
    return [{"number": number, "note": part, "day": f"2026-01-{number + 1:02}"} for number, part in enumerate(parts)]


def _numbered(parts: Sequence[str]) -> list[tuple[float, str]]:
    """Rows of a sheet."""
    return [(float(number), part) for number, part in enumerate(parts)]


def _lines(parts: Sequence[str]) -> list[str]:
    """Lines of eight words."""
    words = " ".join(parts).split()
    return [" ".join(words[at : at + 8]) for at in range(0, len(words), 8)]


def _pdf(parts: Sequence[str]) -> bytes:
    from tests.load.sample_files import pdf

    return pdf([_lines([part]) for part in parts], title="Pumps", outline=[("Start", 0, 0)])


def _pdf_table(parts: Sequence[str]) -> bytes:
    """A page of a text and a table in a grid of lines."""
    from reportlab.pdfgen import canvas

    out = io.BytesIO()
    paper = canvas.Canvas(out, invariant=1)
    for number, line in enumerate(_lines(parts)):
        paper.drawString(72, 760 - 15 * number, line)
    for number, (name, note) in enumerate(
        [("name", "note"), *((f"pump {n}", part[:40]) for n, part in enumerate(parts))]
    ):
        top = 500 - 25 * number
        paper.drawString(88, top - 17, name)
        paper.drawString(208, top - 17, note)
        paper.grid((80, 200, 480), (top, top - 25))
    paper.showPage()
    paper.save()
    return out.getvalue()


def _pdf_scan(parts: Sequence[str]) -> bytes:
    from tests.load.sample_files import pdf
    from tests.load.scan_files import scan

    return scan(pdf([_lines(parts)]), dpi=120)


def _picture(parts: Sequence[str]) -> bytes:
    from tests.load.sample_files import pdf
    from tests.load.scan_files import draw, save

    return save(draw(pdf([_lines(parts)]), 120), "PNG")


def _docx(parts: Sequence[str]) -> bytes:
    import docx

    document = docx.Document()
    document.add_heading("Pumps", 1)
    for part in parts:
        document.add_paragraph(part)
    table = document.add_table(2, 2)
    for row, cells in enumerate((("name", "note"), ("pump", parts[0]))):
        for column, text in enumerate(cells):
            table.cell(row, column).text = text
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def _xlsx(parts: Sequence[str]) -> bytes:
    from tests.load.sample_files import workbook

    return workbook({"Pumps": [["name", "note"], *([number, part] for number, part in enumerate(parts))]})


def _pptx(parts: Sequence[str]) -> bytes:
    from tests.load.sample_files import slides

    return slides([(f"Slide {number}", part, f"Note of {number}") for number, part in enumerate(parts)])


def _odt(parts: Sequence[str]) -> bytes:
    from tests.load import odf_files

    return odf_files.text("".join(f"<text:p>{escape(part)}</text:p>" for part in parts))


def _ods(parts: Sequence[str]) -> bytes:
    from tests.load import odf_files

    cells = "".join(
        f"<table:table-row><table:table-cell><text:p>{escape(part)}</text:p></table:table-cell></table:table-row>"
        for part in parts
    )
    return odf_files.sheets({"Pumps": cells})


def _odp(parts: Sequence[str]) -> bytes:
    from tests.load import odf_files

    return odf_files.show([(f"Slide {number}", escape(part), "Note") for number, part in enumerate(parts)])


def _doc(parts: Sequence[str]) -> bytes:
    from tests.load.ole_files import word_file

    return word_file([(part + "\r", True) for part in parts])


def _ppt(parts: Sequence[str]) -> bytes:
    from tests.load.ole_files import show_file

    return show_file([(f"Slide {number}", part, "Note") for number, part in enumerate(parts)])


def _xls(parts: Sequence[str]) -> bytes:
    from tests.load.ole_files import sheet_file

    return sheet_file([["name", "note"], *_numbered(parts)])


def _xlsb(parts: Sequence[str]) -> bytes:
    from tests.load.xlsb_files import sheet_file

    return sheet_file([["name", "note"], *_numbered(parts)])


def _msg(parts: Sequence[str]) -> bytes:
    from tests.load.ole_files import message_file

    texts = {"0037": "Pumps", "1000": "\r\n".join(parts), "0C1A": "Ada"}
    return message_file(texts, [("note.txt", parts[0].encode())])


def _eml(parts: Sequence[str]) -> bytes:
    mail = EmailMessage()
    mail["From"], mail["Subject"], mail["Date"] = "ada@example.org", "Pumps", "Mon, 01 Jun 2026 10:00:00 +0000"
    mail.set_content("\n\n".join(parts))
    return mail.as_bytes()


def _mbox(parts: Sequence[str]) -> bytes:
    return b"".join(b"From ada@example.org Mon Jun  1 10:00:00 2026\n" + _eml([part]) + b"\n" for part in parts)


def _epub(parts: Sequence[str]) -> bytes:
    from tests.load.sample_files import book

    return book({f"c{number}.xhtml": f"<h1>C{number}</h1><p>{escape(part)}</p>" for number, part in enumerate(parts)})


def _xml(parts: Sequence[str]) -> bytes:
    body = "".join(f"<para>{escape(part)}</para>" for part in parts)
    return f"<?xml version='1.0'?><article><title>Pumps</title>{body}</article>".encode()


def _html(parts: Sequence[str]) -> bytes:
    table = f"<table><tr><th>name</th><th>note</th></tr><tr><td>pump</td><td>{escape(parts[0])}</td></tr></table>"
    body = "".join(f"<p>{escape(part)}</p>" for part in parts)
    return f"<html><title>Pumps</title><body><h1>Pumps</h1>{body}{table}</body></html>".encode()


def _mhtml(parts: Sequence[str]) -> bytes:
    head = b"MIME-Version: 1.0\nContent-Type: multipart/related; boundary=b; type=text/html\n\n--b\n"
    return head + b"Content-Type: text/html; charset=utf-8\n\n" + _html(parts) + b"\n--b--\n"


def _csv(parts: Sequence[str]) -> bytes:
    return "".join(f'{number},"{part}"\n' for number, part in enumerate(["note", *parts])).encode()


def _jsonl(parts: Sequence[str]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in _rows(parts)).encode()


def _json(parts: Sequence[str]) -> bytes:
    return json.dumps(_rows(parts)).encode()


def _parquet(parts: Sequence[str]) -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    out = io.BytesIO()
    parquet.write_table(pa.Table.from_pylist(_rows(parts)), out)
    return out.getvalue()


def _feather(parts: Sequence[str]) -> bytes:
    import pyarrow as pa
    from pyarrow import feather

    out = io.BytesIO()
    feather.write_feather(pa.Table.from_pylist(_rows(parts)), out)
    return out.getvalue()


def _tsv(parts: Sequence[str]) -> bytes:
    return "".join(f"{number}\t{part}\n" for number, part in enumerate(["note", *parts])).encode()


def _sqlite(parts: Sequence[str]) -> bytes:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE pumps (number INTEGER, note TEXT, day TEXT)")
        connection.executemany("INSERT INTO pumps VALUES (:number, :note, :day)", _rows(parts))
        connection.commit()
        return connection.serialize()


def _notebook(parts: Sequence[str]) -> bytes:
    cells = [{"cell_type": "markdown", "metadata": {}, "source": part} for part in parts]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).encode()


def _subtitles(parts: Sequence[str]) -> bytes:
    return (
        b"WEBVTT\n"
        + "".join(
            f"\n00:0{number}.000 --> 00:0{number + 1}.000\n{part}\n" for number, part in enumerate(parts)
        ).encode()
    )


def _srt(parts: Sequence[str]) -> bytes:
    return "".join(
        f"{number + 1}\n00:00:0{number},000 --> 00:00:0{number + 1},000\n{part}\n\n"
        for number, part in enumerate(parts)
    ).encode()


def _rtf(parts: Sequence[str]) -> bytes:
    return ("{\\rtf1\\ansi " + "\\par ".join(parts) + "\\par}").encode()


def _zip(parts: Sequence[str]) -> bytes:
    from tests.load.sample_files import zipped

    return zipped({f"part{number}.md": part for number, part in enumerate(parts)})


def _tar(parts: Sequence[str]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for number, part in enumerate(parts):
            entry = tarfile.TarInfo(f"part{number}.md")
            entry.size = len(part.encode())
            archive.addfile(entry, io.BytesIO(part.encode()))
    return out.getvalue()


def _text(parts: Sequence[str]) -> bytes:
    return "\n\n".join(parts).encode()


def _code(parts: Sequence[str]) -> bytes:
    return "".join(f'def part{number}():\n    """{part}"""\n\n\n' for number, part in enumerate(parts)).encode()


def _in_child(write: Write) -> Write:
    """The same in a process of its own: pyarrow starts threads, and the process of the trials must have none."""

    def write_in_child(parts: Sequence[str]) -> bytes:
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            with os.fdopen(writing, "wb") as stream:
                stream.write(write(parts))
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as stream:
            content = stream.read()
        os.waitpid(pid, 0)
        return content

    return write_in_child


FORMATS: Mapping[str, Write] = {
    "text.pdf": _pdf, "table.pdf": _pdf_table, "scan.pdf": _pdf_scan, "picture.png": _picture,
    "word.docx": _docx, "sheet.xlsx": _xlsx, "slides.pptx": _pptx, "text.odt": _odt, "sheet.ods": _ods,
    "slides.odp": _odp, "old.doc": _doc, "old.ppt": _ppt, "old.xls": _xls, "binary.xlsb": _xlsb, "text.rtf": _rtf,
    "mail.msg": _msg, "mail.eml": _eml, "mails.mbox": _mbox, "book.epub": _epub, "page.html": _html,
    "page.mhtml": _mhtml, "rows.csv": _csv, "rows.jsonl": _jsonl, "rows.sqlite": _sqlite,
    "rows.parquet": _in_child(_parquet), "rows.json": _json, "records.yaml": _json, "records.tsv": _tsv,
    "records.ndjson": _jsonl, "records.feather": _in_child(_feather),
    "cells.ipynb": _notebook, "film.vtt": _subtitles, "film.srt": _srt, "notes.zip": _zip, "notes.tar.gz": _tar,
    "text.md": _text, "text.rst": _text, "text.tex": _text, "code.py": _code, "plain.txt": _text,
    "text.xml": _xml,
}  # fmt: skip
"""File name -> how it is written."""
SETTINGS = (
    "load:\n- {name: folder}\n- {name: archive}\n- {name: sqlite, only: [.sqlite]}\n"
    "- {name: csv, records: {}, only: [.tsv]}\n- {name: data, only: [.yaml]}\n"
    "- {name: jsonl, records: {}, only: [.ndjson]}\n- {name: parquet, records: {}, only: [.feather]}\n"
)
"""Archives and databases are read when told to; of tables, one of two is read as records."""


@cache
def format_file(name: str, edition: int) -> bytes:
    """A file in one edition, the same bytes each time; the part of its name after the last `-` is its format."""
    return FORMATS[name.rpartition("-")[2]](paragraphs_of(name, edition, words=SMALL_WORDS))


class FormatsFolder:
    """One file of each format."""

    def first(self) -> Files:
        """See `Folder`."""
        return {name: format_file(name, 0) for name in FORMATS}

    def change(self, files: Files, chance: random.Random) -> Files:
        """Change files: six edited, two new, two deleted, one renamed. Every format is changed by some trial."""
        after = dict(files)
        names = sorted(after)
        chance.shuffle(names)
        for name in names[:6]:
            after[name] = format_file(name, chance.randrange(1, 10**6))
        for name in names[6:8]:
            new = f"new{chance.randrange(10**4)}-{name}"
            after[new] = format_file(new, 1)
        for name in names[8:10]:
            del after[name]
        after[f"moved-{names[10]}"] = after.pop(names[10])
        return after

    def publish(self, folder: object) -> None:
        """Nothing: the folder itself is indexed."""
