"""PDF, with PDFium."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain

from ragkit.load.options import LOADER_VERSIONS, PdfOptions
from ragkit.load.pages.blocks import page_blocks
from ragkit.load.pages.captions import mark_captions
from ragkit.load.pages.charts import MAX_CHART_CHARS, MAX_CHART_PAGES, find_chart_words, has_paragraph
from ragkit.load.pages.headings import largest_text, mark_headings
from ragkit.load.pages.kept_letters import KeptLetters
from ragkit.load.pages.layout import PageLayout, PdfLine, insert_picture, lay_out
from ragkit.load.pages.ocr.scanned_pages import ScannedPages, lacks_text
from ragkit.load.pages.page import PdfPage
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
from ragkit.load.pages.words import is_unreadable, read_page
from ragkit.load.shared.layout_blocks import LayoutBlock, TextLayout, join_blocks
from ragkit.places import OCR_PAGES
from ragkit.records import JSON, Document

LOG = logging.getLogger("ragkit.load")

MIN_OUTLINE_ENTRIES = 3
"""A shorter outline does not replace headings that are found by size, weight and numbering."""

MAX_LINKS = 100
"""Distinct addresses that the metadata keep."""

_WEB_ADDRESS = re.compile(r"(?:https?://|mailto:)[!-~]{3,500}")


@dataclass(frozen=True, slots=True)
class _Reading:
    """One file while its pages are read."""

    pdf: PdfiumFile
    fonts: bool
    """Whether the names of fonts are read."""
    charts: Mapping[int, PdfPage]
    """The pages, from 0, that are charts."""
    scans: ScannedPages | None
    links: dict[str, None]
    letters: KeptLetters


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
        fonts = self.options.layout and len(outline) < MIN_OUTLINE_ENTRIES
        charts = _find_charts(pdf, fonts=fonts) if self.options.layout else {}
        scans = ScannedPages(self.options.ocr) if self.options.ocr else None
        links: dict[str, None] = {}
        letters = KeptLetters()
        reading = _Reading(pdf, fonts, charts, scans, links, letters)
        pages = [self._read_page(reading, number) for number in range(len(pdf))]
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
        if fonts:
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

    def _read_page(self, reading: _Reading, number: int) -> PageLayout | None:
        """A page; None when it cannot be read."""
        page, letters, scans = reading.pdf.page(number), reading.letters, reading.scans
        if page is None:
            letters.add_page("", None)
            return None
        with page:
            chart = reading.charts.get(number)
            content = chart or read_page(page, tables=self.options.tables, fonts=reading.fonts)
            pictures: list[list[PdfLine]] = []
            if scans is not None and chart is None and lacks_text(content):
                content = scans.read(page, number + 1, content)
            elif scans is not None and chart is None:
                pictures = list(scans.read_pictures(page, number + 1, content))
            notes = list(page.notes()) if self.options.annotations else []
            if self.options.annotations and len(reading.links) < MAX_LINKS:
                found = (link for link in page.links() if _WEB_ADDRESS.fullmatch(link))
                reading.links.update(dict.fromkeys(found))
            is_noise = content.is_garbled and chart is None and is_unreadable([piece.text for piece in content.pieces])
            if is_noise:
                content = replace(content, pieces=[], boxes=content.boxes[:0], rules=(), is_beside=False, turned=())
            if is_noise or chart is not None:
                letters.leave_out(page.text, content)
        layout = lay_out(content, tables=self.options.tables)
        more = [PdfLine(note, 0, content.height / 2, content.width, content.height / 2) for note in notes]
        letters.add_page(page.text, content, [*more, *chain.from_iterable(pictures)])
        for picture in pictures:
            insert_picture(layout.lines, picture)
        layout.lines += more
        return layout


def _find_charts(pdf: PdfiumFile, *, fonts: bool) -> dict[int, PdfPage]:
    """The pages, without the numbers of their axes, of a file that consists of charts; {} for any other."""
    charts: dict[int, PdfPage] = {}
    for number in range(len(pdf) if len(pdf) <= MAX_CHART_PAGES else 0):
        page = pdf.page(number)
        if page is None or len(page.text) > MAX_CHART_CHARS:
            return {}
        with page:
            content = read_page(page, tables=False, fonts=fonts)
        if has_paragraph(content):
            return {}
        chart = find_chart_words(content)
        if chart is not None:
            charts[number] = chart
    return charts if 2 * len(charts) >= len(pdf) else {}


def read_tables(data: bytes, source: str) -> Iterator[tuple[int, PdfTable]]:
    """(page from 1, table) of each table of a file, in reading order, without its text. Raises as `PdfLoader.load`."""
    with PdfiumFile(data, source) as pdf:
        for number in range(len(pdf)):
            page = pdf.page(number)
            if page is not None:
                with page:
                    content = read_page(page, tables=True, fonts=False)
                yield from ((number + 1, line.table) for line in lay_out(content, tables=True).lines if line.table)
