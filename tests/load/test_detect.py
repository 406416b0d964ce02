"""Detection of file formats."""

from __future__ import annotations

import gzip
import io
import zipfile
from random import Random

import pytest

from ragkit.errors import LoadError, LoadLimitExceeded, UnsupportedFormat
from ragkit.load import LOADERS
from ragkit.load.detect import detect_loader
from ragkit.load.file_types import LANGUAGE_BY_SUFFIX, LOADER_BY_SUFFIX, detect_language, file_suffix
from tests.load import sample_files

OPENDOCUMENT = "application/vnd.oasis.opendocument."
CFB = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504)
TAR = b"notes.txt".ljust(257, b"\0") + b"ustar\x0000" + b"words " * 1000
PAGE = b"<!-- saved -->\n<!DOCTYPE html><html><body>hi</body></html>"


@pytest.mark.parametrize(
    ("name", "data", "loader"),
    [
        ("a.md", b"# hi", "markdown"),
        ("A.MD", b"# hi", "markdown"),
        ("a.py", b"x = 1", "code"),
        ("a.json", b"{}", "json"),
        ("a.csv", b"a,b", "csv"),
        ("a.txt", b'"name"\t"unit"\t"sum"\n"a"\t"m"\t"1"\n\n"b"\t"m"\t"2"\n', "csv"),
        ("a.txt", b"name\tunit\tsum\r\na\tm\t1\r\nwords of a note\r\n", "text"),
        ("a.txt", b"name\tsum\na\t1\nb\t2\n", "text"),
        ("a.eml", b"From: a", "eml"),
        ("README", b"hello", "text"),
        ("LICENSE", b"hello", "text"),
        ("Makefile", b"all:\n", "code"),
        ("Dockerfile", b"FROM x", "code"),
        ("CMakeLists.txt", b"project(x)", "code"),
        ("run", b"#!/usr/bin/env python3\nprint()", "code"),
        ("a.unknown", b"hello", "text"),
        ("a.html", b"<p>hi", "html"),
        ("https://x.org/a/guide.html?v=1#top", b"<p>hi", "html"),
        ("a.txt", "\u4e2d\u6587".encode("utf-16"), "text"),
        ("a.txt", "plain".encode("utf-16-le"), "text"),
        ("a.txt", b"one\0two\n" * 1, "text"),
        ("a.log", b"\x1b[31mred\x1b[0m\n" * 5, "text"),
        ("a.txt", b"", "text"),
        ("a.pdf", b"", "text"),
        ("a.docx", b" \n", "text"),
    ],
)
def test_text_files_are_detected_by_name(name: str, data: bytes, loader: str) -> None:
    assert detect_loader(data, f"/x/{name}") == loader


@pytest.mark.parametrize(
    ("name", "data", "loader"),
    [
        ("page.pdf", PAGE, "html"),
        ("page", PAGE, "html"),
        ("page.txt", b"\xef\xbb\xbf" + PAGE, "html"),
        ("report.docx", sample_files.pdf([["x"]]), "pdf"),
        ("report.txt", sample_files.pdf([["x"]]), "pdf"),
        ("late.pdf", b"junk\n" + sample_files.pdf([["x"]]), "pdf"),
        ("table.docx", sample_files.workbook({"a": [[1]]}), "xlsx"),
        ("words.zip", sample_files.word(), "docx"),
        ("talk.bin", sample_files.slides([("t", "x", "")]), "pptx"),
        ("novel.zip", sample_files.book({"1": "x"}), "epub"),
        ("words.zip", sample_files.zipped({"mimetype": OPENDOCUMENT + "text"}), "odt"),
        ("talk.zip", sample_files.zipped({"mimetype": OPENDOCUMENT + "presentation-template"}), "odp"),
        ("table.zip", sample_files.zipped({"mimetype": OPENDOCUMENT + "spreadsheet"}), "ods"),
        ("a.xlsx", sample_files.zipped({"[Content_Types].xml": "", "xl/workbook.bin": "x"}), "xls"),
        ("mail", b"Return-Path: <a@b.c>\r\nFrom: a@b.c\r\nX-Long: a\r\n b: c d\r\n\r\nHello", "eml"),
        ("cur/17.host:2,S", b"From: a@b.c\nMIME-Version: 1.0\n\nHello", "eml"),
        ("Inbox", b"From a@b.c Thu Jan 1\nFrom: a@b.c\nMessage-ID: <1>\n\nHello", "mbox"),
        ("1.emlx", b"1044\nFrom: a@b.c\nMIME-Version: 1.0\n\nHello", "text"),
        ("notes", b"From: a\nTo: b\nSubject: c\n\nHello", "text"),
        ("notes", b"From: a\nreceived the parcel\nReceived: b\n\nHello", "text"),
        ("a.txt", b"From: a@b.c\nMIME-Version: 1.0\n\nHello", "text"),
        ("a.docx", CFB + "WordDocument".encode("utf-16-le"), "doc"),
        ("a.txt", CFB + "Workbook".encode("utf-16-le"), "xls"),
        ("a.xls", CFB + "PowerPoint Document Workbook".encode("utf-16-le"), "xls"),
        ("a.bin", CFB + "PowerPoint Document Workbook".encode("utf-16-le"), "ppt"),
        ("a", CFB + ("__substg1.0_" + "WordDocument").encode("utf-16-le"), "msg"),
        ("a.doc", b"{\\rtf1 hi}", "rtf"),
    ],
)
def test_content_overrides_a_wrong_suffix(name: str, data: bytes, loader: str) -> None:
    assert detect_loader(data, name) == loader


@pytest.mark.parametrize("encoding", ["cp1251", "koi8-r", "cp1253", "euc-kr", "gb18030", "shift_jis", "cp1256"])
def test_text_in_a_legacy_encoding_is_never_taken_for_noise(encoding: str) -> None:
    words = {"cp1253": "Καλημέρα κόσμε, τι κάνεις; ", "cp1256": "مرحبا بالعالم كيف حالك "}
    words |= {"euc-kr": "안녕하세요 세계 여러분 ", "gb18030": "你好世界我们走吧。", "shift_jis": "こんにちは世界。"}
    text = words.get(encoding, "Привет, мир! Как дела сегодня? ") * 100
    assert detect_loader(text.encode(encoding), "a.txt") == "text"


def test_a_web_page_in_markdown_stays_markdown() -> None:
    assert detect_loader(PAGE, "a.md") == "markdown"


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.txt", bytes(range(256)) * 4, "binary file"),
        ("a.txt", Random(1).randbytes(200), "binary file"),
        ("a.md", b"\x7fELF" + bytes(50), "binary file \\(executable\\)"),
        ("a.txt", gzip.compress(b"hello", mtime=0), "binary file \\(gzip archive\\)"),
        ("a.db", b"SQLite format 3\0" + bytes(50), "binary file \\(SQLite database\\)"),
        ("a.mp4", b"\0\0\0\x20ftypisom" + bytes(50), "binary file \\(video\\)"),
        ("a.avi", b"RIFF\x24\0\0\0AVI LIST", "binary file \\(audio or video\\)"),
        ("a.wmf", b"\xd7\xcd\xc6\x9a" + bytes(50), "binary file \\(WMF image\\)"),
        ("a.wmf", b"\x01\x00\x09\x00\x00\x03" + b"x" * 50, "binary file \\(WMF image\\)"),
        ("a.emf", b"\x01\0\0\0".ljust(40, b"\xff") + b" EMF" + b"\xff" * 5000, "binary file \\(EMF image\\)"),
        ("a.fits", b"SIMPLE  =                    T" + b" " * 50, "binary file \\(FITS image\\)"),
        ("a.tar", TAR, "tar archives are not supported: unpack it"),
        ("a.txt", b"words\xff" * 200 + b"\xff" * 500, "binary file"),
        ("a.p7m", b"0\x82\x60\xee\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x02" + b"x" * 99, "PKCS #7"),
        ("a.ps", b"%!PS-Adobe-3.0", "PostScript is not supported: convert it"),
        ("a.pdf", b"just words", "has the suffix .pdf but contains plain text"),
        ("a.docx", b"just words", "has the suffix .docx but contains plain text"),
        ("a.zip", sample_files.zipped({"a.txt": "x"}), "zip archives are not supported: unpack it"),
        (
            "a.odg",
            sample_files.zipped({"mimetype": OPENDOCUMENT + "graphics"}),
            "OpenDocument graphics is not supported",
        ),
        ("a.pages", sample_files.zipped({"Index/Document.iwa": "x"}), "Pages, .* is not supported: export it as PDF"),
        ("a.vsdx", sample_files.zipped({"visio/document.xml": "x"}), "Visio drawing is not supported: export it"),
        ("a.db", CFB, "legacy Office format is not supported"),
    ],
)
def test_an_unsupported_format_is_named(name: str, data: bytes, reason: str) -> None:
    with pytest.raises(UnsupportedFormat, match=reason):
        detect_loader(data, name)


def test_an_encrypted_office_file_is_reported_as_password_protected() -> None:
    with pytest.raises(LoadError, match=r"a\.docx: password-protected: save it without a password"):
        detect_loader(CFB + "EncryptedPackage".encode("utf-16-le"), "a.docx")


def test_an_encrypted_zip_is_reported_as_password_protected() -> None:
    data = bytearray(sample_files.word())
    for offset in range(len(data) - 10):
        if data[offset : offset + 4] == b"PK\x01\x02":
            data[offset + 8] |= 1
    with pytest.raises(LoadError, match="password-protected"):
        detect_loader(bytes(data), "a.docx")


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_truncated_office_file_is_an_error(share: float) -> None:
    data = sample_files.word()
    with pytest.raises(LoadError, match="damaged or truncated zip file"):
        detect_loader(data[: int(len(data) * share)], "a.docx")


def test_an_office_file_without_content_types_is_an_error() -> None:
    with pytest.raises(LoadError, match=r"part '\[Content_Types\].xml' is missing"):
        detect_loader(sample_files.zipped({"word/document.xml": "<x/>"}), "a.docx")


def test_a_zip_with_overlapping_entries_is_rejected() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a", "x" * 1000)
        archive.filelist.append(archive.filelist[0])
    with pytest.raises(LoadLimitExceeded, match="overlap"):
        detect_loader(out.getvalue(), "a.docx")


def test_every_suffix_has_a_registered_loader() -> None:
    assert set(LOADER_BY_SUFFIX.values()) <= set(LOADERS.specs)
    assert all(suffix == suffix.lower() and suffix.startswith(".") for suffix in LOADER_BY_SUFFIX)
    assert all(LOADER_BY_SUFFIX[suffix] == "code" for suffix in LANGUAGE_BY_SUFFIX)


@pytest.mark.parametrize(
    ("name", "text", "language"),
    [
        ("a.py", "", "python"),
        ("Makefile", "", "makefile"),
        ("run", "#!/bin/bash -e\n", "shell"),
        ("run", "#!/usr/bin/env -S python3.11 -u\n", "python"),
        ("run", "#!\n", ""),
        ("notes", "hello", ""),
    ],
)
def test_a_language_is_detected_by_name_or_first_line(name: str, text: str, language: str) -> None:
    assert detect_language(name, text) == language


def test_the_suffix_of_a_url_is_that_of_its_path() -> None:
    assert file_suffix("https://x.org/a.PDF?b=c.txt#d.md") == ".pdf"
