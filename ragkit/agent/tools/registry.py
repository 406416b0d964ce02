"""A registry of tools by name; an agent takes a frozen snapshot of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ragkit.agent.tools.base import Tool, ToolCallable
from ragkit.argument_types import check_types
from ragkit.errors import InvalidOption, UnknownName
from ragkit.records import JSON


@check_types()
class ToolRegistry:
    """Tools by name, in the order in which they were registered."""

    def __init__(self, tools: Iterable[Tool | ToolCallable] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        self._frozen = False
        for tool in tools:
            self.register_function(tool)

    @property
    def frozen(self) -> bool:
        """Whether it rejects new tools."""
        return self._frozen

    def register(self, tool: Tool) -> Tool:
        """Add a tool. Raises InvalidOption if the name is taken or the registry is frozen.

        Of two tools with the same name, one with a `fallback_name` gets that name.
        """
        if self._frozen:
            raise InvalidOption("the tool registry", "a snapshot", f"unfrozen to register {tool.name!r}")
        other = self._tools.get(tool.name)
        if other is not None and tool.fallback_name:
            tool = replace(tool, name=tool.fallback_name, fallback_name="")
        elif other is not None and other.fallback_name and other.fallback_name not in self._tools:
            renamed = replace(other, name=other.fallback_name, fallback_name="")
            self._tools = {item.name: item for item in (renamed if old is other else old for old in self)}
        if tool.name in self._tools:
            raise InvalidOption("the name of a tool", tool.name, "unique in its registry")
        self._tools[tool.name] = tool
        return tool

    def register_function(self, func: Tool | ToolCallable, description: str | None = None) -> Tool:
        """Add a function or a tool; `description` overrides its docstring."""
        if isinstance(func, Tool):
            new = func if description is None else replace(func, description=description)
        else:
            new = Tool.from_function(func, description)
        return self.register(new)

    def get(self, name: str) -> Tool:
        """The tool of that name. Raises UnknownName."""
        if name not in self._tools:
            raise UnknownName("tool", name, self.list_names())
        return self._tools[name]

    def list_all(self) -> list[Tool]:
        """Every tool, in order."""
        return list(self._tools.values())

    def list_names(self) -> list[str]:
        """Every name, in order."""
        return list(self._tools)

    def to_schemas(self) -> list[dict[str, JSON]]:
        """Every tool in the format of OpenAI's `tools` parameter."""
        return [tool.to_schema() for tool in self._tools.values()]

    def snapshot(self) -> ToolRegistry:
        """A frozen copy."""
        copy = ToolRegistry()
        copy._tools = dict(self._tools)
        copy._frozen = True
        return copy

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())
