"""Owners change users and see the settings in the page; sessions have labels and notes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from ragkit import KnowledgeBase, Pipeline
from ragkit.server.settings import ServerLimits, ServerSettings
from tests.server.browser.actions import ask_and_wait, click_in_menu, session_of
from tests.server.browser.conftest import Opener
from tests.server.browser.serving import Serving
from tests.server.browser.test_axe import violations

TOKEN = "a-token-of-twenty-letters"
KEY = "sk-a-key-that-nobody-may-see"
PHONE = {"width": 390, "height": 844}
LIMITS = ServerLimits(cached_answers=0, answer_usd=0.5)


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """A knowledge base of one note."""
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "tea.md").write_text("# Tea\n\nGreen tea steeps for two minutes at 75 degrees.\n", "utf-8")
    with KnowledgeBase.open(tmp_path / "kb", Pipeline.from_yaml("embed: {name: hashing}")) as kb:
        kb.index(folder)
    return tmp_path / "kb"


@pytest.fixture
def fresh(notes: Path) -> Iterator[Serving]:
    """A server without users and tokens."""
    with Serving(notes, ServerSettings(limits=LIMITS)) as served:
        yield served


def open_settings(page: Page) -> Locator:
    """The dialog of the settings."""
    page.get_by_role("button", name="Settings").click()
    return page.get_by_role("dialog", name="Settings")


def users(dialog: Locator) -> Locator:
    """The rows of the users."""
    return dialog.locator(".users > li")


def test_an_owner_adds_changes_and_removes_users_and_their_tokens(fresh: Serving, open_page: Opener) -> None:
    page = open_page(origin=fresh.origin, reduced_motion="reduce")
    dialog = open_settings(page)
    expect(dialog).to_contain_text("No token is needed now. The first user is an owner")
    dialog.get_by_role("textbox", name="Name").fill("olga")
    page.keyboard.press("Enter")
    field = dialog.get_by_role("textbox", name="Token of olga, shown once")
    expect(field).to_be_focused()
    token = field.input_value()
    expect(users(dialog)).to_contain_text(["olgayouowner"])
    assert [row["user"] for row in fresh.ask("GET", "access", token=token)["users"]] == ["olga"]

    dialog.get_by_role("textbox", name="Name").fill("ann")
    dialog.get_by_role("combobox", name="Role").select_option("reader")
    dialog.get_by_role("textbox", name="Groups").fill("hr, board")
    dialog.get_by_role("combobox", name="Token valid").select_option("30d")
    dialog.get_by_role("button", name="Add a user").click()
    reader = dialog.get_by_role("textbox", name="Token of ann, shown once").input_value()
    expect(users(dialog).first).to_contain_text("annreader, in hr, board")
    expect(users(dialog).first).to_contain_text("valid until")
    assert violations(page) == []

    dialog.get_by_role("button", name="New token of ann").click()
    expect(users(dialog).first.get_by_role("textbox", name="Name of the token")).to_be_focused()
    page.keyboard.press("Enter")
    expect(dialog.get_by_role("list", name="Tokens of ann").get_by_role("listitem")).to_have_count(2)
    laptop = dialog.get_by_role("textbox", name="Token of ann, shown once").input_value()
    assert fresh.ask("GET", "bases", token=laptop) and laptop != reader
    dialog.get_by_role("button", name="Revoke the token first of ann").click()
    page.get_by_role("button", name="Revoke", exact=True).last.click()
    expect(dialog.get_by_role("list", name="Tokens of ann").get_by_role("listitem")).to_have_count(1)

    dialog.get_by_role("button", name="Change ann").click()
    users(dialog).first.get_by_role("combobox", name="Role").select_option("editor")
    page.keyboard.press("Escape")
    expect(dialog.get_by_role("button", name="Change ann")).to_be_focused()
    page.keyboard.press("Enter")
    users(dialog).first.get_by_role("combobox", name="Role").select_option("editor")
    users(dialog).first.get_by_role("button", name="Save").click()
    expect(users(dialog).first).to_contain_text("anneditor")
    dialog.get_by_role("button", name="Remove ann").click()
    page.get_by_role("dialog", name="Remove ann?").get_by_role("button", name="Remove").click()
    expect(users(dialog)).to_have_count(1)
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Settings")).to_be_focused()


def test_the_last_owner_stays_and_the_page_says_why(fresh: Serving, open_page: Opener) -> None:
    added = fresh.ask("POST", "access/users", {"user": "olga", "role": "owner"})
    page = open_page(origin=fresh.origin, expected="status of 4")
    page.get_by_role("textbox", name="Token").fill(added["token"])
    page.get_by_role("button", name="Continue").click()
    dialog = open_settings(page)
    dialog.get_by_role("button", name="Remove olga").click()
    page.get_by_role("dialog", name="Remove olga?").get_by_role("button", name="Remove").click()
    expect(dialog.get_by_role("alert")).to_contain_text("an owner with a valid token must be left")
    expect(users(dialog)).to_have_count(1)


def test_only_owners_are_offered_the_settings(fresh: Serving, open_page: Opener) -> None:
    owner = fresh.ask("POST", "access/users", {"user": "olga", "role": "owner"})["token"]
    token = fresh.ask("POST", "access/users", {"user": "eve", "role": "editor"}, owner)["token"]
    page = open_page(origin=fresh.origin, expected="status of 401")
    page.get_by_role("textbox", name="Token").fill(token)
    page.get_by_role("button", name="Continue").click()
    expect(page.locator("#version")).to_contain_text("ragkit")
    expect(page.get_by_role("button", name="Settings")).to_have_count(0)


def test_the_settings_show_limits_and_the_names_of_keys(
    fresh: Serving, open_page: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    page = open_page(origin=fresh.origin, viewport=PHONE, color_scheme="dark", reduced_motion="reduce")
    page.get_by_role("button", name="Menu").click()
    dialog = open_settings(page)
    dialog.get_by_role("button", name="Server").click()
    expect(dialog).to_contain_text("Cost of one answer")
    expect(dialog).to_contain_text("$0.50 --max-cost")
    expect(dialog).to_contain_text("ANTHROPIC_API_KEY is set")
    assert KEY not in page.content()
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_a_session_is_found_by_its_label_and_its_note_is_not_shared(open_page: Opener, serving: Serving) -> None:
    page = open_page()
    ask_and_wait(page, "How long does a full dewar stay cold?")
    session = session_of(page)
    click_in_menu(page, "Labels and note").click()
    dialog = page.get_by_role("dialog", name="Labels and note")
    dialog.get_by_role("textbox", name="Labels").fill("lab, cold  store, lab")
    dialog.get_by_role("textbox", name="Note").fill("Ask Maren about <b>the seal</b>.")
    assert violations(page) == []
    dialog.get_by_role("button", name="Save").click()
    expect(page.locator(".about .label")).to_have_text(["lab", "cold store"])
    expect(page.locator(".session-note")).to_have_text("Ask Maren about <b>the seal</b>.")
    expect(page.locator("#session-menu")).to_be_focused()

    page.goto(f"{serving.origin}/#/")
    ask_and_wait(page, "How many days of leave are there?")
    other = session_of(page)
    choice = page.get_by_role("combobox", name="Label")
    choice.select_option("cold store")
    links = page.locator("#sessions a")
    expect(links).to_have_count(1)
    expect(links).to_have_attribute("href", f"#/s/{session}")
    choice.select_option("")
    expect(page.locator(f"#sessions a[href='#/s/{other}']")).to_have_count(1)
    page.get_by_role("searchbox", name="Find a session").fill("maren")
    expect(links).to_have_count(1)
    expect(links).to_have_attribute("href", f"#/s/{session}")

    click_in_menu(page, "Labels and note").click()
    page.get_by_role("button", name="Add the label lab").click()
    expect(page.get_by_role("textbox", name="Labels")).to_have_value("lab")
    page.keyboard.press("Escape")
    assert serving.ask("GET", f"session/{other}")["labels"] == []
    link = serving.ask("POST", f"session/{session}/share")["share_id"]
    page.goto(f"{serving.origin}/#/shared/{link}")
    expect(page.locator(".turn")).to_have_count(1)
    expect(page.locator("main")).not_to_contain_text("Maren")
    expect(page.locator("main")).not_to_contain_text("cold store")
