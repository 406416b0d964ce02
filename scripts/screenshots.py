"""Take the screenshots of the web page for the README: docs/images/*.png.

    python scripts/screenshots.py

Indexes data/sample, starts the server and takes the pictures with Chromium. The scripted model needs no API key and
makes the pictures reproducible. Uses the font Inter if it is installed.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, Page, expect, sync_playwright

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
MAX_BYTES = 200_000
"""Maximum size of a picture in bytes."""
WIDE = {"width": 1360, "height": 820}
PHONE = {"width": 390, "height": 844}
QUESTION = "Where are the fuses for the rain sensor's heater, and how is it tested?"
SCRIPT: list[Any] = [
    {"tool_calls": [{"name": "search_knowledge_base", "arguments": {"query": "rain sensor heater fuse"}}]},
    "The spare is **fuse F6, 2 A slow**, on shelf A-03: 14 are in stock, and 10 is the minimum [5].\n\n"
    "The rain sensor's heater is looked after like this:\n\n"
    "- it is tested on the first of each month from October to April,\n"
    "- its fuse is checked with a meter, *not by looking at the lamp* [2].\n\n"
    "The lamp is no proof: it is wired before the fuse, and was lit when F6 had blown [1].",
]


def main() -> None:
    """Take every picture."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        workdir = Path(folder)
        shutil.copytree(ROOT / "data" / "sample", workdir / "sample")
        subprocess.run(
            [sys.executable, "-m", "ragkit", "-q", "index", "sample"], cwd=workdir, env=environment(), check=True
        )
        (workdir / "empty").mkdir()
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        for place, pictures in ((workdir, take), (workdir / "empty", take_empty)):
            server, origin = serve(place)
            try:
                pictures(browser, origin)
            finally:
                server.terminate()
                server.wait(30)
        browser.close()


def environment() -> dict[str, str]:
    """The environment of the command: no outer RAGKIT_ settings, and the script of the model."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("RAGKIT_")}
    return {**inherited, "PYTHONPATH": str(ROOT), "RAGKIT_MOCK_JSON": json.dumps(SCRIPT)}


def serve(workdir: Path) -> tuple[subprocess.Popen[str], str]:
    """Start `ragkit serve` on a free port; return the process and its URL once it responds."""
    command = [sys.executable, "-m", "ragkit", "serve", "--json", "-q", "--port", "0"]
    server = subprocess.Popen(command, cwd=workdir, env=environment(), stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    origin = str(json.loads(server.stdout.readline())["url"])
    deadline = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(f"{origin}/health", timeout=10).close()
            return server, origin
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def take(browser: Browser, origin: str) -> None:
    """Take the pictures in order; the later ones reuse the session of the first."""
    page = open_page(browser, origin, WIDE, "light")
    page.get_by_role("textbox", name="Question").fill(QUESTION)
    page.keyboard.press("Enter")
    expect(page.locator(".turn")).to_have_attribute("aria-busy", "false", timeout=60_000)
    session = page.url
    page.get_by_role("button", name="Citation 2:").first.click()
    expect(page.locator("mark").first).to_be_in_viewport()
    save_screenshot(page, "answer")
    page.locator(".figures").get_by_role("button", name="Trace").click()
    page.locator("summary.row:visible", has_text="search_knowledge_base").first.click()
    save_screenshot(page, "trace")
    page = open_page(browser, origin, WIDE, "light", "#/search?q=How+do+we+close+the+dome+in+rain%3F&k=5")
    expect(page.locator(".hit")).to_have_count(5)
    save_screenshot(page, "search")
    page = open_page(browser, session, WIDE, "dark")
    page.get_by_role("button", name="Citation 2:").first.click()
    expect(page.locator("mark").first).to_be_in_viewport()
    save_screenshot(page, "dark")
    page = open_page(browser, session, PHONE, "light")
    page.get_by_role("button", name="Citation 2:").first.click()
    expect(page.locator("mark").first).to_be_in_viewport()
    save_screenshot(page, "phone")
    page = open_page(browser, origin, WIDE, "light")
    expect(page.locator(".suggestions")).to_be_visible(timeout=30_000)  # the last part to arrive
    save_screenshot(page, "start")
    page = open_page(browser, origin, PHONE, "dark")
    expect(page.locator(".suggestions")).to_be_attached(timeout=30_000)
    save_screenshot(page, "phone-start")
    page = open_page(browser, origin, WIDE, "light", "#/status")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    page.wait_for_timeout(500)
    save_screenshot(page, "documents")
    page = open_page(browser, origin, WIDE, "light", "#/search?q=How+long+does+a+full+dewar+stay+cold%3F&k=5")
    page.locator(".hit").first.get_by_role("button").first.click()
    expect(page.locator(".mark-box").first).to_be_visible(timeout=30_000)
    page.wait_for_function("() => [...document.images].every((image) => image.complete && image.naturalWidth)")
    page.wait_for_load_state("networkidle")
    save_screenshot(page, "original")


def take_empty(browser: Browser, origin: str) -> None:
    """The page of a server without documents."""
    page = open_page(browser, origin, WIDE, "light")
    expect(page.locator("#drop")).to_be_attached()
    page.wait_for_timeout(500)
    save_screenshot(page, "add")


def open_page(browser: Browser, origin: str, viewport: dict[str, int], scheme: Any, address: str = "") -> Page:
    """Open a page in a new browser context, without animations."""
    size: Any = viewport
    scale = 2 if viewport is PHONE else 1
    touch = viewport is PHONE
    context = browser.new_context(
        viewport=size,
        device_scale_factor=scale,
        color_scheme=scheme,
        reduced_motion="reduce",
        has_touch=touch,
        is_mobile=touch,
    )
    page = context.new_page()
    page.goto(f"{origin}/{address}" if address else origin)
    return page


def save_screenshot(page: Page, name: str) -> None:
    """Take one picture."""
    path = IMAGES / f"{name}.png"
    page.mouse.move(0, 0)
    picture = Image.open(io.BytesIO(page.screenshot(caret="initial"))).convert("RGB")
    picture.quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)  # a palette reduces the size to a third
    size = path.stat().st_size
    if size > MAX_BYTES:
        sys.exit(f"{path} has {size} bytes; the limit is {MAX_BYTES}. Capture a smaller part of the page")
    print(f"{path.relative_to(ROOT)}  {size:,} bytes")


if __name__ == "__main__":
    main()
