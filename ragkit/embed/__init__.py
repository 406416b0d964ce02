"""The registry of embedders."""

from __future__ import annotations

from ragkit.embed.base import EmbeddingProvider
from ragkit.registry import ComponentSpec, Registry

_OPTIONS = "ragkit.embed.service_options"


def _service(vendor: str, extra: str) -> ComponentSpec:
    return ComponentSpec(
        f"ragkit.embed.{extra}:{vendor}EmbeddingProvider", extra, f"{_OPTIONS}:{vendor}EmbeddingOptions"
    )


EMBEDDERS: Registry[EmbeddingProvider] = Registry(
    "embedder",
    "embedders",
    {
        "cohere": _service("Cohere", "cohere"),
        "gemini": _service("Gemini", "gemini"),
        "gguf": ComponentSpec("ragkit.embed.gguf:GGUFEmbedder", "gguf", "ragkit.embed.options:GGUFOptions"),
        "hashing": ComponentSpec("ragkit.embed.hashing:HashingEmbedder", options="ragkit.embed.options:HashingOptions"),
        "minilm": ComponentSpec("ragkit.embed.minilm:MiniLM", options="ragkit.embed.options:MiniLMOptions"),
        "multilingual": ComponentSpec(
            "ragkit.embed.multilingual.embedder:Multilingual",
            "multilingual",
            "ragkit.embed.options:MultilingualOptions",
        ),
        "ollama": _service("Ollama", "ollama"),
        "onnx": ComponentSpec("ragkit.embed.onnx:OnnxEmbedder", "onnx", "ragkit.embed.options:OnnxOptions"),
        "openai": _service("OpenAI", "openai"),
        "sentence_transformers": ComponentSpec(
            "ragkit.embed.sentence_transformers:SentenceTransformersEmbedder",
            "sentence-transformers",
            f"{_OPTIONS}:SentenceTransformersOptions",
        ),
        "static": ComponentSpec("ragkit.embed.static:StaticEmbedder"),
        "voyage": _service("Voyage", "voyage"),
    },
)
