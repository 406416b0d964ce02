"""A title for a document whose format or author gave none: its first heading, or else its file name."""

from __future__ import annotations

import re
from dataclasses import replace

from ragkit.load.file_types import file_name
from ragkit.load.shared.loader_utils import encodable
from ragkit.records import Document

TITLE_FROM = "title_from"
"""The metadata that says where a title comes from that the file does not give: `first heading` or `file name`."""

MAX_TITLE_CHARS = 200
SHEET_FORMATS = frozenset({"ods", "sqlite", "xls", "xlsx"})
"""Formats whose headings are the names of sheets and tables."""

_SEPARATORS = re.compile(r"[\s_.+-]+")
_COPY = re.compile(r"(?:\(\d{1,3}\)|\bcopy|\bkopie)$", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]{3,}|[^\W\d_a-zA-Z]{2,}")
_EMPTY_NAMES = frozenset(
    ("index", "readme", "default", "document", "untitled", "file", "page", "scan", "image", "img", "output", "data")
)


def give_title(document: Document) -> Document:
    """The document with a title, if it has text and none is known."""
    if document.title or not document.text.strip():
        return document
    headings = () if document.format in SHEET_FORMATS else document.headings
    first = min(
        (item for item in headings if item.end is None), key=lambda item: (item.level, item.start), default=None
    )
    title, origin = (
        (first.text, "first heading") if first is not None else (title_of_name(document.source), "file name")
    )
    if not title:
        return document
    return replace(document, title=title[:MAX_TITLE_CHARS], metadata={**document.metadata, TITLE_FROM: origin}, id="")


def title_of_name(source: str) -> str:
    """The words of a file name: `Annual_report-2023 (1).pdf` is `Annual report 2023`; '' for a name without a word."""
    stem = encodable(file_name(source)).rpartition(".")[0] or encodable(file_name(source))
    words = _SEPARATORS.sub(" ", _COPY.sub("", stem)).strip()
    return words if _WORD.search(words) and words.lower() not in _EMPTY_NAMES else ""
