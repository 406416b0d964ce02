"""Outlook messages (MSG).

Source: [MS-OXMSG] Outlook Item (.msg) File Format, 2.1.3 Variable length properties.
"""

from __future__ import annotations

import codecs
import struct
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

from ragkit.load.html.html import read_page
from ragkit.load.mail.message import Attachment, MailMessage, build_mail_document
from ragkit.load.office.ole_file import OleFile
from ragkit.load.options import LOADER_VERSIONS, EmlOptions
from ragkit.load.shared.encoding import decode_bytes, replace_invalid_chars
from ragkit.load.shared.loader_utils import collapse_whitespace
from ragkit.records import Document

SUBJECT, BODY, HTML_BODY, SENDER_NAME, SENDER_ADDRESS, TO, CC = "0037", "1000", "1013", "0C1A", "5D01", "0E04", "0E03"
LONG_NAME, SHORT_NAME, DATA, DISPLAY_NAME = "3707", "3704", "3701", "3001"
SENT_TIME, DELIVERY_TIME = 0x0039, 0x0E06
TIME_TYPE, NUMBER_TYPE = 0x0040, 0x0003
MESSAGE_CODE_PAGE, INTERNET_CODE_PAGE, UTF_8_CODE_PAGE = 0x3FFD, 0x3FDE, 65001
PROPERTIES = "__properties_version1.0"
TOP_HEADER_BYTES = 32
MAX_ATTACHMENTS = 1_000


class MsgLoader:
    """The plain text of a message, or the text of its HTML."""

    version = LOADER_VERSIONS["msg"]

    def __init__(self, options: EmlOptions | None = None) -> None:
        self.options = options or EmlOptions()

    def load(self, data: bytes, source: str) -> Document:
        """The message in `data`. Raises LoadError when it is damaged."""
        with OleFile(data, source) as ole:
            message = _read_message(ole, source)
        return build_mail_document("msg", source, message, headers=self.options.headers)

    def attachments(self, data: bytes, source: str) -> Iterator[tuple[str, bytes]]:
        """See `AttachmentLoader`; none if the option is off."""
        if self.options.attachments:
            with OleFile(data, source) as ole:
                message = _read_message(ole, source)
            for item in message.attachments:
                yield item.name, item.data


def _read_message(ole: OleFile, source: str) -> MailMessage:
    sender, address = _read_text(ole, SENDER_NAME), _read_text(ole, SENDER_ADDRESS)
    headers = {
        "From": f"{sender} <{address}>" if sender and address and sender != address else sender or address,
        "To": _read_text(ole, TO),
        "Cc": _read_text(ole, CC),
        "Date": _read_date(ole),
        "Subject": _read_text(ole, SUBJECT),
    }
    body = _read_raw_text(ole, BODY).replace("\r\n", "\n").strip()
    if not body and (page := ole.read(f"__substg1.0_{HTML_BODY}0102").rstrip(b"\0")):
        body = read_page(page, source).layout.text
    attachments: list[Attachment] = []
    for storage in ole.storages("__attach_version1.0_")[:MAX_ATTACHMENTS]:
        names = (_read_text(ole, key, f"{storage}/") for key in (LONG_NAME, SHORT_NAME, DISPLAY_NAME))
        name = next(filter(None, names), "(without a name)")
        attachments.append(Attachment(name, ole.read(f"{storage}/__substg1.0_{DATA}0102")))
    return MailMessage(headers, body, tuple(attachments))


def _read_text(ole: OleFile, key: str, folder: str = "") -> str:
    return collapse_whitespace(_read_raw_text(ole, key, folder))[:2000]


def _read_raw_text(ole: OleFile, key: str, folder: str = "") -> str:
    """A text property, as UTF-16 or in the code page of its sender."""
    name = f"{folder}__substg1.0_{key}"
    if f"{name}001F" in ole:
        text = ole.read(f"{name}001F").decode("utf-16-le", "replace")
    else:
        text = decode_bytes(ole.read(f"{name}001E").rstrip(b"\0"), _codec(ole)).text
    return replace_invalid_chars(text.rstrip("\0"))


def _codec(ole: OleFile) -> str:
    """The codec of 8-bit text; '' when it is not known."""
    numbers = {key: value & 0xFFFF_FFFF for kind, key, value in _read_properties(ole) if kind == NUMBER_TYPE}
    page = numbers.get(MESSAGE_CODE_PAGE) or numbers.get(INTERNET_CODE_PAGE) or 0
    try:
        return codecs.lookup("utf-8" if page == UTF_8_CODE_PAGE else f"cp{page}").name
    except LookupError:
        return ""


def _read_properties(ole: OleFile) -> list[tuple[int, int, int]]:
    """Type, key and value of each property of fixed length."""
    data = ole.read(PROPERTIES)[TOP_HEADER_BYTES:]
    rows = struct.iter_unpack("<HHIQ", data[: len(data) // 16 * 16])
    return [(kind, key, value) for kind, key, _, value in rows]


def _read_date(ole: OleFile) -> str:
    """When it was sent, or else delivered, as in a mail header; '' when unknown."""
    times = {key: value for kind, key, value in _read_properties(ole) if kind == TIME_TYPE}
    ticks = times.get(SENT_TIME) or times.get(DELIVERY_TIME)
    if not ticks:
        return ""
    date = datetime(1601, 1, 1, tzinfo=UTC) + timedelta(microseconds=ticks // 10)
    return format_datetime(date)
