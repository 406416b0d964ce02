"""Read the pages of a PDF that have no usable text: draw them with PDFium, and read the image."""

from __future__ import annotations

from ragkit.errors import MissingExtra
from ragkit.load.ocr_options import OcrOptions
from ragkit.load.pages.page import PdfPage
from ragkit.load.pages.pdfium import PdfiumPage
from ragkit.load.process.parser_state import reads_scans

MIN_LETTERS = 20
"""A page with fewer letters and digits may be a scan with a stamp or a page number."""
MIN_INK = 0.002
"""Share of dark pixels below which a page is blank."""


def lacks_text(page: PdfPage) -> bool:
    """Whether the text of a page cannot be used: too little of it, or characters without a meaning."""
    if page.is_garbled:
        return True
    found = 0
    for piece in page.pieces:
        found += sum(map(str.isalnum, piece.text))
        if found >= MIN_LETTERS:
            return False
    return True


class ScannedPages:
    """Reads scanned pages of one document, or notes them when the extra `ocr` is not installed.

    Raises:
        InvalidOption: no data for a language.
    """

    def __init__(self, options: OcrOptions) -> None:
        self._options = options
        self.left_out: list[int] = []
        """Pages from 1 that were not read."""
        self.confidence: dict[int, float] = {}
        """Page from 1 -> confidence of its reading, in [0, 1]."""

    def read(self, page: PdfiumPage, number: int, content: PdfPage) -> PdfPage:
        """A page without usable text as it looks; `content` if it is blank or cannot be read."""
        pixels = page.draw(self._options.dpi)
        if pixels is None or float((pixels < 128).mean()) < MIN_INK:
            return content
        if not reads_scans():
            self.left_out.append(number)
            return content
        try:
            from ragkit.load.pages.ocr.engine import OcrEngine, mean_confidence  # noqa: PLC0415 - an extra
            from ragkit.load.pages.ocr.page import build_page  # noqa: PLC0415
            from ragkit.load.pages.ocr.words import PageImage  # noqa: PLC0415
        except MissingExtra:
            self.left_out.append(number)
            return content
        height, width = pixels.shape
        scan = PageImage(width, height, pixels.tobytes(), self._options.dpi)
        words, scan = OcrEngine.shared(self._options).read(scan)
        if not words:
            return content
        self.confidence[number] = round(mean_confidence(words), 2)
        return build_page(words, scan)
