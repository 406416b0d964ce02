"""Build the PDF, Word, Excel and PowerPoint files of `data/sample` from the texts in `scripts/sample_sources`.

    python scripts/make_sample.py             # writes into data/sample
    python scripts/make_sample.py --out DIR   # writes the same tree below DIR

The output is reproducible: dates come from the sources, and archive entries have a fixed time.
The other files of the sample are plain text and are edited by hand. A source uses a small markup:
`key: value` lines at the top, then `#` headings, `-` and `1.` lists, `| a | b |` tables (first row: column heads),
`=== page` for a new page, and a `notes:` line in slides. Everything else is a paragraph.
"""

from __future__ import annotations

import argparse
import datetime as dt
import io
import json
import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "scripts" / "sample_sources"
ZIP_TIME = (1980, 1, 1, 0, 0, 0)
"""The earliest time that a zip archive can store."""


@dataclass(frozen=True)
class Block:
    """One piece of a source: a heading, paragraph, list item, table, note or page break."""

    kind: str
    """heading, paragraph, bullet, number, table, notes or page."""
    text: str = ""
    level: int = 0
    """The number of # of a heading, or the number of a numbered item."""
    rows: tuple[tuple[str, ...], ...] = ()
    """The rows of a table, column heads first."""


@dataclass(frozen=True)
class Source:
    """One parsed source file."""

    title: str
    date: dt.datetime
    author: str
    number: str = ""
    blocks: list[Block] = field(default_factory=list)


def read_source(path: Path) -> Source:
    """Parse one file of the markup described in the module docstring."""
    head, _, body = path.read_text(encoding="utf-8").partition("\n\n")
    keys = dict(line.split(": ", 1) for line in head.splitlines())
    date = dt.datetime.strptime(keys["date"], "%d %B %Y").replace(tzinfo=dt.UTC)
    return Source(keys["title"], date, keys["author"], keys.get("number", ""), parse(body))


def parse(body: str) -> list[Block]:
    """The blocks of a source, in order; each line that is not a table row is a separate block."""
    blocks: list[Block] = []
    table: list[tuple[str, ...]] = []
    for line in [*body.splitlines(), ""]:
        if line.startswith("|"):
            table.append(tuple(cell.strip() for cell in line.strip("|").split("|")))
            continue
        if table:
            blocks.append(Block("table", rows=tuple(table)))
            table = []
        if line:
            blocks.append(parse_line(line))
    return blocks


def parse_line(line: str) -> Block:
    """Parse one line that is not a table row."""
    if line == "=== page":
        return Block("page")
    if match := re.match(r"(#+) (.*)", line):
        return Block("heading", match[2], len(match[1]))
    if match := re.match(r"(\d+)\. (.*)", line):
        return Block("number", match[2], int(match[1]))
    if line.startswith("- "):
        return Block("bullet", line[2:])
    if line.startswith("notes: "):
        return Block("notes", line.removeprefix("notes: "))
    return Block("paragraph", line)


def make_pdf(source_name: str) -> bytes:
    """A manual as a PDF, with headings in the outline and the document number on every page."""
    from reportlab.lib.pagesizes import A4
    from reportlab.lib.units import mm
    from reportlab.pdfgen.canvas import Canvas
    from reportlab.platypus import SimpleDocTemplate

    source = read_source(SOURCES / source_name)

    def footer(canvas: Canvas, document: SimpleDocTemplate) -> None:
        canvas.saveState()
        canvas.setFont("Helvetica", 8)
        canvas.drawString(
            22 * mm, 12 * mm, f"{source.title}. {source.number}, {source.date:%d %B %Y}".replace(" 0", " ")
        )
        canvas.drawRightString(188 * mm, 12 * mm, f"Page {document.page}")
        canvas.restoreState()

    out = io.BytesIO()
    document = SimpleDocTemplate(
        out,
        pagesize=A4,
        leftMargin=22 * mm,
        rightMargin=22 * mm,
        topMargin=18 * mm,
        bottomMargin=20 * mm,
        title=source.title,
        author=source.author,
        subject=source.number,
        creator="make_sample.py",
        invariant=1,
    )
    document.build(pdf_story(source), onFirstPage=footer, onLaterPages=footer)
    return out.getvalue()


def pdf_story(source: Source) -> list[object]:
    """The flowables of a PDF."""
    from reportlab.lib.styles import getSampleStyleSheet
    from reportlab.platypus import PageBreak, Paragraph

    styles = getSampleStyleSheet()
    styles["BodyText"].fontSize, styles["BodyText"].leading = 10, 13.5
    body = styles["BodyText"]
    story: list[object] = []
    for block in source.blocks:
        if block.kind == "page":
            story.append(PageBreak())
        elif block.kind == "table":
            story.append(pdf_table(block, body))
        elif block.kind == "heading":
            story.append(pdf_heading(block, styles[f"Heading{block.level}"]))
        elif block.kind in {"bullet", "number"}:
            mark = "•" if block.kind == "bullet" else f"{block.level}."
            text = f'<para leftIndent="16" bulletIndent="4">{escape(block.text)}</para>'
            story.append(Paragraph(text, body, bulletText=mark))
        else:
            story.append(Paragraph(escape(block.text), body))
    return story


def pdf_heading(block: Block, style: object) -> object:
    """A heading that is also an entry in the outline of the PDF."""
    from reportlab.platypus import Paragraph

    class Heading(Paragraph):
        def draw(self) -> None:
            key = re.sub(r"\W+", "-", block.text.lower())
            self.canv.bookmarkPage(key)
            self.canv.addOutlineEntry(block.text, key, block.level - 1, closed=False)
            super().draw()

    return Heading(escape(block.text), style)


def pdf_table(block: Block, style: object) -> object:
    """A table with grid lines and wrapped cells, as wide as the text."""
    from reportlab.lib import colors
    from reportlab.lib.units import mm
    from reportlab.platypus import Paragraph, Table

    longest = [max(len(row[i]) for row in block.rows) for i in range(len(block.rows[0]))]
    weights = [max(12, min(length, 60)) for length in longest]
    widths = [166 * mm * weight / sum(weights) for weight in weights]
    cells = [[Paragraph(escape(cell), style) for cell in row] for row in block.rows]
    rules = [
        ("GRID", (0, 0), (-1, -1), 0.4, colors.grey),
        ("BACKGROUND", (0, 0), (-1, 0), colors.whitesmoke),
        ("VALIGN", (0, 0), (-1, -1), "TOP"),
    ]
    return Table(cells, colWidths=widths, style=rules, repeatRows=1, spaceBefore=4, spaceAfter=8)


def make_docx(source_name: str) -> bytes:
    """A leaflet or a contract as a Word file."""
    import docx

    source = read_source(SOURCES / source_name)
    document = docx.Document()
    stamp_office(document.core_properties, source)
    styles = {"bullet": "List Bullet", "number": "List Number", "paragraph": "Normal"}
    for block in source.blocks:
        if block.kind == "heading":
            document.add_heading(block.text, level=block.level)
        elif block.kind == "table":
            table = document.add_table(rows=0, cols=len(block.rows[0]), style="Table Grid")
            for row in block.rows:
                for cell, text in zip(table.add_row().cells, row, strict=True):
                    cell.text = text
        else:
            document.add_paragraph(block.text, style=styles[block.kind])
    return save_reproducibly(document.save)


def make_pptx(source_name: str) -> bytes:
    """Slides with speaker notes as a PowerPoint file: each heading starts a slide."""
    from pptx import Presentation

    source = read_source(SOURCES / source_name)
    deck = Presentation()
    stamp_office(deck.core_properties, source)
    slide = None
    for block in source.blocks:
        if block.kind == "heading":
            slide = deck.slides.add_slide(deck.slide_layouts[1 if slide else 0])
            slide.shapes.title.text = block.text
        elif block.kind == "notes":
            slide.notes_slide.notes_text_frame.text = block.text
        else:
            frame = slide.placeholders[1].text_frame
            text = f"{block.level}. {block.text}" if block.kind == "number" else block.text
            frame.text = f"{frame.text}\n{text}".strip()
    return save_reproducibly(deck.save)


def make_xlsx(source_name: str) -> bytes:
    """A workbook from JSON: {"sheets": {name: [heads, row, ...]}}; ISO dates become date cells."""
    from openpyxl import Workbook
    from openpyxl.styles import Font
    from openpyxl.utils import get_column_letter

    content = json.loads((SOURCES / source_name).read_text(encoding="utf-8"))
    book = Workbook()
    book.remove(book.active)
    book.properties.title, book.properties.creator = content["title"], content["author"]
    book.properties.created = dt.datetime.fromisoformat(content["date"])
    for name, rows in content["sheets"].items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append([as_cell(value) for value in row])
        for cell in sheet[1]:
            cell.font = Font(bold=True)
        for i in range(len(rows[0])):
            width = max(len(str(row[i])) for row in rows)
            sheet.column_dimensions[get_column_letter(i + 1)].width = min(width, 60) + 2
        sheet.freeze_panes = "A2"
    return save_reproducibly(book.save, modified=content["date"])


def as_cell(value: str | float) -> str | float | dt.date | None:
    """The value of a cell: an ISO date becomes a date, an empty string becomes None."""
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d{2}-\d{2}", value):
        return dt.date.fromisoformat(value)
    return value if value != "" else None


def stamp_office(properties: object, source: Source) -> None:
    """Set the core properties that Word and PowerPoint files share."""
    date = source.date.replace(tzinfo=None)  # both libraries write naive times as UTC
    for name, value in {
        "title": source.title,
        "author": source.author,
        "last_modified_by": source.author,
        "subject": source.number,
        "comments": "",
        "revision": 1,
        "created": date,
        "modified": date,
    }.items():
        setattr(properties, name, value)


def save_reproducibly(save: Callable[[io.BytesIO], object], *, modified: str = "") -> bytes:
    """Run `save` and repack the archive with fixed times.

    Args:
        save: writes an Office file into a stream.
        modified: an ISO date for the core properties; "" leaves them unchanged.
    """
    raw, out = io.BytesIO(), io.BytesIO()
    save(raw)
    with zipfile.ZipFile(raw) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            data = old.read(entry)
            if modified and entry.filename == "docProps/core.xml":
                data = re.sub(rb"(<dcterms:modified[^>]*>)[^<]*", rb"\g<1>" + f"{modified}T00:00:00Z".encode(), data)
            info = zipfile.ZipInfo(entry.filename, ZIP_TIME)
            info.create_system, info.compress_type = 3, zipfile.ZIP_DEFLATED
            new.writestr(info, data)
    return out.getvalue()


FILES: dict[str, tuple[Callable[[str], bytes], str]] = {
    "manuals/aldane-telescope.pdf": (make_pdf, "aldane-telescope.txt"),
    "manuals/liquid-nitrogen.pdf": (make_pdf, "liquid-nitrogen.txt"),
    "visitors/school-visits.docx": (make_docx, "school-visits.txt"),
    "contracts/mirror-coating.docx": (make_docx, "mirror-coating.txt"),
    "slides/volunteer-training.pptx": (make_pptx, "volunteer-training.txt"),
    "tables/equipment.xlsx": (make_xlsx, "equipment.json"),
}
"""Path below data/sample -> (function that builds the file, name of the source)."""


def main() -> None:
    """Write every file and print its size."""
    parser = argparse.ArgumentParser(description="Build the binary files of the sample folder.")
    parser.add_argument("--out", type=Path, default=ROOT / "data" / "sample", help="the output folder")
    out: Path = parser.parse_args().out
    for name, (make, source_name) in FILES.items():
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(make(source_name))
        print(f"{name}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
