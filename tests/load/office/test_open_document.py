"""OpenDocument: texts, presentations and sheets."""

from __future__ import annotations

import pytest

from ragkit.errors import LoadError, LoadLimitExceeded
from ragkit.load.office.odf import OdpLoader, OdsLoader, OdtLoader
from ragkit.load.options import OdpOptions, OdsOptions
from ragkit.records import Document
from tests.load import odf_files
from tests.load.test_places import place_of

CELL = "<table:table-cell{1}><text:p>{0}</text:p></table:table-cell>"


def row(*cells: str, attributes: str = "") -> str:
    texts = "".join(cell if cell.startswith("<") else CELL.format(cell, "") for cell in cells)
    return f"<table:table-row{attributes}>{texts}</table:table-row>"


def number(value: str) -> str:
    return CELL.format("shown", f' office:value-type="float" office:value="{value}"')


def text_document(body: str) -> Document:
    return OdtLoader().load(odf_files.text(body), "/x/a.odt")


def test_a_text_is_read_in_document_order() -> None:
    document = text_document(
        '<text:h text:outline-level="2">Start<text:s text:c="2"/>here</text:h><text:p>one<text:tab/>two'
        "<text:line-break/>three</text:p><text:list><text:list-item><text:p>item</text:p><text:list><text:list-item>"
        "<text:p>deeper</text:p></text:list-item></text:list></text:list-item></text:list>"
    )
    assert document.text == "Start here\n\none\ttwo\nthree\n\n- item\n  - deeper"
    assert [(h.level, h.text) for h in document.headings] == [(2, "Start here")]
    assert (document.title, document.metadata["author"]) == ("The Handbook", "Ada")
    assert place_of(document, "deeper") == "paragraph 4"


def test_deleted_text_is_left_out_and_notes_follow_the_text() -> None:
    document = text_document(
        "<text:tracked-changes><text:changed-region><text:deletion><text:p>gone</text:p></text:deletion>"
        "</text:changed-region></text:tracked-changes><text:p>The price<text:note>"
        "<text:note-citation>1</text:note-citation><text:note-body>"
        "<text:p>without tax</text:p></text:note-body></text:note> holds.</text:p><text:p>Last"
        "<office:annotation><dc:creator>Ann</dc:creator><text:p>check</text:p></office:annotation>.</text:p>"
    )
    assert document.text == "The price[1] holds.\n\nLast.\n\nComment by Ann: check\n\n[1] without tax"


def test_column_names_head_the_rows_of_a_table() -> None:
    rows = row("Pump", "Flow"), row("P-1", "10"), row("P-2", "20")
    document = text_document(
        f"<table:table><table:table-header-rows>{rows[0]}</table:table-header-rows>{rows[1]}{rows[2]}</table:table>"
    )
    assert document.text == "Pump | Flow\nP-1 | 10\nP-2 | 20"
    assert document.heading_path_at(document.text.index("P-2")) == ("Pump | Flow",)


def test_slides_are_pages_with_titles_and_notes() -> None:
    data = odf_files.show([("One", "a box", "say it"), ("Two", "", "")])
    document = OdpLoader().load(data, "/x/a.odp")
    assert document.text == "One\n\na box\n\nNotes: say it\n\nTwo"
    assert [(document.text[h.start : h.start + 3], h.text) for h in document.headings] == [
        ("One", "One"),
        ("Two", "Two"),
    ]
    assert document.page_at(document.text.index("Two")) == 2
    assert "say it" not in OdpLoader(OdpOptions(notes=False)).load(data, "").text


def test_rows_of_a_sheet_have_their_column_names_and_cells() -> None:
    merged = CELL.format("North", ' table:number-rows-spanned="2"')
    covered = "<table:covered-table-cell/>"
    body = row("Site", "Pump", "Flow") + row(merged, "P-1", number("10.5")) + row(covered, "P-2", number("20"))
    document = OdsLoader().load(odf_files.sheets({"Pumps": body, "Empty": ""}), "/x/a.ods")
    assert document.text == "Pumps\n\nSite: North; Pump: P-1; Flow: 10.5\nSite: North; Pump: P-2; Flow: 20"
    assert place_of(document, "P-2; Flow") == "Pumps!A3:C3"


def test_repeated_empty_rows_count_and_repeated_values_are_limited() -> None:
    empty = "<table:table-row table:number-rows-repeated='1048500'><table:table-cell/></table:table-row>"
    document = OdsLoader().load(odf_files.sheets({"S": row("a", "b") + empty + row("c", "1")}), "/x/a.ods")
    assert place_of(document, "c") == "S!A1048502:B1048502"
    bomb = row("x", attributes=' table:number-rows-repeated="1048576"')
    wide = bomb.replace("<table:table-cell>", '<table:table-cell table:number-columns-repeated="16384">')
    with pytest.raises(LoadLimitExceeded, match="has more than 1000 cells: raise max_cells"):
        OdsLoader(OdsOptions(max_cells=1000)).load(odf_files.sheets({"S": wide}), "")


def test_an_encrypted_file_is_reported() -> None:
    manifest = "<manifest><file-entry><encryption-data/></file-entry></manifest>"
    with pytest.raises(LoadError, match="password-protected: save it without a password"):
        OdtLoader().load(odf_files.text("<text:p>x</text:p>", {"META-INF/manifest.xml": manifest}), "/x/a.odt")
