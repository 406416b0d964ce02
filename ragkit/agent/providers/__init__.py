"""Chat models, by the name of their service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragkit.registry import PartSpec, Registry

if TYPE_CHECKING:
    from ragkit.agent.providers.base import Provider

PROVIDERS: Registry[Provider] = Registry(
    "provider",
    "providers",
    {
        "anthropic": PartSpec("ragkit.agent.providers.anthropic_:AnthropicProvider", "anthropic"),
        "echo": PartSpec("ragkit.agent.providers.scripted:EchoProvider"),
        "gemini": PartSpec("ragkit.agent.providers.gemini_:GeminiProvider", "gemini"),
        "groq": PartSpec("ragkit.agent.providers.groq_:GroqProvider", "groq"),
        "local": PartSpec("ragkit.agent.providers.scripted:LocalProvider"),
        "ollama": PartSpec("ragkit.agent.providers.ollama_:OllamaProvider", "ollama"),
        "openai": PartSpec("ragkit.agent.providers.openai_:OpenAIProvider", "openai"),
    },
)
