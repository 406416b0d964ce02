"""A directory with documents in SQLite and vectors in a file: the base class of the stores `sqlite` and `faiss`.

A write appends rows to the vector file, syncs it, and commits the documents that refer to these rows: a process that
is killed in between leaves unreferenced rows, never a document without its row. A committed row never changes. Readers
work on a snapshot; several threads and processes may read while one writes.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from ragkit.errors import DimensionMismatch, InvalidVector, KnowledgeBaseDamaged, KnowledgeBaseLocked, StoreError
from ragkit.records import Document, SearchResult
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
from ragkit.store.fast_records import build_results
from ragkit.store.filters.language import Always, parse_filter
from ragkit.store.native.directory_tables import (
    DATABASE_FILE,
    REPAIR_HINT,
    StoreState,
    column_checksum,
    connect,
    create_tables,
    encode_document,
    encode_id,
    read_state,
    translate_errors,
)
from ragkit.store.native.directory_view import StaleView, StoreView, batches, open_vector_file, open_view, placeholders
from ragkit.store.native.exact_search import AllowedRows
from ragkit.store.native.scanner import Scanner
from ragkit.store.native.vector_file import VectorFile, row_checksums
from ragkit.store.vector_store import VectorStore

_MIN_DEAD_ROWS = 256
"""Minimum number of dead rows for a compaction."""
_COPY_ROWS = 8_192
"""Rows that compaction copies at a time."""


class DirectoryStore(VectorStore):
    """Documents and vectors in a directory. Safe for several threads and processes; one writes.

    Subclasses may override how the rows are searched (`_create_scanner`) and `max_dead_share`.
    """

    persistent = True
    shared = True
    max_dead_share: ClassVar[float] = 1 / 2
    """Maximum share of dead rows; above it, the vector file is rewritten without them."""

    def __init__(self, path: Path, dimension: int | None, busy_seconds: float) -> None:
        """Open or create the directory.

        Args:
            path: the directory.
            dimension: dimension of the vectors; None takes that of the stored or the first vectors.
            busy_seconds: seconds that a write waits for another process that is writing.

        Raises:
            DimensionMismatch: the stored vectors have another dimension.
            KnowledgeBaseDamaged: the database is damaged or has an unknown layout.
            StoreError: the directory cannot be created or opened.
        """
        self._path, self._expected_dimension, self._busy_seconds = path, dimension, busy_seconds
        self._write_lock = threading.Lock()
        self._view_lock = threading.Lock()
        self._view: StoreView | None = None
        self._is_cleaned_up = self._has_written = False
        try:
            self._path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"cannot create the directory {self._path}: {error.strerror}") from error
        self._pool = _SqliteConnectionPool(path / DATABASE_FILE, busy_seconds)
        try:
            with translate_errors(self._path), self._pool.connection() as connection:
                create_tables(connection, busy_seconds)
                validate_stored_dimension(read_state(connection, self._path).dimension, dimension)
        except BaseException:
            self._pool.close()
            raise

    def add_documents(self, documents: Sequence[Document], embeddings: Rows) -> list[str]:
        """See `Store.add_documents`; one call is one transaction.

        Raises also:
            KnowledgeBaseLocked: another process was writing for all of `busy_seconds`.
        """
        if not documents:
            return []
        unique = validate_documents(documents)
        last = sorted({document.id: position for position, document in enumerate(unique)}.values())
        with self._write_transaction() as (connection, state):
            rows = validate_rows(embeddings, len(unique), state.dimension or self._expected_dimension)
            if len(last) < len(unique):
                unique, rows = [unique[position] for position in last], rows[last]
            committed = self._insert(connection, state, unique, rows)
        self._compact_if_needed(committed)
        return [document.id for document in documents]

    def search(self, query_embedding: Rows, top_k: int = 5, filter: Filter | None = None) -> list[SearchResult]:
        """See `Store.search`; reads the state committed by any process when it starts."""
        node = parse_filter(filter)
        top_k = validate_top_k(top_k)
        results = self._search_cached_view(query_embedding, top_k) if isinstance(node, Always) else None
        if results is not None:
            return results
        with self._read_transaction() as (connection, view):
            query = validate_query(query_embedding, view.state.dimension or self._expected_dimension)
            if not view.state.documents:
                return []
            return _search_view(connection, view, query, top_k, view.allowed_rows(connection, node))

    def _search_cached_view(self, query_embedding: Rows, top_k: int) -> list[SearchResult] | None:
        """Search the current view without a transaction; None if a write made it stale.

        Without a filter, only the documents of the results are read from the database. The statement that reads them
        returns the generation, and generations only increase: if it is the view's, the view is current.
        """
        view = self._view
        if view is None or not view.state.documents:
            return None
        connection = self._pool.acquire()
        try:
            query = validate_query(query_embedding, view.state.dimension)
            return _search_view(connection, view, query, top_k, view.live_mask())
        except (StaleView, KnowledgeBaseDamaged, DimensionMismatch, InvalidVector, sqlite3.Error):
            return None  # the search in a transaction raises the error if it persists
        finally:
            self._pool.release(connection)

    def delete(self, ids: Sequence[str]) -> int:
        """See `Store.delete`."""
        unique_ids = validate_ids(ids)
        with self._write_transaction() as (connection, state):
            removed = _mark_dead(connection, unique_ids, state.generation + 1)
            if not removed:
                return 0
            committed = replace(state, generation=state.generation + 1, documents=state.documents - removed)
            _write_state(connection, committed)
        self._compact_if_needed(committed)
        return removed

    def clear(self) -> None:
        """See `Store.clear`."""
        with self._write_transaction() as (connection, state):
            for table in ("documents", "metadata", "dead"):
                connection.execute(f"DELETE FROM {table}")  # noqa: S608  # constant names
            empty = StoreState(state.generation + 1, file="", file_id=b"", dimension=0, rows=0, documents=0)
            _write_state(connection, empty)
        with suppress(KnowledgeBaseLocked):  # the next writer does it
            self._clean_up()

    def count(self) -> int:
        """See `Store.count`."""
        with self._read_transaction() as (_, view):
            return view.state.documents

    def scan(self) -> Iterator[tuple[str, Document, Rows]]:
        """See `Store.scan`; iterates over a snapshot taken at the first step."""
        with self._read_transaction() as (connection, view):
            for row, document in view.iter_documents(connection, "ORDER BY documents.id"):
                yield document.id, document, view.matrix[row].copy()

    def close(self) -> None:
        """See `Store.close`. A running search completes."""
        if self._has_written:
            self._empty_write_ahead_log()
        self._pool.close()
        with self._view_lock:
            if self._view is not None and self._view.file is not None:
                self._view.file.close()
            self._view = None

    @contextmanager
    def _read_transaction(self) -> Iterator[tuple[sqlite3.Connection, StoreView]]:
        """A connection in a transaction, and the view of the state that the transaction sees."""
        with translate_errors(self._path), self._pool.connection() as connection:
            view = None
            while view is None:
                connection.execute("BEGIN")
                view = self._get_view(connection)
            yield connection, view

    def _get_view(self, connection: sqlite3.Connection) -> StoreView | None:
        """The view for this transaction; None, with the transaction rolled back, if it must be started again."""
        state = read_state(connection, self._path)
        with self._view_lock:
            before = self._view
            if before is None or before.state.generation < state.generation:
                try:
                    self._view = self._attach_scanner(open_view(self._path, connection, state, before))
                except KnowledgeBaseDamaged:
                    # a compaction may have deleted the file after this transaction started
                    connection.execute("ROLLBACK")
                    if read_state(connection, self._path) == state:
                        raise
                    return None
                if before is not None and before.file not in {None, self._view.file}:
                    before.file.close()
            if self._view is not None and self._view.state.generation == state.generation:
                return self._view
        connection.execute("ROLLBACK")
        return None

    def _attach_scanner(self, view: StoreView) -> StoreView:
        scanner = None if view.file is None else self._create_scanner(view.file, view.state)
        return view if scanner is None else replace(view, scanner=scanner)

    @contextmanager
    def _write_transaction(self) -> Iterator[tuple[sqlite3.Connection, StoreState]]:
        """A connection with SQLite's write lock, and the committed state; commits at the end, or rolls back."""
        if not self._write_lock.acquire(timeout=self._busy_seconds):
            raise KnowledgeBaseLocked(str(self._path), "another thread of this process")
        try:
            with translate_errors(self._path), self._pool.connection() as connection:
                connection.execute("BEGIN IMMEDIATE")
                state = read_state(connection, self._path)
                if not self._is_cleaned_up:
                    self._remove_stale_files(state)
                    self._is_cleaned_up = True
                self._has_written = True
                yield connection, state
                connection.execute("COMMIT")
        finally:
            self._write_lock.release()

    def _empty_write_ahead_log(self) -> None:
        """Move what was written into the database, so that readers leave the files as they are.

        SQLite does it when the last connection is closed: that of a reader in another process, perhaps, after the
        digests of the files were recorded. Waits for transactions of others for up to `busy_seconds`.
        """
        with suppress(sqlite3.Error, StoreError), self._pool.connection() as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _insert(
        self, connection: sqlite3.Connection, state: StoreState, documents: Sequence[Document], rows: Rows
    ) -> StoreState:
        with closing(self._open_vector_file(state, rows.shape[1])) as file:
            first = file.append(rows)
            file.sync()
        generation = state.generation + 1
        replaced = _mark_dead(connection, [document.id for document in documents], generation)
        texts = [json.dumps(document.metadata) for document in documents]
        numbered = range(first, first + len(documents))
        checksums = row_checksums(rows).tolist()
        rows_to_insert = map(encode_document, numbered, documents, checksums)
        connection.executemany("INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows_to_insert)
        pairs = zip(numbered, texts, strict=True)
        metadata = ((row, text, column_checksum((text,))) for row, text in pairs)
        connection.executemany("INSERT INTO metadata VALUES (?, ?, ?)", metadata)
        total = state.documents + len(documents) - replaced
        state = StoreState(generation, file.path.name, file.file_id, file.dimension, rows=file.rows, documents=total)
        _write_state(connection, state)
        return state

    def _open_vector_file(self, state: StoreState, dimension: int) -> VectorFile:
        if state.file:
            return open_vector_file(self._path, state, writable=True)
        return self._create_vector_file(dimension)

    def _create_vector_file(self, dimension: int) -> VectorFile:
        return VectorFile.create(self._path / f"vectors-{secrets.token_hex(4)}.f32", dimension, fix=REPAIR_HINT)

    def _create_scanner(self, file: VectorFile, state: StoreState) -> Scanner | None:
        """The scanner of the vector file; None for an exact scan. Called for every generation."""
        return None

    def _compact_if_needed(self, state: StoreState) -> None:
        """Compact the vector file if it has too many dead rows. The caller's write is already committed."""
        if not self._is_worth_compacting(state):
            return
        with suppress(KnowledgeBaseLocked, StoreError):  # another process is writing, or the disk is full: try later
            with self._write_transaction() as (connection, now):
                if self._is_worth_compacting(now):
                    self._compact(connection, now)
            self._clean_up()

    def _is_worth_compacting(self, state: StoreState) -> bool:
        dead = state.rows - state.documents
        return dead >= _MIN_DEAD_ROWS and dead > self.max_dead_share * state.rows

    def _compact(self, connection: sqlite3.Connection, state: StoreState) -> None:
        """Copy the live rows to a new vector file and renumber them, in the open transaction."""
        live = [row for (row,) in connection.execute("SELECT row FROM documents ORDER BY row")]
        with (
            closing(open_vector_file(self._path, state)) as old,
            closing(self._create_vector_file(state.dimension)) as new,
        ):
            matrix = old.matrix()
            for batch in batches(live, _COPY_ROWS):
                new.append(matrix[list(batch)])
            new.sync()
        connection.execute("DELETE FROM metadata WHERE row IN (SELECT row FROM dead)")
        connection.execute("DELETE FROM dead")
        # in ascending order, so that a new number is free: it is at most the old one
        moves = [(to, row) for to, row in enumerate(live) if to != row]
        connection.executemany("UPDATE documents SET row = ? WHERE row = ?", moves)
        connection.executemany("UPDATE metadata SET row = ? WHERE row = ?", moves)
        generation = state.generation + 1
        compacted = replace(state, generation=generation, file=new.path.name, file_id=new.file_id, rows=new.rows)
        _write_state(connection, compacted)

    def _clean_up(self) -> None:
        """Delete vector files that are no longer used; readers that have them open can still read them."""
        with self._write_transaction() as (_, state):
            self._remove_stale_files(state)

    def _remove_stale_files(self, state: StoreState) -> None:
        # the files derived from the current vector file have its name with another suffix
        stem = state.file.removesuffix("f32")
        for path in self._path.glob("vectors-*"):
            if not stem or not path.name.startswith(stem):
                path.unlink(missing_ok=True)


def _search_view(
    connection: sqlite3.Connection, view: StoreView, query: Rows, top_k: int, allowed: AllowedRows
) -> list[SearchResult]:
    rows, scores = view.scanner.search(view.matrix, query, top_k, allowed, lambda rows: view.read_ids(connection, rows))
    return build_results(view.read_documents(connection, rows), scores.tolist())


def _mark_dead(connection: sqlite3.Connection, ids: Sequence[str], generation: int) -> int:
    """Delete documents and mark their rows dead; returns the number of deleted documents."""
    rows: list[tuple[int]] = []
    for batch in batches([encode_id(name) for name in ids]):
        rows += connection.execute(
            f"SELECT row FROM documents WHERE id IN ({placeholders(batch)})",  # noqa: S608  # question marks only
            batch,
        )
    connection.executemany("DELETE FROM documents WHERE row = ?", rows)
    connection.executemany("INSERT INTO dead VALUES (?, ?)", ((row, generation) for (row,) in rows))
    return len(rows)


def _write_state(connection: sqlite3.Connection, state: StoreState) -> None:
    """Write the state in the open transaction."""
    connection.execute(
        "UPDATE state SET generation = ?, file = ?, file_id = ?, dimension = ?, rows = ?, documents = ?",
        (state.generation, state.file, state.file_id, state.dimension, state.rows, state.documents),
    )


class _SqliteConnectionPool:
    """A pool of connections; each is used by one thread at a time."""

    def __init__(self, path: Path, busy_seconds: float) -> None:
        self._path, self._busy_seconds = path, busy_seconds
        self._lock = threading.Lock()
        self._idle: list[sqlite3.Connection] | None = []

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """A connection without a transaction; a transaction that is open at the end is rolled back."""
        connection = self.acquire()
        try:
            yield connection
        finally:
            self.release(connection)

    def acquire(self) -> sqlite3.Connection:
        """A connection without a transaction, until `release`."""
        with self._lock:
            if self._idle is None:
                raise StoreError(f"the store at {self._path.parent} is closed: open it again")
            connection = self._idle.pop() if self._idle else None
        return connection or connect(self._path, self._busy_seconds)

    def release(self, connection: sqlite3.Connection) -> None:
        """Return a connection to the pool; an open transaction is rolled back."""
        if connection.in_transaction:
            connection.rollback()
        with self._lock:
            if self._idle is not None:
                self._idle.append(connection)
            else:
                connection.close()

    def close(self) -> None:
        """Close all connections; those in use are closed when they are released."""
        with self._lock:
            idle, self._idle = self._idle or [], None
        for connection in idle:
            connection.close()
