"""A title for a document whose format or author gave none: its first heading.

Not its file name: a title is embedded with each chunk, and a file that is renamed or copied would be embedded anew.
"""

from __future__ import annotations

from dataclasses import replace

from ragkit.records import Document

MAX_TITLE_CHARS = 200
SHEET_FORMATS = frozenset({"ods", "sqlite", "xls", "xlsx"})
"""Formats whose headings are the names of sheets and tables."""


def give_title(document: Document) -> Document:
    """The document with a title, if none is known and it has a heading."""
    if document.title or document.format in SHEET_FORMATS or not document.text.strip():
        return document
    headings = (heading for heading in document.headings if heading.end is None)
    first = min(headings, key=lambda heading: (heading.level, heading.start), default=None)
    if first is None:
        return document
    return replace(document, title=first.text[:MAX_TITLE_CHARS], id="")
