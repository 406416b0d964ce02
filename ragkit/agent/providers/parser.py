"""Parse tool calls that a model wrote as text: `TOOL_CALL {...}`, in a fence or inline, with lenient JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from ragkit.agent.messages import ToolCall
from ragkit.argument_types import check_types
from ragkit.records import JSON

TOOL_CALL_MARKER = re.compile(r"TOOL_CALL\b[ \t]*:?")
_FENCE = re.compile(r"```(?:\w+)?[ \t]*\n(.*?)```", re.DOTALL)
_BEFORE_CALL = re.compile(r"(?:```\w*+\s*+)?(?:<tool_call>\s*+|TOOL_CALL\b[\s:`]*+(?:json\b)?[\s`]*+)?\Z")
"""The marks in front of a call, to the end of the text before it."""
_JSON_START = re.compile(r"[\s`:]*+(?:json\b)?[\s`]*+([{\[])")
_NAME_KEYS = ("tool_name", "tool", "name")
_PARAMETER_KEYS = ("parameters", "params", "arguments", "args")


def parse_lenient_json(text: str) -> JSON:
    """The value of a JSON text, repaired if it is malformed; None if it holds no value."""
    try:
        if text.startswith("{{") and text.endswith("}}"):  # a chat template's escaped braces
            text = text[1:-1]
        return _to_json_value(json.loads(text))
    except RecursionError:  # too deeply nested
        return None
    except json.JSONDecodeError:
        return _repair_json(text)


def _repair_json(text: str) -> JSON:
    import json_repair  # noqa: PLC0415 - needed for malformed JSON only

    try:
        return _to_json_value(json_repair.loads(text))
    except Exception:  # noqa: BLE001 - the library documents no exceptions
        return None


def parse_arguments(name: str, text: str, call_id: str = "") -> ToolCall:
    """A tool call from arguments as JSON text. Text without an object is kept as `malformed`."""
    if not text.strip():
        return ToolCall(name, {}, call_id)
    parsed = parse_lenient_json(text) if "{" in text else None
    if isinstance(parsed, dict):
        return ToolCall(name, parsed, call_id)
    return ToolCall(name, {}, call_id, malformed=text)


@check_types()
@dataclass(frozen=True, slots=True)
class ToolCallParser:
    """Finds tool calls in text.

    A call is an object with a name under `tool_name`, `tool` or `name`, and arguments under `parameters`,
    `params`, `arguments` or `args`.
    """

    accept_bare_json: bool = True
    """Whether an object without the marker TOOL_CALL is a call if it names a known tool."""

    def parse(self, text: str, known: Collection[str] | None = None) -> ToolCall | None:
        """The first call, or None. `known` as in `parse_all`."""
        return next(iter(self.parse_all(text, known)), None)

    def parse_all(self, text: str, known: Collection[str] | None = None) -> list[ToolCall]:
        """Every call, in order.

        Args:
            text: the answer of a model.
            known: names of tools; an object without the marker TOOL_CALL must name one of them. None: any object with
                a name and arguments is a call.
        """
        return [call for call, _ in self.find_calls(text, known)]

    def find_calls(self, text: str, known: Collection[str] | None = None) -> list[tuple[ToolCall, str]]:
        """Every call with its source text. `known` as in `parse_all`."""
        matches = [
            (call, piece) for piece in _find_marked_json(text) for call in _to_tool_calls(parse_lenient_json(piece))
        ]
        if matches or not self.accept_bare_json or (known is not None and not known):
            return matches
        pieces = (piece for piece in _find_bare_json(text) if any(f'"{name}"' in piece for name in _NAME_KEYS))
        return [
            (call, piece)
            for piece in pieces
            for call in _to_tool_calls(parse_lenient_json(piece), require_arguments=known is None)
            if known is None or call.name in known
        ]


def text_before_call(text: str, piece: str) -> str:
    """The text before a call with its marks: the model's reason for it. `piece` is the source text of the call."""
    before = text[: text.find(piece)]
    starts = sorted(before.rfind(mark) for mark in ("```", "<tool_call>", "TOOL_CALL"))
    end = next((start for start in starts if start >= 0 and _BEFORE_CALL.match(before, start)), len(before))
    return before[:end].rstrip()


def extract_balanced(text: str, start: int) -> str:
    """The JSON object or list that begins at `start`, up to its closing bracket, or to the end of an open one."""
    depth, inside, skip = 0, False, False
    for index in range(start, len(text)):
        sign = text[index]
        if skip:
            skip = False
        elif inside:
            skip, inside = sign == "\\", sign != '"'
        elif sign == '"':
            inside = True
        elif sign in "{[":
            depth += 1
        elif sign in "}]":
            depth -= 1
            if depth == 0:
                return text[start : index + 1]
    return text[start:]


def _find_marked_json(text: str) -> Iterator[str]:
    """The objects and lists after the marker."""
    end = 0
    for match in TOOL_CALL_MARKER.finditer(text):
        if match.start() < end:  # the marker is inside the arguments of the call before
            continue
        opening = _JSON_START.match(text, match.end())
        if opening is None:
            continue
        piece = extract_balanced(text, opening.start(1))
        end = opening.start(1) + len(piece)
        yield piece


def _find_bare_json(text: str) -> Iterator[str]:
    """Every object and list; only those in fences if there are fences."""
    pieces = [match.group(1) for match in _FENCE.finditer(text)] or [text]
    for piece in pieces:
        position = 0
        while (start := next_bracket(piece, position)) >= 0:
            fragment = extract_balanced(piece, start)
            position = start + len(fragment)
            yield fragment


def next_bracket(text: str, position: int = 0) -> int:
    """The position of the next object or list; -1 if there is none."""
    positions = [place for place in (text.find("{", position), text.find("[", position)) if place >= 0]
    return min(positions, default=-1)


def _to_tool_calls(parsed: JSON, *, require_arguments: bool = False) -> Iterator[ToolCall]:
    if isinstance(parsed, list):
        for item in parsed:
            yield from _to_tool_calls(item, require_arguments=require_arguments)
    if not isinstance(parsed, Mapping) or (require_arguments and not any(key in parsed for key in _PARAMETER_KEYS)):
        return
    name = next((parsed[key] for key in _NAME_KEYS if isinstance(parsed.get(key), str)), None)
    arguments = next((parsed[key] for key in _PARAMETER_KEYS if key in parsed), {})
    if isinstance(name, str) and isinstance(arguments, Mapping):
        yield ToolCall(name, dict(arguments))
    elif isinstance(name, str) and isinstance(arguments, str):
        yield parse_arguments(name, arguments)


def _to_json_value(value: object) -> JSON:
    if isinstance(value, dict):
        return {str(key): _to_json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_to_json_value(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
