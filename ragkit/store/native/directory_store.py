"""A directory that holds documents in SQLite and rows in a vector file beside it: what `sqlite` and `faiss` build on.

No store by itself: it has no name in the table, and knows none of those that inherit it.

A write appends rows to the vector file, waits until they are on disk, and commits the documents that point at them:
a process that is killed in between leaves rows that nobody points at, never a document without its row. A row never
changes once it is committed. Readers work on a snapshot; several threads and processes may read while one writes.
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
from ragkit.store.native.scanner import Scanner
from ragkit.store.native.vector_file import VectorFile, row_checksums
from ragkit.store.vector_store import VectorStore

_MIN_DEAD_ROWS = 256
"""Fewer dead rows than this are never worth the work."""
_COPY_ROWS = 8_192
"""Rows that compaction copies at a time."""


class DirectoryStore(VectorStore):
    """Documents and rows in a directory. Safe for several threads and processes; one writes.

    Whoever inherits it may say how the rows are searched (`_create_scanner`) and when dead rows are left behind.
    """

    persistent = True
    shared = True
    max_dead_share: ClassVar[float] = 1 / 2
    """More dead rows than this, and the vector file is made anew without them."""

    def __init__(self, path: Path, dimension: int | None, busy_seconds: float) -> None:
        """Open the directory, or make it.

        Args:
            path: the directory.
            dimension: columns of a row; None takes the width of the first rows, or what the directory says.
            busy_seconds: how long a write waits for another process that is writing.

        Raises:
            DimensionMismatch: it holds rows of another width than the options say.
            KnowledgeBaseDamaged: the database is not one, or of an unknown layout.
            StoreError: the directory cannot be used.
        """
        self._path, self._expected_dimension, self._busy_seconds = path, dimension, busy_seconds
        self._write_lock = threading.Lock()
        self._view_lock = threading.Lock()
        self._view: StoreView | None = None
        self._is_cleaned_up = False
        try:
            self._path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{self._path} cannot be made a directory: {error.strerror}") from error
        self._pool = _SqliteConnectionPool(path / DATABASE_FILE, busy_seconds)
        try:
            with translate_errors(self._path), self._pool.connection() as connection:
                create_tables(connection)
                here = read_state(connection, self._path).dimension
            if here and dimension not in {None, here}:
                raise DimensionMismatch(dimension or 0, here)
        except BaseException:
            self._pool.close()
            raise

    def add_documents(self, documents: Sequence[Document], embeddings: Rows) -> list[str]:
        """As `Store.add_documents` says; all of it is committed at once.

        Raises also:
            KnowledgeBaseLocked: another process was writing all of `busy_seconds`.
        """
        if not documents:
            return []
        kept = validate_documents(documents)
        last = sorted({document.id: place for place, document in enumerate(kept)}.values())
        with self._write_transaction() as (connection, state):
            rows = validate_rows(embeddings, len(kept), state.dimension or self._expected_dimension)
            if len(last) < len(kept):
                kept, rows = [kept[place] for place in last], rows[last]
            committed = self._insert(connection, state, kept, rows)
        self._compact_if_needed(committed)
        return [document.id for document in documents]

    def search(self, query_embedding: Rows, top_k: int = 5, filter: Filter | None = None) -> list[SearchResult]:
        """As `Store.search` says, on what was committed when it began, by whichever process."""
        node = parse_filter(filter)
        top_k = validate_top_k(top_k)
        found = self._search_cached_view(query_embedding, top_k) if isinstance(node, Always) else None
        if found is not None:
            return found
        with self._read_transaction() as (connection, view):
            query = validate_query(query_embedding, view.state.dimension or self._expected_dimension)
            if not view.state.documents:
                return []
            allowed = view.allowed_rows(connection, node)
            rows, scores = view.scanner.search(
                view.matrix, query, top_k, allowed, lambda rows: view.read_ids(connection, rows)
            )
            documents = view.read_documents(connection, rows)
        return build_results(documents, scores.tolist())

    def _search_cached_view(self, query_embedding: Rows, top_k: int) -> list[SearchResult] | None:
        """The answer of the view that is there, without a transaction; None when that has been overtaken by a write.

        Without a filter, nothing but the hits' documents is wanted of the database. The statement that reads them
        says of which generation they are, and generations only rise: when it is the view's, it was so all along.
        """
        view = self._view
        if view is None or not view.state.documents:
            return None
        connection = self._pool.acquire()
        try:
            query = validate_query(query_embedding, view.state.dimension)
            rows, scores = view.scanner.search(
                view.matrix, query, top_k, view.live_mask(), lambda rows: view.read_ids(connection, rows)
            )
            documents = view.read_documents(connection, rows)
        except (StaleView, KnowledgeBaseDamaged, DimensionMismatch, InvalidVector, sqlite3.Error):
            return None  # what is truly wrong is wrong in a transaction too
        finally:
            self._pool.release(connection)
        return build_results(documents, scores.tolist())

    def delete(self, ids: Sequence[str]) -> int:
        """As `Store.delete` says."""
        names = validate_ids(ids)
        with self._write_transaction() as (connection, state):
            removed = _mark_dead(connection, names, state.generation + 1)
            if not removed:
                return 0
            committed = replace(state, generation=state.generation + 1, documents=state.documents - removed)
            _write_state(connection, committed)
        self._compact_if_needed(committed)
        return removed

    def clear(self) -> None:
        """As `Store.clear` says."""
        with self._write_transaction() as (connection, state):
            for table in ("documents", "metadata", "dead"):
                connection.execute(f"DELETE FROM {table}")  # noqa: S608  # three names of ours
            empty = StoreState(state.generation + 1, file="", file_id=b"", dimension=0, rows=0, documents=0)
            _write_state(connection, empty)
        with suppress(KnowledgeBaseLocked):  # the next writer does it
            self._clean_up()

    def count(self) -> int:
        """As `Store.count` says."""
        with self._read_transaction() as (_, view):
            return view.state.documents

    def scan(self) -> Iterator[tuple[str, Document, Rows]]:
        """As `Store.scan` says; a snapshot of the first step is gone through."""
        with self._read_transaction() as (connection, view):
            for row, document in view.iter_documents(connection, "ORDER BY documents.id"):
                yield document.id, document, view.matrix[row].copy()

    def close(self) -> None:
        """As `Store.close` says. A search that is running is finished."""
        self._pool.close()
        with self._view_lock:
            if self._view is not None and self._view.file is not None:
                self._view.file.close()
            self._view = None

    @contextmanager
    def _read_transaction(self) -> Iterator[tuple[sqlite3.Connection, StoreView]]:
        """A connection in a transaction, and the view of what that transaction sees."""
        with translate_errors(self._path), self._pool.connection() as connection:
            view = None
            while view is None:
                connection.execute("BEGIN")
                view = self._get_view(connection)
            yield connection, view

    def _get_view(self, connection: sqlite3.Connection) -> StoreView | None:
        """The view for this transaction; None, with the transaction ended, when it must begin anew."""
        state = read_state(connection, self._path)
        with self._view_lock:
            before = self._view
            if before is None or before.state.generation < state.generation:
                try:
                    self._view = self._attach_scanner(open_view(self._path, connection, state, before))
                except KnowledgeBaseDamaged:
                    # a compaction may have taken the file away after this transaction began
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
        """A connection that holds SQLite's write lock, and what is committed; commits at the end, or rolls back."""
        if not self._write_lock.acquire(timeout=self._busy_seconds):
            raise KnowledgeBaseLocked(str(self._path), "another thread of this process")
        try:
            with translate_errors(self._path), self._pool.connection() as connection:
                connection.execute("BEGIN IMMEDIATE")
                state = read_state(connection, self._path)
                if not self._is_cleaned_up:
                    self._remove_stale_files(state)
                    self._is_cleaned_up = True
                yield connection, state
                connection.execute("COMMIT")
        finally:
            self._write_lock.release()

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
        sums = row_checksums(rows).tolist()
        connection.executemany(
            "INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?, ?, ?)", map(encode_document, numbered, documents, sums)
        )
        connection.executemany(
            "INSERT INTO metadata VALUES (?, ?, ?)",
            ((row, text, column_checksum((text,))) for row, text in zip(numbered, texts, strict=True)),
        )
        state = StoreState(
            generation,
            file.path.name,
            file.file_id,
            file.dimension,
            rows=file.rows,
            documents=state.documents + len(documents) - replaced,
        )
        _write_state(connection, state)
        return state

    def _open_vector_file(self, state: StoreState, dimension: int) -> VectorFile:
        if state.file:
            return open_vector_file(self._path, state, writable=True)
        return self._create_vector_file(dimension)

    def _create_vector_file(self, dimension: int) -> VectorFile:
        return VectorFile.create(self._path / f"vectors-{secrets.token_hex(4)}.f32", dimension, fix=REPAIR_HINT)

    def _create_scanner(self, file: VectorFile, state: StoreState) -> Scanner | None:
        """What searches the rows of that vector file; None for an exact scan. Asked anew with every generation."""
        return None

    def _compact_if_needed(self, state: StoreState) -> None:
        """Leave dead rows behind when they are too many. What the caller asked for is done already."""
        if not self._is_worth_compacting(state):
            return
        with suppress(KnowledgeBaseLocked, StoreError):  # another process is writing, or the disk is full: put off
            with self._write_transaction() as (connection, now):
                if self._is_worth_compacting(now):
                    self._compact(connection, now)
            self._clean_up()

    def _is_worth_compacting(self, state: StoreState) -> bool:
        dead = state.rows - state.documents
        return dead >= _MIN_DEAD_ROWS and dead > self.max_dead_share * state.rows

    def _compact(self, connection: sqlite3.Connection, state: StoreState) -> None:
        """Copy what is alive to a new vector file and number it anew, in the transaction that is open."""
        live = [row for (row,) in connection.execute("SELECT row FROM documents ORDER BY row")]
        with (
            closing(open_vector_file(self._path, state)) as old,
            closing(self._create_vector_file(state.dimension)) as new,
        ):
            matrix = old.matrix()
            for some in batches(live, _COPY_ROWS):
                new.append(matrix[list(some)])
            new.sync()
        connection.execute("DELETE FROM metadata WHERE row IN (SELECT row FROM dead)")
        connection.execute("DELETE FROM dead")
        # upwards, so that a new number is never still taken: it is at most the old one
        moves = [(to, row) for to, row in enumerate(live) if to != row]
        connection.executemany("UPDATE documents SET row = ? WHERE row = ?", moves)
        connection.executemany("UPDATE metadata SET row = ? WHERE row = ?", moves)
        moved = replace(state, generation=state.generation + 1, file=new.path.name, file_id=new.file_id, rows=new.rows)
        _write_state(connection, moved)

    def _clean_up(self) -> None:
        """Remove vector files that are no longer used; readers that have them open keep them."""
        with self._write_transaction() as (_, state):
            self._remove_stale_files(state)

    def _remove_stale_files(self, state: StoreState) -> None:
        # the names of its 8-bit copies begin like that of the vector file that is in use
        stem = state.file.removesuffix("f32")
        for path in self._path.glob("vectors-*"):
            if not stem or not path.name.startswith(stem):
                path.unlink(missing_ok=True)


def _mark_dead(connection: sqlite3.Connection, ids: Sequence[str], generation: int) -> int:
    """Take documents out and mark their rows dead; returns how many of the ids were there."""
    rows: list[tuple[int]] = []
    for some in batches([encode_id(name) for name in ids]):
        rows += connection.execute(f"SELECT row FROM documents WHERE id IN ({placeholders(some)})", some)  # noqa: S608
    connection.executemany("DELETE FROM documents WHERE row = ?", rows)
    connection.executemany("INSERT INTO dead VALUES (?, ?)", ((row, generation) for (row,) in rows))
    return len(rows)


def _write_state(connection: sqlite3.Connection, state: StoreState) -> None:
    """Put the new state into the transaction that is open."""
    connection.execute(
        "UPDATE state SET generation = ?, file = ?, file_id = ?, dimension = ?, rows = ?, documents = ?",
        (state.generation, state.file, state.file_id, state.dimension, state.rows, state.documents),
    )


class _SqliteConnectionPool:
    """Open connections, each lent to one thread at a time."""

    def __init__(self, path: Path, busy_seconds: float) -> None:
        self._path, self._busy_seconds = path, busy_seconds
        self._lock = threading.Lock()
        self._idle: list[sqlite3.Connection] | None = []

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """A connection outside of any transaction; a transaction that is open at the end is rolled back."""
        connection = self.acquire()
        try:
            yield connection
        finally:
            self.release(connection)

    def acquire(self) -> sqlite3.Connection:
        """A connection outside of any transaction, until `release`."""
        with self._lock:
            if self._idle is None:
                raise StoreError(f"{self._path.parent} is closed: open the store again")
            connection = self._idle.pop() if self._idle else None
        return connection or connect(self._path, self._busy_seconds)

    def release(self, connection: sqlite3.Connection) -> None:
        """Keep it for the next one; a transaction that is open is rolled back."""
        if connection.in_transaction:
            connection.rollback()
        with self._lock:
            if self._idle is not None:
                self._idle.append(connection)
            else:
                connection.close()

    def close(self) -> None:
        """Close all; those that are lent out are closed when they come back."""
        with self._lock:
            idle, self._idle = self._idle or [], None
        for connection in idle:
            connection.close()
