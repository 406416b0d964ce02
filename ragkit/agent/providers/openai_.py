"""OpenAI, and every server with the Chat Completions API, through the package `openai`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, cast

from ragkit.agent.providers.base import ModelRequest
from ragkit.agent.providers.chat_completions import ChatCompletionChunk, ChatCompletionsProvider, build_payload
from ragkit.agent.providers.credentials import find_host, find_key
from ragkit.agent.providers.http_provider import LoopBoundClient, SDKErrors
from ragkit.errors import MissingExtra

try:
    import httpx2
    import openai
except ImportError as error:
    raise MissingExtra("the provider 'openai'", extra="openai") from error


class OpenAIProvider(ChatCompletionsProvider):
    """Models of OpenAI, or of any server with the Chat Completions API: vLLM, llama.cpp, LM Studio, OpenRouter.

    Args:
        api_key: by default OPENAI_API_KEY. Optional with a `base_url`.
        default_model: the model of requests that name none.
        base_url: the URL of the API, with its `/v1`; by default OPENAI_BASE_URL, else OpenAI's.

    Raises:
        AuthenticationFailed: neither a key nor a `base_url`.
    """

    name = "openai"
    default_model = "gpt-5.4-mini"
    sdk_errors = SDKErrors(
        timeouts=(openai.APITimeoutError, httpx2.TimeoutException),
        connection_errors=(openai.APIConnectionError, httpx2.HTTPError, httpx2.InvalidURL),
        api_errors=(openai.APIError,),
    )

    def __init__(self, api_key: str | None = None, default_model: str = "", *, base_url: str | None = None) -> None:
        self.host = find_host("openai", base_url)
        self.default_model = default_model or OpenAIProvider.default_model
        key = find_key("openai", api_key, needed=not self.host) or "none"
        host = self.host or None
        self._client = LoopBoundClient(
            lambda: openai.AsyncOpenAI(api_key=key, base_url=host, max_retries=0), openai.AsyncOpenAI.close
        )

    async def _send_request(self, request: ModelRequest, *, live: bool) -> AsyncGenerator[ChatCompletionChunk, None]:
        create = self._client.get().chat.completions.create
        sent = cast("dict[str, Any]", build_payload(request)) | {"timeout": request.settings.timeout_s}
        if not live:
            yield _to_chunk(await create(**sent))
            return
        async with await create(**sent, stream=True, stream_options={"include_usage": True}) as stream:
            async for chunk in stream:
                yield _to_chunk(chunk)


def _to_chunk(found: object) -> ChatCompletionChunk:
    if not isinstance(found, openai.BaseModel):  # a server that is not the API returns text
        raise ValueError(f"no JSON object: {str(found)[:80]!r}")
    return cast("ChatCompletionChunk", found.to_dict())
