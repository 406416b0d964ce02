"""The registries of retrievers and rerankers."""

from __future__ import annotations

from ragkit.registry import ComponentSpec, Registry
from ragkit.retrieve.base import Reranker, Retriever

_OPTIONS = "ragkit.retrieve.options"

RETRIEVERS: Registry[Retriever] = Registry(
    "retriever",
    "retrievers",
    {
        "dense": ComponentSpec("ragkit.retrieve.dense:DenseRetriever", options=f"{_OPTIONS}:DenseOptions"),
        "hybrid": ComponentSpec("ragkit.retrieve.hybrid:HybridRetriever", options=f"{_OPTIONS}:HybridOptions"),
        "lexical": ComponentSpec("ragkit.retrieve.lexical:LexicalRetriever", options=f"{_OPTIONS}:LexicalOptions"),
    },
)

RERANKERS: Registry[Reranker] = Registry(
    "reranker",
    "rerankers",
    {
        "cohere": ComponentSpec("ragkit.retrieve.rerank_cohere:CohereReranker", "cohere"),
        "cross_encoder": ComponentSpec(
            "ragkit.retrieve.rerank_cross_encoder:CrossEncoderReranker", "sentence-transformers"
        ),
        "gguf": ComponentSpec("ragkit.retrieve.rerank_gguf:GGUFReranker", "gguf"),
        "jina": ComponentSpec("ragkit.retrieve.rerank_jina:JinaReranker"),
        "mmr": ComponentSpec("ragkit.retrieve.rerank:MmrReranker"),
        "onnx": ComponentSpec("ragkit.retrieve.rerank_onnx:OnnxReranker", "onnx"),
        "sentences": ComponentSpec("ragkit.retrieve.rerank_sentences:SentenceReranker"),
    },
)
