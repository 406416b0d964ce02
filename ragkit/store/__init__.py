"""The registry of the vector stores."""

from __future__ import annotations

from ragkit.errors import StoreError
from ragkit.registry import ComponentSpec, Registry
from ragkit.store.base import REQUIRED_METHODS, Store, missing_methods


class StoreRegistry(Registry[Store]):
    """The registered stores. A store that lacks a method is rejected before it is opened."""

    def find(self, name: str) -> type[Store]:
        """The class behind `name`.

        Raises:
            UnknownName: no store has this name.
            MissingExtra: its optional dependency is not installed.
            StoreError: the class lacks methods of `ragkit.store.base.Store`.
        """
        store = super().find(name)
        missing = missing_methods(store)
        if missing:
            raise StoreError(
                f"the store {name!r} ({store.__module__}.{store.__qualname__}) lacks the methods "
                f"{', '.join(missing)}: a registered store implements {', '.join(REQUIRED_METHODS)}"
            )
        return store


def _spec(target: str, options: str, extra: str = "") -> ComponentSpec:
    return ComponentSpec(f"ragkit.store.backends.{target}", extra, f"ragkit.store.options:{options}")


STORES: Registry[Store] = StoreRegistry(
    "store",
    "stores",
    {
        "chroma": _spec("chroma:ChromaStore", "ChromaOptions", "chroma"),
        "duckdb": _spec("duckdb:DuckdbStore", "DuckdbOptions", "duckdb"),
        "faiss": _spec("faiss:FaissStore", "FaissOptions", "faiss"),
        "lancedb": _spec("lancedb:LancedbStore", "LancedbOptions", "lancedb"),
        "memory": _spec("memory:MemoryStore", "MemoryOptions"),
        "milvus": _spec("milvus:MilvusStore", "MilvusOptions", "milvus"),
        "pgvector": _spec("pgvector:PgvectorStore", "PgvectorOptions", "pgvector"),
        "pinecone": _spec("pinecone:PineconeStore", "PineconeOptions", "pinecone"),
        "qdrant": _spec("qdrant:QdrantStore", "QdrantOptions", "qdrant"),
        "sqlite": _spec("sqlite:SqliteStore", "SqliteOptions"),
    },
)
