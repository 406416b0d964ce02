"""Shared by both PDF loaders: clean the text of a page, join pages, convert the outline to headings.

Independent of the PDF library.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ragkit.errors import LoadError, LoadLimitExceeded
from ragkit.load.loader_utils import build_metadata, collapse_whitespace
from ragkit.load.options import PdfOptions
from ragkit.records import JSON, Document, Heading

PAGE_BREAK = "\n\n"
MAX_OUTLINE_ENTRIES = 5_000
"""Entries of an outline that are read."""

DECRYPT_HINT = "remove its password, for example with `qpdf --decrypt --password=... in.pdf out.pdf`"
SAVE_PDF_AGAIN_HINT = "open it in a PDF viewer and save it again"

_DROPPED_CHARS = re.compile("[\x00-\x08\x0b\x0e-\x1f\u200b\ufeff\ufffe\uffff\ud800-\udfff]")
_HYPHEN_MARK = "[\ufffe\x02]\n?"
"""How PDFium encodes a hyphen at the end of a line; it usually removes the line break too."""
_HYPHEN_MARK_PATTERN = re.compile(_HYPHEN_MARK)
_LINE_END_HYPHEN = re.compile(f"(?<=[^\\W\\d_])(?:{_HYPHEN_MARK}|[-\u00ad\u2010]\n)(?=[^\\W\\d_])")
_FILE_NAME_TITLE = re.compile(r"\.(docx?|xlsx?|pptx?|pdf|tex|dvi|ps|indd|qxd|rtf|odt|pmd|fm|wpd|html?)$", re.IGNORECASE)
_PLACEHOLDER_TITLE = re.compile(
    r"(?i)(untitled\b.*|document\s*\d*|title|no title|slide \d+|powerpoint presentation|\(null\))$"
)
_APPLICATION_PREFIX = re.compile(r"(?i)^(microsoft (office )?(word|powerpoint|excel)|powerpoint presentation) - ")


@dataclass(frozen=True, slots=True)
class OutlineEntry:
    """An entry of a PDF outline."""

    title: str
    level: int
    """From 1 (highest)."""
    page: int
    """From 0."""


@dataclass(frozen=True, slots=True)
class PdfContent:
    """The content of a PDF file, as read by a PDF library."""

    page_texts: Sequence[str | None]
    """The cleaned text of each page; None when the page is unreadable."""
    outline: Sequence[OutlineEntry]
    title: str
    author: str


def check_page_count(count: int, options: PdfOptions, source: str) -> None:
    """Raises LoadLimitExceeded above `max_pages`."""
    if count > options.max_pages:
        raise LoadLimitExceeded(source, f"has {count} pages, the limit is {options.max_pages}", "raise max_pages")


def clean_page_text(text: str, *, join_hyphens: bool) -> str:
    """The text of a page with LF line breaks and without control characters."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\x0c", "\n").replace("\xa0", " ")
    if join_hyphens:
        text = _join_hyphenated_words(text)
    text = _DROPPED_CHARS.sub("", _HYPHEN_MARK_PATTERN.sub("-", text))
    return "\n".join(line.rstrip() for line in text.split("\n")).strip()


def _join_hyphenated_words(text: str) -> str:
    """Join words that are hyphenated at the end of a line and continue in lower case."""
    parts: list[str] = []
    last = 0
    for cut in _LINE_END_HYPHEN.finditer(text):
        if text[cut.end()].islower():
            parts.append(text[last : cut.start()])
            last = cut.end()
    return "".join([*parts, text[last:]])


def build_pdf_document(pages: PdfContent, source: str) -> Document:
    """One Document of all pages. Raises LoadError when no page has text."""
    texts = [text or "" for text in pages.page_texts]
    unreadable = pages.page_texts.count(None)
    if not any(texts):
        if texts and unreadable == len(texts):
            raise LoadError(source, "no page can be read", SAVE_PDF_AGAIN_HINT)
        raise LoadError(source, "no text layer (a scan?)", "run OCR first, for example `ocrmypdf in.pdf out.pdf`")
    starts = [0]
    for text in texts[:-1]:
        starts.append(starts[-1] + len(text) + len(PAGE_BREAK))
    extra: dict[str, JSON] = {"author": collapse_whitespace(pages.author), "pages": len(texts)}
    if unreadable:
        extra["pages_unreadable"] = unreadable
    return Document(
        text=PAGE_BREAK.join(texts),
        metadata=build_metadata("pdf", source, extra),
        source=source,
        title=clean_title(pages.title),
        page_starts=tuple(starts),
        headings=tuple(sorted(_outline_headings(pages.outline, texts, starts), key=lambda heading: heading.start)),
        format="pdf",
    )


def clean_title(title: str) -> str:
    """A title from the metadata, or '' for placeholders and file names that programs insert."""
    title = _APPLICATION_PREFIX.sub("", collapse_whitespace(_DROPPED_CHARS.sub("", title)))
    if not 3 <= len(title) <= 300 or _PLACEHOLDER_TITLE.match(title) or _FILE_NAME_TITLE.search(title):
        return ""
    return title


def _outline_headings(
    outline: Sequence[OutlineEntry], texts: Sequence[str], starts: Sequence[int]
) -> Iterator[Heading]:
    for entry in outline[:MAX_OUTLINE_ENTRIES]:
        title = collapse_whitespace(_DROPPED_CHARS.sub("", entry.title))
        if title and 0 <= entry.page < len(starts):
            yield Heading(starts[entry.page] + _find_title(title, texts[entry.page]), entry.level, title[:300])


def _find_title(title: str, page: str) -> int:
    """The offset of the title on its page; 0 when it is not found."""
    words = [re.escape(word) for word in title.split()[:12]]
    match = re.search(r"\s+".join(words), page, re.IGNORECASE)
    return match.start() if match else 0
