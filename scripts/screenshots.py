"""Make the pictures of the web page for the README: docs/images/*.png.

    python scripts/screenshots.py

Indexes data/sample, asks the real server with a real Chromium, and takes pictures. A model is played by a script, so
that no key is needed and the pictures are the same again. Inter is used where it is installed.
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
LIMIT = 200_000
"""Bytes of a picture."""
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
        here = Path(folder)
        shutil.copytree(ROOT / "data" / "sample", here / "sample")
        subprocess.run(
            [sys.executable, "-m", "ragkit", "-q", "index", "sample"], cwd=here, env=environment(), check=True
        )
        server, origin = serve(here)
        try:
            browser = playwright.chromium.launch(
                executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
            )
            take(browser, origin)
            browser.close()
        finally:
            server.terminate()
            server.wait(30)


def environment() -> dict[str, str]:
    """The environment of the command, without settings from outside but with the script of the model."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("RAGKIT_")}
    return {**own, "PYTHONPATH": str(ROOT), "RAGKIT_MOCK_JSON": json.dumps(SCRIPT)}


def serve(here: Path) -> tuple[subprocess.Popen[str], str]:
    """`ragkit serve` on a free port; returns the process and its address once it answers."""
    command = [sys.executable, "-m", "ragkit", "serve", "--json", "-q", "--port", "0"]
    server = subprocess.Popen(command, cwd=here, env=environment(), stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    origin = str(json.loads(server.stdout.readline())["url"])
    until = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(f"{origin}/health", timeout=10).close()
            return server, origin
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def take(browser: Browser, origin: str) -> None:
    """The pictures, one after the other; the session of the first is that of the others."""
    page = opened(browser, origin, WIDE, "light")
    page.get_by_role("textbox", name="Question").fill(QUESTION)
    page.keyboard.press("Enter")
    expect(page.locator(".turn")).to_have_attribute("aria-busy", "false", timeout=60_000)
    session = page.url
    page.get_by_role("button", name="Citation 2:").first.click()
    expect(page.locator(".line mark").first).to_be_in_viewport()
    shoot(page, "answer")
    page.locator(".figures").get_by_role("button", name="Trace").click()
    page.locator("summary.row:visible", has_text="search_knowledge_base").first.click()
    shoot(page, "trace")
    page = opened(browser, origin, WIDE, "light", "#/search?q=How+do+we+close+the+dome+in+rain%3F&k=5")
    expect(page.locator(".hit")).to_have_count(5)
    shoot(page, "search")
    page = opened(browser, session, WIDE, "dark")
    page.get_by_role("button", name="Citation 2:").first.click()
    expect(page.locator(".line mark").first).to_be_in_viewport()
    shoot(page, "dark")
    page = opened(browser, session, PHONE, "light")
    page.get_by_role("button", name="Citation 2:").first.click()
    expect(page.locator(".line mark").first).to_be_in_viewport()
    shoot(page, "phone")


def opened(browser: Browser, origin: str, viewport: dict[str, int], scheme: Any, address: str = "") -> Page:
    """A page in a profile of its own, without animations."""
    size: Any = viewport
    scale = 2 if viewport is PHONE else 1
    context = browser.new_context(
        viewport=size, device_scale_factor=scale, color_scheme=scheme, reduced_motion="reduce"
    )
    page = context.new_page()
    page.goto(f"{origin}/{address}" if address else origin)
    return page


def shoot(page: Page, name: str) -> None:
    """One picture."""
    path = IMAGES / f"{name}.png"
    page.mouse.move(0, 0)
    picture = Image.open(io.BytesIO(page.screenshot(caret="initial"))).convert("RGB")
    picture.quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)  # few colours: a third of the bytes
    size = path.stat().st_size
    if size > LIMIT:
        sys.exit(f"{path} has {size} bytes, and {LIMIT} is the most: take a smaller part of the page")
    print(f"{path.relative_to(ROOT)}  {size:,} bytes")


if __name__ == "__main__":
    main()
