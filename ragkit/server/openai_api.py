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

from ragkit.agent.messages import ToolCall, to_json
from ragkit.records import JSON
from ragkit.server import openai_shapes as shapes
from ragkit.server.answers import Answering, Began, Broke, Over, Said, finished
from ragkit.server.faults import Fault, Refused, refuse
from ragkit.server.openai_read import read
from ragkit.server.service import DEFAULT_MODEL, Served, Service, Shape
from ragkit.server.shapes import STREAMED
from ragkit.server.state import new_id
from ragkit.server.streams import HEARTBEAT_SECONDS, EventStream, while_connected
from ragkit.server.suspension import ids_of, keep
from ragkit.usage.meter import metered

router = APIRouter(prefix="/v1")
MOST_TEXTS = 256
"""Texts of one request of embeddings."""
_STARTED = int(time.time())
_MARK = re.compile(r"\[(\d{1,4}(?:\s*,\s*\d{1,4})*)\]")
_FINISH = {"length": "length", "max_iterations": "length", "content_filter": "content_filter", "approval": "tool_calls"}


@router.post(
    "/chat/completions", responses={200: {"model": shapes.CompletionShape, **STREAMED}}, response_class=JSONResponse
)
async def completions(request: Request, served: Served, body: shapes.CompletionBody) -> Response:
    """Answer a conversation from the documents. With `stream` server-sent events as OpenAI's, and `data: [DONE]`.

    When the model calls one of the caller's own `tools` the answer ends there; it goes on with the request that brings
    the results.
    """
    ask = await read(body, served)
    answering = await while_connected(request, served.shop.start(ask))
    words = _Words(served, body.model or DEFAULT_MODEL, str(request.base_url).rstrip("/"))
    if body.stream:
        wants_usage = body.stream_options is not None and bool(body.stream_options.include_usage)
        return EventStream(words.frames(answering, wants_usage), answering.leave)
    over = await while_connected(request, finished(answering))
    return JSONResponse(await words.whole(over))


@router.get("/models", response_model=shapes.ModelsShape)
async def models(served: Served) -> Any:
    """The models that requests may name."""
    return {"object": "list", "data": [_model(name) for name in (*served.models, served.kb.embedder_name)]}


@router.get("/models/{model:path}", response_model=shapes.ModelShape)
async def model(served: Served, model: Annotated[str, Path(max_length=200)]) -> Any:
    """One of them."""
    if model != served.kb.embedder_name:
        served.model(model)
    return _model(model)


@router.post("/embeddings", response_model=shapes.EmbeddingsShape)
async def embeddings(served: Served, body: shapes.EmbeddingBody) -> Any:
    """Vectors of texts, by the embedder of the knowledge base."""
    name = served.kb.embedder_name
    if body.model not in (None, DEFAULT_MODEL, name):
        message = f"there is no embedder of that name here; known: {DEFAULT_MODEL}, {name}"
        raise Refused(Fault(404, message, "model_not_found", param="model"))
    texts = [body.input] if isinstance(body.input, str) else body.input
    if not texts or len(texts) > MOST_TEXTS:
        raise refuse(f"1 to {MOST_TEXTS} texts are taken", "input", "invalid_length")
    if not all(isinstance(one, str) for one in texts):
        raise refuse("texts are wanted, not numbers of tokens: tokens differ from embedder to embedder", "input")
    if not all(cast("list[str]", texts)):
        raise refuse("a text is empty", "input", "empty")
    return JSONResponse(await asyncio.to_thread(_embedded, served, cast("list[str]", texts), body))


def _embedded(served: Service, texts: Sequence[str], body: shapes.EmbeddingBody) -> Shape:
    with metered(served.kb.meter("embed")) as meter:
        rows = np.ascontiguousarray(served.kb.embed(texts), "<f4")
    if body.dimensions not in (None, rows.shape[1]):
        raise refuse(f"the vectors of this embedder have {rows.shape[1]} dimensions", "dimensions")
    usage = meter.usage().to_dict()
    served.metrics.used(usage)
    encoded: list[JSON] = [
        base64.b64encode(row.tobytes()).decode() if body.encoding_format == "base64" else row.tolist() for row in rows
    ]
    data: list[JSON] = [{"object": "embedding", "index": at, "embedding": one} for at, one in enumerate(encoded)]
    tokens = usage["embedding_tokens"]
    told: Shape = {"prompt_tokens": tokens, "total_tokens": tokens, "ragkit": usage}
    return {"object": "list", "model": served.kb.embedder_name, "data": data, "usage": told}


class _Words:
    """An answer in OpenAI's words."""

    def __init__(self, served: Service, model: str, base_url: str) -> None:
        self._served = served
        self._model = model
        self._base_url = base_url
        self._id = new_id("chatcmpl").replace("_", "-", 1)
        self._created = int(time.time())

    async def whole(self, over: Over) -> Shape:
        """The answer to a request without `stream`."""
        calls = await self._calls(over)
        text = over.answer.text
        message: Shape = {
            "role": "assistant",
            "content": None if calls and not text else text,
            "refusal": None,
            "annotations": self._annotations(over, text),
            **({"tool_calls": [_call_json(call) for call in calls]} if calls else {}),
        }
        choice: Shape = {"index": 0, "message": message, "finish_reason": _finish(over), "logprobs": None}
        return {**self._head("chat.completion"), "choices": [choice], **_extras(over)}

    async def frames(self, answering: Answering, wants_usage: bool) -> AsyncIterator[bytes]:
        """The answer to a request with `stream`, as server-sent events."""
        text: list[str] = []
        while True:
            try:
                events = await answering.events.take(HEARTBEAT_SECONDS)
            except StopAsyncIteration:
                return
            found = b": still at work\n\n" if not events else b""
            for event in events:
                if isinstance(event, Began):
                    found += self._chunk({"role": "assistant", "content": ""})
                elif isinstance(event, Said):
                    text.append(event.text)
                    found += self._chunk({"content": event.text})
                elif isinstance(event, Broke):
                    found += _data(event.fault.to_json())
                elif isinstance(event, Over):
                    found += b"".join(await self._last(event, "".join(text), wants_usage))
            if found:
                yield found

    async def _last(self, over: Over, text: str, wants_usage: bool) -> list[bytes]:
        found = []
        calls = await self._calls(over)
        if calls:
            pieces: list[JSON] = [{"index": at, **_call_json(call)} for at, call in enumerate(calls)]
            found.append(self._chunk({"tool_calls": pieces}))
        annotations = self._annotations(over, text)
        delta: Shape = {"annotations": annotations} if annotations else {}
        choice: Shape = {"index": 0, "delta": delta, "finish_reason": _finish(over), "logprobs": None}
        head = self._head("chat.completion.chunk")
        if wants_usage:
            found.append(_data({**head, "choices": [choice]}))
            found.append(_data({**head, "choices": [], **_extras(over)}))
        else:
            found.append(_data({**head, "choices": [choice], **_extras(over)}))
        return [*found, b"data: [DONE]\n\n"]

    async def _calls(self, over: Over) -> list[ToolCall]:
        """The calls of the caller's tools that the run waits for, under ids that lead back to it."""
        suspended = over.result.suspended
        if suspended is None:
            return []
        run = await self._served.traces.suspend(keep(suspended, over.answer.evidence))
        return ids_of(run, [one.call for one in suspended.pending])

    def _chunk(self, delta: Shape) -> bytes:
        choice: Shape = {"index": 0, "delta": delta, "finish_reason": None, "logprobs": None}
        return _data({**self._head("chat.completion.chunk"), "choices": [choice]})

    def _head(self, kind: str) -> Shape:
        return {"id": self._id, "object": kind, "created": self._created, "model": self._model}

    def _annotations(self, over: Over, text: str) -> list[JSON]:
        """Where in the text citations stand, and where they lead: to a page on the web, or to our own document."""
        cited = {one["n"]: one for one in cast("list[dict[str, JSON]]", over.message["citations"])}
        found: list[JSON] = []
        for match in _MARK.finditer(text):
            for number in match[1].split(","):
                one = cited.get(int(number))
                if one is not None:
                    place: Shape = {"start_index": match.start(), "end_index": match.end()}
                    told: Shape = {"url": self._url(one), "title": str(one["source"]), **place}
                    found.append({"type": "url_citation", "url_citation": told})
        return found

    def _url(self, citation: Mapping[str, JSON]) -> str:
        source = str(citation["source"])
        if source.startswith(("http://", "https://")):
            return source
        lines = f"start_line={citation['start_line']}&end_line={citation['end_line']}"
        return f"{self._base_url}/documents/{citation['document_id']}?{lines}"


def _extras(over: Over) -> Shape:
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
        "trace_id": over.trace,
        "session_id": over.session["id"] if over.session else None,
    }


def _finish(over: Over) -> str:
    return _FINISH.get(over.result.stop_reason, "stop")


def _call_json(call: ToolCall) -> Shape:
    arguments = call.malformed or to_json(dict(call.arguments))
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _model(name: str) -> Shape:
    return {"id": name, "object": "model", "created": _STARTED, "owned_by": "ragkit"}


def _data(value: Mapping[str, JSON]) -> bytes:
    return f"data: {json.dumps(value, ensure_ascii=False, default=dict)}\n\n".encode()
