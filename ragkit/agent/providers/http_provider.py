"""The base of providers that call a service over HTTP: one implementation of all four methods.

The module of a service defines its payload, how to send it, and how to parse a chunk of its answer. All requests run
in one background event loop: the connections of a client belong to one loop, and callers' loops and threads come and
go. A caller that stops iterating closes the connection, so the service stops generating.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import threading
import time
import weakref
from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, Generic, TypeVar

from ragkit.agent.messages import Image, Message, Role, ToolCall, canonical_json, json_objects
from ragkit.agent.providers.base import (
    Completion,
    ModelRequest,
    Provider,
    ReasoningDelta,
    StreamCompleted,
    StreamDelta,
    TextDelta,
    ToolCallDelta,
)
from ragkit.agent.providers.error_mapping import RequestTarget, ServiceErrorResponse, to_provider_error
from ragkit.agent.providers.parser import parse_arguments
from ragkit.agent.runtime.background_tasks import PROVIDER_LOOP, iterate_on_loop, iterate_sync
from ragkit.errors import ConnectionFailed, InvalidOption, ProviderError, RequestTimeout, shorten
from ragkit.masking import mask_secrets
from ragkit.records import JSON
from ragkit.usage.tokens import ZERO_TOKENS, Tokens

ChunkT = TypeVar("ChunkT")
ClientT = TypeVar("ClientT")

CLOSE_TIMEOUT_S = 1.0
"""Seconds to wait at process exit for connections to close."""
LOADING_WAIT_S = 0.5
"""Seconds between two requests to a server that loads its model."""
MAX_LOADING_S = 120.0
"""Seconds to wait for it if the request has no timeout."""
_LOADING = re.compile(r"\bloading (?:the )?model\b|\bmodel\b[^\n]{0,80}\bloading\b", re.IGNORECASE)
"""llama.cpp says "Loading model"."""


@dataclass(frozen=True, slots=True)
class SDKErrors:
    """The exceptions of an SDK and its HTTP client, by meaning."""

    timeouts: tuple[type[Exception], ...]
    """The request timed out."""
    connection_errors: tuple[type[Exception], ...]
    """The service is unreachable or dropped the connection. Checked after `timeouts`, which may be subclasses."""
    api_errors: tuple[type[Exception], ...]
    """The service returned an error. Checked last: often the base class of the SDK's errors."""

    @property
    def all(self) -> tuple[type[Exception], ...]:
        """All exceptions that are translated. ValueError: the response is not JSON or has an unexpected structure."""
        return (*self.timeouts, *self.connection_errors, *self.api_errors, ValueError)


@dataclass(slots=True)
class _PartialCall:
    position: int
    name: str = ""
    arguments: str = ""
    id: str = ""


@dataclass(slots=True)
class CompletionBuilder:
    """An answer under construction. Its methods yield the deltas of each chunk."""

    target: RequestTarget
    text_parts: list[str] = field(default_factory=list)
    reasoning_parts: list[str] = field(default_factory=list)
    usage: Tokens = ZERO_TOKENS
    stop_reason: str = ""
    """Empty until the answer is complete."""
    refused: bool = False
    """Whether the text is a refusal, which a service may say in another place than in its stop reason."""
    model: str = ""
    """The model, as named by the service."""
    state_blocks: dict[int, dict[str, JSON]] = field(default_factory=dict)
    """State that the next request must repeat unchanged, by the service's index."""
    _calls: dict[int, _PartialCall] = field(default_factory=dict)

    @property
    def call_count(self) -> int:
        """The number of tool calls so far."""
        return len(self._calls)

    def add_text(self, text: str | None) -> Iterator[StreamDelta]:
        """Add a chunk of text; None and '' are ignored."""
        if text:
            text = replace_invalid_chars(text)
            self.text_parts.append(text)
            yield TextDelta(text)

    def add_reasoning(self, text: str | None) -> Iterator[StreamDelta]:
        """Add a chunk of reasoning; None and '' are ignored."""
        if text:
            text = replace_invalid_chars(text)
            self.reasoning_parts.append(text)
            yield ReasoningDelta(text)

    def add_call(self, index: int, name: str = "", arguments: str = "", call_id: str = "") -> Iterator[StreamDelta]:
        """Add a chunk of the tool call at the service's `index`; arguments are JSON text."""
        call = self._calls.setdefault(index, _PartialCall(len(self._calls)))
        call.name += replace_invalid_chars(name)
        call.arguments += arguments
        call.id = call.id or call_id
        yield ToolCallDelta(call.position, name, arguments, call_id)

    def add_complete_call(self, name: str, arguments: Mapping[str, JSON], call_id: str = "") -> Iterator[StreamDelta]:
        """Add a complete tool call."""
        yield from self.add_call(self.call_count, name, canonical_json(arguments), call_id)

    def append_state(self, index: int, key: str, text: str) -> None:
        """Add a chunk of text to the provider state."""
        block = self.state_blocks.setdefault(index, {})
        block[key] = f"{block.get(key) or ''}{text}"

    def build(self) -> Completion:
        """The completion. Raises ConnectionFailed if the answer is incomplete."""
        if not self.stop_reason:
            raise ConnectionFailed(self.target.provider, "the stream ended before the answer was complete: retry")
        truncated = self.stop_reason == "length"
        calls = [_to_tool_call(call, truncated=truncated) for call in self._calls.values()]
        message = Message(
            Role.ASSISTANT,
            "".join(self.text_parts),
            tuple(calls),
            reasoning="".join(self.reasoning_parts),
            provider_state={self.target.provider: list(self.state_blocks.values())} if self.state_blocks else {},
        )
        reason = "tool_calls" if calls and self.stop_reason == "stop" else self.stop_reason
        if self.refused and reason == "stop":
            reason = "refusal"
        # a dated name ("gpt-5.4-mini-2026-03-17") is the requested model, which has a price
        model = self.target.model if self.model.startswith(self.target.model) else self.model
        return Completion(message, self.usage, reason, model or self.target.model)


def _to_tool_call(call: _PartialCall, *, truncated: bool) -> ToolCall:
    if truncated and call.arguments and not _is_json(call.arguments):
        # a truncated call must not be repaired: half a path is another path
        return ToolCall(call.name, {}, call.id, malformed=call.arguments)
    parsed = parse_arguments(call.name, call.arguments, call.id)
    if "\\u" not in call.arguments:
        return parsed
    return replace(parsed, arguments={key: _replace_in_json(value) for key, value in parsed.arguments.items()})


def _replace_in_json(value: JSON) -> JSON:
    """A JSON value with the invalid characters of its texts replaced."""
    if isinstance(value, str):
        return replace_invalid_chars(value)
    if isinstance(value, Mapping):
        return {replace_invalid_chars(key): _replace_in_json(item) for key, item in value.items()}
    return [_replace_in_json(item) for item in value] if isinstance(value, list | tuple) else value


def replace_invalid_chars(text: str) -> str:
    """`text` with U+FFFD for NUL and for lone surrogates, which no file, database or service accepts."""
    if text.isascii():
        return text.replace("\0", "\ufffd")
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "\ufffd")


def read_count(value: object) -> int:
    """A number of tokens as a service reports it; 0, which is unknown, for anything but a number above 0."""
    return value if isinstance(value, int) and value > 0 else 0


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


class LoopBoundClient(Generic[ClientT]):
    """A client of the background loop: created on first use, and again in a forked process.

    It is closed when it is garbage-collected, or at process exit.
    """

    def __init__(
        self, make: Callable[[], ClientT], close: Callable[[ClientT], Coroutine[object, object, None]]
    ) -> None:
        self._create, self._close = make, close
        self._current: tuple[asyncio.AbstractEventLoop, ClientT] | None = None

    def get(self) -> ClientT:
        """The client. Call it in the background loop only."""
        loop = asyncio.get_running_loop()
        if self._current is None or self._current[0] is not loop:
            client = self._create()
            self._current = (loop, client)
            weakref.finalize(self, _close_client, loop, os.getpid(), partial(self._close, client))
        return self._current[1]


def _close_client(
    loop: asyncio.AbstractEventLoop, pid: int, close: Callable[[], Coroutine[object, object, None]]
) -> None:
    """Close a client in its loop. Called by the garbage collector in any thread, and at process exit."""
    if os.getpid() != pid:  # the connections belong to the parent process
        return
    closing = asyncio.run_coroutine_threadsafe(close(), loop)
    if threading.current_thread() is threading.main_thread():
        with suppress(TimeoutError):  # process exit waits for it, with a timeout
            closing.result(CLOSE_TIMEOUT_S)


class HTTPProvider(Provider, Generic[ChunkT]):
    """Base class of providers that call a service over HTTP. All four methods consume `_stream_deltas`."""

    remote = True
    sdk_errors: ClassVar[SDKErrors]
    host: str = ""
    """The URL, if it differs from the SDK's default."""

    @abstractmethod
    def _send_request(self, request: ModelRequest, *, live: bool) -> AsyncGenerator[ChunkT, None]:
        """Send the request; yield the chunks of the answer: one or more if not `streaming`."""

    @abstractmethod
    def _add_chunk(self, chunk: ChunkT, builder: CompletionBuilder) -> Iterator[StreamDelta]:
        """Parse a chunk into the builder; yield its deltas."""

    def _read_error(self, error: Exception) -> ServiceErrorResponse:
        """The error response, from an exception of `sdk_errors.api_errors`; here of an SDK generated by Stainless."""
        response = getattr(error, "response", None)
        status = response.status_code if response is not None else None
        headers = response.headers if response is not None else {}
        body: object = getattr(error, "body", None)
        # an error inside a stream has the status of the stream, 200
        return ServiceErrorResponse.parse(None if status == 200 else status, body or str(error), headers)

    def complete(self, request: ModelRequest) -> Completion:
        """Return the whole answer."""
        return PROVIDER_LOOP.submit(self._complete(request)).result()

    def stream(self, request: ModelRequest) -> Iterator[StreamDelta]:
        """Stream the answer."""
        return iterate_sync(self._stream_deltas(request, live=True), PROVIDER_LOOP)

    async def acomplete(self, request: ModelRequest) -> Completion:
        """Return the whole answer."""
        return await asyncio.wrap_future(PROVIDER_LOOP.submit(self._complete(request)))

    async def astream(self, request: ModelRequest) -> AsyncIterator[StreamDelta]:
        """Stream the answer."""
        async with aclosing(iterate_on_loop(self._stream_deltas(request, live=True), PROVIDER_LOOP)) as deltas:
            async for delta in deltas:
                yield delta

    async def _complete(self, request: ModelRequest) -> Completion:
        deltas = [delta async for delta in self._stream_deltas(request, live=False)]
        assert isinstance(deltas[-1], StreamCompleted)  # noqa: S101 - without an error the last item is a StreamCompleted
        return deltas[-1].completion

    async def _stream_deltas(self, request: ModelRequest, *, live: bool) -> AsyncGenerator[StreamDelta, None]:
        model = request.model.removeprefix(f"{self.name}:") or self.default_model
        builder = CompletionBuilder(RequestTarget(self.name, model, self.host))
        timeout_s = request.settings.timeout_s
        ends_at = time.monotonic() + (MAX_LOADING_S if timeout_s is None else timeout_s)
        while True:
            try:
                async with aclosing(self._send_request(replace(request, model=model), live=live)) as chunks:
                    async for chunk in chunks:
                        for delta in self._add_chunk(chunk, builder):
                            yield delta
                break
            except self.sdk_errors.all as error:
                if not self._is_loading(error) or time.monotonic() + LOADING_WAIT_S >= ends_at:
                    raise self._translate_error(error, builder.target, timeout_s) from error
            await asyncio.sleep(LOADING_WAIT_S)
        yield StreamCompleted(builder.build())

    def _is_loading(self, error: Exception) -> bool:
        """Whether a server of the user's has just started, and says that its model will be there soon."""
        if not self.host or not isinstance(error, self.sdk_errors.api_errors):
            return False
        refusal = self._read_error(error)
        return refusal.status == 503 and _LOADING.search(refusal.message) is not None

    def _translate_error(self, error: Exception, target: RequestTarget, timeout_s: float | None) -> ProviderError:
        if isinstance(error, self.sdk_errors.timeouts):
            return RequestTimeout(self.name, f"no answer within {timeout_s or 0.0:g} seconds")
        where = f" at {self.host}" if self.host else ""
        if isinstance(error, self.sdk_errors.connection_errors):
            return ConnectionFailed(self.name, f"connection{where} failed: {_root_cause(error)}")
        if isinstance(error, self.sdk_errors.api_errors):
            return to_provider_error(target, self._read_error(error))
        return ConnectionFailed(self.name, f"invalid response{where}: {_root_cause(error)}")


def _root_cause(error: BaseException) -> str:
    """The root cause of an error: SDKs say 'Connection error.' where their HTTP client names the reason."""
    while error.__cause__ is not None:
        error = error.__cause__
    text = " ".join(mask_secrets(str(error)).split()) or type(error).__name__
    return shorten(text, 200)


def join_system_messages(messages: tuple[Message, ...], form: Mapping[str, JSON] | None = None) -> str:
    """The system messages as one text.

    `form`: a JSON Schema of the answer, added to the text, for services that do not support a response schema
    together with tools. The loop validates the answer in any case.
    """
    parts = [message.content for message in messages if message.role is Role.SYSTEM and message.content]
    if form is not None:
        parts.append(f"When you answer, answer with JSON alone that keeps this JSON Schema:\n{canonical_json(form)}")
    return "\n\n".join(parts)


def get_state_blocks(message: Message, provider: str) -> list[Mapping[str, JSON]]:
    """The provider state of a message, in its order."""
    return json_objects(message.provider_state.get(provider))


def decode_image(image: Image) -> bytes:
    """The bytes of an image. Raises InvalidOption if its data is not base64."""
    try:
        return base64.b64decode(image.data, validate=True)
    except ValueError as error:
        raise InvalidOption("the data of an image", image.data[:20], "base64") from error


def conversation_messages(messages: tuple[Message, ...]) -> Iterator[Message]:
    """The messages without system messages and empty ones, which services reject."""
    for message in messages:
        if message.role is not Role.SYSTEM and (
            message.content or message.tool_calls or message.images or message.role is Role.TOOL
        ):
            yield message
