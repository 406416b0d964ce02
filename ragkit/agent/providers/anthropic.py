"""Anthropic's Messages API, through the package `anthropic`.

Source: https://platform.claude.com/docs/en/api/messages
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterator, Mapping
from functools import partial
from itertools import groupby
from typing import Any, cast

from ragkit.agent.messages import Message, Role, canonical_json
from ragkit.agent.providers.base import METHODS, ModelRequest, ModelSettings, StreamDelta
from ragkit.agent.providers.credentials import check_model, find_host, find_key
from ragkit.agent.providers.http_provider import (
    CompletionBuilder,
    HTTPProvider,
    LoopBoundClient,
    SDKErrors,
    conversation_messages,
    get_state_blocks,
    join_system_messages,
)
from ragkit.argument_types import check_types
from ragkit.errors import MissingExtra
from ragkit.records import JSON
from ragkit.usage.tokens import Tokens

try:
    import anthropic
    import httpx2
    from anthropic import types
except ImportError as error:
    raise MissingExtra("the provider 'anthropic'", extra="anthropic") from error

_STOP_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}
_DEFAULT_SETTINGS = ModelSettings()
_SAMPLED_MODELS = re.compile(r"claude-(?:[123]\b|instant|(?:opus|sonnet|haiku)-4(?![\d.])(?!-(?:[789]|\d\d)(?!\d)))")
"""The models that accept `temperature` and `top_p`."""


@check_types(skip=METHODS)
class AnthropicProvider(HTTPProvider[types.RawMessageStreamEvent]):
    """Anthropic's Claude models.

    The system prompt and the tools are marked for the service's prompt cache. `temperature` and `top_p` are sent
    only if they differ from the defaults, and never to models that accept neither: those from Claude 4.7 on.

    Args:
        model: the model of requests that name none; empty: the default of the class.
        api_key: by default ANTHROPIC_API_KEY.
        base_url: the URL of the API, without `/v1`; by default ANTHROPIC_BASE_URL, else Anthropic's.
        default_model: the same as `model`.

    Raises:
        AuthenticationFailed: no key.
    """

    name = "anthropic"
    default_model = "claude-haiku-5-5"
    sdk_errors = SDKErrors(
        timeouts=(anthropic.APITimeoutError, httpx2.TimeoutException),
        connection_errors=(anthropic.APIConnectionError, httpx2.HTTPError, httpx2.InvalidURL),
        api_errors=(anthropic.APIError,),
    )

    def __init__(
        self, model: str = "", *, api_key: str | None = None, base_url: str | None = None, default_model: str = ""
    ) -> None:
        self.host = find_host("anthropic", base_url)
        self.default_model = check_model(model or default_model) or AnthropicProvider.default_model
        key = find_key("anthropic", api_key)
        create = partial(anthropic.AsyncAnthropic, api_key=key, base_url=self.host or None, max_retries=0)
        self._client = LoopBoundClient(create, anthropic.AsyncAnthropic.close)

    async def _send_request(
        self, request: ModelRequest, *, live: bool
    ) -> AsyncGenerator[types.RawMessageStreamEvent, None]:
        create = self._client.get().messages.create
        payload = cast("dict[str, Any]", build_payload(request)) | {"timeout": request.settings.timeout_s}
        if not live:
            for event in _to_stream_events(await create(**payload)):
                yield event
            return
        async with await create(**payload, stream=True) as stream:
            async for event in stream:
                yield event

    def _add_chunk(self, chunk: types.RawMessageStreamEvent, builder: CompletionBuilder) -> Iterator[StreamDelta]:
        match chunk.type:
            case "message_start":
                builder.model = chunk.message.model
                builder.usage = _to_tokens(chunk.message.usage)
            case "content_block_start":
                yield from _start_block(chunk.index, chunk.content_block, builder)
            case "content_block_delta":
                yield from _extend_block(chunk.index, chunk.delta, builder)
            case "message_delta":
                reason = chunk.delta.stop_reason or "end_turn"
                builder.stop_reason = _STOP_REASONS.get(reason, reason)
                builder.usage = _update_tokens(builder.usage, chunk.usage)


def build_payload(request: ModelRequest) -> dict[str, object]:
    """The payload of a request."""
    settings = request.settings
    payload: dict[str, object] = {
        "model": request.model,
        "max_tokens": settings.max_tokens,
        "messages": list(_to_turns(request.messages)),
    }
    system = join_system_messages(request.messages)
    cached = {"cache_control": {"type": "ephemeral"}}
    if system:
        # the cache marker covers everything before it as well: the tools
        payload["system"] = [{"type": "text", "text": system, **cached}]
    tools = request.tools or request.closed_tools
    if tools:
        payload["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.parameters} for tool in tools
        ]
    if request.closed_tools:
        payload["tool_choice"] = {"type": "none"}
    if settings.response_schema is not None:
        schema = anthropic.transform_schema(cast("dict[str, Any]", settings.response_schema))
        payload["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
    selected = {
        key: getattr(settings, key)
        for key in ("temperature", "top_p")
        if _SAMPLED_MODELS.search(request.model) and getattr(settings, key) != getattr(_DEFAULT_SETTINGS, key)
    }
    return {**payload, "extra_body": selected} if selected else payload


def _to_turns(messages: tuple[Message, ...]) -> Iterator[dict[str, object]]:
    """Alternating user and assistant messages: the tool results of a turn are one user message."""
    for assistant, group in groupby(conversation_messages(messages), lambda message: message.role is Role.ASSISTANT):
        blocks = [block for message in group for block in _to_blocks(message)]
        yield {"role": "assistant" if assistant else "user", "content": blocks}


def _to_blocks(message: Message) -> Iterator[Mapping[str, object]]:
    if message.role is Role.TOOL:
        yield {
            "type": "tool_result",
            "tool_use_id": message.tool_call_id,
            "content": message.content or "(no output)",
            "is_error": message.is_error,
        }
        return
    # the service requires the signed thinking blocks before tool calls back, unchanged
    yield from get_state_blocks(message, "anthropic")
    for image in message.images:
        source = {"type": "base64", "media_type": image.media_type, "data": image.data}
        yield {"type": "image", "source": source}
    if message.content.strip():
        yield {"type": "text", "text": message.content}
    for call in message.tool_calls:
        yield {"type": "tool_use", "id": call.id, "name": call.name, "input": dict(call.arguments)}


def _to_stream_events(message: object) -> Iterator[types.RawMessageStreamEvent]:
    """A whole answer as the events of a stream."""
    if not isinstance(message, types.Message):  # a server that is not the API returns text
        raise ValueError(f"no message: {str(message)[:80]!r}")
    yield types.RawMessageStartEvent(type="message_start", message=message)
    for index, block in enumerate(message.content):
        yield types.RawContentBlockStartEvent(type="content_block_start", index=index, content_block=block)
    end = types.raw_message_delta_event.Delta(stop_reason=message.stop_reason)
    used = types.MessageDeltaUsage(output_tokens=message.usage.output_tokens)
    yield types.RawMessageDeltaEvent(type="message_delta", delta=end, usage=used)


def _start_block(index: int, block: types.ContentBlock, builder: CompletionBuilder) -> Iterator[StreamDelta]:
    """Start a block; in a whole answer it is complete."""
    if isinstance(block, types.TextBlock):
        yield from builder.add_text(block.text)
    elif isinstance(block, types.ToolUseBlock):
        arguments = cast("Mapping[str, JSON]", block.input or {})
        yield from builder.add_call(index, block.name, canonical_json(arguments) if arguments else "", block.id)
    elif isinstance(block, types.ThinkingBlock):
        yield from builder.add_reasoning(block.thinking)
        builder.state_blocks[index] = {"type": "thinking", "thinking": block.thinking, "signature": block.signature}
    elif isinstance(block, types.RedactedThinkingBlock):
        builder.state_blocks[index] = {"type": "redacted_thinking", "data": block.data}


def _extend_block(index: int, delta: types.RawContentBlockDelta, builder: CompletionBuilder) -> Iterator[StreamDelta]:
    """Add a delta to a block."""
    if isinstance(delta, types.TextDelta):
        yield from builder.add_text(delta.text)
    elif isinstance(delta, types.InputJSONDelta):
        yield from builder.add_call(index, arguments=delta.partial_json)
    elif isinstance(delta, types.ThinkingDelta):
        yield from builder.add_reasoning(delta.thinking)
        builder.append_state(index, "thinking", delta.thinking)
    elif isinstance(delta, types.SignatureDelta):
        builder.append_state(index, "signature", delta.signature)


def _to_tokens(usage: types.Usage) -> Tokens:
    read, written = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
    return Tokens(usage.input_tokens + read + written, usage.output_tokens, read, written)


def _update_tokens(tokens: Tokens, usage: types.MessageDeltaUsage) -> Tokens:
    """The usage at the end of a stream covers the whole answer; counts that it omits keep their value."""
    read, written = usage.cache_read_input_tokens, usage.cache_creation_input_tokens
    read = tokens.cached_tokens if read is None else read
    written = tokens.cache_write_tokens if written is None else written
    payload = tokens.prompt_tokens if usage.input_tokens is None else usage.input_tokens + read + written
    return Tokens(payload, usage.output_tokens, read, written)
