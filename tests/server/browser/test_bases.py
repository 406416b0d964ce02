"""Several knowledge bases on the page: chosen, never mixed up, made, renamed and deleted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Locator, expect

from ragkit import KnowledgeBase
from ragkit.cli.commands.serve import create_application
from ragkit.pipeline.settings import Pipeline
from ragkit.server.settings import ServerSettings
from tests.server.browser.actions import ask_and_wait
from tests.server.browser.conftest import Opener
from tests.server.browser.test_axe import violations
from tests.server.browser.test_settings import open_settings
from tests.server.mcp.parts import serving as serving_app
from tests.server.test_base_folder import start

HOOKS = {"north": "iron hook", "south": "oak peg"}


def test_a_knowledge_base_is_chosen_on_the_page_and_keeps_to_itself(open_page: Opener, tmp_path: Path) -> None:
    bases = {}
    for name, hook in HOOKS.items():
        (tmp_path / f"{name}.md").write_text(f"# Shed\n\nThe saw hangs on the {hook}.\n", "utf-8")
        bases[name] = KnowledgeBase.open(tmp_path / name, Pipeline.from_yaml("embed: {name: hashing}\n"))
        bases[name].index(tmp_path / f"{name}.md")
    with serving_app(create_application(bases, ServerSettings())) as origin:
        page = open_page(origin=origin)
        choice = page.get_by_role("combobox", name="Knowledge base")
        expect(choice).to_have_value("north")
        for name in ("south", "north", "south"):
            choice.select_option(name)
            page.wait_for_url(f"{origin}/kb/{name}/**")
            expect(choice).to_have_value(name)
            other = next(hook for key, hook in HOOKS.items() if key != name)
            for _ in range(3):
                page.get_by_role("link", name="New session").click()
                expect(page.locator(".turn")).to_have_count(0)
                turn = ask_and_wait(page, "Where does the saw hang?")
                expect(turn).to_contain_text(HOOKS[name])
                assert other not in str(page.locator("body").text_content())
            turn.get_by_role("button", name="Citation 1:").click()
            expect(page.locator("#panel-title")).to_have_text(f"{name}.md")
        assert violations(page) == []
    for kb in bases.values():
        kb.close()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[str]:
    """The address of a server over a folder of knowledge bases. Named before `open_page`: it stops after the checks."""
    with start(tmp_path / "bases") as server:
        yield server.url


def test_the_owner_makes_renames_and_deletes_knowledge_bases(folder: str, open_page: Opener) -> None:
    page = open_page(origin=folder, expected="Failed to load resource", reduced_motion="reduce")

    def open_list() -> Locator:
        dialog = open_settings(page)
        dialog.get_by_role("button", name="Server").click()
        return dialog

    dialog = open_list()
    expect(dialog.get_by_role("list", name="Knowledge bases")).to_have_text("mainRename")
    dialog.get_by_role("textbox", name="Name of a new knowledge base").fill("main")
    page.keyboard.press("Enter")
    expect(dialog.get_by_role("alert")).to_contain_text("a new name: there are main")
    assert violations(page) == []
    dialog.get_by_role("textbox", name="Name of a new knowledge base").fill("manuals")
    page.keyboard.press("Enter")
    page.wait_for_url(f"{folder}/kb/manuals/")
    expect(page.locator("#base option")).to_have_text(["main", "manuals"])

    dialog = open_list()
    dialog.get_by_role("button", name="Rename manuals").click()
    dialog.get_by_role("textbox", name="New name").fill("kitchen")
    page.keyboard.press("Enter")
    page.wait_for_url(f"{folder}/kb/kitchen/")

    dialog = open_list()
    dialog.get_by_role("button", name="Delete kitchen").click()
    page.get_by_role("dialog", name="Delete kitchen?").get_by_role("button", name="Delete").click()
    expect(dialog.get_by_role("status")).to_have_text("The server starts again")
    page.wait_for_url(f"{folder}/kb/main/")
    assert httpx2.get(f"{folder}/bases").json()["bases"] == ["main"]
