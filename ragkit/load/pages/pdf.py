"""PDF, with PDFium."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterator
from itertools import chain

from ragkit.load.options import LOADER_VERSIONS, PdfOptions
from ragkit.load.pages.blocks import page_blocks
from ragkit.load.pages.captions import mark_captions
from ragkit.load.pages.headings import largest_text, mark_headings
from ragkit.load.pages.kept_letters import KeptLetters
from ragkit.load.pages.layout import PageLayout, PdfLine, insert_picture, lay_out
from ragkit.load.pages.ocr.scanned_pages import ScannedPages, lacks_text
from ragkit.load.pages.pdfium import PdfiumFile
from ragkit.load.pages.running_heads import take_running_heads
from ragkit.load.pages.tables.table import PdfTable
from ragkit.load.pages.text import (
    PdfContent,
    build_pdf_document,
    check_page_count,
    clean_page_text,
    clean_title,
    find_compounds,
)
from ragkit.load.pages.words import read_page
from ragkit.load.shared.layout_blocks import LayoutBlock, TextLayout, join_blocks
from ragkit.places import OCR_PAGES
from ragkit.records import JSON, Document

LOG = logging.getLogger("ragkit.load")

MIN_OUTLINE_ENTRIES = 3
"""A shorter outline does not replace headings that are found by size, weight and numbering."""

MAX_LINKS = 100
"""Distinct addresses that the metadata keep."""

_WEB_ADDRESS = re.compile(r"(?:https?://|mailto:)[!-~]{3,500}")


class PdfLoader:
    """The text of a PDF, page by page: headings, paragraphs, tables with their column names."""

    version = LOADER_VERSIONS["pdf"]

    def __init__(self, options: PdfOptions | None = None) -> None:
        self.options = options or PdfOptions()

    def load(self, data: bytes, source: str) -> Document:
        """The document in `data`. Unreadable pages are empty, and counted in the metadata.

        Raises:
            LoadError: not a PDF, damaged, password-protected, or without text.
            LoadLimitExceeded: more pages than `max_pages`.
        """
        with PdfiumFile(data, source) as pdf:
            return build_pdf_document(self._read_pages(pdf, source), source)

    def _read_pages(self, pdf: PdfiumFile, source: str) -> PdfContent:
        check_page_count(len(pdf), self.options, source)
        if self.options.annotations:
            pdf.read_forms()
        outline = list(pdf.outline())
        find_headings = self.options.layout and len(outline) < MIN_OUTLINE_ENTRIES
        scans = ScannedPages(self.options.ocr) if self.options.ocr else None
        links: dict[str, None] = {}
        letters = KeptLetters()
        pages = [self._read_page(pdf, number, scans, links, letters, fonts=find_headings) for number in range(len(pdf))]
        garbled: list[JSON] = [number for number, page in enumerate(pages, start=1) if page and page.is_garbled]
        readable = [page for page in pages if page is not None]
        if garbled:
            listed = ", ".join(map(str, garbled[:20])) + (", ..." if len(garbled) > 20 else "")
            LOG.warning("%s: fonts without readable characters on page %s", source, listed)
        extra: dict[str, JSON] = {"pages_garbled": garbled, "links": list(links)[:MAX_LINKS]}
        if scans is not None and scans.confidence:
            extra[OCR_PAGES] = list(scans.confidence)
            extra["ocr_confidence"] = min(scans.confidence.values())
        if scans is not None and scans.left_out:
            extra["pages_without_text"] = list(scans.left_out)
        if scans is not None and scans.pictures_left_out:
            extra["pages_with_pictures"] = list(scans.pictures_left_out)
        if self.options.layout:
            letters.before_heads(pages)
            extra["running_heads"] = take_running_heads(readable)
            letters.after_heads(pages)
        if find_headings:
            mark_headings(readable)
        if self.options.layout:
            for page in readable:
                mark_captions(page)
        compounds = find_compounds(line.text for page in readable for line in page.lines)
        blocks = list(page_blocks(pages))
        texts = [self._page_text(page, compounds) for page in blocks]
        extra.update(letters.report(blocks))
        return PdfContent(
            pages=[text if page is not None else None for text, page in zip(texts, pages, strict=True)],
            outline=outline,
            title=clean_title(pdf.entry("Title")) or (largest_text(readable[0]) if readable else ""),
            author=pdf.entry("Author"),
            extra=extra,
        )

    def _page_text(self, blocks: list[LayoutBlock], compounds: Collection[str]) -> TextLayout:
        for block in blocks:
            if block.kind in ("line", "p"):
                block.text = clean_page_text(block.text, join_hyphens=self.options.join_hyphens, compounds=compounds)
        return join_blocks(blocks)

    def _read_page(
        self,
        pdf: PdfiumFile,
        number: int,
        scans: ScannedPages | None,
        links: dict[str, None],
        letters: KeptLetters,
        *,
        fonts: bool,
    ) -> PageLayout | None:
        """A page, and its links and letters added to `links` and `letters`; None when it cannot be read."""
        page = pdf.page(number)
        if page is None:
            letters.add_page("", None)
            return None
        with page:
            content = read_page(page, tables=self.options.tables, fonts=fonts)
            pictures: list[list[PdfLine]] = []
            if scans is not None and lacks_text(content):
                content = scans.read(page, number + 1, content)
            elif scans is not None:
                pictures = list(scans.read_pictures(page, number + 1, content))
            notes = list(page.notes()) if self.options.annotations else []
            if self.options.annotations and len(links) < MAX_LINKS:
                links.update(dict.fromkeys(link for link in page.links() if _WEB_ADDRESS.fullmatch(link)))
        layout = lay_out(content, tables=self.options.tables)
        more = [PdfLine(note, 0, content.height / 2, content.width, content.height / 2) for note in notes]
        letters.add_page(page.text, content, [*more, *chain.from_iterable(pictures)])
        for picture in pictures:
            insert_picture(layout.lines, picture)
        layout.lines += more
        return layout


def read_tables(data: bytes, source: str) -> Iterator[tuple[int, PdfTable]]:
    """(page from 1, table) of each table of a file, in reading order, without its text. Raises as `PdfLoader.load`."""
    with PdfiumFile(data, source) as pdf:
        for number in range(len(pdf)):
            page = pdf.page(number)
            if page is not None:
                with page:
                    content = read_page(page, tables=True, fonts=False)
                yield from ((number + 1, line.table) for line in lay_out(content, tables=True).lines if line.table)
