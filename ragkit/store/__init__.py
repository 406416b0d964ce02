"""Station 4, store: rows in, the nearest rows out. This is the table of the vector stores."""

from __future__ import annotations

from ragkit.registry import PartSpec, Registry
from ragkit.store.base import Store

STORES: Registry[Store] = Registry(
    "store",
    "stores",
    {
        "chroma": PartSpec(
            "ragkit.store.backends.chroma:ChromaStore", "chroma", "ragkit.store.embedded_options:ChromaOptions"
        ),
        "duckdb": PartSpec(
            "ragkit.store.backends.duckdb_:DuckdbStore", "duckdb", "ragkit.store.embedded_options:DuckdbOptions"
        ),
        "faiss": PartSpec(
            "ragkit.store.backends.faiss_:FaissStore", "faiss", "ragkit.store.embedded_options:FaissOptions"
        ),
        "lancedb": PartSpec(
            "ragkit.store.backends.lancedb_:LancedbStore", "lancedb", "ragkit.store.embedded_options:LancedbOptions"
        ),
        "memory": PartSpec("ragkit.store.backends.memory:MemoryStore", options="ragkit.store.options:MemoryOptions"),
        "milvus": PartSpec(
            "ragkit.store.backends.milvus:MilvusStore", "milvus", "ragkit.store.server_options:MilvusOptions"
        ),
        "pgvector": PartSpec(
            "ragkit.store.backends.pgvector:PgvectorStore", "pgvector", "ragkit.store.server_options:PgvectorOptions"
        ),
        "pinecone": PartSpec(
            "ragkit.store.backends.pinecone:PineconeStore", "pinecone", "ragkit.store.server_options:PineconeOptions"
        ),
        "qdrant": PartSpec(
            "ragkit.store.backends.qdrant:QdrantStore", "qdrant", "ragkit.store.server_options:QdrantOptions"
        ),
        "sqlite": PartSpec("ragkit.store.backends.sqlite:SqliteStore", options="ragkit.store.options:SqliteOptions"),
    },
)
