"""Embeddings by Voyage, recommended by Anthropic. Adapts the package `voyageai`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import ClassVar

import requests
import voyageai
from voyageai import error as errors
from voyageai.client import Client

from ragkit.embed.service_embedder import EmbeddingResponse, ServiceEmbedder, TextKind
from ragkit.embed.service_options import VoyageEmbeddingOptions
from ragkit.embed.service_requests import error_from_status, resolve_api_key
from ragkit.errors import ConnectionFailed, RequestTimeout

MAX_CONNECTIONS = 32
"""Maximum number of open connections."""


class VoyageEmbeddingProvider(ServiceEmbedder):
    """Voyage embeddings: texts as `document`, questions as `query`. The API key is VOYAGE_API_KEY."""

    service = "voyage"
    options_class = VoyageEmbeddingOptions
    input_types = ("document", "query")
    model_dimensions: ClassVar[Mapping[str, int]] = {
        "voyage-4-large": 1024,
        "voyage-4": 1024,
        "voyage-4-lite": 1024,
        "voyage-3-large": 1024,
        "voyage-3.5": 1024,
        "voyage-3.5-lite": 1024,
        "voyage-code-3": 1024,
        "voyage-finance-2": 1024,
        "voyage-law-2": 1024,
    }

    def request(self, texts: Sequence[str], kind: TextKind) -> EmbeddingResponse:
        """One request to `/embeddings`. Raises ProviderError."""
        try:
            answer = self._client.embed(
                list(texts), model=self.model, input_type=kind, output_dimension=self._options.dimensions or None
            )
        except errors.Timeout as error:
            raise RequestTimeout(self.service, f"no response within {self._options.timeout_s:g} s") from error
        except errors.VoyageError as error:
            status = error.http_status or 0
            if status < 400:
                raise ConnectionFailed(self.service, f"incomplete response ({error})") from error
            raise error_from_status(self.service, status, str(error), error.headers) from error
        return EmbeddingResponse(answer.embeddings, answer.total_tokens)

    @cached_property
    def _client(self) -> Client:
        return Client(
            api_key=resolve_api_key(self.service, self._api_key, "VOYAGE_API_KEY"),
            max_retries=0,
            timeout=self._options.timeout_s,
            base_url=self._options.base_url or os.environ.get("VOYAGE_BASE_URL") or None,
        )


def _create_session() -> requests.Session:
    session = requests.Session()
    session.mount("https://", requests.adapters.HTTPAdapter(pool_maxsize=MAX_CONNECTIONS))
    session.mount("http://", requests.adapters.HTTPAdapter(pool_maxsize=MAX_CONNECTIONS))
    return session


# By default the package opens connections per thread, and leaves them open when the thread ends. With this session it
# shares connections between threads.
voyageai.requestssession = voyageai.requestssession or _create_session()

AnthropicEmbeddingProvider = VoyageEmbeddingProvider
"""Anthropic has no embedding service."""
