"""Anthropic's Messages, through the package `anthropic`.

Source: https://platform.claude.com/docs/en/api/messages
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Any, cast

from ragkit.agent.messages import Message, Role, to_json
from ragkit.agent.providers.base import Delta, ModelSettings, Request
from ragkit.agent.providers.chat_completions import stainless_refusal
from ragkit.agent.providers.keys import find_host, find_key
from ragkit.agent.providers.refusals import Refusal
from ragkit.agent.providers.service import (
    ClientOfLoop,
    Draft,
    Faults,
    ServiceProvider,
    kept_blocks,
    spoken,
    system_text,
)
from ragkit.errors import MissingExtra
from ragkit.records import JSON
from ragkit.usage.tokens import Tokens

try:
    import anthropic
    import httpx2
    from anthropic import types
except ImportError as error:
    raise MissingExtra("the provider 'anthropic'", extra="anthropic") from error

_STOPS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
_USUAL = ModelSettings()


class AnthropicProvider(ServiceProvider[types.RawMessageStreamEvent]):
    """Anthropic's Claude models.

    The system prompt and the tools are marked for the service's prompt cache. `temperature` and `top_p` are sent
    only where they are not the usual ones: newer models take neither.

    Args:
        api_key: by default ANTHROPIC_API_KEY.
        default_model: what is asked when a request names no model.
        base_url: the address of the API, without `/v1`; by default ANTHROPIC_BASE_URL, else Anthropic's.

    Raises:
        AuthenticationFailed: no key.
    """

    name = "anthropic"
    default_model = "claude-haiku-5-5"
    faults = Faults(
        late=(anthropic.APITimeoutError, httpx2.TimeoutException),
        broken=(anthropic.APIConnectionError, httpx2.HTTPError, httpx2.InvalidURL),
        refused=(anthropic.APIError,),
    )

    def __init__(self, api_key: str | None = None, default_model: str = "", *, base_url: str | None = None) -> None:
        self.host = find_host("anthropic", base_url)
        self.default_model = default_model or AnthropicProvider.default_model
        key = find_key("anthropic", api_key)
        host = self.host or None
        self._client = ClientOfLoop(
            lambda: anthropic.AsyncAnthropic(api_key=key, base_url=host, max_retries=0),
            anthropic.AsyncAnthropic.close,
        )

    async def _chunks(self, request: Request, *, live: bool) -> AsyncGenerator[types.RawMessageStreamEvent, None]:
        create = self._client.get().messages.create
        sent = cast("dict[str, Any]", payload(request)) | {"timeout": request.settings.timeout_s}
        if not live:
            for event in _events(await create(**sent)):
                yield event
            return
        async with await create(**sent, stream=True) as stream:
            async for event in stream:
                yield event

    def _fold(self, chunk: types.RawMessageStreamEvent, draft: Draft) -> Iterator[Delta]:
        match chunk.type:
            case "message_start":
                draft.model = chunk.message.model
                draft.usage = _tokens(chunk.message.usage)
            case "content_block_start":
                yield from _begin(chunk.index, chunk.content_block, draft)
            case "content_block_delta":
                yield from _go_on(chunk.index, chunk.delta, draft)
            case "message_delta":
                reason = chunk.delta.stop_reason or "end_turn"
                draft.stop_reason = _STOPS.get(reason, reason)
                draft.usage = _updated(draft.usage, chunk.usage)

    def _refusal(self, error: Exception) -> Refusal:
        return stainless_refusal(error)


def payload(request: Request) -> dict[str, object]:
    """A request as Messages takes it."""
    settings = request.settings
    sent: dict[str, object] = {
        "model": request.model,
        "max_tokens": settings.max_tokens,
        "messages": list(_turns(request.messages)),
    }
    system = system_text(request.messages)
    cached = {"cache_control": {"type": "ephemeral"}}
    if system:
        # the mark covers what stands before it as well: the tools
        sent["system"] = [{"type": "text", "text": system, **cached}]
    if request.tools:
        sent["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
            for tool in request.tools
        ]
    if settings.response_schema is not None:
        schema = anthropic.transform_schema(cast("dict[str, Any]", settings.response_schema))
        sent["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
    chosen = {
        key: getattr(settings, key)
        for key in ("temperature", "top_p")
        if getattr(settings, key) != getattr(_USUAL, key)
    }
    return {**sent, "extra_body": chosen} if chosen else sent


def _turns(messages: tuple[Message, ...]) -> Iterator[dict[str, object]]:
    """User and assistant in turn: what tools returned is said by the user, all results of a turn in one message."""
    for assistant, group in groupby(spoken(messages), lambda one: one.role is Role.ASSISTANT):
        blocks = [block for one in group for block in _blocks(one)]
        yield {"role": "assistant" if assistant else "user", "content": blocks}


def _blocks(message: Message) -> Iterator[Mapping[str, object]]:
    if message.role is Role.TOOL:
        yield {
            "type": "tool_result",
            "tool_use_id": message.tool_call_id,
            "content": message.content or "(no output)",
            "is_error": message.is_error,
        }
        return
    # signed thoughts that came before tool calls: the service wants to see them again, unchanged
    yield from kept_blocks(message, "anthropic")
    for image in message.images:
        source = {"type": "base64", "media_type": image.media_type, "data": image.data}
        yield {"type": "image", "source": source}
    if message.content.strip():
        yield {"type": "text", "text": message.content}
    for call in message.tool_calls:
        yield {"type": "tool_use", "id": call.id, "name": call.name, "input": dict(call.arguments)}


def _events(message: object) -> Iterator[types.RawMessageStreamEvent]:
    """A whole answer as the events that it would have been streamed as."""
    if not isinstance(message, types.Message):  # a page that is no API answers with text
        raise ValueError(f"no message: {str(message)[:80]!r}")
    yield types.RawMessageStartEvent(type="message_start", message=message)
    for index, block in enumerate(message.content):
        yield types.RawContentBlockStartEvent(type="content_block_start", index=index, content_block=block)
    end = types.raw_message_delta_event.Delta(stop_reason=message.stop_reason)
    used = types.MessageDeltaUsage(output_tokens=message.usage.output_tokens)
    yield types.RawMessageDeltaEvent(type="message_delta", delta=end, usage=used)


def _begin(index: int, block: types.ContentBlock, draft: Draft) -> Iterator[Delta]:
    """A block begins; in a whole answer it is all there."""
    if isinstance(block, types.TextBlock):
        yield from draft.say(block.text)
    elif isinstance(block, types.ToolUseBlock):
        given = cast("Mapping[str, JSON]", block.input or {})
        yield from draft.call(index, block.name, to_json(given) if given else "", block.id)
    elif isinstance(block, types.ThinkingBlock):
        draft.think(block.thinking)
        draft.kept[index] = {"type": "thinking", "thinking": block.thinking, "signature": block.signature}
    elif isinstance(block, types.RedactedThinkingBlock):
        draft.kept[index] = {"type": "redacted_thinking", "data": block.data}


def _go_on(index: int, delta: types.RawContentBlockDelta, draft: Draft) -> Iterator[Delta]:
    """A piece of a block."""
    if isinstance(delta, types.TextDelta):
        yield from draft.say(delta.text)
    elif isinstance(delta, types.InputJSONDelta):
        yield from draft.call(index, arguments=delta.partial_json)
    elif isinstance(delta, types.ThinkingDelta):
        draft.think(delta.thinking)
        draft.keep(index, "thinking", delta.thinking)
    elif isinstance(delta, types.SignatureDelta):
        draft.keep(index, "signature", delta.signature)


def _tokens(usage: types.Usage) -> Tokens:
    read, written = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
    return Tokens(usage.input_tokens + read + written, usage.output_tokens, read, written)


def _updated(tokens: Tokens, usage: types.MessageDeltaUsage) -> Tokens:
    """The figures at the end of a stream are those of the whole answer; what they leave out stands as it was."""
    read = tokens.cached_tokens if usage.cache_read_input_tokens is None else usage.cache_read_input_tokens
    written = (
        tokens.cache_write_tokens if usage.cache_creation_input_tokens is None else usage.cache_creation_input_tokens
    )
    sent = tokens.prompt_tokens if usage.input_tokens is None else usage.input_tokens + read + written
    return replace(
        tokens,
        prompt_tokens=sent,
        completion_tokens=usage.output_tokens,
        cached_tokens=read,
        cache_write_tokens=written,
    )
