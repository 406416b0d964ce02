"""What both PDF loaders share: cleaning a page's text, joining pages, headings from the outline.

Knows no PDF library.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ragkit.errors import LoadError
from ragkit.load.meta import metadata, one_line
from ragkit.records import JSON, Document, Heading

PAGE_BREAK = "\n\n"
MAX_OUTLINE = 5_000
"""Entries of an outline that are read."""

_DROPPED = re.compile("[\x00-\x08\x0b\x0e-\x1f\u200b\ufeff\ufffe\uffff\ud800-\udfff]")
_MARK = "[\ufffe\x02]\n?"
"""What PDFium leaves of a hyphen at the end of a line; most often it takes the line's end away as well."""
_MARKED = re.compile(_MARK)
_HYPHEN = re.compile(f"(?<=[^\\W\\d_])(?:{_MARK}|[-\u00ad\u2010]\n)(?=[^\\W\\d_])")
_FILE_NAME = re.compile(r"\.(docx?|xlsx?|pptx?|pdf|tex|dvi|ps|indd|qxd|rtf|odt|pmd|fm|wpd|html?)$", re.IGNORECASE)
_NO_TITLE = re.compile(r"(?i)(untitled\b.*|document\s*\d*|title|no title|slide \d+|powerpoint presentation|\(null\))$")
_APPLICATION = re.compile(r"(?i)^(microsoft (office )?(word|powerpoint|excel)|powerpoint presentation) - ")


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a PDF's outline."""

    title: str
    level: int
    """1 is the highest."""
    page: int
    """Counted from 0."""


@dataclass(frozen=True, slots=True)
class Pages:
    """What a PDF library found in one file."""

    texts: Sequence[str]
    """The cleaned text of each page."""
    outline: Sequence[Entry]
    title: str
    author: str
    broken: int
    """Pages that the library could not read."""


def page_cleaned(text: str, *, join_hyphens: bool) -> str:
    """A page's text with LF line ends, without control characters, and words joined again."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\x0c", "\n").replace("\xa0", " ")
    if join_hyphens:
        text = _joined(text)
    text = _DROPPED.sub("", _MARKED.sub("-", text))
    return "\n".join(line.rstrip() for line in text.split("\n")).strip()


def _joined(text: str) -> str:
    """A word cut at a line's end is joined where the next line goes on in lower case."""
    parts: list[str] = []
    last = 0
    for cut in _HYPHEN.finditer(text):
        if text[cut.end()].islower():
            parts.append(text[last : cut.start()])
            last = cut.end()
    return "".join([*parts, text[last:]])


def pdf_document(pages: Pages, source: str) -> Document:
    """One Document of all pages. Raises LoadError when no page has text."""
    if not any(pages.texts):
        if pages.texts and pages.broken == len(pages.texts):
            raise LoadError(source, "none of its pages can be read", "open it in a PDF viewer and save it again")
        hint = "recognise its text first, for example with `ocrmypdf in.pdf out.pdf`"
        raise LoadError(source, "no text (a scan?)", hint)
    starts = [0]
    for text in pages.texts[:-1]:
        starts.append(starts[-1] + len(text) + len(PAGE_BREAK))
    whole = PAGE_BREAK.join(pages.texts)
    extra: dict[str, JSON] = {"author": one_line(pages.author), "pages": len(pages.texts)}
    if pages.broken:
        extra["pages_unreadable"] = pages.broken
    return Document(
        text=whole,
        metadata=metadata("pdf", source, extra),
        source=source,
        title=sensible_title(pages.title),
        page_starts=tuple(starts),
        headings=tuple(sorted(_headings(pages, starts), key=lambda heading: heading.start)),
        format="pdf",
    )


def sensible_title(title: str) -> str:
    """A title from the metadata, or '' for what programs leave there by themselves."""
    title = _APPLICATION.sub("", one_line(_DROPPED.sub("", title)))
    if not 3 <= len(title) <= 300 or _NO_TITLE.match(title) or _FILE_NAME.search(title):
        return ""
    return title


def _headings(pages: Pages, starts: Sequence[int]) -> Iterator[Heading]:
    for entry in pages.outline[:MAX_OUTLINE]:
        title = one_line(_DROPPED.sub("", entry.title))
        if title and 0 <= entry.page < len(starts):
            yield Heading(starts[entry.page] + _place(title, pages.texts[entry.page]), entry.level, title[:300])


def _place(title: str, page: str) -> int:
    """Where the title's words stand on its page; 0 where they do not."""
    words = [re.escape(word) for word in title.split()[:12]]
    found = re.search(r"\s+".join(words), page, re.IGNORECASE)
    return found.start() if found else 0
