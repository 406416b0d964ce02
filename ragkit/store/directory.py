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

from ragkit.errors import Damaged, DimensionMismatch, InvalidVector, Locked, StoreError
from ragkit.records import Document, SearchResult
from ragkit.store.base import Filter, Rows, checked_documents, checked_ids, checked_query, checked_rows, checked_top_k
from ragkit.store.directory_tables import (
    DATABASE,
    FIX,
    State,
    checksum,
    connect,
    create_tables,
    document_columns,
    encoded_id,
    read_state,
    translated,
)
from ragkit.store.directory_view import Overtaken, View, batches, marks, open_vectors, open_view
from ragkit.store.facade import VectorStore
from ragkit.store.filters import Always, parse_filter
from ragkit.store.made import made_results
from ragkit.store.scanner import Scanner
from ragkit.store.vectorfile import VectorFile, row_checksums

_COMPACT_ROWS = 256
"""Fewer dead rows than this are never worth the work."""
_COPY_ROWS = 8_192
"""Rows that compaction copies at a time."""


class DirectoryStore(VectorStore):
    """Documents and rows in a directory. Safe for several threads and processes; one writes.

    Whoever inherits it may say how the rows are searched (`_scanner_of`) and when dead rows are left behind.
    """

    persistent = True
    shared = True
    dead_share: ClassVar[float] = 1 / 2
    """More dead rows than this, and the vector file is made anew without them."""

    def __init__(self, path: Path, dimension: int | None, busy_seconds: float) -> None:
        """Open the directory, or make it.

        Args:
            path: the directory.
            dimension: columns of a row; None takes the width of the first rows, or what the directory says.
            busy_seconds: how long a write waits for another process that is writing.

        Raises:
            DimensionMismatch: it holds rows of another width than the options say.
            Damaged: the database is not one, or of an unknown layout.
            StoreError: the directory cannot be used.
        """
        self._path, self._wanted, self._busy_seconds = path, dimension, busy_seconds
        self._write_lock = threading.Lock()
        self._view_lock = threading.Lock()
        self._view: View | None = None
        self._swept = False
        try:
            self._path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{self._path} cannot be made a directory: {error.strerror}") from error
        self._connections = _Connections(path / DATABASE, busy_seconds)
        try:
            with translated(self._path), self._connections.one() as connection:
                create_tables(connection)
                here = read_state(connection, self._path).dimension
            if here and dimension not in {None, here}:
                raise DimensionMismatch(dimension or 0, here)
        except BaseException:
            self._connections.close()
            raise

    def add_documents(self, documents: Sequence[Document], embeddings: Rows) -> list[str]:
        """As `Store.add_documents` says; all of it is committed at once.

        Raises also:
            Locked: another process was writing all of `busy_seconds`.
        """
        if not documents:
            return []
        kept = checked_documents(documents)
        last = sorted({document.id: place for place, document in enumerate(kept)}.values())
        with self._writing() as (connection, state):
            rows = checked_rows(embeddings, len(kept), state.dimension or self._wanted)
            if len(last) < len(kept):
                kept, rows = [kept[place] for place in last], rows[last]
            committed = self._insert(connection, state, kept, rows)
        self._tidy(committed)
        return [document.id for document in documents]

    def search(self, query_embedding: Rows, top_k: int = 5, filter: Filter | None = None) -> list[SearchResult]:
        """As `Store.search` says, on what was committed when it began, by whichever process."""
        node = parse_filter(filter)
        top_k = checked_top_k(top_k)
        found = self._at_a_glance(query_embedding, top_k) if isinstance(node, Always) else None
        if found is not None:
            return found
        with self._reading() as (connection, view):
            query = checked_query(query_embedding, view.state.dimension or self._wanted)
            if not view.state.documents:
                return []
            allowed = view.allowed(connection, node)
            rows, scores = view.scanner.nearest(
                view.matrix, query, top_k, allowed, lambda rows: view.ids(connection, rows)
            )
            documents = view.documents(connection, rows)
        return made_results(documents, scores.tolist())

    def _at_a_glance(self, query_embedding: Rows, top_k: int) -> list[SearchResult] | None:
        """The answer of the view that is there, without a transaction; None when that has been overtaken by a write.

        Without a filter, nothing but the hits' documents is wanted of the database. The statement that reads them
        says of which generation they are, and generations only rise: when it is the view's, it was so all along.
        """
        view = self._view
        if view is None or not view.state.documents:
            return None
        connection = self._connections.lend()
        try:
            query = checked_query(query_embedding, view.state.dimension)
            rows, scores = view.scanner.nearest(
                view.matrix, query, top_k, view.live(), lambda rows: view.ids(connection, rows)
            )
            documents = view.documents(connection, rows)
        except (Overtaken, Damaged, DimensionMismatch, InvalidVector, sqlite3.Error):
            return None  # what is truly wrong is wrong in a transaction too
        finally:
            self._connections.take_back(connection)
        return made_results(documents, scores.tolist())

    def delete(self, ids: Sequence[str]) -> int:
        """As `Store.delete` says."""
        names = checked_ids(ids)
        with self._writing() as (connection, state):
            removed = _kill(connection, names, state.generation + 1)
            if not removed:
                return 0
            committed = replace(state, generation=state.generation + 1, documents=state.documents - removed)
            _commit(connection, committed)
        self._tidy(committed)
        return removed

    def clear(self) -> None:
        """As `Store.clear` says."""
        with self._writing() as (connection, state):
            for table in ("documents", "metadata", "dead"):
                connection.execute(f"DELETE FROM {table}")  # noqa: S608  # three names of ours
            empty = State(state.generation + 1, file="", file_id=b"", dimension=0, rows=0, documents=0)
            _commit(connection, empty)
        with suppress(Locked):  # the next writer does it
            self._sweep()

    def count(self) -> int:
        """As `Store.count` says."""
        with self._reading() as (_, view):
            return view.state.documents

    def scan(self) -> Iterator[tuple[str, Document, Rows]]:
        """As `Store.scan` says; a snapshot of the first step is gone through."""
        with self._reading() as (connection, view):
            for row, document in view.read(connection, "ORDER BY documents.id"):
                yield document.id, document, view.matrix[row].copy()

    def close(self) -> None:
        """As `Store.close` says. A search that is running is finished."""
        self._connections.close()
        with self._view_lock:
            if self._view is not None and self._view.file is not None:
                self._view.file.close()
            self._view = None

    @contextmanager
    def _reading(self) -> Iterator[tuple[sqlite3.Connection, View]]:
        """A connection in a transaction, and the view of what that transaction sees."""
        with translated(self._path), self._connections.one() as connection:
            view = None
            while view is None:
                connection.execute("BEGIN")
                view = self._view_for(connection)
            yield connection, view

    def _view_for(self, connection: sqlite3.Connection) -> View | None:
        """The view for this transaction; None, with the transaction ended, when it must begin anew."""
        state = read_state(connection, self._path)
        with self._view_lock:
            before = self._view
            if before is None or before.state.generation < state.generation:
                try:
                    self._view = self._opened(open_view(self._path, connection, state, before))
                except Damaged:
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

    def _opened(self, view: View) -> View:
        scanner = None if view.file is None else self._scanner_of(view.file, view.state)
        return view if scanner is None else replace(view, scanner=scanner)

    @contextmanager
    def _writing(self) -> Iterator[tuple[sqlite3.Connection, State]]:
        """A connection that holds SQLite's write lock, and what is committed; commits at the end, or rolls back."""
        if not self._write_lock.acquire(timeout=self._busy_seconds):
            raise Locked(str(self._path), "another thread of this process")
        try:
            with translated(self._path), self._connections.one() as connection:
                connection.execute("BEGIN IMMEDIATE")
                state = read_state(connection, self._path)
                if not self._swept:
                    self._remove_files(state)
                    self._swept = True
                yield connection, state
                connection.execute("COMMIT")
        finally:
            self._write_lock.release()

    def _insert(self, connection: sqlite3.Connection, state: State, documents: Sequence[Document], rows: Rows) -> State:
        with closing(self._vectors_of(state, rows.shape[1])) as file:
            first = file.append(rows)
            file.sync()
        generation = state.generation + 1
        replaced = _kill(connection, [document.id for document in documents], generation)
        texts = [json.dumps(document.metadata) for document in documents]
        numbered = range(first, first + len(documents))
        sums = row_checksums(rows).tolist()
        connection.executemany(
            "INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?, ?, ?)", map(document_columns, numbered, documents, sums)
        )
        connection.executemany(
            "INSERT INTO metadata VALUES (?, ?, ?)",
            ((row, text, checksum((text,))) for row, text in zip(numbered, texts, strict=True)),
        )
        state = State(
            generation,
            file.path.name,
            file.file_id,
            file.dimension,
            rows=file.rows,
            documents=state.documents + len(documents) - replaced,
        )
        _commit(connection, state)
        return state

    def _vectors_of(self, state: State, dimension: int) -> VectorFile:
        if state.file:
            return open_vectors(self._path, state, writable=True)
        return self._new_vectors(dimension)

    def _new_vectors(self, dimension: int) -> VectorFile:
        return VectorFile.create(self._path / f"vectors-{secrets.token_hex(4)}.f32", dimension, fix=FIX)

    def _scanner_of(self, file: VectorFile, state: State) -> Scanner | None:
        """What searches the rows of that vector file; None for an exact scan. Asked anew with every generation."""
        return None

    def _tidy(self, state: State) -> None:
        """Leave dead rows behind when they are too many. What the caller asked for is done already."""
        if not self._is_worth_compacting(state):
            return
        with suppress(Locked, StoreError):  # another process is writing, or the disk is full: put off
            with self._writing() as (connection, now):
                if self._is_worth_compacting(now):
                    self._compact(connection, now)
            self._sweep()

    def _is_worth_compacting(self, state: State) -> bool:
        dead = state.rows - state.documents
        return dead >= _COMPACT_ROWS and dead > self.dead_share * state.rows

    def _compact(self, connection: sqlite3.Connection, state: State) -> None:
        """Copy what is alive to a new vector file and number it anew, in the transaction that is open."""
        live = [row for (row,) in connection.execute("SELECT row FROM documents ORDER BY row")]
        with closing(open_vectors(self._path, state)) as old, closing(self._new_vectors(state.dimension)) as new:
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
        _commit(connection, moved)

    def _sweep(self) -> None:
        """Remove vector files that are no longer used; readers that have them open keep them."""
        with self._writing() as (_, state):
            self._remove_files(state)

    def _remove_files(self, state: State) -> None:
        # the names of its 8-bit copies begin like that of the vector file that is in use
        stem = state.file.removesuffix("f32")
        for path in self._path.glob("vectors-*"):
            if not stem or not path.name.startswith(stem):
                path.unlink(missing_ok=True)


def _kill(connection: sqlite3.Connection, ids: Sequence[str], generation: int) -> int:
    """Take documents out and mark their rows dead; returns how many of the ids were there."""
    rows: list[tuple[int]] = []
    for some in batches([encoded_id(name) for name in ids]):
        rows += connection.execute(f"SELECT row FROM documents WHERE id IN ({marks(some)})", some)  # noqa: S608
    connection.executemany("DELETE FROM documents WHERE row = ?", rows)
    connection.executemany("INSERT INTO dead VALUES (?, ?)", ((row, generation) for (row,) in rows))
    return len(rows)


def _commit(connection: sqlite3.Connection, state: State) -> None:
    """Put the new state into the transaction that is open."""
    connection.execute(
        "UPDATE state SET generation = ?, file = ?, file_id = ?, dimension = ?, rows = ?, documents = ?",
        (state.generation, state.file, state.file_id, state.dimension, state.rows, state.documents),
    )


class _Connections:
    """Open connections, each lent to one thread at a time."""

    def __init__(self, path: Path, busy_seconds: float) -> None:
        self._path, self._busy_seconds = path, busy_seconds
        self._lock = threading.Lock()
        self._idle: list[sqlite3.Connection] | None = []

    @contextmanager
    def one(self) -> Iterator[sqlite3.Connection]:
        """A connection outside of any transaction; a transaction that is open at the end is rolled back."""
        connection = self.lend()
        try:
            yield connection
        finally:
            self.take_back(connection)

    def lend(self) -> sqlite3.Connection:
        """A connection outside of any transaction, until `take_back`."""
        with self._lock:
            if self._idle is None:
                raise StoreError(f"{self._path.parent} is closed: open the store again")
            connection = self._idle.pop() if self._idle else None
        return connection or connect(self._path, self._busy_seconds)

    def take_back(self, connection: sqlite3.Connection) -> None:
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
