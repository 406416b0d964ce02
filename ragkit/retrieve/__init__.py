"""Station 5: a question -> ranked hits. The tables of retrievers and of rerankers, and nothing else."""

from __future__ import annotations

from ragkit.registry import Place, Registry
from ragkit.retrieve.base import Reranker, Retriever

_OPTIONS = "ragkit.retrieve.options"

RETRIEVERS: Registry[Retriever] = Registry(
    "retriever",
    "retrievers",
    {
        "dense": Place("ragkit.retrieve.dense:DenseRetriever", options=f"{_OPTIONS}:DenseOptions"),
        "hybrid": Place("ragkit.retrieve.hybrid:HybridRetriever", options=f"{_OPTIONS}:HybridOptions"),
        "lexical": Place("ragkit.retrieve.lexical:LexicalRetriever", options=f"{_OPTIONS}:LexicalOptions"),
    },
)

RERANKERS: Registry[Reranker] = Registry(
    "reranker",
    "rerankers",
    {
        "cohere": Place("ragkit.retrieve.rerank_cohere:CohereReranker", "cohere"),
        "cross_encoder": Place("ragkit.retrieve.rerank_cross_encoder:CrossEncoderReranker", "sentence-transformers"),
        "mmr": Place("ragkit.retrieve.rerank:FirstStage"),
        "sentences": Place("ragkit.retrieve.rerank_sentences:SentenceReranker"),
    },
)
