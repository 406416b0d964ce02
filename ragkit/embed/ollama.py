"""Embeddings by a local Ollama server. Adapts the package `ollama`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property

import httpx
import ollama
import pydantic

from ragkit.embed.service_embedder import EmbeddingResponse, ServiceEmbedder, TextKind
from ragkit.embed.service_options import OllamaEmbeddingOptions, select_options
from ragkit.embed.service_requests import error_from_status
from ragkit.errors import ConnectionFailed, InvalidRequest, RequestTimeout


class OllamaEmbeddingProvider(ServiceEmbedder):
    """Ollama embeddings, from OLLAMA_HOST or this machine. Free, without API key."""

    service = "ollama"
    options_class = OllamaEmbeddingOptions

    def __init__(self, model: str | OllamaEmbeddingOptions = "", *, base_url: str = "", dimensions: int = 0) -> None:
        """As the other services, without a key."""
        options = select_options(OllamaEmbeddingOptions, model, base_url, dimensions)
        super().__init__(options)
        self._prompts = {"document": options.document_prompt, "query": options.query_prompt}
        self.input_types = tuple(self._prompts.values()) if any(self._prompts.values()) else ()

    def request(self, texts: Sequence[str], kind: TextKind) -> EmbeddingResponse:
        """One request to `/api/embed`. Raises ProviderError."""
        inputs, width = [self._prompts[kind] + text for text in texts], self._options.dimensions or None
        try:
            answer = self._client.embed(self.model, inputs, truncate=True, dimensions=width)
        except ollama.ResponseError as error:
            if error.status_code == 404:
                hint = f"unknown model {self.model!r}: run `ollama pull {self.model}`"
                raise InvalidRequest(self.service, hint, status=404) from error
            raise error_from_status(self.service, error.status_code, error.error) from error
        except httpx.TimeoutException as error:
            raise RequestTimeout(self.service, f"no response within {self._options.timeout_s:g} s") from error
        except ConnectionError as error:
            hint = "server unreachable: run `ollama serve`, or set OLLAMA_HOST"
            raise ConnectionFailed(self.service, hint) from error
        except (httpx.HTTPError, json.JSONDecodeError, pydantic.ValidationError) as error:
            raise ConnectionFailed(self.service, f"incomplete response ({error})") from error
        return EmbeddingResponse([list(row) for row in answer.embeddings], answer.prompt_eval_count)

    def request_cost(self, tokens: int) -> float | None:
        """Always 0.0."""
        return 0.0

    @cached_property
    def _client(self) -> ollama.Client:
        client = ollama.Client(host=self._options.base_url or None, timeout=self._options.timeout_s)
        self.close_on_finalize(client.close)
        return client
