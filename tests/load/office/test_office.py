"""Word, PowerPoint and Excel files, and zip files."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from datetime import date, datetime

import openpyxl
import pytest

from ragkit.errors import InvalidOption, LoadError, LoadLimitExceeded
from ragkit.load import LOADERS
from ragkit.load.office.docx import DocxLoader
from ragkit.load.office.pptx import PptxLoader
from ragkit.load.office.xlsx import XlsxLoader
from ragkit.load.options import DocxOptions, PptxOptions, XlsxOptions, ZipOptions
from ragkit.load.shared.zip_archive import ZipArchive
from ragkit.records import Document
from tests.load import sample_files

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
WORD = sample_files.word()
TALK = sample_files.slides([("Welcome", "first\nsecond", "say hello"), ("", "", ""), ("End", "bye", "")])


def word(body: str, more: dict[str, str] | None = None) -> Document:
    parts = {"word/document.xml": f"<w:document {W}><w:body>{body}</w:body></w:document>", **(more or {})}
    return DocxLoader().load(sample_files.replaced(WORD, parts), "/x/a.docx")


def test_a_word_file_is_read_in_document_order() -> None:
    document = DocxLoader().load(WORD, "/x/a.docx")
    assert document.text == (
        "Start here\n\nFirst words.\n\nDeeper\n\n- one\n- two\n\nname | age\nAnn | 7\n\nLast words."
    )
    assert [(h.start, h.level, h.text) for h in document.headings] == [
        (0, 1, "Start here"),
        (26, 2, "Deeper"),
        (58, 100, "name | age"),
    ]
    assert (document.title, document.metadata["author"]) == ("The Handbook", "Ada")


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("<w:p><w:r><w:t>a</w:t><w:tab/><w:t>b</w:t><w:br/><w:t>c</w:t></w:r></w:p>", "a\tb\nc"),
        ("<w:p><w:hyperlink><w:r><w:t>link</w:t></w:r></w:hyperlink></w:p>", "link"),
        ("<w:sdt><w:sdtContent><w:p><w:r><w:t>control</w:t></w:r></w:p></w:sdtContent></w:sdt>", "control"),
        ("<w:p><w:ins><w:r><w:t>new</w:t></w:r></w:ins><w:del><w:r><w:t>old</w:t></w:r></w:del></w:p>", "new"),
        ("<w:p><w:r><w:rPr><w:vanish/></w:rPr><w:t>hidden</w:t></w:r><w:r><w:t>seen</w:t></w:r></w:p>", "seen"),
        ("<w:p><w:r><w:instrText>PAGE</w:instrText><w:t>1</w:t></w:r></w:p>", "1"),
        (
            "<w:p><w:r><w:t>p</w:t><w:txbxContent><w:p><w:r><w:t>box</w:t></w:r></w:p></w:txbxContent></w:r></w:p>",
            "p\n\nbox",
        ),
        ("<w:tbl><w:tr><w:tc><w:p><w:r><w:t>frame</w:t></w:r></w:p></w:tc></w:tr></w:tbl>", "frame"),
        ('<w:p><w:pPr><w:numPr><w:ilvl w:val="1"/></w:numPr></w:pPr><w:r><w:t>x</w:t></w:r></w:p>', "  - x"),
        ('<w:p><w:pPr><w:numPr><w:numId w:val="0"/></w:numPr></w:pPr><w:r><w:t>x</w:t></w:r></w:p>', "x"),
        ("<w:p/>", ""),
    ],
)
def test_all_visible_text_of_a_word_file_is_read(body: str, text: str) -> None:
    assert word(body).text == text


def test_a_heading_is_detected_by_style_parent_style_or_outline_level() -> None:
    styles = (
        f"<w:styles {W}>"
        '<w:style w:type="paragraph" w:styleId="berschrift1"><w:name w:val="heading 1"/></w:style>'
        '<w:style w:type="paragraph" w:styleId="mine"><w:basedOn w:val="berschrift1"/></w:style>'
        '<w:style w:type="paragraph" w:styleId="loop"><w:basedOn w:val="loop"/></w:style>'
        '<w:style w:type="paragraph" w:styleId="T"><w:name w:val="Title"/></w:style></w:styles>'
    )
    document = word(
        "".join(
            f'<w:p><w:pPr><w:{tag} w:val="{value}"/></w:pPr><w:r><w:t>{value}</w:t></w:r></w:p>'
            for tag, value in (("pStyle", "mine"), ("outlineLvl", "2"), ("pStyle", "loop"), ("pStyle", "T"))
        ),
        {"word/styles.xml": styles, "docProps/core.xml": "<x/>"},
    )
    assert [(h.level, h.text) for h in document.headings] == [(1, "mine"), (3, "2")]
    assert document.title == "T"


def test_footnotes_follow_the_text() -> None:
    rel = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/footnotes"
    rels = f'<Relationships><Relationship Id="f" Type="{rel}" Target="footnotes.xml"/></Relationships>'
    notes = (
        f'<w:footnotes {W}><w:footnote w:type="separator" w:id="0"><w:p><w:r><w:t>-</w:t></w:r></w:p></w:footnote>'
        '<w:footnote w:id="2"><w:p><w:r><w:t>see there</w:t></w:r></w:p></w:footnote></w:footnotes>'
    )
    body = '<w:p><w:r><w:t>fact</w:t><w:footnoteReference w:id="2"/></w:r></w:p>'
    parts = {"word/_rels/document.xml.rels": rels, "word/footnotes.xml": notes}
    assert word(body, parts).text == "fact[2]\n\n[2] see there"
    data = sample_files.replaced(
        WORD, {"word/document.xml": f"<w:document {W}><w:body>{body}</w:body></w:document>", **parts}
    )
    assert DocxLoader(DocxOptions(footnotes=False)).load(data, "").text == "fact[2]"


def test_slides_are_pages_with_titles_and_notes() -> None:
    document = PptxLoader().load(TALK, "/x/a.pptx")
    assert document.text == "Welcome\n\nfirst\nsecond\n\nNotes: say hello\n\n\n\nEnd\n\nbye"
    assert [(h.start, h.text) for h in document.headings] == [(0, "Welcome"), (43, "End")]
    assert document.page_starts == (0, 41, 43)
    assert document.page_at(document.text.index("bye")) == 3
    assert (document.title, document.metadata["slides"]) == ("", 3)


def test_notes_can_be_disabled() -> None:
    assert "Notes" not in PptxLoader(PptxOptions(notes=False)).load(TALK, "").text


def test_hidden_slides_are_skipped_and_counted() -> None:
    with zipfile.ZipFile(io.BytesIO(TALK)) as archive:
        slide = archive.read("ppt/slides/slide1.xml").replace(b"<p:sld ", b'<p:sld show="0" ')
    document = PptxLoader().load(sample_files.replaced(TALK, {"ppt/slides/slide1.xml": slide}), "")
    assert document.text == "\n\nEnd\n\nbye"
    assert document.metadata["hidden_slides"] == 1


def sheet(data: bytes, options: XlsxOptions | None = None) -> str:
    return XlsxLoader(options).load(data, "/x/a.xlsx").text


def test_rows_are_written_with_column_names() -> None:
    rows: Sequence[Sequence[object]] = [
        ["name", "born", "height", "ok"],
        ["Ann", date(2001, 2, 3), 1.5, True],
        [None] * 4,
        ["Bo", None, 2.0],
    ]
    document = XlsxLoader().load(sample_files.workbook({"People": rows, "Empty": []}), "/x/a.xlsx")
    assert document.text == "People\n\nname: Ann; born: 2001-02-03; height: 1.5; ok: TRUE\nname: Bo; height: 2"
    assert [(h.start, h.level, h.text) for h in document.headings] == [(0, 1, "People")]


def test_rows_without_a_header_are_written_without_column_names() -> None:
    rows: Sequence[Sequence[object]] = [[1, 2], ["a", datetime.fromisoformat("2024-01-02T03:04:00")]]
    assert sheet(sample_files.workbook({"S": rows})) == "S\n\n1 | 2\na | 2024-01-02 03:04:00"


def test_hidden_sheets_are_skipped_and_counted_by_default() -> None:
    data = sample_files.workbook({"A": [[1]], "B": [[2]]}, hidden=["B"])
    assert XlsxLoader().load(data, "").metadata["hidden_sheets"] == 1
    assert sheet(data) == "A\n\n1"
    assert sheet(data, XlsxOptions(hidden=True)) == "A\n\n1\n\nB\n\n2"


def test_a_cell_in_the_last_row_and_column_is_read_quickly() -> None:
    book = openpyxl.Workbook()
    book.active["XFD1048576"] = "corner"
    out = io.BytesIO()
    book.save(out)
    assert sheet(out.getvalue()).endswith("corner")


def test_more_cells_than_max_cells_exceed_a_limit() -> None:
    with pytest.raises(LoadLimitExceeded, match="has more than 3 cells: raise max_cells"):
        sheet(sample_files.workbook({"A": [[1, 2], [3, 4]]}), XlsxOptions(max_cells=3))


@pytest.mark.parametrize("part", ["xl/workbook.xml", "xl/worksheets/sheet1.xml"])
@pytest.mark.parametrize("content", ["", "<x", "<x/>"])
def test_a_workbook_with_a_broken_part_is_an_error_or_empty(part: str, content: str) -> None:
    data = sample_files.replaced(sample_files.workbook({"A": [[1]]}), {part: content})
    try:
        assert sheet(data) == ""
    except LoadError as error:
        assert error.reason.startswith("invalid workbook")


@pytest.mark.parametrize("name", ["docx", "pptx", "xlsx", "epub"])
@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"hello", WORD[: len(WORD) // 2]])
def test_a_truncated_zip_file_is_an_error(name: str, data: bytes) -> None:
    with pytest.raises(LoadError, match="damaged or truncated zip file: open it"):
        LOADERS.find(name)().load(data, "/x/a")


@pytest.mark.parametrize("name", ["docx", "pptx", "epub"])
def test_a_zip_file_of_another_format_is_an_error(name: str) -> None:
    with pytest.raises(LoadError, match=r"part '.*' is missing"):
        LOADERS.find(name)().load(sample_files.zipped({"a.txt": "x"}), "")


LAUGHS = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">' + "".join(
    f'<!ENTITY {name} "{f"&{before};" * 10}">' for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("prolog", "reference"),
    [
        ('<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>', "&e;"),
        ('<!DOCTYPE x [<!ENTITY e SYSTEM "http://127.0.0.1:9/">]>', "&e;"),
    ],
    ids=["file", "http"],
)
def test_external_entities_are_never_resolved(prolog: str, reference: str) -> None:
    assert DocxLoader().load(entities(prolog, reference), "").text == "ab"


@pytest.mark.parametrize(
    ("prolog", "reference"),
    [(LAUGHS + "]>", "&i;"), ('<!DOCTYPE x [<!ENTITY e "' + "a" * 50_000 + '">]>', "&e;" * 10_000)],
    ids=["laughs", "quadratic"],
)
def test_entity_bombs_are_rejected(prolog: str, reference: str) -> None:
    with pytest.raises(LoadError, match=r"not valid XML .*entity amplification"):
        DocxLoader().load(entities(prolog, reference), "")


def entities(prolog: str, reference: str) -> bytes:
    body = f"<w:p><w:r><w:t>a{reference}b</w:t></w:r></w:p>"
    xml = f"{prolog}<w:document {W}><w:body>{body}</w:body></w:document>"
    return sample_files.replaced(WORD, {"word/document.xml": xml})


def test_extremely_nested_xml_is_an_error() -> None:
    with pytest.raises(LoadError, match=r"'word/document.xml' is not valid XML"):
        word("<w:sdt>" * 5000)


def test_external_relationships_are_not_followed() -> None:
    relation = '<Relationship Id="s" Type="x/styles" Target="http://127.0.0.1:9/" TargetMode="External"/>'
    rels = f"<Relationships>{relation}</Relationships>"
    assert word("<w:p><w:r><w:t>x</w:t></w:r></w:p>", {"word/_rels/document.xml.rels": rels}).text == "x"


def test_entry_names_with_parent_paths_are_never_used_as_paths() -> None:
    data = sample_files.replaced(WORD, {"../../evil": "x", "/etc/evil": "x", "C:\\evil": "x"})
    assert DocxLoader().load(data, "").text.startswith("Start here")


def test_a_zip_bomb_is_rejected_by_its_declared_size() -> None:
    bomb = sample_files.replaced(WORD, {"word/media/zeros": b"\0" * 600_000_000})
    with pytest.raises(LoadLimitExceeded, match="unpacks to 572 MB, the limit is 512 MB"):
        DocxLoader().load(bomb, "")
    with pytest.raises(LoadLimitExceeded, match="times its size, the limit is 200"):
        DocxLoader(DocxOptions(max_expanded_mb=10_000)).load(bomb, "")


def test_no_more_than_the_declared_size_is_unpacked() -> None:
    data = sample_files.zipped({"a": b"\0" * 1_000_000})
    lying = data.replace((1_000_000).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    with pytest.raises(LoadError, match="part 'a' is damaged"):
        ZipArchive(lying, "/x").read("a")


def test_a_zip_file_with_too_many_entries_is_rejected() -> None:
    with pytest.raises(LoadLimitExceeded, match="has 11 zip entries, the limit is 10"):
        ZipArchive(sample_files.zipped({str(n): "" for n in range(11)}), "/x", ZipOptions(max_entries=10))


def test_a_limit_of_zero_is_rejected() -> None:
    with pytest.raises(InvalidOption, match=r"max_expanded_mb must be > 0 \(got 0\)"):
        DocxOptions(max_expanded_mb=0)
    with pytest.raises(InvalidOption, match=r"max_ratio must be > 0 \(got -1\)"):
        PptxOptions(max_ratio=-1)
    with pytest.raises(InvalidOption, match=r"max_entries must be > 0 \(got 0\)"):
        ZipOptions(max_entries=0)
    with pytest.raises(InvalidOption, match=r"max_cells must be > 0 \(got 0\)"):
        XlsxOptions(max_cells=0)
