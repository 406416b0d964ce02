"""Chat models, by the name of their service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragkit.registry import ComponentSpec, Registry

if TYPE_CHECKING:
    from ragkit.agent.providers.base import Provider

PROVIDERS: Registry[Provider] = Registry(
    "provider",
    "providers",
    {
        "anthropic": ComponentSpec("ragkit.agent.providers.anthropic:AnthropicProvider", "anthropic"),
        "echo": ComponentSpec("ragkit.agent.providers.scripted:EchoProvider"),
        "gemini": ComponentSpec("ragkit.agent.providers.gemini:GeminiProvider", "gemini"),
        "gguf": ComponentSpec("ragkit.agent.providers.gguf:GGUFProvider", "gguf"),
        "groq": ComponentSpec("ragkit.agent.providers.groq:GroqProvider", "groq"),
        "local": ComponentSpec("ragkit.agent.providers.scripted:LocalProvider"),
        "ollama": ComponentSpec("ragkit.agent.providers.ollama:OllamaProvider", "ollama"),
        "openai": ComponentSpec("ragkit.agent.providers.openai:OpenAIProvider", "openai"),
    },
)
