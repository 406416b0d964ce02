"""A provider on a wire server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import ragkit
from ragkit.agent.providers.base import Provider
from ragkit.agent.providers.groq import GroqProvider
from ragkit.agent.providers.ollama import OllamaProvider
from ragkit.agent.providers.openai import OpenAIProvider
from tests.wire.dialects import DIALECTS
from tests.wire.server import Fault, Turn, WireServer

SERVICES = tuple(DIALECTS)
MODELS = {
    "openai": "gpt-4o-mini",
    "anthropic": "claude-haiku-4-5",
    "gemini": "gemini-2.5-flash",
    "ollama": "llama3.2",
    "groq": "llama-3.3-70b-versatile",
}


def connect(service: str, url: str) -> Provider:
    """The provider of a service, with the URL of a test server."""
    model = MODELS[service]
    if service == "openai":
        return OpenAIProvider(model, api_key="test-key", base_url=f"{url}/v1")
    if service == "anthropic":
        return ragkit.AnthropicProvider(model, api_key="test-key", base_url=url)
    if service == "gemini":
        return ragkit.GeminiProvider(model, api_key="test-key", base_url=url)
    if service == "groq":
        return GroqProvider(model, api_key="test-key", base_url=url)
    return OllamaProvider(model, base_url=url)


@contextmanager
def serving(service: str, *script: Turn | Fault) -> Iterator[tuple[Provider, WireServer]]:
    """A scripted server, and a provider connected to it."""
    with WireServer(DIALECTS[service], script) as server:
        yield connect(service, server.url), server
