"""How each service is asked for embeddings, and how it answers: written against what its official SDK sends.

A dialect checks every field of a request; what is not as it must be is an AssertionError, which the server keeps.
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
"""Columns of the models that are asked for by default. Any other has 48."""


@dataclass(frozen=True)
class Asked:
    """One request, as a service understands it."""

    texts: list[str]
    kind: str
    """`document`, `query`, or '' where the service is not told."""
    model: str
    dimensions: int | None
    encoding: str = "float"


class Dialect(Protocol):
    """One service's form of requests and answers."""

    @property
    def environment(self) -> Mapping[str, str]:
        """What points the SDK at the server: `{url}` stands for its address."""

    def read(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> Asked:
        """What is asked. Raises AssertionError."""

    def answer(self, asked: Asked, rows: NDArray[np.float32], tokens: int) -> dict[str, Any]:
        """The whole answer."""

    def failure(self, status: int, message: str) -> dict[str, Any]:
        """The body of a refusal."""


def _encoded(row: NDArray[np.float32], encoding: str) -> str | list[float]:
    return base64.b64encode(row.astype("<f4").tobytes()).decode() if encoding == "base64" else row.tolist()


def _only(body: Mapping[str, Any], *known: str) -> None:
    assert set(body) <= set(known), f"unexpected fields: {sorted(set(body) - set(known))}"


class OpenAI:
    @property
    def environment(self) -> Mapping[str, str]:
        return {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "{url}/v1"}

    def read(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> Asked:
        assert path == "/v1/embeddings"
        assert headers["authorization"] == f"Bearer {KEY}"
        _only(body, "model", "input", "encoding_format", "dimensions")
        assert body["encoding_format"] == "base64"
        assert 1 <= len(body["input"]) <= 2048
        assert all(isinstance(text, str) and text.strip() for text in body["input"]), "blank input"
        return Asked(body["input"], "", body["model"], body.get("dimensions"), body["encoding_format"])

    def answer(self, asked: Asked, rows: NDArray[np.float32], tokens: int) -> dict[str, Any]:
        data = [
            {"object": "embedding", "index": place, "embedding": _encoded(row, asked.encoding)}
            for place, row in enumerate(rows)
        ]
        # out of order, as the index is what counts
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return {"object": "list", "data": data[::-1], "model": asked.model, "usage": usage}

    def failure(self, status: int, message: str) -> dict[str, Any]:
        return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}}


class Cohere:
    @property
    def environment(self) -> Mapping[str, str]:
        return {"COHERE_API_KEY": KEY, "CO_API_URL": "{url}"}

    def read(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> Asked:
        assert path == "/v2/embed"
        assert headers["authorization"] == f"Bearer {KEY}"
        _only(body, "model", "texts", "input_type", "embedding_types", "output_dimension")
        assert body["embedding_types"] == ["float"]
        assert body["input_type"] in {"search_document", "search_query"}
        assert 1 <= len(body["texts"]) <= 96
        kind = body["input_type"].removeprefix("search_")
        return Asked(body["texts"], kind, body["model"], body.get("output_dimension"))

    def answer(self, asked: Asked, rows: NDArray[np.float32], tokens: int) -> dict[str, Any]:
        return {
            "id": "1",
            "response_type": "embeddings_by_type",
            "embeddings": {"float": rows.tolist()},
            "texts": asked.texts,
            "meta": {"api_version": {"version": "2"}, "billed_units": {"input_tokens": tokens}},
        }

    def failure(self, status: int, message: str) -> dict[str, Any]:
        return {"id": "1", "message": message}


class Gemini:
    @property
    def environment(self) -> Mapping[str, str]:
        return {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": "{url}"}

    def read(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> Asked:
        assert headers["x-goog-api-key"] == KEY
        _only(body, "requests")
        requests = body["requests"]
        assert 1 <= len(requests) <= 100
        [model] = {one["model"].removeprefix("models/") for one in requests}
        assert path == f"/v1/models/{model}:batchEmbedContents"
        for one in requests:
            _only(one, "model", "content", "taskType", "outputDimensionality")
            assert list(one["content"]) == ["parts"]
        [task] = {one["taskType"] for one in requests}
        assert task in {"RETRIEVAL_DOCUMENT", "RETRIEVAL_QUERY"}
        [width] = {one.get("outputDimensionality") for one in requests}
        texts = ["".join(part["text"] for part in one["content"]["parts"]) for one in requests]
        return Asked(texts, task.removeprefix("RETRIEVAL_").lower(), model, width)

    def answer(self, asked: Asked, rows: NDArray[np.float32], tokens: int) -> dict[str, Any]:
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

    def read(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> Asked:
        assert path == "/v1/embeddings"
        assert headers["authorization"] == f"Bearer {KEY}"
        _only(body, "model", "input", "input_type", "truncation", "output_dtype", "output_dimension", "encoding_format")
        assert body["truncation"] is True
        assert body["output_dtype"] is None
        assert body["input_type"] in {"document", "query"}
        assert 1 <= len(body["input"]) <= 1000
        encoding = body["encoding_format"]
        return Asked(body["input"], body["input_type"], body["model"], body["output_dimension"], encoding)

    def answer(self, asked: Asked, rows: NDArray[np.float32], tokens: int) -> dict[str, Any]:
        data = [
            {"object": "embedding", "index": place, "embedding": _encoded(row, asked.encoding)}
            for place, row in enumerate(rows)
        ]
        return {"object": "list", "data": data, "model": asked.model, "usage": {"total_tokens": tokens}}

    def failure(self, status: int, message: str) -> dict[str, Any]:
        return {"detail": message}


class Ollama:
    @property
    def environment(self) -> Mapping[str, str]:
        return {"OLLAMA_HOST": "{url}"}

    def read(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> Asked:
        assert path == "/api/embed"
        _only(body, "model", "input", "truncate", "dimensions")
        assert body["truncate"] is True
        assert all(isinstance(text, str) for text in body["input"])
        return Asked(body["input"], "", body["model"], body.get("dimensions"))

    def answer(self, asked: Asked, rows: NDArray[np.float32], tokens: int) -> dict[str, Any]:
        return {"model": asked.model, "embeddings": rows.tolist(), "total_duration": 1, "prompt_eval_count": tokens}

    def failure(self, status: int, message: str) -> dict[str, Any]:
        return {"error": message}


DIALECTS: dict[str, Dialect] = {
    "cohere": Cohere(),
    "gemini": Gemini(),
    "ollama": Ollama(),
    "openai": OpenAI(),
    "voyage": Voyage(),
}
"""Embedder -> how its service speaks."""
TOLD_THE_KIND = frozenset({"cohere", "gemini", "voyage"})
"""Services that are told whether a text is a question."""


def tokens_of(texts: Sequence[str]) -> int:
    """Tokens as the servers here count them: words, and one more for each text."""
    return sum(len(text.split()) + 1 for text in texts)
