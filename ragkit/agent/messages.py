"""Messages, tool calls and images: immutable, and the same for every provider."""

from __future__ import annotations

import base64
import json
import mimetypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import cast

from ragkit.argument_types import check_fields, check_types
from ragkit.records import JSON

BY_RAGKIT = "ragkit"
"""`ToolCall.by` of calls that the agent makes itself."""


class Role(StrEnum):
    """The author of a message."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@check_types(skip=("__init__",))
@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call of a model, or of the agent before its first request."""

    name: str
    arguments: Mapping[str, JSON] = field(default_factory=dict)
    id: str = ""
    """Links the call to its result; the loop assigns one if the provider does not."""
    malformed: str = ""
    """The arguments as the model wrote them, if they are not a JSON object; else empty."""
    by: str = "model"
    """Who makes the call: `model`, or BY_RAGKIT for a call of `AgentDefinition.opening`."""

    def __post_init__(self) -> None:
        if not (
            self.name.__class__ is self.id.__class__ is self.malformed.__class__ is self.by.__class__ is str
            and self.arguments.__class__ is dict
        ):
            check_fields(self)

    @property
    def tool_name(self) -> str:
        """Alias of `name`."""
        return self.name

    @property
    def parameters(self) -> Mapping[str, JSON]:
        """Alias of `arguments`."""
        return self.arguments

    def to_dict(self) -> dict[str, JSON]:
        """A JSON object; `from_dict` parses it."""
        data: dict[str, JSON] = {"id": self.id, "name": self.name, "arguments": dict(self.arguments)}
        data |= {"malformed": self.malformed} if self.malformed else {}
        return {**data, "by": self.by} if self.by != "model" else data

    @staticmethod
    def from_dict(data: Mapping[str, JSON]) -> ToolCall:
        """The inverse of `to_dict`. Raises InvalidOption for any other object."""
        arguments = data.get("arguments")
        return ToolCall(
            cast("str", data.get("name")),
            dict(arguments) if isinstance(arguments, Mapping) else {},
            str(data.get("id", "")),
            str(data.get("malformed", "")),
            str(data.get("by", "model")),
        )


@check_types()
@dataclass(frozen=True, slots=True)
class Image:
    """An image in a message."""

    data: str
    """The bytes, base64."""
    media_type: str = "image/png"

    @staticmethod
    def from_file(path: str | Path) -> Image:
        """Read an image file; the suffix determines its type."""
        media_type = mimetypes.guess_type(str(path))[0] or "image/png"
        return Image(base64.b64encode(Path(path).read_bytes()).decode("ascii"), media_type)


@check_types(skip=("__init__", "system", "user", "assistant"))
@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation."""

    role: Role
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    """The tool calls of an assistant."""
    tool_call_id: str = ""
    """For a tool result: the id of its call."""
    name: str = ""
    """For a tool result: the name of the tool."""
    is_error: bool = False
    """For a tool result: whether the tool failed or the call was rejected."""
    agent_name: str = ""
    """For an assistant: the name of the agent."""
    images: tuple[Image, ...] = ()
    reasoning: str = ""
    """The model's reasoning, if its service returns it."""
    pinned: bool = False
    """Memory never prunes it."""
    provider_state: Mapping[str, JSON] = field(default_factory=dict)
    """State that its provider must get back unchanged (such as reasoning signatures); others ignore it."""
    data: object = field(default=None, compare=False)
    """The object behind the text of a tool or a provider; serialized only if it is JSON. In a request, for a user's
    message that begins with results of the agent's own calls: the text of the user alone."""

    def __post_init__(self) -> None:
        # the usual classes, compared in one expression: a run creates many messages
        if not (
            self.role.__class__ is Role
            and self.content.__class__ is str
            and self.tool_calls.__class__ is tuple
            and self.images.__class__ is tuple
            and self.provider_state.__class__ is dict
            and self.name.__class__ is self.tool_call_id.__class__ is self.agent_name.__class__ is str
            and self.reasoning.__class__ is str
            and self.is_error.__class__ is self.pinned.__class__ is bool
        ):
            self._normalize()

    def _normalize(self) -> None:
        """Check the fields; convert what services and users write otherwise. Raises InvalidType."""
        if self.content is None:  # some services return None for an empty text
            object.__setattr__(self, "content", "")
        check_fields(self)
        object.__setattr__(self, "role", Role(self.role))
        object.__setattr__(self, "tool_calls", tuple(self.tool_calls))
        object.__setattr__(self, "images", tuple(self.images))

    @property
    def is_opening(self) -> bool:
        """Whether its tool calls are those of the agent itself, before the first request to the model."""
        return bool(self.tool_calls) and all(call.by == BY_RAGKIT for call in self.tool_calls)

    @staticmethod
    def system(content: str) -> Message:
        """A system message."""
        return Message(Role.SYSTEM, content)

    @staticmethod
    def user(content: str) -> Message:
        """A user message."""
        return Message(Role.USER, content)

    @staticmethod
    def assistant(content: str, tool_calls: Sequence[ToolCall] = ()) -> Message:
        """An assistant message, with its tool calls."""
        return Message(
            Role.ASSISTANT,
            content,
            cast("tuple[ToolCall, ...]", tuple(tool_calls) if tool_calls.__class__ is list else tool_calls),
        )

    def to_dict(self) -> dict[str, JSON]:
        """A JSON object without empty fields; `from_dict` parses it."""
        data: dict[str, JSON] = {"role": self.role.value, "content": self.content}
        if self.tool_calls:
            data["tool_calls"] = [call.to_dict() for call in self.tool_calls]
        if self.images:
            data["images"] = [{"media_type": image.media_type, "data": image.data} for image in self.images]
        for key in ("tool_call_id", "name", "is_error", "agent_name", "reasoning", "pinned", "provider_state"):
            if getattr(self, key):
                data[key] = getattr(self, key)
        if self.data is not None and is_json_value(self.data):
            data["data"] = cast("JSON", self.data)
        return data

    @staticmethod
    def from_dict(data: Mapping[str, JSON]) -> Message:
        """The inverse of `to_dict`; unknown keys are ignored. Raises InvalidOption for any other object."""
        state = data.get("provider_state")
        return Message(
            cast("Role", data.get("role")),
            str(data.get("content") or ""),
            tuple(ToolCall.from_dict(call) for call in json_objects(data.get("tool_calls"))),
            str(data.get("tool_call_id", "")),
            str(data.get("name", "")),
            bool(data.get("is_error", False)),
            str(data.get("agent_name", "")),
            tuple(Image(str(item["data"]), str(item["media_type"])) for item in json_objects(data.get("images"))),
            str(data.get("reasoning", "")),
            bool(data.get("pinned", False)),
            dict(state) if isinstance(state, Mapping) else {},
            data.get("data"),
        )


def is_json_value(value: object) -> bool:
    """Whether `value` is a JSON value."""
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and is_json_value(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return all(is_json_value(item) for item in value)
    return value is None or isinstance(value, bool | int | float | str)


def canonical_json(value: JSON) -> str:
    """Canonical JSON: one line, the same for equal values."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=dict)


def json_objects(value: JSON) -> list[Mapping[str, JSON]]:
    """The objects in a JSON list; empty for any other value."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list | tuple) else []
