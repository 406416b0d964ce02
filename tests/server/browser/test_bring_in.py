"""Bringing documents in and looking after them: drop, progress, failures, cancel, delete, hostile names, access."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from ragkit.pipeline.settings import Pipeline
from ragkit.server.settings import ServerLimits, ServerSettings
from tests.server.browser.actions import ask_and_wait, cited_lines, show_text
from tests.server.browser.conftest import SAMPLE, Opener
from tests.server.browser.serving import Serving
from tests.server.browser.test_keyboard import tab_to
from tests.server.held_embedder import HeldEmbedder, held_embedder
from tests.server.hostile import NAMES
from tests.wire_embed.server import WireServer

HASHING = Pipeline.from_yaml("embed: {name: hashing}\n")
PAID = Pipeline.from_yaml("embed: {name: openai, model: text-embedding-3-small}\n")
DEWAR = "How long does a full dewar stay cold?"
TOKENS = ("the-token-of-the-owner", "the-token-of-a-reader")

Starter = Callable[..., Serving]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Starter]:
    """Starts a server without a knowledge base."""
    started: list[Serving] = []

    def start_server(settings: ServerSettings | None = None, pipeline: Pipeline = HASHING) -> Serving:
        served = Serving(tmp_path / "kb", settings, pipeline)
        started.append(served)
        served.__enter__()
        return served

    yield start_server
    for served in started:
        served.__exit__()


@pytest.fixture
def open_page(start: Starter, open_page: Opener) -> Opener:
    """The pages are checked before the servers of `start` stop, whichever a test names first."""
    return open_page


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A folder with a PDF, a note in a folder below, a hidden file and a damaged document."""
    folder = tmp_path / "library"
    (folder / "notes").mkdir(parents=True)
    shutil.copy2(SAMPLE / "manuals/liquid-nitrogen.pdf", folder)
    (folder / "notes" / "tea.md").write_text("# Tea\n\nGreen tea steeps for two minutes at 75 degrees.\n", "utf-8")
    (folder / ".hidden.md").write_text("Nobody reads this.", "utf-8")
    (folder / "broken.docx").write_bytes(b"PK\x03\x04 this is no archive")
    return folder


def fill(folder: Path, count: int) -> Path:
    """A folder with many notes."""
    folder.mkdir()
    for number in range(count):
        (folder / f"{number}.md").write_text(
            f"# Newt {number}\n\nThe newt number {number} lives in the pond.\n", "utf-8"
        )
    return folder


def drop(page: Page, *paths: Path) -> None:
    """Drag files and folders of this machine over the page and drop them, as a file manager does."""
    expect(page.locator("#drop")).to_be_visible()
    size = page.locator("#drop").bounding_box()
    assert size is not None
    devtools = page.context.new_cdp_session(page)
    data = {"items": [], "files": [str(path) for path in paths], "dragOperationsMask": 1}
    for kind in ("dragEnter", "dragOver", "drop"):
        devtools.send("Input.dispatchDragEvent", {"type": kind, "x": size["x"] + 20, "y": size["y"] + 20, "data": data})
    devtools.detach()


def job(page: Page) -> Locator:
    """The first job on the page."""
    return page.get_by_role("list", name="Jobs").locator(".job").first


def sent_state(page: Page) -> str:
    """The line about the files that were sent."""
    return page.locator(".intake .state").inner_text()


def open_documents(page: Page, origin: str) -> Locator:
    """Open the view of the knowledge base; returns the rows of documents."""
    page.goto(f"{origin}/#/status")
    return page.locator(".documents tbody tr")


def test_an_empty_server_answers_from_dropped_files_without_a_terminal(
    open_page: Opener, start: Starter, library: Path
) -> None:
    served = start()
    page = open_page(origin=served.origin, viewport={"width": 1280, "height": 800})
    expect(page.get_by_role("heading", level=1)).to_have_text("Add your documents")
    expect(page.get_by_role("textbox", name="Question")).to_be_hidden()
    drop(page, library)
    expect(page.get_by_role("heading", level=1)).to_have_text("Ask 2 documents")
    expect(page.get_by_role("textbox", name="Question")).to_be_focused()
    failure = page.get_by_role("list", name="Files that could not be read").get_by_role("listitem")
    expect(failure).to_contain_text("library/broken.docx")
    expect(failure.locator(".trouble")).to_have_text("damaged or truncated zip file")
    expect(failure.locator(".hint")).to_have_text("open it in its program and save it again")
    turn = ask_and_wait(page, DEWAR)
    turn.get_by_role("button", name="Citation 1:").click()
    expect(page.locator(".mark-box").first).to_be_in_viewport()
    show_text(page)
    expect(page.locator(".line.cited").first).to_be_in_viewport()
    assert "dewar" in " ".join(cited_lines(page).values()).lower()
    rows = open_documents(page, served.origin)
    expect(rows.locator(".source")).to_have_text(["library/liquid-nitrogen.pdf", "library/notes/tea.md"])


def test_the_file_picker_shows_what_was_refused_and_why(open_page: Opener, start: Starter, tmp_path: Path) -> None:
    page = open_page(origin=start().origin, expected="status of 4", viewport={"width": 1280, "height": 800})
    files = {"good.md": b"# Tea\n\nTea is green.\n", "empty.md": b"", "program.md": b"\x7fELF\x02\x01\x01" + b"\0" * 99}
    for name, content in {**files, "id_rsa": b"secret"}.items():
        (tmp_path / name).write_bytes(content)
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Choose files").click()
    chooser.value.set_files([tmp_path / name for name in (*files, "id_rsa")])
    expect(page.get_by_role("heading", level=1)).to_have_text("Ask 1 document")
    page.get_by_role("link", name="Show and add documents").click()
    refused = page.get_by_role("list", name="Refused files").get_by_role("listitem")
    expect(refused).to_have_count(3)
    expect(refused.filter(has_text="empty.md")).to_contain_text("The file is empty")
    expect(refused.filter(has_text="id_rsa")).to_contain_text("secret")
    expect(refused.filter(has_text="program.md").locator(".trouble")).not_to_be_empty()
    expect(page.locator(".intake .state")).to_have_text("1 file was sent, 3 refused.")


@pytest.fixture
def embedder(monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldEmbedder]:
    """An embedder that answers when the test lets it."""
    with held_embedder(monkeypatch) as held:
        yield held


def index_pond(page: Page, folder: Path) -> None:
    """Index a folder of 300 files; the first 264 are read, and the embedder has not answered yet."""
    field = page.get_by_role("textbox", name="Folder or file of this machine")
    tab_to(page, field)
    field.fill(str(fill(folder, 300)))
    page.keyboard.press("Enter")
    expect(job(page)).to_contain_text("264 of 300 files, 264 passages")


def test_the_progress_of_a_job_is_shown_and_survives_a_reload(
    open_page: Opener, start: Starter, embedder: HeldEmbedder, tmp_path: Path
) -> None:
    served = start(ServerSettings(roots=(str(tmp_path),)), PAID)
    page = open_page(origin=served.origin, viewport={"width": 1280, "height": 800})
    index_pond(page, tmp_path / "pond")
    bar = job(page).get_by_role("progressbar", name="Work done")
    assert bar.get_attribute("aria-valuenow") is None  # nothing is embedded: the bar is striped, and not empty
    assert "gradient" in bar.evaluate("bar => getComputedStyle(bar).backgroundImage")
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text("Add your documents")
    expect(job(page)).to_contain_text("264 of 300 files")
    embedder.answer(8)
    expect(job(page)).to_contain_text("300 of 300 files, 300 passages")
    expect(bar).to_have_attribute("aria-valuenow", re.compile(r"^[1-9]\d?$"))  # not 100: 292 passages are not embedded
    page.reload()  # the first documents can be asked already, while the job goes on
    expect(page.get_by_role("heading", level=1)).to_have_text("Ask 8 documents")
    expect(page.get_by_role("textbox", name="Question")).to_be_visible()
    expect(job(page)).to_contain_text("300 of 300 files")
    embedder.release()
    expect(page.get_by_role("heading", level=1)).to_have_text("Ask 300 documents")
    expect(job(page)).to_have_count(0)


def test_a_job_is_cancelled_and_resumed_with_the_keyboard(
    open_page: Opener, start: Starter, embedder: HeldEmbedder, tmp_path: Path
) -> None:
    served = start(ServerSettings(roots=(str(tmp_path),)), PAID)
    page = open_page(origin=served.origin, viewport={"width": 1280, "height": 800})
    index_pond(page, tmp_path / "pond")
    tab_to(page, job(page).get_by_role("button", name="Cancel"), "Shift+Tab")
    page.keyboard.press("Enter")
    expect(job(page)).to_contain_text("Stopping after the current file")
    embedder.answer(8)
    expect(job(page)).to_contain_text("Cancelled. What was embedded is kept")
    resume = job(page).get_by_role("button", name="Resume")
    expect(resume).to_be_focused()
    embedder.release()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Ask 300 documents")
    assert embedder.newts == [1] * 300, "what was embedded before is kept"


def test_sending_is_stopped_and_the_sent_files_can_be_indexed(
    open_page: Opener, start: Starter, tmp_path: Path
) -> None:
    served = start()
    folder = fill(tmp_path / "pond", 20)
    page = open_page(origin=served.origin, viewport={"width": 1280, "height": 800})
    held: list[Any] = []

    def hold_most(route: Any) -> None:
        held.append(route)
        if len(held) <= 2:
            route.continue_()

    page.route("**/documents?*", hold_most)
    drop(page, folder)
    expect(page.locator(".intake .state")).to_have_text("Sending files: 2 of 20.")
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.locator(".intake .state")).to_have_text("Stopped: 2 of 20 files were sent.")
    page.get_by_role("button", name="Index them").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Ask 2 documents")
    page.unroute_all(behavior="ignoreErrors")


def test_hostile_names_of_dropped_files_are_shown_as_text(open_page: Opener, start: Starter, tmp_path: Path) -> None:
    served = start()
    folder = tmp_path / "hostile"
    folder.mkdir()
    wanted = [
        name
        for name in dict.fromkeys(
            (*NAMES, "<img src=x onerror=window.pwned=1>.md", "\u202edm.exe.md", "a\nb.md", "%2e%2e%2fup.md")
        )
        if not name.startswith(".") and "/" not in name and "\0" not in name and name.strip(" .")
    ]
    made = 0
    for name in wanted:
        try:
            (folder / name).write_text("# Newt\n\nThe newt lives in the pond.\n", "utf-8")
            made += 1
        except (OSError, UnicodeEncodeError):
            continue  # this file system does not have such names: no one can drop it
    assert made >= 20
    page = open_page(origin=served.origin, expected="status of 4", viewport={"width": 1280, "height": 800})
    drop(page, folder)
    page.get_by_role("link", name="Show and add documents").click(timeout=60_000)
    rows = page.locator(".documents tbody tr")
    expect(rows).not_to_have_count(0)
    uploads = tmp_path / "kb" / "uploads"
    inside = {path.relative_to(uploads).as_posix() for path in uploads.rglob("*") if path.is_file()}
    assert all(name.startswith("hostile/") for name in inside)
    found = re.fullmatch(r"\d+ files were sent, (\d+) refused, (\d+) replaced one of the same name\.", sent_state(page))
    assert found and len(inside) + int(found[1]) + int(found[2]) == made
    assert {path.name for path in tmp_path.iterdir()} == {"hostile", "kb"}


def test_documents_are_indexed_again_and_deleted(open_page: Opener, start: Starter, library: Path) -> None:
    served = start()
    page = open_page(origin=served.origin, viewport={"width": 1280, "height": 800})
    drop(page, library)
    expect(page.get_by_role("heading", level=1)).to_have_text("Ask 2 documents")
    rows = open_documents(page, served.origin)
    expect(rows).to_have_count(2)
    tab_to(page, page.get_by_role("button", name="Index tea.md again"))
    page.keyboard.press("Enter")
    expect(job(page)).to_contain_text("1 updated")
    expect(job(page)).to_contain_text("notes/tea.md")
    page.get_by_role("button", name="Delete tea.md").click()
    dialog = page.get_by_role("dialog", name="Delete tea.md?")
    expect(dialog).to_contain_text("The uploaded file is deleted")
    dialog.get_by_role("button", name="Cancel").click()
    expect(rows).to_have_count(2)
    page.get_by_role("button", name="Delete tea.md").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(rows).to_have_count(1)
    assert not list((library.parent / "kb" / "uploads").rglob("tea.md"))
    page.get_by_role("button", name="Remove Uploaded files").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(rows).to_have_count(0)
    assert not list((library.parent / "kb" / "uploads").rglob("*.pdf"))


def test_a_folder_of_the_machine_must_be_below_a_root(open_page: Opener, start: Starter, library: Path) -> None:
    served = start(ServerSettings(roots=(str(library),)))
    page = open_page(origin=served.origin, expected="status of 403", viewport={"width": 1280, "height": 800})
    field = page.get_by_role("textbox", name="Folder or file of this machine")
    field.fill("/etc")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text(f"below one of: {library}")
    field.fill(str(library / "notes"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Ask 1 document")
    open_documents(page, served.origin)
    page.get_by_role("button", name="Delete tea.md").click()
    expect(page.get_by_role("dialog")).to_contain_text("The original stays where it is")
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.locator(".documents tbody tr")).to_have_count(0)
    assert (library / "notes" / "tea.md").exists()


def test_a_web_page_that_may_not_be_read_is_explained(open_page: Opener, start: Starter) -> None:
    page = open_page(origin=start().origin, expected="status of 400", viewport={"width": 1280, "height": 800})
    page.get_by_role("textbox", name="Web page").fill("the manual")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert").first).to_have_text("url must not contain spaces: write one in a path as %20")
    page.get_by_role("textbox", name="Web page").fill("127.0.0.1:9/manual.html")
    page.keyboard.press("Enter")
    expect(job(page)).to_contain_text("127.0.0.1:9/manual.html")
    failure = job(page).get_by_role("list", name="Files that could not be read").locator(".trouble")
    expect(failure).to_contain_text("non-public address")


def test_a_reader_is_offered_nothing_to_change(open_page: Opener, start: Starter) -> None:
    served = start(ServerSettings(tokens=TOKENS))
    page = open_page(origin=served.origin, expected="status of 401")
    page.get_by_role("textbox", name="Token").fill(TOKENS[1])
    page.keyboard.press("Enter")
    expect(page.get_by_text("Only the owner of this server may add documents.")).to_be_visible()
    expect(page.locator("#drop")).to_have_count(0)


def test_a_paid_embedder_is_confirmed_on_the_page(
    open_page: Opener, start: Starter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = WireServer("openai")
    with wire.running():
        for name, value in wire.environment.items():
            monkeypatch.setenv(name, value)
        served = start(ServerSettings(limits=ServerLimits(index_usd=1e-9)), PAID)
        page = open_page(origin=served.origin, viewport={"width": 1280, "height": 800})
        drop(page, fill(tmp_path / "pond", 3))
        expect(job(page)).to_contain_text("The index would cost about $")
        assert sum(wire.answered.values()) == 0
        job(page).get_by_role("button", name="Index for about $").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Ask 3 documents")
        assert sum(wire.answered.values()) > 0


def test_files_dropped_on_a_conversation_are_sent_and_shown(open_page: Opener, start: Starter, library: Path) -> None:
    served = start()
    page = open_page(origin=served.origin, viewport={"width": 1280, "height": 800})
    drop(page, library)
    expect(page.get_by_role("heading", level=1)).to_have_text("Ask 2 documents")
    (library / "new.md").write_text("# Coffee\n\nCoffee is brewed at 93 degrees.\n", "utf-8")
    devtools = page.context.new_cdp_session(page)
    data = {"items": [], "files": [str(library / "new.md")], "dragOperationsMask": 1}
    for kind in ("dragEnter", "dragOver", "drop"):
        devtools.send("Input.dispatchDragEvent", {"type": kind, "x": 700, "y": 300, "data": data})
    expect(page.get_by_role("heading", level=1)).to_have_text("Knowledge base")
    expect(page.locator(".documents tbody tr")).to_have_count(3)
