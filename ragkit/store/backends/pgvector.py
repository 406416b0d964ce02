"""The store `pgvector`: a PostgreSQL table with documents, metadata as jsonb, and vectors in a pgvector column.

A call of `add_documents` is one transaction. Filters are pushed down completely.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import numpy as np
import psycopg
from pgvector import Vector
from pgvector.psycopg import register_vector
from psycopg import conninfo, errors, sql

from ragkit.errors import DimensionMismatch, InvalidOption, KnowledgeBaseLocked, StoreError
from ragkit.records import Document, SearchResult
from ragkit.sql import POSTGRES_CLIENT_LIMITS
from ragkit.store.backends.adapter_utils import deduplicate_by_id, document_from_json, document_to_json
from ragkit.store.backends.pgvector_filters import encode_search_column, to_jsonb_sql
from ragkit.store.base import (
    Filter,
    Rows,
    validate_documents,
    validate_ids,
    validate_query,
    validate_rows,
    validate_stored_dimension,
    validate_top_k,
)
from ragkit.store.filters.flatten import flatten_metadata
from ragkit.store.filters.language import Always, Never, normalize_negations, parse_filter
from ragkit.store.options import PgvectorOptions
from ragkit.store.vector_store import VectorStore

MAX_ID_BYTES = 2_000
"""PostgreSQL's limit for an indexed id."""
MAX_HNSW_DIMENSION = 2_000
"""pgvector's limit for an index of float32 vectors."""
_TABLE_COMMENT = "ragkit store, layout 1"
"""The comment on a table of this store; other tables are never written to."""
_SCAN_ROWS = 500
_EXTRA_ROWS = 8
"""Rows fetched beyond `top_k`, to detect ties with the last result."""
_CONNECT_SECONDS = 10

_CREATE_TABLE = sql.SQL(
    "CREATE TABLE {table} (id bytea PRIMARY KEY, document text NOT NULL, search jsonb NOT NULL,"
    " embedding vector({dimension}) NOT NULL)"
)
_UPSERT = sql.SQL(
    "INSERT INTO {table} (id, document, search, embedding) VALUES (%s, %s, %s::jsonb, %s) ON CONFLICT (id) DO UPDATE"
    " SET document = excluded.document, search = excluded.search, embedding = excluded.embedding"
)
# "+ 0" prevents the use of the vector index, which is approximate
_EXACT_SEARCH = sql.SQL(
    "SELECT document, -distance FROM"
    " (SELECT id, document, (embedding <#> %s) + 0 AS distance FROM {table} {where}) AS every"
    " ORDER BY distance, id LIMIT %s"
)
# the inner query orders by distance only, so that the index is used; the outer sorts the relaxed order and ties
_INDEXED_SEARCH = sql.SQL(
    "SELECT document, -distance FROM"
    " (SELECT id, document, embedding <#> %s AS distance FROM {table} {where} ORDER BY distance LIMIT %s) AS nearest"
    " ORDER BY distance, id"
)

ResultT = TypeVar("ResultT")
_Connection = psycopg.Connection[tuple[object, ...]]


class PgvectorStore(VectorStore):
    """Documents and vectors in a PostgreSQL table. Safe for several threads and processes.

    The method `exact` returns the nearest documents, `hnsw` nearly all of them. Results are complete either way: if
    the index returns too few under a rare filter, the rows are scanned. Ids are limited to 2,000 bytes.
    """

    persistent = True
    shared = True

    def __init__(self, options: PgvectorOptions) -> None:
        """Connect, and check the table if it exists.

        Raises:
            InvalidOption: the dsn is invalid, or the index does not support this dimension.
            DimensionMismatch: the stored vectors have another dimension.
            StoreError: no connection, no pgvector, or the table was not created by this store.
        """
        self._options = options
        self._table = sql.Identifier(options.table)
        self._pool = _PostgresConnectionPool(options)
        self._check_index_dimension(options.dimension or 1)
        try:
            validate_stored_dimension(self._run(self._read_dimension), options.dimension)
        except BaseException:
            self._pool.close()
            raise

    def add_documents(self, documents: Sequence[Document], embeddings: Rows) -> list[str]:
        """See `Store.add_documents`; one call is one transaction.

        Raises also:
            KnowledgeBaseLocked: another write held a lock for all of `lock_seconds`.
        """
        if not documents:
            return []
        rows = validate_rows(embeddings, len(documents), self._options.dimension)
        unique, unique_rows = deduplicate_by_id(validate_documents(documents), rows)
        values = [
            (
                _encode_id(document.id),
                document_to_json(document),
                encode_search_column(flatten_metadata(document.metadata)),
                Vector(row),
            )
            for document, row in zip(unique, unique_rows, strict=True)
        ]
        self._run(lambda connection: self._upsert(connection, rows.shape[1], values))
        return [document.id for document in documents]

    def search(self, query_embedding: Rows, top_k: int = 5, filter: Filter | None = None) -> list[SearchResult]:
        """See `Store.search`; reads the state committed when it starts. Approximate with the method `hnsw`."""
        node = normalize_negations(parse_filter(filter))
        top_k = validate_top_k(top_k)
        query = validate_query(query_embedding, self._options.dimension)
        where, values = sql.SQL(""), list[object]()
        if not isinstance(node, Always):
            condition, values = to_jsonb_sql(node)  # fields and values of the filter are parameters
            where = sql.SQL(f"WHERE {condition}")

        def fetch(connection: _Connection) -> list[tuple[object, ...]]:
            parameters = [Vector(query), *values, top_k]
            if self._options.method == "hnsw":
                parameters[-1] = top_k + _EXTRA_ROWS
                statement = _INDEXED_SEARCH.format(table=self._table, where=where)
                rows = connection.execute(statement, parameters).fetchall()
                # complete if a fetched row is farther than the last result
                if isinstance(node, Never) or (len(rows) > top_k and rows[top_k - 1][1] != rows[-1][1]):
                    return rows[:top_k]
            # no index, or too few results under a rare filter, or more ties than extra rows
            parameters[-1] = top_k
            return connection.execute(_EXACT_SEARCH.format(table=self._table, where=where), parameters).fetchall()

        nothing: list[tuple[object, ...]] = []
        rows = self._run(fetch, missing=nothing, got=len(query))
        return [
            SearchResult(document_from_json(cast("str", text)), max(-1.0, min(1.0, cast("float", score))))
            for text, score in rows
        ]

    def delete(self, ids: Sequence[str]) -> int:
        """See `Store.delete`."""
        keys = [key for name in validate_ids(ids) if len(key := name.encode("utf-8", "surrogatepass")) <= MAX_ID_BYTES]
        statement = sql.SQL("DELETE FROM {} WHERE id = ANY(%s)").format(self._table)
        return self._run(lambda connection: connection.execute(statement, [keys]).rowcount, missing=0)

    def clear(self) -> None:
        """See `Store.clear`; drops the table, which the next write creates again."""
        statement = sql.SQL("DROP TABLE IF EXISTS {}").format(self._table)

        def drop(connection: _Connection) -> None:
            with connection.transaction():
                self._lock_table(connection)
                if self._read_dimension(connection):
                    connection.execute(statement)

        self._run(drop)

    def count(self) -> int:
        """See `Store.count`."""
        statement = sql.SQL("SELECT count(*) FROM {}").format(self._table)
        rows: list[tuple[object, ...]] = []
        rows = self._run(lambda connection: connection.execute(statement).fetchall(), missing=rows)
        return cast("int", rows[0][0]) if rows else 0

    def scan(self) -> Iterator[tuple[str, Document, Rows]]:
        """See `Store.scan`; iterates over a snapshot taken at the first step."""
        statement = sql.SQL("SELECT document, embedding FROM {} ORDER BY id").format(self._table)
        if not self._run(self._read_dimension):  # also replaces a lost connection
            return
        with self._translate_errors(), self._pool.connection() as connection, connection.transaction():
            if not self._read_dimension(connection):
                return
            with connection.cursor("scan") as cursor:
                cursor.itersize = _SCAN_ROWS
                for text, row in cursor.execute(statement):
                    document = document_from_json(cast("str", text))
                    yield document.id, document, np.asarray(cast("Vector", row).to_numpy(), np.float32)

    def close(self) -> None:
        """See `Store.close`."""
        self._pool.close()

    def _upsert(self, connection: _Connection, dimension: int, values: Sequence[tuple[object, ...]]) -> None:
        with connection.transaction():
            stored = self._read_dimension(connection)
            if not stored:
                self._check_index_dimension(dimension)
                self._lock_table(connection)
                stored = self._read_dimension(connection) or self._create_table(connection, dimension)
            if dimension != stored:
                raise DimensionMismatch(dimension, stored)
            with connection.cursor() as cursor:
                cursor.executemany(_UPSERT.format(table=self._table), values)

    def _create_table(self, connection: _Connection, dimension: int) -> int:
        options = self._options
        connection.execute(_CREATE_TABLE.format(table=self._table, dimension=sql.Literal(dimension)))
        connection.execute(sql.SQL("COMMENT ON TABLE {} IS {}").format(self._table, sql.Literal(_TABLE_COMMENT)))
        connection.execute(sql.SQL("CREATE INDEX ON {} USING gin (search jsonb_path_ops)").format(self._table))
        if options.method == "hnsw":
            connection.execute(
                sql.SQL(
                    "CREATE INDEX ON {} USING hnsw (embedding vector_ip_ops) WITH (m = {}, ef_construction = {})"
                ).format(self._table, sql.Literal(options.m), sql.Literal(options.ef_construction))
            )
        return dimension

    def _read_dimension(self, connection: _Connection) -> int:
        """The dimension of the table; 0 if it does not exist. Raises StoreError if this store did not create it."""
        row = connection.execute(
            "SELECT obj_description(c.oid, 'pg_class'), a.atttypmod FROM pg_class c"
            " LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'embedding'"
            " WHERE c.oid = to_regclass(%s)",
            [self._table.as_string(connection)],
        ).fetchone()
        if row is None:
            return 0
        if row[0] != _TABLE_COMMENT:
            raise StoreError(
                f"the table {self._options.table!r} in {self._pool.location} was not created by this store: "
                "choose another name with its option `table`"
            )
        return cast("int", row[1])

    def _lock_table(self, connection: _Connection) -> None:
        """Lock the creation and removal of the table until the end of the transaction."""
        connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"ragkit {self._options.table}"])

    def _check_index_dimension(self, dimension: int) -> None:
        if self._options.method == "hnsw" and dimension > MAX_HNSW_DIMENSION:
            rule = f"'exact' for dimension {dimension} (the index supports at most {MAX_HNSW_DIMENSION})"
            raise InvalidOption("method", "hnsw", rule)

    def _run(
        self, function: Callable[[_Connection], ResultT], *, missing: ResultT | None = None, got: int = 0
    ) -> ResultT:
        """Call a function with a connection; `missing` is the result without a table, `got` the query's dimension."""
        with self._translate_errors(got):
            try:
                return self._pool.run(function)
            except errors.UndefinedTable:
                if missing is None:
                    raise
                return missing

    @contextmanager
    def _translate_errors(self, got: int = 0) -> Iterator[None]:
        """Translate the errors of psycopg; `got` is the dimension of a query."""
        location = self._pool.location
        try:
            yield
        except errors.LockNotAvailable as error:
            table = f"the table {self._options.table!r} in {location}"
            raise KnowledgeBaseLocked(table, "another connection") from error
        except errors.DataException as error:
            stored = self._run(self._read_dimension)
            if got and stored and got != stored:
                raise DimensionMismatch(got, stored) from error
            raise StoreError(f"{location} rejected a value: {_format_error(error)}") from error
        except psycopg.Error as error:
            raise StoreError(f"{location} failed: {_format_error(error)}") from error


def _encode_id(name: str) -> bytes:
    """An id as UTF-8, so that ids sort by code point. Raises StoreError if it is too long."""
    raw = name.encode("utf-8", "surrogatepass")
    if len(raw) > MAX_ID_BYTES:
        limit = f"{len(raw)} bytes, at most {MAX_ID_BYTES}"
        raise StoreError(f"the id {name[:40]!r}... is too long for the store 'pgvector': {limit}")
    return raw


def _format_error(error: psycopg.Error) -> str:
    """The message of an error on one line."""
    return " ".join((error.diag.message_primary or str(error) or type(error).__name__).split())


class _PostgresConnectionPool:
    """A pool of connections in autocommit mode; each is used by one thread at a time."""

    def __init__(self, options: PgvectorOptions) -> None:
        try:
            parameters = conninfo.conninfo_to_dict(options.dsn)
        except psycopg.ProgrammingError as error:
            raise InvalidOption("dsn", "...", "like postgresql://user:password@host:5432/database") from error
        self.location = f"PostgreSQL at {parameters.get('host') or 'localhost'}:{parameters.get('port') or 5432}"
        """For messages, without user and password."""
        self._options = options
        self._lock = threading.Lock()
        self._idle: list[_Connection] | None = []

    def run(self, function: Callable[[_Connection], ResultT]) -> ResultT:
        """Call a function, which must be atomic, with a connection.

        If the connection was lost, for example by a restart of the server, retries once with a new one.
        """
        with self.connection() as connection:
            try:
                return function(connection)
            except psycopg.OperationalError:
                if not connection.closed:
                    raise
        self._close_idle()
        with self.connection() as connection:
            return function(connection)

    @contextmanager
    def connection(self) -> Iterator[_Connection]:
        """A connection without a transaction."""
        with self._lock:
            if self._idle is None:
                raise StoreError(f"the store in {self.location} is closed: open it again")
            connection = self._idle.pop() if self._idle else None
        connection = connection or self._connect()
        try:
            yield connection
        finally:
            with self._lock:
                is_kept = self._idle is not None and not connection.closed
                if self._idle is not None and is_kept:
                    self._idle.append(connection)
            if not is_kept:
                connection.close()

    def close(self) -> None:
        """Close all connections; those in use are closed when they are released."""
        with self._lock:
            idle, self._idle = self._idle or [], None
        for connection in idle:
            connection.close()

    def _close_idle(self) -> None:
        with self._lock:
            idle = self._idle or []
            self._idle = self._idle and []
        for connection in idle:
            connection.close()

    def _connect(self) -> _Connection:
        try:
            limits = {**POSTGRES_CLIENT_LIMITS, "connect_timeout": _CONNECT_SECONDS, "application_name": "ragkit"}
            options: dict[str, Any] = {**limits, **conninfo.conninfo_to_dict(self._options.dsn)}
            connection: _Connection = psycopg.connect(autocommit=True, **options)
        except psycopg.OperationalError as error:
            raise StoreError(
                f"{self.location} cannot be reached ({_format_error(error)}): start it, or correct the option `dsn`"
            ) from error
        try:
            self._configure(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _configure(self, connection: _Connection) -> None:
        options = self._options
        try:
            register_vector(connection)
        except psycopg.ProgrammingError:
            self._create_extension(connection)
            register_vector(connection)
        milliseconds = max(1, round(options.lock_seconds * 1000))
        connection.execute(sql.SQL("SET lock_timeout = {}").format(sql.Literal(milliseconds)))
        if options.method == "hnsw":
            try:
                connection.execute("SELECT '[1]'::vector")  # loads the library, which defines the settings
                connection.execute(sql.SQL("SET hnsw.ef_search = {}").format(sql.Literal(options.ef_search)))
                # not strict_order: it discards rows found out of order, a tenth of the nearest under a rare filter
                connection.execute("SET hnsw.iterative_scan = relaxed_order")
            except psycopg.Error as error:
                raise StoreError(f"pgvector of {self.location} is too old: version 0.8 or newer is required") from error

    def _create_extension(self, connection: _Connection) -> None:
        try:
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        except errors.UniqueViolation:
            pass  # another connection created it
        except psycopg.Error as error:
            raise StoreError(
                f"{self.location} has no pgvector ({_format_error(error)}): install it, and run CREATE EXTENSION vector"
            ) from error
