"""The words of a conversation: messages, tool calls, images. Frozen, and the same for every provider."""

from __future__ import annotations

import base64
import json
import mimetypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import cast

from ragkit.records import JSON


class Role(StrEnum):
    """Who speaks."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's wish to have a tool executed."""

    name: str
    arguments: Mapping[str, JSON] = field(default_factory=dict)
    id: str = ""
    """Links the call to its result; the loop gives one where the provider gave none."""
    malformed: str = ""
    """The arguments as the model wrote them, when no JSON object could be read from them; else empty."""

    @property
    def tool_name(self) -> str:
        """The same as `name`."""
        return self.name

    @property
    def parameters(self) -> Mapping[str, JSON]:
        """The same as `arguments`."""
        return self.arguments

    def to_dict(self) -> dict[str, JSON]:
        """A JSON object; `from_dict` reads it."""
        found: dict[str, JSON] = {"id": self.id, "name": self.name, "arguments": dict(self.arguments)}
        return {**found, "malformed": self.malformed} if self.malformed else found

    @staticmethod
    def from_dict(data: Mapping[str, JSON]) -> ToolCall:
        """The inverse of `to_dict`."""
        arguments = data.get("arguments")
        return ToolCall(
            str(data["name"]),
            dict(arguments) if isinstance(arguments, Mapping) else {},
            str(data.get("id", "")),
            str(data.get("malformed", "")),
        )


@dataclass(frozen=True, slots=True)
class Image:
    """A picture in a message, as the services want it."""

    data: str
    """The bytes, base64."""
    media_type: str = "image/png"

    @staticmethod
    def from_file(path: str | Path) -> Image:
        """Read a picture; its type is told by the suffix."""
        media_type = mimetypes.guess_type(str(path))[0] or "image/png"
        return Image(base64.b64encode(Path(path).read_bytes()).decode("ascii"), media_type)


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation."""

    role: Role
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    """What an assistant wants to have executed."""
    tool_call_id: str = ""
    """For a tool's result: the call that it answers."""
    name: str = ""
    """For a tool's result: the tool."""
    is_error: bool = False
    """For a tool's result: the tool failed, or was not allowed."""
    agent_name: str = ""
    """For an assistant: which agent spoke."""
    images: tuple[Image, ...] = ()
    reasoning: str = ""
    """What the model thought before it spoke, where its service shows that."""
    pinned: bool = False
    """Memory never prunes it."""
    provider_state: Mapping[str, JSON] = field(default_factory=dict)
    """What its provider wants to see again unchanged (signatures of reasoning and the like); others ignore it."""
    data: object = field(default=None, compare=False)
    """The object behind the text of a tool, or of a provider that has one; it stays here unless it is plain JSON."""

    def __post_init__(self) -> None:
        # some services answer None where there is no text, and users hand over a role's name
        if self.content is None:
            object.__setattr__(self, "content", "")
        if type(self.role) is not Role:
            object.__setattr__(self, "role", Role(self.role))

    @staticmethod
    def system(content: str) -> Message:
        """What the model is told about its task."""
        return Message(Role.SYSTEM, content)

    @staticmethod
    def user(content: str) -> Message:
        """What the user says."""
        return Message(Role.USER, content)

    @staticmethod
    def assistant(content: str, tool_calls: Sequence[ToolCall] = ()) -> Message:
        """What the model says, and what it wants to have executed."""
        return Message(Role.ASSISTANT, content, tuple(tool_calls))

    def to_dict(self) -> dict[str, JSON]:
        """A JSON object without the fields that say nothing; `from_dict` reads it."""
        found: dict[str, JSON] = {"role": self.role.value, "content": self.content}
        if self.tool_calls:
            found["tool_calls"] = [call.to_dict() for call in self.tool_calls]
        if self.images:
            found["images"] = [{"media_type": one.media_type, "data": one.data} for one in self.images]
        for key in ("tool_call_id", "name", "is_error", "agent_name", "reasoning", "pinned", "provider_state"):
            if getattr(self, key):
                found[key] = getattr(self, key)
        if self.data is not None and is_json_value(self.data):
            found["data"] = cast("JSON", self.data)
        return found

    @staticmethod
    def from_dict(data: Mapping[str, JSON]) -> Message:
        """The inverse of `to_dict`; keys that it does not know are left out."""
        state = data.get("provider_state")
        return Message(
            Role(str(data["role"])),
            str(data.get("content") or ""),
            tuple(ToolCall.from_dict(call) for call in _json_objects(data.get("tool_calls"))),
            str(data.get("tool_call_id", "")),
            str(data.get("name", "")),
            bool(data.get("is_error", False)),
            str(data.get("agent_name", "")),
            tuple(Image(str(one["data"]), str(one["media_type"])) for one in _json_objects(data.get("images"))),
            str(data.get("reasoning", "")),
            bool(data.get("pinned", False)),
            dict(state) if isinstance(state, Mapping) else {},
            data.get("data"),
        )


def is_json_value(value: object) -> bool:
    """Whether `value` is made of what JSON can hold."""
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and is_json_value(one) for key, one in value.items())
    if isinstance(value, list | tuple):
        return all(is_json_value(one) for one in value)
    return value is None or isinstance(value, bool | int | float | str)


def canonical_json(value: JSON) -> str:
    """One line of JSON that is the same for equal values."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=dict)


def _json_objects(value: JSON) -> list[Mapping[str, JSON]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list | tuple) else []
