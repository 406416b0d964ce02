"""Dense search in PostgreSQL, for copies of a knowledge base that leave the vectors there.

Candidates come from an HNSW index of pgvector over half-precision vectors, if the writer made one, else from a scan of
all vectors. Scores are always those of the full vectors, so that they are the same as those of a copy with vectors.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from psycopg import sql

from ragkit.index.catalog.database_url import DatabaseUrl
from ragkit.index.catalog.postgres import PostgresCatalog
from ragkit.index.catalog.postgres_connection import Connection

MAX_LISTED_KEYS = 20_000
"""Up to so many allowed chunks are compared one by one: exact, and faster than an index that finds mostly others."""
MAX_INDEX_CANDIDATES = 10_000
"""An index search that would need more candidates is a scan instead."""
MIN_EF_SEARCH = 400
"""Candidates of a search of the index: recall@10 was .76 with 100, .90 with 400 (114,000 chunks of mixed sentences)."""
MAX_EF_SEARCH = 1_000
"""The largest `hnsw.ef_search` of pgvector."""
MIN_INDEXED_VECTORS = 20_000
"""Fewer vectors are scanned, in some 20 ms; an index would find the same."""
MAX_HALFVEC_DIMENSION = 4_000
"""The largest dimension that pgvector indexes in half precision."""
_MARGIN = 10
"""Candidates beyond `top_k`, since PostgreSQL adds up in another order."""

Vector = NDArray[np.float32]
Keys = NDArray[np.int64]


@dataclass(frozen=True)
class _Embedder:
    key: int
    dimension: int
    has_index: bool
    vectors: int


class DatabaseVectors:
    """The vectors of the chunks of a knowledge base, in its database. Safe for several threads.

    Raises:
        DatabaseFailed: the database is unreachable; from any method.
    """

    def __init__(self, url: DatabaseUrl) -> None:
        self._url = url
        self._lock = threading.Lock()
        self._idle: list[PostgresCatalog] = []
        self._closed = False

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            self._closed = True
            for catalog in self._idle:
                catalog.close()
            self._idle.clear()

    def count(self) -> int:
        """The number of vectors."""
        with self._catalog() as catalog:
            row = catalog.run(lambda c: c.execute("SELECT count(*) FROM vectors").fetchone())
        return int(row[0]) if row else 0

    def search(self, fingerprint: str, query: Vector, top_k: int, allowed: Keys) -> list[tuple[int, str, float]]:
        """The chunks nearest to a unit vector, (dimension,), of those with the keys `allowed`, ascending.

        Returns (key, chunk id, cosine), best first, ties by key: at least `top_k` if there are as many.
        """
        limit = top_k + _MARGIN
        with self._catalog() as catalog:
            embedder = catalog.run(lambda c: _find_embedder(c, fingerprint))
            if embedder is None or embedder.dimension != len(query):
                return []
            wanted = 2 * limit * max(embedder.vectors, len(allowed)) // max(1, len(allowed))
            rows: list[tuple[int, str, bytes]] = []
            if len(allowed) > MAX_LISTED_KEYS:
                limits = [max(limit, min(wanted, MAX_INDEX_CANDIDATES))] if embedder.has_index else []
                if not limits and wanted <= 4 * limit:
                    limits = [wanted]
                for number in limits:
                    found = catalog.run(lambda c, n=number: _search_all(c, embedder, query, n))  # type: ignore[misc]
                    rows = [row for row in found if _contains(allowed, row[0])]
            if len(rows) < min(top_k, len(allowed)):
                rows = catalog.run(lambda c: _search_among(c, embedder, query, limit, allowed))
        if not rows:
            return []
        scores = _decode([row[2] for row in rows]) @ query
        result = [(key, identity, float(score)) for (key, identity, _), score in zip(rows, scores, strict=True)]
        return sorted(result, key=lambda row: (-row[2], row[0]))

    def fetch(self, fingerprint: str, keys: Sequence[int]) -> dict[int, Vector]:
        """The vectors of these chunks; those that the database does not have any more are missing."""
        query = (
            "SELECT c.key, vector_send(v.embedding) FROM chunks c JOIN vectors v ON v.text_hash = c.text_hash"
            " AND v.embedder = (SELECT key FROM embedders WHERE fingerprint = %s) WHERE c.key = ANY(%s::bigint[])"
        )
        values = fingerprint, [int(key) for key in keys]
        with self._catalog() as catalog:
            rows = catalog.run(lambda c: c.cursor(binary=True).execute(query, values).fetchall())
        return dict(zip([int(row[0]) for row in rows], _decode([row[1] for row in rows]), strict=True)) if rows else {}

    @contextmanager
    def _catalog(self) -> Iterator[PostgresCatalog]:
        """A connection that no other thread uses."""
        with self._lock:
            catalog = self._idle.pop() if self._idle else PostgresCatalog(self._url)
        try:
            yield catalog
        finally:
            with self._lock:
                keep = not self._closed
                if keep:
                    self._idle.append(catalog)
            if not keep:
                catalog.close()


def create_vector_index(catalog: PostgresCatalog) -> None:
    """Create the HNSW index of the current embedder's vectors, unless there is one, or too few; drop unused ones."""
    fingerprint = catalog.read_meta("embedder") or ""

    def create(connection: Connection) -> None:
        embedder = _find_embedder(connection, fingerprint)
        for name in _unused_indexes(connection, embedder):
            connection.execute(sql.SQL("DROP INDEX IF EXISTS {}").format(connection.table(name)))
        if embedder is None or embedder.has_index or not _can_index(connection, embedder):
            return
        query = sql.SQL("CREATE INDEX CONCURRENTLY {} ON {} USING hnsw ({} {}) WHERE embedder = {}").format(
            sql.Identifier(_index_name(embedder.key)),
            connection.table("vectors"),
            _halfvec(connection, embedder),
            sql.Identifier(connection.vector_schema, "halfvec_ip_ops"),
            sql.Literal(embedder.key),
        )
        connection.execute(query)

    catalog.run_alone(create)


def _can_index(connection: Connection, embedder: _Embedder) -> bool:
    row = connection.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
    version = tuple(map(int, str(row[0]).split(".")[:2])) if row else (0, 0)
    row = connection.execute("SELECT count(*) FROM vectors WHERE embedder = %s", (embedder.key,)).fetchone()
    vectors = int(row[0]) if row else 0
    return version >= (0, 8) and vectors >= MIN_INDEXED_VECTORS and embedder.dimension <= MAX_HALFVEC_DIMENSION


def _unused_indexes(connection: Connection, embedder: _Embedder | None) -> list[str]:
    """Those of embedders that are gone, and those that were not finished."""
    rows = connection.execute(
        "SELECT c.relname, i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
        " WHERE i.indrelid = %s::regclass AND starts_with(c.relname, 'vectors_hnsw_')",
        (_vectors_table(connection),),
    ).fetchall()
    current = _index_name(embedder.key) if embedder is not None else ""
    return [str(name) for name, is_valid in rows if name != current or not is_valid]


def _find_embedder(connection: Connection, fingerprint: str) -> _Embedder | None:
    row = connection.execute(
        "SELECT e.key, e.dimension, EXISTS (SELECT 1 FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE"
        " i.indrelid = %s::regclass AND i.indisvalid AND c.relname = 'vectors_hnsw_' || e.key),"
        " (SELECT greatest(reltuples, 0) FROM pg_class WHERE oid = %s::regclass)"
        " FROM embedders e WHERE e.fingerprint = %s",
        (_vectors_table(connection), _vectors_table(connection), fingerprint),
    ).fetchone()
    return None if row is None else _Embedder(int(row[0]), int(row[1]), bool(row[2]), int(row[3]))


def _search_all(connection: Connection, embedder: _Embedder, query: Vector, limit: int) -> list[tuple[int, str, bytes]]:
    """The chunks of the `limit` nearest vectors."""
    column = _halfvec(connection, embedder) if embedder.has_index else sql.Identifier("embedding")
    kind = sql.Identifier(connection.vector_schema, "halfvec" if embedder.has_index else "vector")
    statement = sql.SQL(
        "SELECT c.key, c.id, {send}(v.embedding) FROM (SELECT text_hash, embedding FROM {vectors}"
        " WHERE embedder = {embedder} ORDER BY {column} OPERATOR({schema}.<#>) {query}::{kind} LIMIT {limit}) v"
        " JOIN {chunks} c ON c.text_hash = v.text_hash"
    ).format(
        send=sql.Identifier(connection.vector_schema, "vector_send"),
        vectors=connection.table("vectors"),
        embedder=sql.Literal(embedder.key),
        column=column,
        schema=sql.Identifier(connection.vector_schema),
        query=sql.Literal(_to_text(query)),
        kind=kind,
        limit=sql.Literal(limit),
        chunks=connection.table("chunks"),
    )
    if embedder.has_index:
        connection.execute(f"SET LOCAL hnsw.ef_search = {min(max(limit, MIN_EF_SEARCH), MAX_EF_SEARCH)}")
        connection.execute("SET LOCAL hnsw.iterative_scan = strict_order")
        connection.execute("SET LOCAL enable_seqscan = off")
    rows = connection.cursor(binary=True).execute(statement).fetchall()
    return [(int(row[0]), str(row[1]), bytes(row[2])) for row in rows]


def _search_among(
    connection: Connection, embedder: _Embedder, query: Vector, limit: int, allowed: Keys
) -> list[tuple[int, str, bytes]]:
    """The nearest of these chunks, by comparing all of them."""
    statement = (
        "SELECT c.key, c.id, vector_send(v.embedding) FROM chunks c JOIN vectors v ON v.text_hash = c.text_hash"
        " AND v.embedder = %s WHERE c.key = ANY(%s::bigint[]) ORDER BY v.embedding <#> %s::vector, c.key LIMIT %s"
    )
    values = embedder.key, allowed.tolist(), _to_text(query), limit
    rows = connection.cursor(binary=True).execute(statement, values).fetchall()
    return [(int(row[0]), str(row[1]), bytes(row[2])) for row in rows]


def _halfvec(connection: Connection, embedder: _Embedder) -> sql.Composed:
    kind = sql.Identifier(connection.vector_schema, "halfvec")
    return sql.SQL("(embedding::{}({}))").format(kind, sql.Literal(embedder.dimension))


def _vectors_table(connection: Connection) -> str:
    return connection.table("vectors").as_string(connection)


def _index_name(embedder: int) -> str:
    return f"vectors_hnsw_{embedder}"


def _to_text(query: Vector) -> str:
    return f"[{','.join(map(repr, query.tolist()))}]"


def _decode(values: Sequence[Any]) -> Vector:
    """pgvector's binary form: two 16-bit numbers, then the values, all big-endian."""
    body = np.frombuffer(b"".join(bytes(value)[4:] for value in values), ">f4")
    return body.reshape(len(values), -1).astype(np.float32)


def _contains(keys: Keys, key: int) -> bool:
    place = int(np.searchsorted(keys, key))
    return place < len(keys) and int(keys[place]) == key
