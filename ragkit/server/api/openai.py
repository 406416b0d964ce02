"""Routes of the OpenAI-compatible API: chat completions, models, embeddings."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Annotated, Any, cast

import numpy as np
from fastapi import APIRouter, Path, Request
from fastapi.responses import JSONResponse, Response

from ragkit.agent.messages import ToolCall, canonical_json
from ragkit.answer.citations import CITATION_MARK
from ragkit.answer.outcome import Outcome
from ragkit.records import JSON
from ragkit.server.answering import answer_tasks
from ragkit.server.answering.pending_tool_calls import assign_call_ids, serialize_run
from ragkit.server.answering.streams import HEARTBEAT_SECONDS, EventStream, run_while_connected
from ragkit.server.api import openai_schemas as schemas
from ragkit.server.api.dependencies import DEFAULT_MODEL, AppContext, ContextDep, JsonObject
from ragkit.server.api.openai_requests import parse_completion_request
from ragkit.server.api.schemas import EVENT_STREAM_RESPONSE
from ragkit.server.concurrency import run_in_thread
from ragkit.server.http_errors import ErrorResponse, RequestRejected, invalid_request
from ragkit.server.principals import visible_bases
from ragkit.server.state.database import new_id
from ragkit.usage.meter import use_meter

router = APIRouter(prefix="/v1")
MAX_EMBEDDING_INPUTS = 256
"""Maximum texts per embeddings request."""
_CREATED = int(time.time())
_FINISH_REASONS = {
    "length": "length",
    "max_iterations": "length",
    "loop": "length",
    "content_filter": "content_filter",
    "refusal": "content_filter",
    "approval": "tool_calls",
}


@router.post(
    "/chat/completions",
    responses={200: {"model": schemas.CompletionSchema, **EVENT_STREAM_RESPONSE}},
    response_class=JSONResponse,
)
async def create_completion(request: Request, context: ContextDep, body: schemas.CompletionBody) -> Response:
    """Answer a conversation from the documents. With `stream`, OpenAI's server-sent events, ending with `data: [DONE]`.

    If the model calls one of the caller's `tools`, the answer ends; a request with the results resumes it.
    """
    context, model = context.select(body.model)
    answer_request = await parse_completion_request(body, context, context.resolve_model(model))
    task = await run_while_connected(request, context.runner.start(answer_request))
    writer = _CompletionWriter(context, body.model or DEFAULT_MODEL, str(request.base_url).rstrip("/"))
    if body.stream:
        include_usage = body.stream_options is not None and bool(body.stream_options.include_usage)
        return EventStream(writer.stream(task, include_usage), task.abandon)
    completed = await run_while_connected(request, answer_tasks.wait_for_answer(task))
    return JSONResponse(await writer.response(completed))


@router.get("/models", response_model=schemas.ModelListSchema)
async def list_models(context: ContextDep) -> Any:
    """List the models that requests can use."""
    bases = [f"{DEFAULT_MODEL}/{name}" for name in visible_bases(context.bases)]
    names = (*context.models, *bases, context.kb.embedder_name)
    return {"object": "list", "data": [_model_json(name) for name in names]}


@router.get("/models/{model:path}", response_model=schemas.ModelSchema)
async def get_model(context: ContextDep, model: Annotated[str, Path(max_length=200)]) -> Any:
    """Get a model."""
    if model != context.kb.embedder_name:
        context, name = context.select(model)
        context.resolve_model(name)
    return _model_json(model)


@router.post("/embeddings", response_model=schemas.EmbeddingListSchema)
async def create_embeddings(request: Request, context: ContextDep, body: schemas.EmbeddingBody) -> Any:
    """Embed texts with the embedder of the knowledge base."""
    context, model = context.select(body.model)
    name = context.kb.embedder_name
    if model not in (None, DEFAULT_MODEL, name):
        message = f"unknown embedder {body.model!r}; available: {DEFAULT_MODEL}, {name}"
        raise RequestRejected(ErrorResponse(404, message, "model_not_found", param="model"))
    texts = [body.input] if isinstance(body.input, str) else body.input
    if not texts or len(texts) > MAX_EMBEDDING_INPUTS:
        message = f"input must have 1 to {MAX_EMBEDDING_INPUTS} texts (got {len(texts)})"
        raise invalid_request(message, "input", "invalid_length")
    if not all(isinstance(text, str) for text in texts):
        raise invalid_request("input must be texts: token ids are not supported", "input")
    if not all(cast("list[str]", texts)):
        raise invalid_request("input must not contain empty texts", "input", "empty")
    principal = await run_while_connected(request, context.embedding_limiter.acquire())
    try:
        return JSONResponse(await run_in_thread(lambda: _embed_texts(context, cast("list[str]", texts), body)))
    finally:
        context.embedding_limiter.release(principal)


def _embed_texts(context: AppContext, texts: Sequence[str], body: schemas.EmbeddingBody) -> JsonObject:
    with use_meter(context.kb.create_meter("embed")) as meter:
        rows = np.ascontiguousarray(context.kb.embed(texts), "<f4")
    if body.dimensions not in (None, rows.shape[1]):
        raise invalid_request(f"dimensions must be {rows.shape[1]} (got {body.dimensions})", "dimensions")
    usage = meter.usage().to_dict()
    context.metrics.count_usage(usage, context.kb.embedder_name, context.name)
    encoded: list[JSON] = [
        base64.b64encode(row.tobytes()).decode() if body.encoding_format == "base64" else row.tolist() for row in rows
    ]
    data: list[JSON] = [{"object": "embedding", "index": at, "embedding": vector} for at, vector in enumerate(encoded)]
    tokens = usage["embedding_tokens"]
    usage_json: JsonObject = {"prompt_tokens": tokens, "total_tokens": tokens, "ragkit": usage}
    return {"object": "list", "model": context.kb.embedder_name, "data": data, "usage": usage_json}


class _CompletionWriter:
    """Writes an answer in OpenAI's format."""

    def __init__(self, context: AppContext, model: str, base_url: str) -> None:
        self._context = context
        self._model = model
        self._base_url = base_url
        self._id = new_id("chatcmpl").replace("_", "-", 1)
        self._created = int(time.time())

    async def response(self, completed: answer_tasks.AnswerCompleted) -> JsonObject:
        """The response without `stream`."""
        calls = await self._pending_calls(completed)
        text = completed.answer.text
        refusal = text if completed.answer.outcome is Outcome.REFUSED else None
        message: JsonObject = {"role": "assistant", "content": None if calls and not text else text, "refusal": refusal}
        message["annotations"] = self._annotations(completed, text)
        if calls:
            message["tool_calls"] = [_tool_call_json(call) for call in calls]
        finish_reason = _finish_reason(completed)
        choice: JsonObject = {"index": 0, "message": message, "finish_reason": finish_reason, "logprobs": None}
        return {**self._envelope("chat.completion"), "choices": [choice], **_extra_fields(completed)}

    async def stream(self, task: answer_tasks.AnswerTask, include_usage: bool) -> AsyncIterator[bytes]:
        """The response with `stream`, as server-sent events."""
        text: list[str] = []
        while True:
            try:
                events = await task.events.get_batch(HEARTBEAT_SECONDS)
            except StopAsyncIteration:
                return
            frames = b": keep-alive\n\n" if not events else b""
            for event in events:
                if isinstance(event, answer_tasks.AnswerStarted):
                    frames += self._encode_chunk({"role": "assistant", "content": ""})
                elif isinstance(event, answer_tasks.AnswerTextDelta):
                    text.append(event.text)
                    frames += self._encode_chunk({"content": event.text})
                elif isinstance(event, answer_tasks.AnswerFailed):
                    frames += _encode_data(event.error.to_json())
                elif isinstance(event, answer_tasks.AnswerCompleted):
                    frames += b"".join(await self._final_frames(event, "".join(text), include_usage))
            if frames:
                yield frames

    async def _final_frames(
        self, completed: answer_tasks.AnswerCompleted, text: str, include_usage: bool
    ) -> list[bytes]:
        frames = []
        calls = await self._pending_calls(completed)
        if calls:
            call_deltas: list[JSON] = [{"index": index, **_tool_call_json(call)} for index, call in enumerate(calls)]
            frames.append(self._encode_chunk({"tool_calls": call_deltas}))
        annotations = self._annotations(completed, text)
        delta: JsonObject = {"annotations": annotations} if annotations else {}
        choice: JsonObject = {"index": 0, "delta": delta, "finish_reason": _finish_reason(completed), "logprobs": None}
        head = self._envelope("chat.completion.chunk")
        if include_usage:
            frames.append(_encode_data({**head, "choices": [choice]}))
            frames.append(_encode_data({**head, "choices": [], **_extra_fields(completed)}))
        else:
            frames.append(_encode_data({**head, "choices": [choice], **_extra_fields(completed)}))
        return [*frames, b"data: [DONE]\n\n"]

    async def _pending_calls(self, completed: answer_tasks.AnswerCompleted) -> list[ToolCall]:
        """The pending calls of the caller's tools, with ids that contain the id of the suspended run."""
        suspended = completed.result.suspended
        if suspended is None:
            return []
        run = await self._context.traces.save_suspended_run(serialize_run(suspended, completed.answer.evidence))
        return assign_call_ids(run, [pending.call for pending in suspended.pending])

    def _encode_chunk(self, delta: JsonObject) -> bytes:
        choice: JsonObject = {"index": 0, "delta": delta, "finish_reason": None, "logprobs": None}
        return _encode_data({**self._envelope("chat.completion.chunk"), "choices": [choice]})

    def _envelope(self, kind: str) -> JsonObject:
        return {"id": self._id, "object": kind, "created": self._created, "model": self._model}

    def _annotations(self, completed: answer_tasks.AnswerCompleted, text: str) -> list[JSON]:
        """Citations as url_citation annotations, with the URL of the web page or of the document on this server."""
        citations = {c["n"]: c for c in cast("list[dict[str, JSON]]", completed.message["citations"])}
        annotations: list[JSON] = []
        for match in CITATION_MARK.finditer(text):
            place: JsonObject = {"start_index": match.start(), "end_index": match.end()}
            for number in match[1].split(","):
                citation = citations.get(int(number))
                if citation is not None:
                    target = {"url": self._citation_url(citation), "title": str(citation["source"])}
                    annotations.append({"type": "url_citation", "url_citation": {**target, **place}})
        return annotations

    def _citation_url(self, citation: Mapping[str, JSON]) -> str:
        source = str(citation["source"])
        if source.startswith(("http://", "https://")):
            return source
        lines = f"start_line={citation['start_line']}&end_line={citation['end_line']}"
        return f"{self._base_url}/documents/{citation['document_id']}?{lines}"


_EXTRA_KEYS = ("citations", "statements", "supported", "evidence", "abstained", "outcome", "notices")


def _extra_fields(completed: answer_tasks.AnswerCompleted) -> JsonObject:
    """Usage, and the keys that are not OpenAI's."""
    message, usage = completed.message, completed.answer.usage
    return {
        "usage": {
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "total_tokens": usage.prompt_tokens + usage.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
            "ragkit": message["usage"],
        },
        **{key: message[key] for key in _EXTRA_KEYS},
        "answered_by": message["model"],
        "trace_id": completed.trace_id,
        "session_id": completed.session["id"] if completed.session else None,
        "trace": dict(completed.trace),
    }


def _finish_reason(completed: answer_tasks.AnswerCompleted) -> str:
    return _FINISH_REASONS.get(completed.result.stop_reason, "stop")


def _tool_call_json(call: ToolCall) -> JsonObject:
    arguments = call.malformed or canonical_json(dict(call.arguments))
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _model_json(name: str) -> JsonObject:
    return {"id": name, "object": "model", "created": _CREATED, "owned_by": "ragkit"}


def _encode_data(value: Mapping[str, JSON]) -> bytes:
    return f"data: {json.dumps(value, ensure_ascii=False, default=dict)}\n\n".encode()
