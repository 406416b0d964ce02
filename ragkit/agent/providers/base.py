"""What every provider keeps: a request in, a completion or a stream of deltas out.

A provider writes any one of the four methods; the others follow from it. What a provider must not do is
retry, time out, count money or look at tools: the loop does that for all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from ragkit.agent.background_tasks import BACKGROUND_LOOP, THREAD_POOL, iterate_in_thread, iterate_sync
from ragkit.agent.messages import Message, canonical_json
from ragkit.agent.tools.base import Tool
from ragkit.errors import ConnectionFailed, InvalidOption
from ragkit.records import JSON
from ragkit.usage.tokens import ZERO_TOKENS, Tokens


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """How a model shall answer."""

    temperature: float = 0.7
    """0 to 2."""
    top_p: float = 1.0
    """0 to 1."""
    max_tokens: int = 2048
    """Tokens that it may write."""
    response_schema: Mapping[str, JSON] | None = None
    """JSON Schema that the answer must keep; None for free text."""
    timeout_s: float | None = None
    """Seconds that the loop waits for an answer: what a provider hands to its HTTP client, to free the connection."""


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """Everything that a model is asked."""

    model: str
    """The model's name as its service knows it; empty for the provider's own choice."""
    messages: tuple[Message, ...]
    """The conversation, a system message first where there is one."""
    tools: tuple[Tool, ...] = ()
    settings: ModelSettings = ModelSettings()


@dataclass(frozen=True, slots=True)
class Completion:
    """What a model answered."""

    message: Message
    usage: Tokens = ZERO_TOKENS
    stop_reason: str = "stop"
    """`stop`, `tool_calls`, `length`, `content_filter`, or what the service says."""
    model: str = ""
    """Which model answered; empty: the one that was asked."""
    provider: str = ""
    """Which provider answered; empty: the one that was asked."""
    fallback_errors: tuple[str, ...] = ()
    """Errors of the providers that were tried before, by a fallback chain."""


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer's text."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A piece of a tool call: the name comes first, then the arguments as JSON text, bit by bit."""

    index: int
    """Which call of this answer, counted from 0."""
    name: str = ""
    arguments: str = ""
    id: str = ""


@dataclass(frozen=True, slots=True)
class StreamCompleted:
    """The end of a stream: the whole answer."""

    completion: Completion


StreamDelta: TypeAlias = TextDelta | ToolCallDelta | StreamCompleted
"""What a stream is made of. A stream ends with exactly one Completed."""


_METHODS = ("complete", "stream", "acomplete", "astream")


class Provider(Protocol):
    """Answers requests. Write one of the four methods in a subclass; the rest follows from it.

    Errors: a ProviderError of the kind that fits, raised `from` the service's own.
    """

    name: str = "custom"
    """The service, as prices and `provider:model` names know it."""
    default_model: str = ""
    """What is asked when a request names no model."""
    native_tools: bool = True
    """Whether the service takes tools; if not, the loop explains them in the system prompt."""
    blocking: bool = True
    """Whether an answer may take long. If not, it is called where the loop runs, and no timeout watches it."""
    remote: bool = False
    """Whether it calls a service that costs money or needs a network: tests may forbid that."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if not any(getattr(cls, name) is not getattr(Provider, name) for name in _METHODS):
            raise InvalidOption(f"the provider {cls.__name__}", "no method", f"one of {', '.join(_METHODS)}")

    def complete(self, request: ModelRequest) -> Completion:
        """The whole answer."""
        if _overrides(self, "stream"):
            return get_completion(self.stream(request), self.name)
        return BACKGROUND_LOOP.submit(_acomplete(self, request)).result()

    def stream(self, request: ModelRequest) -> Iterator[StreamDelta]:
        """The answer as it comes."""
        if _overrides(self, "complete") or not _overrides(self, "astream"):
            yield from to_deltas(self.complete(request))
        else:
            yield from iterate_sync(self.astream(request))

    async def acomplete(self, request: ModelRequest) -> Completion:
        """The whole answer."""
        if _overrides(self, "astream"):
            found = [delta async for delta in self.astream(request)]
            return get_completion(found, self.name)
        return await asyncio.wrap_future(THREAD_POOL.submit(lambda: self.complete(request)))

    async def astream(self, request: ModelRequest) -> AsyncIterator[StreamDelta]:
        """The answer as it comes."""
        if _overrides(self, "acomplete") or not _overrides(self, "stream"):
            for delta in to_deltas(await self.acomplete(request)):
                yield delta
        else:
            async for delta in iterate_in_thread(lambda: self.stream(request)):
                yield delta


def to_deltas(completion: Completion) -> Iterator[StreamDelta]:
    """A whole answer as a stream."""
    if completion.message.content:
        yield TextDelta(completion.message.content)
    for index, call in enumerate(completion.message.tool_calls):
        yield ToolCallDelta(index, call.name, call.malformed or canonical_json(dict(call.arguments)), call.id)
    yield StreamCompleted(completion)


def get_completion(stream: Iterable[StreamDelta], provider: str) -> Completion:
    """The answer that a stream ends with. Raises ConnectionFailed when it ends without one."""
    for delta in stream:
        if isinstance(delta, StreamCompleted):
            return delta.completion
    raise ConnectionFailed(provider, "the stream ended before the answer was complete: ask again")


def _overrides(provider: Provider, method: str) -> bool:
    return getattr(type(provider), method, None) is not getattr(Provider, method)


async def _acomplete(provider: Provider, request: ModelRequest) -> Completion:
    return await provider.acomplete(request)
