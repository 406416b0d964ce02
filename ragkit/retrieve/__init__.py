"""Station 5: a question -> ranked hits. The table of retrievers, and nothing else."""

from __future__ import annotations

from ragkit.registry import Place, Registry
from ragkit.retrieve.base import Retriever

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
