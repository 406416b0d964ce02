"""OpenAI, and every server with the Chat Completions API, through the package `openai`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import ClassVar

from ragkit.agent.providers.base import METHODS
from ragkit.agent.providers.chat_completions import ChatCompletionsProvider
from ragkit.agent.providers.credentials import check_model, find_host, find_key, is_local_host
from ragkit.agent.providers.http_provider import LoopBoundClient, SDKErrors
from ragkit.argument_types import check_types
from ragkit.errors import MissingExtra

try:
    import httpx2
    import openai
except ImportError as error:
    raise MissingExtra("the provider 'openai'", extra="openai") from error


@check_types(skip=METHODS)
class OpenAIProvider(ChatCompletionsProvider):
    """Models of OpenAI, or of any server with the Chat Completions API: vLLM, llama.cpp, LM Studio, OpenRouter.

    Args:
        model: the model of requests that name none; empty: the default of the class.
        api_key: by default OPENAI_API_KEY. Optional with a `base_url`.
        base_url: the URL of the API, with its `/v1`; by default OPENAI_BASE_URL, else OpenAI's.
        default_model: the same as `model`.

    Raises:
        AuthenticationFailed: neither a key nor a `base_url`.
    """

    name = "openai"
    default_model = "gpt-5.4-mini"
    stream_options: ClassVar[Mapping[str, object]] = {"stream_options": {"include_usage": True}}
    sdk_errors = SDKErrors(
        timeouts=(openai.APITimeoutError, httpx2.TimeoutException),
        connection_errors=(openai.APIConnectionError, httpx2.HTTPError, httpx2.InvalidURL),
        api_errors=(openai.APIError,),
    )

    def __init__(
        self, model: str = "", *, api_key: str | None = None, base_url: str | None = None, default_model: str = ""
    ) -> None:
        self.host = find_host("openai", base_url)
        self.writes_calls = bool(self.host)
        self.on_this_machine = bool(self.host) and is_local_host(self.host)
        self.default_model = check_model(model or default_model) or OpenAIProvider.default_model
        key = find_key("openai", api_key, required=not self.host) or "none"
        create = partial(openai.AsyncOpenAI, api_key=key, base_url=self.host or None, max_retries=0)
        self._client = LoopBoundClient(create, openai.AsyncOpenAI.close)
