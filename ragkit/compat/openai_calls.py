"""Tool calls in the format of OpenAI's chat API."""

from __future__ import annotations

from collections.abc import Mapping

from ragkit.agent.messages import ToolCall, canonical_json
from ragkit.agent.providers.parser import parse_arguments
from ragkit.records import JSON


def to_openai_call(call: ToolCall) -> dict[str, JSON]:
    """A call as a JSON object."""
    arguments = call.malformed or canonical_json(dict(call.arguments))
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def call_id(call: object) -> str:
    """The id of a ToolCall or of OpenAI's equivalent; empty if it has none."""
    if isinstance(call, ToolCall):
        return call.id
    return str(call.get("id", "")) if isinstance(call, Mapping) else ""


def to_tool_call(call: ToolCall | Mapping[str, JSON]) -> ToolCall:
    """A ToolCall or OpenAI's equivalent as a ToolCall; arguments that cannot be read are `malformed`."""
    if isinstance(call, ToolCall):
        return call
    function = call.get("function")
    fields: Mapping[str, JSON] = function if isinstance(function, Mapping) else call
    name, arguments = str(fields.get("name", "")), fields.get("arguments")
    if isinstance(arguments, Mapping):
        return ToolCall(name, dict(arguments), call_id(call))
    if arguments is None or isinstance(arguments, str):
        return parse_arguments(name, arguments or "", call_id(call))
    return ToolCall(name, {}, call_id(call), malformed=repr(arguments))
