"""PDF, with both libraries."""

from __future__ import annotations

import re
import time
import zlib

import pytest

from ragkit.errors import InvalidOption, LoadError, LoadLimitExceeded
from ragkit.load import LOADERS
from ragkit.load.base import Loader
from ragkit.load.options import PdfOptions, PypdfOptions
from ragkit.load.pages.pdf import PdfLoader
from ragkit.load.pages.pypdf import PypdfLoader
from ragkit.load.pages.text import clean_page_text, clean_title
from tests.load import sample_files

THREE = sample_files.pdf([["Page one", "second line"], [], ["Page three"]], title="The Report")


@pytest.fixture(params=["pdf", "pypdf"])
def loader(request: pytest.FixtureRequest) -> Loader:
    return LOADERS.find(request.param)()


def test_page_starts_are_offsets_into_the_text(loader: Loader) -> None:
    document = loader.load(THREE, "/x/a.pdf")
    assert document.text == "Page one\nsecond line\n\n\n\nPage three"
    assert document.page_starts == (0, 22, 24)
    assert [document.page_at(document.text.index(words)) for words in ("one", "second", "three")] == [1, 1, 3]


def test_title_and_metadata_come_from_the_file(loader: Loader) -> None:
    document = loader.load(THREE, "/x/a.pdf")
    assert (document.title, document.format) == ("The Report", "pdf")
    assert document.metadata == {"author": "anonymous", "pages": 3, "format": "pdf", "name": "a.pdf", "suffix": ".pdf"}


def test_outline_entries_become_headings_at_the_text_of_their_title(loader: Loader) -> None:
    data = sample_files.pdf(
        [["intro", "Chapter  One", "x"], ["1.1 Deep", "y"], ["z"]],
        outline=[("chapter one", 0, 0), ("1.1 Deep", 1, 1), ("(not on the page)", 0, 2)],
    )
    document = loader.load(data, "")
    assert [(h.level, h.text) for h in document.headings] == [
        (1, "chapter one"),
        (2, "1.1 Deep"),
        (1, "(not on the page)"),
    ]
    assert document.headings[0].start == document.text.index("Chapter")
    assert [heading.start for heading in document.headings[1:]] == list(document.page_starts[1:])


def test_a_password_protected_file_is_an_error(loader: Loader) -> None:
    for algorithm in ("AES-256", "AES-256-R5", "RC4-40", "RC4-128"):
        with pytest.raises(LoadError, match=r"/x/a\.pdf: password-protected: remove its password"):
            loader.load(sample_files.locked_pdf("secret", "owner", algorithm), "/x/a.pdf")


def test_a_file_with_only_an_owner_password_is_read(loader: Loader) -> None:
    assert loader.load(sample_files.locked_pdf("", "owner"), "").text == "secret words"


def test_a_file_without_a_text_layer_is_an_error(loader: Loader) -> None:
    with pytest.raises(LoadError, match=r"no text on its pages: the loader 'pdf' reads scans with its option `ocr`"):
        loader.load(sample_files.pdf([[], []]), "")


def test_more_pages_than_max_pages_exceed_a_limit() -> None:
    for loader in (PdfLoader(PdfOptions(max_pages=2)), PypdfLoader(PypdfOptions(max_pages=2))):
        with pytest.raises(LoadLimitExceeded, match="has 3 pages, the limit is 2: raise max_pages"):
            loader.load(THREE, "")


@pytest.mark.parametrize("options", [PdfOptions, PypdfOptions])
def test_a_limit_of_zero_pages_is_rejected(options: type[PdfOptions | PypdfOptions]) -> None:
    with pytest.raises(InvalidOption, match=r"max_pages must be > 0 \(got 0\)"):
        options(max_pages=0)


@pytest.mark.parametrize("data", [b"", b"%PDF-1.7", b"%PDF-1.7\n" + b"junk" * 100, THREE[: len(THREE) // 10], b"hello"])
def test_a_damaged_pdf_is_an_error(loader: Loader, data: bytes) -> None:
    with pytest.raises(LoadError, match=r"damaged, or not a PDF|no text layer"):
        loader.load(data, "")


def test_junk_before_the_header_and_a_missing_xref_table_are_tolerated(loader: Loader) -> None:
    without_xref = re.sub(rb"startxref\s+\d+", b"startxref\n0", THREE)
    for data in (b"junk\n" * 20 + THREE, without_xref):
        assert "Page three" in loader.load(data, "").text


def one_page(kids: bytes, stream: bytes = b"BT /F1 12 Tf 72 700 Td (hello) Tj ET", filters: bytes = b"") -> bytes:
    """A handwritten PDF without an xref table."""
    return (
        b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
        b"2 0 obj<</Type/Pages/Count 1/Kids[" + kids + b"]>>endobj\n"
        b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R"
        b"/Resources<</Font<</F1 5 0 R>>>>>>endobj\n"
        b"4 0 obj<<"
        + filters
        + b"/Length "
        + str(len(stream)).encode()
        + b">>stream\n"
        + stream
        + b"\nendstream endobj\n"
        b"5 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj\n"
        b"trailer<</Root 1 0 R>>\nstartxref\n0\n%%EOF"
    )


def test_a_handwritten_page_is_read(loader: Loader) -> None:
    assert loader.load(one_page(b"3 0 R"), "").text == "hello"


BOMB = zlib.compress(b"BT /F1 12 Tf (x) Tj ET " + b" " * 200_000_000, 9)


@pytest.mark.parametrize(
    "data",
    [
        one_page(b"2 0 R"),
        one_page(b"2 0 R 3 0 R"),
        one_page(b"3 0 R", BOMB, b"/Filter/FlateDecode"),
        one_page(b"3 0 R", b"x" * 1000, b"/Filter[" + b"/FlateDecode" * 20 + b"]"),
        one_page(b"3 0 R", b"q " * 100_000),
        one_page(b"3 0 R", b"[" * 100_000),
        one_page(b"3 0 R").replace(b"/Count 1", b"/Count 99999999"),
    ],
    ids=["cycle", "half a cycle", "bomb", "filters", "saves", "arrays", "count"],
)
def test_malicious_files_are_parsed_or_rejected_quickly(data: bytes) -> None:
    started = time.process_time()
    try:
        outcome = PdfLoader().load(data, "").text
    except LoadError as error:
        outcome = error.reason
    assert outcome in ("hello", "x", "no text layer (a scan?)", "damaged, or not a PDF") or "page" in outcome
    assert time.process_time() - started < 10


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("a\r\nb\rc", "a\nb\nc"),
        ("infor-\r\nmation", "information"),
        ("infor\u00ad\nmation and\nmore", "information and\nmore"),
        ("infor\ufffe\nmation", "information"),
        ("Anglo-\nSaxon", "Anglo-\nSaxon"),
        ("1990-\n2000", "1990-\n2000"),
        ("infor\x02mation", "information"),
        ("Anglo\ufffeSaxon", "Anglo-Saxon"),
        ("a\0b\ud800c\x07", "abc"),
        ("a\xa0b  \n\n", "a b"),
        ("a\x0cb", "a\nb"),
        ("\u7ea2 \u519b \u4f5c \u6218 (1934)", "\u7ea2\u519b\u4f5c\u6218 (1934)"),
        ("\u7ea2 \u519b", "\u7ea2 \u519b"),
    ],
)
def test_a_page_is_cleaned(raw: str, text: str) -> None:
    assert clean_page_text(raw, join_hyphens=True) == text


def test_joining_hyphens_can_be_disabled() -> None:
    assert clean_page_text("infor-\nmation", join_hyphens=False) == "infor-\nmation"
    assert clean_page_text("infor\ufffemation", join_hyphens=False) == "infor-mation"


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("The  Report", "The Report"),
        ("Microsoft Word - Plan for 2024", "Plan for 2024"),
        ("Microsoft Word - plan.doc", ""),
        ("untitled", ""),
        ("Untitled-1", ""),
        ("main.dvi", ""),
        ("Document1", ""),
        ("x", ""),
        ("PowerPoint Presentation", ""),
        ("y" * 301, ""),
    ],
)
def test_placeholder_titles_are_ignored(title: str, expected: str) -> None:
    assert clean_title(title) == expected


def test_the_reason_of_an_error_does_not_depend_on_the_file_before() -> None:
    without_pages = sample_files.pdf([["x"]]).replace(b"/Pages", b"/Pagxs")
    with pytest.raises(LoadError, match="password-protected"):
        PdfLoader().load(sample_files.locked_pdf("user", "owner"), "/x/locked.pdf")
    with pytest.raises(LoadError, match="damaged, or not a PDF"):
        PdfLoader().load(without_pages, "/x/a.pdf")
