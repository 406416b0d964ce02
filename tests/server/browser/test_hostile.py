"""Hostile text of documents, models, names and servers is displayed as text."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from ragkit import KnowledgeBase, Pipeline
from ragkit.agent.messages import ToolCall
from tests.server.browser.actions import ask_and_wait, show_text
from tests.server.browser.conftest import Opener
from tests.server.browser.hostile import ADDRESSES, ANSWERS, EVIL, FILES, RUN, SECRET, TITLES
from tests.server.browser.page_monitor import PageMonitor
from tests.server.browser.serving import Serving
from tests.server.browser.stage import Play, Stage, search

QUESTION = "What does the kraken eat?"


def play(question: str) -> Play:
    """The hostile answer that the question names, with a citation if it has none."""
    return [search("kraken"), [f"{ANSWERS[question]}\n\nSaid [1]."]]


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server over hostile documents."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "files").mkdir()
    for name, text in FILES.items():
        (folder / "files" / name).write_text(text, "utf-8")
    with KnowledgeBase.open(folder / "kb", Pipeline.from_yaml("embed: {name: hashing}")) as kb:
        assert kb.index(folder / "files").files["added"] == len(FILES)
    with Serving(folder / "kb") as served:
        served.kb.stage = Stage(play)
        yield served


@pytest.fixture(scope="module")
def chat(profile: PageMonitor) -> Page:
    """A page that asks one question after another."""
    return profile.open()


@pytest.mark.rotating
@pytest.mark.parametrize("entry", ANSWERS)
def test_hostile_answers_are_shown_as_text(chat: Page, profile: PageMonitor, entry: str) -> None:
    chat.get_by_role("link", name="New session").click()
    expect(chat.locator(".turn")).to_have_count(0)
    turn = ask_and_wait(chat, entry)
    expect(turn.get_by_role("button", name="Citation 1:")).not_to_have_count(0)
    turn.locator(".text > *").first.hover()
    profile.check(chat)


def test_an_image_becomes_a_link_that_shows_its_address(chat: Page) -> None:
    turn = ask_and_wait(chat, "an image")
    link = turn.locator(".text .link")
    expect(link).to_have_text(f"chart ({EVIL})")
    expect(link.get_by_role("link")).to_have_attribute("href", SECRET)
    expect(turn.locator("img")).to_have_count(0)


@pytest.mark.parametrize(
    ("entry", "links"),
    [
        ("a script address", []),
        ("an address of a file", []),
        ("an address without a scheme", []),
        ("a host behind a user name", []),  # the server removes addresses that are in no passage
        ("a host of look-alike letters", []),
        ("a text that runs backwards", [f"[U+202E]moc.knab ({EVIL})"]),
        ("a number that is no citation", []),
        ("a link in a link", []),
    ],
)
def test_a_link_shows_its_address_or_is_not_a_link(chat: Page, entry: str, links: list[str]) -> None:
    turn = ask_and_wait(chat, entry)
    expect(turn.locator(".text .link")).to_have_text(links)
    expect(turn.locator(".text a")).to_have_count(len(links))


def test_the_text_of_an_attack_is_shown_verbatim(chat: Page) -> None:
    turn = ask_and_wait(chat, "a script")
    expect(turn.locator(".text p").first).to_have_text(f"<script>{RUN}</script>")


@pytest.mark.rotating
@pytest.mark.parametrize("name", FILES, ids=range(len(FILES)))
def test_hostile_documents_and_names_are_shown_as_text(chat: Page, profile: PageMonitor, name: str) -> None:
    page = chat
    page.goto(f"{profile.origin}/#/status")
    row = page.locator(".documents tbody tr").nth(sorted(FILES).index(name))
    row.get_by_role("button").first.click()
    shown = name.replace("\u202e", "[U+202E]")
    expect(page.locator("#panel-title")).to_have_text(shown)
    show_text(page)
    lines = page.locator(".line .t")
    expect(lines).not_to_have_count(0)
    assert "kraken" in " ".join(lines.all_text_contents())
    lines.first.hover()
    row.hover()
    profile.check(page)
    page.keyboard.press("Escape")


def test_hostile_hits_are_shown_as_text(open_page: Opener) -> None:
    page = open_page("#/search?q=kraken&k=20")
    expect(page.locator(".hit")).to_have_count(len(FILES))
    for hit in page.locator(".hit-open").all():
        hit.hover()
        hit.click()
        expect(page.locator(".views-bar")).to_be_visible()
        show_text(page)
        expect(page.locator(".line.cited")).not_to_have_count(0)
        page.keyboard.press("Escape")


@pytest.mark.rotating
@pytest.mark.parametrize("title", TITLES, ids=range(len(TITLES)))
def test_hostile_titles_are_shown_as_text(chat: Page, profile: PageMonitor, serving: Serving, title: str) -> None:
    session = serving.ask("POST", "session/start", {"title": "plain"})["id"]
    stored = serving.ask("PATCH", f"session/{session}", {"title": title})["title"]
    page = chat
    page.goto(f"{profile.origin}/#/s/{session}")
    shown = stored.replace("\u202e", "[U+202E]")
    expect(page.get_by_role("heading", level=1)).to_have_text(shown)
    expect(page).to_have_title(f"{shown} - ragkit")
    page.locator("#session-menu").click()
    page.get_by_role("button", name="Rename").click()
    expect(page.get_by_role("textbox", name="Title of the session")).to_have_value(stored)
    page.goto(f"{profile.origin}/#/search")
    page.reload()
    expect(page.locator("#sessions .title").first).to_have_text(shown)
    profile.check(page)


@pytest.mark.rotating
@pytest.mark.parametrize("address", ADDRESSES, ids=range(len(ADDRESSES)))
def test_hostile_addresses_are_shown_as_text(open_page: Opener, profile: PageMonitor, address: str) -> None:
    page = open_page(address)
    profile.expect("status of 4")
    expect(page.locator("#sessions li")).not_to_have_count(0)
    expect(page.locator(".waiting")).to_have_count(0)


@pytest.mark.parametrize("what", [f"<img src=x onerror={RUN}>", f"[x](javascript:{RUN})", "\u202ekraken"])
def test_arguments_and_results_of_tools_are_shown_as_text(open_page: Opener, serving: Serving, what: str) -> None:
    call = ToolCall(name="search_knowledge_base", arguments={"query": what, f"<b>{what}": what})
    serving.kb.stage = Stage({QUESTION: [call, search(what), ["Fish."]]})
    try:
        turn = ask_and_wait(open_page(), QUESTION)
        expect(turn.locator(".calls li").last).to_contain_text(what.replace("\u202e", "[U+202E]"))
        turn.get_by_role("button", name="Trace").click()
        expect(turn.page.locator(".timeline li")).not_to_have_count(0)
        for row in turn.page.locator("summary.row:visible").all():
            row.click()
    finally:
        serving.kb.stage = Stage(play)


@pytest.mark.parametrize("what", [f"<img src=x onerror={RUN}>", f"</p><script>{RUN}</script>", f"![x]({SECRET})"])
def test_hostile_errors_are_shown_as_text(open_page: Opener, profile: PageMonitor, what: str) -> None:
    page = open_page()
    profile.expect("status of 500")
    result = json.dumps({"error": {"message": what, "type": what, "param": None, "code": what}})
    for path in ("chat", "status", "v1/search", "sessions?*"):
        page.route(f"**/{path}", lambda route: route.fulfill(status=500, body=result, content_type="text/html"))
    expect(ask_and_wait(page, "a script").get_by_role("alert")).to_contain_text(what)
    page.goto(f"{profile.origin}/#/search?q=kraken")
    expect(page.get_by_role("alert")).to_have_text(what)
    page.goto(f"{profile.origin}/#/status")
    expect(page.get_by_role("alert")).to_have_text(what)
