"""Exclusive write session: lock and open a knowledge base; at the end flush it and write its checksums."""

from __future__ import annotations

import sqlite3
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType

from ragkit.errors import KnowledgeBaseDamaged, NotAKnowledgeBase
from ragkit.index.catalog.checksums import delete_checksums, write_checksums
from ragkit.index.catalog.directory import (
    CATALOG_FILE,
    MARKER_FILE,
    NewKnowledgeBase,
    create_knowledge_base,
    knowledge_base_exists,
    open_catalog,
    open_vectors,
    read_marker_id,
    read_marker_roots,
    read_marker_settings,
    repair_command,
    write_marker,
)
from ragkit.index.catalog.document_index import DocumentIndex
from ragkit.index.catalog.duplicate_index import DuplicateIndex
from ragkit.index.catalog.io_errors import to_knowledge_base_error, translate_io_errors
from ragkit.index.catalog.lock import WriterLock
from ragkit.index.catalog.row_checks import verify_before_writing
from ragkit.index.catalog.schema import create_missing_tables
from ragkit.index.catalog.sqlite import Catalog, EmbedderRow
from ragkit.store.native.vector_file import VectorFile

READERS_WAIT_S = 2.0
"""How long the end of a run waits for readers of earlier generations, which it needs only to write the checksums."""


class WriteSession:
    """Holds the writer lock from `__enter__` to `__exit__`.

    Args:
        directory: the knowledge base.
        new_base: initial content if the directory holds no knowledge base; None: it must exist.

    Raises:
        KnowledgeBaseLocked: another process holds the writer lock.
        NotAKnowledgeBase, KnowledgeBaseDamaged: as `open_catalog`.
        KnowledgeBaseWriteFailed: an I/O error, at any time until `__exit__` returns.
    """

    def __init__(self, directory: Path, new_base: NewKnowledgeBase | None = None) -> None:
        self.directory = directory
        self._new_base = new_base
        self._stack = ExitStack()
        self._open_files: list[VectorFile] = []

    def __enter__(self) -> WriteSession:
        with translate_io_errors(self.directory, repair_command(self.directory)):
            self._acquire()
        return self

    def _acquire(self) -> None:
        if self._new_base is not None:
            if self.directory.exists() and not self.directory.is_dir():
                raise NotAKnowledgeBase(str(self.directory), "is a file", "pass a directory to --kb")
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self.directory.is_dir():
            self._stack.enter_context(WriterLock(self.directory))
        with self._stack:
            if self._new_base is not None and not knowledge_base_exists(self.directory):
                create_knowledge_base(self.directory, self._new_base)
            # what is damaged must not get new checksums
            verify_before_writing(self.directory)
            connection = open_catalog(self.directory, verify_checksums=False)
            self._stack.callback(connection.close)
            self.catalog = Catalog(connection)
            delete_checksums(self.directory)
            create_missing_tables(connection)
            self._stack = self._stack.pop_all()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        fix = repair_command(self.directory)
        with self._stack, translate_io_errors(self.directory, fix):
            if error is None:
                self._finalize()
            elif not isinstance(error, KnowledgeBaseDamaged | sqlite3.DatabaseError | OSError):
                # what cannot be done now, the next run does: the error is what counts. Ctrl-C may have come between the
                # start of a transaction and its block, or while a statement reads.
                with suppress(sqlite3.DatabaseError, OSError):
                    self.catalog.connection.rollback()
                    self._finalize()
        if isinstance(error, sqlite3.DatabaseError | OSError) and not isinstance(error, BrokenPipeError):
            raise to_knowledge_base_error(error, self.directory, fix) from error

    def open_vectors(self, fingerprint: str, dimension: int) -> tuple[EmbedderRow, VectorFile]:
        """Row and vector file of the embedder with this fingerprint; both are created if it is new."""
        embedder = self.catalog.embedder(fingerprint)
        if embedder is None:
            file = self.create_vectors(dimension)
            with self.catalog.transaction():
                embedder = self.catalog.add_embedder(fingerprint, dimension, file.path.name, file.file_id)
            return embedder, file
        file = open_vectors(self.directory, embedder, writable=True)
        self._open_files.append(file)
        return embedder, file

    def create_vectors(self, dimension: int) -> VectorFile:
        """Create an empty vector file. It is deleted at the end of the session unless the catalog refers to it."""
        file = VectorFile.create(self.directory / self._next_file_name(), dimension, fix=repair_command(self.directory))
        self._open_files.append(file)
        return file

    def _next_file_name(self) -> str:
        """A file name that this knowledge base never used, so that no reader confuses a new file with an old one."""
        number = int(self.catalog.get_meta("last_file") or 0) + 1
        with self.catalog.transaction():
            self.catalog.set_meta("last_file", str(number))
        return f"vectors-{number}.f32"

    def _finalize(self) -> None:
        """Index document fields, group passages, truncate uncommitted rows, checkpoint, delete orphaned files, write
        checksums."""
        connection = self.catalog.connection
        DocumentIndex(connection).synchronize()
        DuplicateIndex(connection).synchronize()
        for file in self._open_files:
            file.close()
        referenced = {embedder.file for embedder in self.catalog.embedders()}
        self._update_marker()
        connection.execute("PRAGMA optimize")
        connection.execute(f"PRAGMA busy_timeout = {int(READERS_WAIT_S * 1000)}")
        busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        for orphan in self.directory.glob("vectors-*"):
            if orphan.with_suffix(".f32").name not in referenced:
                orphan.unlink()
        # If a reader keeps the log open, such as an answer of a slow model, write no checksums: until the end of the
        # next run, readers verify single rows instead.
        if not busy:
            write_checksums(self.directory, [CATALOG_FILE, MARKER_FILE, *sorted(referenced)])

    def _update_marker(self) -> None:
        """Rewrite the marker file if it differs from the catalog."""
        directory, catalog = self.directory, self.catalog
        identity, roots, settings = catalog.get_meta("id") or "", catalog.roots(), catalog.settings()
        written = (read_marker_id(directory), read_marker_roots(directory), read_marker_settings(directory))
        if written != (identity, roots, settings):
            write_marker(directory, identity, roots, settings=settings)
