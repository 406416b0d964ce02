"""Questions, streamed answers, citations and sessions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from threading import Event
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Page, expect

from ragkit.errors import InvalidRequest
from tests.server.browser.actions import ask, ask_and_wait, cited_lines, click_in_menu, session_of, show_text
from tests.server.browser.conftest import Opener
from tests.server.browser.page_monitor import PageMonitor
from tests.server.browser.serving import Serving
from tests.server.browser.stage import search

DEWAR = "How long does a full dewar stay cold?"
FILLING = "What must be done when filling the dewar?"
"""Its answer has several citations."""
SALARY = "What is the salary of the Director?"


@pytest.fixture(autouse=True)
def _restore_extractive_answers(serving: Serving) -> Iterator[None]:
    yield
    serving.staged({})


def test_the_answer_grows_while_the_model_writes_it(page: Page, serving: Serving) -> None:
    first, second = Event(), Event()
    serving.staged(
        {
            DEWAR: [
                search("dewar cold hours"),
                ["It keeps **cold**", first, " for 16 hours [1],", second, " says `manual` M-04."],
            ]
        }
    )
    turn = ask(page, DEWAR)
    text = turn.locator(".text")
    expect(text).to_have_text("It keeps cold")
    expect(text.locator("strong")).to_have_text("cold")
    expect(turn).to_have_attribute("aria-busy", "true")
    first.set()
    expect(text).to_have_text("It keeps cold for 16 hours 1,")
    expect(turn.get_by_role("button", name="Citation 1")).to_have_count(0)  # not known while streaming
    expect(turn).to_have_attribute("aria-busy", "true")
    second.set()
    expect(turn).to_have_attribute("aria-busy", "false")
    expect(text).to_have_text("It keeps cold for 16 hours 1, says manual M-04.")
    expect(turn.get_by_role("button", name="Citation 1:")).to_have_count(1)


def test_a_tool_call_is_shown_with_its_arguments_and_result(page: Page, serving: Serving) -> None:
    resume = Event()
    serving.staged({DEWAR: [search("dewar cold hours"), [resume, "For 16 hours [1]."]]})
    call = ask(page, DEWAR).get_by_role("list", name="Tool calls").get_by_role("listitem")
    expect(call).to_contain_text("Search dewar cold hours")
    expect(call).to_contain_text("8 passages")
    resume.set()


def test_every_citation_opens_its_document_with_exactly_the_cited_lines_highlighted(
    page: Page, serving: Serving
) -> None:
    turn = ask_and_wait(page, FILLING)
    citations = serving.message(session_of(page))["citations"]
    assert len(citations) > 1
    assert [item["source"].endswith("liquid-nitrogen.pdf") for item in citations] == [True] * len(citations)
    for item in citations:
        turn.get_by_role("button", name=f"Citation {item['n']}:").click()
        panel = page.get_by_role("complementary")
        expect(panel.get_by_role("heading", level=2)).to_have_text("liquid-nitrogen.pdf")
        expect(panel).to_contain_text(f"page {item['page']} {item['support']}")
        document = serving.ask("GET", f"documents/{item['document_id']}")
        lines = document["text"].split("\n")
        expected = {n: lines[n - 1] for n in range(item["start_line"], item["end_line"] + 1)}
        show_text(page)
        expect(page.locator(".line.cited")).to_have_count(len(expected))
        assert cited_lines(page) == expected
        assert "\n".join(page.locator(".line mark").all_text_contents()) == item["quote"]
        expect(page.locator(".line.cited").first).to_be_in_viewport(ratio=1)
        assert page.locator(".line").count() == len(lines)
        page.keyboard.press("Escape")
        expect(panel).to_be_hidden()


def test_the_panel_steps_through_citations(page: Page, serving: Serving) -> None:
    turn = ask_and_wait(page, FILLING)
    first, second = serving.message(session_of(page))["citations"][:2]
    turn.get_by_role("button", name="Citation 1:").click()
    show_text(page)
    expect(page.locator(".line.cited").first).to_have_attribute("data-line", str(first["start_line"]))
    page.get_by_role("button", name="Next").click()
    expect(page.locator(".line.cited").first).to_have_attribute("data-line", str(second["start_line"]))
    page.get_by_role("button", name="Close", exact=True).click()
    expect(turn.get_by_role("button", name="Citation 1:")).to_be_focused()


def test_an_unanswerable_question_shows_a_refusal(page: Page, serving: Serving) -> None:
    turn = ask_and_wait(page, SALARY)
    message = serving.message(session_of(page))
    assert message["abstained"] is True
    expect(turn.locator(".abstained")).to_have_text("Not in these documents")
    expect(turn.get_by_role("group", name="Nearest passages").get_by_role("listitem")).to_have_count(
        len(message["citations"])
    )
    meter = turn.get_by_role("meter", name="Evidence")
    expect(meter).to_have_attribute("aria-valuetext", f"{message['evidence']:.2f}, weak")


def test_the_confidence_is_shown_as_a_word_a_number_and_a_bar(page: Page, serving: Serving) -> None:
    meter = ask_and_wait(page, DEWAR).get_by_role("meter", name="Confidence")
    message = serving.message(session_of(page))
    evidence = message["evidence"]
    expect(meter).to_have_attribute("aria-valuenow", f"{evidence:.2f}")
    expect(meter).to_have_attribute("aria-valuetext", f"{evidence:.2f}, {message['confidence']}")
    share = meter.evaluate("bar => bar.firstChild.getBoundingClientRect().width / bar.getBoundingClientRect().width")
    assert share == pytest.approx(evidence, abs=0.01)


def test_a_reload_restores_the_whole_session(page: Page, serving: Serving) -> None:
    turn = ask_and_wait(page, DEWAR)
    ask_and_wait(page, SALARY)
    before = turn.inner_text()
    session = session_of(page)
    page.reload()
    expect(page.locator(".turn")).to_have_count(2)
    assert session_of(page) == session
    expect(page.locator(".turn .question")).to_have_text([DEWAR, SALARY])
    without_tools = "\n".join(line for line in before.splitlines() if not line.startswith("Search"))
    assert page.locator(".turn").first.inner_text().split() == without_tools.split()
    expect(page.get_by_role("navigation").get_by_role("link", name=DEWAR).first).to_have_attribute(
        "aria-current", "page"
    )


def test_a_session_continues_with_its_earlier_messages(page: Page, serving: Serving) -> None:
    ask_and_wait(page, DEWAR)
    ask_and_wait(page, SALARY)
    result = serving.ask("GET", f"session/{session_of(page)}")
    assert [item["content"] for item in result["history"] if item["role"] == "user"] == [DEWAR, SALARY]


def test_a_session_is_renamed_in_place(page: Page, serving: Serving) -> None:
    ask_and_wait(page, DEWAR)
    click_in_menu(page, "Rename").click()
    field = page.get_by_role("textbox", name="Title of the session")
    expect(field).to_have_value(DEWAR)
    field.fill("Dewars, again")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Dewars, again")
    expect(page.get_by_role("navigation").get_by_role("link", name="Dewars, again")).to_be_visible()
    assert serving.ask("GET", f"session/{session_of(page)}")["title"] == "Dewars, again"


def test_a_session_ends_after_confirmation_and_takes_no_more_messages(page: Page, serving: Serving) -> None:
    ask_and_wait(page, DEWAR)
    click_in_menu(page, "End").click()
    page.get_by_role("dialog", name="End this session?").get_by_role("button", name="Cancel").click()
    assert serving.ask("GET", f"session/{session_of(page)}")["ended"] is None
    click_in_menu(page, "End").click()
    page.get_by_role("dialog").get_by_role("button", name="End session").click()
    expect(page.get_by_role("textbox", name="Question")).to_be_disabled()
    assert serving.ask("GET", f"session/{session_of(page)}")["ended"] is not None


@pytest.mark.parametrize(("button", "suffix"), [("Export Markdown", ".md"), ("Export JSON", ".json")])
def test_a_session_is_exported_as_a_file(page: Page, serving: Serving, button: str, suffix: str) -> None:
    ask_and_wait(page, DEWAR)
    with page.expect_download() as started:
        click_in_menu(page, button).click()
    assert started.value.suggested_filename == f"How-long-does-a-full-dewar-stay-cold{suffix}"
    text = Path(started.value.path()).read_text("utf-8")
    message = serving.message(session_of(page))
    if suffix == ".json":
        assert [item["content"] for item in json.loads(text)["history"]] == [DEWAR, message["content"]]
    else:
        assert text.startswith(f"# {DEWAR}\n")
        assert message["content"] in text


def test_the_stop_button_ends_the_work_on_the_server(page: Page, serving: Serving) -> None:
    resume = Event()
    serving.staged({DEWAR: [search("dewar cold hours"), ["It is cold [1]. It keeps ", resume, "for 16 hours."]]})
    turn = ask(page, DEWAR)
    expect(turn.locator(".text")).to_contain_text("It keeps")
    page.get_by_role("button", name="Stop").click()
    expect(turn.locator(".end")).to_contain_text("The answer was stopped.")
    expect(page.get_by_role("button", name="Ask", exact=True)).to_be_visible()
    for name in ("Edit the question", "Regenerate", "Copy"):
        expect(turn.get_by_role("button", name=name)).to_be_visible()
    message = serving.message(session_of(page))  # while the model is paused
    assert (message["status"], message["content"]) == ("cancelled", "It is cold [1]. It keeps")
    assert [citation["n"] for citation in message["citations"]] == [1]
    resume.set()
    page.reload()
    expect(page.locator(".turn .end")).to_contain_text("The answer was stopped.")
    expect(page.locator(".turn .text").get_by_role("button", name="Citation 1:")).to_be_visible()


def test_an_answer_continues_while_another_view_is_open(page: Page, serving: Serving) -> None:
    resume = Event()
    serving.staged({DEWAR: [["It keeps cold ", resume, "for 16 hours."]]})
    expect(ask(page, DEWAR).locator(".text")).to_have_text("It keeps cold")
    page.get_by_role("link", name="Search").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Search")
    resume.set()
    page.get_by_role("navigation").get_by_role("link", name=DEWAR).first.click()
    expect(page.locator(".turn .text")).to_have_text("It keeps cold for 16 hours.")
    assert serving.message(session_of(page))["status"] == "done"


def test_a_failed_answer_gives_one_line_and_can_be_retried(page: Page, serving: Serving) -> None:
    serving.staged({DEWAR: [InvalidRequest("staged", "no such model"), ["For 16 hours."]]})
    turn = ask_and_wait(page, DEWAR)
    expect(turn.get_by_role("alert")).to_contain_text("the model provider failed")
    serving.staged({DEWAR: [["For 16 hours."]]})
    turn.get_by_role("button", name="Try again").click()
    expect(page.locator(".turn .text")).to_have_text(["For 16 hours."])


def test_an_unreachable_server_gives_one_line_that_says_what_to_do(page: Page, profile: PageMonitor) -> None:
    profile.expect("ERR_")
    page.route("**/chat", lambda route: route.abort("connectionrefused"))
    turn = ask_and_wait(page, DEWAR)
    expect(turn.get_by_role("alert")).to_contain_text("The server is not reachable. Check that ragkit serve is running")


def test_a_missing_session_gives_one_line_with_a_link(open_page: Opener, profile: PageMonitor) -> None:
    page = open_page("#/s/ses_never")
    profile.expect("404")
    expect(page.get_by_role("alert")).to_contain_text("This session was not found: it was deleted, or is too old.")
    page.get_by_role("link", name="Start a new session").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Ask 6 documents")


def test_the_trace_shows_steps_tokens_and_cost(page: Page, serving: Serving) -> None:
    serving.staged({DEWAR: [search("dewar cold hours"), ["For 16 hours [1]."]]})
    turn = ask_and_wait(page, DEWAR)
    expect(turn.locator(".figures")).to_contain_text("300 tokens")
    expect(turn.locator(".figures")).to_contain_text("$0.00084")
    turn.get_by_role("button", name="Trace").click()
    panel = page.get_by_role("complementary", name="Trace")
    expect(panel.locator(".facts")).to_contain_text("240 prompt, 60 completion")
    steps = panel.get_by_role("list", name="Spans by start time").locator(".name:visible")
    expect(steps).to_contain_text(["iteration 1", "search_knowledge_base"])
    trace = serving.ask("GET", f"traces/{serving.message(session_of(page))['trace_id']}")
    panel.get_by_role("button", name="under 1 ms").click()
    expect(panel.locator(".timeline .name")).to_have_text([item["name"] for item in trace["spans"]])
    expect(panel.locator(".timeline .name:visible")).to_have_count(len(trace["spans"]))


def test_a_citation_of_a_changed_file_is_marked(page: Page, indexed: Path) -> None:
    file = indexed / "sample" / "handbook" / "leave.md"
    text = file.read_text("utf-8")
    try:
        file.write_text(f"{text}\nOne more line.\n", "utf-8")
        turn = ask_and_wait(page, "How many days of holiday does a full-time employee get each year?")
        expect(turn.locator(".sources")).to_contain_text("changed since")
        turn.get_by_role("button", name="changed since").first.click()
        expect(page.get_by_role("complementary")).to_contain_text("This is the indexed text")
    finally:
        file.write_text(text, "utf-8")


def test_an_answer_of_another_tab_is_shown_when_it_is_done(page: Page, open_page: Opener, serving: Serving) -> None:
    resume = Event()
    serving.staged({DEWAR: [["It keeps ", resume, "cold."]]})
    turn = ask(page, DEWAR)
    expect(turn.locator(".text")).to_have_text("It keeps")
    other = open_page(f"#/s/{session_of(page)}")
    expect(other.get_by_role("button", name="Stop")).to_be_visible()
    resume.set()
    expect(other.locator(".turn .text")).to_have_text("It keeps cold.")
    expect(other.get_by_role("button", name="Ask", exact=True)).to_be_visible()


def test_an_answer_goes_on_when_the_page_is_reloaded_or_closed(page: Page, open_page: Opener, serving: Serving) -> None:
    first, second = Event(), Event()
    serving.staged({DEWAR: [["It keeps cold ", first, "for 16 ", second, "hours."]]})
    expect(ask(page, DEWAR).locator(".text")).to_have_text("It keeps cold")
    page.reload()
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    session = session_of(page)
    page.goto("about:blank")
    first.set()
    second.set()
    assert serving.message(session)["content"] == "It keeps cold for 16 hours."
    page.goto(f"{serving.origin}/#/s/{session}")
    turn = page.locator(".turn")
    expect(turn.locator(".text")).to_have_text("It keeps cold for 16 hours.")
    expect(turn.get_by_role("button", name="Regenerate")).to_be_visible()


def test_an_answer_is_stopped_after_a_reload(page: Page, serving: Serving) -> None:
    resume = Event()
    serving.staged({DEWAR: [["It keeps cold ", resume, "for 16 hours."]]})
    expect(ask(page, DEWAR).locator(".text")).to_have_text("It keeps cold")
    page.reload()
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".turn .end")).to_contain_text("The answer was stopped.")
    assert serving.message(session_of(page))["status"] == "cancelled"
    resume.set()


def test_messages_show_their_local_time_and_the_full_date_on_hover(open_page: Opener, serving: Serving) -> None:
    session = serving.ask("POST", "chat", {"message": DEWAR})["session_id"]
    page = open_page(f"#/s/{session}", timezone_id="Asia/Tokyo")
    expect(page.locator(".turn time")).to_have_count(2)
    question, answer = page.locator(".turn time").all()
    for shown, index in ((question, 0), (answer, 1)):
        created = datetime.fromisoformat(serving.message(session, index)["created"])
        local = created.astimezone(ZoneInfo("Asia/Tokyo"))
        expect(shown).to_have_attribute("datetime", created.strftime("%Y-%m-%dT%H:%M:%S.") + f"{created:%f}"[:3] + "Z")
        expect(shown.locator("span").first).to_have_text(local.strftime("%H:%M"))
        full = f"{local:%A}, {local.day} {local:%B %Y} at {local:%H:%M}"
        expect(shown).to_have_attribute("title", full)
        expect(shown.locator(".unseen")).to_have_text(full)
    expect(ask_and_wait(page, SALARY).locator("time")).to_have_count(2)


def test_an_older_message_shows_its_day(open_page: Opener, serving: Serving) -> None:
    session = serving.ask("POST", "chat", {"message": DEWAR})["session_id"]
    created = datetime.fromisoformat(serving.message(session)["created"])
    page = open_page("", timezone_id="UTC")
    page.clock.set_fixed_time(created + timedelta(days=2))
    page.goto(f"{serving.origin}/#/s/{session}")
    shown = f"{created.day} {created:%b}, {created:%H:%M}"
    expect(page.locator(".turn time span:first-child").first).to_have_text(shown)
