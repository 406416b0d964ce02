"""Web search by DuckDuckGo, without a key. Adapts the package `ddgs`."""

from __future__ import annotations

from collections.abc import Sequence

from ragkit.agent.tools.builtin import ToolError
from ragkit.errors import MissingExtra

try:
    from ddgs import DDGS
    from ddgs.exceptions import DDGSException
except ImportError as error:
    raise MissingExtra("web search", extra="search") from error


class DuckDuckGo:
    """The engine of `create_web_search_tool(DuckDuckGo())`. Questions leave this machine: off unless it is asked for.

    Args:
        timeout_s: timeout of a search, in seconds.
    """

    def __init__(self, *, timeout_s: int = 10) -> None:
        self._timeout_s = timeout_s

    def search(self, query: str, num_results: int) -> Sequence[tuple[str, str, str]]:
        """(title, URL, excerpt) of each result, best first. Raises ToolError."""
        try:
            rows = DDGS(timeout=self._timeout_s).text(query, max_results=num_results, backend="duckduckgo")
        except DDGSException as error:
            raise ToolError(f"the web search failed: {error}") from error
        return [(row["title"], row["href"], row["body"]) for row in rows]
