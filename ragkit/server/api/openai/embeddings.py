"""Routes of the OpenAI-compatible API that need no answer: embeddings, and reranking as Cohere and Jina have it."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from numpy.typing import NDArray

from ragkit.embed.base import Rows, normalize_rows
from ragkit.records import JSON, Chunk, Hit
from ragkit.server.answering.streams import run_while_connected
from ragkit.server.api.dependencies import DEFAULT_MODEL, AppContext, ContextDep, JsonObject
from ragkit.server.api.openai import schemas
from ragkit.server.api.openai.token_ids import UnknownTokens, decode_tokens
from ragkit.server.concurrency import run_in_thread
from ragkit.server.http_errors import ErrorResponse, RequestRejected, invalid_request
from ragkit.server.state.database import new_id
from ragkit.usage.meter import use_meter

router = APIRouter(prefix="/v1")
MAX_EMBEDDING_INPUTS = 2048
"""Maximum texts per embeddings request."""
MAX_RERANK_DOCUMENTS = 1000
_SHORTENED_MODELS = (
    "openai:text-embedding-3", "gemini:gemini-embedding", "cohere:embed-v4", "voyage:voyage-3.5", "voyage:voyage-4",
    "voyage:voyage-code-3", "voyage:voyage-3-large",
)  # fmt: skip
"""Beginnings of the names of models whose vectors may be shortened (Matryoshka representation learning)."""


@router.post("/embeddings", response_model=schemas.EmbeddingListSchema)
async def create_embeddings(request: Request, context: ContextDep, body: schemas.EmbeddingBody) -> Any:
    """Embed texts with the embedder of the knowledge base."""
    context, model = context.select(body.model)
    name = context.embedder_name
    if model not in (None, DEFAULT_MODEL, name):
        message = f"unknown embedder {body.model!r}; available: {DEFAULT_MODEL}, {name}"
        raise RequestRejected(ErrorResponse(404, message, "model_not_found", param="model"))
    texts = [body.input] if isinstance(body.input, str) else body.input
    if not texts or len(texts) > MAX_EMBEDDING_INPUTS:
        message = f"input must have 1 to {MAX_EMBEDDING_INPUTS} texts (got {len(texts)})"
        raise invalid_request(message, "input", "invalid_length")
    if not all(texts if isinstance(texts[0], str | list) else (texts,)):
        raise invalid_request("input must not contain empty texts", "input", "empty")
    return await _compute(request, context, lambda: _embed_texts(context, _read_texts(texts), body))


@router.post("/rerank", response_model=schemas.RerankSchema)
async def rerank_documents(request: Request, context: ContextDep, body: schemas.RerankBody) -> Any:
    """Sort texts by their relevance for a question, with the reranker of the knowledge base, else by cosine."""
    if body.model is not None and body.model.startswith(f"{DEFAULT_MODEL}/"):
        context, _ = context.select(body.model)
    context.check_question(body.query, "query")
    texts = [document if isinstance(document, str) else document.text for document in body.documents]
    if not 1 <= len(texts) <= MAX_RERANK_DOCUMENTS:
        message = f"documents must have 1 to {MAX_RERANK_DOCUMENTS} texts (got {len(texts)})"
        raise invalid_request(message, "documents", "invalid_length")
    return await _compute(request, context, lambda: _rerank_texts(context, texts, body))


async def _compute(request: Request, context: AppContext, work: Callable[[], JsonObject]) -> JSONResponse:
    principal = await run_while_connected(request, context.embedding_limiter.acquire())
    try:
        return JSONResponse(await run_in_thread(work))
    finally:
        context.embedding_limiter.release(principal)


def _read_texts(inputs: Sequence[str] | Sequence[int] | Sequence[list[int]]) -> Sequence[str]:
    """The texts of an input that may be token ids, of one text or of several. Raises RequestRejected."""
    if isinstance(inputs[0], str):
        return cast("Sequence[str]", inputs)
    rows = cast("Sequence[Sequence[int]]", [inputs] if isinstance(inputs[0], int) else inputs)
    try:
        return decode_tokens(rows)
    except UnknownTokens as error:
        raise invalid_request(str(error), "input") from error


def _embed_texts(context: AppContext, texts: Sequence[str], body: schemas.EmbeddingBody) -> JsonObject:
    name = context.embedder_name
    with use_meter(context.create_meter("embed")) as meter:
        rows = _shorten(context.kb.components.embedder.embed_texts(texts), body.dimensions, name)
    usage = meter.usage().to_dict()
    context.metrics.count_usage(usage, name, context.name)
    encoded: list[JSON] = [
        base64.b64encode(row.tobytes()).decode() if body.encoding_format == "base64" else row.tolist() for row in rows
    ]
    data: list[JSON] = [{"object": "embedding", "index": at, "embedding": vector} for at, vector in enumerate(encoded)]
    return {"object": "list", "model": name, "data": data, "usage": _token_usage(usage)}


def _shorten(rows: Rows, dimensions: int | None, name: str) -> Rows:
    """Vectors of a given dimension, again of length 1. Raises RequestRejected if the model is not trained for it."""
    if dimensions is not None and dimensions != rows.shape[1]:
        if not name.startswith(_SHORTENED_MODELS):
            message = f"dimensions must be {rows.shape[1]} (got {dimensions}): vectors of {name} cannot be shortened"
            raise invalid_request(message, "dimensions")
        if dimensions > rows.shape[1]:
            raise invalid_request(f"dimensions must be at most {rows.shape[1]} (got {dimensions})", "dimensions")
        rows = normalize_rows(rows[:, :dimensions])
    return np.ascontiguousarray(rows, "<f4")


def _score_texts(context: AppContext, question: str, texts: Sequence[str]) -> tuple[str, NDArray[np.float64]]:
    """The relevance of texts for a question, higher is better: (len(texts),); and what has measured it.

    By the reranker of the pipeline; without one, cosines of the embedder, in [-1, 1].
    """
    components = context.kb.components
    if components.reranker is None:
        cosines = components.embedder.embed_texts(texts) @ components.embedder.embed_query(question)
        return context.embedder_name, cosines.astype("f8")
    name, reranker = components.reranker
    chunks = [Chunk(str(n), "", "", text, 0, len(text), 1, 1) for n, text in enumerate(texts)]
    return name, reranker.scores(question, [Hit(chunk, 0.0) for chunk in chunks])


def _rerank_texts(context: AppContext, texts: Sequence[str], body: schemas.RerankBody) -> JsonObject:
    with use_meter(context.create_meter("rerank")) as meter:
        name, scores = _score_texts(context, body.query, texts)
    usage = meter.usage().to_dict()
    context.metrics.count_usage(usage, name, context.name)
    order = np.argsort(-scores, kind="stable")[: body.top_n]
    results: list[JSON] = [
        {
            "index": int(index),
            "relevance_score": float(scores[index]),
            **({"document": {"text": texts[index]}} if body.return_documents else {}),
        }
        for index in order
    ]
    return {"id": new_id("rerank"), "model": name, "results": results, "usage": _token_usage(usage)}


def _token_usage(usage: dict[str, JSON]) -> JsonObject:
    tokens = usage["embedding_tokens"]
    return {"prompt_tokens": tokens, "total_tokens": tokens, "ragkit": usage}
