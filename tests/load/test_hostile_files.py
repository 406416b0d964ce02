"""Hostile files end in a bounded time and memory, each with a document or an error of one line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragkit.load.options import SqliteTableOptions
from ragkit.load.process.parse_pool import ParsePool
from ragkit.load.process.parsing import ParsedFile, ParseLimits, ParseTask
from ragkit.load.router import LoaderRoute
from tests.load.hostile_files import FILES

LIMITS = ParseLimits(timeout_s=60, max_memory_mb=1024)
DAMAGED_XML = r"part '.*' is not valid XML \(.*\)"

ERRORS = {
    "zeros.odt": r"unpacks to \d+ times its size, the limit is 200",
    "lying-size.odt": r"part 'content.xml' is damaged",
    "many-entries.ods": r"has 20002 zip entries, the limit is 10000",
    "entities.odt": DAMAGED_XML,
    "deep-spans.odt": DAMAGED_XML,
    "deep-lists.odt": DAMAGED_XML,
    "deep-shapes.odp": DAMAGED_XML,
    "deep-tables.docx": DAMAGED_XML,
    "no-such-string.xlsx": r"invalid workbook \(IndexError\)",
    "cut.xlsb": r"invalid workbook \(.*\)",
    "long-text.xlsb": r"invalid workbook \(.*\)",
    "header-only.xls": r"damaged or truncated Office file",
    "folder-loop.doc": r"damaged or truncated Office file",
    "footer.parquet": r"invalid table \(.*\)",
    "cut.parquet": r"invalid table \(.*\)",
    "damaged.feather": r"invalid table \(.*\)",
    "repeated.parquet": r"holds more than 256 MB of text|needs more than 1024 MB of memory",
    "generated.db": r"not a SQLite database \(string or blob too big\)",
    "pages.db": r"not a SQLite database \(database disk image is malformed\)",
    "cut.db": r"not a SQLite database \(database disk image is malformed\)",
    "fat-loop.doc": r"damaged or truncated Office file",
    "fat-loop.xls": r"damaged or truncated Office file",
    "deep.eml": r"invalid e-mail message",
    "deep.json": r"nested too deeply",
    "deep.ipynb": r"nested too deeply",
}
"""File -> reason."""

TEXTS = {
    "external-entity.odt": "words &e;",
    "spaces.odt": "words end",
    "spans.ods": "S words: words words: words",
    "far-cell.xlsx": "a | | |",
    "merges.xlsx": "a words",
    "wide-span.docx": "words",
    "huge-streams.ppt": "Title box",
    "deep-records.ppt": "",
    "strings.xls": "",
    "attachments.msg": "Date: Wed, 17 Jan 2024",
    "open-groups.rtf": "words",
    "closed-groups.rtf": "",
    "numbers.rtf": "words \ufffd\ufffdzzA",
    "binary.rtf": "words",
    "paragraphs.rtf": "words",
    "footnotes.rtf": "words",
    "columns.parquet": "c0: 0; c1: 1;",
    "endless-view.db": "t a: words",
    "triggers.db": "t a: words",
    "many-tables.db": "",
    "messages.mbox": "x Subject: x",
    "long-header.mbox": "words words",
    "headers.mbox": "words",
    "parts.eml": "Subject: x Attachments: a.txt",
    "digits.json": "a: 999",
    "columns.csv": "c0: x; c1: x",
    "quote.csv": "a: 1; b: words",
    "cells.ipynb": "words words",
    "cues.vtt": "words",
    "times.srt": "1 99999999999999999999:00:00,000",
    "headings.org": "* words ** words",
    "tables.html": "words",
}
"""File -> how its text begins, with single spaces."""


@pytest.fixture(scope="module")
def pool() -> Iterator[ParsePool]:
    """One parser process for all files: none of them spoils it for the next one."""
    with ParsePool(1, LIMITS, [LoaderRoute("sqlite", SqliteTableOptions(), (".db",))]) as result:
        yield result


def test_each_file_has_an_expectation() -> None:
    assert set(FILES) == {*ERRORS, *TEXTS}
    assert not ERRORS.keys() & TEXTS.keys()
    assert len(FILES) >= 40


@pytest.mark.rotating
@pytest.mark.parametrize("name", sorted(FILES))
def test_a_hostile_file_is_a_document_or_an_error_of_one_line(name: str, pool: ParsePool, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(FILES[name]())
    [outcome] = pool.parse([ParseTask(path, str(path))])
    if isinstance(outcome, ParsedFile):
        assert name in TEXTS
        assert " ".join(outcome.document.text[:1_000].split()).startswith(TEXTS[name])
        return
    assert re.fullmatch(ERRORS[name], outcome.error.reason)
    assert outcome.error.hint
    assert len(str(outcome.error).splitlines()) == 1
