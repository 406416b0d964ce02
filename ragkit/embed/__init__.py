"""The registry of embedders."""

from __future__ import annotations

from ragkit.embed.base import EmbeddingProvider
from ragkit.registry import PartSpec, Registry

_OPTIONS = "ragkit.embed.service_options"

EMBEDDERS: Registry[EmbeddingProvider] = Registry(
    "embedder",
    "embedders",
    {
        "cohere": PartSpec(
            "ragkit.embed.cohere:CohereEmbeddingProvider", "cohere", f"{_OPTIONS}:CohereEmbeddingOptions"
        ),
        "gemini": PartSpec(
            "ragkit.embed.gemini:GeminiEmbeddingProvider", "gemini", f"{_OPTIONS}:GeminiEmbeddingOptions"
        ),
        "hashing": PartSpec("ragkit.embed.hashing:HashingEmbedder", options="ragkit.embed.options:HashingOptions"),
        "minilm": PartSpec("ragkit.embed.minilm:MiniLM", options="ragkit.embed.options:MiniLMOptions"),
        "ollama": PartSpec(
            "ragkit.embed.ollama:OllamaEmbeddingProvider", "ollama", f"{_OPTIONS}:OllamaEmbeddingOptions"
        ),
        "openai": PartSpec(
            "ragkit.embed.openai:OpenAIEmbeddingProvider", "openai", f"{_OPTIONS}:OpenAIEmbeddingOptions"
        ),
        "sentence_transformers": PartSpec(
            "ragkit.embed.sentence_transformers:SentenceTransformersEmbedder",
            "sentence-transformers",
            f"{_OPTIONS}:SentenceTransformersOptions",
        ),
        "static": PartSpec("ragkit.embed.static:StaticEmbedder"),
        "voyage": PartSpec(
            "ragkit.embed.voyage:VoyageEmbeddingProvider", "voyage", f"{_OPTIONS}:VoyageEmbeddingOptions"
        ),
    },
)
