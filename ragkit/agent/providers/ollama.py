"""Local models, through Ollama and the package `ollama`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from functools import partial
from typing import Any, cast

from ragkit.agent.messages import Message, Role, canonical_json
from ragkit.agent.providers.base import METHODS, ModelRequest, StreamDelta
from ragkit.agent.providers.credentials import check_model, find_host, is_local_host
from ragkit.agent.providers.error_mapping import ServiceErrorResponse
from ragkit.agent.providers.http_provider import (
    CompletionBuilder,
    HTTPProvider,
    LoopBoundClient,
    SDKErrors,
    decode_image,
    join_system_messages,
)
from ragkit.argument_types import check_types
from ragkit.errors import MissingExtra
from ragkit.records import JSON
from ragkit.usage.tokens import Tokens, estimate_tokens

try:
    import httpx
    import ollama
except ImportError as error:
    raise MissingExtra("the provider 'ollama'", extra="ollama") from error


_CONTEXT_SIZES = (4096, 8192, 16_384, 32_768, 65_536, 131_072)
_TOKENS_PER_ESTIMATE = 1.25
"""Tokens of code and tables for each estimated one."""


@check_types(skip=METHODS)
class OllamaProvider(HTTPProvider[ollama.ChatResponse]):
    """Models that Ollama runs. The provider is remote only if its server is on another machine.

    Args:
        model: the model of requests that name none; pull it first.
        base_url: the URL of the server; by default OLLAMA_HOST, else localhost, port 11434.
        context_window: the context size in tokens, `num_ctx`; None: room for what is sent, since the server silently
            truncates longer prompts. A model that has less takes its own size.
        default_model: the same as `model`.
    """

    name = "ollama"
    default_model = "llama3.2"
    writes_calls = True
    sdk_errors = SDKErrors(
        timeouts=(httpx.TimeoutException,),
        connection_errors=(httpx.HTTPError, httpx.InvalidURL, ConnectionError),
        api_errors=(ollama.ResponseError, ollama.RequestError),
    )

    def __init__(
        self,
        model: str = "",
        *,
        base_url: str | None = None,
        context_window: int | None = None,
        default_model: str = "",
    ) -> None:
        self.host = find_host("ollama", base_url) or "http://127.0.0.1:11434"
        self.on_this_machine = is_local_host(self.host)
        self.remote = not self.on_this_machine
        self.default_model = check_model(model or default_model) or OllamaProvider.default_model
        self.context_window = context_window
        # this SDK sets a timeout per client, not per request
        self._clients: dict[float | None, LoopBoundClient[ollama.AsyncClient]] = {}

    async def _send_request(self, request: ModelRequest, *, live: bool) -> AsyncGenerator[ollama.ChatResponse, None]:
        chat = self._get_client(request.settings.timeout_s).chat
        payload = cast("dict[str, Any]", self._build_payload(request))
        if not live:
            yield await chat(**payload)
            return
        async for piece in await chat(**payload, stream=True):
            yield piece

    def _add_chunk(self, chunk: ollama.ChatResponse, builder: CompletionBuilder) -> Iterator[StreamDelta]:
        yield from builder.add_reasoning(chunk.message.thinking)
        yield from builder.add_text(chunk.message.content)
        for call in chunk.message.tool_calls or ():
            arguments = cast("Mapping[str, JSON]", call.function.arguments)
            yield from builder.add_complete_call(call.function.name, arguments)
        if chunk.done:
            builder.stop_reason = chunk.done_reason or "stop"
            # a local model costs nothing; the price of Ollama's cloud is unknown
            cost = None if "ollama.com" in self.host else 0.0
            builder.usage = Tokens(chunk.prompt_eval_count or 0, chunk.eval_count or 0, cost_usd=cost)

    def _read_error(self, error: Exception) -> ServiceErrorResponse:
        status = error.status_code if isinstance(error, ollama.ResponseError) else 400
        # this SDK replaces the error of its HTTP client, which has the headers
        behind = error.__context__
        headers = behind.response.headers if isinstance(behind, httpx.HTTPStatusError) else None
        return ServiceErrorResponse.parse(status if status > 0 else None, str(error.args[0]), headers)

    def _get_client(self, timeout_s: float | None) -> ollama.AsyncClient:
        if timeout_s not in self._clients:
            create = partial(ollama.AsyncClient, self.host, timeout=timeout_s)
            self._clients[timeout_s] = LoopBoundClient(create, ollama.AsyncClient.close)
        return self._clients[timeout_s].get()

    def _build_payload(self, request: ModelRequest) -> dict[str, object]:
        settings = request.settings
        options: dict[str, object] = {
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            "num_predict": settings.max_tokens,
        }
        options["num_ctx"] = self.context_window or _fit_context(request)
        # a format constrains the whole answer, so that no tool could be called
        schema_in_prompt = settings.response_schema if request.tools else None
        system = join_system_messages(request.messages, schema_in_prompt)
        messages = [_to_ollama_message(message) for message in request.messages if message.role is not Role.SYSTEM]
        payload: dict[str, object] = {
            "model": request.model,
            "messages": [{"role": "system", "content": system}, *messages] if system else messages,
            "options": options,
        }
        if request.tools:
            payload["tools"] = [tool.to_schema() for tool in request.tools]
        if settings.response_schema is not None and not request.tools:
            payload["format"] = settings.response_schema
        return payload


def _fit_context(request: ModelRequest) -> int:
    """The context size with room for a request and its answer, in steps: each change loads the model again."""
    texts = [message.content for message in request.messages]
    texts += [canonical_json(tool.to_schema()) for tool in request.tools]
    needed = int(sum(map(estimate_tokens, texts)) * _TOKENS_PER_ESTIMATE) + request.settings.max_tokens
    return next((size for size in _CONTEXT_SIZES if size >= needed), _CONTEXT_SIZES[-1])


def _to_ollama_message(message: Message) -> dict[str, object]:
    data: dict[str, object] = {"role": message.role.value, "content": message.content}
    if message.role is Role.TOOL:
        data["tool_name"] = message.name
    if message.images:
        data["images"] = [decode_image(image) for image in message.images]
    if message.tool_calls:
        data["tool_calls"] = [
            {"function": {"name": call.name, "arguments": dict(call.arguments)}} for call in message.tool_calls
        ]
    return data
