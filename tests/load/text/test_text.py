"""Plain text: encodings are detected, invalid bytes are replaced, offsets are preserved."""

from __future__ import annotations

import pytest

from ragkit.errors import InvalidOption
from ragkit.load.options import TextOptions
from ragkit.load.text.text import TextLoader
from ragkit.records import Document

GERMAN = "Für die größten Städte gilt: schöne Grüße aus Köln."
RUSSIAN = "Съешь же ещё этих мягких французских булок, да выпей чаю. " * 5
JAPANESE = "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。" * 5


def load(data: bytes, source: str = "/x/a.txt", encoding: str = "") -> Document:
    return TextLoader(TextOptions(encoding)).load(data, source)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "utf-16-le", "utf-16-be", "utf-32-le"])
def test_every_unicode_encoding_is_read_with_and_without_bom(encoding: str) -> None:
    assert load(GERMAN.encode(encoding)).text == GERMAN


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("café crème", "cp1252"),
        ("café crème", "latin-1"),
        (GERMAN, "cp1252"),
        ("“quoted” – 5 €", "cp1252"),
        (RUSSIAN, "cp1251"),
        (RUSSIAN, "koi8-r"),
        (JAPANESE, "shift_jis"),
        (JAPANESE, "euc_jp"),
    ],
)
def test_legacy_encodings_are_detected(text: str, encoding: str) -> None:
    assert load(text.encode(encoding)).text == text


def test_an_encoding_can_be_set() -> None:
    assert load("Zażółć".encode("cp1250"), encoding="cp1250").text == "Zażółć"


@pytest.mark.parametrize("encoding", ["klingon", "hex", "rot13"])
def test_a_codec_that_is_not_for_text_is_rejected(encoding: str) -> None:
    with pytest.raises(InvalidOption, match=rf"encoding must be a text encoding of Python, .* \(got '{encoding}'\)"):
        load(b"x", encoding=encoding)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("ééé é".encode() + b"\xff", "ééé é\ufffd"),
        (b"\xff" + "ééé é".encode(), "\ufffdééé é"),
        ("ééé".encode() + b"\xc3" + "ééé".encode(), "ééé\ufffdééé"),
        (b"a\0b", "a\ufffdb"),
        ("é".encode() * 9 + b"\xed\xa0\x80", "é" * 9 + "\ufffd" * 3),
    ],
)
def test_invalid_bytes_become_replacement_characters(data: bytes, text: str) -> None:
    assert load(data).text == text


def test_the_sample_of_a_long_file_may_end_inside_a_character() -> None:
    text = "x" + "é" * 100_000
    assert load(text.encode()).text == text


@pytest.mark.parametrize("data", [b"", b"\xef\xbb\xbf", b"\xff\xfe"])
def test_an_empty_file_is_a_document_without_text(data: bytes) -> None:
    assert load(data).text == ""


@pytest.mark.parametrize("text", ["a\rb", "a\r\nb\n", "a\u2028b\x0bc\x0cd", "\u202eabc\u200b\U000e0041", "\n" * 1000])
def test_line_breaks_and_unusual_characters_are_kept(text: str) -> None:
    assert load(text.encode()).text == text


def test_metadata_contains_no_file_times() -> None:
    document = load("café".encode("latin-1"), "/x/Notes.TXT")
    assert document.metadata == {"format": "text", "name": "Notes.TXT", "suffix": ".txt", "encoding": "cp1252"}
    assert document.source == "/x/Notes.TXT"


def test_a_name_that_is_not_utf8_can_be_stored() -> None:
    document = load(b"x", "/x/caf\udce9.txt")
    assert document.metadata["name"] == "caf?.txt"
    assert document.source == "/x/caf\udce9.txt"


RST = """=====
Title
=====

Intro
-----

text
====================== a table row, no heading

Deeper
~~~~~~

Second
------

Too long a title
---
"""


def test_headings_of_restructured_text_are_detected() -> None:
    document = load(RST.encode(), "/x/a.rst")
    assert document.text == RST
    assert [(h.level, h.text) for h in document.headings] == [(1, "Title"), (2, "Intro"), (3, "Deeper"), (2, "Second")]
    assert all(document.text[h.start :].startswith(h.text) for h in document.headings)
    assert (document.title, document.format) == ("Title", "rst")
