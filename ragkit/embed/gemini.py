"""Embeddings by Google Gemini. Adapts the package `google-genai`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import ClassVar

import httpx2
from google import genai
from google.genai import errors, types

from ragkit.embed.service_embedder import EmbeddingResponse, ServiceEmbedder, TextKind
from ragkit.embed.service_options import GeminiEmbeddingOptions
from ragkit.embed.service_requests import error_from_status, resolve_api_key
from ragkit.errors import ConnectionFailed, RequestTimeout

TASK_TYPES = {"document": "RETRIEVAL_DOCUMENT", "query": "RETRIEVAL_QUERY"}
_RETRY_DELAY = re.compile(r"(\d+(?:\.\d+)?)s")


class GeminiEmbeddingProvider(ServiceEmbedder):
    """Gemini embeddings: texts as `RETRIEVAL_DOCUMENT`, questions as `RETRIEVAL_QUERY`. The API key is GEMINI_API_KEY.

    Tokens are estimated if the service does not count them.
    """

    service = "gemini"
    options_class = GeminiEmbeddingOptions
    input_types = tuple(TASK_TYPES.values())
    model_dimensions: ClassVar[Mapping[str, int]] = {"gemini-embedding-001": 3072, "gemini-embedding-2": 3072}

    def request(self, texts: Sequence[str], kind: TextKind) -> EmbeddingResponse:
        """One request to `:batchEmbedContents`. Raises ProviderError."""
        width = self._options.dimensions or None
        config = types.EmbedContentConfig(task_type=TASK_TYPES[kind], output_dimensionality=width)
        contents = [types.Content(parts=[types.Part(text=text)]) for text in texts]
        try:
            answer = self._client.models.embed_content(model=self.model, contents=contents, config=config)
        except errors.APIError as error:
            delay = _read_retry_delay(error)
            headers = {"retry-after": delay} if delay else getattr(error.response, "headers", {})
            raise error_from_status(self.service, error.code, str(error.message or error.status), headers) from error
        except httpx2.TimeoutException as error:
            raise RequestTimeout(self.service, f"no response within {self._options.timeout_s:g} s") from error
        except (httpx2.HTTPError, json.JSONDecodeError, errors.UnknownApiResponseError) as error:
            raise ConnectionFailed(self.service, f"incomplete response ({error})") from error
        usage = answer.usage_metadata
        return EmbeddingResponse(
            [embedding.values or [] for embedding in answer.embeddings or []],
            usage.prompt_token_count if usage else None,
        )

    @cached_property
    def _client(self) -> genai.Client:
        client = genai.Client(
            api_key=resolve_api_key(self.service, self._api_key, "GEMINI_API_KEY", "GOOGLE_API_KEY"),
            http_options=types.HttpOptions(
                base_url=self._options.base_url or None,
                timeout=int(self._options.timeout_s * 1000),
                retry_options=types.HttpRetryOptions(attempts=1),
            ),
        )
        self.close_on_finalize(client.close)
        return client


def _read_retry_delay(error: errors.APIError) -> str:
    """Seconds to wait, from `RetryInfo` in the error body; '' without one."""
    body = error.details.get("error") if isinstance(error.details, dict) else None
    details = body.get("details") if isinstance(body, dict) else None
    for detail in details if isinstance(details, list) else []:
        match = _RETRY_DELAY.fullmatch(str(detail.get("retryDelay", ""))) if isinstance(detail, dict) else None
        if match:
            return match[1]
    return ""
