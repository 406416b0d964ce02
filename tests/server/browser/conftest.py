"""One Chromium for all tests of the page, one server for each module."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from ragkit import KnowledgeBase
from tests.server.browser.page_monitor import PageMonitor
from tests.server.browser.serving import Serving

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SAMPLE = Path(__file__).parents[3] / "data" / "sample"
FILES = (
    "manuals/liquid-nitrogen.pdf",
    "minutes/board-2026-01-22.md",
    "handbook/leave.md",
    "handbook/welcome.md",
    "policies/weather-closing-2024.md",
    "tables/equipment.xlsx",
)
"""What the tests ask about; the whole sample would take too long to embed."""

expect.set_options(timeout=20_000)

Opener = Callable[..., Page]


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Debian's Chromium."""
    if not CHROMIUM.exists():
        pytest.fail("the tests of the page need Chromium at /usr/bin/chromium: apt-get install chromium", pytrace=False)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="package")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with some of the sample documents, and a knowledge base of them in `kb`."""
    folder = tmp_path_factory.mktemp("library")
    for name in FILES:
        (folder / "sample" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(SAMPLE / name, folder / "sample" / name)
    with KnowledgeBase.open(folder / "kb") as kb:
        kb.index(folder / "sample")
    return folder


@pytest.fixture(scope="module")
def serving(indexed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server over the sample, with sessions of its own."""
    kb = tmp_path_factory.mktemp("served") / "kb"
    shutil.copytree(indexed / "kb", kb)
    with Serving(kb) as served:
        yield served


@pytest.fixture(scope="module")
def profile(browser: Browser, serving: Serving) -> Iterator[PageMonitor]:
    """One monitored profile for the tests of a module, so that scripts are compiled once."""
    monitor = PageMonitor(browser.new_context(viewport={"width": 1280, "height": 800}), serving.origin)
    yield monitor
    monitor.context.close()


@pytest.fixture
def open_page(browser: Browser, profile: PageMonitor) -> Iterator[Opener]:
    """Opens a page of the server; with options, in its own profile. All pages are checked at the end of a test."""
    opened: list[tuple[Page, PageMonitor]] = []
    profile.forget()

    def open_url(address: str = "", origin: str = "", expected: str = "", **options: Any) -> Page:
        monitor = (
            PageMonitor(browser.new_context(**options), origin or profile.origin) if options or origin else profile
        )
        if expected:
            monitor.expect(expected)
        page = monitor.open(address)
        opened.append((page, monitor))
        return page

    yield open_url
    for page, monitor in opened:
        monitor.check(page)
    for page, monitor in opened:
        (page if monitor is profile else monitor.context).close()


@pytest.fixture
def page(open_page: Opener) -> Page:
    """The page after loading."""
    return open_page()
