"""The embedders, by the name that a pipeline file gives them."""

from __future__ import annotations

from ragkit.embed.base import EmbeddingProvider
from ragkit.registry import Place, Registry

_OPTIONS = "ragkit.embed.service_options"

EMBEDDERS: Registry[EmbeddingProvider] = Registry(
    "embedder",
    "embedders",
    {
        "cohere": Place("ragkit.embed.cohere:CohereEmbeddingProvider", "cohere", f"{_OPTIONS}:CohereEmbeddingOptions"),
        "gemini": Place("ragkit.embed.gemini:GeminiEmbeddingProvider", "gemini", f"{_OPTIONS}:GeminiEmbeddingOptions"),
        "hashing": Place("ragkit.embed.hashing:HashingEmbedder", options="ragkit.embed.options:HashingOptions"),
        "minilm": Place("ragkit.embed.minilm:MiniLM", options="ragkit.embed.options:MiniLMOptions"),
        "ollama": Place("ragkit.embed.ollama:OllamaEmbeddingProvider", "ollama", f"{_OPTIONS}:OllamaEmbeddingOptions"),
        "openai": Place("ragkit.embed.openai:OpenAIEmbeddingProvider", "openai", f"{_OPTIONS}:OpenAIEmbeddingOptions"),
        "sentence_transformers": Place(
            "ragkit.embed.sentence_transformers:SentenceTransformersEmbedder",
            "sentence-transformers",
            f"{_OPTIONS}:SentenceTransformersOptions",
        ),
        "static": Place("ragkit.embed.static:StaticEmbedder"),
        "voyage": Place("ragkit.embed.voyage:VoyageEmbeddingProvider", "voyage", f"{_OPTIONS}:VoyageEmbeddingOptions"),
    },
)
