"""E-mail: headers and text; attachments are listed, never opened."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from email import message_from_bytes
from email.errors import MessageError
from email.header import decode_header, make_header
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import TypeAlias

from ragkit.errors import LoadError
from ragkit.load.encoding import decode_bytes, replace_invalid_chars
from ragkit.load.html import read_page
from ragkit.load.loader_utils import build_document, collapse_whitespace
from ragkit.load.options import LOADER_VERSIONS, EmlOptions
from ragkit.records import JSON, Document

MessagePart: TypeAlias = "Message[str, str]"

PARSE_ERRORS = (MessageError, ValueError, LookupError, AttributeError, TypeError, AssertionError)
"""Errors of the standard library for malformed headers."""

MAX_PARTS = 1_000


class EmlLoader:
    """The plain text of a message, or the text of its HTML."""

    version = LOADER_VERSIONS["eml"]

    def __init__(self, options: EmlOptions | None = None) -> None:
        self.options = options or EmlOptions()

    def load(self, data: bytes, source: str) -> Document:
        """The message in `data`. Raises LoadError when it cannot be parsed."""
        try:
            message = message_from_bytes(data)  # not policy.default: its header parser is recursive
            parts = list(_iter_parts(message))
        except (RecursionError, *PARSE_ERRORS) as error:
            raise LoadError(source, "invalid e-mail message", "save it again in the mail program") from error
        headers = {name: _decode_header(message, name) for name in ("From", "To", "Cc", "Date", "Subject")}
        names = filter(None, map(_attachment_name, parts))
        attachments = [collapse_whitespace(replace_invalid_chars(name)) for name in names]
        head = [f"{name}: {value}" for name, value in headers.items() if value and self.options.headers]
        head += [f"Attachments: {', '.join(attachments)}"] if attachments and self.options.headers else []
        extra: dict[str, JSON] = {name.lower(): value for name, value in headers.items() if name != "Subject"}
        extra["date"] = _iso_date(headers["Date"])
        extra["attachments"] = list[JSON](attachments)
        text = "\n\n".join(block for block in ("\n".join(head), _body_text(parts, source)) if block)
        return build_document("eml", source, text, extra, headers["Subject"])


def _iter_parts(message: MessagePart) -> Iterator[MessagePart]:
    for number, part in enumerate(message.walk()):
        if number >= MAX_PARTS:
            return
        if not part.is_multipart():
            yield part


def _decode_header(message: MessagePart, name: str) -> str:
    """A header with decoded words, or the raw value when decoding fails."""
    raw = str(message.get(name, ""))[:10_000]
    try:
        value = str(make_header(decode_header(raw)))
    except PARSE_ERRORS:
        value = raw
    return collapse_whitespace(replace_invalid_chars(value))[:2000]


def _iso_date(date: str) -> str:
    """A date as ISO 8601, or unchanged when it cannot be parsed."""
    try:
        return datetime.isoformat(parsedate_to_datetime(date)) if date else ""
    except (ValueError, TypeError, OverflowError):
        return date


def _attachment_name(part: MessagePart) -> str:
    """The name of an attachment, or '(without a name)'; '' for a part that is not an attachment."""
    try:
        name = part.get_filename() or ""
        attached = part.get_content_disposition() == "attachment"
    except PARSE_ERRORS:
        return "(without a name)"
    return name or ("(without a name)" if attached else "")


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


def _decode_part(part: MessagePart) -> str:
    """The text of a part; an unknown or wrong charset is detected from the bytes."""
    payload = part.get_payload(decode=True)
    raw = payload if isinstance(payload, bytes) else b""
    charset = str(part.get_content_charset() or "")
    try:
        text = raw.decode(charset) if charset else decode_bytes(raw).text
    except (LookupError, ValueError):
        text = decode_bytes(raw).text
    return replace_invalid_chars(text.replace("\r\n", "\n"))
