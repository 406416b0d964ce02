"""`tool_choice`: a tool of the caller that the model must call.

Services of models differ in how they force a call. Here the model, which may search first, answers with the arguments
as JSON of the tool's schema, and the answer becomes the call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from ragkit.agent.loop.structured_output import parse_structured_output
from ragkit.agent.messages import ToolCall
from ragkit.agent.tools.base import Tool
from ragkit.records import JSON
from ragkit.server.http_errors import invalid_request
from ragkit.server.state.database import new_id


@dataclass(frozen=True, slots=True)
class ForcedCall:
    """A call of one of these tools, as the answer of a model."""

    tools: tuple[Tool, ...]

    @property
    def schema(self) -> Mapping[str, JSON]:
        """The JSON Schema of the answer: the arguments, or `call` with the name and arguments if there is a choice."""
        if len(self.tools) == 1:
            return self.tools[0].parameters
        variants: list[JSON] = [
            {
                "type": "object",
                "properties": {"name": {"enum": [tool.name]}, "arguments": dict(tool.parameters)},
                "required": ["name", "arguments"],
            }
            for tool in self.tools
        ]
        return {"type": "object", "properties": {"call": {"anyOf": variants}}, "required": ["call"]}

    @property
    def instructions(self) -> str:
        """What the model is told."""
        known = "; ".join(f"`{tool.name}`: {tool.description}" for tool in self.tools)
        what = (
            "the arguments of a call of this function" if len(self.tools) == 1 else "a call of one of these functions"
        )
        return f"Answer with nothing but {what}, as JSON. {known}"

    def parse(self, text: str) -> ToolCall:
        """The call that an answer is."""
        value = cast("Mapping[str, Any]", parse_structured_output(text, self.schema))
        if len(self.tools) == 1:
            return ToolCall(self.tools[0].name, dict(value), new_id("call"))
        return ToolCall(value["call"]["name"], dict(value["call"]["arguments"]), new_id("call"))


def parse_tool_choice(choice: str | Mapping[str, Any] | None, tools: Sequence[Tool]) -> ForcedCall | None:
    """The call that `tool_choice` forces, if any. Raises RequestRejected."""
    if choice in (None, "auto", "none"):
        return None
    if not tools:
        raise invalid_request("tool_choice needs `tools`", "tool_choice")
    if choice == "required":
        return ForcedCall(tuple(tools))
    function = choice.get("function", choice) if isinstance(choice, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(name, str) or not name:
        message = "tool_choice must be `auto`, `none`, `required` or the name of a function, as OpenAI has it"
        raise invalid_request(message, "tool_choice")
    named = tuple(tool for tool in tools if tool.name == name)
    if not named:
        known = ", ".join(tool.name for tool in tools)
        raise invalid_request(f"tool_choice names the unknown function {name[:80]!r}; tools: {known}", "tool_choice")
    return ForcedCall(named)
