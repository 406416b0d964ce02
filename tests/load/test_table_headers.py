"""The column names of a long table reach every chunk of it."""

from __future__ import annotations

import io
from collections.abc import Callable

import docx
import pytest

from ragkit.load.html.html import HtmlLoader
from ragkit.load.office.docx import DocxLoader
from ragkit.load.text.markdown import MarkdownLoader
from ragkit.records import Chunk, Document
from ragkit.split.chunks import build_chunks, embedding_text
from ragkit.split.options import RecursiveOptions
from ragkit.split.recursive import RecursiveSplitter
from ragkit.split.token_index import estimate_token_starts

NAMES = ("Sensor", "Celsius", "Days", "Class")
ROWS = [(f"S-{n:03}", f"{n}.39", "80", "C") for n in range(80)]


def markdown_table() -> Document:
    lines = ["| " + " | ".join(row) + " |" for row in (NAMES, ("---",) * 4, *ROWS)]
    text = "# Sensors\n\nBefore it.\n\n" + "\n".join(lines) + "\n\nWords below the table.\n"
    return MarkdownLoader().load(text.encode(), "/x/a.md")


def html_table() -> Document:
    head = "<thead><tr>" + "".join(f"<th>{name}</th>" for name in NAMES) + "</tr></thead>"
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in ROWS)
    page = f"<h1>Sensors</h1><p>Before it.</p><table>{head}<tbody>{body}</table><p>Words below the table."
    return HtmlLoader().load(page.encode(), "/x/a.html")


def word_table() -> Document:
    document = docx.Document()
    document.add_heading("Sensors", 1)
    document.add_paragraph("Before it.")
    table = document.add_table(0, 4)
    for row in (NAMES, *ROWS):
        for cell, text in zip(table.add_row().cells, row, strict=True):
            cell.text = text
    document.add_paragraph("Words below the table.")
    out = io.BytesIO()
    document.save(out)
    return DocxLoader().load(out.getvalue(), "/x/a.docx")


def chunks_of(document: Document) -> list[Chunk]:
    return build_chunks(document, RecursiveSplitter(RecursiveOptions(100, 20)), estimate_token_starts, "f")


@pytest.mark.parametrize("make", [markdown_table, html_table, word_table])
def test_every_chunk_of_rows_carries_the_column_names(make: Callable[[], Document]) -> None:
    document = make()
    chunks = chunks_of(document)
    rows = [chunk for chunk in chunks if "S-0" in chunk.text and "Celsius" not in chunk.text]
    assert len(rows) > 3
    assert all(document.text[chunk.start : chunk.end] == chunk.text for chunk in chunks)
    assert {chunk.heading for chunk in rows} == {("Sensors", "Sensor | Celsius | Days | Class")}
    assert all("Sensor | Celsius | Days | Class\n" in embedding_text(chunk) for chunk in rows)
    after = document.text.index("Words below")
    assert document.heading_path_at(after) == ("Sensors",)


def test_names_over_several_columns_are_joined_with_those_below() -> None:
    page = (
        "<table><tr><th rowspan=2>Region<th colspan=2>2024<tr><th>Q1<th>Q2"
        "<tr><td rowspan=2>North<td>1<td>2<tr><td>3<td>4<tr><td>South<td>5<td>6</table>"
    )
    document = HtmlLoader().load(page.encode(), "/x/a.html")
    assert document.text == "Region | 2024\nRegion | Q1 | Q2\nNorth | 1 | 2\nNorth | 3 | 4\nSouth | 5 | 6"
    assert document.heading_path_at(document.text.index("South")) == ("Region | 2024 / Q1 | 2024 / Q2",)


def test_a_table_without_header_cells_has_no_column_names() -> None:
    document = HtmlLoader().load(b"<table><tr><td>a<td>b<tr><td>1<td>2</table>", "/x/a.html")
    assert (document.text, document.headings) == ("a | b\n1 | 2", ())


def test_a_huge_span_costs_nothing() -> None:
    page = b"<table><tr><th colspan=99999999 rowspan=99999999>a<th>b<tr><td>1<td>2</table>"
    assert len(HtmlLoader().load(page, "/x/a.html").text) < 5_000


WORK = [
    ["Region", "2031", "", "2032", ""],
    ["", "Men", "Women", "Men", "Women"],
    ["Aged 15 and older", "", "", "", ""],
    ["North", "5", "6", "7", "8"],
    ["Aged 65 and older", "", "", "", ""],
    ["North", "1", "2", "3", "4"],
]


def _word_table(rows: list[list[str]]) -> bytes:
    document = docx.Document()
    table = document.add_table(len(rows), 5)
    for number, row in enumerate(rows):
        for column, text in enumerate(row):
            table.cell(number, column).text = text
    for first in (1, 3):
        table.cell(0, first).merge(table.cell(0, first + 1))
    table.cell(2, 0).merge(table.cell(2, 4))
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def _html_table(rows: list[list[str]]) -> bytes:
    heads = (
        "<tr><th rowspan=2>Region</th><th colspan=2>2031</th><th colspan=2>2032</th></tr>"
        "<tr><th>Men</th><th>Women</th><th>Men</th><th>Women</th></tr>"
    )
    lines = ""
    for row in rows[2:]:
        lines += f"<tr><th>{row[0]}</th>{''.join(f'<td>{text}</td>' for text in row[1:])}</tr>"
    lines = lines.replace(
        "<th>Aged 65 and older</th><td></td><td></td><td></td><td></td>", "<th colspan=5>Aged 65 and older</th>"
    )
    return f"<main><table><thead>{heads}</thead><tbody>{lines}</tbody></table></main>".encode()


@pytest.mark.parametrize(("name", "data"), [("a.docx", _word_table(WORK)), ("a.html", _html_table(WORK))])
def test_rows_have_all_rows_of_names_and_the_labels_above_them(name: str, data: bytes) -> None:
    loader = DocxLoader() if name.endswith("docx") else HtmlLoader()
    document = loader.load(data, name)
    years = "2031 / Men | 2031 / Women | 2032 / Men | 2032 / Women"
    rows = [document.text.index(f"North | {text}") for text in ("5 | 6", "1 | 2")]
    assert [document.heading_path_at(row)[-1] for row in rows] == [
        f"Region / Aged 15 and older | {years}",
        f"Region / Aged 65 and older | {years}",
    ]
