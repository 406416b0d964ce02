"""Search, status, token dialog and empty views."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Page, expect

from ragkit import KnowledgeBase, Pipeline
from ragkit.server.settings import ServerSettings
from tests.server.browser.actions import ask_and_wait, cited_lines, show_text
from tests.server.browser.conftest import FILES, Opener
from tests.server.browser.serving import Serving

TOKEN = "a-token-of-twenty-letters"


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """A knowledge base of two notes, one of which cannot be read."""
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "tea.md").write_text("# Tea\n\nGreen tea steeps for two minutes at 75 degrees.\n", "utf-8")
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7\nnothing that can be read\n")
    with KnowledgeBase.open(tmp_path / "kb", Pipeline.from_yaml("embed: {name: hashing}")) as kb:
        kb.index(folder)
    return tmp_path / "kb"


@pytest.fixture
def guarded(notes: Path) -> Iterator[Serving]:
    """A server that requires a token."""
    with Serving(notes, ServerSettings(tokens=(TOKEN,))) as served:
        yield served


def test_the_link_of_a_citation_opens_the_page_at_its_lines(open_page: Opener, guarded: Serving) -> None:
    [row] = httpx2.get(f"{guarded.origin}/documents", headers={"authorization": f"Bearer {TOKEN}"}).json()["documents"]
    page = open_page(f"documents/{row['id']}?start_line=3&end_line=3", guarded.origin, expected="status of 401")
    page.get_by_role("textbox", name="Token").fill(TOKEN)
    page.get_by_role("button", name="Continue").click()
    expect(page.locator("#panel-title")).to_have_text("tea.md")
    show_text(page)
    assert cited_lines(page) == {3: "Green tea steeps for two minutes at 75 degrees."}


def test_hits_are_shown_with_the_contributions_to_their_rank(open_page: Opener, serving: Serving) -> None:
    page = open_page("#/search")
    expect(page.get_by_role("searchbox", name="Search")).to_be_focused()
    page.get_by_role("searchbox", name="Search").fill("dewar cold")
    page.get_by_role("spinbutton", name="Hits").fill("3")
    page.keyboard.press("Enter")
    result = serving.ask("POST", "v1/search", {"query": "dewar cold", "top_k": 3, "explain": True})["hits"]
    hits = page.get_by_role("region", name="Hits").get_by_role("listitem")
    expect(hits).to_have_count(3)
    for shown, hit in zip(hits.all(), result, strict=True):
        expect(shown).to_contain_text(hit["source"])
        expect(shown.locator(".score")).to_have_text(f"{hit['score']:.2f}")
        reasons = [
            f"{name} rank {rank}, {unit} {hit['scores'][name]:.2f}, adds {hit['explain']['shares'][name]:.2f}"
            for name, unit in (("dense", "cosine"), ("lexical", "BM25"))
            if (rank := hit["explain"]["ranks"].get(name))
        ]
        assert reasons
        expect(shown.locator(".part", has_text="rank")).to_have_text(reasons)
    shares = hits.first.locator(".bar span").evaluate_all("all => all.map((one) => one.getBoundingClientRect().width)")
    first = result[0]["explain"]["shares"]
    assert shares[0] / sum(shares) == pytest.approx(first["dense"] / (first["dense"] + first["lexical"]), abs=0.02)


def test_a_hit_opens_its_lines_and_the_address_keeps_the_search(open_page: Opener, serving: Serving) -> None:
    page = open_page("#/search?q=dewar+cold&mode=lexical&k=2")
    [first, _] = serving.ask("POST", "v1/search", {"query": "dewar cold", "top_k": 2, "mode": "lexical"})["hits"]
    page.locator(".hit-open").first.click()
    show_text(page)
    expect(page.locator(".line.cited")).not_to_have_count(0)
    assert "\n".join(cited_lines(page).values()).find(first["text"]) >= 0
    assert list(cited_lines(page)) == list(range(first["start_line"], first["end_line"] + 1))
    expect(page.get_by_role("combobox", name="Mode")).to_have_value("lexical")


def test_a_filter_limits_a_search_and_an_invalid_one_gives_one_line(open_page: Opener) -> None:
    page = open_page("#/search?q=dewar")
    page.get_by_role("textbox", name="Only where").fill('format == "xlsx"')
    page.keyboard.press("Enter")
    expect(page.locator(".hit .file").first).to_have_text("equipment.xlsx")
    assert set(page.locator(".hit .file").all_text_contents()) == {"equipment.xlsx"}


def test_the_status_view_shows_the_knowledge_base(open_page: Opener, serving: Serving) -> None:
    page = open_page("#/status")
    status = serving.ask("GET", "status")
    counts = page.get_by_role("region", name="Facts").get_by_role("listitem")
    expect(counts.filter(has_text="Documents")).to_have_text(f"{len(FILES)} Documents")
    expect(counts.filter(has_text="Passages")).to_have_text(f"{status['chunks']} Passages")
    expect(page.locator(".facts")).to_contain_text(status["settings"]["embed"]["fingerprint"])
    expect(page.locator(".facts")).to_contain_text("sqlite")
    expect(page.get_by_text("All indexed files are unchanged.")).to_be_visible()
    expect(page.locator(".documents tbody tr")).to_have_count(len(FILES))
    page.get_by_role("searchbox", name="Filter documents by name").fill("LEAVE")
    expect(page.locator(".documents tbody .file")).to_have_text(["leave.md"])
    page.locator(".documents tbody .plain").click()
    expect(page.locator("#panel-title")).to_have_text("leave.md")
    expect(page.locator(".line.cited")).to_have_count(0)
    page.keyboard.press("Escape")
    page.get_by_role("searchbox", name="Filter documents by name").fill("nothing has this name")
    expect(page.get_by_text("No documents match.")).to_be_visible()


def test_the_token_is_requested_until_it_is_valid_and_kept_on_reload(open_page: Opener, guarded: Serving) -> None:
    page = open_page(origin=guarded.origin, expected="status of 401")
    dialog = page.get_by_role("dialog", name="This server requires a token")
    field = dialog.get_by_role("textbox", name="Token")
    expect(field).to_be_focused()
    field.fill("not-the-right-one-at-all")
    page.keyboard.press("Enter")
    expect(dialog.get_by_role("alert")).to_have_text("The server rejected the token.")
    field.fill(TOKEN)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Ask 1 document")
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text("Ask 1 document")
    turn = ask_and_wait(page, "How long does green tea steep?")
    expect(turn.get_by_role("button", name="Citation 1:")).to_be_visible()
    assert page.evaluate("JSON.stringify(localStorage)").find(TOKEN) == -1


def test_an_unreadable_file_is_listed_with_the_reason(open_page: Opener, notes: Path) -> None:
    with Serving(notes) as served:
        page = open_page("#/status", origin=served.origin)
        failures = page.get_by_role("region", name="Could not be read").get_by_role("listitem")
        expect(failures).to_have_count(1)
        [failure] = served.ask("GET", "status")["failures"]
        expect(failures).to_contain_text("broken.pdf")
        expect(failures).to_contain_text(failure["error"])


def test_an_empty_knowledge_base_says_how_to_fill_it(open_page: Opener, tmp_path: Path) -> None:
    with KnowledgeBase.open(tmp_path / "kb", Pipeline.from_yaml("embed: {name: hashing}")) as kb:
        (tmp_path / "empty").mkdir()
        kb.index(tmp_path / "empty")
    with Serving(tmp_path / "kb") as served:
        page = open_page(origin=served.origin)
        expect(page.get_by_role("heading", level=1)).to_have_text("Add your documents")
        expect(page.get_by_role("button", name="Choose files")).to_be_visible()


def test_a_search_that_finds_nothing_says_what_to_try(open_page: Opener) -> None:
    page = open_page("#/search?q=xylophone+zeppelin&mode=lexical")
    expect(page.get_by_text("No results. Try other words or another mode.")).to_be_visible()


def test_older_sessions_are_listed_on_request(open_page: Opener, serving: Serving) -> None:
    for n in range(35):
        serving.ask("POST", "session/start", {"title": f"Session {n}"})
    page = open_page()
    sessions = page.get_by_role("navigation").locator("#sessions a")
    expect(sessions).to_have_count(30)
    page.get_by_role("button", name="Show older").click()
    expect(sessions.filter(has_text="Session")).to_have_count(35)


def test_rows_of_two_values_are_a_table_where_there_are_several(page: Page) -> None:
    shown = page.evaluate("""async () => {
      const { recordsAsTables } = await import("/static/records.js");
      const rows = ["Code: 7; Stock: 3 [1]\\nCode: 9; Stock: 4 [2]", "- Code: 7; Stock: 3\\n- Code: 9; Stock: 4 [1]"];
      return [...rows, "Code: 7; Stock: 3 [1]"].map(recordsAsTables);
    }""")
    head = "\n| Code | Stock |\n| --- | --- |\n"
    assert shown == [f"{head}| 7 | 3 [1] |\n| 9 | 4 [2] |", f"{head}| 7 | 3 |\n| 9 | 4 [1] |", "Code: 7; Stock: 3 [1]"]


def test_citations_below_a_command_are_no_part_of_it(page: Page) -> None:
    html = page.evaluate("""async () => {
      const { renderInto } = await import("/static/markdown.js");
      const element = document.createElement("div");
      const cite = (n) => Object.assign(document.createElement("b"), { textContent: n });
      renderInto(element, "Run this:\\n    open --all [1] [2]", cite);
      return element.innerHTML;
    }""")
    assert "<code>open --all</code>" in html
    assert "<p><b>1</b> <b>2</b></p>" in html


def test_markdown_is_rendered(page: Page, serving: Serving) -> None:
    text = (
        "## Steps\n\n1. **Open** the _valve_\n2. Wait\n   - one\n   - two\n\n> a quote\n\n"
        "| a | b |\n|---|---|\n| 1 | `x|y` |\n\n```sh\nls -l <dir>\n```\n\n"
        "snake_case_name, 2 * 3 * 4, ~~gone~~ \\*not\\*\n\nRun this:\n    open --all\n      --slowly\nThen wait"
    )
    serving.staged({"Markdown?": [[text[:40], text[40:]]]})
    try:
        body = ask_and_wait(page, "Markdown?").locator(".text")
    finally:
        serving.staged({})
    shape = body.evaluate("""function shape(node) {
      node.normalize();
      if (node.nodeType === 3) return node.data.trim();
      return [node.localName, ...[...node.childNodes].map(shape).filter((one) => one !== "")];
    }""")
    assert shape[1:] == [
        ["h4", "Steps"],
        [
            "ol",
            ["li", ["strong", "Open"], "the", ["em", "valve"]],
            ["li", "Wait", ["ul", ["li", "one"], ["li", "two"]]],
        ],
        ["blockquote", ["p", "a quote"]],
        [
            "div",
            [
                "table",
                ["thead", ["tr", ["th", "a"], ["th", "b"]]],
                ["tbody", ["tr", ["td", "1"], ["td", "`x"], ["td", "y`"]]],
            ],
        ],
        ["pre", ["code", "ls -l <dir>"]],
        ["p", "snake_case_name, 2 * 3 * 4,", ["del", "gone"], "*not*"],
        ["p", "Run this:"],
        ["div", ["pre", ["code", "open --all\n  --slowly"]]],
        ["p", "Then wait"],
    ]
