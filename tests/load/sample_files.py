"""Sample files, created with common libraries."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence

import docx
import openpyxl
import pptx
from pypdf import PdfReader, PdfWriter
from reportlab.pdfgen import canvas


def pdf(pages: Sequence[Sequence[str]], *, title: str = "", outline: Sequence[tuple[str, int, int]] = ()) -> bytes:
    """A PDF with one string per line; `outline` holds (title, level from 0, page from 0)."""
    out = io.BytesIO()
    page = canvas.Canvas(out)
    if title:
        page.setTitle(title)
    for number, lines in enumerate(pages):
        for line_number, line in enumerate(lines):
            page.drawString(72, 720 - 20 * line_number, line)
        page.bookmarkPage(str(number))
        for entry_title, level, page_number in outline:
            if page_number == number:
                page.addOutlineEntry(entry_title, str(number), level)
        page.showPage()
    page.save()
    return out.getvalue()


def locked_pdf(user: str, owner: str, algorithm: str = "AES-256-R5") -> bytes:
    """A PDF with a user and an owner password; an empty `user` opens without a password."""
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(pdf([["secret words"]]))))
    writer.encrypt(user, owner, algorithm=algorithm)
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def zipped(parts: Mapping[str, str | bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A zip file."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return out.getvalue()


def entries(data: bytes) -> dict[str, bytes]:
    """The entries of a zip file."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def replaced(data: bytes, parts: Mapping[str, str | bytes]) -> bytes:
    """A zip file with some entries replaced or added."""
    return zipped({**entries(data), **parts})


def word() -> bytes:
    """A Word file with a title, two levels of headings, a list and a table."""
    document = docx.Document()
    document.core_properties.title = "The Handbook"
    document.core_properties.author = "Ada"
    document.add_heading("Start here", 1)
    document.add_paragraph("First words.")
    document.add_heading("Deeper", 2)
    document.add_paragraph("one", style="List Bullet")
    document.add_paragraph("two", style="List Bullet")
    table = document.add_table(2, 2)
    for row, cells in enumerate((("name", "age"), ("Ann", "7"))):
        for column, entry_title in enumerate(cells):
            table.cell(row, column).text = entry_title
    document.add_paragraph("Last words.")
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def workbook(sheets: Mapping[str, Sequence[Sequence[object]]], *, hidden: Sequence[str] = ()) -> bytes:
    """An Excel file."""
    book = openpyxl.Workbook()
    book.remove(book.worksheets[0])
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(list(row))
        if name in hidden:
            sheet.sheet_state = "hidden"
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def slides(pages: Sequence[tuple[str, str, str]]) -> bytes:
    """A PowerPoint file; each page is (title, text, notes)."""
    show = pptx.Presentation()
    for title, text, notes in pages:
        slide = show.slides.add_slide(show.slide_layouts[1])
        slide.shapes.title.text = title
        slide.placeholders[1].text = text
        if notes:
            slide.notes_slide.notes_text_frame.text = notes
    out = io.BytesIO()
    show.save(out)
    return out.getvalue()


def book(chapters: Mapping[str, str], *, more: Mapping[str, str] | None = None) -> bytes:
    """An EPUB; `chapters` are the bodies of its pages by name, in spine order."""
    items = "".join(f'<item id="{n}" href="{n}" media-type="application/xhtml+xml"/>' for n in chapters)
    spine = "".join(f'<itemref idref="{n}"/>' for n in chapters)
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/">'
        "<metadata><dc:title>A Book</dc:title><dc:creator>Ada</dc:creator><dc:language>en</dc:language></metadata>"
        f"<manifest>{items}</manifest><spine>{spine}</spine></package>"
    )
    container = '<container><rootfiles><rootfile full-path="OEBPS/book.opf"/></rootfiles></container>'
    pages = {f"OEBPS/{name}": f"<html><body>{body}</body></html>" for name, body in chapters.items()}
    parts = {"mimetype": "application/epub+zip", "META-INF/container.xml": container, "OEBPS/book.opf": package}
    return zipped({**parts, **pages, **(more or {})})
