"""Several knowledge bases on the page: chosen, and never mixed up."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

from ragkit import KnowledgeBase
from ragkit.cli.commands.serve import create_application
from ragkit.pipeline.settings import Pipeline
from ragkit.server.settings import ServerSettings
from tests.server.browser.actions import ask_and_wait
from tests.server.browser.conftest import Opener
from tests.server.browser.test_axe import violations
from tests.server.mcp.parts import serving as serving_app

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
