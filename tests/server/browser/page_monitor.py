"""Detects forbidden actions of a page: external requests, dialogs, scripts, blocked resources, foreign elements."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import BrowserContext, ConsoleMessage, Dialog, Page, Request

MARK = "window.pwned = (window.pwned || 0) + 1"
"""The call of an injected script."""

_INIT = """
window.violations = [];
addEventListener("securitypolicyviolation", ({ effectiveDirective: what, blockedURI: where }) => {
  window.violations.push(`${what} ${where}`);
});
"""

_FOREIGN = """() => {
  const TAGS = new Set(("a article aside bdi blockquote br button canvas code dd del details dialog div dl dt em footer"
    + " form h1 h2 h3 h4 h5 h6 header hr img input kbd label li main mark nav noscript ol option p path pre section"
    + " select span strong summary svg table tbody td textarea th thead time tr ul").split(" "));
  const ATTRIBUTES = new Set(("alt autocomplete class cols colspan datetime dir disabled download enterkeyhint for"
    + " height hidden href id inert max maxlength min multiple name open placeholder readonly rel role rows rowspan"
    + " scope selected spellcheck src start style tabindex target title type value viewBox d webkitdirectory"
    + " width").split(" "));
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    if (!TAGS.has(element.localName)) found.push(element.localName);
    for (const { name, value } of element.attributes) {
      const where = `${element.localName}[${name}=${value.slice(0, 60)}]`;
      if (!ATTRIBUTES.has(name) && !/^(aria|data)-[a-z-]+$/.test(name)) found.push(where);
      if (name === "style" && !/^(--[a-z]+: *[0-9.]+%?; *)+$/.test(value.replace(/;?$/, ";"))) found.push(where);
      if (name === "src" && value !== "static/icon.svg") found.push(where);
      if (name === "href" && !/^(#|https?:\\/\\/|mailto:)/.test(value)) found.push(where);
      const leaves = name === "href" && !value.startsWith("#");
      if (leaves && element.rel !== "noopener noreferrer nofollow") found.push(`${where} rel`);
    }
  }
  return found;
}"""


class PageMonitor:
    """Records the events of a browser context and its pages."""

    def __init__(self, context: BrowserContext, origin: str) -> None:
        self.context = context
        self.origin = origin
        self.forget()
        context.add_init_script(_INIT)
        context.on("request", self._on_request)
        context.on("page", lambda _: self._windows.append(1))
        context.on("console", self._on_console)
        context.on("weberror", lambda error: self._console_messages.append(f"uncaught: {error.error}"))
        context.on("dialog", self._on_dialog)

    def forget(self) -> None:
        """Reset for another test."""
        self._external_requests: list[str] = []
        self._dialogs: list[str] = []
        self._console_messages: list[str] = []
        self._windows: list[int] = []
        self._opened = 0
        self._expected: list[str] = []

    def expect(self, words: str) -> None:
        """Allow a console message that the test provokes."""
        self._expected.append(words)

    def open(self, address: str = "") -> Page:
        """A page of the server."""
        self._opened += 1
        page = self.context.new_page()
        page.goto(f"{self.origin}/{address}")
        return page

    def check(self, page: Page) -> None:
        """Assert that no forbidden action happened."""
        assert not self._external_requests, f"external requests: {self._external_requests}"
        assert not self._dialogs, f"dialogs: {self._dialogs}"
        assert len(self._windows) == self._opened, "a window was opened"
        assert page.url.startswith(f"{self.origin}/"), f"went to {page.url}"
        state: dict[str, Any] = page.evaluate("() => ({ pwned: window.pwned ?? 0, violations: window.violations })")
        assert state == {"pwned": 0, "violations": []}
        assert page.evaluate(_FOREIGN) == []
        unexpected = [item for item in self._console_messages if not any(words in item for words in self._expected)]
        assert not unexpected, f"console messages: {unexpected}"

    def _on_request(self, request: Request) -> None:
        if not request.url.startswith((f"{self.origin}/", f"blob:{self.origin}/")):
            self._external_requests.append(request.url)

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self._console_messages.append(message.text)

    def _on_dialog(self, dialog: Dialog) -> None:
        self._dialogs.append(dialog.message)
        dialog.dismiss()
