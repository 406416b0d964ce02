"""A mail message as a document: headers, text and the names of attachments. Independent of file formats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime

from ragkit.load.shared.encoding import replace_invalid_chars
from ragkit.load.shared.loader_utils import build_document, collapse_whitespace
from ragkit.records import JSON, Document

HEADER_NAMES = ("From", "To", "Cc", "Date", "Subject")


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file in a message."""

    name: str
    """'(without a name)' when it has none."""
    data: bytes


@dataclass(frozen=True, slots=True)
class MailMessage:
    """The content of a message."""

    headers: dict[str, str]
    """By the names in `HEADER_NAMES`; '' for one that is missing."""
    text: str
    attachments: Sequence[Attachment] = ()

    def to_text(self, *, headers: bool) -> str:
        """The text, after its headers if wanted."""
        lines = [f"{name}: {value}" for name, value in self.headers.items() if value]
        lines += [f"Attachments: {', '.join(self.attachment_names)}"] if self.attachments else []
        return "\n\n".join(block for block in ("\n".join(lines) if headers else "", self.text) if block)

    @property
    def attachment_names(self) -> list[str]:
        """The names of the attachments on one line each."""
        return [collapse_whitespace(replace_invalid_chars(item.name)) for item in self.attachments]


def build_mail_document(kind: str, source: str, message: MailMessage, *, headers: bool) -> Document:
    """The document of a message; its headers are metadata, its subject is the title."""
    extra: dict[str, JSON] = {name.lower(): value for name, value in message.headers.items() if name != "Subject"}
    extra["date"] = iso_date(message.headers.get("Date", ""))
    extra["attachments"] = list[JSON](message.attachment_names)
    return build_document(kind, source, message.to_text(headers=headers), extra, message.headers.get("Subject", ""))


def iso_date(date: str) -> str:
    """A date of a mail header as ISO 8601, or unchanged when it cannot be parsed."""
    try:
        return datetime.isoformat(parsedate_to_datetime(date)) if date else ""
    except (ValueError, TypeError, OverflowError):
        return date
