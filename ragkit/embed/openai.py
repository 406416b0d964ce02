"""Embeddings by OpenAI and OpenAI-compatible servers. Adapts the package `openai`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import ClassVar

import httpx2
import openai

from ragkit.embed.service_embedder import EmbeddingResponse, ServiceEmbedder, TextKind
from ragkit.embed.service_options import OpenAIEmbeddingOptions
from ragkit.embed.service_requests import error_from_status, resolve_api_key
from ragkit.errors import ConnectionFailed, RequestTimeout


class OpenAIEmbeddingProvider(ServiceEmbedder):
    """OpenAI embeddings. The API key is OPENAI_API_KEY; OPENAI_BASE_URL may hold the URL."""

    service = "openai"
    options_class = OpenAIEmbeddingOptions
    model_dimensions: ClassVar[Mapping[str, int]] = {
        "text-embedding-3-small": 1536,
        "text-embedding-3-large": 3072,
        "text-embedding-ada-002": 1536,
    }

    def request(self, texts: Sequence[str], kind: TextKind) -> EmbeddingResponse:
        """One request to `/embeddings`. Raises ProviderError."""
        width = self._options.dimensions or openai.omit
        try:
            answer = self._client.embeddings.create(model=self.model, input=list(texts), dimensions=width)
        except openai.APITimeoutError as error:
            raise RequestTimeout(self.service, f"no response within {self._options.timeout_s:g} s") from error
        except openai.APIStatusError as error:
            raise error_from_status(self.service, error.status_code, error.message, error.response.headers) from error
        except (openai.APIError, httpx2.HTTPError, ValueError) as error:
            reason = f"incomplete response from {self._client.base_url} ({error})"
            raise ConnectionFailed(self.service, reason) from error
        rows = [item.embedding for item in sorted(answer.data, key=lambda item: item.index)]
        return EmbeddingResponse(rows, answer.usage.total_tokens if answer.usage else None)

    @cached_property
    def _client(self) -> openai.OpenAI:
        base_url = self._options.base_url or os.environ.get("OPENAI_BASE_URL", "")
        key = resolve_api_key(self.service, self._api_key, "OPENAI_API_KEY", optional=bool(base_url))
        client = openai.OpenAI(api_key=key, base_url=base_url or None, timeout=self._options.timeout_s, max_retries=0)
        self.close_on_finalize(client.close)
        return client
