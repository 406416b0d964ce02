"""The provider protocol: a request in, a completion or a stream of deltas out.

A provider implements one of the four methods; the others are derived from it. Retries, timeouts, costs and tools
are the business of the loop.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Protocol, TypeAlias, TypeVar

from ragkit.agent.messages import Message, canonical_json
from ragkit.agent.runtime.background_tasks import BACKGROUND_LOOP, THREAD_POOL, iterate_in_thread, iterate_sync
from ragkit.agent.tools.base import Tool
from ragkit.argument_types import check_types
from ragkit.errors import ConnectionFailed, InvalidOption, InvalidType
from ragkit.records import JSON
from ragkit.usage.tokens import ZERO_TOKENS, Tokens

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """The sampling settings and limits of a request."""

    temperature: float = 0.7
    """0 to 2."""
    top_p: float = 1.0
    """0 to 1."""
    max_tokens: int = 2048
    """Maximum tokens of the answer."""
    response_schema: Mapping[str, JSON] | None = None
    """JSON Schema of the answer; None for free text."""
    timeout_s: float | None = None
    """Timeout in seconds, enforced by the loop; providers pass it to their HTTP client to close the connection."""


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A request to a model."""

    model: str
    """The model's name as its service knows it; empty for the provider's own choice."""
    messages: tuple[Message, ...]
    """The conversation; a system message comes first."""
    tools: tuple[Tool, ...] = ()
    settings: ModelSettings = ModelSettings()
    closed_tools: tuple[Tool, ...] = ()
    """Tools of earlier calls that the model may no longer call; some services require their declaration."""
    failed_in_chain: frozenset[int] = frozenset()
    """The providers of a fallback chain that have failed in this request, by index: not tried again."""


@dataclass(frozen=True, slots=True)
class Completion:
    """The answer of a model."""

    message: Message
    usage: Tokens = ZERO_TOKENS
    stop_reason: str = "stop"
    """`stop`, `tool_calls`, `length`, `content_filter`, `refusal`, or the reason given by the service."""
    model: str = ""
    """The model that answered; empty: the requested one."""
    provider: str = ""
    """The provider that answered; empty: the requested one."""
    fallback_errors: tuple[str, ...] = ()
    """Errors of the providers that a fallback chain tried before."""

    def __iter__(self) -> Iterator[Message | Tokens]:
        """The message and its usage: `message, usage = provider.complete(...)`."""
        yield self.message
        yield self.usage

    def __getitem__(self, index: int) -> Message | Tokens:
        """The message (0) or its usage (1)."""
        return (self.message, self.usage)[index]


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A chunk of the answer's text."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """A chunk of the model's reasoning, which is no part of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A chunk of a tool call: first the name, then the arguments as JSON text."""

    index: int
    """Index of the call in this answer, from 0."""
    name: str = ""
    arguments: str = ""
    id: str = ""


@dataclass(frozen=True, slots=True)
class StreamCompleted:
    """The end of a stream: the whole answer."""

    completion: Completion


StreamDelta: TypeAlias = TextDelta | ReasoningDelta | ToolCallDelta | StreamCompleted
"""An element of a stream. A stream ends with exactly one StreamCompleted."""


METHODS = ("complete", "stream", "acomplete", "astream")
"""The methods of a provider."""
PROMPT_NAMES = ("system_prompt", "prompt", "system")
"""What a method with the documented signature may call the system prompt."""


class Provider(Protocol):
    """Sends requests to a model. Implement one of the four methods in a subclass; the others are derived from it.

    Errors are ProviderErrors, raised `from` the error of the service's SDK. An agent also accepts providers with
    `complete(model, system_prompt, messages, ...)` or `chat(messages, tools)`.
    """

    one_of: tuple[str, ...] = (*METHODS, "chat")
    """An object with one of these methods can be a provider."""
    name: str = "custom"
    """The name of the service in prices and in `provider:model`."""
    default_model: str = ""
    """The model of requests that name none."""
    native_tools: bool = True
    """Whether the service supports tools; if not, the system prompt describes them."""
    writes_calls: bool = False
    """Whether its models may write tool calls into their text as JSON, as small ones of local servers do."""
    on_this_machine: bool = False
    """Whether its models run on this machine, where they read slowly: see `RAGOptions.passages`."""
    models_without_tools: frozenset[str] = frozenset()
    """Models that know no tools, as their service or their answers have shown: the agent sends them none."""
    blocking: bool = True
    """Whether a request may block. If not, it is called in the loop's thread, without a timeout."""
    context_window: int | None = None
    """Tokens of prompt and answer together, where they are set for the provider; None: those of the model."""
    remote: bool = False
    """Whether it needs a network or costs money: tests may forbid that."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        has_method = any(getattr(cls, name) is not getattr(Provider, name) for name in METHODS)
        if not (has_method or hasattr(cls, "chat")):  # `chat` is adapted when the provider is given to an agent
            expected = f"one or more of {', '.join(METHODS)}"
            raise InvalidOption(f"the methods of provider {cls.__name__}", "none", expected)
        for name in METHODS:
            if name in vars(cls) and not takes_messages(vars(cls)[name]):
                setattr(cls, name, _take_parts(vars(cls)[name]))
            elif name in vars(cls) and not hasattr(cls, "model"):
                cls.model = _with_model  # type: ignore[attr-defined]

    def complete(self, request: ModelRequest) -> Completion:
        """Return the whole answer."""
        if _overrides(self, "stream"):
            return get_completion(self.stream(request), self.name)
        return BACKGROUND_LOOP.submit(self.acomplete(request)).result()

    def stream(self, request: ModelRequest) -> Iterator[StreamDelta]:
        """Stream the answer."""
        if _overrides(self, "complete") or not _overrides(self, "astream"):
            yield from to_deltas(self.complete(request))
        else:
            yield from iterate_sync(self.astream(request))

    async def acomplete(self, request: ModelRequest) -> Completion:
        """Return the whole answer."""
        if _overrides(self, "astream"):
            return get_completion([delta async for delta in self.astream(request)], self.name)
        import asyncio

        return await asyncio.wrap_future(THREAD_POOL.submit(lambda: self.complete(request)))

    async def astream(self, request: ModelRequest) -> AsyncIterator[StreamDelta]:
        """Stream the answer."""
        if _overrides(self, "acomplete") or not _overrides(self, "stream"):
            for delta in to_deltas(await self.acomplete(request)):
                yield delta
        else:
            async for delta in iterate_in_thread(lambda: self.stream(request)):
                yield delta


def takes_messages(method: object) -> bool:
    """Whether a method takes `messages`, as the documented ones do, in place of a request; also one of `**kwargs`."""
    code = getattr(inspect.unwrap(method) if callable(method) else method, "__code__", None)
    if code is None:
        return False
    named = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    collects = code.co_flags & inspect.CO_VARKEYWORDS and not code.co_flags & inspect.CO_VARARGS
    return "messages" in named or bool(collects and {*named[1:]} <= {"model", *PROMPT_NAMES})


def _take_parts(method: Callable[..., T]) -> Callable[..., T]:
    """The method, which can also be called as `complete(model, system_prompt, messages, ...)`, also by keyword."""

    @wraps(method)
    def call(self: Provider, *parts: object, **options: object) -> T:
        if len(parts) + len(options) > 1 or "model" in options:
            return method(self, _to_request(*parts, **options))  # type: ignore[arg-type] # checked by the call
        given = parts[0] if parts else options.get("request")
        if not isinstance(given, ModelRequest):
            raise InvalidType("request", given, "a ModelRequest, or model, system_prompt and messages")
        return method(self, given)

    return call


@check_types()
def _to_request(  # noqa: PLR0913 - the documented signature
    model: str,
    system_prompt: str = "",
    messages: Iterable[Message] = (),
    tools: Iterable[Tool] = (),
    *,
    temperature: float = 0.7,
    top_p: float = 1.0,
    max_tokens: int = 2048,
    timeout: float | None = None,
) -> ModelRequest:
    """The request of the documented call: `complete(model, system_prompt, messages, tools, ...)`."""
    system = (Message.system(system_prompt),) if system_prompt else ()
    settings = ModelSettings(temperature, top_p, max_tokens=max_tokens, timeout_s=timeout)
    return ModelRequest(model, (*system, *messages), tuple(tools or ()), settings)


def _with_model(provider: Provider, name: str) -> Provider:
    """A copy of a provider with another default model: `MyProvider().model("my-model")`."""
    copied = copy.copy(provider)
    copied.default_model = name
    return copied


def to_deltas(completion: Completion) -> Iterator[StreamDelta]:
    """A completion as a stream."""
    if completion.message.reasoning:
        yield ReasoningDelta(completion.message.reasoning)
    if completion.message.content:
        yield TextDelta(completion.message.content)
    for index, call in enumerate(completion.message.tool_calls):
        yield ToolCallDelta(index, call.name, call.malformed or canonical_json(dict(call.arguments)), call.id)
    yield StreamCompleted(completion)


def get_completion(stream: Iterable[StreamDelta], provider: str) -> Completion:
    """The completion at the end of a stream. Raises ConnectionFailed if there is none."""
    for delta in stream:
        if isinstance(delta, StreamCompleted):
            return delta.completion
    raise ConnectionFailed(provider, "the stream ended before the answer was complete: retry")


def _overrides(provider: Provider, method: str) -> bool:
    return getattr(type(provider), method, None) is not getattr(Provider, method)
