"""The store in PostgreSQL: one table with documents, their metadata as jsonb, and rows in a pgvector column.

A call of `add_documents` is one transaction, so that readers and other processes see all of it or nothing. Filters
are pushed down in full. The engine's own errors stay in here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar, cast

import numpy as np
import psycopg
from pgvector import Vector
from pgvector.psycopg import register_vector
from psycopg import conninfo, errors, sql

from ragkit.errors import DimensionMismatch, InvalidOption, KnowledgeBaseLocked, StoreError
from ragkit.records import Document, SearchResult
from ragkit.store.backends.adapter_utils import (
    deduplicate_by_id,
    document_from_json,
    document_to_json,
)
from ragkit.store.backends.pgvector_filters import encode_search_column, to_jsonb_sql
from ragkit.store.base import (
    Filter,
    Rows,
    validate_documents,
    validate_ids,
    validate_query,
    validate_rows,
    validate_top_k,
)
from ragkit.store.filters.flatten import flatten_metadata
from ragkit.store.filters.language import Always, Never, normalize_negations, parse_filter
from ragkit.store.options import PgvectorOptions
from ragkit.store.vector_store import VectorStore

MAX_ID_BYTES = 2_000
"""What PostgreSQL's index over the ids can hold of one."""
MAX_HNSW_DIMENSION = 2_000
"""pgvector's limit for an index over float32."""
_TABLE_COMMENT = "ragkit store, layout 1"
"""The comment on a table of ours; no other table is ever written to."""
_SCAN_ROWS = 500
_EXTRA_ROWS = 8
"""Rows asked for beyond those that are wanted, to see whether the last of them ties with more."""
_CONNECT_SECONDS = 10

_CREATE_TABLE = sql.SQL(
    "CREATE TABLE {table} (id bytea PRIMARY KEY, document text NOT NULL, search jsonb NOT NULL,"
    " embedding vector({dimension}) NOT NULL)"
)
_UPSERT = sql.SQL(
    "INSERT INTO {table} (id, document, search, embedding) VALUES (%s, %s, %s::jsonb, %s) ON CONFLICT (id) DO UPDATE"
    " SET document = excluded.document, search = excluded.search, embedding = excluded.embedding"
)
# "+ 0" keeps the planner away from an index over the rows, which may not find all of them
_EXACT_SEARCH = sql.SQL(
    "SELECT document, -distance FROM"
    " (SELECT id, document, (embedding <#> %s) + 0 AS distance FROM {table} {where}) AS every"
    " ORDER BY distance, id LIMIT %s"
)
# ordered by distance alone within, as an index knows no ids; once more without, as it gives them nearly in order
_INDEXED_SEARCH = sql.SQL(
    "SELECT document, -distance FROM"
    " (SELECT id, document, embedding <#> %s AS distance FROM {table} {where} ORDER BY distance LIMIT %s) AS nearest"
    " ORDER BY distance, id"
)

ResultT = TypeVar("ResultT")
_Connection = psycopg.Connection[tuple[object, ...]]


class PgvectorStore(VectorStore):
    """Documents and rows in a table of PostgreSQL. Safe for several threads and processes.

    With the method `exact` a search finds the nearest; with `hnsw` nearly all of them. Either way there
    are as many results as there are matches: where the index gives out under a rare filter, the rows are scanned.
    Ids have at most 2,000 bytes.
    """

    persistent = True
    shared = True

    def __init__(self, options: PgvectorOptions) -> None:
        """Connect, and look at the table if it is there.

        Raises:
            InvalidOption: the dsn is none; the index cannot hold rows of this dimension.
            DimensionMismatch: the table holds rows of another width than the options say.
            StoreError: no connection, no pgvector, or a table of that name that is not ours.
        """
        self._options = options
        self._table = sql.Identifier(options.table)
        self._pool = _PostgresConnectionPool(options)
        self._check_index_dimension(options.dimension or 1)
        try:
            here = self._run(self._read_dimension)
            if here and options.dimension not in {None, here}:
                raise DimensionMismatch(options.dimension or 0, here)
        except BaseException:
            self._pool.close()
            raise

    def add_documents(self, documents: Sequence[Document], embeddings: Rows) -> list[str]:
        """As `Store.add_documents` says; all of it is committed at once.

        Raises also:
            KnowledgeBaseLocked: another write was in the way for all of `lock_seconds`.
        """
        if not documents:
            return []
        rows = validate_rows(embeddings, len(documents), self._options.dimension)
        kept, kept_rows = deduplicate_by_id(validate_documents(documents), rows)
        values = [
            (
                _encode_id(document.id),
                document_to_json(document),
                encode_search_column(flatten_metadata(document.metadata)),
                Vector(row),
            )
            for document, row in zip(kept, kept_rows, strict=True)
        ]
        self._run(lambda connection: self._upsert(connection, rows.shape[1], values))
        return [document.id for document in documents]

    def search(self, query_embedding: Rows, top_k: int = 5, filter: Filter | None = None) -> list[SearchResult]:
        """As `Store.search` says, on what was committed when it began; with `hnsw` nearly so."""
        node = normalize_negations(parse_filter(filter))
        top_k = validate_top_k(top_k)
        query = validate_query(query_embedding, self._options.dimension)
        where, values = (sql.SQL(""), []) if isinstance(node, Always) else _where_clause(*to_jsonb_sql(node))

        def ask(connection: _Connection) -> list[tuple[object, ...]]:
            wanted = [Vector(query), *values, top_k]
            if self._options.method == "hnsw":
                wanted[-1] = top_k + _EXTRA_ROWS
                found = connection.execute(_INDEXED_SEARCH.format(table=self._table, where=where), wanted).fetchall()
                # it is cut where it should be if what comes next is farther than the last
                if isinstance(node, Never) or (len(found) > top_k and found[top_k - 1][1] != found[-1][1]):
                    return found[:top_k]
            # no index; or it gave out, as the filter is rare; or more rows tie than were asked for
            wanted[-1] = top_k
            return connection.execute(_EXACT_SEARCH.format(table=self._table, where=where), wanted).fetchall()

        nothing: list[tuple[object, ...]] = []
        found = self._run(ask, missing=nothing, got=len(query))
        return [
            SearchResult(document_from_json(cast("str", text)), max(-1.0, min(1.0, cast("float", score))))
            for text, score in found
        ]

    def delete(self, ids: Sequence[str]) -> int:
        """As `Store.delete` says."""
        names = [_encode_id(name) for name in validate_ids(ids) if _is_valid_id(name)]
        statement = sql.SQL("DELETE FROM {} WHERE id = ANY(%s)").format(self._table)
        return self._run(lambda connection: connection.execute(statement, [names]).rowcount, missing=0)

    def clear(self) -> None:
        """As `Store.clear` says: the table is dropped, and made anew by the next documents."""
        statement = sql.SQL("DROP TABLE IF EXISTS {}").format(self._table)

        def drop(connection: _Connection) -> None:
            with connection.transaction():
                self._lock_table(connection)
                if self._read_dimension(connection):
                    connection.execute(statement)

        self._run(drop)

    def count(self) -> int:
        """As `Store.count` says."""
        statement = sql.SQL("SELECT count(*) FROM {}").format(self._table)
        rows: list[tuple[object, ...]] = []
        rows = self._run(lambda connection: connection.execute(statement).fetchall(), missing=rows)
        return cast("int", rows[0][0]) if rows else 0

    def scan(self) -> Iterator[tuple[str, Document, Rows]]:
        """As `Store.scan` says; a snapshot of the first step is gone through."""
        statement = sql.SQL("SELECT document, embedding FROM {} ORDER BY id").format(self._table)
        if not self._run(self._read_dimension):  # and a connection that was cut is found out
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
        """As `Store.close` says."""
        self._pool.close()

    def _upsert(self, connection: _Connection, dimension: int, values: Sequence[tuple[object, ...]]) -> None:
        with connection.transaction():
            here = self._read_dimension(connection)
            if not here:
                self._check_index_dimension(dimension)
                self._lock_table(connection)
                here = self._read_dimension(connection) or self._create_table(connection, dimension)
            if dimension != here:
                raise DimensionMismatch(dimension, here)
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
        """Columns of a row; 0 when there is no table. Raises StoreError when the table is not ours."""
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
                f"the table {self._options.table!r} in {self._pool.location} was not made by this store: "
                "choose another name with its option `table`"
            )
        return cast("int", row[1])

    def _lock_table(self, connection: _Connection) -> None:
        """Wait until nobody else lays out or drops a table of this name; lasts as long as the transaction."""
        connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"ragkit {self._options.table}"])

    def _check_index_dimension(self, dimension: int) -> None:
        if self._options.method == "hnsw" and dimension > MAX_HNSW_DIMENSION:
            wanted = f"'exact' for rows of {dimension} columns (the index holds {MAX_HNSW_DIMENSION} at most)"
            raise InvalidOption("method", "hnsw", wanted)

    def _run(self, work: Callable[[_Connection], ResultT], *, missing: ResultT | None = None, got: int = 0) -> ResultT:
        """Do work on a connection; `missing` is the answer when there is no table, `got` the width of a query."""
        with self._translate_errors(got):
            try:
                return self._pool.run(work)
            except errors.UndefinedTable:
                if missing is None:
                    raise
                return missing

    @contextmanager
    def _translate_errors(self, got: int = 0) -> Iterator[None]:
        """psycopg's errors as ours; `got` is the width of a query."""
        where = self._pool.location
        try:
            yield
        except errors.LockNotAvailable as error:
            raise KnowledgeBaseLocked(f"the table {self._options.table!r} in {where}", "another connection") from error
        except errors.DataException as error:
            here = self._run(self._read_dimension)
            if got and here and got != here:
                raise DimensionMismatch(got, here) from error
            raise StoreError(f"{where} refused a value: {_format_error(error)}") from error
        except psycopg.Error as error:
            raise StoreError(f"{where} cannot be used: {_format_error(error)}") from error


def _where_clause(sql_text: str, values: list[object]) -> tuple[sql.SQL, list[object]]:
    # the text is our own: fields and values of the filter are parameters
    return sql.SQL(f"WHERE {sql_text}"), values


def _encode_id(name: str) -> bytes:
    """An id as it is kept: UTF-8, so that ids sort by code point. Raises StoreError when it is too long."""
    raw = name.encode("utf-8", "surrogatepass")
    if len(raw) > MAX_ID_BYTES:
        raise StoreError(f"the id {name[:40]!r}... has {len(raw)} bytes: the store 'pgvector' takes {MAX_ID_BYTES}")
    return raw


def _is_valid_id(name: str) -> bool:
    return len(name.encode("utf-8", "surrogatepass")) <= MAX_ID_BYTES


def _format_error(error: psycopg.Error) -> str:
    """What an error says, on one line."""
    return " ".join((error.diag.message_primary or str(error) or type(error).__name__).split())


class _PostgresConnectionPool:
    """Open connections in autocommit mode, each lent to one thread at a time."""

    def __init__(self, options: PgvectorOptions) -> None:
        try:
            named = conninfo.conninfo_to_dict(options.dsn)
        except psycopg.ProgrammingError as error:
            raise InvalidOption("dsn", "...", "postgresql://user:password@host:5432/database") from error
        self.location = f"PostgreSQL at {named.get('host') or 'localhost'}:{named.get('port') or 5432}"
        """For messages: never with user or password."""
        self._options = options
        self._lock = threading.Lock()
        self._idle: list[_Connection] | None = []

    def run(self, work: Callable[[_Connection], ResultT]) -> ResultT:
        """Do work on a connection.

        One that was kept may have been cut meanwhile, by a restart of the server: then the work, which is done as
        a whole or not at all, is tried once more on a new one.
        """
        with self.connection() as connection:
            try:
                return work(connection)
            except psycopg.OperationalError:
                if not connection.closed:
                    raise
        self._close_idle()
        with self.connection() as connection:
            return work(connection)

    @contextmanager
    def connection(self) -> Iterator[_Connection]:
        """A connection, outside of any transaction."""
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
        """Close all; those that are lent out are closed when they come back."""
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
            connection: _Connection = psycopg.connect(
                self._options.dsn, autocommit=True, application_name="ragkit", connect_timeout=_CONNECT_SECONDS
            )
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
                connection.execute("SELECT '[1]'::vector")  # loads the library, which knows the settings
                connection.execute(sql.SQL("SET hnsw.ef_search = {}").format(sql.Literal(options.ef_search)))
                # not strict_order: it leaves out what it finds too late, a tenth of the nearest under a rare filter
                connection.execute("SET hnsw.iterative_scan = relaxed_order")
            except psycopg.Error as error:
                raise StoreError(f"{self.location} has a pgvector that is too old: 0.8 or newer is wanted") from error

    def _create_extension(self, connection: _Connection) -> None:
        try:
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        except errors.UniqueViolation:
            pass  # another connection was faster
        except psycopg.Error as error:
            raise StoreError(
                f"{self.location} has no pgvector ({_format_error(error)}): install it, and run CREATE EXTENSION vector"
            ) from error
