"""Word, PowerPoint and Excel before 2007, Outlook messages, RTF."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ragkit.errors import LoadError
from ragkit.load import LOADERS
from ragkit.load.mail.msg import MsgLoader
from ragkit.load.office.doc import DocLoader
from ragkit.load.office.ppt import PptLoader
from ragkit.load.office.rtf import RtfLoader
from ragkit.load.office.xls import XlsLoader
from ragkit.load.router import Router
from tests.load import ole_files, xlsb_files
from tests.load.test_places import place_of


def test_a_word_file_is_read_from_its_pieces() -> None:
    data = ole_files.word_file(
        [
            ("Pumps\rName\x07Flow\x07\x07P-1\x0710\x07\x07", True),
            ("See \x13 PAGEREF x \x14page 7\x15 for Größe.\r", False),
        ],
        "A note.\r",
    )
    document = DocLoader().load(data, "/x/a.doc")
    assert document.text == "Pumps\n\nName | Flow\nP-1 | 10\n\nSee page 7 for Größe.\n\nA note."
    assert place_of(document, "See page") == "paragraph 8"


def test_an_encrypted_word_file_is_reported() -> None:
    data = ole_files.word_file([("secret", True)])
    flags = data.index(b"\xec\xa5\xc1\x00") + 0x0A
    with pytest.raises(LoadError, match="password-protected: save it without a password"):
        DocLoader().load(data[:flags] + b"\x00\x03" + data[flags + 2 :], "/x/a.doc")


def test_slides_of_an_older_show_are_pages_with_notes() -> None:
    document = PptLoader().load(ole_files.show_file([("One", "a\rbox", "say it"), ("Two", "", "")]), "/x/a.ppt")
    assert document.text == "One\n\na\nbox\n\nNotes: say it\n\nTwo"
    assert [document.page_at(document.text.index(words)) for words in ("a\nbox", "say it", "Two")] == [1, 1, 2]
    assert [h.text for h in document.headings] == ["One", "Two"]


def test_an_older_workbook_is_read_like_a_new_one() -> None:
    rows: list[list[str | float]] = [["Pumps of the north"], ["Pump", "Flow"], ["P-1", 10.0], ["P-2", 20.5]]
    document = XlsLoader().load(ole_files.sheet_file(rows), "/x/a.xls")
    assert document.text == "Pumps\n\nPumps of the north\n\nPump: P-1; Flow: 10\nPump: P-2; Flow: 20.5"
    assert place_of(document, "P-2; Flow") == "Pumps!A4:B4"


def test_an_older_workbook_has_its_title_and_author() -> None:
    properties = ole_files.summary({2: "Pumps 2024", 4: "Gábor"})
    document = XlsLoader().load(ole_files.sheet_file([["a", "b"], ["c", "d"]], properties), "/x/a.xls")
    assert (document.title, document.metadata["author"]) == ("Pumps 2024", "Gábor")


def test_damaged_properties_of_a_workbook_cost_no_text() -> None:
    for damage in (b"", b"\xff" * 100, ole_files.summary({2: "x"})[:50]):
        document = XlsLoader().load(ole_files.sheet_file([["a", "b"], ["c", "d"]], damage), "/x/a.xls")
        assert document.text == "Pumps\n\na: c; b: d"


def test_a_message_has_its_headers_body_and_attachments() -> None:
    properties = {"0037": "Order 7", "1000": "Please send it.\r\nAnn", "0C1A": "Ann", "5D01": "ann@x.org", "0E04": "Bo"}
    document = MsgLoader().load(ole_files.message_file(properties, [("list.txt", b"one two")]), "/x/a.msg")
    date = "Wed, 17 Jan 2024 21:20:00 +0000"
    head = f"From: Ann <ann@x.org>\nTo: Bo\nDate: {date}\nSubject: Order 7\nAttachments: list.txt"
    assert document.text == f"{head}\n\nPlease send it.\nAnn"
    assert (document.title, document.metadata["date"]) == ("Order 7", "2024-01-17T21:20:00+00:00")


def test_a_message_with_html_only_is_read_from_it() -> None:
    data = ole_files.message_file({"0037": "x"}, more={"__substg1.0_10130102": b"<p>Please <b>send</b> it."})
    assert MsgLoader().load(data, "").text.endswith("\n\nPlease send it.")


def test_text_of_one_byte_is_in_the_code_page_of_the_message() -> None:
    page = b"\x03\x00\xfd\x3f" + (6).to_bytes(4, "little") + (1251).to_bytes(8, "little")
    more = {"__properties_version1.0": bytes(32) + page, "__substg1.0_1000001E": "Привет".encode("cp1251")}
    assert MsgLoader().load(ole_files.message_file({}, more=more), "").text == "Привет"


def test_paragraphs_and_rows_of_rtf() -> None:
    data = (
        rb"{\rtf1\ansi\ansicpg1252{\info{\title Manual}{\author Ada}}{\fonttbl{\f0 Arial;}}\f0 Gr\'f6\'dfe\par "
        rb"\trowd\intbl a\cell b\cell\row \pard second\u8364 ?\par}"
    )
    document = RtfLoader().load(data, "/x/a.rtf")
    assert document.text == "Größe\n\na | b\n\nsecond€"
    assert (document.title, document.metadata["author"]) == ("Manual", "Ada")


FILES: dict[str, Callable[[], bytes]] = {
    "doc": lambda: ole_files.word_file([("words " * 500, True), ("more " * 500, False)]),
    "ppt": lambda: ole_files.show_file([("One", "a box " * 200, "say it")] * 5),
    "xls": lambda: ole_files.sheet_file([["P", 1.5] for _ in range(100)]),
    "msg": lambda: ole_files.message_file({"0037": "x", "1000": "words " * 500}, [("a.txt", b"x" * 5000)]),
    "rtf": lambda: rb"{\rtf1 " + rb"{\b words\par}" * 500 + b"}",
}


@pytest.mark.parametrize("name", sorted(FILES))
@pytest.mark.parametrize("seed", range(40))
def test_a_damaged_file_is_an_error_or_a_text(name: str, seed: int) -> None:
    data = bytearray(FILES[name]())
    for step in range(20):
        place = (seed * 7919 + step * 104_729) % len(data)
        data[place] = (seed * 31 + step * 17) % 256
    cut = len(data) if seed % 3 else len(data) * (seed + 1) // 41
    try:
        assert isinstance(LOADERS.find(name)().load(bytes(data[:cut]), "/x/a").text, str)
    except LoadError as error:
        assert error.reason


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (rb"{\header Animal Hospital\par}words\par", "Animal Hospital words"),
        (rb"{\loch\i0\*\cs7\cf0 The quick fox}\par words", "The quick fox words"),
        (rb"{\pict\wmetafile8\bin5 }{}}{}see words\par", "see words"),
        (rb"A pump{\super 1}{\footnote \pard {\super 1} It leaks.} runs.\par End.", "A pump1 runs. End. 1 It leaks."),
        (
            rb"a \u55357?\u56832? \u-10179?\u-8704? \u8364? \u1114112? \u99999999999999999999? b",
            "a \U0001f600 \U0001f600 € � � b",
        ),
        (rb"a \u8364\*21 and \u21388\*21 b", "a €21 and \u538c21 b"),
        (rb"C:\\u1234567 b", r"C:\u1234567 b"),
        (rb"{\footnote never closed words", "never closed words"),
    ],
)
def test_page_headers_footnotes_marks_and_numbers_of_characters_are_read(body: bytes, text: str) -> None:
    document = RtfLoader().load(rb"{\rtf1\ansi " + body + b"}", "/x/a.rtf")
    assert " ".join(document.text.split()) == text


def test_sheets_in_the_binary_format_are_read() -> None:
    data = xlsb_files.sheet_file([["name", "price", "ok"], ["Pump é", 1.5, True], ["Valve", 120, False]])
    name, document = Router().load(data, "/x/a.xlsb")
    assert (name, document.format, [heading.text for heading in document.headings]) == ("xls", "xls", ["Pumps"])
    assert document.text == "Pumps\n\nname: Pump é; price: 1.5; ok: TRUE\nname: Valve; price: 120; ok: FALSE"
    assert place_of(document, "Valve") == "Pumps!A3:C3"
