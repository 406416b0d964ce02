"""Files whose field `access` is written well or damaged, by format.

`python -m tests.security.access_variants` prints the table. Each file has a word of its own: `bob` may read those
whose field is certain, `alice` none of them, an owner all.
"""

from __future__ import annotations

import csv
import io
import json
import re
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from email.message import EmailMessage
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Protocol, TypeAlias
from xml.sax.saxutils import escape

import pyarrow as pa
import pyarrow.parquet

from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.settings import Pipeline
from tests import reads
from tests.load import odf_files, ole_files
from tests.load.sample_files import book, replaced, workbook, zipped

PIPELINE = """
load:
- {name: folder}
- {name: archive}
- {name: csv, records: {text: [name, salary], metadata: [salary]}}
- {name: json, records: {text: [name, salary], metadata: [salary]}}
- {name: jsonl, records: {text: [name, salary], metadata: [salary]}}
- {name: data, only: [.yaml, .toml, .xml], records: {text: [name, salary], metadata: [salary]}}
- {name: xlsx, records: {text: [name, salary], metadata: [salary]}}
- {name: xls, records: {text: [name, salary], metadata: [salary]}}
- {name: ods, records: {text: [name, salary], metadata: [salary]}}
- {name: parquet, records: {text: [name, salary], metadata: [salary]}}
- {name: sqlite, only: [.db], records: {text: [name, salary], metadata: [salary]}}
embed: {name: hashing, dimension: 64}
"""
WHOLE = """
embed: {name: hashing, dimension: 64}
"""
Value: TypeAlias = "str | int | bool | list[str] | dict[str, str] | None"
MANY = "".join(f"- tag{number}\n" for number in range(2_100))
LONG = ", ".join(["bob", *(f"group:g{number}" for number in range(200))])


@dataclass(frozen=True)
class Variant:
    """A file."""

    name: str
    damage: str
    data: bytes
    bob: bool
    """Whether the field is certain, so that `bob` reads it."""
    reported: bool
    """Whether an index run reports it."""
    word: str

    @property
    def kind(self) -> str:
        """The suffix of its name."""
        return self.name.rpartition(".")[2]


FRONT_MATTER: Mapping[str, tuple[str, bool, bool]] = {
    "well written": ("---\naccess: [bob]\n---\n", True, False),
    "a list of lines": ("---\naccess:\n  - bob\n  - group:board\n---\n", True, False),
    "TOML": ('+++\naccess = ["bob"]\n+++\n', True, False),
    "in a flow mapping": ("---\n{title: P, access: [bob]}\n---\n", True, False),
    "in quotes": ('---\n"access": bob\n---\n', True, False),
    "CR LF": ("---\r\ntitle: P\r\naccess: [bob]\r\n---\r\n", True, False),
    "CR": ("---\rtitle: P\raccess: [bob]\r---\r", True, False),
    "Access": ("---\nAccess: [bob]\n---\n", True, False),
    "ACCESS, invisible": ("---\n\u200bACCESS: [bob]\n---\n", True, False),
    "colon in a title": ("---\ntitle: Plans: the house\naccess: [bob]\n---\n", True, True),
    "closed by ----": ("---\naccess: [bob]\n----\n", True, True),
    "opened by ----": ("----\naccess: [bob]\n---\n", True, True),
    "blank line first": ("\n---\naccess: [bob]\n---\n", True, True),
    "byte order mark": ("\ufeff---\naccess: [bob]\n---\n", True, False),
    "two byte order marks": ("\ufeff\ufeff---\naccess: [bob]\n---\n", True, True),
    "spaces before the fences": ("  ---\naccess: [bob]\n  ---\n", True, True),
    "2,100 values before": (f"---\ntags:\n{MANY}access: [bob]\n---\n", True, True),
    "70,000 characters before": (f"---\nnote: {'x' * 70_000}\naccess: [bob]\n---\n", True, True),
    "not closed": ("---\ntitle: P\naccess: [bob]\n\n", True, True),
    "error in TOML": ('+++\ntitle = P\naccess = ["bob"]\n+++\n', True, True),
    "an empty list": ("---\naccess: []\n---\n", False, False),
    "empty": ("---\naccess:\n---\n", False, True),
    "@board": ("---\naccess: @board\n---\n", False, True),
    "given twice": ("---\naccess: [bob]\naccess: [bob]\n---\n", False, True),
    "Access and access": ("---\naccess: [bob]\nAccess: [bob, alice]\n---\n", False, True),
    "a tab": ("---\naccess:\n\t- bob\n---\n", False, True),
    "a number": ("---\naccess: 7\n---\n", False, True),
    "true": ("---\naccess: true\n---\n", False, True),
    "a mapping": ("---\naccess: {group: board}\n---\n", False, True),
    "a mapping below": ("---\naccess:\n  group: board\n---\n", False, True),
    "a list in a list": ("---\naccess: [[bob]]\n---\n", False, True),
    "a name with a space": ("---\naccess: [bob, Al Ice]\n---\n", False, True),
    "a semicolon": ("---\naccess: bob; carl\n---\n", False, True),
    "another kind": ("---\naccess: [role:board]\n---\n", False, True),
    "an open bracket": ("---\naccess: [bob\ntitle: P\n---\n", False, True),
    "an open quote": ('---\ntitle: "P\naccess: [bob]\n---\n', True, True),
    "indented beside an error": ("---\ntitle: a: b\n  access: [bob]\n---\n", False, True),
    "in a broken flow mapping": ("---\n{title: a: b: c, access: [bob]\n---\n", False, True),
}
"""Damage -> (what stands before the text, whether it is certain, whether it is reported)."""
ONLY_MARKDOWN: Mapping[str, tuple[str, bool, bool]] = {
    "broken, no access": ("---\ntitle: a: b\n---\n", False, True),
    "broken TOML, no access": ("+++\ntitle = a\n+++\n", False, True),
    "a template": ("---\ntitle: {{ x }}\ndate: {{ y }}\n---\n", False, True),
}
MARKUP: Mapping[str, tuple[str, str, bool, bool]] = {
    "docinfo": (".rst", "Plan\n====\n\n:author: Ada\n:access: bob\n\n", True, False),
    "docinfo, upper case": (".rst", ":Access: bob,\n   group:board\n\n", True, False),
    "docinfo, twice": (".rst", ":access: bob\n:access: bob\n\n", False, True),
    "docinfo, empty": (".rst", ":access:\n\n", False, True),
    "attribute": (".adoc", "= Plan\n:access: bob\n\n", True, False),
    "keyword": (".org", "#+TITLE: Plan\n#+ACCESS: bob\n\n", True, False),
    "keyword, damaged": (".org", "#+ACCESS: bob carl\n\n", False, True),
}
OTHERS = "".join(f'<meta name="n{number}" content="x">' for number in range(60))
META: Mapping[str, tuple[str, bool, bool]] = {
    "meta": ('<meta name="access" content="bob, group:board">', True, False),
    "META": ('<META NAME="Access" CONTENT="bob">', True, False),
    "property": ('<meta property="access" content="bob">', True, False),
    "after 60 others": (f"{OTHERS}<meta name='access' content='bob'>", True, False),
    "empty meta": ('<meta name="access" content="">', False, True),
    "meta twice": ('<meta name="access" content="bob"><meta name="access" content="bob">', False, True),
    "meta damaged": ('<meta name="access" content="bob;carl">', False, True),
    "long meta": (f'<meta name="access" content="{LONG}">', True, False),
}
CELLS: Mapping[str, tuple[str, Value, bool, bool]] = {
    "well written": ("access", "bob", True, False),
    "two names": ("access", "bob, group:board", True, False),
    "Access": (" Access ", "bob", True, False),
    "longer than 1,000": ("access", LONG, True, False),
    "empty": ("access", "", False, True),
    "damaged": ("access", "bob carl", False, True),
    "a list in a text": ("access", '["bob"]', False, True),
}
"""Damage -> (name of the column, cell, whether it is certain, whether it is reported)."""
VALUES: Mapping[str, tuple[str, Value, bool, bool]] = {
    "a list": ("access", ["bob"], True, False),
    "an empty list": ("access", [], False, False),
    "null": ("access", None, False, True),
    "a number": ("access", 7, False, True),
    "true": ("access", True, False, True),
    "an object": ("access", {"group": "board"}, False, True),
}


Made: TypeAlias = "tuple[str, str, Callable[[str], bytes], bool, bool]"
"""(suffix, damage, word -> file, whether the field is certain, whether it is reported)"""


def variants() -> Iterator[Variant]:
    """All files."""
    made = chain(_texts(), _pages(), _held(), _tables())
    for number, (suffix, damage, make, bob, reported) in enumerate(made):
        word = "qz" + "".join(chr(ord("a") + int(digit)) for digit in f"{number:04}") + "okapi"
        yield Variant(f"file{number}{suffix}", damage, make(word), bob, reported, word)


def _template(text: str, encode: Callable[[str], bytes] = str.encode) -> Callable[[str], bytes]:
    return lambda word: encode(text.replace("WORD", word))


def _texts() -> Iterator[Made]:
    for suffix in (".md", ".mdx", ".markdown", ".txt", ".rst", ".qmd"):
        is_markdown = suffix in (".md", ".mdx", ".markdown")
        for damage, (head, bob, reported) in {**FRONT_MATTER, **(ONLY_MARKDOWN if is_markdown else {})}.items():
            yield suffix, damage, _template(f"{head}\nThe WORD house.\n"), bob, reported
    for damage, (suffix, head, bob, reported) in MARKUP.items():
        yield suffix, damage, _template(f"{head}The WORD house.\n"), bob, reported


def _pages() -> Iterator[Made]:
    for damage, (meta, bob, reported) in META.items():
        page = f"<html><head><title>P</title>{meta}</head><body><h1>P</h1><p>The WORD house.</p></body></html>"
        for suffix, encode in PAGES.items():
            yield suffix, damage, _template(page, encode), bob, reported
    body = "---\naccess: [bob]\n---\n<html><body><p>The WORD house.</p></body></html>"
    yield ".html", "front matter", _template(body), True, False


def _held() -> Iterator[Made]:
    for damage in ("well written", "colon in a title", "@board", "given twice", "blank line first", "an empty list"):
        head, bob, reported = FRONT_MATTER[damage]
        for suffix, hold in HOLDERS.items():
            is_trimmed = suffix == ".ipynb" and damage.startswith("blank")
            yield suffix, damage, _template(f"{head}\nThe WORD house.\n", hold), bob, reported and not is_trimmed


def _tables() -> Iterator[Made]:
    for suffix, table in TABLES.items():
        typed = suffix in (".json", ".jsonl", ".yaml", ".parquet")
        for damage, (column, cell, bob, reported) in {**CELLS, **(VALUES if typed else {})}.items():
            if suffix != ".xml" or damage != "Access":  # XML has no names with spaces
                yield suffix, damage, partial(table, column=column, cell=cell), bob, reported
    yield ".csv", "a short row", _template("name,salary,access\nWORD,5\n"), False, True
    yield ".csv", "two columns", _template("name,access,salary,Access\nWORD,bob,5,bob\n"), False, True
    yield ".xlsx", "below another table", _two_tables, True, False
    for suffix in (".json", ".jsonl"):
        twice = '{"name": "WORD", "salary": 5, "access": ["bob"], "access": ["everyone"]}'
        yield suffix, "key twice", _template(twice), False, True


def _two_tables(word: str) -> bytes:
    rows = [["name", "salary"], ["x", "y"], ["z", "y"], [], ["name", "access"], [word, "bob"], ["v", "carl"]]
    return workbook({"Staff": rows})


def _mail(text: str) -> bytes:
    mail = EmailMessage()
    mail["Subject"] = "Attached"
    mail.set_content("See the attachment.")
    mail.add_attachment(text.encode(), maintype="text", subtype="markdown", filename="plan.md")
    return mail.as_bytes()


def _notebook(text: str) -> bytes:
    cells = [{"cell_type": "raw", "metadata": {}, "source": text}]
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}).encode()


def _mhtml(page: str) -> bytes:
    return f"MIME-Version: 1.0\nContent-Type: text/html; charset=utf-8\n\n{page}".encode()


def _epub(page: str) -> bytes:
    return replaced(book({"a.xhtml": "x"}), {"OEBPS/a.xhtml": page})


def _csv(word: str, column: str, cell: Value, delimiter: str = ",") -> bytes:
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter).writerows([["name", "salary", column], [word, 5, cell]])
    return out.getvalue().encode()


def _json(word: str, column: str, cell: Value) -> bytes:
    return json.dumps([{"name": word, "salary": 5, column: cell}]).encode()


def _xml(word: str, column: str, cell: Value) -> bytes:
    row = f"<row><name>{word}</name><salary>5</salary><{column}>{escape(str(cell))}</{column}></row>"
    return f"<all>{row}{row.replace(word, 'other')}</all>".encode()


def _toml(word: str, column: str, cell: Value) -> bytes:
    return f'[[rows]]\nname = "{word}"\nsalary = 5\n{json.dumps(column)} = {json.dumps(cell)}\n'.encode()


def _parquet(word: str, column: str, cell: Value) -> bytes:
    out = io.BytesIO()
    pa.parquet.write_table(pa.Table.from_pylist([{"name": word, "salary": 5, column: cell}]), out)
    return out.getvalue()


def _sqlite(word: str, column: str, cell: Value) -> bytes:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f'CREATE TABLE staff (name TEXT, salary INTEGER, "{column}" TEXT)')
        connection.execute("INSERT INTO staff VALUES (?, 5, ?)", (word, cell))
        connection.commit()
        return connection.serialize()


def _ods(word: str, column: str, cell: Value) -> bytes:
    rows = "".join(
        "<table:table-row>"
        + "".join(f"<table:table-cell><text:p>{escape(str(text))}</text:p></table:table-cell>" for text in row)
        + "</table:table-row>"
        for row in (("name", "salary", column), (word, "5", cell))
    )
    return odf_files.sheets({"Staff": rows})


class Table(Protocol):
    """Makes a file with a row: name, salary, and `cell` in a column."""

    def __call__(self, word: str, column: str, cell: Value) -> bytes: ...


PAGES: Mapping[str, Callable[[str], bytes]] = {".html": str.encode, ".mhtml": _mhtml, ".epub": _epub}
HOLDERS: Mapping[str, Callable[[str], bytes]] = {
    ".zip": lambda text: zipped({"in/plan.md": text}),
    ".eml": _mail,
    ".ipynb": _notebook,
}
TABLES: Mapping[str, Table] = {
    ".csv": _csv,
    ".tsv": lambda word, column, cell: _csv(word, column, cell, "\t"),
    ".json": _json,
    ".jsonl": lambda word, column, cell: json.dumps({"name": word, "salary": 5, column: cell}).encode() + b"\n{}\n",
    ".yaml": _json,
    ".toml": _toml,
    ".xml": _xml,
    ".xlsx": lambda word, column, cell: workbook({"Staff": [["name", "salary", column], [word, 5, cell]]}),
    ".xls": lambda word, column, cell: ole_files.sheet_file([["name", "salary", column], [word, 5, str(cell)]]),
    ".ods": _ods,
    ".parquet": _parquet,
    ".db": _sqlite,
}


@dataclass(frozen=True)
class Outcome:
    """Who finds a file, and whether the index run reports it."""

    variant: Variant
    alice: bool
    bob: bool
    owner: bool
    reported: bool
    shown: bool
    """Whether the field is in the text of a chunk."""

    @property
    def is_right(self) -> bool:
        """Whether all of it is as it should be."""
        expected = (False, self.variant.bob, True, self.variant.reported, False)
        return (self.alice, self.bob, self.owner, self.reported, self.shown) == expected


def examine(folder: Path, place: Path | str, *, records: bool = True) -> list[Outcome]:
    """Index all files and look for the word of each."""
    files = list(variants())
    for file in files:
        (folder / file.name).write_bytes(file.data)
    with KnowledgeBase.open(place, Pipeline.from_yaml(PIPELINE if records else WHOLE)) as kb:
        report = kb.index(folder)
        failures = {Path(failure.source).name for failure in report.failures}
        texts = {name: _words(reader) for name, reader in
                 (("owner", kb), ("alice", kb.as_user("alice")), ("bob", kb.as_user("bob")))}  # fmt: skip
        return [
            Outcome(
                file,
                file.word in texts["alice"],
                file.word in texts["bob"],
                file.word in texts["owner"],
                file.name in failures,
                "access" in texts["owner"].get(file.word, "").lower(),
            )
            for file in files
        ]


def _words(kb: KnowledgeBase) -> dict[str, str]:
    """Each word that a reader can find -> the chunk with it, as a model would see it."""
    found: dict[str, str] = {}
    for chunk in reads.chunks(kb):
        for word in re.findall(r"qz[a-j]{4}okapi", chunk.text):
            found[word] = f"{chunk.header}\n{chunk.text}"
    return found


def main() -> int:
    """Print the table; returns the number of wrong rows."""
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory, "docs")
        folder.mkdir()
        outcomes = examine(folder, Path(directory, "kb"))
    lines = ["| format | how `access` is written | alice | bob | owner | reported |", f"|{' --- |' * 6}"]
    for outcome in outcomes:
        found = (outcome.alice, outcome.bob, outcome.owner, outcome.reported)
        cells = " | ".join("yes" if value else "no" for value in found)
        lines.append(f"| {outcome.variant.kind} | {outcome.variant.damage} | {cells} |")
    wrong = [outcome for outcome in outcomes if not outcome.is_right]
    count = sum(outcome.alice for outcome in outcomes)
    lines.append(f"\n{len(outcomes)} files, {count} open, {len(wrong)} other than expected")
    sys.stdout.write("\n".join([*lines, *(f"{o.variant.name}: {o.variant.damage}" for o in wrong)]) + "\n")
    return len(wrong)


if __name__ == "__main__":
    raise SystemExit(main())
