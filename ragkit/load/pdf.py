"""PDF, with PDFium."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

from ragkit.errors import LoadError
from ragkit.load.options import LOADER_VERSIONS, PdfOptions
from ragkit.load.pdf_text import (
    DECRYPT_HINT,
    MAX_OUTLINE_ENTRIES,
    SAVE_PDF_AGAIN_HINT,
    OutlineEntry,
    PdfContent,
    build_pdf_document,
    check_page_count,
    clean_page_text,
)
from ragkit.records import Document


class PdfLoader:
    """The text layer of a PDF, page by page, with the outline as headings."""

    version = LOADER_VERSIONS["pdf"]

    def __init__(self, options: PdfOptions | None = None) -> None:
        self.options = options or PdfOptions()

    def load(self, data: bytes, source: str) -> Document:
        """The document in `data`. Unreadable pages are empty, and counted in the metadata.

        Raises:
            LoadError: not a PDF, damaged, password-protected, or without text.
            LoadLimitExceeded: more pages than `max_pages`.
        """
        pdf = _open_pdf(data, source)
        try:
            return build_pdf_document(self._read_pages(pdf, source), source)
        finally:
            pdf.close()

    def _read_pages(self, pdf: pdfium.PdfDocument, source: str) -> PdfContent:
        check_page_count(len(pdf), self.options, source)
        return PdfContent(
            page_texts=[self._read_page(pdf, number) for number in range(len(pdf))],
            outline=list(_read_outline(pdf)),
            title=pdf.get_metadata_value("Title"),
            author=pdf.get_metadata_value("Author"),
        )

    def _read_page(self, pdf: pdfium.PdfDocument, number: int) -> str | None:
        try:
            page = pdf[number]
        except pdfium.PdfiumError:
            return None
        try:
            return clean_page_text(page.get_textpage().get_text_bounded(), join_hyphens=self.options.join_hyphens)
        except pdfium.PdfiumError:
            return None
        finally:
            page.close()  # closes its text page too


def _open_pdf(data: bytes, source: str) -> pdfium.PdfDocument:
    with suppress(pdfium.PdfiumError):
        return pdfium.PdfDocument(data)
    # some files fail without a reason: then PDFium reports that of an earlier file, here of one that is no PDF
    with suppress(pdfium.PdfiumError):
        pdfium.PdfDocument(b"not a PDF").close()
    try:
        return pdfium.PdfDocument(data)
    except pdfium.PdfiumError as error:
        if error.err_code == pdfium_c.FPDF_ERR_PASSWORD:
            raise LoadError(source, "password-protected", DECRYPT_HINT) from error
        if error.err_code == pdfium_c.FPDF_ERR_SECURITY:
            raise LoadError(source, "unsupported encryption", "save it without encryption") from error
        raise LoadError(source, "damaged, or not a PDF", SAVE_PDF_AGAIN_HINT) from error


def _read_outline(pdf: pdfium.PdfDocument) -> Iterator[OutlineEntry]:
    for number, mark in enumerate(pdf.get_toc(max_depth=10)):
        if number >= MAX_OUTLINE_ENTRIES:
            return
        target = mark.get_dest()
        page = target.get_index() if target else None
        if page is not None:
            yield OutlineEntry(mark.get_title(), mark.level + 1, page)
