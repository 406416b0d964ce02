"""Office files that are one XML file: Word 2003, Excel 2003, flat packages."""

from __future__ import annotations

import pytest

from ragkit.errors import LoadError
from ragkit.load.router import Router
from ragkit.records import Document
from tests.load.test_places import place_of

WORD = "http://schemas.microsoft.com/office/word/2003/wordml"
HINTS = "http://schemas.microsoft.com/office/word/2003/auxHint"
AML = "http://schemas.microsoft.com/aml/2001/core"
OFFICE = "urn:schemas-microsoft-com:office:office"
SHEET = "urn:schemas-microsoft-com:office:spreadsheet"
PACKAGE = "http://schemas.microsoft.com/office/2006/xmlPackage"
PROPERTIES = "<o:DocumentProperties><o:Title>T</o:Title><o:Author>Ann</o:Author></o:DocumentProperties>"


def load(name: str, text: str) -> tuple[str, Document]:
    return Router().load(f'<?xml version="1.0"?>\n{text}'.encode(), f"/x/{name}")


def word_2003(body: str, before: str = "") -> Document:
    kind, document = load(
        "a.xml",
        f'<?mso-application progid="Word.Document"?><w:wordDocument xmlns:w="{WORD}" xmlns:wx="{HINTS}" '
        f'xmlns:aml="{AML}" xmlns:o="{OFFICE}">{PROPERTIES}{before}<w:body><wx:sect>{body}</wx:sect></w:body>'
        "</w:wordDocument>",
    )
    assert kind == "docx"
    return document


def paragraph(text: str, settings: str = "", more: str = "") -> str:
    return f"<w:p><w:pPr>{settings}</w:pPr><w:r><w:t>{text}</w:t></w:r>{more}</w:p>"


def test_a_file_of_word_2003_has_headings_tables_and_properties() -> None:
    styles = '<w:styles><w:style w:styleId="h"><w:name w:val="heading 1"/></w:style></w:styles>'
    cells = "".join(
        f"<w:tr><w:tc>{paragraph(a)}</w:tc><w:tc>{paragraph(b)}</w:tc></w:tr>" for a, b in [("a", "b"), ("c", "d")]
    )
    heading = paragraph("Pumps", '<w:pStyle w:val="h"/>')
    head = f"<wx:sub-section>{heading}</wx:sub-section>"
    document = word_2003(f"{head}<w:tbl>{cells}</w:tbl>{paragraph('end')}", styles)
    assert document.text == "Pumps\n\na | b\nc | d\n\nend"
    assert [(heading.level, heading.text) for heading in document.headings] == [(1, "Pumps")]
    assert (document.title, document.metadata["author"]) == ("T", "Ann")
    assert place_of(document, "end") == "paragraph 6"


def test_lists_of_word_2003_have_their_numbers() -> None:
    levels = "".join(
        f'<w:lvl w:ilvl="{n}"><w:start w:val="1"/><w:nfc w:val="{kind}"/><w:lvlText w:val="{text}"/></w:lvl>'
        for n, (kind, text) in enumerate([(0, "%1."), (4, "%2)"), (23, "o")])
    )
    known = f'<w:listDef w:listDefId="3">{levels}</w:listDef><w:list w:ilfo="1"><w:ilst w:val="3"/></w:list>'
    lists = f"<w:lists>{known}</w:lists>"
    items = "".join(
        paragraph(text, f'<w:listPr><w:ilvl w:val="{level}"/><w:ilfo w:val="1"/></w:listPr>')
        for text, level in [("a", 0), ("b", 0), ("c", 1), ("d", 1), ("e", 2)]
    )
    assert word_2003(items, lists).text == "1. a\n2. b\n  a) c\n  b) d\n    - e"


def test_notes_comments_changes_and_page_headers_of_word_2003() -> None:
    note = f"<w:r><w:footnote>{paragraph('A note.')}</w:footnote></w:r>"
    asked = f"<aml:content>{paragraph('Why?')}</aml:content>"
    comment = f'<w:r><aml:annotation aml:id="4" w:type="Word.Comment" aml:author="Bo">{asked}</aml:annotation></w:r>'
    deleted, added = (
        f'<aml:annotation w:type="Word.{kind}"><aml:content><w:r>{run}</w:r></aml:content></aml:annotation>'
        for kind, run in [("Deletion", "<w:delText>old</w:delText>"), ("Insertion", "<w:t>new</w:t>")]
    )
    head = f"<w:sectPr><w:hdr>{paragraph('Head')}</w:hdr><w:ftr>{paragraph('Foot')}</w:ftr></w:sectPr>"
    document = word_2003(paragraph("One", "", note + comment + deleted + added) + head)
    assert document.text == "Head\n\nOne[1]new\n\nComment by Bo: Why?\n\nFoot\n[1] A note."


def test_a_flat_package_is_read_as_its_parts() -> None:
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
    relation = f'<Relationship Id="r" Type="{kind}" Target="word/document.xml"/>'
    parts = {
        "/_rels/.rels": f"<Relationships>{relation}</Relationships>",
        "/word/document.xml": f'<w:document xmlns:w="{WORD}"><w:body>{paragraph("Hello")}</w:body></w:document>',
    }
    inside = "".join(f'<k:part k:name="{name}"><k:xmlData>{part}</k:xmlData></k:part>' for name, part in parts.items())
    picture = '<k:part k:name="/word/a.png"><k:binaryData>AAAA</k:binaryData></k:part>'
    kind, document = load("a.xml", f'<k:package xmlns:k="{PACKAGE}">{inside}{picture}</k:package>')
    assert (kind, document.text) == ("docx", "Hello")


def workbook(rows: str, name: str = "a.xml", options: str = "") -> tuple[str, Document]:
    sheet = f'<Worksheet ss:Name="Pumps"><Table>{rows}</Table>{options}</Worksheet>'
    return load(name, f'<Workbook xmlns="{SHEET}" xmlns:ss="{SHEET}" xmlns:o="{OFFICE}">{PROPERTIES}{sheet}</Workbook>')


def cell(value: str, kind: str = "String", attributes: str = "") -> str:
    return f'<Cell {attributes}><Data ss:Type="{kind}">{value}</Data></Cell>'


@pytest.mark.parametrize("name", ["a.xml", "a.xls"])
def test_a_workbook_of_excel_2003_has_rows_with_names(name: str) -> None:
    head = f"<Row>{cell('Pump')}{cell('Flow')}{cell('Since')}{cell('Note')}</Row>"
    row = cell("P-1") + cell("10.5", "Number") + cell("2016-04-27T00:00:00.000", "DateTime")
    last = cell("=2", "String", 'ss:Index="2"') + cell("1", "Boolean")
    kind, document = workbook(f"{head}<Row>{row}</Row><Row ss:Index='4'>{last}</Row>", name)
    assert kind == "xlsx"
    assert document.text == "Pumps\n\nPump: P-1; Flow: 10.5; Since: 2016-04-27\nFlow: =2; Since: TRUE"
    assert place_of(document, "=2") == "Pumps!A4:D4"
    assert (document.title, document.metadata.get("created")) == ("T", None)


def test_merged_cells_of_excel_2003_count_for_all_columns() -> None:
    spanning = cell("Kind") + cell("Flow", "String", 'ss:MergeAcross="1"')
    rows = f"<Row>{spanning}</Row><Row>{cell('Pump')}{cell('Q1')}{cell('Q2')}</Row>"
    values = cell("P-1") + cell("3", "Number") + cell("4", "Number")
    text = workbook(f"{rows}<Row>{values}</Row><Row>{values}</Row>")[1].text
    assert "Flow / Q1: 3; Flow / Q2: 4" in text


def test_cells_beyond_a_sheet_are_left_out() -> None:
    text = workbook(f"<Row>{cell('a')}</Row><Row ss:Index='99999999'>{cell('b')}</Row>")[1].text
    assert text == "Pumps\n\na"


def test_a_damaged_file_is_reported() -> None:
    with pytest.raises(LoadError, match="is not valid XML"):
        load("a.xml", f'<Workbook xmlns="{SHEET}"><Worksheet>')
