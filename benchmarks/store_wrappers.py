"""What a search costs through ragkit, against the same search through the store's own client.

    python benchmarks/store_wrappers.py --rows 100000 --stores faiss lancedb --out wrappers.json

Both sides hold the same documents (an id, a text of some 400 characters, three fields of metadata) and rows, with the
same kind of index and settings, and give the ten nearest with text and metadata. The client's side is laid out as its
own documentation does it: a column for each field. Each store runs in a process of its own; the two sides take turns,
round by round, and in turns who goes first, so that a busy machine hurts both alike.

The bound: where the client takes over 1 ms, at most 1.10 times its time; otherwise at most 0.2 ms more.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from exact_search import clustered

from ragkit.records import Document
from ragkit.store.base import Rows
from ragkit.store.facade import VectorStore

TOP_K = 10
BATCH = 1_000
WARM_UP = 20
LONG_MS, MOST_TIMES, MOST_ADDED_MS = 1.0, 1.10, 0.2
LANGUAGES = ("de", "en", "fr", "it")

Hit = tuple[str, str, dict[str, Any], float]
"""Id, text, metadata and score."""
Ask = Callable[[Rows], list[Hit]]


@dataclass(frozen=True)
class Sample:
    """What both sides hold, and what they are asked."""

    documents: list[Document]
    matrix: Rows
    queries: Rows

    @classmethod
    def of(cls, rows: int, dimension: int, queries: int, seed: int) -> Sample:
        """The same for the same seed."""
        chance = np.random.default_rng(seed)
        words = [f"word{n:03}" for n in range(500)]
        chosen = chance.integers(0, len(words), (rows, 55))
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
    """One store with one kind of index, and its client's own way."""

    store: str
    options: Mapping[str, object]
    client: Callable[[Path, Sample, ExitStack], Ask]
    packages: tuple[str, ...]


def faiss_client(kind: str) -> Callable[[Path, Sample, ExitStack], Ask]:
    """An index of faiss, with a list of documents beside it."""

    def client(directory: Path, sample: Sample, stack: ExitStack) -> Ask:
        import faiss

        index: Any = faiss.IndexFlatIP(sample.matrix.shape[1])
        if kind == "hnsw":
            index = faiss.IndexHNSWFlat(sample.matrix.shape[1], 16, faiss.METRIC_INNER_PRODUCT)
            index.hnsw.efConstruction, index.hnsw.efSearch = 128, 96
        index.add(sample.matrix)
        held = [(document.id, document.text, dict(document.metadata)) for document in sample.documents]

        def ask(query: Rows) -> list[Hit]:
            scores, rows = index.search(query[None], TOP_K)
            return [(*held[row], score) for row, score in zip(rows[0].tolist(), scores[0].tolist(), strict=True)]

        return ask

    return client


def lancedb_client(index: bool) -> Callable[[Path, Sample, ExitStack], Ask]:
    """A table of LanceDB."""

    def client(directory: Path, sample: Sample, stack: ExitStack) -> Ask:
        import lancedb
        import pyarrow as pa

        width = sample.matrix.shape[1]
        columns = _columns(sample) | {"vector": pa.FixedSizeListArray.from_arrays(sample.matrix.reshape(-1), width)}
        whole = pa.table(columns)
        table: Any = lancedb.connect(directory).create_table("documents", data=whole.slice(0, BATCH))
        for start in range(BATCH, len(whole), BATCH):  # put in at once, it takes six times as long to search
            table.add(whole.slice(start, BATCH))
        table.optimize()
        if index:
            from lancedb.index import IvfPq

            table.create_index("vector", config=IvfPq(distance_type="dot"))

        def ask(query: Rows) -> list[Hit]:
            search = table.search(query, vector_column_name="vector").distance_type("dot").limit(TOP_K)
            if index:
                search = search.nprobes(32).refine_factor(8)
            hits = search.select(["id", "text", "language", "year", "source", "_distance"]).to_list()
            return [(hit["id"], hit["text"], _fields(hit), 1 - hit["_distance"]) for hit in hits]

        return ask

    return client


def chroma_client(directory: Path, sample: Sample, stack: ExitStack) -> Ask:
    """A collection of Chroma's, in this process."""
    import chromadb
    from chromadb.config import Settings

    client: Any = chromadb.PersistentClient(str(directory), settings=Settings(anonymized_telemetry=False))
    graph = {"space": "ip", "max_neighbors": 16, "ef_construction": 128, "ef_search": 200}
    collection = client.create_collection("documents", embedding_function=None, configuration={"hnsw": graph})
    for start in range(0, len(sample.documents), BATCH):
        some = sample.documents[start : start + BATCH]
        collection.add(
            ids=[document.id for document in some],
            embeddings=sample.matrix[start : start + BATCH],
            documents=[document.text for document in some],
            metadatas=[dict(document.metadata) for document in some],
        )

    def ask(query: Rows) -> list[Hit]:
        found = collection.query(
            query_embeddings=query[None], n_results=TOP_K, include=["documents", "metadatas", "distances"]
        )
        parts = (found["ids"][0], found["documents"][0], found["metadatas"][0], found["distances"][0])
        return [(name, text, dict(fields), 1 - far) for name, text, fields, far in zip(*parts, strict=True)]

    return ask


def duckdb_client(directory: Path, sample: Sample, stack: ExitStack) -> Ask:
    """A table of DuckDB."""
    import duckdb
    import pyarrow as pa

    width = sample.matrix.shape[1]
    directory.mkdir()
    connection: Any = duckdb.connect(directory / "documents.duckdb")
    stack.callback(connection.close)
    columns = _columns(sample) | {"vector": pa.FixedSizeListArray.from_arrays(sample.matrix.reshape(-1), width)}
    connection.register("given", pa.table(columns))
    connection.execute("CREATE TABLE documents AS SELECT * FROM given")
    connection.unregister("given")
    sql = (
        "SELECT id, text, language, year, source, array_inner_product(vector, $1::FLOAT["
        f"{width}]) AS score FROM documents ORDER BY score DESC LIMIT {TOP_K}"
    )

    def ask(query: Rows) -> list[Hit]:
        hits = connection.execute(sql, [query.tolist()]).fetchall()
        return [(name, text, _named(rest), score) for name, text, *rest, score in hits]

    return ask


def pgvector_client(directory: Path, sample: Sample, stack: ExitStack) -> Ask:
    """A table of PostgreSQL."""
    import psycopg
    from pgvector.psycopg import register_vector

    connection: Any = stack.enter_context(psycopg.connect(os.environ["RAGKIT_WRAPPERS_DSN"], autocommit=True))
    connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
    register_vector(connection)
    connection.execute(
        "CREATE TABLE documents (id text PRIMARY KEY, text text, language text, year int, source text,"
        f" embedding vector({sample.matrix.shape[1]}))"
    )
    copy = "COPY documents FROM STDIN (FORMAT BINARY)"
    with connection.cursor() as cursor, cursor.copy(copy) as sink:
        sink.set_types(["text", "text", "text", "int4", "text", "vector"])
        for document, row in zip(sample.documents, sample.matrix, strict=True):
            sink.write_row((document.id, document.text, *document.metadata.values(), row))
    sql = (
        "SELECT id, text, language, year, source, -(embedding <#> %s) FROM documents"
        f" ORDER BY embedding <#> %s LIMIT {TOP_K}"
    )

    def ask(query: Rows) -> list[Hit]:
        hits = connection.execute(sql, (query, query)).fetchall()
        return [(name, text, _named(rest), score) for name, text, *rest, score in hits]

    return ask


def qdrant_client(directory: Path, sample: Sample, stack: ExitStack) -> Ask:
    """Qdrant's engine in this process."""
    import qdrant_edge as edge

    directory.mkdir()
    rows = edge.EdgeVectorParams(size=sample.matrix.shape[1], distance=edge.Distance.Dot)
    exact = edge.EdgeOptimizersConfig(indexing_threshold=2**40)  # the store's searches are exact too
    shard = edge.EdgeShard.create(str(directory), edge.EdgeConfig(vectors=rows, optimizers=exact))
    stack.callback(shard.close)
    for start in range(0, len(sample.documents), BATCH):
        some = sample.documents[start : start + BATCH]
        points = [
            edge.Point(uuid.UUID(int=start + n), row, {"id": document.id, "text": document.text, **document.metadata})
            for n, (document, row) in enumerate(zip(some, sample.matrix[start : start + BATCH].tolist(), strict=True))
        ]
        shard.update(edge.UpdateOperation.upsert_points(points))

    def ask(query: Rows) -> list[Hit]:
        request = edge.QueryRequest(
            query=edge.Query.Nearest(query.tolist()),
            limit=TOP_K,
            with_payload=True,
            params=edge.SearchParams(exact=True),
        )
        hits = [(dict(point.payload or {}), point.score) for point in shard.query(request)]
        return [(held["id"], held["text"], _fields(held), score) for held, score in hits]

    return ask


def milvus_client(directory: Path, sample: Sample, stack: ExitStack) -> Ask:
    """A collection of Milvus Lite."""
    from pymilvus import DataType, MilvusClient

    directory.mkdir()
    client: Any = MilvusClient(str(directory / "milvus.db"))
    stack.callback(client.close)
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
        some = sample.documents[start : start + BATCH]
        rows = sample.matrix[start : start + BATCH].tolist()
        held = [
            {"number": start + n, "id": document.id, "text": document.text, **document.metadata, "vector": row}
            for n, (document, row) in enumerate(zip(some, rows, strict=True))
        ]
        client.insert("documents", held)
    client.flush("documents")

    def ask(query: Rows) -> list[Hit]:
        [hits] = client.search(
            "documents",
            data=[query.tolist()],
            anns_field="vector",
            limit=TOP_K,
            output_fields=["id", "text", "language", "year", "source"],
        )
        held = [(hit["entity"], hit["distance"]) for hit in hits]
        return [(fields["id"], fields["text"], _fields(fields), score) for fields, score in held]

    return ask


def _columns(sample: Sample) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {"id": [document.id for document in sample.documents]}
    columns["text"] = [document.text for document in sample.documents]
    for name in ("language", "year", "source"):
        columns[name] = [document.metadata[name] for document in sample.documents]
    return columns


def _fields(held: Mapping[str, Any]) -> dict[str, Any]:
    return {name: held[name] for name in ("language", "year", "source")}


def _named(values: list[Any]) -> dict[str, Any]:
    return dict(zip(("language", "year", "source"), values, strict=True))


CONTESTS = {
    "faiss": Contest("faiss", {"method": "hnsw"}, faiss_client("hnsw"), ("faiss-cpu",)),
    "faiss-flat": Contest("faiss", {"method": "flat"}, faiss_client("flat"), ("faiss-cpu",)),
    "lancedb": Contest("lancedb", {"method": "exact"}, lancedb_client(index=False), ("lancedb",)),
    "lancedb-ivf_pq": Contest("lancedb", {"method": "ivf_pq"}, lancedb_client(index=True), ("lancedb",)),
    "chroma": Contest("chroma", {}, chroma_client, ("chromadb",)),
    "duckdb": Contest("duckdb", {}, duckdb_client, ("duckdb",)),
    "pgvector": Contest("pgvector", {"method": "exact"}, pgvector_client, ("pgvector", "psycopg")),
    "qdrant": Contest("qdrant", {}, qdrant_client, ("qdrant-edge-py",)),
    "milvus": Contest("milvus", {"method": "exact"}, milvus_client, ("pymilvus", "milvus-lite")),
}


def measured(contest: Contest, arguments: argparse.Namespace) -> dict[str, Any]:
    """Fill both sides, ask them in turns, and say how long it took."""
    sample = Sample.of(arguments.rows, arguments.dimension, arguments.queries, arguments.seed)
    with tempfile.TemporaryDirectory(prefix="ragkit-wrappers-") as directory, ExitStack() as stack:
        if contest.store == "pgvector":
            _start_postgres(stack)
        start = time.perf_counter()
        ask = contest.client(Path(directory) / "client", sample, stack)
        client_fill = time.perf_counter() - start
        where = {"dsn": os.environ["RAGKIT_WRAPPERS_DSN"]} if contest.store == "pgvector" else {}
        options = {**({} if where else {"path": Path(directory) / "ragkit"}), **where, **contest.options}
        start = time.perf_counter()
        store = stack.enter_context(VectorStore.create(contest.store, **options))  # type: ignore[arg-type]
        for first in range(0, len(sample.documents), BATCH):
            store.add_documents(sample.documents[first : first + BATCH], sample.matrix[first : first + BATCH])
        ragkit_fill = time.perf_counter() - start

        def through(query: Rows) -> list[Hit]:
            found = [(result.document, result.score) for result in store.search(query, TOP_K)]
            return [(document.id, document.text, dict(document.metadata), score) for document, score in found]

        figures = _timed({"client": ask, "ragkit": through}, sample, arguments.rounds)
    figures["fill_s"] = {"client": round(client_fill, 2), "ragkit": round(ragkit_fill, 2)}
    return figures


def _start_postgres(stack: ExitStack) -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from tests.servers.postgres import Postgres

    server = Postgres()
    server.start()
    stack.callback(server.stop)
    os.environ["RAGKIT_WRAPPERS_DSN"] = server.dsn


def _timed(sides: Mapping[str, Ask], sample: Sample, rounds: int) -> dict[str, Any]:
    shared = _shared_share(sides, sample)
    wall: dict[str, list[float]] = {name: [] for name in sides}
    cpu: dict[str, list[float]] = {name: [] for name in sides}
    order = list(sides.items())
    for _ in range(rounds):
        for name, ask in order:
            for query in sample.queries:
                started, spent = time.perf_counter(), time.process_time()
                ask(query)
                wall[name].append(1000 * (time.perf_counter() - started))
                cpu[name].append(1000 * (time.process_time() - spent))
        order.reverse()
    return {
        "wall_p50_ms": {name: round(float(np.median(each)), 4) for name, each in wall.items()},
        "wall_p95_ms": {name: round(float(np.percentile(each, 95)), 4) for name, each in wall.items()},
        "cpu_p50_ms": {name: round(float(np.median(each)), 4) for name, each in cpu.items()},
        "same_hits": round(shared, 4),
    }


def _shared_share(sides: Mapping[str, Ask], sample: Sample) -> float:
    """Warm up; returns which share of the client's hits ragkit gives too, with the same text and metadata."""
    shared = met = 0
    for query in sample.queries[:WARM_UP]:
        answers = {name: {hit[0]: hit[1:3] for hit in ask(query)} for name, ask in sides.items()}
        shared += sum(answers["ragkit"].get(name) == rest for name, rest in answers["client"].items())
        met += len(answers["client"])
    return shared / met


def verdict(figures: Mapping[str, Any]) -> tuple[float, float, bool]:
    """How many times the client's time, how many milliseconds more, and whether that is within the bound."""
    client, ragkit = figures["wall_p50_ms"]["client"], figures["wall_p50_ms"]["ragkit"]
    kept = ragkit <= MOST_TIMES * client if client > LONG_MS else ragkit - client <= MOST_ADDED_MS
    return ragkit / client, ragkit - client, kept


def show(name: str, figures: Mapping[str, Any]) -> None:
    """One line of the table."""
    if "error" in figures:
        print(f"{name:16} {figures['error']}", flush=True)
        return
    times, added, kept = verdict(figures)
    wall, cpu = figures["wall_p50_ms"], figures["cpu_p50_ms"]
    print(
        f"{name:16} {wall['client']:9.3f} {wall['ragkit']:9.3f} {times:7.2f} {added:+9.3f}"
        f" {cpu['client']:9.3f} {cpu['ragkit']:9.3f} {figures['same_hits']:10.3f}  {'yes' if kept else 'NO'}",
        flush=True,
    )


def in_a_process_of_its_own(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """The figures of one store, or what went wrong."""
    flags = [f"--{flag}={getattr(arguments, flag)}" for flag in ("rows", "dimension", "queries", "rounds", "seed")]
    try:
        done = subprocess.run(
            [sys.executable, __file__, "--one", name, *flags],
            capture_output=True,
            text=True,
            timeout=arguments.limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"error": f"not done within {arguments.limit} s"}
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["no message"])[-1][:200]}
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main() -> None:
    """Parse the arguments; measure one store, or have each measured and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--stores", nargs="+", default=list(CONTESTS), choices=list(CONTESTS))
    parser.add_argument("--limit", type=float, default=1800, help="seconds for each store")
    parser.add_argument("--out", type=Path, help="a file for the figures as JSON")
    parser.add_argument("--one", choices=list(CONTESTS), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measured(CONTESTS[arguments.one], arguments)))
        return
    settings = {name: getattr(arguments, name) for name in ("rows", "dimension", "queries", "rounds", "seed")}
    machine = {"python": platform.python_version(), "platform": platform.platform(), "cores": os.cpu_count()}
    print(", ".join(f"{name} {value}" for name, value in (settings | machine).items()))
    print(f"{'':16} {'client ms':>9} {'ragkit ms':>9} {'times':>7} {'added ms':>9}", end="")
    print(f" {'cpu':>9} {'cpu':>9} {'same hits':>10}  within the bound")
    stores: dict[str, Any] = {}
    for name in arguments.stores:
        figures = in_a_process_of_its_own(name, arguments)
        stores[name] = figures | {"versions": {each: version(each) for each in CONTESTS[name].packages}}
        show(name, figures)
        if arguments.out:
            measured_at = datetime.now(UTC).isoformat(timespec="seconds")
            whole = {"measured_at": measured_at, **settings, **machine, "stores": stores}
            arguments.out.write_text(json.dumps(whole, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
