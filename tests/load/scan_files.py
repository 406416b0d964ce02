"""Scans: pages that are drawn and put into files as images."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pypdfium2 as pdfium
from PIL import Image
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen import canvas


def draw(data: bytes, dpi: int = 200) -> list[Image.Image]:
    """The pages of a PDF as images in shades of grey."""
    pdf = pdfium.PdfDocument(data)
    try:
        return [page.render(scale=dpi / 72).to_pil().convert("L") for page in pdf]
    finally:
        pdf.close()


def scan(data: bytes, *, dpi: int = 200, only: Sequence[int] | None = None) -> bytes:
    """A PDF whose pages, or only those from 0 in `only`, are images."""
    out = io.BytesIO()
    paper = canvas.Canvas(out)
    for image in draw(data, dpi):
        width, height = image.width * 72 / dpi, image.height * 72 / dpi
        paper.setPageSize((width, height))
        paper.drawImage(ImageReader(image), 0, 0, width, height)
        paper.showPage()
    paper.save()
    if only is None:
        return out.getvalue()
    scanned, original, mixed = pdfium.PdfDocument(out.getvalue()), pdfium.PdfDocument(data), pdfium.PdfDocument.new()
    for number in range(len(original)):
        mixed.import_pages(scanned if number in only else original, [number])
    saved = io.BytesIO()
    mixed.save(saved)
    return saved.getvalue()


def save(images: Sequence[Image.Image], kind: str) -> bytes:
    """An image file of one or more pages."""
    out = io.BytesIO()
    first, *others = images
    many = {"save_all": True, "append_images": others} if others else {}
    first.save(out, kind, dpi=(200, 200), **many)
    return out.getvalue()


def two_columns(left: Sequence[str], right: Sequence[str]) -> bytes:
    """A PDF page of two columns; its lines alternate in the file."""
    out = io.BytesIO()
    paper = canvas.Canvas(out)
    paper.setFont("Times-Roman", 11)
    for number, pair in enumerate(zip(left, right, strict=True)):
        for at, line in zip((60, 320), pair, strict=True):
            paper.drawString(at, 740 - 14 * number, line)
    paper.showPage()
    paper.save()
    return out.getvalue()


def contents(entries: Sequence[tuple[str, int]], dot: str) -> bytes:
    """A PDF page of titles and page numbers, with a leader of `dot` between them."""
    out = io.BytesIO()
    paper = canvas.Canvas(out)
    paper.setFont("Times-Roman", 11)
    step = paper.stringWidth(dot)
    for number, (title, page) in enumerate(entries):
        y = 740 - 16 * number
        paper.drawString(60, y, title)
        count = int((480 - paper.stringWidth(title)) // step)
        paper.drawRightString(550, y, dot * count)
        paper.drawRightString(580, y, str(page))
    paper.showPage()
    paper.save()
    return out.getvalue()


def ruled_table() -> bytes:
    """A PDF page with a table in a grid of lines, whose last column has cells of two lines."""
    out = io.BytesIO()
    paper = canvas.Canvas(out)
    paper.setFont("Times-Roman", 12)
    paper.setLineWidth(0.5)
    rows = [
        ("Package", "Size", ["Description"]),
        ("alpha", "some", ["Tools that encrypt the", "blocks of a disk"]),
        ("beta", "many", ["Tools that encrypt the", "files of a folder"]),
        ("gamma", "both", ["Reads both"]),
    ]
    edges = (80, 200, 290, 500)
    top = 740
    for name, size, lines in rows:
        height = 8 + 15 * len(lines)
        paper.drawString(edges[0] + 8, top - height / 2 - 4, name)
        paper.drawString(edges[1] + 8, top - height / 2 - 4, size)
        for number, line in enumerate(lines):
            paper.drawString(edges[2] + 8, top - 15 - 15 * number, line)
        paper.grid(edges, (top, top - height))
        top -= height
    paper.showPage()
    paper.save()
    return out.getvalue()
