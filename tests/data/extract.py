"""Extract the plain text of sample files without ragkit.

The questions are compared with the files themselves, not with the output of the loaders.
"""

from __future__ import annotations

import datetime as dt
from email import policy
from email.parser import BytesParser
from pathlib import Path

import docx
import openpyxl
import pypdfium2
from lxml import html
from pptx import Presentation


def text_of(path: Path) -> str:
    """The words of a file in reading order; text formats are returned unchanged."""
    extract = {".pdf": _pdf, ".docx": _docx, ".xlsx": _xlsx, ".pptx": _pptx, ".eml": _eml, ".html": _html}.get(
        path.suffix
    )
    return extract(path) if extract else path.read_text(encoding="utf-8")


def pages_of(path: Path) -> list[str]:
    """The text of each page of a PDF, with line feeds only."""
    with pypdfium2.PdfDocument(path) as document:
        return [page.get_textpage().get_text_range().replace("\r\n", "\n") for page in document]


def _pdf(path: Path) -> str:
    return "\n".join(pages_of(path))


def _docx(path: Path) -> str:
    document = docx.Document(str(path))
    rows = [cell.text for table in document.tables for row in table.rows for cell in row.cells]
    return "\n".join([paragraph.text for paragraph in document.paragraphs] + rows)


def _xlsx(path: Path) -> str:
    book = openpyxl.load_workbook(path)
    return "\n".join(
        "\t".join(_cell(value) for value in row) for sheet in book for row in sheet.iter_rows(values_only=True)
    )


def _cell(value: object) -> str:
    if isinstance(value, dt.datetime):
        return value.date().isoformat()
    return "" if value is None else str(value)


def _pptx(path: Path) -> str:
    lines: list[str] = []
    for slide in Presentation(str(path)).slides:
        lines += [shape.text_frame.text for shape in slide.shapes if shape.has_text_frame]
        if slide.has_notes_slide:
            lines.append(slide.notes_slide.notes_text_frame.text)
    return "\n".join(lines)


def _eml(path: Path) -> str:
    message = BytesParser(policy=policy.default).parsebytes(path.read_bytes())
    body = message.get_body(preferencelist=("plain",))
    return f"{message['subject']}\n{body.get_content() if body else ''}"


def _html(path: Path) -> str:
    tree = html.fromstring(path.read_bytes().decode("utf-8"))
    for element in tree.xpath("//script | //style | //nav"):
        element.drop_tree()
    return str(tree.text_content())
