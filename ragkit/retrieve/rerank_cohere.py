"""Reranking by Cohere. Shares its client with `ragkit.embed.cohere`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from weakref import finalize

import cohere
import httpx
import numpy as np

from ragkit.embed.base import EmbeddingProvider
from ragkit.embed.cohere import SERVICE, create_client, translate_errors
from ragkit.embed.service_options import ServiceOptions
from ragkit.embed.service_requests import RequestExecutor
from ragkit.errors import ConnectionFailed
from ragkit.records import Hit
from ragkit.retrieve.base import RerankScores
from ragkit.retrieve.options import RerankOptions
from ragkit.usage.meter import record_rerank
from ragkit.usage.tokens import estimate_tokens

DEFAULT_MODEL = "rerank-v3.5"


class CohereReranker:
    """Scores hits with a Cohere model, in [0, 1]: one request per question. The API key is COHERE_API_KEY."""

    weight, diversity = 1.0, 0.0

    def __init__(self, options: RerankOptions, embedder: EmbeddingProvider) -> None:
        """Ignores the embedder."""
        self._model = options.model or DEFAULT_MODEL
        self._options = ServiceOptions()
        self._executor = RequestExecutor(SERVICE, self._options)

    def scores(self, question: str, hits: Sequence[Hit]) -> RerankScores:
        """The relevance of each hit: (len(hits),). Raises ProviderError."""
        texts = [f"{hit.chunk.header}\n{hit.chunk.text}".strip() or "." for hit in hits]
        tokens = sum(map(estimate_tokens, texts))
        scores, searches = self._executor.execute(lambda: self._request_scores(question, texts), tokens)
        record_rerank(self._model, None, provider=SERVICE, searches=searches)
        return scores

    def _request_scores(self, question: str, texts: Sequence[str]) -> tuple[RerankScores, int]:
        """The scores, and the number of billed searches."""
        with translate_errors(self._options.timeout_s):
            answer = self._client.rerank(model=self._model, query=question, documents=texts)
        scores = np.full(len(texts), np.nan)
        for result in answer.results:
            scores[result.index] = result.relevance_score
        if np.isnan(scores).any():
            raise ConnectionFailed(SERVICE, f"{self._model} returned no score for some of {len(texts)} documents")
        billed = answer.meta.billed_units if answer.meta else None
        return scores, int(billed.search_units or 1) if billed else 1

    @cached_property
    def _client(self) -> cohere.ClientV2:
        http = httpx.Client(timeout=self._options.timeout_s, follow_redirects=True)
        finalize(self, http.close)
        return create_client(None, "", http)
