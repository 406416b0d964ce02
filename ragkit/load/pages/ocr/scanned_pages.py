"""Read the pages of a PDF that have no usable text, and pictures of text: draw them with PDFium, and read the image."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np

from ragkit.errors import MissingExtra
from ragkit.load.ocr_options import OcrOptions
from ragkit.load.pages.layout import PdfLine, lay_out
from ragkit.load.pages.page import PdfPage
from ragkit.load.pages.pdfium import PdfiumPage
from ragkit.load.process.parser_state import reads_scans

MIN_LETTERS = 20
"""A page with fewer letters and digits may be a scan with a stamp or a page number."""
MIN_INK = 0.002
"""Share of dark pixels below which a page is blank."""
PICTURE_WIDTH, PICTURE_HEIGHT = 72, 18
"""Points: a smaller picture is a logo or a sign."""
MAX_PICTURES = 20
"""Pictures of a page that are looked at."""
MIN_GROUND, PICTURE_INK = 0.6, (0.01, 0.35)
"""Shares of the pixels of a picture of text that have the shade of paper, and of print: not those of a photograph."""
MIN_PICTURE_WORDS = 4
"""A picture with fewer words is a drawing with labels."""
MIN_PICTURE_CONFIDENCE = 0.75
"""Mean confidence in its words, in [0, 1]: drawings and photographs read as noise."""

Pixels: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]"


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
        self.pictures_left_out: list[int] = []
        """Pages from 1 with pictures that look like text and were not read."""

    def read(self, page: PdfiumPage, number: int, content: PdfPage) -> PdfPage:
        """A page without usable text as it looks; `content` if it is blank or cannot be read."""
        pixels = page.draw(self._options.dpi)
        if pixels is None or float((pixels < 128).mean()) < MIN_INK:
            return content
        read = self._recognize(pixels, number, self.left_out)
        if read is None:
            return content
        scan, self.confidence[number] = read
        return scan

    def read_pictures(self, page: PdfiumPage, number: int, content: PdfPage) -> Iterator[list[PdfLine]]:
        """The lines of each picture of text on a page with text, in points from its top left corner."""
        boxes = list(_pictures_without_text(page, content))
        pixels = page.draw(self._options.dpi) if boxes else None
        if pixels is None:
            return
        scale = self._options.dpi / 72
        for x0, top, x1, bottom in boxes:
            y, x = round(top * scale), round(x0 * scale)
            crop = np.ascontiguousarray(pixels[y : round(bottom * scale), x : round(x1 * scale)])
            read = self._recognize(crop, number, self.pictures_left_out) if _looks_like_text(crop) else None
            words = sum(len(piece.text.split()) for piece in read[0].pieces) if read else 0
            if read is None or read[1] < MIN_PICTURE_CONFIDENCE or words < MIN_PICTURE_WORDS:
                continue
            self.confidence[number] = min(self.confidence.get(number, 1.0), read[1])
            lines = lay_out(read[0], tables=True).lines
            for line in lines:
                line.x0, line.x1 = line.x0 + x0, line.x1 + x0
                line.top, line.bottom = line.top + top, line.bottom + top
                line.height = 0  # the size of its letters says nothing of headings
            yield lines

    def _recognize(self, pixels: Pixels, number: int, left_out: list[int]) -> tuple[PdfPage, float] | None:
        """The words of an image, and the confidence in them; None without words. Adds to `left_out` if it may not."""
        try:
            if not reads_scans():
                raise MissingExtra("reading scanned pages", extra="ocr")
            from ragkit.load.pages.ocr.engine import OcrEngine, mean_confidence  # noqa: PLC0415 - an extra
            from ragkit.load.pages.ocr.page import build_page  # noqa: PLC0415
            from ragkit.load.pages.ocr.words import PageImage  # noqa: PLC0415
        except MissingExtra:
            if number not in left_out:
                left_out.append(number)
            return None
        height, width = pixels.shape
        image = PageImage(width, height, pixels.tobytes(), self._options.dpi)
        words, image = OcrEngine.shared(self._options).read(image)
        return (build_page(words, image), round(mean_confidence(words), 2)) if words else None


def _pictures_without_text(page: PdfiumPage, content: PdfPage) -> Iterator[tuple[float, float, float, float]]:
    """Left, top, right, bottom of the larger pictures on the shown page that no text stands on, from its top left
    corner; none on pages that are turned."""
    left, _, right, top = page.bounds
    if page.rotation or abs(content.width - (right - left)) > 1:
        return
    pictures = page.pictures()[:MAX_PICTURES]
    shown = np.array([content.width, content.height] * 2, np.float32)
    boxes = np.stack(
        (pictures[:, 0] - left, top - pictures[:, 1], pictures[:, 2] - left, top - pictures[:, 3]), axis=1
    ).clip(0, shown)
    x, y = (content.boxes[:, 0] + content.boxes[:, 2]) / 2, (content.boxes[:, 1] + content.boxes[:, 3]) / 2
    for x0, upper, x1, lower in boxes.tolist():
        is_large = x1 - x0 >= PICTURE_WIDTH and lower - upper >= PICTURE_HEIGHT
        if is_large and not ((x > x0) & (x < x1) & (y > upper) & (y < lower)).any():
            yield x0, upper, x1, lower


def _looks_like_text(pixels: Pixels) -> bool:
    """Whether most of a picture is paper, and a little of it print; or the other way round, as on a black screen."""
    if not pixels.size:
        return False
    light, dark = float((pixels >= 230).mean()), float((pixels < 140).mean())
    bright, black = float((pixels > 140).mean()), float((pixels < 60).mean())
    low, high = PICTURE_INK
    return (light > MIN_GROUND and low < dark < high) or (black > MIN_GROUND and low < bright < high)
