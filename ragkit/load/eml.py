"""E-mail: subject, sender, receivers, date and the text; attachments are named, never opened."""

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
from ragkit.load.loader_utils import build_metadata, collapse_whitespace
from ragkit.load.options import LOADER_VERSIONS, EmlOptions
from ragkit.records import JSON, Document

MessagePart: TypeAlias = "Message[str, str]"

PARSE_ERRORS = (MessageError, ValueError, LookupError, AttributeError, TypeError, AssertionError)
"""What the standard library's parsers raise for headers that no program should write."""

MAX_PARTS = 1_000


class EmlLoader:
    """The plain text of a message, or else its HTML."""

    version = LOADER_VERSIONS["eml"]

    def __init__(self, options: EmlOptions | None = None) -> None:
        self.options = options or EmlOptions()

    def load(self, data: bytes, source: str) -> Document:
        """The message in `data`. Raises LoadError when it is nested beyond reading."""
        try:
            message = message_from_bytes(data)  # not policy.default, whose header parser recurses
            parts = list(_iter_parts(message))
        except (RecursionError, *PARSE_ERRORS) as error:
            raise LoadError(source, "no message can be read from it", "save it again in the mail program") from error
        known = {name: _decode_header(message, name) for name in ("From", "To", "Cc", "Date", "Subject")}
        attachments = [
            collapse_whitespace(replace_invalid_chars(name)) for part in parts if (name := _attachment_name(part))
        ]
        head = [f"{name}: {value}" for name, value in known.items() if value and self.options.headers]
        head += [f"Attachments: {', '.join(attachments)}"] if attachments and self.options.headers else []
        extra: dict[str, JSON] = {name.lower(): value for name, value in known.items() if name != "Subject"}
        extra["date"] = _iso_date(known["Date"])
        extra["attachments"] = list[JSON](attachments)
        return Document(
            text="\n\n".join(piece for piece in ("\n".join(head), _body_text(parts, source)) if piece),
            metadata=build_metadata("eml", source, extra),
            source=source,
            title=known["Subject"],
            format="eml",
        )


def _iter_parts(message: MessagePart) -> Iterator[MessagePart]:
    for number, part in enumerate(message.walk()):
        if number >= MAX_PARTS:
            return
        if not part.is_multipart():
            yield part


def _decode_header(message: MessagePart, name: str) -> str:
    """A header with its encoded words read, or as it stands where they are wrong."""
    raw = str(message.get(name, ""))[:10_000]
    try:
        value = str(make_header(decode_header(raw)))
    except PARSE_ERRORS:
        value = raw
    return collapse_whitespace(replace_invalid_chars(value))[:2000]


def _iso_date(date: str) -> str:
    """A mail's date as ISO 8601, or as it is written where that is no date."""
    try:
        return datetime.isoformat(parsedate_to_datetime(date)) if date else ""
    except (ValueError, TypeError, OverflowError):
        return date


def _attachment_name(part: MessagePart) -> str:
    """The name of an attachment, '(without a name)' for one without; '' for what is no attachment."""
    try:
        name = part.get_filename() or ""
        attached = part.get_content_disposition() == "attachment"
    except PARSE_ERRORS:
        return "(without a name)"
    return name or ("(without a name)" if attached else "")


def _body_text(parts: list[MessagePart], source: str) -> str:
    """The text parts one below the other, or else the HTML parts."""
    shown = [part for part in parts if not _attachment_name(part)]
    # a part of parts that holds none has lost its boundary: what it holds is text
    plain = [
        _decode_part(part).strip()
        for part in shown
        if part.get_content_type() == "text/plain" or part.get_content_maintype() == "multipart"
    ]
    if any(plain):
        return "\n\n".join(text for text in plain if text)
    pages = [read_page(_decode_part(part), source).text for part in shown if part.get_content_type() == "text/html"]
    return "\n\n".join(page for page in pages if page)


def _decode_part(part: MessagePart) -> str:
    """The characters of a text part; a charset that is unknown or wrong is found from the bytes."""
    payload = part.get_payload(decode=True)
    raw = payload if isinstance(payload, bytes) else b""
    charset = str(part.get_content_charset() or "")
    try:
        text = raw.decode(charset) if charset else decode_bytes(raw).text
    except (LookupError, ValueError):
        text = decode_bytes(raw).text
    return replace_invalid_chars(text.replace("\r\n", "\n"))
