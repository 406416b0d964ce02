"""Reranking by Jina AI, over its HTTP API: it has no client package."""

from __future__ import annotations

import http.client
import json
import os
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any

import numpy as np

from ragkit.embed.base import EmbeddingProvider
from ragkit.embed.service_options import ServiceOptions
from ragkit.embed.service_requests import RequestExecutor, error_from_status, resolve_api_key
from ragkit.errors import ConnectionFailed, RequestTimeout
from ragkit.records import Hit
from ragkit.retrieve.base import RerankScores
from ragkit.retrieve.options import RerankOptions
from ragkit.usage.meter import record_rerank
from ragkit.usage.tokens import estimate_tokens

SERVICE = "jina"
DEFAULT_MODEL = "jina-reranker-v3"
BASE_URL = "https://api.jina.ai"


class JinaReranker:
    """Scores hits with a Jina model: one request per question.

    The API key is JINA_API_KEY; JINA_BASE_URL names another server with this API.
    """

    weight, diversity = 1.0, 0.0

    def __init__(self, options: RerankOptions, embedder: EmbeddingProvider) -> None:
        """Ignores the embedder."""
        self._model = options.model or DEFAULT_MODEL
        self._options = ServiceOptions()
        self._executor = RequestExecutor(SERVICE, self._options)

    def scores(self, question: str, hits: Sequence[Hit]) -> RerankScores:
        """The relevance of each hit, on the scale of the model: (len(hits),). Raises ProviderError."""
        texts = [f"{hit.chunk.header}\n{hit.chunk.text}".strip() or "." for hit in hits]
        body = {"model": self._model, "query": question, "documents": texts, "return_documents": False}
        expected = sum(map(estimate_tokens, texts))
        answer = self._executor.execute(lambda: self._post(body), expected)
        scores = np.full(len(texts), np.nan)
        try:
            for result in answer["results"]:
                scores[result["index"]] = result["relevance_score"]
            tokens = int(answer.get("usage", {}).get("total_tokens", expected))
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise ConnectionFailed(SERVICE, f"incomplete response ({error})") from error
        record_rerank(self._model, None, provider=SERVICE, tokens=tokens)
        if np.isnan(scores).any():
            raise ConnectionFailed(SERVICE, f"{self._model} returned no score for some of {len(texts)} documents")
        return scores

    def _post(self, body: dict[str, object]) -> dict[str, Any]:
        """The response to one request, as JSON."""
        key = resolve_api_key(SERVICE, None, "JINA_API_KEY")
        url = f"{(os.environ.get('JINA_BASE_URL') or BASE_URL).rstrip('/')}/v1/rerank"
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json", "Accept": "application/json"}
        request = urllib.request.Request(url, json.dumps(body).encode(), headers)  # noqa: S310 - the operator's URL
        try:
            with urllib.request.urlopen(request, timeout=self._options.timeout_s) as response:  # noqa: S310 - the same URL
                answer = json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                message = error.read(4096).decode("utf-8", "replace")
            raise error_from_status(SERVICE, error.code, message, dict(error.headers)) from error
        except TimeoutError as error:
            raise RequestTimeout(SERVICE, f"no response within {self._options.timeout_s:g} s") from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ConnectionFailed(SERVICE, f"incomplete response ({error})") from error
        if not isinstance(answer, dict):
            raise ConnectionFailed(SERVICE, f"incomplete response (a JSON {type(answer).__name__})")
        return answer
