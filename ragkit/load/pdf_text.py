"""What both PDF loaders share: cleaning a page's text, joining pages, headings from the outline.

Knows no PDF library.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ragkit.errors import LoadError
from ragkit.load.loader_utils import build_metadata, collapse_whitespace
from ragkit.records import JSON, Document, Heading

PAGE_BREAK = "\n\n"
MAX_OUTLINE_ENTRIES = 5_000
"""Entries of an outline that are read."""

_DROPPED_CHARS = re.compile("[\x00-\x08\x0b\x0e-\x1f\u200b\ufeff\ufffe\uffff\ud800-\udfff]")
_HYPHEN_MARK = "[\ufffe\x02]\n?"
"""What PDFium leaves of a hyphen at the end of a line; most often it takes the line's end away as well."""
_HYPHEN_MARK_PATTERN = re.compile(_HYPHEN_MARK)
_LINE_END_HYPHEN = re.compile(f"(?<=[^\\W\\d_])(?:{_HYPHEN_MARK}|[-\u00ad\u2010]\n)(?=[^\\W\\d_])")
_FILE_NAME_TITLE = re.compile(r"\.(docx?|xlsx?|pptx?|pdf|tex|dvi|ps|indd|qxd|rtf|odt|pmd|fm|wpd|html?)$", re.IGNORECASE)
_PLACEHOLDER_TITLE = re.compile(
    r"(?i)(untitled\b.*|document\s*\d*|title|no title|slide \d+|powerpoint presentation|\(null\))$"
)
_APPLICATION_PREFIX = re.compile(r"(?i)^(microsoft (office )?(word|powerpoint|excel)|powerpoint presentation) - ")


@dataclass(frozen=True, slots=True)
class OutlineEntry:
    """One line of a PDF's outline."""

    title: str
    level: int
    """1 is the highest."""
    page: int
    """Counted from 0."""


@dataclass(frozen=True, slots=True)
class PdfContent:
    """What a PDF library found in one file."""

    page_texts: Sequence[str]
    """The cleaned text of each page."""
    outline: Sequence[OutlineEntry]
    title: str
    author: str
    unreadable_pages: int
    """Pages that the library could not read."""


def clean_page_text(text: str, *, join_hyphens: bool) -> str:
    """A page's text with LF line ends, without control characters, and words joined again."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\x0c", "\n").replace("\xa0", " ")
    if join_hyphens:
        text = _join_hyphenated_words(text)
    text = _DROPPED_CHARS.sub("", _HYPHEN_MARK_PATTERN.sub("-", text))
    return "\n".join(line.rstrip() for line in text.split("\n")).strip()


def _join_hyphenated_words(text: str) -> str:
    """A word cut at a line's end is joined where the next line goes on in lower case."""
    parts: list[str] = []
    last = 0
    for cut in _LINE_END_HYPHEN.finditer(text):
        if text[cut.end()].islower():
            parts.append(text[last : cut.start()])
            last = cut.end()
    return "".join([*parts, text[last:]])


def build_pdf_document(pages: PdfContent, source: str) -> Document:
    """One Document of all pages. Raises LoadError when no page has text."""
    if not any(pages.page_texts):
        if pages.page_texts and pages.unreadable_pages == len(pages.page_texts):
            raise LoadError(source, "none of its pages can be read", "open it in a PDF viewer and save it again")
        hint = "recognise its text first, for example with `ocrmypdf in.pdf out.pdf`"
        raise LoadError(source, "no text (a scan?)", hint)
    starts = [0]
    for text in pages.page_texts[:-1]:
        starts.append(starts[-1] + len(text) + len(PAGE_BREAK))
    whole = PAGE_BREAK.join(pages.page_texts)
    extra: dict[str, JSON] = {"author": collapse_whitespace(pages.author), "pages": len(pages.page_texts)}
    if pages.unreadable_pages:
        extra["pages_unreadable"] = pages.unreadable_pages
    return Document(
        text=whole,
        metadata=build_metadata("pdf", source, extra),
        source=source,
        title=clean_title(pages.title),
        page_starts=tuple(starts),
        headings=tuple(sorted(_outline_headings(pages, starts), key=lambda heading: heading.start)),
        format="pdf",
    )


def clean_title(title: str) -> str:
    """A title from the metadata, or '' for what programs leave there by themselves."""
    title = _APPLICATION_PREFIX.sub("", collapse_whitespace(_DROPPED_CHARS.sub("", title)))
    if not 3 <= len(title) <= 300 or _PLACEHOLDER_TITLE.match(title) or _FILE_NAME_TITLE.search(title):
        return ""
    return title


def _outline_headings(pages: PdfContent, starts: Sequence[int]) -> Iterator[Heading]:
    for entry in pages.outline[:MAX_OUTLINE_ENTRIES]:
        title = collapse_whitespace(_DROPPED_CHARS.sub("", entry.title))
        if title and 0 <= entry.page < len(starts):
            yield Heading(
                starts[entry.page] + _find_title(title, pages.page_texts[entry.page]), entry.level, title[:300]
            )


def _find_title(title: str, page: str) -> int:
    """Where the title's words stand on its page; 0 where they do not."""
    words = [re.escape(word) for word in title.split()[:12]]
    found = re.search(r"\s+".join(words), page, re.IGNORECASE)
    return found.start() if found else 0
