"""Accessibility: axe finds nothing on any view, in light and dark, on a phone and on a desktop."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.server.browser.actions import ask_and_wait, show_text
from tests.server.browser.conftest import Opener
from tests.server.browser.serving import Serving

DEWAR = "How long does a full dewar stay cold?"
_RUN = """async () => (await axe.run()).violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html)}`)"""
LOOKS = pytest.mark.parametrize(
    ("scheme", "width"),
    [
        ("light", 390),
        ("dark", 1280),
        pytest.param("light", 1280, marks=pytest.mark.slow),
        pytest.param("dark", 390, marks=pytest.mark.slow),
    ],
)


def violations(page: Page) -> list[Any]:
    """What axe finds on the page as it is. Motion is off: colors of a panel that fades in would count."""
    page.emulate_media(reduced_motion="reduce")
    page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8"))
    found = page.evaluate(_RUN)
    assert isinstance(found, list)
    return found


@LOOKS
def test_axe_finds_nothing_on_any_view(open_page: Opener, serving: Serving, scheme: str, width: int) -> None:
    page = open_page(color_scheme=scheme, viewport={"width": width, "height": 844}, reduced_motion="reduce")
    expect(page.locator(".welcome .keys")).to_be_visible()
    assert violations(page) == []
    turn = ask_and_wait(page, DEWAR)
    ask_and_wait(page, "How many days of holiday does a full-time employee get?")  # two answers with equal parts
    assert violations(page) == []
    turn.get_by_role("button", name="Citation 1:").click()
    expect(page.locator(".mark-box")).not_to_have_count(0)
    assert violations(page) == []
    show_text(page)
    expect(page.locator(".line.cited")).not_to_have_count(0)
    assert violations(page) == []
    page.keyboard.press("Escape")
    turn.get_by_role("button", name="Trace").click()
    expect(page.locator(".timeline")).to_be_visible()
    assert violations(page) == []
    for address, ready in (("search?q=dewar", ".hit"), ("status", ".documents tbody tr")):
        page.goto(f"{serving.origin}/#/{address}")
        expect(page.locator(ready)).not_to_have_count(0)
        assert violations(page) == []
    page.get_by_text("Add a web page").click()
    page.get_by_role("button", name="Delete welcome.md").click()
    assert violations(page) == []


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Serving]:
    """A server without a knowledge base. Named before `open_page`, it stops after the pages are checked."""
    with Serving(tmp_path / "kb") as served:
        yield served


@LOOKS
def test_axe_finds_nothing_while_documents_are_brought_in(
    fresh: Serving, open_page: Opener, tmp_path: Path, scheme: str, width: int
) -> None:
    (tmp_path / "tea.md").write_text("# Tea\n\nTea is green.\n", "utf-8")
    (tmp_path / "broken.docx").write_bytes(b"PK\x03\x04 this is no archive")
    (tmp_path / "empty.md").touch()
    page = open_page(origin=fresh.origin, color_scheme=scheme, viewport={"width": width, "height": 844})
    expect(page.get_by_role("heading", level=1)).to_have_text("Add your documents")
    assert violations(page) == []
    page.locator("input[type=file]").first.set_input_files([tmp_path / "broken.docx", tmp_path / "empty.md"])
    expect(page.get_by_role("list", name="Files that could not be read")).to_be_visible()
    expect(page.get_by_role("list", name="Refused files")).to_be_visible()
    assert violations(page) == []
    page.locator("input[type=file]").first.set_input_files([tmp_path / "tea.md"])
    expect(page.get_by_role("heading", level=1)).to_have_text("Ask 1 document")
    assert violations(page) == []
