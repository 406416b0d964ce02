"""Embeddings by Cohere, API version 2; also the client of the Cohere reranker. Adapts the package `cohere`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import ClassVar

import cohere
import httpx
from cohere.core.api_error import ApiError
from cohere.v2.client import OMIT

from ragkit.embed.service_embedder import EmbeddingResponse, ServiceEmbedder, TextKind
from ragkit.embed.service_options import CohereEmbeddingOptions
from ragkit.embed.service_requests import error_from_status, resolve_api_key
from ragkit.errors import ConnectionFailed, RequestTimeout

SERVICE = "cohere"


class CohereEmbeddingProvider(ServiceEmbedder):
    """Cohere embeddings: texts as `search_document`, questions as `search_query`. The API key is COHERE_API_KEY."""

    service = SERVICE
    options_class = CohereEmbeddingOptions
    input_types = ("search_document", "search_query")
    model_dimensions: ClassVar[Mapping[str, int]] = {
        "embed-v4.0": 1536,
        "embed-english-v3.0": 1024,
        "embed-multilingual-v3.0": 1024,
        "embed-english-light-v3.0": 384,
        "embed-multilingual-light-v3.0": 384,
    }

    def request(self, texts: Sequence[str], kind: TextKind) -> EmbeddingResponse:
        """One request to `/v2/embed`. Raises ProviderError."""
        with translate_errors(self._options.timeout_s):
            answer = self._client.embed(
                model=self.model,
                texts=list(texts),
                input_type=f"search_{kind}",
                embedding_types=["float"],
                output_dimension=self._options.dimensions or OMIT,
            )
        billed = answer.meta.billed_units if answer.meta else None
        tokens = billed.input_tokens if billed else None
        return EmbeddingResponse(answer.embeddings.float_ or [], None if tokens is None else int(tokens))

    @cached_property
    def _client(self) -> cohere.ClientV2:
        http = httpx.Client(timeout=self._options.timeout_s, follow_redirects=True)
        self.close_on_finalize(http.close)
        return create_client(self._api_key, self._options.base_url, http)


def create_client(key: str | None, base_url: str, http: httpx.Client) -> cohere.ClientV2:
    """A Cohere client over `http`, without retries. Raises AuthenticationFailed if no API key is set."""
    return cohere.ClientV2(
        api_key=resolve_api_key(SERVICE, key, "COHERE_API_KEY", "CO_API_KEY"),
        base_url=base_url or os.environ.get("CO_API_URL") or None,
        httpx_client=http,
        max_retries=0,
        log_warning_experimental_features=False,
    )


@contextmanager
def translate_errors(timeout_s: float) -> Iterator[None]:
    """Translate errors of the SDK and of its HTTP client."""
    try:
        yield
    except httpx.TimeoutException as error:
        raise RequestTimeout(SERVICE, f"no response within {timeout_s:g} s") from error
    except ApiError as error:
        if error.status_code is None or error.status_code < 400:
            raise ConnectionFailed(SERVICE, f"incomplete response ({error.body})") from error
        message = error.body.get("message", "") if isinstance(error.body, dict) else str(error.body or "")
        raise error_from_status(SERVICE, error.status_code, str(message), error.headers) from error
    except (httpx.HTTPError, json.JSONDecodeError) as error:
        raise ConnectionFailed(SERVICE, f"incomplete response ({error})") from error
