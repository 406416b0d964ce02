"""E-mail: single messages (EML), mailboxes (mbox) and saved web pages (MHTML)."""

from __future__ import annotations

import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator
from contextlib import suppress
from email import message_from_bytes
from email.errors import MessageError
from email.header import decode_header, make_header
from email.message import Message
from typing import TypeAlias

from ragkit.errors import LoadError
from ragkit.load.html.html import read_page
from ragkit.load.mail.message import HEADER_NAMES, Attachment, MailMessage, build_mail_document
from ragkit.load.options import LOADER_VERSIONS, EmlOptions, HtmlOptions
from ragkit.load.shared.encoding import SAMPLE_BYTES, decode_bytes, guess_utf16_or_utf32, replace_invalid_chars
from ragkit.load.shared.layout_blocks import LayoutBlock, TextLayout, join_blocks
from ragkit.load.shared.loader_utils import build_document, collapse_whitespace
from ragkit.records import JSON, Document, Place

MessagePart: TypeAlias = "Message[str, str]"

PARSE_ERRORS = (MessageError, ValueError, LookupError, AttributeError, TypeError, AssertionError)
"""Errors of the standard library for malformed headers."""

MAX_PARTS = 1_000
WITHOUT_NAME = "(without a name)"

_CAPITALS = bytes(range(0xC0, 0xE0))
_IS_LATIN1 = re.compile(r"(?i)iso[-_]?8859[-_]1|latin[-_]?1|l1")
_MBOX_START = re.compile(rb"^From [^\n]{3,200}\n(?=[\w-]{1,60}:)", re.MULTILINE)


class EmlLoader:
    """The plain text of a message, or the text of its HTML."""

    version = LOADER_VERSIONS["eml"]

    def __init__(self, options: EmlOptions | None = None) -> None:
        self.options = options or EmlOptions()

    def load(self, data: bytes, source: str) -> Document:
        """The message in `data`. Raises LoadError when it cannot be parsed."""
        return build_mail_document("eml", source, read_message(data, source), headers=self.options.headers)

    def attachments(self, data: bytes, source: str) -> Iterator[tuple[str, bytes]]:
        """See `AttachmentLoader`; none if the option is off."""
        for item in read_message(data, source).attachments if self.options.attachments else ():
            yield item.name, item.data


class MboxLoader:
    """The messages of a mailbox one after the other, each under its subject."""

    version = LOADER_VERSIONS["mbox"]

    def __init__(self, options: EmlOptions | None = None) -> None:
        self.options = options or EmlOptions()

    def load(self, data: bytes, source: str) -> Document:
        """The messages in `data`. Raises LoadError when one cannot be parsed."""
        blocks: list[LayoutBlock] = []
        normalized = data.replace(b"\r\n", b"\n")
        starts = [found.start() for found in _MBOX_START.finditer(normalized)] or [0]
        for number, (start, end) in enumerate(zip(starts, [*starts[1:], len(normalized)], strict=True), start=1):
            body = _MBOX_START.sub(b"", normalized[start:end], count=1)
            message = read_message(re.sub(rb"^>(>*From )", rb"\1", body, flags=re.MULTILINE), source)
            place = Place(0, "message", number)
            blocks.append(LayoutBlock("h", message.headers["Subject"], 1, place=place))
            blocks.append(LayoutBlock("p", message.to_text(headers=self.options.headers), place=place))
        return build_document("mbox", source, join_blocks(blocks), {"messages": len(starts)})


class MhtmlLoader:
    """The page of a web archive."""

    version = LOADER_VERSIONS["mhtml"]

    def __init__(self, options: HtmlOptions | None = None) -> None:
        self.options = options or HtmlOptions()

    def load(self, data: bytes, source: str) -> Document:
        """The page in `data`. Raises LoadError when it cannot be parsed."""
        parts = _read_parts(data, source)[1]
        pages = [part for part in parts if part.get_content_type() in ("text/html", "application/xhtml+xml")]
        if not pages:
            text = "\n\n".join(_decode_part(part).strip() for part in parts if part.get_content_maintype() == "text")
            return build_document("mhtml", source, text, {})
        page = read_page(_decode_part(pages[0]), source, navigation=self.options.navigation)
        extra: dict[str, JSON] = {"url": str(pages[0].get("Content-Location", ""))[:2000], **page.access}
        layout = TextLayout(page.layout.text, page.layout.headings)  # lines of the page are not those of the file
        return build_document("mhtml", source, layout, extra, page.title)


def read_message(data: bytes, source: str) -> MailMessage:
    """The message in `data`. Raises LoadError when it cannot be parsed."""
    message, parts = _read_parts(data, source)
    headers = {name: _decode_header(message, name) for name in HEADER_NAMES}
    files = [(name, part) for part in parts if (name := _attachment_name(part))]
    attachments = tuple(Attachment(name, _payload(part)) for name, part in files)
    return MailMessage(headers, _body_text(parts, source), attachments)


def _read_parts(data: bytes, source: str) -> tuple[MessagePart, list[MessagePart]]:
    if encoding := guess_utf16_or_utf32(data[:SAMPLE_BYTES]) or data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        data = decode_bytes(data, encoding if isinstance(encoding, str) else "").text.encode("utf-8")
    try:
        message = message_from_bytes(data)  # not policy.default: its header parser is recursive
        return message, list(_iter_parts(message))
    except (RecursionError, *PARSE_ERRORS) as error:
        raise LoadError(source, "invalid e-mail message", "save it again in the mail program") from error


def _iter_parts(message: MessagePart) -> Iterator[MessagePart]:
    for number, part in enumerate(message.walk()):
        if number >= MAX_PARTS:
            return
        if not part.is_multipart():
            yield part


def _decode_header(message: MessagePart, name: str) -> str:
    """A header with decoded words; bytes that are not encoded (RFC 6532) are UTF-8, or in the charset of the text."""
    raw = next((str(value) for key, value in message.raw_items() if key.lower() == name.lower()), "")
    return collapse_whitespace(_decode_words(raw, message.get_content_charset("")))[:2000]


def _decode_words(raw: str, charset: str = "") -> str:
    """The text of a header, or the raw value when decoding fails."""
    data = raw[:10_000].encode("utf-8", "surrogateescape")
    value = _decode(data, charset)
    with suppress(*PARSE_ERRORS):
        value = str(make_header(decode_header(value)))
    return replace_invalid_chars(value)


def _attachment_name(part: MessagePart) -> str:
    """The name of an attachment, or '(without a name)'; '' for a part that is not an attachment."""
    try:
        name = _decode_words(part.get_filename() or "")
        attached = part.get_content_disposition() == "attachment"
    except PARSE_ERRORS:
        return WITHOUT_NAME
    return name or (WITHOUT_NAME if attached else "")


def _body_text(parts: list[MessagePart], source: str) -> str:
    """The plain text parts, or the HTML parts when there is no plain text."""
    bodies = [part for part in parts if not _attachment_name(part)]
    # a multipart without parts has lost its boundary: its payload is text
    plain = [
        _decode_part(part).strip()
        for part in bodies
        if part.get_content_type() == "text/plain" or part.get_content_maintype() == "multipart"
    ]
    if any(plain):
        return "\n\n".join(text for text in plain if text)
    pages = [read_page(_decode_part(part), source) for part in bodies if part.get_content_type() == "text/html"]
    return "\n\n".join(page.layout.text for page in pages if page.layout.text)


def _payload(part: MessagePart) -> bytes:
    payload = part.get_payload(decode=True)
    return payload if isinstance(payload, bytes) else b""


def _decode_part(part: MessagePart) -> str:
    return _decode(_payload(part), str(part.get_content_charset() or "")).replace("\r\n", "\n")


def _decode(raw: bytes, charset: str) -> str:
    """Text; an unknown or wrong charset is detected from the bytes.

    Programs name their own charset for a text that they pass on as UTF-8, and ISO-8859-1 for Windows-1252. Text of a
    charset of single bytes is no UTF-8 by chance: it would be capitals with accents before signs.
    """
    try:
        codecs = [charset]
        if _IS_LATIN1.fullmatch(charset):
            codecs.insert(0, "cp1252")
        if not raw.isascii() and len(_CAPITALS.decode(charset, "replace")) == len(_CAPITALS):
            codecs.insert(0, "utf-8")
        for codec in codecs:
            with suppress(UnicodeDecodeError):
                return replace_invalid_chars(raw.decode(codec))
    except (LookupError, ValueError):
        pass
    return decode_bytes(raw).text
