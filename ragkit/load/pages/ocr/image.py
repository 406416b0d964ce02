"""Images of pages: PNG, JPEG, TIFF with several pages, WebP, and what else Pillow reads. Needs the extra `ocr`."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import suppress

from ragkit.errors import LoadError, LoadLimitExceeded, MissingExtra, UnsupportedFormat
from ragkit.load.options import LOADER_VERSIONS, ImageOptions
from ragkit.load.pages.blocks import page_blocks
from ragkit.load.pages.layout import lay_out
from ragkit.load.pages.ocr.engine import OcrEngine, mean_confidence, summarize_confidence
from ragkit.load.pages.ocr.page import build_page
from ragkit.load.pages.ocr.words import PageImage
from ragkit.load.pages.text import PdfContent, build_pdf_document, clean_page_text
from ragkit.load.process.parser_state import reads_scans
from ragkit.load.shared.layout_blocks import TextLayout, join_blocks
from ragkit.places import OCR_PAGES
from ragkit.records import JSON, Document

try:
    from PIL import Image, ImageOps, ImageSequence, UnidentifiedImageError
except ImportError as error:
    raise MissingExtra("the loader 'image'", extra="ocr") from error

with suppress(ImportError):
    import pillow_heif

    pillow_heif.register_heif_opener()

MIN_SIDE = 200
"""Pixels: an image with a shorter side is an icon or a rule."""
MAX_PIXELS = 100_000_000
"""Pixels of a page: A0 at 200 dpi has 62 million."""
MIN_TEXT_WORDS = 3
"""An image with fewer words is a picture."""


class ImageLoader:
    """The text of the pages of an image file."""

    version = LOADER_VERSIONS["image"]

    def __init__(self, options: ImageOptions | None = None) -> None:
        self.options = options or ImageOptions()
        self._engine = OcrEngine.shared(self.options.ocr)

    def load(self, data: bytes, source: str) -> Document:
        """The document in `data`.

        Raises:
            UnsupportedFormat: too small for text, or without any.
            LoadError: damaged.
            LoadLimitExceeded: more pages than `max_pages`, or a page of more than 100 million pixels.
        """
        confidence: dict[int, float] = {}
        try:
            pages = [self._read_page(image, number, confidence) for number, image in self._images(data, source)]
        except (OSError, ValueError, SyntaxError) as error:
            raise LoadError(source, "damaged image", "open it in an image viewer and save it again") from error
        if not reads_scans():
            numbers: dict[str, JSON] = {"pages_without_text": list(range(1, len(pages) + 1))}
            return build_pdf_document(PdfContent(pages, (), "", "", numbers), source, kind="image")
        if sum(len(page.text.split()) for page in pages) < MIN_TEXT_WORDS:
            raise UnsupportedFormat(source, "image without text")
        extra: dict[str, JSON] = {OCR_PAGES: list(confidence), "ocr_confidence": summarize_confidence(confidence)}
        return build_pdf_document(PdfContent(pages, (), "", "", extra), source, kind="image")

    def _images(self, data: bytes, source: str) -> Iterator[tuple[int, PageImage]]:
        Image.MAX_IMAGE_PIXELS = None  # checked here, with a message of its own
        try:
            image = Image.open(io.BytesIO(data))
        except UnidentifiedImageError as error:
            raise UnsupportedFormat(
                source, "damaged, or an image of an unknown format", "save it as PNG or PDF"
            ) from error
        with image:
            for number, frame in enumerate(ImageSequence.Iterator(image), start=1):
                if number > self.options.max_pages:
                    reason = f"has more than {self.options.max_pages} pages"
                    raise LoadLimitExceeded(source, reason, "raise max_pages")
                width, height = frame.size
                if width * height > MAX_PIXELS:
                    reason = f"has a page of {width} x {height} pixels, the limit is {MAX_PIXELS // 1_000_000} million"
                    raise LoadLimitExceeded(source, reason, "make it smaller")
                if min(width, height) < MIN_SIDE:
                    raise UnsupportedFormat(source, f"image of {width} x {height} pixels, too small for text")
                yield number, self._grey(frame)

    def _grey(self, frame: Image.Image) -> PageImage:
        upright = ImageOps.exif_transpose(frame)
        grey = (upright if "A" not in upright.getbands() else _on_white(upright)).convert("L")
        resolution = frame.info.get("dpi", (0, 0))[0]
        # without a plausible resolution, that of a page of 8.3 inches (A4), upright or on its side
        guess = max(70, round(min(grey.width, grey.height) / 8.3), round(grey.width / 11.7))
        dpi = round(resolution) if 70 <= resolution <= 1200 else guess
        return PageImage(*grey.size, grey.tobytes(), dpi)

    def _read_page(self, image: PageImage, number: int, confidence: dict[int, float]) -> TextLayout:
        words, image = self._engine.read(image) if reads_scans() else ([], image)
        confidence[number] = round(mean_confidence(words), 2)
        layout = lay_out(build_page(words, image), tables=True)
        [blocks] = page_blocks([layout])
        for block in blocks:
            if block.kind == "line":
                block.text = clean_page_text(block.text, join_hyphens=True)
        return join_blocks(blocks)


def _on_white(image: Image.Image) -> Image.Image:
    """A transparent image on white, as a viewer shows it."""
    coloured = image.convert("RGBA")
    page = Image.new("RGBA", coloured.size, "white")
    page.alpha_composite(coloured)
    return page
