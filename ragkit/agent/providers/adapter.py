"""Adapts providers with other signatures: `complete(model, system_prompt, messages, ...)`, and `chat(messages, tools)`.

Their methods may be synchronous or asynchronous and return a Completion, a Message, text, a pair of a message and its
usage, or an object with `text`, `tool_calls` and `usage`.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from inspect import Parameter, iscoroutine, signature
from typing import Any, cast

from ragkit.agent.messages import Message, Role, ToolCall, canonical_json
from ragkit.agent.providers.base import (
    METHODS,
    PROMPT_NAMES,
    Completion,
    ModelRequest,
    Provider,
    StreamCompleted,
    StreamDelta,
    TextDelta,
    ToolCallDelta,
    get_completion,
    to_deltas,
)
from ragkit.agent.providers.chat_completions import build_payload
from ragkit.agent.providers.parser import parse_arguments
from ragkit.agent.runtime.background_tasks import BACKGROUND_LOOP, THREAD_POOL, iterate_in_thread, iterate_sync
from ragkit.errors import InvalidOption
from ragkit.usage.tokens import Tokens


class AdaptedProvider(Provider):
    """A provider whose methods take the parts of a request: model, system prompt, messages, tools, settings.

    Args:
        inner: the provider; `inner.name` and `inner.default_model` or `inner.model` are used if they are texts.
        methods: those of `complete`, `stream`, `acomplete` and `astream` that it has; without any, it has `chat`.
    """

    def __init__(self, inner: object, methods: Iterable[str]) -> None:
        self.inner = inner
        self._calls: dict[str, _Call] = {name: _PartsCall(inner, name) for name in methods}
        if not self._calls:
            if not callable(getattr(inner, "chat", None)):
                raise InvalidOption("the methods of a provider", "none", f"one of {', '.join(METHODS)}, chat")
            self._calls["complete"] = _ChatCall(inner)
        self.name = _text(inner, "name") or "custom"
        self.default_model = _text(inner, "default_model") or _text(inner, "model")
        # without tools in the signature, the system prompt describes them, and calls are read from the text
        self.native_tools = any(call.accepts("tools") for call in self._calls.values())
        self.writes_calls = getattr(inner, "writes_calls", None) is True  # no other value: some objects have every name
        self.on_this_machine = getattr(inner, "on_this_machine", None) is True

    def complete(self, request: ModelRequest) -> Completion:
        """Return the whole answer."""
        if call := self._find("complete", request):
            outcome = call(request)
            return _to_completion(BACKGROUND_LOOP.submit(outcome).result() if iscoroutine(outcome) else outcome)
        if self._find("stream", request):
            return get_completion(self.stream(request), self.name)
        return BACKGROUND_LOOP.submit(self.acomplete(request)).result()

    def stream(self, request: ModelRequest) -> Iterator[StreamDelta]:
        """Stream the answer."""
        if call := self._find("stream", request):
            collector = _StreamCollector()
            for item in cast("Iterable[object]", call(request)):
                yield from collector.add(item)
            yield collector.end()
        elif self._find("complete", request) or not self._find("astream", request):
            yield from to_deltas(self.complete(request))
        else:
            yield from iterate_sync(self.astream(request))

    async def acomplete(self, request: ModelRequest) -> Completion:
        """Return the whole answer."""
        if call := self._find("acomplete", request):
            return _to_completion(await cast("Any", call(request)))
        if self._find("astream", request):
            return get_completion([delta async for delta in self.astream(request)], self.name)
        return await asyncio.wrap_future(THREAD_POOL.submit(lambda: self.complete(request)))

    async def astream(self, request: ModelRequest) -> AsyncIterator[StreamDelta]:
        """Stream the answer."""
        if call := self._find("astream", request):
            collector = _StreamCollector()
            items: Any = call(request)
            async for item in await items if iscoroutine(items) else items:
                for delta in collector.add(item):
                    yield delta
            yield collector.end()
        elif self._find("acomplete", request) or not self._find("stream", request):
            for delta in to_deltas(await self.acomplete(request)):
                yield delta
        else:
            async for delta in iterate_in_thread(lambda: self.stream(request)):
                yield delta

    def _find(self, method: str, request: ModelRequest) -> _Call | None:
        """The method, unless it does not accept the tools of the request and another one does."""
        call = self._calls.get(method)
        if call is None or (request.tools and self.native_tools and not call.accepts("tools")):
            return None
        return call


class _Call(ABC):
    """Calls a method with those parts of a request that its signature has."""

    def __init__(self, inner: object, method: str) -> None:
        self._function: Callable[..., object] = getattr(inner, method)
        parameters = signature(self._function).parameters.values()
        self._has_rest = any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters)
        named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        self._names = [parameter.name for parameter in named]
        known = {*self.values(ModelRequest("", ())), *PROMPT_NAMES}
        for parameter in named:
            if parameter.default is parameter.empty and parameter.name not in known:
                label = f"a parameter of {type(inner).__name__}.{method}"
                raise InvalidOption(label, parameter.name, f"one of {', '.join(sorted(known))}, or have a default")

    def accepts(self, name: str) -> bool:
        """Whether the method has a parameter of this name."""
        return name in self._names or self._has_rest

    def __call__(self, request: ModelRequest) -> object:
        return self._function(**{name: value for name, value in self.values(request).items() if self.accepts(name)})

    @abstractmethod
    def values(self, request: ModelRequest) -> dict[str, object]:
        """The arguments by name."""


class _PartsCall(_Call):
    """`complete(model, system_prompt, messages, tools, temperature, max_tokens, timeout)`."""

    def values(self, request: ModelRequest) -> dict[str, object]:
        """The arguments by name. Without a parameter for the system prompt, it is the first message."""
        settings = request.settings
        prompt = "\n\n".join(message.content for message in request.messages if message.role is Role.SYSTEM)
        names = [name for name in PROMPT_NAMES if name in self._names]
        if not names and "messages" not in self._names:  # all is collected in `**kwargs`, by the documented names
            names = ["system_prompt"]
        return {
            "model": request.model,
            **dict.fromkeys(names, prompt),
            "messages": [message for message in request.messages if not names or message.role is not Role.SYSTEM],
            "tools": list(request.tools) or None,
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            "max_tokens": settings.max_tokens,
            "timeout": settings.timeout_s,
        }


class _ChatCall(_Call):
    """`chat(messages, tools)` with messages and tools as OpenAI's JSON, and `get_cost(usage)` in US dollars."""

    def __init__(self, inner: object) -> None:
        super().__init__(inner, "chat")
        self._get_cost: Callable[[object], float | None] | None = getattr(inner, "get_cost", None)

    def values(self, request: ModelRequest) -> dict[str, object]:
        """The arguments by name."""
        payload = build_payload(request, "")
        return {"messages": payload["messages"], "tools": payload.get("tools"), "model": request.model}

    def __call__(self, request: ModelRequest) -> object:
        answer = super().__call__(request)
        usage = getattr(answer, "usage", None)
        if self._get_cost is None or usage is None or isinstance(answer, Completion):
            return answer
        return _to_completion(answer, self._get_cost(usage))


class _StreamCollector:
    """The pieces of a stream: text, tool calls, deltas, and messages or pairs at its end."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._calls: list[ToolCall] = []
        self._last: Completion | None = None

    def add(self, item: object) -> Iterator[StreamDelta]:
        """Add an element of the stream."""
        if isinstance(item, StreamCompleted):
            self._last = item.completion
        elif isinstance(item, str):
            self._text.append(item)
            yield TextDelta(item)
        elif isinstance(item, TextDelta):
            self._text.append(item.text)
            yield item
        elif isinstance(item, ToolCall):
            arguments = item.malformed or canonical_json(dict(item.arguments))
            yield ToolCallDelta(len(self._calls), item.name, arguments, item.id)
            self._calls.append(item)
        else:
            self._last = _to_completion(item)

    def end(self) -> StreamCompleted:
        """The end of the stream."""
        if self._last is not None:
            return StreamCompleted(self._last)
        return StreamCompleted(_to_completion(Message.assistant("".join(self._text), self._calls)))


def _to_completion(answer: object, cost: float | None = None) -> Completion:
    """The answer of a method as a completion. Raises InvalidOption for an unknown type."""
    if isinstance(answer, Completion):
        return answer
    usage: object = getattr(answer, "usage", None)
    if isinstance(answer, tuple) and len(answer) == 2:
        answer, usage = answer
    if isinstance(answer, str):
        answer = Message.assistant(answer)
    elif not isinstance(answer, Message) and hasattr(answer, "text"):
        calls = [_to_tool_call(call) for call in getattr(answer, "tool_calls", None) or ()]
        answer = Message.assistant(cast("Any", answer).text or "", calls)
    if not isinstance(answer, Message):
        expected = "text, a Message, a pair of a message and its usage, or an object with `text`"
        raise InvalidOption("the answer of a provider", type(answer).__name__, expected)
    reason = "tool_calls" if answer.tool_calls else "stop"
    return Completion(answer, _to_tokens(usage, cost), reason, model=_text(usage, "model"))


def _to_tokens(usage: object, cost: float | None) -> Tokens:
    def count(*names: str) -> int:
        values = (usage.get(name) if isinstance(usage, Mapping) else getattr(usage, name, None) for name in names)
        return next((value for value in values if isinstance(value, int)), 0)

    if isinstance(usage, Tokens):
        return usage
    known = cost or getattr(usage, "llm_cost_usd", None) or getattr(usage, "cost_usd", None)
    return Tokens(
        count("prompt_tokens", "input_tokens"),
        count("completion_tokens", "output_tokens"),
        count("cached_tokens"),
        cost_usd=cost if cost is not None else known,
    )


def _to_tool_call(call: object) -> ToolCall:
    """A ToolCall, or a tool call of OpenAI's shape as JSON or as an object of its SDK."""
    if isinstance(call, ToolCall):
        return call

    def get(value: object, name: str) -> object:
        return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)

    function = get(call, "function") or call
    arguments = get(function, "arguments") or ""
    text = canonical_json(dict(arguments)) if isinstance(arguments, Mapping) else str(arguments)
    return parse_arguments(str(get(function, "name") or ""), text, str(get(call, "id") or ""))


def _text(value: object, name: str) -> str:
    text = getattr(value, name, "")
    return text if isinstance(text, str) else ""
