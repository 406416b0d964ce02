"""Google's Gemini API, through the package `google-genai`.

Source: https://ai.google.dev/api/generate-content
"""

from __future__ import annotations

import base64
import re
from collections.abc import AsyncGenerator, Iterator, Mapping
from functools import partial
from itertools import groupby
from typing import cast

from ragkit.agent.messages import Message, Role
from ragkit.agent.providers.base import METHODS, ModelRequest, StreamDelta
from ragkit.agent.providers.credentials import check_model, find_host, find_key
from ragkit.agent.providers.error_mapping import ServiceErrorResponse
from ragkit.agent.providers.http_provider import (
    CompletionBuilder,
    HTTPProvider,
    LoopBoundClient,
    SDKErrors,
    conversation_messages,
    decode_image,
    get_state_blocks,
    join_system_messages,
)
from ragkit.argument_types import check_types
from ragkit.errors import MissingExtra
from ragkit.records import JSON
from ragkit.usage.tokens import Tokens

try:
    import httpx2
    from google import genai
    from google.genai import errors, types
except ImportError as error:
    raise MissingExtra("the provider 'gemini'", extra="gemini") from error

_NO_SCHEMA_WITH_TOOLS = re.compile(r"gemini-[12]\b")
"""Models that do not support a response schema together with tools."""
_STOP_REASONS = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    **dict.fromkeys(
        ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY", "MODEL_ARMOR"),
        "content_filter",
    ),
}


class _GeminiClient:
    """The SDK's client on httpx: with aiohttp installed it would use that instead, which retries by itself."""

    def __init__(self, key: str, host: str) -> None:
        self._http = httpx2.AsyncClient(follow_redirects=True)
        options = types.HttpOptions(base_url=host or None, httpx_async_client=self._http)
        self._client = genai.Client(api_key=key, vertexai=False, http_options=options)
        self.models = self._client.aio.models

    async def close(self) -> None:
        """Close every connection."""
        await self._http.aclose()


@check_types(skip=METHODS)
class GeminiProvider(HTTPProvider[types.GenerateContentResponse]):
    """Google's Gemini models.

    Args:
        model: the model of requests that name none; empty: the default of the class.
        api_key: by default GEMINI_API_KEY, then GOOGLE_API_KEY.
        base_url: the URL of the API, without its version; by default GOOGLE_GEMINI_BASE_URL, else Google's.
        default_model: the same as `model`.

    Raises:
        AuthenticationFailed: no key.
    """

    name = "gemini"
    default_model = "gemini-3.8-flash"
    sdk_errors = SDKErrors(
        timeouts=(httpx2.TimeoutException,),
        connection_errors=(httpx2.HTTPError, httpx2.InvalidURL),
        api_errors=(errors.APIError,),
    )

    def __init__(
        self, model: str = "", *, api_key: str | None = None, base_url: str | None = None, default_model: str = ""
    ) -> None:
        self.host = find_host("gemini", base_url)
        self.default_model = check_model(model or default_model) or GeminiProvider.default_model
        create = partial(_GeminiClient, find_key("gemini", api_key), self.host)
        self._client = LoopBoundClient(create, _GeminiClient.close)

    async def _send_request(
        self, request: ModelRequest, *, live: bool
    ) -> AsyncGenerator[types.GenerateContentResponse, None]:
        models = self._client.get().models
        contents: types.ContentListUnion = list(_to_contents(request.messages))
        name, config = request.model, _build_config(request)
        if not live:
            yield await models.generate_content(model=name, contents=contents, config=config)
            return
        async for piece in await models.generate_content_stream(model=name, contents=contents, config=config):
            yield piece

    def _add_chunk(self, chunk: types.GenerateContentResponse, builder: CompletionBuilder) -> Iterator[StreamDelta]:
        builder.model = chunk.model_version or builder.model
        if chunk.usage_metadata is not None:
            builder.usage = _to_tokens(chunk.usage_metadata)
        if chunk.prompt_feedback is not None and chunk.prompt_feedback.block_reason is not None:
            builder.stop_reason = "content_filter"
        for candidate in (chunk.candidates or [])[:1]:
            for part in (candidate.content and candidate.content.parts) or []:
                yield from _add_part(part, builder)
            if candidate.finish_reason is not None:
                reason = str(candidate.finish_reason.value)
                builder.stop_reason = _STOP_REASONS.get(reason, reason.lower())

    def _read_error(self, error: Exception) -> ServiceErrorResponse:
        assert isinstance(error, errors.APIError)  # noqa: S101 - the only class in api_errors
        headers = getattr(error.response, "headers", None) or {}
        # an error inside a stream has its own code
        return ServiceErrorResponse.parse(error.code, error.details, headers)


def _build_config(request: ModelRequest) -> types.GenerateContentConfig:
    settings = request.settings
    form = settings.response_schema
    schema_in_prompt = (
        form if form is not None and request.tools and _NO_SCHEMA_WITH_TOOLS.search(request.model) else None
    )
    timeout = None if settings.timeout_s is None else max(1, round(settings.timeout_s * 1000))
    config = types.GenerateContentConfig(
        system_instruction=join_system_messages(request.messages, schema_in_prompt) or None,
        temperature=settings.temperature,
        top_p=settings.top_p,
        max_output_tokens=settings.max_tokens,
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        http_options=types.HttpOptions(timeout=timeout),
    )
    if request.tools:
        declared = [
            types.FunctionDeclaration(
                name=tool.name, description=tool.description, parameters_json_schema=tool.parameters
            )
            for tool in request.tools
        ]
        config.tools = [types.Tool(function_declarations=declared)]
    if form is not None and schema_in_prompt is None:
        config.response_mime_type, config.response_json_schema = "application/json", form
    return config


def _to_contents(messages: tuple[Message, ...]) -> Iterator[types.Content]:
    """Alternating user and model messages: the tool results of a turn are one user message."""
    for model, group in groupby(conversation_messages(messages), lambda message: message.role is Role.ASSISTANT):
        parts = [part for message in group for part in _to_parts(message)]
        yield types.Content(role="model" if model else "user", parts=parts)


def _to_parts(message: Message) -> Iterator[types.Part]:
    if message.role is Role.TOOL:
        response: dict[str, object] = {"error" if message.is_error else "result": message.content}
        result = types.FunctionResponse(id=message.tool_call_id or None, name=message.name, response=response)
        yield types.Part(function_response=result)
        return
    signatures = {block.get("part"): str(block.get("signature")) for block in get_state_blocks(message, "gemini")}
    if message.content:
        yield types.Part(text=message.content, thought_signature=_decode_signature(signatures.get("text")))
    for image in message.images:
        yield types.Part(inline_data=types.Blob(data=decode_image(image), mime_type=image.media_type))
    for position, call in enumerate(message.tool_calls):
        function_call = types.FunctionCall(id=call.id or None, name=call.name, args=dict(call.arguments))
        yield types.Part(function_call=function_call, thought_signature=_decode_signature(signatures.get(position)))


def _add_part(part: types.Part, builder: CompletionBuilder) -> Iterator[StreamDelta]:
    call = part.function_call
    if part.thought_signature:
        # thought signatures: the next request must repeat them with their part
        where: JSON = "text" if call is None else builder.call_count
        signature = base64.b64encode(part.thought_signature).decode("ascii")
        builder.state_blocks[len(builder.state_blocks)] = {"part": where, "signature": signature}
    if call is not None:
        yield from builder.add_complete_call(
            call.name or "", cast("Mapping[str, JSON]", call.args or {}), call.id or ""
        )
    elif part.thought:
        yield from builder.add_reasoning(part.text)
    else:
        yield from builder.add_text(part.text)


def _decode_signature(signature: str | None) -> bytes | None:
    return base64.b64decode(signature) if signature else None


def _to_tokens(usage: types.GenerateContentResponseUsageMetadata) -> Tokens:
    payload = (usage.prompt_token_count or 0) + (usage.tool_use_prompt_token_count or 0)
    written = (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0)
    return Tokens(payload, written, usage.cached_content_token_count or 0)
