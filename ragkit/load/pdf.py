"""PDF through PDFium."""

from __future__ import annotations

from collections.abc import Iterator

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

from ragkit.errors import LoadError, LoadLimit
from ragkit.load.options import VERSIONS, PdfOptions
from ragkit.load.pdftext import MAX_OUTLINE, Entry, Pages, page_cleaned, pdf_document
from ragkit.records import Document


class PdfLoader:
    """The text layer of a PDF, page by page; the outline becomes headings."""

    version = VERSIONS["pdf"]

    def __init__(self, options: PdfOptions | None = None) -> None:
        self.options = options or PdfOptions()

    def load(self, data: bytes, source: str) -> Document:
        """The document in `data`. A page that cannot be read is empty, and counted in the metadata.

        Raises:
            LoadError: it is no PDF, is damaged or password-protected, or has no text.
            LoadLimit: it has more pages than `max_pages`.
        """
        pdf = _opened(data, source)
        try:
            return pdf_document(self._pages(pdf, source), source)
        finally:
            pdf.close()

    def _pages(self, pdf: pdfium.PdfDocument, source: str) -> Pages:
        count = len(pdf)
        if count > self.options.max_pages:
            raise LoadLimit(source, f"has {count} pages, {self.options.max_pages} are read at most", "raise max_pages")
        texts = [self._page(pdf, number) for number in range(count)]
        return Pages(
            texts=[text or "" for text in texts],
            outline=list(_outline(pdf)),
            title=pdf.get_metadata_value("Title"),
            author=pdf.get_metadata_value("Author"),
            broken=texts.count(None),
        )

    def _page(self, pdf: pdfium.PdfDocument, number: int) -> str | None:
        try:
            page = pdf[number]
        except pdfium.PdfiumError:
            return None
        try:
            return page_cleaned(page.get_textpage().get_text_bounded(), join_hyphens=self.options.join_hyphens)
        except pdfium.PdfiumError:
            return None
        finally:
            page.close()  # and with it its text page


def _opened(data: bytes, source: str) -> pdfium.PdfDocument:
    try:
        return pdfium.PdfDocument(data)
    except pdfium.PdfiumError as error:
        if error.err_code == pdfium_c.FPDF_ERR_PASSWORD:
            hint = "remove its password, for example with `qpdf --decrypt --password=... in.pdf out.pdf`"
            raise LoadError(source, "password-protected", hint) from error
        if error.err_code == pdfium_c.FPDF_ERR_SECURITY:
            raise LoadError(source, "encrypted in a way that is not known", "save it without encryption") from error
        raise LoadError(source, "damaged, or not a PDF", "open it in a PDF viewer and save it again") from error


def _outline(pdf: pdfium.PdfDocument) -> Iterator[Entry]:
    for number, mark in enumerate(pdf.get_toc(max_depth=10)):
        if number >= MAX_OUTLINE:
            return
        target = mark.get_dest()
        page = target.get_index() if target else None
        if page is not None:
            yield Entry(mark.get_title(), mark.level + 1, page)
