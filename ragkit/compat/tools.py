"""Tools with a context of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ragkit.agent.tools.base import Tool, ToolContext
from ragkit.argument_types import check_types
from ragkit.records import JSON


@check_types()
def ToolWrapper(tool: Tool, context: ToolContext | Mapping[str, JSON]) -> Tool:  # noqa: N802 - a documented name
    """The tool with a context of its own: its calls get this context in place of the run's.

    Args:
        tool: the tool; it is not changed.
        context: a ToolContext, or the caller's data for one.
    """
    own = context if isinstance(context, ToolContext) else ToolContext(dict(context))

    def call(**arguments: object) -> object:
        return tool.call_validated(arguments, own)

    return replace(tool, function=call, signature=tool.signature, context_parameter="")
