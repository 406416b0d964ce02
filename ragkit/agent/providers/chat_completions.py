"""The format of OpenAI's Chat Completions API, which Groq and many other servers implement.

Requests and answer chunks are plain JSON: this module imports no SDK.
Source: https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterator, Mapping
from typing import Any, ClassVar, TypedDict, cast

from ragkit.agent.messages import Message, Role, canonical_json
from ragkit.agent.providers.base import ModelRequest, StreamDelta
from ragkit.agent.providers.http_provider import CompletionBuilder, HTTPProvider, LoopBoundClient, get_state_blocks
from ragkit.errors import ConnectionFailed
from ragkit.records import JSON
from ragkit.usage.tokens import Tokens

_REASONING_MODELS = re.compile(r"(?:^|/)(?:o\d|gpt-[5-9]|gpt-\d\d|codex)")
"""OpenAI's reasoning models: they accept no temperature, and their token limit has another name."""
_STOP_REASONS = {"function_call": "tool_calls"}


class FunctionData(TypedDict, total=False):
    """The function of a tool call."""

    name: str | None
    arguments: str | None


class ToolCallData(TypedDict, total=False):
    """A tool call, or a chunk of one; in a whole answer it has no index."""

    index: int
    id: str | None
    function: FunctionData


class MessageData(TypedDict, total=False):
    """`message` in a whole answer, `delta` in a chunk."""

    content: str | None
    refusal: str | None
    reasoning: str | None
    reasoning_content: str | None
    tool_calls: list[ToolCallData] | None


class ChoiceData(TypedDict, total=False):
    """One of the answers; `n` is always 1."""

    message: MessageData
    delta: MessageData
    finish_reason: str | None


class PromptTokensDetails(TypedDict, total=False):
    """Details of the prompt tokens."""

    cached_tokens: int | None


class UsageData(TypedDict, total=False):
    """The tokens of a request."""

    prompt_tokens: int
    completion_tokens: int
    prompt_tokens_details: PromptTokensDetails | None


class GroqExtra(TypedDict, total=False):
    """Groq's extension of a chunk."""

    usage: UsageData | None
    error: str | None


class ChatCompletionChunk(TypedDict, total=False):
    """A chunk of an answer, or a whole one."""

    model: str
    choices: list[ChoiceData] | None
    usage: UsageData | None
    x_groq: GroqExtra | None


def build_payload(request: ModelRequest, provider: str) -> dict[str, object]:
    """The payload of a request. `provider`: whose state messages bring along."""
    settings = request.settings
    payload: dict[str, object] = {
        "model": request.model,
        "messages": [_to_chat_message(message, provider) for message in request.messages],
    }
    if _REASONING_MODELS.search(request.model):
        payload["max_completion_tokens"] = settings.max_tokens
    else:
        payload |= {"max_tokens": settings.max_tokens, "temperature": settings.temperature, "top_p": settings.top_p}
    if request.tools:
        payload["tools"] = [tool.to_schema() for tool in request.tools]
    if settings.response_schema is not None:
        schema = settings.response_schema
        answer = {"name": "answer", "schema": schema, "strict": supports_strict_mode(schema)}
        payload["response_format"] = {"type": "json_schema", "json_schema": answer}
    return payload


def supports_strict_mode(schema: JSON) -> bool:
    """Whether a schema qualifies for strict mode: objects are closed and all their keys are required."""
    if isinstance(schema, list | tuple):
        return all(map(supports_strict_mode, schema))
    if not isinstance(schema, Mapping):
        return True
    keys = schema.get("properties")
    if isinstance(keys, Mapping):
        required = schema.get("required")
        if schema.get("additionalProperties") is not False or set(keys) != set(cast("list[str]", required or [])):
            return False
    return all(map(supports_strict_mode, schema.values()))


def _to_chat_message(message: Message, provider: str) -> dict[str, object]:
    if message.role is Role.TOOL:
        return {"role": "tool", "tool_call_id": message.tool_call_id, "content": message.content}
    if message.images:
        return {"role": message.role.value, "content": _content_parts(message)}
    if not message.tool_calls:
        return {"role": message.role.value, "content": message.content}
    calls = [
        # malformed arguments are left out: some servers parse them and fail
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": canonical_json(call.arguments)},
        }
        for call in message.tool_calls
    ]
    data: dict[str, object] = {"role": "assistant", "content": message.content or None, "tool_calls": calls}
    for block in get_state_blocks(message, provider):
        data |= block
    return data


def _content_parts(message: Message) -> list[dict[str, object]]:
    text: list[dict[str, object]] = [{"type": "text", "text": message.content}] if message.content else []
    urls = [f"data:{image.media_type};base64,{image.data}" for image in message.images]
    return text + [{"type": "image_url", "image_url": {"url": url}} for url in urls]


class ChatCompletionsProvider(HTTPProvider[ChatCompletionChunk]):
    """Base class of providers with the Chat Completions API: sends its requests and parses its chunks."""

    stream_options: ClassVar[Mapping[str, object]] = {}
    """Arguments of the SDK for streamed requests only."""
    _client: LoopBoundClient[Any]

    async def _send_request(self, request: ModelRequest, *, live: bool) -> AsyncGenerator[ChatCompletionChunk, None]:
        create = self._client.get().chat.completions.create
        payload = build_payload(request, self.name) | {"timeout": request.settings.timeout_s}
        if not live:
            yield _to_chunk(await create(**payload))
            return
        async with await create(**payload, stream=True, **self.stream_options) as stream:
            async for chunk in stream:
                yield _to_chunk(chunk)

    def _add_chunk(self, chunk: ChatCompletionChunk, builder: CompletionBuilder) -> Iterator[StreamDelta]:
        builder.model = chunk.get("model") or builder.model
        extra = chunk.get("x_groq") or {}
        if extra.get("error"):
            raise ConnectionFailed(self.name, f"the stream ended with an error: {extra.get('error')}")
        usage = chunk.get("usage") or extra.get("usage")
        if usage:
            builder.usage = _to_tokens(usage)
        for choice in (chunk.get("choices") or [])[:1]:
            delta = choice.get("delta") or choice.get("message") or {}
            thought = delta.get("reasoning_content")
            yield from builder.add_reasoning(thought or delta.get("reasoning"))
            if thought:  # services with this field want it back together with the calls
                builder.append_state(0, "reasoning_content", thought)
            yield from builder.add_text(delta.get("content"))
            yield from builder.add_text(delta.get("refusal"))
            for position, call in enumerate(delta.get("tool_calls") or []):
                function = call.get("function") or {}
                name, arguments = function.get("name") or "", function.get("arguments") or ""
                yield from builder.add_call(call.get("index", position), name, arguments, call.get("id") or "")
            reason = choice.get("finish_reason")
            if reason:
                refusal = delta.get("refusal") and reason == "stop"
                builder.stop_reason = "content_filter" if refusal else _STOP_REASONS.get(reason, reason)


def _to_chunk(chunk: object) -> ChatCompletionChunk:
    to_dict = getattr(chunk, "to_dict", None)
    if to_dict is None:  # a server that is not the API returns text
        raise ValueError(f"no JSON object: {str(chunk)[:80]!r}")
    return cast("ChatCompletionChunk", to_dict())


def _to_tokens(usage: UsageData) -> Tokens:
    details = usage.get("prompt_tokens_details") or {}
    return Tokens(
        usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0, details.get("cached_tokens") or 0
    )
