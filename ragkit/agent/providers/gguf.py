"""Models in GGUF files, which run inside this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, cast

from ragkit.agent.messages import Message, Role, canonical_json
from ragkit.agent.providers.base import METHODS, ModelRequest
from ragkit.agent.providers.chat_completions import ChatCompletionChunk, ChatCompletionsProvider, build_payload
from ragkit.agent.providers.error_mapping import ServiceErrorResponse
from ragkit.agent.providers.http_provider import SDKErrors, join_system_messages
from ragkit.agent.providers.parser import ToolCallParser
from ragkit.agent.providers.stream_filter import StreamFilter
from ragkit.argument_types import check_types
from ragkit.errors import InvalidOption, InvalidRequest
from ragkit.gguf.engine import EngineError, EngineSettings, GGUFEngine, choose_window, current_engine, get_engine
from ragkit.gguf.header import read_gguf

_USES = {"embedding": "embed: {name: gguf, path: ...}", "reranker": "rerank: {name: gguf, model: ...}"}


@check_types(skip=METHODS)
class GGUFProvider(ChatCompletionsProvider):
    """A model in a GGUF file. It is loaded with the first request, once for all providers of this process.

    Args:
        path: the file; of a model in parts the first one.
        context_window: tokens of prompt and answer together; None: that of the file, at most 16,384 and what fits into
            memory.
        threads: 0: one for each CPU that this process may use.

    Raises:
        MissingExtra: the package `xllamacpp` is not installed.
        InvalidOption: the file is no model that writes text, or does not fit into memory.
    """

    name = "gguf"
    remote = False
    writes_calls = True
    on_this_machine = True
    sdk_errors = SDKErrors(timeouts=(), connection_errors=(), api_errors=(EngineError,))

    def __init__(self, path: str | Path, *, context_window: int | None = None, threads: int = 0) -> None:
        if not str(path):
            raise InvalidOption("model", "gguf", "gguf:PATH with the path of a GGUF file")
        if threads < 0:
            raise InvalidOption("threads", threads, "0 (one for each CPU) or greater")
        self._file = read_gguf(path)
        if self._file.kind in _USES:
            expected = f"a model that writes text; this one is for `{_USES[self._file.kind]}`"
            raise InvalidOption("model", str(path), expected)
        self.default_model = str(path)
        self.native_tools = self._file.knows_tools
        wanted = EngineSettings(window=context_window or 0, threads=threads)
        self.context_window = choose_window(self._file, wanted, "model")
        self._settings = replace(wanted, window=self.context_window)
        self._engine: GGUFEngine | None = None
        self._lock = Lock()

    def load(self) -> GGUFEngine:
        """Load the model, unless it is loaded. Raises InvalidOption if the engine cannot."""
        with self._lock:
            self._engine = current_engine(self._engine) or get_engine(self._file, self._settings, "model")
            return self._engine

    async def _send_request(self, request: ModelRequest, *, live: bool) -> AsyncGenerator[ChatCompletionChunk, None]:
        payload = build_payload(_prepare(request, native_tools=self.native_tools), self.name)
        text_calls = _TextCalls(request)
        loop, chunks, stopped = asyncio.get_running_loop(), asyncio.Queue[Any](), Event()

        def put(chunk: object) -> bool:
            loop.call_soon_threadsafe(chunks.put_nowait, chunk)
            return stopped.is_set()

        def answer() -> None:
            try:
                if not stopped.is_set():
                    self.load().chat(payload, put)
                put(None)
            except Exception as error:  # noqa: BLE001 - raised again below
                put(error)

        Thread(target=answer, name="ragkit-gguf", daemon=True).start()
        try:
            while (chunk := await chunks.get()) is not None:
                if isinstance(chunk, Exception):
                    raise chunk
                for part in text_calls.split(chunk):
                    yield part
        finally:
            stopped.set()

    def _read_error(self, error: Exception) -> ServiceErrorResponse:
        # another try fails alike: no status that asks for one
        status = min(error.status, 400) if isinstance(error, EngineError) else 400
        return ServiceErrorResponse.parse(status, str(error))


def _prepare(request: ModelRequest, *, native_tools: bool) -> ModelRequest:
    """The request with one system message. A schema holds the whole answer, so that no tool could be called."""
    if any(message.images for message in request.messages):
        raise InvalidRequest("gguf", "models in GGUF files read no images here: send text")
    settings = request.settings
    system = join_system_messages(request.messages, settings.response_schema if request.tools else None)
    messages = [message for message in request.messages if message.role is not Role.SYSTEM]
    messages = messages if native_tools else _without_tools(messages)
    return replace(
        request,
        messages=(*([Message.system(system)] if system else []), *messages),
        settings=replace(settings, response_schema=None) if request.tools else settings,
    )


def _without_tools(messages: list[Message]) -> list[Message]:
    """The conversation for a template without tools, with user and assistant in turn, as templates want them."""
    turns: list[Message] = []
    for message in map(_to_text, messages):
        if turns and turns[-1].role is message.role:
            before = turns.pop()
            turns.append(replace(message, content=f"{before.content}\n\n{message.content}"))
        else:
            turns.append(message)
    return turns


def _to_text(message: Message) -> Message:
    """Calls as text of the assistant, and their results from the user."""
    if message.role is Role.TOOL:
        return Message.user(message.content)
    if not message.tool_calls:
        return message
    calls = (
        f'TOOL_CALL {{"tool_name": "{call.name}", "parameters": {canonical_json(call.arguments)}}}'
        for call in message.tool_calls
    )
    return Message.assistant("\n".join([message.content, *calls]).strip())


class _TextCalls:
    """Finds calls that a model writes as text, although its template has a form for them: small models often do."""

    def __init__(self, request: ModelRequest) -> None:
        self._names = [tool.name for tool in request.tools] if request.settings.response_schema is None else []
        given = (message for message in request.messages if message.role in {Role.USER, Role.TOOL})
        self._given = "\n".join(" ".join(message.content.split()) for message in given)
        self._filter = StreamFilter(self._names, accept_bare_json=True)
        self._text: list[str] = []

    def split(self, chunk: ChatCompletionChunk) -> Iterator[ChatCompletionChunk]:
        """The chunk, without text that may be a call; with the last one the calls, or the text that was none."""
        choices = chunk.get("choices")
        if not self._names or not choices:
            yield chunk
            return
        choice = choices[0]
        delta = dict(choice.get("delta") or {})
        text = cast("str", delta.get("content") or "")
        self._text.append(text)
        delta["content"] = self._filter.feed(text) if text else None
        if choice.get("finish_reason"):
            calls = self._find_calls()
            if calls:
                delta["tool_calls"] = calls
            else:
                delta["content"] = (cast("str", delta["content"]) or "") + self._filter.flush()
        if reasoning := self._filter.take_reasoning():
            delta["reasoning_content"] = reasoning
        yield cast("ChatCompletionChunk", {**chunk, "choices": [{**choice, "delta": delta}]})

    def _find_calls(self) -> list[dict[str, object]]:
        """The calls; one that the user or a tool wrote is quoted, not made."""
        found = ToolCallParser(accept_bare_json=True).find_calls("".join(self._text), self._names)
        calls = [call for call, piece in found if " ".join(piece.split()) not in self._given]
        return [
            {
                "index": index,
                "function": {"name": call.name, "arguments": call.malformed or canonical_json(dict(call.arguments))},
            }
            for index, call in enumerate(calls)
        ]
