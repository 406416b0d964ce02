"""The words of OpenAI's Chat Completions, which Groq and many other servers speak too.

Requests out, pieces of answers in, as plain JSON: no SDK is imported here, each one hands its pieces over as JSON.
Source: https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TypedDict, cast

from ragkit.agent.messages import Message, Role, canonical_json
from ragkit.agent.providers.base import ModelRequest, StreamDelta
from ragkit.agent.providers.error_mapping import ServiceErrorResponse
from ragkit.agent.providers.http_provider import CompletionBuilder, HTTPProvider
from ragkit.errors import ConnectionFailed
from ragkit.records import JSON
from ragkit.usage.tokens import Tokens

_REASONING_MODELS = re.compile(r"(?:^|/)(?:o\d|gpt-[5-9]|gpt-\d\d|codex)")
"""OpenAI's models that reason: they take no temperature, and their limit of tokens has another name."""
_STOP_REASONS = {"function_call": "tool_calls"}


class FunctionData(TypedDict, total=False):
    """The function of a tool call."""

    name: str | None
    arguments: str | None


class ToolCallData(TypedDict, total=False):
    """A tool call, or a piece of one; a whole answer has no index."""

    index: int
    id: str | None
    function: FunctionData


class MessageData(TypedDict, total=False):
    """`message` of a whole answer, `delta` of a piece."""

    content: str | None
    refusal: str | None
    reasoning: str | None
    reasoning_content: str | None
    tool_calls: list[ToolCallData] | None


class ChoiceData(TypedDict, total=False):
    """One of the answers; we ask for one."""

    message: MessageData
    delta: MessageData
    finish_reason: str | None


class PromptTokensDetails(TypedDict, total=False):
    """What the prompt tokens are made of."""

    cached_tokens: int | None


class UsageData(TypedDict, total=False):
    """The tokens of a request."""

    prompt_tokens: int
    completion_tokens: int
    prompt_tokens_details: PromptTokensDetails | None


class GroqExtra(TypedDict, total=False):
    """What Groq adds to a piece."""

    usage: UsageData | None
    error: str | None


class ChatCompletionChunk(TypedDict, total=False):
    """A piece of an answer, or a whole one."""

    model: str
    choices: list[ChoiceData] | None
    usage: UsageData | None
    x_groq: GroqExtra | None


def build_payload(request: ModelRequest) -> dict[str, object]:
    """A request as Chat Completions takes it."""
    settings = request.settings
    sent: dict[str, object] = {"model": request.model, "messages": [_to_chat_message(one) for one in request.messages]}
    if _REASONING_MODELS.search(request.model):
        sent["max_completion_tokens"] = settings.max_tokens
    else:
        sent |= {
            "max_tokens": settings.max_tokens,
            "temperature": settings.temperature,
            "top_p": settings.top_p,
        }
    if request.tools:
        sent["tools"] = [tool.to_schema() for tool in request.tools]
    if settings.response_schema is not None:
        form = {
            "name": "answer",
            "schema": settings.response_schema,
            "strict": supports_strict_mode(settings.response_schema),
        }
        sent["response_format"] = {"type": "json_schema", "json_schema": form}
    return sent


def supports_strict_mode(schema: JSON) -> bool:
    """Whether a service can hold an answer to this schema strictly: objects are closed, all their keys required."""
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


def _to_chat_message(message: Message) -> dict[str, object]:
    if message.role is Role.TOOL:
        return {"role": "tool", "tool_call_id": message.tool_call_id, "content": message.content}
    if message.images:
        return {"role": message.role.value, "content": _content_parts(message)}
    if not message.tool_calls:
        return {"role": message.role.value, "content": message.content}
    calls = [
        # arguments that could not be read are left out: some servers read them again, and fail
        {"id": one.id, "type": "function", "function": {"name": one.name, "arguments": canonical_json(one.arguments)}}
        for one in message.tool_calls
    ]
    return {"role": "assistant", "content": message.content or None, "tool_calls": calls}


def _content_parts(message: Message) -> list[dict[str, object]]:
    text: list[dict[str, object]] = [{"type": "text", "text": message.content}] if message.content else []
    urls = [f"data:{one.media_type};base64,{one.data}" for one in message.images]
    return text + [{"type": "image_url", "image_url": {"url": url}} for url in urls]


class ChatCompletionsProvider(HTTPProvider[ChatCompletionChunk]):
    """Base of the providers whose service speaks Chat Completions: what their pieces mean."""

    def _add_chunk(self, chunk: ChatCompletionChunk, draft: CompletionBuilder) -> Iterator[StreamDelta]:
        draft.model = chunk.get("model") or draft.model
        extra = chunk.get("x_groq") or {}
        if extra.get("error"):
            raise ConnectionFailed(self.name, f"the answer broke off: {extra.get('error')}")
        usage = chunk.get("usage") or extra.get("usage")
        if usage:
            draft.usage = _to_tokens(usage)
        for choice in (chunk.get("choices") or [])[:1]:
            said = choice.get("delta") or choice.get("message") or {}
            draft.add_reasoning(said.get("reasoning_content") or said.get("reasoning"))
            yield from draft.add_text(said.get("content"))
            yield from draft.add_text(said.get("refusal"))
            for position, call in enumerate(said.get("tool_calls") or []):
                function = call.get("function") or {}
                index = call.get("index", position)
                yield from draft.add_call(
                    index, function.get("name") or "", function.get("arguments") or "", call.get("id") or ""
                )
            reason = choice.get("finish_reason")
            if reason:
                refusal = said.get("refusal") and reason == "stop"
                draft.stop_reason = "content_filter" if refusal else _STOP_REASONS.get(reason, reason)

    def _read_error(self, error: Exception) -> ServiceErrorResponse:
        return read_sdk_error(error)


def read_sdk_error(error: Exception) -> ServiceErrorResponse:
    """What the service said, from an error of one of the SDKs that are generated by Stainless."""
    response = getattr(error, "response", None)
    status = response.status_code if response is not None else None
    headers = response.headers if response is not None else {}
    body: object = getattr(error, "body", None)
    # an error in the middle of a stream comes with the status of the stream, which was fine
    return ServiceErrorResponse.parse(None if status == 200 else status, body or str(error), headers)


def _to_tokens(usage: UsageData) -> Tokens:
    details = usage.get("prompt_tokens_details") or {}
    return Tokens(
        usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0, details.get("cached_tokens") or 0
    )
