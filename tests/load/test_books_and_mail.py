"""EPUB books and e-mail."""

from __future__ import annotations

import base64
from email.message import EmailMessage

import pytest

from ragkit.errors import LoadError, LoadLimitExceeded
from ragkit.load.html.epub import EpubLoader
from ragkit.load.mail.eml import EmlLoader
from ragkit.load.options import EmlOptions, ZipOptions
from ragkit.records import Document
from tests.load import sample_files


def test_a_book_is_read_chapter_by_chapter() -> None:
    data = sample_files.book({"b.xhtml": "<h1>One</h1><p>words</p>", "a.xhtml": "<h1>Two</h1><h2>Deep</h2><p>more</p>"})
    document = EpubLoader().load(data, "/x/a.epub")
    assert document.text == "One\n\nwords\n\nTwo\n\nDeep\n\nmore"
    assert [(h.start, h.level, h.text) for h in document.headings] == [(0, 1, "One"), (12, 1, "Two"), (17, 2, "Deep")]
    assert document.title == "A Book"
    assert document.metadata == {"author": "Ada", "lang": "en", "format": "epub", "name": "a.epub", "suffix": ".epub"}


def test_the_title_of_a_chapter_is_its_default_heading() -> None:
    document = EpubLoader().load(sample_files.book({"a": "<title>Prologue</title><p>words"}), "")
    assert [(h.start, h.text) for h in document.headings] == [(0, "Prologue")]


def test_an_encrypted_book_is_an_error() -> None:
    lock = '<encryption><EncryptedData><CipherReference URI="OEBPS/a"/></EncryptedData></encryption>'
    with pytest.raises(LoadError, match=r"protected by DRM"):
        EpubLoader().load(sample_files.book({"a": "x"}, more={"META-INF/encryption.xml": lock}), "")


def test_a_book_with_encrypted_fonts_is_read() -> None:
    lock = '<encryption><EncryptedData><CipherReference URI="OEBPS/font"/></EncryptedData></encryption>'
    assert EpubLoader().load(sample_files.book({"a": "x"}, more={"META-INF/encryption.xml": lock}), "").text == "x"


def test_a_book_without_a_list_of_chapters_is_an_error() -> None:
    with pytest.raises(LoadError, match="the list of chapters is missing"):
        EpubLoader().load(
            sample_files.replaced(sample_files.book({"a": "x"}), {"META-INF/container.xml": "<container/>"}), ""
        )


def test_a_book_that_is_a_zip_bomb_is_rejected() -> None:
    with pytest.raises(LoadLimitExceeded, match="unpacks to 19 MB, the limit is 1 MB"):
        EpubLoader(ZipOptions(max_expanded_mb=1)).load(sample_files.book({"a": "x" * 20_000_000}), "")


def mail(data: bytes | EmailMessage, options: EmlOptions | None = None) -> Document:
    return EmlLoader(options).load(bytes(data), "/x/a.eml")


def letter() -> EmailMessage:
    message = EmailMessage()
    message["Subject"] = "Größe der Tür"
    message["From"] = "Ann <ann@example.org>"
    message["To"] = "bo@example.org, cy@example.org"
    message["Date"] = "Mon, 06 May 2024 07:08:09 +0200"
    message.set_content("Hello Bo,\n\nsee below.\n")
    return message


def test_the_text_of_a_message_starts_with_its_headers() -> None:
    document = mail(letter())
    assert document.text == (
        "From: Ann <ann@example.org>\nTo: bo@example.org, cy@example.org\n"
        "Date: Mon, 06 May 2024 07:08:09 +0200\nSubject: Größe der Tür\n\nHello Bo,\n\nsee below."
    )
    assert document.title == "Größe der Tür"
    assert (document.metadata["from"], document.metadata["date"]) == (
        "Ann <ann@example.org>",
        "2024-05-06T07:08:09+02:00",
    )


def test_headers_can_be_excluded() -> None:
    assert mail(letter(), EmlOptions(headers=False)).text == "Hello Bo,\n\nsee below."


def test_plain_text_is_preferred_and_attachments_are_only_listed() -> None:
    message = letter()
    message.add_alternative("<p>in <b>HTML</b></p>", subtype="html")
    message.add_attachment(b"secret", maintype="application", subtype="pdf", filename="../../etc/cron.d/x")
    document = mail(message)
    assert "HTML" not in document.text
    assert "secret" not in document.text
    assert document.metadata["attachments"] == ["../../etc/cron.d/x"]
    assert "Attachments: ../../etc/cron.d/x\n\nHello Bo" in document.text


def test_the_name_of_an_attachment_is_decoded() -> None:
    head = b'Content-Type: text/plain\nContent-Disposition: attachment; filename="=?UTF-8?Q?Gr=C3=B6=C3=9Fe.txt?="\n\nx'
    assert mail(head).metadata["attachments"] == ["Größe.txt"]


def test_html_is_read_when_there_is_no_plain_text() -> None:
    message = EmailMessage()
    message.set_content("<style>x</style><p>in <b>HTML</b></p>", subtype="html")
    assert mail(message).text == "in HTML"


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"Subject: x\nContent-Type: text/plain; charset=klingon\n\ncaf\xc3\xa9", "Subject: x\n\ncafé"),
        (b"Subject: x\nContent-Type: text/plain; charset=utf-8\n\ncaf\xe9", "Subject: x\n\ncafé"),
        (
            "Subject: x\nContent-Type: text/plain; charset=iso-8859-1\n\nKöln, Äpfel".encode(),
            "Subject: x\n\nKöln, Äpfel",
        ),
        ("Subject: x\nContent-Type: text/plain; charset=windows-1252\n\n„naïve“".encode(), "Subject: x\n\n„naïve“"),
        ("Subject: x\nContent-Type: text/plain; charset=koi8-r\n\nОтчёт".encode(), "Subject: x\n\nОтчёт"),
        (b"Subject: x\nContent-Type: text/plain; charset=latin1\n\n3 \x80 \x96 \x93so\x94", "Subject: x\n\n3 € – “so”"),
        (b"Subject: x\nContent-Type: text/plain; charset=iso-8859-15\n\n3 \xa4 \xc4pfel", "Subject: x\n\n3 € Äpfel"),
        ("Subject: x\nContent-Type: text/plain; charset=gb2312\n\n报告".encode("gb2312"), "Subject: x\n\n报告"),
        (b"Content-Transfer-Encoding: base64\n\n" + base64.b64encode(b"hello"), "hello"),
        (b"Content-Transfer-Encoding: base64\n\n!!!", ""),
        (b"Subject: =?utf-8?b?w6k=?= =?bad?x?y?=\n\nx", "Subject: é =?bad?x?y?=\n\nx"),
        ("Subject: M\u00e4ry\n\nx".encode(), "Subject: M\u00e4ry\n\nx"),
        ("Subject: Verão\n\nx".encode("cp1252"), "Subject: Verão\n\nx"),
        (
            "Subject: Отчёт\nContent-Type: text/plain; charset=koi8-r\n\nОтчёт".encode("koi8-r"),
            "Subject: Отчёт\n\nОтчёт",
        ),
        (b"Date: yesterday\n\nx", "Date: yesterday\n\nx"),
        (b"From: " + b"(" * 3000 + b"\n\nx", "From: " + "(" * 2000 + "\n\nx"),
        (b"Content-Type: multipart/mixed\n\nno boundary", "no boundary"),
        (b"", ""),
    ],
    ids=[
        "charset",
        "lie",
        "utf-8 as latin",
        "utf-8 as windows",
        "utf-8 as koi8-r",
        "windows as latin",
        "iso-8859-15",
        "gb2312",
        "base64",
        "no base64",
        "words",
        "utf-8",
        "latin",
        "koi8-r",
        "date",
        "brackets",
        "boundary",
        "empty",
    ],
)
def test_the_readable_text_of_a_malformed_message_is_loaded(raw: bytes, text: str) -> None:
    assert mail(raw).text == text


def test_deeply_nested_messages_terminate() -> None:
    raw = b"".join(b'Content-Type: multipart/mixed; boundary="%d"\n\n--%d\n' % (n, n) for n in range(3000))
    try:
        assert mail(raw + b"\ndeep").text in ("", "deep")
    except LoadError as error:
        assert error.reason == "invalid e-mail message"
