"""Places: where a passage stands in its file, not in the extracted text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import pytest

from ragkit.load.data.csv import CsvLoader
from ragkit.load.html.html import HtmlLoader
from ragkit.load.office.docx import DocxLoader
from ragkit.load.office.pptx import PptxLoader
from ragkit.load.office.xlsx import XlsxLoader
from ragkit.load.text.markdown import MarkdownLoader
from ragkit.places import compact_places, describe_place, place_at
from ragkit.records import Document, Place
from ragkit.split.chunks import build_chunks
from ragkit.split.options import RecursiveOptions
from ragkit.split.recursive import RecursiveSplitter
from ragkit.split.token_index import estimate_token_starts
from tests.load import sample_files

Rows: TypeAlias = Sequence[Sequence[object]]


def place_of(document: Document, words: str) -> str:
    """The place of the first occurrence of some words."""
    start = document.text.index(words)
    line = document.text.count("\n", 0, start) + 1
    return describe_place(document, start, start + len(words), (line, line))


def test_a_csv_row_stands_in_the_line_of_the_file() -> None:
    rows = "".join(f'S-{n},{n * 2},"fine"\n' for n in range(1, 60))
    document = CsvLoader().load(f"sensor,value,note\n{rows}".encode(), "/x/sensors.csv")
    assert place_of(document, "sensor: S-47;") == "line 48"


def test_a_row_behind_a_field_of_several_lines_stands_in_its_own_line() -> None:
    document = CsvLoader().load(b'a,b\n"1\n2\n3",x\n\n4,y\n5,z\n', "/x/a.csv")
    assert [place_of(document, text) for text in ("b: x", "b: y", "b: z")] == ["line 2", "line 6", "line 7"]


def test_a_row_of_a_sheet_stands_in_its_cells() -> None:
    valves: Rows = [["Valves"], [], ["Id", "Bar"], *([f"V-{n}", n] for n in range(1, 20))]
    pumps: Sequence[Sequence[object]] = [
        ["Pump", "Flow", "Year"],
        *([f"P-{n}", n * 10, 2000 + n] for n in range(1, 30)),
    ]
    document = XlsxLoader().load(sample_files.workbook({"Valves": valves, "Pumps": pumps}), "/x/inv.xlsx")
    assert place_of(document, "Pump: P-22;") == "Pumps!A23:C23"
    assert place_of(document, "V-3; Bar: 3\nId: V-4") == "Valves!A6:B7"
    start, end = document.text.index("V-19"), document.text.index("P-1;")
    assert describe_place(document, start, end, (0, 0)) == "Valves!A22:B22 to Pumps!A2:C2"


def test_text_of_a_page_stands_in_the_line_of_its_markup() -> None:
    page = b"<html>\n<head>\n<title>x</title></head>\n<body\n class='a'>\n<p>one <b>big</b>\nword</p>\n\n"
    page += b"<p>\n two &amp; three</p>\n"
    page += b"<table>\n<tr><th>a<th>b\n<tr><td>1\n<td>2\n</table>\nthe end\n"
    document = HtmlLoader().load(page, "/x/a.html")
    words = {"one big word": "line 6", "two & three": "line 10", "1 | 2": "line 13", "the end": "line 16"}
    assert {text: place_of(document, text) for text in words} == words


def test_a_paragraph_of_a_word_file_is_counted() -> None:
    document = DocxLoader().load(sample_files.word(), "/x/a.docx")
    assert place_of(document, "First words.") == "paragraph 2"
    assert place_of(document, "Ann | 7") == "paragraph 8"
    assert place_of(document, "First words.\n\nDeeper") == "paragraphs 2-3"


def test_a_slide_is_a_slide_and_a_page_a_page() -> None:
    document = PptxLoader().load(sample_files.slides([("One", "a", ""), ("Two", "b", "")]), "/x/a.pptx")
    assert describe_place(document, document.page_starts[1], document.page_starts[1] + 1, (1, 1)) == "slide 2"
    pages = Document("one\ntwo", page_starts=(0, 4), format="pdf")
    assert describe_place(pages, 0, 7, (1, 2)) == "pages 1-2"


def test_lines_of_a_text_are_those_of_its_file() -> None:
    document = MarkdownLoader().load(b"# One\n\ntwo\nthree\n", "/x/a.md")
    assert describe_place(document, 0, 10, (1, 3)) == "lines 1-3"
    assert describe_place(document, 7, 10, (3, 3)) == "line 3"


def test_a_time_is_a_range() -> None:
    places = (Place(0, "time", 61_000, 65_500), Place(4, "time", 66_000, 3_725_000))
    document = Document("one\ntwo", places=places)
    assert describe_place(document, 0, 3, (1, 1)) == "00:01:01-00:01:05"
    assert describe_place(document, 0, 7, (1, 2)) == "00:01:01-01:02:05"


def test_places_that_follow_from_line_breaks_are_not_kept() -> None:
    places = [Place(0, "line", 2), Place(2, "line", 3), Place(4, "line", 9), Place(6, "line", 10)]
    kept = compact_places("a\nb\nc\nd", places)
    assert kept == (places[0], places[2])
    assert [place_at("a\nb\nc\nd", kept, start).number for start in (0, 2, 4, 6)] == [2, 3, 9, 10]


@pytest.mark.parametrize("text", ["", "x"])
def test_a_document_without_places_has_lines(text: str) -> None:
    assert describe_place(Document(text), 0, len(text), (1, 1)) == "line 1"


def test_a_chunk_knows_its_place() -> None:
    rows = "".join(f"S-{n},{n}\n" for n in range(1, 200))
    document = CsvLoader().load(f"sensor,value\n{rows}".encode(), "/x/a.csv")
    chunks = build_chunks(document, RecursiveSplitter(RecursiveOptions(50, 0)), estimate_token_starts, "f")
    first, last = chunks[0], chunks[-1]
    assert first.place == f"lines 2-{first.end_line + 1}"
    assert last.place.endswith("-200")
