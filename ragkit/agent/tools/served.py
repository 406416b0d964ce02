"""The built-in tools that need no directory, by name: those that `ragkit serve --tool` can offer."""

from __future__ import annotations

from ragkit.agent.tools.base import Tool
from ragkit.agent.tools.builtin import calculator, create_web_search_tool
from ragkit.errors import UnknownName

SERVED_TOOLS = ("calculator", "web_search")


def get_builtin_tool(name: str) -> Tool:
    """One of SERVED_TOOLS; `web_search` searches with DuckDuckGo. Raises UnknownName, MissingExtra."""
    if name not in SERVED_TOOLS:
        raise UnknownName("tool", name, SERVED_TOOLS)
    if name == "calculator":
        return calculator
    from ragkit.agent.tools.duckduckgo import DuckDuckGo  # noqa: PLC0415 - needs an optional package

    return create_web_search_tool(DuckDuckGo())
