"""The embedders, by the name that a pipeline file gives them."""

from __future__ import annotations

from ragkit.embed.base import EmbeddingProvider
from ragkit.registry import Place, Registry

EMBEDDERS: Registry[EmbeddingProvider] = Registry(
    "embedder",
    "embedders",
    {
        "hashing": Place("ragkit.embed.hashing:HashingEmbedder", options="ragkit.embed.options:HashingOptions"),
        "minilm": Place("ragkit.embed.minilm:MiniLM", options="ragkit.embed.options:MiniLMOptions"),
    },
)
