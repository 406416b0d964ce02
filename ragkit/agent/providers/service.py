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

from ragkit.agent.messages import Image, Message, Role, ToolCall, to_json
from ragkit.agent.parser import read_arguments
from ragkit.agent.providers.base import Completed, Completion, Delta, Provider, Request, TextDelta, ToolCallDelta
from ragkit.agent.providers.refusals import Asked, Refusal, refused
from ragkit.agent.workers import SERVICES, brought, iterate
from ragkit.errors import ConnectionFailed, InvalidOption, ProviderError, RequestTimeout
from ragkit.masking import without_secrets
from ragkit.records import JSON
from ragkit.usage.tokens import NO_TOKENS, Tokens

Chunk = TypeVar("Chunk")
Client = TypeVar("Client")

CLOSE_S = 1.0
"""Seconds that a process waits at its end for connections to be closed."""


@dataclass(frozen=True, slots=True)
class Faults:
    """The errors of an SDK and its HTTP client, by what they mean."""

    late: tuple[type[Exception], ...]
    """The service did not answer in time."""
    broken: tuple[type[Exception], ...]
    """It cannot be reached, or broke off. Looked at after `late`, which may be a kind of it."""
    refused: tuple[type[Exception], ...]
    """It answered with an error. Looked at last: often the root of an SDK's errors."""

    @property
    def all(self) -> tuple[type[Exception], ...]:
        """Everything that is translated. ValueError: what came is no JSON, or not of the form that was promised."""
        return (*self.late, *self.broken, *self.refused, ValueError)


@dataclass(slots=True)
class _Call:
    position: int
    name: str = ""
    arguments: str = ""
    id: str = ""


@dataclass(slots=True)
class Draft:
    """An answer while its pieces come in. Its methods yield the deltas that a piece amounts to."""

    asked: Asked
    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    usage: Tokens = NO_TOKENS
    stop_reason: str = ""
    """Empty until the service has said that the answer is complete."""
    model: str = ""
    """Which model answers, as the service says."""
    kept: dict[int, dict[str, JSON]] = field(default_factory=dict)
    """What the service wants to see again with the next request, unchanged, by its own count."""
    _calls: dict[int, _Call] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many tool calls there are so far."""
        return len(self._calls)

    def say(self, text: str | None) -> Iterator[Delta]:
        """A piece of text; None and '' are none."""
        if text:
            self.text.append(text)
            yield TextDelta(text)

    def think(self, text: str | None) -> None:
        """A piece of what the model thinks."""
        if text:
            self.reasoning.append(text)

    def call(self, index: int, name: str = "", arguments: str = "", call_id: str = "") -> Iterator[Delta]:
        """A piece of the tool call that the service counts as `index`; arguments are JSON text."""
        call = self._calls.setdefault(index, _Call(len(self._calls)))
        call.name += name
        call.arguments += arguments
        call.id = call.id or call_id
        yield ToolCallDelta(call.position, name, arguments, call_id)

    def whole_call(self, name: str, arguments: Mapping[str, JSON], call_id: str = "") -> Iterator[Delta]:
        """A tool call that came in one piece."""
        yield from self.call(self.count, name, to_json(arguments), call_id)

    def keep(self, index: int, key: str, text: str) -> None:
        """A piece of a text among what is kept."""
        block = self.kept.setdefault(index, {})
        block[key] = f"{block.get(key) or ''}{text}"

    def completion(self) -> Completion:
        """The whole answer. Raises ConnectionFailed when the service has not said that it is complete."""
        if not self.stop_reason:
            raise ConnectionFailed(self.asked.provider, "the answer broke off before it was complete: ask again")
        cut = self.stop_reason == "length"
        calls = [_read(call, cut=cut) for call in self._calls.values()]
        message = Message(
            Role.ASSISTANT,
            "".join(self.text),
            tuple(calls),
            reasoning="".join(self.reasoning),
            provider_state={self.asked.provider: list(self.kept.values())} if self.kept else {},
        )
        reason = "tool_calls" if calls and self.stop_reason == "stop" else self.stop_reason
        # a dated name ("gpt-5.4-mini-2026-03-17") is the model that was asked for, under which prices are known
        model = self.asked.model if self.model.startswith(self.asked.model) else self.model
        return Completion(message, self.usage, reason, model or self.asked.model)


def _read(call: _Call, *, cut: bool) -> ToolCall:
    if cut and call.arguments and not _is_json(call.arguments):
        # half a call must not be repaired: half a path is another path
        return ToolCall(call.name, {}, call.id, malformed=call.arguments)
    return read_arguments(call.name, call.arguments, call.id)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


class ClientOfLoop(Generic[Client]):
    """A client of the background loop: made with its first use, and again in a process that was forked off.

    It is closed when nobody holds it any more, or when the process ends.
    """

    def __init__(self, make: Callable[[], Client], close: Callable[[Client], Coroutine[object, object, None]]) -> None:
        self._make, self._close = make, close
        self._made: tuple[asyncio.AbstractEventLoop, Client] | None = None

    def get(self) -> Client:
        """The client. To be called in the background loop only."""
        loop = asyncio.get_running_loop()
        if self._made is None or self._made[0] is not loop:
            client = self._make()
            self._made = (loop, client)
            weakref.finalize(self, _hang_up, loop, os.getpid(), partial(self._close, client))
        return self._made[1]


def _hang_up(loop: asyncio.AbstractEventLoop, pid: int, close: Callable[[], Coroutine[object, object, None]]) -> None:
    """Close a client in its loop. Called by the garbage collector in any thread, and at the end of the process."""
    if os.getpid() != pid:  # the connections are those of the process that this one was forked from
        return
    closing = asyncio.run_coroutine_threadsafe(close(), loop)
    if threading.current_thread() is threading.main_thread():
        with suppress(TimeoutError):  # the end of the process waits for it, but not for long
            closing.result(CLOSE_S)


class ServiceProvider(Provider, Generic[Chunk]):
    """Base of the providers that ask a service over HTTP. One body: all four methods drain `_deltas`."""

    remote = True
    faults: ClassVar[Faults]
    host: str = ""
    """Where it is asked, if not where its SDK looks by itself."""

    @abstractmethod
    def _chunks(self, request: Request, *, live: bool) -> AsyncGenerator[Chunk, None]:
        """Send the request; yield the pieces of the answer. When not `live` the answer may be one piece."""

    @abstractmethod
    def _fold(self, chunk: Chunk, draft: Draft) -> Iterator[Delta]:
        """Add a piece to the draft; yield the deltas that it amounts to."""

    @abstractmethod
    def _refusal(self, error: Exception) -> Refusal:
        """What the service said, from an error of `faults.refused`."""

    def complete(self, request: Request) -> Completion:
        """The whole answer."""
        return SERVICES.start(self._whole(request)).result()

    def stream(self, request: Request) -> Iterator[Delta]:
        """The answer as it comes."""
        return iterate(self._deltas(request, live=True), SERVICES)

    async def acomplete(self, request: Request) -> Completion:
        """The whole answer."""
        return await asyncio.wrap_future(SERVICES.start(self._whole(request)))

    async def astream(self, request: Request) -> AsyncIterator[Delta]:
        """The answer as it comes."""
        async with aclosing(brought(self._deltas(request, live=True), SERVICES)) as found:
            async for delta in found:
                yield delta

    async def _whole(self, request: Request) -> Completion:
        found = [delta async for delta in self._deltas(request, live=False)]
        assert isinstance(found[-1], Completed)  # noqa: S101 - without an error it ends with this
        return found[-1].completion

    async def _deltas(self, request: Request, *, live: bool) -> AsyncGenerator[Delta, None]:
        model = request.model.removeprefix(f"{self.name}:") or self.default_model
        draft = Draft(Asked(self.name, model, self.host))
        try:
            async with aclosing(self._chunks(replace(request, model=model), live=live)) as chunks:
                async for chunk in chunks:
                    for delta in self._fold(chunk, draft):
                        yield delta
        except self.faults.all as error:
            raise self._translated(error, draft.asked, request.settings.timeout_s) from error
        yield Completed(draft.completion())

    def _translated(self, error: Exception, asked: Asked, timeout_s: float | None) -> ProviderError:
        if isinstance(error, self.faults.late):
            return RequestTimeout(self.name, f"no answer within {timeout_s or 0.0:g} seconds")
        where = f" at {self.host}" if self.host else ""
        if isinstance(error, self.faults.broken):
            return ConnectionFailed(self.name, f"no connection{where}, or it broke off: {_cause(error)}")
        if isinstance(error, self.faults.refused):
            return refused(asked, self._refusal(error))
        return ConnectionFailed(self.name, f"what came{where} cannot be read as an answer: {_cause(error)}")


def _cause(error: BaseException) -> str:
    """What lies at the bottom of an error: SDKs say 'Connection error.' where their HTTP client said why."""
    while error.__cause__ is not None:
        error = error.__cause__
    text = " ".join(without_secrets(str(error)).split()) or type(error).__name__
    return text if len(text) <= 200 else text[:197] + "..."


def system_text(messages: tuple[Message, ...], form: Mapping[str, JSON] | None = None) -> str:
    """The system messages as one text.

    `form`: a JSON Schema that the answer shall keep, written into the text, for services that cannot hold an answer
    to a form while they offer tools. The loop checks the answer in any case.
    """
    parts = [one.content for one in messages if one.role is Role.SYSTEM and one.content]
    if form is not None:
        parts.append(f"When you answer, answer with JSON alone that keeps this JSON Schema:\n{to_json(form)}")
    return "\n\n".join(parts)


def kept_blocks(message: Message, provider: str) -> list[Mapping[str, JSON]]:
    """What this service wanted to see again with the message, in its order."""
    state = message.provider_state.get(provider)
    return [one for one in state if isinstance(one, Mapping)] if isinstance(state, list | tuple) else []


def image_bytes(image: Image) -> bytes:
    """A picture as its bytes. Raises InvalidOption when its data is not base64."""
    try:
        return base64.b64decode(image.data, validate=True)
    except ValueError as error:
        raise InvalidOption("the data of an image", image.data[:20], "base64") from error


def spoken(messages: tuple[Message, ...]) -> Iterator[Message]:
    """The messages that say something and are no system messages: services refuse empty ones."""
    for one in messages:
        if one.role is not Role.SYSTEM and (one.content or one.tool_calls or one.images or one.role is Role.TOOL):
            yield one
