"""Web search by DuckDuckGo. The package `ddgs` uses public addresses only: here, a module with its interface."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from ragkit.agent.providers.scripted import ScriptedTurn
from ragkit.agent.tools.served import get_builtin_tool
from ragkit.errors import MissingExtra, UnknownName
from tests.agent.parts import call, scripted, tool_messages

ADAPTER = "ragkit.agent.tools.duckduckgo"


class SearchFailed(Exception):
    """Stands for the package's error."""


class FakeSearch:
    """Stands for `ddgs.DDGS`."""

    seen: list[tuple[object, ...]] = []  # noqa: RUF012 - emptied by the fixture

    def __init__(self, *, timeout: int) -> None:
        self.timeout = timeout

    def text(self, query: str, *, max_results: int, backend: str) -> list[dict[str, str]]:
        if query == "nothing":
            raise SearchFailed("No results found.")
        self.seen.append((query, max_results, backend, self.timeout))
        return [{"title": "Cats", "href": "https://example.org/cats", "body": "All about cats."}]


@pytest.fixture
def _ddgs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    package, errors = ModuleType("ddgs"), ModuleType("ddgs.exceptions")
    package.__dict__["DDGS"] = FakeSearch
    errors.__dict__["DDGSException"] = SearchFailed
    FakeSearch.seen.clear()
    monkeypatch.setitem(sys.modules, "ddgs", package)
    monkeypatch.setitem(sys.modules, "ddgs.exceptions", errors)
    monkeypatch.delitem(sys.modules, ADAPTER, raising=False)
    yield
    sys.modules.pop(ADAPTER, None)


@pytest.mark.usefixtures("_ddgs")
def test_the_model_gets_titles_addresses_and_excerpts() -> None:
    script: list[ScriptedTurn] = [
        call("web_search", query="cats", num_results=2),
        call("web_search", "c2", query="nothing"),
        "ok",
    ]
    agent, _ = scripted(script, [get_builtin_tool("web_search")])
    assert tool_messages(agent.run("go")) == [
        "1. Cats\nhttps://example.org/cats\nAll about cats.",
        "Error executing web_search: the web search failed: No results found.",
    ]
    assert FakeSearch.seen == [("cats", 2, "duckduckgo", 10)]


def test_without_the_package_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ddgs", None)
    monkeypatch.delitem(sys.modules, ADAPTER, raising=False)
    with pytest.raises(MissingExtra, match=r"pip install 'ragkit-kb\[search\]'"):
        get_builtin_tool("web_search")


def test_only_the_tools_that_need_no_directory_are_served() -> None:
    assert get_builtin_tool("calculator").execute(expression="25*47") == "1175"
    with pytest.raises(UnknownName, match="read_file"):
        get_builtin_tool("read_file")
