"""PDF through pypdf: pure Python, slower than PDFium."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from ragkit.errors import LoadError, LoadLimit, MissingExtra
from ragkit.load.options import VERSIONS, PypdfOptions
from ragkit.load.pdftext import MAX_OUTLINE, Entry, Pages, page_cleaned, pdf_document
from ragkit.records import Document

try:
    from pypdf import PageObject, PdfReader
    from pypdf.errors import DependencyError, FileNotDecryptedError, PyPdfError
    from pypdf.generic import Destination
except ImportError as error:
    raise MissingExtra("the loader 'pypdf'", extra="pypdf") from error

Outline: TypeAlias = "Sequence[Destination | Outline]"

BROKEN = (
    PyPdfError,
    ValueError,
    KeyError,
    TypeError,
    IndexError,
    AttributeError,
    OverflowError,
    AssertionError,
    OSError,
)
"""What pypdf raises for files that are not as it expects."""

logging.getLogger("pypdf").setLevel(logging.ERROR)  # it warns of every small fault of a file


class PypdfLoader:
    """The text layer of a PDF, page by page; the outline becomes headings."""

    version = VERSIONS["pypdf"]

    def __init__(self, options: PypdfOptions | None = None) -> None:
        self.options = options or PypdfOptions()

    def load(self, data: bytes, source: str) -> Document:
        """As `PdfLoader.load`."""
        try:
            reader = PdfReader(io.BytesIO(data))
            pages = self._pages(reader, source)
        except DependencyError as error:
            raise LoadError(source, "encrypted with AES", "pip install 'pypdf[crypto]', or save it again") from error
        except FileNotDecryptedError as error:
            hint = "remove its password, for example with `qpdf --decrypt --password=... in.pdf out.pdf`"
            raise LoadError(source, "password-protected", hint) from error
        except BROKEN as error:
            raise LoadError(source, "damaged, or not a PDF", "open it in a PDF viewer and save it again") from error
        return pdf_document(pages, source)

    def _pages(self, reader: PdfReader, source: str) -> Pages:
        count = len(reader.pages)
        if count > self.options.max_pages:
            raise LoadLimit(source, f"has {count} pages, {self.options.max_pages} are read at most", "raise max_pages")
        texts = [self._page(page) for page in reader.pages]
        known = reader.metadata
        return Pages(
            texts=[text or "" for text in texts],
            outline=list(_outline(reader)),
            title=str((known and known.title) or ""),
            author=str((known and known.author) or ""),
            broken=texts.count(None),
        )

    def _page(self, page: PageObject) -> str | None:
        try:
            return page_cleaned(page.extract_text(), join_hyphens=self.options.join_hyphens)
        except BROKEN:
            return None


def _outline(reader: PdfReader) -> Iterator[Entry]:
    """The outline, whole or not at all: it is worth less than the text."""
    try:
        entries = list(_entries(reader, reader.outline, 1))
    except (RecursionError, *BROKEN):
        return
    yield from entries[:MAX_OUTLINE]


def _entries(reader: PdfReader, outline: Outline, level: int) -> Iterator[Entry]:
    for each in outline:
        if isinstance(each, Destination):
            page = reader.get_destination_page_number(each)
            if page is not None:
                yield Entry(str(each.title or ""), level, page)
        elif level < 10:
            yield from _entries(reader, each, level + 1)
