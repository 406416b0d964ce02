"""The registries of retrievers and rerankers."""

from __future__ import annotations

from ragkit.registry import PartSpec, Registry
from ragkit.retrieve.base import Reranker, Retriever

_OPTIONS = "ragkit.retrieve.options"

RETRIEVERS: Registry[Retriever] = Registry(
    "retriever",
    "retrievers",
    {
        "dense": PartSpec("ragkit.retrieve.dense:DenseRetriever", options=f"{_OPTIONS}:DenseOptions"),
        "hybrid": PartSpec("ragkit.retrieve.hybrid:HybridRetriever", options=f"{_OPTIONS}:HybridOptions"),
        "lexical": PartSpec("ragkit.retrieve.lexical:LexicalRetriever", options=f"{_OPTIONS}:LexicalOptions"),
    },
)

RERANKERS: Registry[Reranker] = Registry(
    "reranker",
    "rerankers",
    {
        "cohere": PartSpec("ragkit.retrieve.rerank_cohere:CohereReranker", "cohere"),
        "cross_encoder": PartSpec("ragkit.retrieve.rerank_cross_encoder:CrossEncoderReranker", "sentence-transformers"),
        "mmr": PartSpec("ragkit.retrieve.rerank:MmrReranker"),
        "sentences": PartSpec("ragkit.retrieve.rerank_sentences:SentenceReranker"),
    },
)
