"""Chat models, by the name of their service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragkit.registry import Place, Registry

if TYPE_CHECKING:
    from ragkit.agent.providers.base import Provider

PROVIDERS: Registry[Provider] = Registry(
    "provider",
    "providers",
    {
        "anthropic": Place("ragkit.agent.providers.anthropic_:AnthropicProvider", "anthropic"),
        "echo": Place("ragkit.agent.providers.scripted:EchoProvider"),
        "gemini": Place("ragkit.agent.providers.gemini_:GeminiProvider", "gemini"),
        "groq": Place("ragkit.agent.providers.groq_:GroqProvider", "groq"),
        "local": Place("ragkit.agent.providers.scripted:LocalProvider"),
        "ollama": Place("ragkit.agent.providers.ollama_:OllamaProvider", "ollama"),
        "openai": Place("ragkit.agent.providers.openai_:OpenAIProvider", "openai"),
    },
)
