"""Station 4, store: rows in, the nearest rows out. This is the table of the vector stores."""

from __future__ import annotations

from ragkit.registry import Place, Registry
from ragkit.store.base import Store

STORES: Registry[Store] = Registry(
    "store",
    "stores",
    {
        "chroma": Place("ragkit.store.chroma:ChromaStore", "chroma", "ragkit.store.embedded_options:ChromaOptions"),
        "duckdb": Place("ragkit.store.duckdb_:DuckdbStore", "duckdb", "ragkit.store.embedded_options:DuckdbOptions"),
        "faiss": Place("ragkit.store.faiss_:FaissStore", "faiss", "ragkit.store.embedded_options:FaissOptions"),
        "lancedb": Place(
            "ragkit.store.lancedb_:LancedbStore", "lancedb", "ragkit.store.embedded_options:LancedbOptions"
        ),
        "memory": Place("ragkit.store.memory:MemoryStore", options="ragkit.store.options:MemoryOptions"),
        "milvus": Place("ragkit.store.milvus:MilvusStore", "milvus", "ragkit.store.server_options:MilvusOptions"),
        "pgvector": Place(
            "ragkit.store.pgvector:PgvectorStore", "pgvector", "ragkit.store.server_options:PgvectorOptions"
        ),
        "pinecone": Place(
            "ragkit.store.pinecone:PineconeStore", "pinecone", "ragkit.store.server_options:PineconeOptions"
        ),
        "qdrant": Place("ragkit.store.qdrant:QdrantStore", "qdrant", "ragkit.store.server_options:QdrantOptions"),
        "sqlite": Place("ragkit.store.sqlite:SqliteStore", options="ragkit.store.options:SqliteOptions"),
    },
)
