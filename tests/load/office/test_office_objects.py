"""What lies on a page beside its text: charts, SmartArt, comments, text boxes, page headers."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import docx
import openpyxl
import pptx
import pytest
from docx.oxml import parse_xml
from openpyxl.chart import BarChart, Reference
from openpyxl.comments import Comment
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches

from ragkit.load.office.docx import DocxLoader
from ragkit.load.office.pptx import PptxLoader
from ragkit.load.office.xlsx import XlsxLoader
from ragkit.load.options import DocxOptions, PptxOptions, XlsxOptions
from tests.load import sample_files

BLANK_LAYOUT = 6
W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
RELATIONSHIPS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
SMART_ART = """
<dgm:dataModel xmlns:dgm="http://schemas.openxmlformats.org/drawingml/2006/diagram"
 xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"><dgm:ptLst>
<dgm:pt modelId="0" type="doc"/>
<dgm:pt modelId="2"><dgm:t><a:p><a:r><a:t>Build</a:t></a:r></a:p></dgm:t></dgm:pt>
<dgm:pt modelId="1"><dgm:t><a:p><a:r><a:t>Plan</a:t></a:r></a:p></dgm:t></dgm:pt>
<dgm:pt modelId="3"><dgm:t><a:p><a:r><a:t>Measure</a:t></a:r></a:p></dgm:t></dgm:pt>
</dgm:ptLst><dgm:cxnLst>
<dgm:cxn modelId="9" srcId="0" destId="1" srcOrd="0"/><dgm:cxn modelId="8" srcId="0" destId="2" srcOrd="1"/>
<dgm:cxn modelId="7" srcId="1" destId="3" srcOrd="0"/><dgm:cxn modelId="6" srcId="3" destId="1" srcOrd="0"/>
</dgm:cxnLst></dgm:dataModel>"""


def saved(document: object) -> bytes:
    out = io.BytesIO()
    document.save(out)  # type: ignore[attr-defined]
    return out.getvalue()


def word_text(data: bytes, options: DocxOptions | None = None) -> str:
    return DocxLoader(options).load(data, "/x/a.docx").text


def slide_text(data: bytes, options: PptxOptions | None = None) -> str:
    return PptxLoader(options).load(data, "/x/a.pptx").text


@pytest.mark.parametrize(("value", "text"), [("0", "seen"), ("false", "seen"), ("1", ""), ("true", "")])
def test_hidden_text_is_hidden_only_where_its_property_is_on(value: str, text: str) -> None:
    body = f'<w:p><w:r><w:rPr><w:vanish w:val="{value}"/></w:rPr><w:t>seen</w:t></w:r></w:p>'
    part = f"<w:document {W}><w:body>{body}</w:body></w:document>"
    assert word_text(sample_files.replaced(sample_files.word(), {"word/document.xml": part})) == text


def test_page_headers_and_footers_are_read_once_without_page_numbers() -> None:
    document = docx.Document()
    document.add_paragraph("Body.")
    for _ in range(2):
        section = document.add_section()
        section.header.is_linked_to_previous = section.footer.is_linked_to_previous = False
        section.header.paragraphs[0].text = "Contract 4711"
        footer = section.footer.paragraphs[0]
        footer.text = "Page "
        footer._p.append(parse_xml(f'<w:fldSimple {W} w:instr=" PAGE "><w:r><w:t>7</w:t></w:r></w:fldSimple>'))
        complex_field = (
            '<w:fldChar w:fldCharType="begin"/><w:instrText> NUMPAGES </w:instrText>'
            '<w:fldChar w:fldCharType="separate"/><w:t>9</w:t><w:fldChar w:fldCharType="end"/>'
        )
        footer._p.append(parse_xml(f"<w:r {W}><w:t> of </w:t>{complex_field}</w:r>"))
    assert word_text(saved(document)) == "Contract 4711\n\nBody."
    assert word_text(saved(document), DocxOptions(page_headers=False)) == "Body."


def test_a_comment_follows_its_paragraph() -> None:
    document = docx.Document()
    paragraph = document.add_paragraph("The price is 7 euros.")
    document.add_comment(paragraph.runs, text="Check this price.", author="Ann", initials="A")
    document.add_paragraph("More.")
    assert word_text(saved(document)) == "The price is 7 euros.\n\nComment by Ann: Check this price.\n\nMore."
    assert word_text(saved(document), DocxOptions(comments=False)) == "The price is 7 euros.\n\nMore."


def show_with(shapes: Sequence[tuple[str, float, float]]) -> pptx.presentation.Presentation:
    show = pptx.Presentation()
    slide = show.slides.add_slide(show.slide_layouts[BLANK_LAYOUT])
    for text, left, top in shapes:
        box = slide.shapes.add_textbox(Inches(left), Inches(top), Inches(3), Inches(1))
        box.text_frame.text = text
    return show


def test_shapes_are_read_by_position() -> None:
    show = show_with([("bottom", 1, 6), ("right", 5, 3), ("left", 1, 3), ("top", 1, 1)])
    assert slide_text(saved(show)) == "top\n\nleft\n\nright\n\nbottom"


def test_columns_of_a_slide_are_read_one_after_the_other() -> None:
    shapes = [("a1", 1, 1), ("b1", 5, 1), ("a2", 1, 2.05), ("b2", 5, 2.5), ("a3", 1, 3.1)]
    assert slide_text(saved(show_with(shapes))) == "a1\n\na2\n\na3\n\nb1\n\nb2"


def test_shapes_of_a_group_stand_where_the_group_stands() -> None:
    show = show_with([("below", 1, 5)])
    slide = show.slides[0]
    group = slide.shapes.add_group_shape()
    for text, left, top in (("second", 0, 1000), ("first", 0, 0)):
        box = group.shapes.add_textbox(left, top, 500, 500)
        box.text_frame.text = text
    group.left, group.top, group.width, group.height = Inches(1), Inches(1), Inches(4), Inches(3)
    assert slide_text(saved(show)) == "first\n\nsecond\n\nbelow"


def test_the_values_of_a_chart_are_rows() -> None:
    show = show_with([])
    data: Any = CategoryChartData()  # type: ignore[no-untyped-call]
    data.categories = ["East", "West"]
    data.add_series("2023", (19.2, 21.4))
    data.add_series("2024", (None, 5))
    frame = show.slides[0].shapes.add_chart(
        XL_CHART_TYPE.COLUMN_CLUSTERED, Inches(1), Inches(1), Inches(4), Inches(3), data
    )
    frame.chart.has_title = True
    frame.chart.chart_title.text_frame.text = "Sales"
    assert slide_text(saved(show)) == "Chart: Sales\n\nEast; 2023: 19.2\nWest; 2023: 21.4; 2024: 5"


def test_smart_art_is_a_nested_list_even_when_it_runs_in_a_circle() -> None:
    data = saved(show_with([("box", 1, 6)]))
    frame = (
        '<p:graphicFrame xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" '
        'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"><p:xfrm><a:off x="0" y="0"/>'
        '<a:ext cx="9" cy="9"/></p:xfrm><a:graphic><a:graphicData><dgm:relIds '
        'xmlns:dgm="http://schemas.openxmlformats.org/drawingml/2006/diagram" '
        f'xmlns:r="{RELATIONSHIPS}" r:dm="rId77"/></a:graphicData></a:graphic></p:graphicFrame></p:spTree>'
    )
    slide, rels = "ppt/slides/slide1.xml", "ppt/slides/_rels/slide1.xml.rels"
    parts = sample_files.entries(data)
    relationship = f'<Relationship Id="rId77" Type="{RELATIONSHIPS}/diagramData" Target="../diagrams/data1.xml"/>'
    changed: dict[str, str | bytes] = {
        slide: parts[slide].replace(b"</p:spTree>", frame.encode()),
        rels: parts[rels].replace(b"</Relationships>", f"{relationship}</Relationships>".encode()),
        "ppt/diagrams/data1.xml": SMART_ART,
    }
    assert slide_text(sample_files.replaced(data, changed)) == "- Plan\n  - Measure\n- Build\n\nbox"


def test_comments_of_a_slide_follow_its_shapes() -> None:
    data = saved(show_with([("box", 1, 1)]))
    p = 'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"'
    rels, main_rels = "ppt/slides/_rels/slide1.xml.rels", "ppt/_rels/presentation.xml.rels"
    parts = sample_files.entries(data)
    end = b"</Relationships>"
    link = f'<Relationship Id="rId77" Type="{RELATIONSHIPS}/comments" Target="../comments/comment1.xml"/>'
    authors = f'<Relationship Id="rId78" Type="{RELATIONSHIPS}/commentAuthors" Target="commentAuthors.xml"/>'
    changed: dict[str, str | bytes] = {
        rels: parts[rels].replace(end, link.encode() + end),
        main_rels: parts[main_rels].replace(end, authors.encode() + end),
        "ppt/commentAuthors.xml": f'<p:cmAuthorLst {p}><p:cmAuthor id="0" name="Ann"/></p:cmAuthorLst>',
        "ppt/comments/comment1.xml": f'<p:cmLst {p}><p:cm authorId="0"><p:text>too small</p:text></p:cm></p:cmLst>',
    }
    commented = sample_files.replaced(data, changed)
    assert slide_text(commented) == "box\n\nComment by Ann: too small"
    assert slide_text(commented, PptxOptions(comments=False)) == "box"


def workbook_with_objects() -> bytes:
    book = openpyxl.Workbook()
    sheet = book.active
    for row in (["Region", "Sales"], ["East", 3], ["West", 4]):
        sheet.append(row)
    sheet["B2"].comment = Comment("Ann:\nestimated", "Ann")
    chart = BarChart()
    chart.title = "Sales by region"
    chart.add_data(Reference(sheet, min_col=2, min_row=1, max_row=3), titles_from_data=True)
    sheet.add_chart(chart, "D2")
    data = saved(book)
    drawing = sample_files.entries(data)["xl/drawings/drawing1.xml"]
    box = (
        b'<xdr:twoCellAnchor xmlns:xdr="http://schemas.openxmlformats.org/drawingml/2006/spreadsheetDrawing" '
        b'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"><xdr:sp><xdr:txBody><a:p><a:r>'
        b"<a:t>Read me first</a:t></a:r></a:p></xdr:txBody></xdr:sp></xdr:twoCellAnchor>"
    )
    end = drawing.rindex(b"</")
    return sample_files.replaced(data, {"xl/drawings/drawing1.xml": drawing[:end] + box + drawing[end:]})


def test_charts_text_boxes_and_comments_of_a_sheet_follow_its_rows() -> None:
    data = workbook_with_objects()
    text = XlsxLoader().load(data, "/x/a.xlsx").text
    rows = "Sheet\n\nRegion: East; Sales: 3\nRegion: West; Sales: 4"
    objects = "Chart: Sales by region\n\nRead me first"
    assert text == f"{rows}\n\n{objects}\n\nComment on B2 by Ann: estimated"
    assert XlsxLoader(XlsxOptions(comments=False)).load(data, "").text == f"{rows}\n\n{objects}"
