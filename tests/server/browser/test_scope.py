"""The beginning of a conversation on the page: suggestions, one folder or file, the model; links to sessions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from ragkit import KnowledgeBase
from ragkit.pipeline.settings import Pipeline
from ragkit.server.settings import ServerSettings
from tests.server.browser.actions import ask_and_wait, click_in_menu, session_of
from tests.server.browser.conftest import Opener
from tests.server.browser.serving import Serving
from tests.server.browser.test_axe import violations
from tests.server.page.test_start import SAWS, TOKENS

NOTES = {"winter/saw.md": "The saw hangs on the nail.", "summer/saw.md": "The saw hangs on the hook."}
MODELS = ServerSettings(models=("extractive", "openai:gpt-4o-mini"))
LOOKS = pytest.mark.parametrize(
    ("scheme", "width"),
    [
        ("light", 390),
        ("dark", 1280),
        pytest.param("light", 1280, marks=pytest.mark.slow),
        pytest.param("dark", 390, marks=pytest.mark.slow),
    ],
)


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server over two folders, with two models."""
    folder = tmp_path_factory.mktemp("scope")
    for name, text in NOTES.items():
        (folder / "docs" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "docs" / name).write_text(f"# {name}\n\n## Where does the saw hang?\n\n{text}\n", "utf-8")
    with KnowledgeBase.open(folder / "kb", Pipeline.from_yaml("embed: {name: hashing}\n")) as kb:
        kb.index(folder / "docs")
    with Serving(folder / "kb", MODELS) as served:
        yield served


def test_a_suggested_question_is_asked_with_one_click(page: Page) -> None:
    expect(page.get_by_role("heading", name="What can be asked")).to_be_visible()
    page.get_by_role("button", name="Where does the saw hang?").first.click()
    turn = page.locator(".turn")
    expect(turn).to_have_attribute("aria-busy", "false")
    expect(turn.locator(".question")).to_contain_text("Where does the saw hang?")


@pytest.mark.parametrize(("folder", "word", "other"), [("winter", "nail", "hook"), ("summer", "hook", "nail")])
def test_a_question_asks_only_in_the_chosen_folder(page: Page, folder: str, word: str, other: str) -> None:
    page.get_by_role("combobox", name="Ask in").select_option(label=f"docs/{folder} (1 document)")
    turn = ask_and_wait(page, "Where does the saw hang?")
    expect(turn).to_contain_text(word)
    assert other not in str(turn.text_content())


def test_a_question_asks_only_the_open_document(page: Page, serving: Serving) -> None:
    turn = ask_and_wait(page, "Where does the saw hang?")
    turn.get_by_role("button", name="Citation 1:").click()
    [first, *_] = serving.message(session_of(page))["citations"]
    page.get_by_role("button", name="Only this document").click()
    expect(page.get_by_role("group", name="What to ask")).to_contain_text("Only in saw.md")
    ask_and_wait(page, "And where does the saw hang in summer and winter?")
    cited = {item["source"] for item in serving.message(session_of(page))["citations"]}
    assert cited <= {first["source"]}
    page.get_by_role("button", name="All documents").click()
    expect(page.get_by_role("combobox", name="Ask in")).to_have_value("")


def test_the_model_is_chosen_where_the_server_offers_several(page: Page) -> None:
    options = page.get_by_role("combobox", name="Model").locator("option")
    expect(options).to_have_text(["extractive", "openai:gpt-4o-mini"])


@LOOKS
def test_a_link_shows_the_session_without_a_field_until_it_is_revoked(
    open_page: Opener, serving: Serving, width: int, scheme: str
) -> None:
    page = open_page(
        origin=serving.origin, expected="404", color_scheme=scheme, viewport={"width": width, "height": 844}
    )
    expect(page.get_by_role("combobox", name="Ask in")).to_be_visible()
    expect(page.locator(".suggestions")).to_be_visible()
    assert violations(page) == []
    ask_and_wait(page, "Where does the saw hang?")
    click_in_menu(page, "Share").click()
    dialog = page.get_by_role("dialog", name="Read-only link")
    address = dialog.get_by_role("textbox", name="Link").input_value()
    assert re.fullmatch(re.escape(serving.origin) + r"/#/shared/share_[\w-]{22}", address)
    assert violations(page) == []
    reader = open_page(address.removeprefix(f"{serving.origin}/"), origin=serving.origin, expected="404")
    expect(reader.locator(".turn")).to_have_count(1)
    expect(reader.get_by_text("read only")).to_be_visible()
    expect(reader.get_by_role("textbox", name="Question")).to_have_count(0)
    expect(reader.get_by_role("button", name="Edit the question")).to_have_count(0)
    expect(reader.locator(".thumbs")).to_have_count(0)
    assert violations(reader) == []
    dialog.get_by_role("button", name="Revoke").click()
    expect(dialog).to_be_hidden()
    reader.reload()
    expect(reader.get_by_role("alert")).to_have_text("This link was revoked, or its session was deleted.")


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Serving]:
    """A server that requires a token, over one uploaded document."""
    (tmp_path / "kb" / "uploads").mkdir(parents=True)
    (tmp_path / "kb" / "uploads" / "saws.md").write_text(SAWS, "utf-8")
    with KnowledgeBase.open(tmp_path / "kb", Pipeline.from_yaml("embed: {name: hashing}\n")) as kb:
        kb.index(tmp_path / "kb" / "uploads")
    with Serving(tmp_path / "kb", ServerSettings(tokens=TOKENS)) as served:
        yield served


def test_a_link_is_read_without_a_token_and_leads_nowhere_else(guarded: Serving, open_page: Opener) -> None:
    asked = guarded.ask("POST", "chat", {"message": "Where does the saw hang?"}, TOKENS[0])
    share = guarded.ask("POST", f"session/{asked['session_id']}/share", token=TOKENS[0])["share_id"]
    reader = open_page(f"#/shared/{share}", origin=guarded.origin, expected="status of 401")
    turn = reader.locator(".turn")
    expect(turn.locator(".sources .file").first).to_have_text("saws.md")
    turn.get_by_role("button", name="Citation 1: saws.md").click()
    expect(reader.get_by_role("complementary")).to_contain_text("the long nail above the bench")
    expect(reader.get_by_role("navigation")).to_have_count(0)
    expect(reader.get_by_role("dialog")).to_have_count(0)
    assert violations(reader) == []
    reader.keyboard.press("Escape")
    reader.get_by_role("link", name="Open ragkit").click()
    expect(reader.get_by_role("dialog", name="This server requires a token")).to_be_visible()
    expect(reader.locator("#sessions .title")).to_have_count(0)


def test_a_follow_up_question_is_asked_with_one_click(guarded: Serving, open_page: Opener) -> None:
    page = open_page(origin=guarded.origin, expected="status of 401")
    page.get_by_role("textbox", name="Token").fill(TOKENS[1])
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Ask 1 document")
    turn = ask_and_wait(page, "Where does the saw hang?")
    expect(turn.locator(".sources .file").first).to_have_text("saws.md")  # without the folder of uploads
    following = turn.get_by_role("region", name="Other sections of the cited documents").get_by_role("button")
    expect(following).to_have_count(2)
    assert violations(page) == []
    following.first.click()
    turns = page.locator(".turn")
    expect(turns).to_have_count(2)
    expect(turns.last.locator(".question")).to_contain_text("Sharpening the teeth")
    expect(following).to_have_count(0)
    expect(turns.last).to_have_attribute("aria-busy", "false")
    page.reload()
    expect(turns).to_have_count(2)
    expect(following).to_have_count(0)
