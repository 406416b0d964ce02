"""PDF, with pypdf: pure Python, slower than PDFium."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from ragkit.errors import LoadError, MissingExtra
from ragkit.load.options import LOADER_VERSIONS, PypdfOptions
from ragkit.load.pages.text import (
    DECRYPT_HINT,
    MAX_OUTLINE_ENTRIES,
    SAVE_PDF_AGAIN_HINT,
    OutlineEntry,
    PdfContent,
    build_pdf_document,
    check_page_count,
    clean_page_text,
)
from ragkit.load.shared.layout_blocks import TextLayout
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
"""Errors of pypdf for damaged files."""

logging.getLogger("pypdf").setLevel(logging.ERROR)  # it warns about every minor defect of a file


class PypdfLoader:
    """The text layer of a PDF, page by page, with the outline as headings."""

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
            raise LoadError(source, "password-protected", DECRYPT_HINT) from error
        except PARSE_ERRORS as error:
            raise LoadError(source, "damaged, or not a PDF", SAVE_PDF_AGAIN_HINT) from error
        return build_pdf_document(pages, source)

    def _read_pages(self, reader: PdfReader, source: str) -> PdfContent:
        check_page_count(len(reader.pages), self.options, source)
        metadata = reader.metadata
        return PdfContent(
            pages=[self._read_page(page) for page in reader.pages],
            outline=list(_read_outline(reader)),
            title=str((metadata and metadata.title) or ""),
            author=str((metadata and metadata.author) or ""),
        )

    def _read_page(self, page: PageObject) -> TextLayout | None:
        try:
            return TextLayout(clean_page_text(page.extract_text(), join_hyphens=self.options.join_hyphens))
        except PARSE_ERRORS:
            return None


def _read_outline(reader: PdfReader) -> Iterator[OutlineEntry]:
    """The outline; empty when it is damaged."""
    try:
        entries = list(_iter_outline(reader, reader.outline, 1))
    except (RecursionError, *PARSE_ERRORS):
        return
    yield from entries[:MAX_OUTLINE_ENTRIES]


def _iter_outline(reader: PdfReader, outline: Outline, level: int) -> Iterator[OutlineEntry]:
    for entry in outline:
        if isinstance(entry, Destination):
            page = reader.get_destination_page_number(entry)
            if page is not None:
                yield OutlineEntry(str(entry.title or ""), level, page)
        elif level < 10:
            yield from _iter_outline(reader, entry, level + 1)
