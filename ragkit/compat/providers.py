"""Providers whose methods have the signatures of other agent libraries, as providers of ragkit.

Adapted are `complete(model, system_prompt, messages, ...)`, `complete(messages, **options)` (with `acomplete`, `stream`
and `astream` likewise) and `chat(messages, tools)` with `get_cost(usage)`. They may return text, a Message, a pair of a
message and its usage, or an object with `text`, `tool_calls` and `usage`. `ragkit.agent.providers.base` imports this
module when such a provider is defined or given to an agent.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, TypeAlias

from ragkit.agent.messages import Message, Role, ToolCall
from ragkit.agent.providers.base import (
    Completion,
    ModelRequest,
    ModelSettings,
    Provider,
    StreamCompleted,
    StreamDelta,
    TextDelta,
    ToolCallDelta,
)
from ragkit.agent.providers.chat_completions import build_payload
from ragkit.agent.tools.base import Tool
from ragkit.compat.openai_calls import to_tool_call
from ragkit.errors import InvalidOption, ProviderError
from ragkit.usage.tokens import Tokens

Method: TypeAlias = Callable[..., Any]

_METHODS = ("complete", "stream", "acomplete", "astream")
_ALIASES: Mapping[str, str] = {"prompt": "system_prompt", "system": "system_prompt", "timeout_s": "timeout"}
_OPTIONS = ("model", "system_prompt", "tools", "temperature", "top_p", "max_tokens", "timeout")
"""The parameters that a documented method may have beside `messages`."""


def adapt_class(cls: type[Provider]) -> None:
    """Let the documented methods of a provider class take a ModelRequest; they keep their own signature as well."""
    for name, method in _convert_methods(cls).items():
        setattr(cls, name, method)
    if not hasattr(cls, "model"):
        cls.model = _with_model  # type: ignore[attr-defined]


def adapt_provider(given: object) -> Provider:
    """A provider around an object with documented methods. Raises InvalidOption if it has none."""
    converted = _convert_methods(type(given))
    if not converted:
        expected = f"a Provider, or an object with a method {', '.join(_METHODS)} or chat"
        raise InvalidOption("provider", type(given).__name__, expected)
    native_tools = converted.pop("native_tools")
    methods = {name: _delegate(method, given) for name, method in converted.items()}
    fields = {
        "name": getattr(given, "name", "custom"),
        "default_model": getattr(given, "default_model", ""),
        "native_tools": getattr(given, "native_tools", native_tools),
    }
    adapted: type[Provider] = type(type(given).__name__, (Provider,), {**methods, **fields})
    return adapted()


def to_request(  # noqa: PLR0913 - the documented signature
    model: str,
    system_prompt: str = "",
    messages: tuple[Message, ...] | list[Message] = (),
    tools: tuple[Tool, ...] | list[Tool] = (),
    *,
    temperature: float = 0.7,
    max_tokens: int = 2048,
    timeout: float | None = None,
) -> ModelRequest:
    """The request of the documented arguments."""
    system = (Message.system(system_prompt),) if system_prompt else ()
    settings = ModelSettings(temperature, max_tokens=max_tokens, timeout_s=timeout)
    return ModelRequest(model, (*system, *messages), tuple(tools or ()), settings)


def _with_model(provider: Provider, name: str) -> Provider:
    """A copy of the provider with another default model: `MyProvider().model("my-model")`."""
    copied = copy.copy(provider)
    copied.default_model = name
    return copied


def _delegate(method: Method, given: object) -> Method:
    return lambda _, request: method(given, request)


def _convert_methods(cls: type) -> dict[str, Any]:
    """The documented methods of a class as methods that take a ModelRequest, and whether they are given the tools."""
    found = {name: getattr(cls, name) for name in _METHODS if takes_messages(getattr(cls, name, None))}
    convert: Mapping[str, Callable[[Method], Method]] = {
        "complete": _convert_complete,
        "acomplete": _convert_acomplete,
        "stream": _convert_stream,
        "astream": _convert_astream,
    }
    methods: dict[str, Any] = {name: convert[name](method) for name, method in found.items()}
    chat: Method | None = getattr(cls, "chat", None)
    if not methods and chat is not None:
        methods["complete"] = _convert_chat(chat)
    if methods and "native_tools" not in vars(cls):
        sources = [*found.values(), *([chat] if chat is not None and not found else [])]
        methods["native_tools"] = any("tools" in _parameters(method) for method in sources)
    return methods


def takes_messages(method: object) -> bool:
    """Whether a method has a parameter `messages`, as the documented ones do."""
    code = getattr(method, "__code__", None)
    return code is not None and "messages" in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _parameters(method: Method) -> list[str]:
    return [_ALIASES.get(name, name) for name in list(inspect.signature(method).parameters)[1:]]


def _arguments(method: Method, request: ModelRequest) -> dict[str, object]:
    """The arguments of a documented method; one with `**options` gets all of them."""
    signature = inspect.signature(method).parameters
    names = list(signature)[1:]
    settings = request.settings
    system = [message for message in request.messages if message.role is Role.SYSTEM]
    others = [message for message in request.messages if message.role is not Role.SYSTEM]
    separate = "system_prompt" in [_ALIASES.get(name, name) for name in names]
    values: dict[str, object] = {
        "messages": others if separate else [*system, *others],
        "model": request.model,
        "system_prompt": "\n\n".join(message.content for message in system),
        "tools": list(request.tools) or None,
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "max_tokens": settings.max_tokens,
        "timeout": settings.timeout_s,
    }
    arguments = {name: values[_ALIASES.get(name, name)] for name in names if _ALIASES.get(name, name) in values}
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in signature.values()):
        given = {_ALIASES.get(name, name) for name in arguments}
        arguments |= {name: values[name] for name in _OPTIONS if name not in given and name != "system_prompt"}
    return arguments


def _convert_complete(method: Method) -> Method:
    def complete(self: Provider, request: object, *rest: object, **options: object) -> object:
        if not isinstance(request, ModelRequest):
            return method(self, request, *rest, **options)
        return _to_completion(self, method(self, **_arguments(method, request)))

    return complete


def _convert_acomplete(method: Method) -> Method:
    async def acomplete(self: Provider, request: object, *rest: object, **options: object) -> object:
        if not isinstance(request, ModelRequest):
            return await method(self, request, *rest, **options)
        return _to_completion(self, await method(self, **_arguments(method, request)))

    return acomplete


def _convert_stream(method: Method) -> Method:
    def stream(self: Provider, request: object, *rest: object, **options: object) -> Iterator[object]:
        if not isinstance(request, ModelRequest):
            yield from method(self, request, *rest, **options)
            return
        collected = _Collector(self)
        for piece in method(self, **_arguments(method, request)):
            yield from collected.add(piece)
        yield from collected.finish()

    return stream


def _convert_astream(method: Method) -> Method:
    async def astream(self: Provider, request: object, *rest: object, **options: object) -> AsyncIterator[object]:
        if not isinstance(request, ModelRequest):
            async for piece in method(self, request, *rest, **options):
                yield piece
            return
        collected = _Collector(self)
        async for piece in method(self, **_arguments(method, request)):
            for delta in collected.add(piece):
                yield delta
        for delta in collected.finish():
            yield delta

    return astream


def _convert_chat(chat: Method) -> Method:
    def complete(self: Provider, request: ModelRequest) -> Completion:
        payload = build_payload(request)
        tools = {"tools": payload.get("tools")} if "tools" in _parameters(chat) else {}
        return _to_completion(self, chat(self, payload["messages"], **tools))

    return complete


class _Collector:
    """The chunks of a documented stream, text or ToolCalls, as deltas."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._text = ""
        self._calls: list[ToolCall] = []
        self._is_complete = False

    def add(self, piece: object) -> Iterator[StreamDelta]:
        """The deltas of a chunk."""
        if isinstance(piece, ToolCall):
            self._calls.append(piece)
        elif isinstance(piece, str):
            self._text += piece
            yield TextDelta(piece)
        elif isinstance(piece, TextDelta | ToolCallDelta | StreamCompleted):
            self._is_complete = self._is_complete or isinstance(piece, StreamCompleted)
            yield piece
        else:
            raise _unreadable(self._provider, piece)

    def finish(self) -> Iterator[StreamDelta]:
        """The end of the stream, unless the provider has sent it."""
        if not self._is_complete:
            yield StreamCompleted(Completion(Message.assistant(self._text, self._calls)))


def _to_completion(provider: object, value: object) -> Completion:
    """What a documented method returns, as a Completion. Raises ProviderError."""
    if isinstance(value, Completion):
        return value
    usage: object = None
    if isinstance(value, tuple) and len(value) == 2:
        value, usage = value
    if isinstance(value, str):
        message = Message.assistant(value)
    elif isinstance(value, Message):
        message = value
    elif hasattr(value, "text") or hasattr(value, "content"):
        text = getattr(value, "text", None) or getattr(value, "content", None) or ""
        calls = [to_tool_call(call) for call in getattr(value, "tool_calls", None) or ()]
        message, usage = Message.assistant(str(text), calls), getattr(value, "usage", None)
    else:
        raise _unreadable(provider, value)
    return Completion(message, _to_tokens(provider, usage), "tool_calls" if message.tool_calls else "stop")


def _to_tokens(provider: object, usage: object) -> Tokens:
    if isinstance(usage, Tokens):
        return usage
    cost = _read_cost(provider, usage)
    if usage is None:
        return Tokens(cost_usd=cost)
    prompt = _read_count(usage, "prompt_tokens", "input_tokens")
    return Tokens(prompt, _read_count(usage, "completion_tokens", "output_tokens"), cost_usd=cost)


def _read_cost(provider: object, usage: object) -> float | None:
    """The cost that `get_cost` computes, or that the usage has; None if there is neither."""
    get_cost = getattr(provider, "get_cost", None)
    if get_cost is None:
        return getattr(usage, "cost_usd", None)
    try:
        return float(get_cost(usage))
    except (AttributeError, TypeError):
        if usage is None:  # most read attributes of the usage
            return None
        raise


def _read_count(usage: object, *names: str) -> int:
    values = [usage.get(name) if isinstance(usage, Mapping) else getattr(usage, name, None) for name in names]
    return next((int(value) for value in values if value is not None), 0)


def _unreadable(provider: object, value: object) -> ProviderError:
    expected = "text, a Message, a pair of a message and its usage, an object with `text`, or a Completion"
    name = str(getattr(provider, "name", "custom"))
    return ProviderError(name, f"the method of a provider must return {expected} (got {type(value).__name__})")
