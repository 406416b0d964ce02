"""Routes of the OpenAI-compatible API: chat completions, completions of the older API, models."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from fastapi.responses import JSONResponse, Response

from ragkit.agent.messages import ToolCall
from ragkit.records import JSON
from ragkit.server.answering.streams import EventStream, run_while_connected
from ragkit.server.api.dependencies import DEFAULT_MODEL, ContextDep, JsonObject
from ragkit.server.api.openai import schemas
from ragkit.server.api.openai.replies import Reply, ReplyStream, call_arguments, encode_data
from ragkit.server.api.openai.requests import parse_completion_request, parse_text_completion_request
from ragkit.server.api.schemas.requests import EVENT_STREAM_RESPONSE
from ragkit.server.http_errors import ErrorResponse
from ragkit.server.principals import visible_kbs
from ragkit.server.state.database import new_id

router = APIRouter(prefix="/v1")
_CREATED = int(time.time())


@router.post(
    "/chat/completions",
    responses={200: {"model": schemas.CompletionSchema, **EVENT_STREAM_RESPONSE}},
    response_class=JSONResponse,
)
async def create_completion(request: Request, context: ContextDep, body: schemas.CompletionBody) -> Response:
    """Answer a conversation from the documents. With `stream`, OpenAI's server-sent events, ending with `data: [DONE]`.

    If the model calls one of the caller's `tools`, the answer ends; a request with the results resumes it. Titles, tags
    and the like for a chat program are made without a search.
    """
    context, model = context.select(body.model)
    parsed = await parse_completion_request(body, context, context.resolve_model(model))
    stream = await ReplyStream.start(request, context, parsed)
    writer = _ChatWriter(body.model or DEFAULT_MODEL, _wants_usage(body.stream_options))
    return await _respond(request, stream, writer, streamed=bool(body.stream))


@router.post(
    "/completions",
    responses={200: {"model": schemas.TextCompletionSchema, **EVENT_STREAM_RESPONSE}},
    response_class=JSONResponse,
)
async def create_text_completion(request: Request, context: ContextDep, body: schemas.TextCompletionBody) -> Response:
    """Answer one question from the documents, for clients of OpenAI's older API."""
    context, model = context.select(body.model)
    parsed = await parse_text_completion_request(body, context, context.resolve_model(model))
    stream = await ReplyStream.start(request, context, parsed)
    writer = _TextWriter(body.model or DEFAULT_MODEL, _wants_usage(body.stream_options))
    return await _respond(request, stream, writer, streamed=bool(body.stream))


@router.get("/models", response_model=schemas.ModelListSchema)
async def list_models(context: ContextDep) -> Any:
    """List the models that requests can use."""
    bases = [f"{DEFAULT_MODEL}/{name}" for name in visible_kbs(context.bases)]
    names = (*context.models, *bases, context.embedder_name)
    return {"object": "list", "data": [_model_json(name) for name in names]}


@router.get("/models/{model:path}", response_model=schemas.ModelSchema)
async def get_model(context: ContextDep, model: Annotated[str, Path(max_length=200)]) -> Any:
    """Get a model."""
    if model != context.embedder_name:
        context, name = context.select(model)
        context.resolve_model(name)
    return _model_json(model)


class _ChatWriter:
    """Writes a reply as a chat completion."""

    id_prefix, whole, chunk = "chatcmpl", "chat.completion", "chat.completion.chunk"

    def __init__(self, model: str, include_usage: bool) -> None:
        self._head: JsonObject = {
            "id": new_id(self.id_prefix).replace("_", "-", 1),
            "created": int(time.time()),
            "model": model,
        }
        self._include_usage = include_usage

    def response(self, reply: Reply) -> JsonObject:
        """The response without `stream`."""
        choice = {"index": 0, **self.content(reply), "finish_reason": reply.finish_reason, "logprobs": None}
        return {**self._head, "object": self.whole, "choices": [choice], "usage": reply.usage, **reply.extra}

    async def frames(self, stream: ReplyStream) -> AsyncIterator[bytes]:
        """The response with `stream`, as server-sent events."""
        yield self._chunk(self.delta(role="assistant", text=""))
        async for pieces in stream.batches():
            frames = b"" if pieces else b": keep-alive\n\n"
            for piece in pieces:
                if isinstance(piece, str):
                    frames += self._chunk(self.delta(text=piece))
                elif isinstance(piece, ErrorResponse):
                    frames += encode_data(piece.to_json())
                else:
                    frames += self._last_frames(piece)
            yield frames

    def _last_frames(self, reply: Reply) -> bytes:
        calls = b""
        if reply.calls:
            deltas: list[JSON] = [{"index": index, **_call_json(call)} for index, call in enumerate(reply.calls)]
            calls = self._chunk({"delta": {"tool_calls": deltas}})
        end = self.delta(annotations=_annotations(reply))
        rest: JsonObject = {"usage": reply.usage, **reply.extra}
        if not self._include_usage:
            return calls + self._chunk(end, reply.finish_reason, rest) + b"data: [DONE]\n\n"
        usage = encode_data({**self._head, "object": self.chunk, "choices": [], **rest})
        return calls + self._chunk(end, reply.finish_reason) + usage + b"data: [DONE]\n\n"

    def _chunk(self, content: JsonObject, finish_reason: str | None = None, rest: JsonObject | None = None) -> bytes:
        choice: JsonObject = {"index": 0, **content, "finish_reason": finish_reason, "logprobs": None}
        return encode_data({**self._head, "object": self.chunk, "choices": [choice], **(rest or {})})

    def content(self, reply: Reply) -> JsonObject:
        """The content of the whole answer."""
        text = None if reply.calls and not reply.text else reply.text
        message: JsonObject = {"role": "assistant", "content": text, "refusal": reply.refusal}
        message["annotations"] = _annotations(reply)
        if reply.calls:
            message["tool_calls"] = [_call_json(call) for call in reply.calls]
        return {"message": message}

    def delta(
        self, *, role: str | None = None, text: str | None = None, annotations: list[JSON] | None = None
    ) -> JsonObject:
        """The content of a chunk."""
        fields: JsonObject = {"role": role, "content": text, "annotations": annotations or None}
        return {"delta": {key: value for key, value in fields.items() if value is not None}}


class _TextWriter(_ChatWriter):
    """Writes a reply as a completion of the older API."""

    id_prefix, whole, chunk = "cmpl", "text_completion", "text_completion"

    def content(self, reply: Reply) -> JsonObject:
        """The content of the whole answer."""
        return {"text": reply.text}

    def delta(
        self, *, role: str | None = None, text: str | None = None, annotations: list[JSON] | None = None
    ) -> JsonObject:
        """The content of a chunk."""
        return {"text": text or ""}


async def _respond(request: Request, stream: ReplyStream, writer: _ChatWriter, *, streamed: bool) -> Response:
    if streamed:
        return EventStream(writer.frames(stream), stream.abandon)
    return JSONResponse(writer.response(await run_while_connected(request, stream.complete())))


def _wants_usage(options: schemas.StreamOptions | None) -> bool:
    return options is not None and bool(options.include_usage)


def _annotations(reply: Reply) -> list[JSON]:
    return [{"type": "url_citation", "url_citation": citation} for citation in reply.citations]


def _call_json(call: ToolCall) -> JsonObject:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call_arguments(call)}}


def _model_json(name: str) -> JsonObject:
    return {"id": name, "object": "model", "created": _CREATED, "owned_by": "ragkit"}
