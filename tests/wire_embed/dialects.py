"""The wire formats of the embedding services, as used by their official SDKs.

A dialect checks every field of a request; an invalid one raises AssertionError, which the server records.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

KEY = "sk-wire"
WIDTHS = {"text-embedding-3-small": 1536, "embed-v4.0": 1536, "gemini-embedding-001": 3072, "voyage-3.5": 1024}
"""Dimensions of the default models. Other models have 48."""


@dataclass(frozen=True)
class EmbeddingRequest:
    """A parsed request."""

    texts: list[str]
    kind: str
    """`document`, `query`, or '' if the service does not distinguish them."""
    model: str
    dimensions: int | None
    encoding: str = "float"


class Dialect(Protocol):
    """The wire format of a service."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Environment variables for the SDK: `{url}` is replaced by the URL of the server."""

    def read(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> EmbeddingRequest:
        """Parse a request. Raises AssertionError."""

    def answer(self, request: EmbeddingRequest, rows: NDArray[np.float32], tokens: int) -> dict[str, Any]:
        """The response body."""

    def failure(self, status: int, message: str) -> dict[str, Any]:
        """The body of an error response."""


def _encoded(row: NDArray[np.float32], encoding: str) -> str | list[float]:
    return base64.b64encode(row.astype("<f4").tobytes()).decode() if encoding == "base64" else row.tolist()


def _only(body: Mapping[str, Any], *known: str) -> None:
    assert set(body) <= set(known), f"unexpected fields: {sorted(set(body) - set(known))}"


class OpenAI:
    @property
    def environment(self) -> Mapping[str, str]:
        return {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "{url}/v1"}

    def read(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> EmbeddingRequest:
        assert path == "/v1/embeddings"
        assert headers["authorization"] == f"Bearer {KEY}"
        _only(body, "model", "input", "encoding_format", "dimensions")
        assert body["encoding_format"] == "base64"
        assert 1 <= len(body["input"]) <= 2048
        assert all(isinstance(text, str) and text.strip() for text in body["input"]), "blank input"
        return EmbeddingRequest(body["input"], "", body["model"], body.get("dimensions"), body["encoding_format"])

    def answer(self, request: EmbeddingRequest, rows: NDArray[np.float32], tokens: int) -> dict[str, Any]:
        data = [
            {"object": "embedding", "index": place, "embedding": _encoded(row, request.encoding)}
            for place, row in enumerate(rows)
        ]
        # out of order: clients must use the index
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return {"object": "list", "data": data[::-1], "model": request.model, "usage": usage}

    def failure(self, status: int, message: str) -> dict[str, Any]:
        return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}}


class Cohere:
    @property
    def environment(self) -> Mapping[str, str]:
        return {"COHERE_API_KEY": KEY, "CO_API_URL": "{url}"}

    def read(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> EmbeddingRequest:
        assert path == "/v2/embed"
        assert headers["authorization"] == f"Bearer {KEY}"
        _only(body, "model", "texts", "input_type", "embedding_types", "output_dimension")
        assert body["embedding_types"] == ["float"]
        assert body["input_type"] in {"search_document", "search_query"}
        assert 1 <= len(body["texts"]) <= 96
        kind = body["input_type"].removeprefix("search_")
        return EmbeddingRequest(body["texts"], kind, body["model"], body.get("output_dimension"))

    def answer(self, request: EmbeddingRequest, rows: NDArray[np.float32], tokens: int) -> dict[str, Any]:
        return {
            "id": "1",
            "response_type": "embeddings_by_type",
            "embeddings": {"float": rows.tolist()},
            "texts": request.texts,
            "meta": {"api_version": {"version": "2"}, "billed_units": {"input_tokens": tokens}},
        }

    def failure(self, status: int, message: str) -> dict[str, Any]:
        return {"id": "1", "message": message}


class Gemini:
    @property
    def environment(self) -> Mapping[str, str]:
        return {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": "{url}"}

    def read(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> EmbeddingRequest:
        assert headers["x-goog-api-key"] == KEY
        _only(body, "requests")
        requests = body["requests"]
        assert 1 <= len(requests) <= 100
        [model] = {item["model"].removeprefix("models/") for item in requests}
        assert path == f"/v1/models/{model}:batchEmbedContents"
        for item in requests:
            _only(item, "model", "content", "taskType", "outputDimensionality")
            assert list(item["content"]) == ["parts"]
        [task] = {item["taskType"] for item in requests}
        assert task in {"RETRIEVAL_DOCUMENT", "RETRIEVAL_QUERY"}
        [width] = {item.get("outputDimensionality") for item in requests}
        texts = ["".join(part["text"] for part in item["content"]["parts"]) for item in requests]
        return EmbeddingRequest(texts, task.removeprefix("RETRIEVAL_").lower(), model, width)

    def answer(self, request: EmbeddingRequest, rows: NDArray[np.float32], tokens: int) -> dict[str, Any]:
        return {
            "embeddings": [{"values": row.tolist()} for row in rows],
            "usageMetadata": {"promptTokenCount": tokens, "totalTokenCount": tokens},
        }

    def failure(self, status: int, message: str) -> dict[str, Any]:
        return {"error": {"code": status, "message": message, "status": "FAILED"}}


class Voyage:
    @property
    def environment(self) -> Mapping[str, str]:
        return {"VOYAGE_API_KEY": KEY, "VOYAGE_BASE_URL": "{url}/v1"}

    def read(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> EmbeddingRequest:
        assert path == "/v1/embeddings"
        assert headers["authorization"] == f"Bearer {KEY}"
        _only(body, "model", "input", "input_type", "truncation", "output_dtype", "output_dimension", "encoding_format")
        assert body["truncation"] is True
        assert body["output_dtype"] is None
        assert body["input_type"] in {"document", "query"}
        assert 1 <= len(body["input"]) <= 1000
        encoding = body["encoding_format"]
        return EmbeddingRequest(body["input"], body["input_type"], body["model"], body["output_dimension"], encoding)

    def answer(self, request: EmbeddingRequest, rows: NDArray[np.float32], tokens: int) -> dict[str, Any]:
        data = [
            {"object": "embedding", "index": place, "embedding": _encoded(row, request.encoding)}
            for place, row in enumerate(rows)
        ]
        return {"object": "list", "data": data, "model": request.model, "usage": {"total_tokens": tokens}}

    def failure(self, status: int, message: str) -> dict[str, Any]:
        return {"detail": message}


class Ollama:
    @property
    def environment(self) -> Mapping[str, str]:
        return {"OLLAMA_HOST": "{url}"}

    def read(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> EmbeddingRequest:
        assert path == "/api/embed"
        _only(body, "model", "input", "truncate", "dimensions")
        assert body["truncate"] is True
        assert all(isinstance(text, str) for text in body["input"])
        return EmbeddingRequest(body["input"], "", body["model"], body.get("dimensions"))

    def answer(self, request: EmbeddingRequest, rows: NDArray[np.float32], tokens: int) -> dict[str, Any]:
        return {"model": request.model, "embeddings": rows.tolist(), "total_duration": 1, "prompt_eval_count": tokens}

    def failure(self, status: int, message: str) -> dict[str, Any]:
        return {"error": message}


DIALECTS: dict[str, Dialect] = {
    "cohere": Cohere(),
    "gemini": Gemini(),
    "ollama": Ollama(),
    "openai": OpenAI(),
    "voyage": Voyage(),
}
"""Embedder -> wire format of its service."""
SENDS_KIND = frozenset({"cohere", "gemini", "voyage"})
"""Services that distinguish questions from documents."""


def tokens_of(texts: Sequence[str]) -> int:
    """Tokens as the test servers count them: words, plus one per text."""
    return sum(len(text.split()) + 1 for text in texts)
