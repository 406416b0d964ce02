"""CSV: one line of text per row."""

from __future__ import annotations

import pytest

from ragkit.errors import InvalidOption
from ragkit.load.data.csv import CsvLoader, sniff_delimiter
from ragkit.load.options import CsvOptions
from ragkit.load.shared.table_text import is_header
from ragkit.records import Document


def load(text: str | bytes, source: str = "/x/a.csv", options: CsvOptions | None = None) -> Document:
    return CsvLoader(options).load(text if isinstance(text, bytes) else text.encode(), source)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_detected(delimiter: str) -> None:
    rows = [["name", "city, or town"], ["Ann", "Köln; Deutz"], ["Bo", 'the "best"']]
    text = "\r\n".join(delimiter.join('"' + cell.replace('"', '""') + '"' for cell in row) for row in rows)
    assert load(text).text == 'name: Ann; city, or town: Köln; Deutz\nname: Bo; city, or town: the "best"'


def test_a_delimiter_can_be_set() -> None:
    assert load("a:b\n1:2\n", options=CsvOptions(delimiter=":")).text == "a: 1; b: 2"


@pytest.mark.parametrize("delimiter", ["ab", '"', "\n"])
def test_an_invalid_delimiter_is_rejected(delimiter: str) -> None:
    with pytest.raises(InvalidOption, match="delimiter must be one character other than a quote or a line break"):
        CsvOptions(delimiter=delimiter)


def test_a_tsv_file_is_split_at_tabs_only() -> None:
    assert load("a,b\tc\n1,2\t3\n", "/x/a.tsv").text == "a,b: 1,2; c: 3"


def test_columns_are_metadata() -> None:
    assert load("a,b\n1,2\n").metadata["columns"] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a,b\n1\n1,2,3\n", "a: 1\na: 1; b: 2; column 3: 3"),
        ("a,,c\n1,2,3\n", "a: 1; column 2: 2; c: 3"),
        ("1,2\n3,4\n", "1 | 2\n3 | 4"),
        ("a,b\n", "a | b"),
        ("a,a\n1,2\n", "a | a\n1 | 2"),
        ('a,b\n"x\ny",2\n', "a: x y; b: 2"),
        ('a,b\n"never closed,2\n3,4\n', "a: never closed,2 3,4"),
        ("a,b\n=1+2,@x\n", "a: =1+2; b: @x"),
        ("one\ntwo\nthree\n", "one: two\none: three"),
        ("\n\n", ""),
        ("", ""),
    ],
)
def test_tables_of_every_shape_become_lines(text: str, lines: str) -> None:
    assert load(text).text == lines


def test_a_field_of_a_megabyte_and_ten_thousand_columns_are_read() -> None:
    assert len(load("a,b\n" + "x" * 1_000_000 + ",2\n").text) == 1_000_000 + len("a: ; b: 2")
    wide = ",".join(f"c{n}" for n in range(10_000)) + "\n" + ",".join("1" for _ in range(10_000)) + "\n"
    assert load(wide).text.endswith("c9999: 1")


def test_a_legacy_encoding_is_detected() -> None:
    document = load("name;stadt\nJörg;Köln\n".encode("latin-1"))
    assert document.text == "name: Jörg; stadt: Köln"
    assert document.metadata["encoding"] == "cp1252"


@pytest.mark.parametrize(
    ("first", "second", "header"),
    [
        (["name", "age"], ["Ann", "7"], True),
        (["2023", "2024"], ["1", "2"], False),
        (["name", ""], ["Ann", "7"], True),
        (["", "", "x"], ["1", "2", "3"], False),
        (["x" * 300], ["y"], False),
        (["a"], [""], False),
        ([], ["1"], False),
    ],
)
def test_a_header_is_short_distinct_words_over_a_filled_row(first: list[str], second: list[str], header: bool) -> None:
    assert is_header(first, second) is header


def test_the_default_delimiter_is_a_comma() -> None:
    assert sniff_delimiter("one\ntwo\n") == ","
