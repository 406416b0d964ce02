"""A citation opens the document as its readers know it, with what is cited marked."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from ragkit import KnowledgeBase
from ragkit.pipeline.settings import Pipeline
from tests.server.browser.actions import ask_and_wait, session_of, show_text
from tests.server.browser.conftest import SAMPLE, Opener
from tests.server.browser.serving import Serving

FILES = (
    "manuals/liquid-nitrogen.pdf", "manuals/heron-spectrograph.html", "handbook/leave.md", "tables/equipment.xlsx",
    "visitors/prices-2026.csv", "visitors/school-visits.docx", "software/skytool/airmass.py",
)  # fmt: skip


DARK = """() => {
  const canvas = document.querySelector('.sheet canvas');
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  let dark = 0;
  for (let i = 0; i < data.length; i += 4) dark += data[i] < 128;
  return dark / (canvas.width * canvas.height);
}"""
"""The share of dark pixels of the page that is shown."""


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server over a document of each view."""
    folder = tmp_path_factory.mktemp("originals")
    (folder / "docs").mkdir()
    for name in FILES:
        shutil.copy2(SAMPLE / name, folder / "docs")
    with KnowledgeBase.open(folder / "kb", Pipeline.from_yaml("embed: {name: hashing}\n")) as kb:
        kb.index(folder / "docs")
    with Serving(folder / "kb") as served:
        yield served


def open_hit(open_page: Opener, serving: Serving, query: str, name: str) -> tuple[Page, dict[str, Any]]:
    """Open the first hit in a file."""
    page = open_page(f"#/search?q={query.replace(' ', '+')}&k=20")
    expect(page.locator(".hit")).not_to_have_count(0)
    hits = serving.ask("POST", "v1/search", {"query": query, "top_k": 20})["hits"]
    at = next(i for i, hit in enumerate(hits) if hit["source"].endswith(name))
    page.locator(".hit-open").nth(at).click()
    return page, hits[at]


def key(text: str) -> str:
    """Its letters and digits."""
    return "".join(char.lower() for char in text if char.isalnum())


def marked(page: Page) -> Locator:
    """The marked texts."""
    return page.locator(".original mark")


def test_a_page_of_a_pdf_is_drawn_with_the_cited_region_marked(page: Page, serving: Serving) -> None:
    turn = ask_and_wait(page, "How long does a full dewar stay cold?")
    [first, *_] = serving.message(session_of(page))["citations"]
    turn.get_by_role("button", name="Citation 1:").click()
    boxes = page.locator(".mark-box")
    expect(boxes.first).to_be_in_viewport(ratio=1)
    span = f"start={first['start']}&end={first['end']}"
    marks = serving.ask("GET", f"documents/{first['document_id']}/rectangles?{span}")["marks"]
    expect(boxes).to_have_count(len(marks))
    sheet, box = page.locator(".sheet").bounding_box(), boxes.first.bounding_box()
    assert sheet is not None
    assert box is not None
    assert (box["x"] - sheet["x"]) / sheet["width"] == pytest.approx(marks[0]["left"], abs=0.01)
    assert (box["y"] - sheet["y"]) / sheet["height"] == pytest.approx(marks[0]["top"], abs=0.01)
    assert box["width"] / sheet["width"] == pytest.approx(marks[0]["width"], abs=0.01)
    drawn = page.evaluate(DARK)
    assert 0.005 < drawn < 0.4, "there are letters on the page"


def test_pages_turn_with_buttons_and_the_mark_stays_on_its_page(page: Page) -> None:
    ask_and_wait(page, "How long does a full dewar stay cold?").get_by_role("button", name="Citation 1:").click()
    pages = page.get_by_role("group", name="Pages")
    expect(page.locator(".mark-box")).not_to_have_count(0)
    field = pages.get_by_role("spinbutton", name="Page")
    shown = int(field.input_value())
    on, back = "Next page", "Previous page"
    if shown > 1:
        on, back = back, on
    pages.get_by_role("button", name=on).click()
    expect(page.locator(".mark-box")).to_have_count(0)
    pages.get_by_role("button", name=back).click()
    expect(page.locator(".mark-box")).not_to_have_count(0)
    expect(field).to_have_value(str(shown))
    field.fill("1")
    page.keyboard.press("Enter")
    expect(page.get_by_role("img", name="Page 1, as in the file")).to_be_visible()


def test_a_page_is_zoomed_and_words_are_found_on_all_pages(page: Page) -> None:
    ask_and_wait(page, "How long does a full dewar stay cold?").get_by_role("button", name="Citation 1:").click()
    pages = page.get_by_role("group", name="Pages")
    sheet = page.locator(".sheet")
    expect(page.locator(".mark-box")).not_to_have_count(0)
    before = sheet.bounding_box()
    pages.get_by_role("button", name="Zoom in").click()
    pages.get_by_role("button", name="Zoom in").click()
    expect(pages).to_contain_text("150 %")
    after = sheet.bounding_box()
    assert before is not None
    assert after is not None
    assert after["width"] / before["width"] == pytest.approx(1.5, abs=0.02)
    words = pages.get_by_role("searchbox", name="Find in the document")
    words.fill("OXYGEN")
    page.keyboard.press("Enter")
    expect(page.locator(".mark-box.found")).not_to_have_count(0)
    expect(pages.locator(".finder .count")).to_contain_text("1 of ")
    words.fill("no such words here")
    page.keyboard.press("Enter")
    expect(pages.locator(".finder .count")).to_have_text("No match")


@pytest.mark.parametrize(
    ("query", "name"),
    [("grating calibration lamp", "heron-spectrograph.html"), ("days of leave", "leave.md"),
     ("workshop age", "school-visits.docx")],
)  # fmt: skip
def test_the_quote_is_marked_in_the_document_as_its_readers_see_it(
    open_page: Opener, serving: Serving, query: str, name: str
) -> None:
    page, hit = open_hit(open_page, serving, query, name)
    expect(marked(page).first).to_be_in_viewport()
    assert key("".join(marked(page).all_text_contents())) == key(hit["text"])
    assert page.locator(".original :is(h3, h4, h5)").count() > 1
    show_text(page)
    expect(page.locator(".line.cited")).not_to_have_count(0)


@pytest.mark.parametrize(
    ("query", "name"), [("diesel generator", "equipment.xlsx"), ("family ticket", "prices-2026.csv")]
)
def test_a_table_is_a_table_with_the_cited_rows_marked(
    open_page: Opener, serving: Serving, query: str, name: str
) -> None:
    page, hit = open_hit(open_page, serving, query, name)
    rows = page.locator(".original tr.cited")
    expect(rows.first).to_be_in_viewport()
    lines = [int(str(row.get_attribute("data-line"))) for row in page.locator(".original .cited").all()]
    assert lines
    assert all(hit["start_line"] <= line <= hit["end_line"] for line in lines)
    cells = key("".join(rows.locator("td").all_text_contents()))
    values = [piece.partition(": ")[2] for piece in hit["text"].split("\n")[-1].split("; ")]
    assert all(key(value) in cells for value in values)


def test_semicolons_in_a_cell_make_no_column(open_page: Opener, serving: Serving) -> None:
    page, _ = open_hit(open_page, serving, "reduced students over 65", "prices-2026.csv")
    expect(page.locator(".original th")).to_have_text(
        ["code", "ticket", "who", "price_eur", "valid_from", "valid_to", "remarks"]
    )
    expect(page.get_by_role("cell", name="Reduced (students; over 65; disability card)").first).to_be_visible()


def test_code_is_shown_with_its_line_numbers(open_page: Opener, serving: Serving) -> None:
    page, hit = open_hit(open_page, serving, "def airmass", "airmass.py")
    expect(page.locator(".line.cited .n").first).to_have_text(str(hit["start_line"]))


def test_the_file_is_downloaded_as_it_is(page: Page, serving: Serving) -> None:
    ask_and_wait(page, "How long does a full dewar stay cold?").get_by_role("button", name="Citation 1:").click()
    with page.expect_download() as event:
        page.get_by_role("button", name="Download").click()
    assert event.value.suggested_filename == "liquid-nitrogen.pdf"
    assert Path(event.value.path()).read_bytes() == (SAMPLE / "manuals/liquid-nitrogen.pdf").read_bytes()


def test_a_file_that_changed_is_shown_as_the_text_that_was_indexed(open_page: Opener, tmp_path: Path) -> None:
    shutil.copy2(SAMPLE / "manuals/liquid-nitrogen.pdf", tmp_path)
    with KnowledgeBase.open(tmp_path / "kb", Pipeline.from_yaml("embed: {name: hashing}\n")) as kb:
        kb.index(tmp_path / "liquid-nitrogen.pdf")
    with Serving(tmp_path / "kb") as served:
        page = open_page("#/search?q=dewar", origin=served.origin, expected="409")
        expect(page.locator(".hit")).not_to_have_count(0)
        with (tmp_path / "liquid-nitrogen.pdf").open("ab") as file:
            file.write(b"% later\n")
        page.locator(".hit-open").first.click()
        expect(page.get_by_text("The file has changed or was removed since it was indexed")).to_be_visible()
        expect(page.locator(".line.cited")).not_to_have_count(0)
        page.get_by_role("button", name="Download").click()
        expect(page.get_by_role("alert")).to_have_text(
            "the file has changed since it was indexed, or was removed: index it again"
        )


def test_the_overview_says_what_a_document_is_about(page: Page) -> None:
    page.get_by_role("region", name="Documents").get_by_role("button", name="liquid-nitrogen.pdf").click()
    page.get_by_role("group", name="This document").get_by_role("button", name="Overview").click()
    overview = page.locator(".overview")
    expect(overview).to_contain_text("5 pages")
    expect(overview.get_by_role("heading", name="Sections")).to_be_visible()
    expect(overview.locator("p:not(.where)")).not_to_have_count(0)
    expect(overview.get_by_role("listitem")).not_to_have_count(0)
