"""Local copies of a knowledge base in a database. A copy is a knowledge base directory, with the same keys and scores.

Readers have a copy that only ever holds published content. A writer has one of its own inside it, which records what
an index run changes; these rows are published from there. Both can be thrown away.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ragkit.errors import KnowledgeBaseDamaged, KnowledgeBaseLocked
from ragkit.index.catalog.checksums import CHECKSUM_FILE, delete_checksums, fsync_directory
from ragkit.index.catalog.directory import (
    CATALOG_FILE,
    MARKER_FILE,
    NewKnowledgeBase,
    create_knowledge_base,
    knowledge_base_exists,
    open_catalog,
    write_marker,
    write_place,
)
from ragkit.index.catalog.lock import WriterLock
from ragkit.index.catalog.postgres_rows import Row
from ragkit.index.catalog.row_checks import verify_before_writing
from ragkit.index.catalog.schema import CORRUPT_DATA_ERRORS, open_connection
from ragkit.index.catalog.sqlite import VECTORS_KEY, Catalog
from ragkit.index.catalog.write_session import WriteSession
from ragkit.index.rebuild import REBUILD_FOLDER, RecoveredState, replace_with_rebuilt
from ragkit.index.replica_changes import (
    LOCAL_META,
    REPLICA_KEY,
    attachment_path,
    has_unpublished_changes,
    start_recording,
)
from ragkit.index.sources.added_documents import ADDED_FOLDER
from ragkit.index.sources.web_pages import WEB_FOLDER
from ragkit.lexical.bm25_index import Bm25Index

if TYPE_CHECKING:
    from ragkit.index.catalog.postgres import DatabaseState, PostgresCatalog, PulledRows

WRITER_FOLDER = ".writer"
"""Folder of the writer's copy, inside the readers' one."""
MAX_PULL_WAIT_SECONDS = 300.0
"""How long a process waits for another one that updates the same copy."""
_BATCH_ROWS = 1_000

_NEW = NewKnowledgeBase("{}", lambda connection: Bm25Index(connection).create_tables())


class Replica:
    """The copy of a knowledge base in one directory. Several processes may share it."""

    def __init__(self, directory: Path, place: str) -> None:
        """`place` is the address of the database as messages show it."""
        self.directory = directory
        self.place = place
        self.has_vectors = True
        """Whether the vectors are copied. Otherwise the database searches them."""

    def matches(self, state: DatabaseState) -> bool:
        """Whether the copy is that of a state, with or without vectors as it should be."""
        if self.position() != (state.id, state.version):
            return False
        return not self._is_other_kind()

    def position(self) -> tuple[str, int]:
        """(id of the knowledge base, version) of the copy; ('', 0) if there is none, or it cannot be read."""
        if not knowledge_base_exists(self.directory):
            return "", 0
        try:
            with closing(open_catalog(self.directory, verify_checksums=False)) as connection:
                return read_position(Catalog(connection))
        except (KnowledgeBaseDamaged, sqlite3.DatabaseError, *CORRUPT_DATA_ERRORS):
            return "", 0

    def pull(self, database: PostgresCatalog) -> bool:
        """Update the copy to the published content, in one transaction; returns whether anything was new.

        A copy that is damaged, or of a knowledge base that was cleared, replaced or restored to an earlier state, is
        fetched again: no vector of what was cleared stays.
        """
        deadline = time.monotonic() + MAX_PULL_WAIT_SECONDS
        while True:
            identity, version = self.position()
            with database.read_changes(version) as changes:
                state = changes.state
                if self.matches(state):
                    return False
                try:
                    replaced = identity != state.id or version > state.version or changes.was_cleared
                    replaced = replaced or self._is_other_kind()
                    if replaced and knowledge_base_exists(self.directory):
                        with database.read_changes(0) as everything:
                            self._fetch_again(everything)
                        return True
                    if self._apply(changes):
                        return True
                except KnowledgeBaseDamaged:
                    with database.read_changes(0) as everything:
                        self._fetch_again(everything)
                    return True
                except KnowledgeBaseLocked:  # another process is pulling
                    if time.monotonic() >= deadline:
                        raise
            time.sleep(0.05)

    def refetch(self, database: PostgresCatalog) -> None:
        """Fetch the copy again, whatever it holds."""
        with database.read_changes(0) as everything:
            self._fetch_again(everything, always=True)

    def drop(self) -> None:
        """Delete the copy; other files of the directory stay."""
        if knowledge_base_exists(self.directory):
            with WriterLock(self.directory, timeout_s=MAX_PULL_WAIT_SECONDS):
                for name in (f"{CATALOG_FILE}*", "vectors-*", CHECKSUM_FILE, MARKER_FILE):
                    for path in self.directory.glob(name):
                        path.unlink()

    def _is_other_kind(self) -> bool:
        """Whether the copy has vectors and should not, or the other way round."""
        with closing(open_catalog(self.directory, verify_checksums=False)) as connection:
            return Catalog(connection).has_vectors() != self.has_vectors

    def _apply(self, changes: PulledRows) -> bool:
        """Write the changes; False if another process wrote some in the meantime."""
        with WriteSession(self.directory, _NEW) as session:
            write_place(self.directory, self.place)
            if read_position(session.catalog)[1] != changes.since:
                return False
            write_changes(session, changes, with_vectors=self.has_vectors)
            write_attachments(self.directory, changes)
        return True

    def _fetch_again(self, changes: PulledRows, *, always: bool = False) -> None:
        """Fetch everything into a new directory, then replace the catalog and the vectors."""
        if not self.directory.exists():
            self._apply(changes)
            return
        with WriterLock(self.directory, timeout_s=MAX_PULL_WAIT_SECONDS):
            if not always and self.matches(changes.state):
                return  # another process fetched it while this one waited
            folder = self.directory / REBUILD_FOLDER
            shutil.rmtree(folder, ignore_errors=True)
            with WriteSession(folder, _NEW) as session:
                numbers = RecoveredState(self.directory, "").last_file_number
                with session.catalog.transaction():
                    session.catalog.set_meta("last_file", str(numbers))
                write_changes(session, changes, with_vectors=self.has_vectors)
            replace_with_rebuilt(self.directory)
            for name in (WEB_FOLDER, ADDED_FOLDER):
                shutil.rmtree(self.directory / name, ignore_errors=True)
            write_attachments(self.directory, changes)
            write_place(self.directory, self.place)


class Workspace(Replica):
    """The copy of a writer. It is made from the readers' copy, and records what changes in it."""

    def __init__(self, replica: Replica) -> None:
        super().__init__(replica.directory / WRITER_FOLDER, replica.place)
        self._readers = replica

    def prepare(self, database: PostgresCatalog, create: NewKnowledgeBase | None) -> None:
        """Bring the copy to the published content. The caller holds the lease.

        What an interrupted run left is dropped, except for what models wrote on chunks, which was paid for.
        `create`: the initial content if nothing was published yet.
        """
        self._save_contexts(database)
        state = database.state()
        identity, version = self.position()
        if (
            state is None
            or (identity and identity != state.id)
            or self._is_dirty()
            or version > state.version
            or self._was_cleared(database, version)
        ):
            self._discard()
            identity = ""
        if not identity and state is not None and state.version:
            if self._readers.has_vectors:
                self._readers.pull(database)
                try:
                    self._clone()
                except KnowledgeBaseDamaged:
                    self._readers.refetch(database)
                    self._clone()
            else:
                self.pull(database)
                delete_checksums(self.directory)
                self._start_recording()
        if state is not None and state.version:
            self.pull(database)
        elif create is not None and not knowledge_base_exists(self.directory):
            self._create(create, state.id if state is not None else "")

    @staticmethod
    def _was_cleared(database: PostgresCatalog, version: int) -> bool:
        with database.read_changes(version) as changes:
            return changes.was_cleared

    def _create(self, new_base: NewKnowledgeBase, identity: str) -> None:
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        create_knowledge_base(self.directory, new_base)
        write_place(self.directory, self.place)
        with closing(open_connection(self.directory / CATALOG_FILE)) as connection:
            catalog = Catalog(connection)
            with catalog.transaction():
                start_recording(connection)
                write_position(catalog, identity, 0)
                for key in ("recipe", "generation"):
                    connection.execute("INSERT INTO changed (kind, key) VALUES ('meta', ?)", (key,))

    def _clone(self) -> None:
        """Copy the readers' copy."""
        with WriterLock(self._readers.directory, timeout_s=MAX_PULL_WAIT_SECONDS):
            clone_directory(self._readers.directory, self.directory)
        write_place(self.directory, self.place)
        self._start_recording()

    def _start_recording(self) -> None:
        path = self.directory / CATALOG_FILE
        with closing(open_connection(path)) as connection, Catalog(connection).transaction():
            start_recording(connection)

    def _is_dirty(self) -> bool:
        """Whether the last writer of this copy was interrupted, or a file of it is damaged."""
        if not knowledge_base_exists(self.directory):
            return self.directory.exists()
        try:
            with closing(open_catalog(self.directory)) as connection:
                return has_unpublished_changes(connection)
        except (KnowledgeBaseDamaged, sqlite3.DatabaseError):
            return True

    def _discard(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)

    def _save_contexts(self, database: PostgresCatalog) -> None:
        """Save the sentences on chunks that an interrupted run was given."""
        if not (self.directory / CATALOG_FILE).exists():
            return
        with suppress(sqlite3.DatabaseError), closing(open_connection(self.directory / CATALOG_FILE)) as connection:
            catalog = Catalog(connection)
            if catalog.has_contexts() and has_unpublished_changes(connection):
                database.save_contexts(catalog.iter_contexts())


def clone_directory(source: Path, target: Path) -> None:
    """Copy a knowledge base directory: catalog, vectors, copies of pages and added documents.

    The caller holds the writer lock of the source. Raises KnowledgeBaseDamaged if the source is damaged.
    """
    verify_before_writing(source)
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True, mode=0o700)
    with closing(open_catalog(source, verify_checksums=False)) as connection:
        new = target / f"{CATALOG_FILE}.new"
        with closing(sqlite3.connect(new)) as copy:
            connection.backup(copy)
        catalog = Catalog(connection)
        for embedder in catalog.embedders():
            shutil.copyfile(source / embedder.file, target / embedder.file)
        identity, roots, settings = catalog.get_meta("id") or "", catalog.roots(), catalog.settings()
    for name in (WEB_FOLDER, ADDED_FOLDER):
        if (source / name).exists():
            shutil.copytree(source / name, target / name)
    new.chmod(0o600)
    new.rename(target / CATALOG_FILE)
    write_marker(target, identity, roots, settings=settings)
    fsync_directory(target)


def read_position(catalog: Catalog) -> tuple[str, int]:
    """(id of the knowledge base in the database, version) of a copy; ('', 0) for a directory that is no copy."""
    stored = json.loads(catalog.get_meta(REPLICA_KEY) or "{}")
    return str(stored.get("id", "")), int(stored.get("version", 0))


def write_position(catalog: Catalog, identity: str, version: int) -> None:
    """Record the version of a copy, in the caller's transaction."""
    catalog.set_meta(REPLICA_KEY, json.dumps({"id": identity, "version": version}))


def write_changes(session: WriteSession, changes: PulledRows, *, with_vectors: bool = True) -> None:
    """Write pulled rows to a copy: first the vectors, if it has any, then everything else in one transaction."""
    catalog = session.catalog
    meta = {key: value for key, value in changes.rows("meta") if key not in LOCAL_META}
    current = meta.get("embedder") or catalog.get_meta("embedder") or ""
    rows_by_hash = _write_vectors(session, changes, current, with_vectors=with_vectors)
    connection = catalog.connection
    with catalog.transaction():
        _delete_removed(catalog, changes)
        _write_documents(catalog, changes, rows_by_hash)
        catalog.connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", meta.items())
        catalog.set_settings({})  # their checksum is not published
        catalog.add_roots(row[0] for row in changes.rows("roots"))
        connection.executemany("INSERT OR REPLACE INTO files VALUES (?,?,?,?,?,?,?,?,?,?,?)", changes.rows("files"))
        catalog.add_contexts((bytes(request), sentence) for request, sentence in changes.rows("contexts"))
        connection.executemany("INSERT OR REPLACE INTO derived VALUES (?,?,?)", changes.rows("derived"))
        write_position(catalog, changes.state.id, changes.state.version)
        if not with_vectors:
            catalog.set_meta(VECTORS_KEY, "database")
        with suppress(sqlite3.OperationalError):  # a copy for readers records nothing
            connection.execute("DELETE FROM changed")


def _write_vectors(
    session: WriteSession, changes: PulledRows, current: str, *, with_vectors: bool
) -> Callable[[bytes], int]:
    """Append the vectors that the new chunks need; returns text hash -> row: 0 in a copy without vectors."""
    catalog = session.catalog
    known: dict[bytes, int] = {}
    for embedder in changes.embedders():
        row, file = session.open_vectors(embedder.fingerprint, embedder.dimension)
        if embedder.probe is not None and embedder.probe != row.probe:
            with catalog.transaction():
                catalog.set_probe(row.key, embedder.probe)
        if embedder.fingerprint != current or not with_vectors:
            continue
        hashes = changes.text_hashes()
        known = catalog.find_vector_rows(row.key, hashes)
        missing = [key for key in hashes if key not in known]
        for keys, vectors in changes.vectors(current, missing):
            first = file.append(vectors)
            known.update((key, first + i) for i, key in enumerate(keys))
            file.sync()
            with catalog.transaction():
                catalog.add_vectors(row.key, first, keys, file.checksums(first, len(keys)).tolist())
    return known.__getitem__ if with_vectors else lambda _: 0


def _delete_removed(catalog: Catalog, changes: PulledRows) -> None:
    connection = catalog.connection
    _delete_documents(catalog, [int(key) for key in changes.removed("documents")])
    catalog.delete_files(changes.removed("files"))
    catalog.remove_roots(changes.removed("roots"))
    keys = [(key,) for key in changes.removed("meta") if key not in LOCAL_META]
    connection.executemany("DELETE FROM meta WHERE key = ?", keys)
    pairs = [key.partition(" ") for key in changes.removed("derived")]
    connection.executemany(
        "DELETE FROM derived WHERE store = ? AND chunk = ?", [(store, int(chunk)) for chunk, _, store in pairs]
    )
    requests = [(bytes.fromhex(key),) for key in changes.removed("contexts")]
    connection.executemany("DELETE FROM contexts WHERE request = ?", requests)


def _delete_documents(catalog: Catalog, keys: Sequence[int]) -> None:
    Bm25Index(catalog.connection).remove(catalog.chunk_keys(keys))
    catalog.delete_documents(keys)


def _write_documents(catalog: Catalog, changes: PulledRows, row_of: Callable[[bytes], int]) -> None:
    """Insert documents, chunks, contexts and terms. A key may have been of another document before."""
    lexical_index = Bm25Index(catalog.connection)
    for rows in _in_batches(changes.rows("documents")):
        _delete_documents(catalog, [row[0] for row in rows])
        catalog.connection.executemany(
            "INSERT INTO documents (key, id, source, content_hash, recipe, title, format, language, metadata,"
            " page_starts, headings, body, checksum, live) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,1)",
            rows,
        )
    for rows in _in_batches(changes.rows("chunks")):
        chunks, contexts, terms = [], [], []
        for key, document, text_hash, *values, context, context_checksum, words, length in rows:
            chunks.append((key, document, row_of(bytes(text_hash)), *values))
            terms.append((key, words, length))
            if context is not None:
                contexts.append((key, context, context_checksum))
        catalog.connection.executemany(
            'INSERT INTO chunks (key, document, vector, id, start, "end", start_line, end_line, page, heading, text,'
            " checksum, live) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,1)",
            chunks,
        )
        catalog.connection.executemany("INSERT INTO chunk_contexts VALUES (?,?,?)", contexts)
        lexical_index.restore(terms)


def write_attachments(directory: Path, changes: PulledRows) -> None:
    """Write copies of pages and added documents, and delete those that were removed."""
    for path in changes.removed("attachments"):
        attachment_path(directory, path).unlink(missing_ok=True)
    for path, _, data in changes.rows("attachments"):
        target = attachment_path(directory, path)
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        target.write_bytes(bytes(data))
        target.chmod(0o600)


def forget_database(directory: Path) -> None:
    """Make a copy a knowledge base directory of its own. The caller holds no other handle of it."""
    with closing(open_connection(directory / CATALOG_FILE)) as connection:
        delete_checksums(directory)
        with Catalog(connection).transaction():
            connection.execute("DELETE FROM meta WHERE key = ?", (REPLICA_KEY,))
    write_place(directory, "")
    with WriteSession(directory):  # writes the checksums
        pass


def _in_batches(rows: Iterator[Row]) -> Iterator[list[Row]]:
    batch: list[Row] = []
    for row in rows:
        batch.append(row)
        if len(batch) == _BATCH_ROWS:
            yield batch
            batch = []
    if batch:
        yield batch
