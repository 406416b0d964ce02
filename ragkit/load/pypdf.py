"""PDF through pypdf: pure Python, slower than PDFium."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from ragkit.errors import LoadError, LoadLimitExceeded, MissingExtra
from ragkit.load.options import LOADER_VERSIONS, PypdfOptions
from ragkit.load.pdf_text import MAX_OUTLINE_ENTRIES, OutlineEntry, PdfContent, build_pdf_document, clean_page_text
from ragkit.records import Document

try:
    from pypdf import PageObject, PdfReader
    from pypdf.errors import DependencyError, FileNotDecryptedError, PyPdfError
    from pypdf.generic import Destination
except ImportError as error:
    raise MissingExtra("the loader 'pypdf'", extra="pypdf") from error

Outline: TypeAlias = "Sequence[Destination | Outline]"

PARSE_ERRORS = (
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

    version = LOADER_VERSIONS["pypdf"]

    def __init__(self, options: PypdfOptions | None = None) -> None:
        self.options = options or PypdfOptions()

    def load(self, data: bytes, source: str) -> Document:
        """As `PdfLoader.load`."""
        try:
            reader = PdfReader(io.BytesIO(data))
            pages = self._read_pages(reader, source)
        except DependencyError as error:
            raise LoadError(source, "encrypted with AES", "pip install 'pypdf[crypto]', or save it again") from error
        except FileNotDecryptedError as error:
            hint = "remove its password, for example with `qpdf --decrypt --password=... in.pdf out.pdf`"
            raise LoadError(source, "password-protected", hint) from error
        except PARSE_ERRORS as error:
            raise LoadError(source, "damaged, or not a PDF", "open it in a PDF viewer and save it again") from error
        return build_pdf_document(pages, source)

    def _read_pages(self, reader: PdfReader, source: str) -> PdfContent:
        count = len(reader.pages)
        if count > self.options.max_pages:
            raise LoadLimitExceeded(
                source, f"has {count} pages, {self.options.max_pages} are read at most", "raise max_pages"
            )
        texts = [self._read_page(page) for page in reader.pages]
        known = reader.metadata
        return PdfContent(
            page_texts=[text or "" for text in texts],
            outline=list(_read_outline(reader)),
            title=str((known and known.title) or ""),
            author=str((known and known.author) or ""),
            unreadable_pages=texts.count(None),
        )

    def _read_page(self, page: PageObject) -> str | None:
        try:
            return clean_page_text(page.extract_text(), join_hyphens=self.options.join_hyphens)
        except PARSE_ERRORS:
            return None


def _read_outline(reader: PdfReader) -> Iterator[OutlineEntry]:
    """The outline, whole or not at all: it is worth less than the text."""
    try:
        entries = list(_iter_outline(reader, reader.outline, 1))
    except (RecursionError, *PARSE_ERRORS):
        return
    yield from entries[:MAX_OUTLINE_ENTRIES]


def _iter_outline(reader: PdfReader, outline: Outline, level: int) -> Iterator[OutlineEntry]:
    for each in outline:
        if isinstance(each, Destination):
            page = reader.get_destination_page_number(each)
            if page is not None:
                yield OutlineEntry(str(each.title or ""), level, page)
        elif level < 10:
            yield from _iter_outline(reader, each, level + 1)
