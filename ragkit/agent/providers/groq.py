"""Groq through the package `groq`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace
from functools import partial

from ragkit.agent.messages import Message
from ragkit.agent.providers.base import METHODS, ModelRequest
from ragkit.agent.providers.chat_completions import ChatCompletionChunk, ChatCompletionsProvider
from ragkit.agent.providers.credentials import check_model, find_host, find_key
from ragkit.agent.providers.http_provider import LoopBoundClient, SDKErrors
from ragkit.argument_types import check_types
from ragkit.errors import MissingExtra

try:
    import groq
    import httpx
except ImportError as error:
    raise MissingExtra("the provider 'groq'", extra="groq") from error


@check_types(skip=METHODS)
class GroqProvider(ChatCompletionsProvider):
    """Models that Groq runs.

    Args:
        model: the same as `default_model`.
        system_instruction: a system message at the start of every conversation.
        api_key: by default GROQ_API_KEY.
        default_model: the model of requests that name none.
        base_url: the URL of the API, without its path; by default GROQ_BASE_URL, else Groq's.

    Raises:
        AuthenticationFailed: no key.
    """

    name = "groq"
    default_model = "llama-3.3-70b-versatile"
    sdk_errors = SDKErrors(
        timeouts=(groq.APITimeoutError, httpx.TimeoutException),
        connection_errors=(groq.APIConnectionError, httpx.HTTPError, httpx.InvalidURL),
        api_errors=(groq.APIError,),
    )

    def __init__(
        self,
        model: str = "",
        system_instruction: str = "",
        *,
        api_key: str | None = None,
        default_model: str = "",
        base_url: str | None = None,
    ) -> None:
        self.host = find_host("groq", base_url)
        self.default_model = check_model(model or default_model) or GroqProvider.default_model
        self.system_instruction = system_instruction
        key = find_key("groq", api_key)
        create = partial(groq.AsyncGroq, api_key=key, base_url=self.host or None, max_retries=0)
        self._client = LoopBoundClient(create, groq.AsyncGroq.close)

    def _send_request(self, request: ModelRequest, *, live: bool) -> AsyncGenerator[ChatCompletionChunk, None]:
        if self.system_instruction:
            request = replace(request, messages=(Message.system(self.system_instruction), *request.messages))
        return super()._send_request(request, live=live)
