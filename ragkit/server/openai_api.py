"""OpenAI's API: chat completions, models, embeddings."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Annotated, Any, cast

import numpy as np
from fastapi import APIRouter, Path, Request
from fastapi.responses import JSONResponse, Response

from ragkit.agent.messages import ToolCall, canonical_json
from ragkit.records import JSON
from ragkit.server import openai_schemas as shapes
from ragkit.server.answer_tasks import (
    AnswerCompleted,
    AnswerFailed,
    AnswerStarted,
    AnswerTask,
    AnswerTextDelta,
    wait_for_answer,
)
from ragkit.server.database import new_id
from ragkit.server.dependencies import DEFAULT_MODEL, AppContext, ContextDep, JsonObject
from ragkit.server.http_errors import ErrorResponse, RequestRejected, invalid_request
from ragkit.server.openai_requests import parse_completion_request
from ragkit.server.pending_tool_calls import assign_call_ids, serialize_run
from ragkit.server.schemas import EVENT_STREAM_RESPONSE
from ragkit.server.streams import HEARTBEAT_SECONDS, EventStream, run_while_connected
from ragkit.usage.meter import use_meter

router = APIRouter(prefix="/v1")
MAX_EMBEDDING_INPUTS = 256
"""Texts of one request of embeddings."""
_CREATED = int(time.time())
_CITATION_MARK = re.compile(r"\[(\d{1,4}(?:\s*,\s*\d{1,4})*)\]")
_FINISH_REASONS = {
    "length": "length",
    "max_iterations": "length",
    "content_filter": "content_filter",
    "approval": "tool_calls",
}


@router.post(
    "/chat/completions",
    responses={200: {"model": shapes.CompletionSchema, **EVENT_STREAM_RESPONSE}},
    response_class=JSONResponse,
)
async def create_completion(request: Request, served: ContextDep, body: shapes.CompletionBody) -> Response:
    """Answer a conversation from the documents. With `stream` server-sent events as OpenAI's, and `data: [DONE]`.

    When the model calls one of the caller's own `tools` the answer ends there; it goes on with the request that brings
    the results.
    """
    ask = await parse_completion_request(body, served)
    answering = await run_while_connected(request, served.runner.start(ask))
    words = _CompletionWriter(served, body.model or DEFAULT_MODEL, str(request.base_url).rstrip("/"))
    if body.stream:
        wants_usage = body.stream_options is not None and bool(body.stream_options.include_usage)
        return EventStream(words.stream(answering, wants_usage), answering.abandon)
    over = await run_while_connected(request, wait_for_answer(answering))
    return JSONResponse(await words.response(over))


@router.get("/models", response_model=shapes.ModelListSchema)
async def list_models(served: ContextDep) -> Any:
    """The models that requests may name."""
    return {"object": "list", "data": [_model_json(name) for name in (*served.models, served.kb.embedder_name)]}


@router.get("/models/{model:path}", response_model=shapes.ModelSchema)
async def get_model(served: ContextDep, model: Annotated[str, Path(max_length=200)]) -> Any:
    """One of them."""
    if model != served.kb.embedder_name:
        served.resolve_model(model)
    return _model_json(model)


@router.post("/embeddings", response_model=shapes.EmbeddingListSchema)
async def create_embeddings(served: ContextDep, body: shapes.EmbeddingBody) -> Any:
    """Vectors of texts, by the embedder of the knowledge base."""
    name = served.kb.embedder_name
    if body.model not in (None, DEFAULT_MODEL, name):
        message = f"there is no embedder of that name here; known: {DEFAULT_MODEL}, {name}"
        raise RequestRejected(ErrorResponse(404, message, "model_not_found", param="model"))
    texts = [body.input] if isinstance(body.input, str) else body.input
    if not texts or len(texts) > MAX_EMBEDDING_INPUTS:
        raise invalid_request(f"1 to {MAX_EMBEDDING_INPUTS} texts are taken", "input", "invalid_length")
    if not all(isinstance(one, str) for one in texts):
        raise invalid_request(
            "texts are wanted, not numbers of tokens: tokens differ from embedder to embedder", "input"
        )
    if not all(cast("list[str]", texts)):
        raise invalid_request("a text is empty", "input", "empty")
    return JSONResponse(await asyncio.to_thread(_embed_texts, served, cast("list[str]", texts), body))


def _embed_texts(served: AppContext, texts: Sequence[str], body: shapes.EmbeddingBody) -> JsonObject:
    with use_meter(served.kb.create_meter("embed")) as meter:
        rows = np.ascontiguousarray(served.kb.embed(texts), "<f4")
    if body.dimensions not in (None, rows.shape[1]):
        raise invalid_request(f"the vectors of this embedder have {rows.shape[1]} dimensions", "dimensions")
    usage = meter.usage().to_dict()
    served.metrics.count_usage(usage)
    encoded: list[JSON] = [
        base64.b64encode(row.tobytes()).decode() if body.encoding_format == "base64" else row.tolist() for row in rows
    ]
    data: list[JSON] = [{"object": "embedding", "index": at, "embedding": one} for at, one in enumerate(encoded)]
    tokens = usage["embedding_tokens"]
    told: JsonObject = {"prompt_tokens": tokens, "total_tokens": tokens, "ragkit": usage}
    return {"object": "list", "model": served.kb.embedder_name, "data": data, "usage": told}


class _CompletionWriter:
    """An answer in OpenAI's words."""

    def __init__(self, served: AppContext, model: str, base_url: str) -> None:
        self._context = served
        self._model = model
        self._base_url = base_url
        self._id = new_id("chatcmpl").replace("_", "-", 1)
        self._created = int(time.time())

    async def response(self, over: AnswerCompleted) -> JsonObject:
        """The answer to a request without `stream`."""
        calls = await self._pending_calls(over)
        text = over.answer.text
        message: JsonObject = {
            "role": "assistant",
            "content": None if calls and not text else text,
            "refusal": None,
            "annotations": self._annotations(over, text),
            **({"tool_calls": [_tool_call_json(call) for call in calls]} if calls else {}),
        }
        choice: JsonObject = {"index": 0, "message": message, "finish_reason": _finish_reason(over), "logprobs": None}
        return {**self._envelope("chat.completion"), "choices": [choice], **_extra_fields(over)}

    async def stream(self, answering: AnswerTask, wants_usage: bool) -> AsyncIterator[bytes]:
        """The answer to a request with `stream`, as server-sent events."""
        text: list[str] = []
        while True:
            try:
                events = await answering.events.get_batch(HEARTBEAT_SECONDS)
            except StopAsyncIteration:
                return
            found = b": still at work\n\n" if not events else b""
            for event in events:
                if isinstance(event, AnswerStarted):
                    found += self._encode_chunk({"role": "assistant", "content": ""})
                elif isinstance(event, AnswerTextDelta):
                    text.append(event.text)
                    found += self._encode_chunk({"content": event.text})
                elif isinstance(event, AnswerFailed):
                    found += _encode_data(event.error.to_json())
                elif isinstance(event, AnswerCompleted):
                    found += b"".join(await self._final_frames(event, "".join(text), wants_usage))
            if found:
                yield found

    async def _final_frames(self, over: AnswerCompleted, text: str, wants_usage: bool) -> list[bytes]:
        found = []
        calls = await self._pending_calls(over)
        if calls:
            pieces: list[JSON] = [{"index": at, **_tool_call_json(call)} for at, call in enumerate(calls)]
            found.append(self._encode_chunk({"tool_calls": pieces}))
        annotations = self._annotations(over, text)
        delta: JsonObject = {"annotations": annotations} if annotations else {}
        choice: JsonObject = {"index": 0, "delta": delta, "finish_reason": _finish_reason(over), "logprobs": None}
        head = self._envelope("chat.completion.chunk")
        if wants_usage:
            found.append(_encode_data({**head, "choices": [choice]}))
            found.append(_encode_data({**head, "choices": [], **_extra_fields(over)}))
        else:
            found.append(_encode_data({**head, "choices": [choice], **_extra_fields(over)}))
        return [*found, b"data: [DONE]\n\n"]

    async def _pending_calls(self, over: AnswerCompleted) -> list[ToolCall]:
        """The calls of the caller's tools that the run waits for, under ids that lead back to it."""
        suspended = over.result.suspended
        if suspended is None:
            return []
        run = await self._context.traces.save_suspended_run(serialize_run(suspended, over.answer.evidence))
        return assign_call_ids(run, [one.call for one in suspended.pending])

    def _encode_chunk(self, delta: JsonObject) -> bytes:
        choice: JsonObject = {"index": 0, "delta": delta, "finish_reason": None, "logprobs": None}
        return _encode_data({**self._envelope("chat.completion.chunk"), "choices": [choice]})

    def _envelope(self, kind: str) -> JsonObject:
        return {"id": self._id, "object": kind, "created": self._created, "model": self._model}

    def _annotations(self, over: AnswerCompleted, text: str) -> list[JSON]:
        """Where in the text citations stand, and where they lead: to a page on the web, or to our own document."""
        cited = {one["n"]: one for one in cast("list[dict[str, JSON]]", over.message["citations"])}
        found: list[JSON] = []
        for match in _CITATION_MARK.finditer(text):
            for number in match[1].split(","):
                one = cited.get(int(number))
                if one is not None:
                    place: JsonObject = {"start_index": match.start(), "end_index": match.end()}
                    told: JsonObject = {"url": self._citation_url(one), "title": str(one["source"]), **place}
                    found.append({"type": "url_citation", "url_citation": told})
        return found

    def _citation_url(self, citation: Mapping[str, JSON]) -> str:
        source = str(citation["source"])
        if source.startswith(("http://", "https://")):
            return source
        lines = f"start_line={citation['start_line']}&end_line={citation['end_line']}"
        return f"{self._base_url}/documents/{citation['document_id']}?{lines}"


def _extra_fields(over: AnswerCompleted) -> JsonObject:
    """What ours says beside OpenAI's keys."""
    message, usage = over.message, over.answer.usage
    return {
        "usage": {
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "total_tokens": usage.prompt_tokens + usage.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
            "ragkit": message["usage"],
        },
        "citations": message["citations"],
        "evidence": message["evidence"],
        "abstained": message["abstained"],
        "answered_by": message["model"],
        "trace_id": over.trace_id,
        "session_id": over.session["id"] if over.session else None,
    }


def _finish_reason(over: AnswerCompleted) -> str:
    return _FINISH_REASONS.get(over.result.stop_reason, "stop")


def _tool_call_json(call: ToolCall) -> JsonObject:
    arguments = call.malformed or canonical_json(dict(call.arguments))
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _model_json(name: str) -> JsonObject:
    return {"id": name, "object": "model", "created": _CREATED, "owned_by": "ragkit"}


def _encode_data(value: Mapping[str, JSON]) -> bytes:
    return f"data: {json.dumps(value, ensure_ascii=False, default=dict)}\n\n".encode()
