"""What every service has in common: one body behind all four methods, an answer put together from its pieces, keys.

A service's file says three things: how a request reads in its words, how to send it, and what a piece of its answer
means. Requests are sent in one background loop, whoever asks: a client's connections belong to one loop, and callers'
loops and threads come and go. Who stops listening closes the connection, so the service stops writing.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import threading
import weakref
from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, Generic, TypeVar

from ragkit.agent.background_tasks import PROVIDER_LOOP, iterate_on_loop, iterate_sync
from ragkit.agent.messages import Image, Message, Role, ToolCall, canonical_json
from ragkit.agent.parser import parse_arguments
from ragkit.agent.providers.base import (
    Completion,
    ModelRequest,
    Provider,
    StreamCompleted,
    StreamDelta,
    TextDelta,
    ToolCallDelta,
)
from ragkit.agent.providers.error_mapping import RequestTarget, ServiceErrorResponse, to_provider_error
from ragkit.errors import ConnectionFailed, InvalidOption, ProviderError, RequestTimeout
from ragkit.masking import mask_secrets
from ragkit.records import JSON
from ragkit.usage.tokens import ZERO_TOKENS, Tokens

ChunkT = TypeVar("ChunkT")
ClientT = TypeVar("ClientT")

CLOSE_TIMEOUT_S = 1.0
"""Seconds that a process waits at its end for connections to be closed."""


@dataclass(frozen=True, slots=True)
class SDKErrors:
    """The errors of an SDK and its HTTP client, by what they mean."""

    timeouts: tuple[type[Exception], ...]
    """The service did not answer in time."""
    connection_errors: tuple[type[Exception], ...]
    """It cannot be reached, or broke off. Looked at after `late`, which may be a kind of it."""
    api_errors: tuple[type[Exception], ...]
    """It answered with an error. Looked at last: often the root of an SDK's errors."""

    @property
    def all(self) -> tuple[type[Exception], ...]:
        """Everything that is translated. ValueError: what came is no JSON, or not of the form that was promised."""
        return (*self.timeouts, *self.connection_errors, *self.api_errors, ValueError)


@dataclass(slots=True)
class _PartialCall:
    position: int
    name: str = ""
    arguments: str = ""
    id: str = ""


@dataclass(slots=True)
class CompletionBuilder:
    """An answer while its pieces come in. Its methods yield the deltas that a piece amounts to."""

    target: RequestTarget
    text_parts: list[str] = field(default_factory=list)
    reasoning_parts: list[str] = field(default_factory=list)
    usage: Tokens = ZERO_TOKENS
    stop_reason: str = ""
    """Empty until the service has said that the answer is complete."""
    model: str = ""
    """Which model answers, as the service says."""
    state_blocks: dict[int, dict[str, JSON]] = field(default_factory=dict)
    """What the service wants to see again with the next request, unchanged, by its own count."""
    _calls: dict[int, _PartialCall] = field(default_factory=dict)

    @property
    def call_count(self) -> int:
        """How many tool calls there are so far."""
        return len(self._calls)

    def add_text(self, text: str | None) -> Iterator[StreamDelta]:
        """A piece of text; None and '' are none."""
        if text:
            self.text_parts.append(text)
            yield TextDelta(text)

    def add_reasoning(self, text: str | None) -> None:
        """A piece of what the model thinks."""
        if text:
            self.reasoning_parts.append(text)

    def add_call(self, index: int, name: str = "", arguments: str = "", call_id: str = "") -> Iterator[StreamDelta]:
        """A piece of the tool call that the service counts as `index`; arguments are JSON text."""
        call = self._calls.setdefault(index, _PartialCall(len(self._calls)))
        call.name += name
        call.arguments += arguments
        call.id = call.id or call_id
        yield ToolCallDelta(call.position, name, arguments, call_id)

    def add_complete_call(self, name: str, arguments: Mapping[str, JSON], call_id: str = "") -> Iterator[StreamDelta]:
        """A tool call that came in one piece."""
        yield from self.add_call(self.call_count, name, canonical_json(arguments), call_id)

    def append_state(self, index: int, key: str, text: str) -> None:
        """A piece of a text among what is kept."""
        block = self.state_blocks.setdefault(index, {})
        block[key] = f"{block.get(key) or ''}{text}"

    def build(self) -> Completion:
        """The whole answer. Raises ConnectionFailed when the service has not said that it is complete."""
        if not self.stop_reason:
            raise ConnectionFailed(self.target.provider, "the answer broke off before it was complete: ask again")
        cut = self.stop_reason == "length"
        calls = [_to_tool_call(call, cut=cut) for call in self._calls.values()]
        message = Message(
            Role.ASSISTANT,
            "".join(self.text_parts),
            tuple(calls),
            reasoning="".join(self.reasoning_parts),
            provider_state={self.target.provider: list(self.state_blocks.values())} if self.state_blocks else {},
        )
        reason = "tool_calls" if calls and self.stop_reason == "stop" else self.stop_reason
        # a dated name ("gpt-5.4-mini-2026-03-17") is the model that was asked for, under which prices are known
        model = self.target.model if self.model.startswith(self.target.model) else self.model
        return Completion(message, self.usage, reason, model or self.target.model)


def _to_tool_call(call: _PartialCall, *, cut: bool) -> ToolCall:
    if cut and call.arguments and not _is_json(call.arguments):
        # half a call must not be repaired: half a path is another path
        return ToolCall(call.name, {}, call.id, malformed=call.arguments)
    return parse_arguments(call.name, call.arguments, call.id)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


class LoopBoundClient(Generic[ClientT]):
    """A client of the background loop: made with its first use, and again in a process that was forked off.

    It is closed when nobody holds it any more, or when the process ends.
    """

    def __init__(
        self, make: Callable[[], ClientT], close: Callable[[ClientT], Coroutine[object, object, None]]
    ) -> None:
        self._create, self._close = make, close
        self._current: tuple[asyncio.AbstractEventLoop, ClientT] | None = None

    def get(self) -> ClientT:
        """The client. To be called in the background loop only."""
        loop = asyncio.get_running_loop()
        if self._current is None or self._current[0] is not loop:
            client = self._create()
            self._current = (loop, client)
            weakref.finalize(self, _close_client, loop, os.getpid(), partial(self._close, client))
        return self._current[1]


def _close_client(
    loop: asyncio.AbstractEventLoop, pid: int, close: Callable[[], Coroutine[object, object, None]]
) -> None:
    """Close a client in its loop. Called by the garbage collector in any thread, and at the end of the process."""
    if os.getpid() != pid:  # the connections are those of the process that this one was forked from
        return
    closing = asyncio.run_coroutine_threadsafe(close(), loop)
    if threading.current_thread() is threading.main_thread():
        with suppress(TimeoutError):  # the end of the process waits for it, but not for long
            closing.result(CLOSE_TIMEOUT_S)


class HTTPProvider(Provider, Generic[ChunkT]):
    """Base of the providers that ask a service over HTTP. One body: all four methods drain `_stream_deltas`."""

    remote = True
    sdk_errors: ClassVar[SDKErrors]
    host: str = ""
    """Where it is asked, if not where its SDK looks by itself."""

    @abstractmethod
    def _send_request(self, request: ModelRequest, *, live: bool) -> AsyncGenerator[ChunkT, None]:
        """Send the request; yield the pieces of the answer. When not `live` the answer may be one piece."""

    @abstractmethod
    def _add_chunk(self, chunk: ChunkT, draft: CompletionBuilder) -> Iterator[StreamDelta]:
        """Add a piece to the draft; yield the deltas that it amounts to."""

    @abstractmethod
    def _read_error(self, error: Exception) -> ServiceErrorResponse:
        """What the service said, from an error of `faults.refused`."""

    def complete(self, request: ModelRequest) -> Completion:
        """The whole answer."""
        return PROVIDER_LOOP.submit(self._complete(request)).result()

    def stream(self, request: ModelRequest) -> Iterator[StreamDelta]:
        """The answer as it comes."""
        return iterate_sync(self._stream_deltas(request, live=True), PROVIDER_LOOP)

    async def acomplete(self, request: ModelRequest) -> Completion:
        """The whole answer."""
        return await asyncio.wrap_future(PROVIDER_LOOP.submit(self._complete(request)))

    async def astream(self, request: ModelRequest) -> AsyncIterator[StreamDelta]:
        """The answer as it comes."""
        async with aclosing(iterate_on_loop(self._stream_deltas(request, live=True), PROVIDER_LOOP)) as found:
            async for delta in found:
                yield delta

    async def _complete(self, request: ModelRequest) -> Completion:
        found = [delta async for delta in self._stream_deltas(request, live=False)]
        assert isinstance(found[-1], StreamCompleted)  # noqa: S101 - without an error it ends with this
        return found[-1].completion

    async def _stream_deltas(self, request: ModelRequest, *, live: bool) -> AsyncGenerator[StreamDelta, None]:
        model = request.model.removeprefix(f"{self.name}:") or self.default_model
        draft = CompletionBuilder(RequestTarget(self.name, model, self.host))
        try:
            async with aclosing(self._send_request(replace(request, model=model), live=live)) as chunks:
                async for chunk in chunks:
                    for delta in self._add_chunk(chunk, draft):
                        yield delta
        except self.sdk_errors.all as error:
            raise self._translate_error(error, draft.target, request.settings.timeout_s) from error
        yield StreamCompleted(draft.build())

    def _translate_error(self, error: Exception, asked: RequestTarget, timeout_s: float | None) -> ProviderError:
        if isinstance(error, self.sdk_errors.timeouts):
            return RequestTimeout(self.name, f"no answer within {timeout_s or 0.0:g} seconds")
        where = f" at {self.host}" if self.host else ""
        if isinstance(error, self.sdk_errors.connection_errors):
            return ConnectionFailed(self.name, f"no connection{where}, or it broke off: {_root_cause(error)}")
        if isinstance(error, self.sdk_errors.api_errors):
            return to_provider_error(asked, self._read_error(error))
        return ConnectionFailed(self.name, f"what came{where} cannot be read as an answer: {_root_cause(error)}")


def _root_cause(error: BaseException) -> str:
    """What lies at the bottom of an error: SDKs say 'Connection error.' where their HTTP client said why."""
    while error.__cause__ is not None:
        error = error.__cause__
    text = " ".join(mask_secrets(str(error)).split()) or type(error).__name__
    return text if len(text) <= 200 else text[:197] + "..."


def join_system_messages(messages: tuple[Message, ...], form: Mapping[str, JSON] | None = None) -> str:
    """The system messages as one text.

    `form`: a JSON Schema that the answer shall keep, written into the text, for services that cannot hold an answer
    to a form while they offer tools. The loop checks the answer in any case.
    """
    parts = [one.content for one in messages if one.role is Role.SYSTEM and one.content]
    if form is not None:
        parts.append(f"When you answer, answer with JSON alone that keeps this JSON Schema:\n{canonical_json(form)}")
    return "\n\n".join(parts)


def get_state_blocks(message: Message, provider: str) -> list[Mapping[str, JSON]]:
    """What this service wanted to see again with the message, in its order."""
    state = message.provider_state.get(provider)
    return [one for one in state if isinstance(one, Mapping)] if isinstance(state, list | tuple) else []


def decode_image(image: Image) -> bytes:
    """A picture as its bytes. Raises InvalidOption when its data is not base64."""
    try:
        return base64.b64decode(image.data, validate=True)
    except ValueError as error:
        raise InvalidOption("the data of an image", image.data[:20], "base64") from error


def conversation_messages(messages: tuple[Message, ...]) -> Iterator[Message]:
    """The messages that say something and are no system messages: services refuse empty ones."""
    for one in messages:
        if one.role is not Role.SYSTEM and (one.content or one.tool_calls or one.images or one.role is Role.TOOL):
            yield one
