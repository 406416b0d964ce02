"""Embeddings by OpenAI, and by every server that speaks as OpenAI does. Adapts the package `openai`."""

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
    """OpenAI's embeddings. The key is OPENAI_API_KEY, the address may be OPENAI_BASE_URL."""

    service = "openai"
    model_dimensions: ClassVar[Mapping[str, int]] = {
        "text-embedding-3-small": 1536,
        "text-embedding-3-large": 3072,
        "text-embedding-ada-002": 1536,
    }

    def __init__(self, options: OpenAIEmbeddingOptions | None = None, *, api_key: str | None = None) -> None:
        """`api_key` goes before the one in the environment. A server of your own (`base_url`) may need none."""
        self._options = options or OpenAIEmbeddingOptions()
        super().__init__(self._options)
        self._api_key = api_key

    def request(self, texts: Sequence[str], kind: TextKind) -> EmbeddingResponse:
        """One request to `/embeddings`. Raises ProviderError."""
        width = self._options.dimensions
        try:
            answer = self._client.embeddings.create(
                model=self.model, input=list(texts), dimensions=width if width else openai.omit
            )
        except openai.APITimeoutError as error:
            raise RequestTimeout(self.service, f"no answer in {self._options.timeout_s:g} s") from error
        except openai.APIStatusError as error:
            raise error_from_status(self.service, error.status_code, error.message, error.response.headers) from error
        except (openai.APIError, httpx2.HTTPError, ValueError) as error:
            raise ConnectionFailed(self.service, f"{self._client.base_url} gave no whole answer ({error})") from error
        ordered = sorted(answer.data, key=lambda one: one.index)
        return EmbeddingResponse(
            [one.embedding for one in ordered], answer.usage.total_tokens if answer.usage else None
        )

    @cached_property
    def _client(self) -> openai.OpenAI:
        elsewhere = self._options.base_url or os.environ.get("OPENAI_BASE_URL", "")
        key = resolve_api_key(self.service, self._api_key, "OPENAI_API_KEY", optional=bool(elsewhere))
        client = openai.OpenAI(api_key=key, base_url=elsewhere or None, timeout=self._options.timeout_s, max_retries=0)
        self.close_on_finalize(client.close)
        return client
