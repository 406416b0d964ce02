"""Providers without a service, for tests and offline use: scripted, echo, local, function.

They answer at once, without network and cost.
"""

from __future__ import annotations

import json
import os
import re
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import TypeAlias

from ragkit.agent.messages import Message, Role, ToolCall
from ragkit.agent.prompt import own_text, unmark_data
from ragkit.agent.providers.base import METHODS, Completion, ModelRequest, Provider, StreamDelta, TextDelta, to_deltas
from ragkit.agent.providers.parser import ToolCallParser
from ragkit.argument_types import check_types
from ragkit.errors import (
    AuthenticationFailed,
    ConnectionFailed,
    InvalidOption,
    InvalidRequest,
    ProviderError,
    RateLimited,
    RequestTimeout,
    shorten,
)
from ragkit.records import JSON
from ragkit.usage.tokens import Tokens, estimate_tokens

MOCK_VARIABLE = "RAGKIT_MOCK_JSON"
"""Environment variable: a script of model turns, as JSON or as the path of a JSON file."""
MOCK_CALLS_VARIABLE = "RAGKIT_BBOX_MOCK_JSON"
"""Environment variable: the tool calls of LocalProvider, as JSON."""

ScriptedAnswer: TypeAlias = str | Message | ToolCall | Sequence[ToolCall] | Completion
"""A scripted answer: text, tool calls, a message or a completion."""
ScriptedTurn: TypeAlias = ScriptedAnswer | BaseException | Callable[[ModelRequest], ScriptedAnswer]
"""One turn of a script: an answer, an exception to raise, or a function of the request."""

_ERROR_TYPES: Mapping[str, type[ProviderError]] = {
    "authentication": AuthenticationFailed,
    "rate_limited": RateLimited,
    "timeout": RequestTimeout,
    "connection": ConnectionFailed,
    "invalid_request": InvalidRequest,
}


class ScriptExhausted(AssertionError):
    """A scripted provider got more requests than its script has turns."""


class InstantProvider(Provider):
    """Base class of providers that answer at once: implement `complete`. Text is streamed word by word."""

    name = "local"
    blocking = False

    @abstractmethod
    def complete(self, request: ModelRequest) -> Completion:
        """Return the whole answer."""

    def stream(self, request: ModelRequest) -> Iterator[StreamDelta]:
        """Stream the answer word by word."""
        completion = self.complete(request)
        for delta in to_deltas(completion):
            if isinstance(delta, TextDelta):
                yield from map(TextDelta, re.findall(r"\S+\s*|\s+", delta.text))
            else:
                yield delta

    async def acomplete(self, request: ModelRequest) -> Completion:
        """Return the whole answer."""
        return self.complete(request)

    async def astream(self, request: ModelRequest) -> AsyncIterator[StreamDelta]:
        """Stream the answer word by word."""
        for delta in self.stream(request):
            yield delta


@check_types(skip=METHODS)
class ScriptedProvider(InstantProvider):
    """Answers with the turns of a script, one per request, and records the requests in `requests`.

    Args:
        script: text, tool calls, messages or completions; exceptions, which are raised; functions of the request.
        model: the model name in the completions.
    """

    name = "scripted"

    def __init__(self, script: Sequence[ScriptedTurn], *, model: str = "scripted") -> None:
        self.default_model = model
        self.requests: list[ModelRequest] = []
        self._script = list(script)
        self._lock = Lock()

    @property
    def remaining(self) -> int:
        """The number of unused turns."""
        return len(self._script) - len(self.requests)

    def complete(self, request: ModelRequest) -> Completion:
        """The next turn. Raises ScriptExhausted if there is none."""
        with self._lock:
            position = len(self.requests)
            if position >= len(self._script):
                raise ScriptExhausted(f"the script has {position} turns, but got another request: add a turn")
            self.requests.append(request)
        return _to_completion(self._script[position], request)

    @staticmethod
    def from_json(text: str) -> ScriptedProvider:
        """Parse a script: a JSON list of turns.

        A turn is a text, or an object with `content`, `tool_calls` (a list of `{"name", "arguments"}`),
        `usage` (`{"prompt_tokens", "completion_tokens", "cached_tokens"}`), `stop_reason`; or with `error`
        (authentication, rate_limited, timeout, connection, invalid_request) and `retry_after` in seconds.

        Raises:
            InvalidOption: `text` is not such a list.
        """
        try:
            turns = json.loads(text)
        except json.JSONDecodeError as error:
            expected = "a JSON list of turns, or the path of a file"
            raise InvalidOption(MOCK_VARIABLE, shorten(text, 60), expected) from error
        if not isinstance(turns, list):
            raise InvalidOption(MOCK_VARIABLE, shorten(text, 60), "a JSON list of turns")
        return ScriptedProvider([_parse_turn(turn) for turn in turns])

    @staticmethod
    def from_environment() -> ScriptedProvider | None:
        """The script in RAGKIT_MOCK_JSON, or in the file that it names; None if it is not set."""
        value = os.environ.get(MOCK_VARIABLE, "").strip()
        if not value:
            return None
        return ScriptedProvider.from_json(value if value[0] in "[{" else _read_script_file(value))


class FunctionProvider(InstantProvider):
    """Answers each request with the result of a function."""

    name = "function"

    def __init__(self, answer: Callable[[ModelRequest], ScriptedAnswer], *, model: str = "function") -> None:
        self.default_model = model
        self._function = answer

    def complete(self, request: ModelRequest) -> Completion:
        """The result of the function."""
        return _to_completion(self._function, request)


class EchoProvider(InstantProvider):
    """Answers with the last user message."""

    name = "echo"
    default_model = "echo"

    def complete(self, request: ModelRequest) -> Completion:
        """The last user message."""
        return _to_completion(_last_user_text(request), request)


@check_types(skip=METHODS)
class LocalProvider(InstantProvider):
    """Needs no service and no key: returns the last tool result, or the user's message.

    It calls the tools that RAGKIT_BBOX_MOCK_JSON lists, a JSON list of `{"tool_name", "parameters"}`, one per request,
    and otherwise none. The default if no provider is configured.
    """

    name = "local"
    default_model = "local"

    def complete(self, request: ModelRequest) -> Completion:
        """The last tool result of the turn, or the last user message with a prefix."""
        final = request.messages[-1] if request.messages else Message.user("")
        calls = ToolCallParser().parse_all(os.environ.get(MOCK_CALLS_VARIABLE, ""))
        made = _count_calls_of_turn(request.messages)
        if made < len(calls):
            return _to_completion(calls[made], request)
        if final.role is Role.TOOL:
            return _to_completion(unmark_data(final.content), request)
        return _to_completion(f"[local provider, no model] {_last_user_text(request)}".rstrip(), request)


def _count_calls_of_turn(messages: Sequence[Message]) -> int:
    """Tool calls since the last user message."""
    last = max((index for index, message in enumerate(messages) if message.role is Role.USER), default=-1)
    return sum(len(message.tool_calls) for message in messages[last + 1 :])


def _last_user_text(request: ModelRequest) -> str:
    return next((own_text(message) for message in reversed(request.messages) if message.role is Role.USER), "")


def _to_completion(turn: ScriptedTurn, request: ModelRequest) -> Completion:
    if isinstance(turn, BaseException):
        raise turn
    if isinstance(turn, Completion):
        return turn
    if isinstance(turn, str):
        message = Message.assistant(turn)
    elif isinstance(turn, Message):
        message = turn
    elif callable(turn):
        return _to_completion(turn(request), request)
    else:
        message = Message.assistant("", [turn] if isinstance(turn, ToolCall) else turn)
    payload = sum(estimate_tokens(message.content) for message in request.messages)
    received = estimate_tokens(message.content)
    reason = "tool_calls" if message.tool_calls else "stop"
    return Completion(message, Tokens(payload, received, cost_usd=0.0), reason)


def _parse_turn(turn: JSON) -> ScriptedTurn:
    if isinstance(turn, str):
        return turn
    if not isinstance(turn, Mapping):
        raise InvalidOption(f"a turn of {MOCK_VARIABLE}", turn, "a text or an object")
    if "error" in turn:
        return _parse_error(turn)
    message = Message.from_dict({**turn, "role": "assistant"})
    usage = turn.get("usage")
    if not isinstance(usage, Mapping):
        return message
    keys = ("prompt_tokens", "completion_tokens", "cached_tokens")
    tokens = Tokens(**{key: value for key in keys if isinstance(value := usage.get(key), int)}, cost_usd=0.0)
    reason = "tool_calls" if message.tool_calls else "stop"
    return Completion(message, tokens, str(turn.get("stop_reason", reason)))


def _parse_error(turn: Mapping[str, JSON]) -> ProviderError:
    kind, message = str(turn["error"]), str(turn.get("message", "scripted"))
    if kind not in _ERROR_TYPES:
        raise InvalidOption(f"an error of {MOCK_VARIABLE}", kind, f"one of {', '.join(_ERROR_TYPES)}")
    wait = turn.get("retry_after")
    if kind == "rate_limited":
        return RateLimited("scripted", message, retry_after=float(wait) if isinstance(wait, int | float) else None)
    return _ERROR_TYPES[kind]("scripted", message)


def _read_script_file(path: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except OSError as error:
        raise InvalidOption(MOCK_VARIABLE, path, "JSON, or the path of a readable file") from error
