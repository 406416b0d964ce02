"""A paid embedder and chat provider that send requests to the server of RAGKIT_TEST_WIRE."""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Sequence
from typing import Any

import numpy as np

from ragkit.agent.messages import Message, Role, ToolCall
from ragkit.agent.providers.base import Completion, ModelRequest, Provider
from ragkit.embed.base import Row, Rows, normalize_rows
from ragkit.usage.meter import record_embedding
from ragkit.usage.tokens import Tokens
from tests.cost.wire import DIMENSION

BATCH = 8
"""Texts that are embedded by one request."""


def ask(path: str, body: dict[str, Any]) -> dict[str, Any]:
    """POST some JSON; returns the JSON of the answer."""
    request = urllib.request.Request(
        f"{os.environ['RAGKIT_TEST_WIRE']}/{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=20) as answer:
        response: dict[str, Any] = json.load(answer)
    return response


class PaidEmbedder:
    """OpenAI's text-embedding-3-small, as far as its price is concerned."""

    provider = "openai"
    model = "text-embedding-3-small"
    dimension = DIMENSION
    fingerprint = "paid-1"

    def embed_texts(self, texts: Sequence[str]) -> Rows:
        """(len(texts), 16)."""
        rows: list[list[float]] = []
        for first in range(0, len(texts), BATCH):
            response = ask("embeddings", {"model": self.model, "input": list(texts[first : first + BATCH])})
            record_embedding(self.model, response["usage"]["total_tokens"], None, provider=self.provider)
            rows += [item["embedding"] for item in response["data"]]
        return normalize_rows(np.array(rows, np.float32).reshape(-1, DIMENSION))

    def embed_query(self, text: str) -> Row:
        """(16,)."""
        return np.asarray(self.embed_texts([text])[0], np.float32)


class CarelessEmbedder(PaidEmbedder):
    """An embedder that sends all texts in one request."""

    model = "text-embedding-3-large"
    fingerprint = "careless-1"

    def embed_texts(self, texts: Sequence[str]) -> Rows:
        """(len(texts), 16), by one request."""
        if not len(texts):
            return np.empty((0, DIMENSION), np.float32)
        response = ask("embeddings", {"model": self.model, "input": list(texts)})
        record_embedding(self.model, response["usage"]["total_tokens"], None, provider=self.provider)
        return normalize_rows(np.array([item["embedding"] for item in response["data"]], np.float32))


class NamelessEmbedder(PaidEmbedder):
    """An embedder with an unknown price."""

    model = "unknown-model"
    fingerprint = "nameless-1"


class PaidProvider(Provider):
    """OpenAI's gpt-4o-mini, as far as its price is concerned."""

    name = "openai"
    default_model = "gpt-4o-mini"
    remote = True

    def complete(self, request: ModelRequest) -> Completion:
        """One request to the server."""
        body = {
            "model": request.model,
            "messages": [{"role": message.role.value, "content": message.content} for message in request.messages],
            "tools": [{"type": "function", "function": _function(tool.to_schema())} for tool in request.tools],
        }
        response = ask("chat/completions", body)
        message = response["choices"][0]["message"]
        calls = [
            ToolCall(call["function"]["name"], json.loads(call["function"]["arguments"]), call["id"])
            for call in message.get("tool_calls") or []
        ]
        usage = Tokens(response["usage"]["prompt_tokens"], response["usage"]["completion_tokens"])
        return Completion(Message(Role.ASSISTANT, message["content"] or "", tuple(calls)), usage)


def _function(schema: Any) -> Any:
    return schema.get("function", schema)
