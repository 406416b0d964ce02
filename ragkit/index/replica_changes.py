"""What a writer changed in its copy of a knowledge base in a database, as rows to publish.

Triggers of the copy's catalog record the keys of changed rows, whoever changes them. A run that dies before it
publishes leaves records, by which the next writer knows that the copy must be dropped.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ragkit.errors import KnowledgeBaseDamaged
from ragkit.index.catalog.directory import CATALOG_FILE, open_vectors, repair_command
from ragkit.index.catalog.postgres_rows import COLUMNS, Row
from ragkit.index.catalog.schema import create_missing_tables
from ragkit.index.catalog.sqlite import SETTINGS_CHECKSUM_KEY, VECTORS_KEY, Catalog
from ragkit.index.sources.added_documents import ADDED_FOLDER
from ragkit.index.sources.web_pages import WEB_FOLDER

REPLICA_KEY = "replica"
"""Key of the id and version of the knowledge base in the database, in a copy's catalog."""
LOCAL_META = frozenset({REPLICA_KEY, VECTORS_KEY, SETTINGS_CHECKSUM_KEY, "id", "format", "last_file"})
"""Values of the table `meta` that belong to the directory."""

_RECORDED = {
    "meta": ("meta", "{row}.key"),
    "roots": ("roots", "{row}.path"),
    "files": ("files", "{row}.source"),
    "documents": ("documents", "{row}.key"),
    "contexts": ("contexts", "lower(hex({row}.request))"),
    "derived": ("derived", "{row}.chunk || ' ' || {row}.store"),
    "embedders": ("embedders", "{row}.fingerprint"),
}
"""Table -> (kind, key of a row)."""

_EXISTING = {
    "meta": "SELECT key, value FROM meta WHERE key {keys}",
    "roots": "SELECT path FROM roots WHERE path {keys}",
    "files": (
        "SELECT source, size, mtime_ns, ctime_ns, inode, content_hash, recipe, status, reason, hint, document"
        " FROM files WHERE source {keys}"
    ),
    "documents": (
        "SELECT key, id, source, content_hash, recipe, title, format, language, metadata, page_starts, headings, body,"
        " checksum FROM documents WHERE live = 1 AND key {keys} ORDER BY key"
    ),
    "chunks": (
        "SELECT c.key, c.document, v.text_hash, c.id, c.start, c.end, c.start_line, c.end_line, c.page, c.heading,"
        " c.text, c.checksum, x.sentence, x.checksum, t.terms, l.length"
        " FROM chunks c LEFT JOIN vectors v ON v.embedder = :embedder AND v.row = c.vector"
        " LEFT JOIN chunk_contexts x ON x.chunk = c.key"
        " LEFT JOIN lexicon t ON t.rowid = c.key LEFT JOIN lexicon_lengths l ON l.key = c.key"
        " WHERE c.live = 1 AND c.document {keys} ORDER BY c.key"
    ),
    "contexts": "SELECT request, sentence FROM contexts WHERE lower(hex(request)) {keys}",
    "derived": "SELECT store, chunk, chunk_id FROM derived WHERE chunk || ' ' || store {keys}",
}
"""Table of the database -> its rows in the copy. The tables `lexicon` are those of `Bm25Index`."""


def start_recording(connection: sqlite3.Connection) -> None:
    """Add the triggers that record changes. The caller holds a transaction."""
    create_missing_tables(connection)
    connection.execute("CREATE TABLE changed (number INTEGER PRIMARY KEY, kind TEXT NOT NULL, key ANY) STRICT")
    for table, (kind, key) in _RECORDED.items():
        for event, row in (("INSERT", "new"), ("UPDATE", "new"), ("DELETE", "old")):
            record = f"INSERT INTO changed (kind, key) VALUES ('{kind}', {key.format(row=row)})"  # noqa: S608 - constant
            name = f"record_{table}_{event.lower()}"
            connection.execute(f"CREATE TRIGGER {name} AFTER {event} ON {table} BEGIN {record}; END")


def has_unpublished_changes(connection: sqlite3.Connection) -> bool:
    """Whether changes are recorded. True for a catalog that records none: nobody knows what changed in it."""
    query = "SELECT count(*) FROM sqlite_master WHERE name = 'changed'"
    if not connection.execute(query).fetchone()[0]:
        return True
    keep = tuple(LOCAL_META)
    marks = ",".join("?" * len(keep))
    statement = f"SELECT 1 FROM changed WHERE NOT (kind = 'meta' AND key IN ({marks})) LIMIT 1"  # noqa: S608 - marks
    return connection.execute(statement, keep).fetchone() is not None


def attachment_path(directory: Path, name: str) -> Path:
    """The file of an attachment. Raises KnowledgeBaseDamaged if its name leads elsewhere."""
    path = directory / name
    if ".." in path.parts or path.parts[len(directory.parts)] not in (WEB_FOLDER, ADDED_FOLDER):
        raise KnowledgeBaseDamaged(str(directory), f"has an attachment with the name {name!r}", "remove it")
    return path


class RecordedChanges:
    """The recorded changes of a copy, in one read transaction; see `ChangedRows`.

    Args:
        directory: the copy.
        connection: a connection to its catalog, in a transaction.
        version: the version that the copy was made from.
        digests: path -> digest of the attachments in the database; None: publish no attachments.
        everything: take every row of the copy, and let it replace everything in the database.
    """

    def __init__(
        self,
        directory: Path,
        connection: sqlite3.Connection,
        version: int,
        digests: dict[str, str] | None,
        *,
        everything: bool = False,
    ) -> None:
        self.version = version
        self.everything = everything
        self._directory, self._connection = directory, connection
        catalog = Catalog(connection)
        self._embedder = catalog.current_embedder()
        changed = [] if everything else connection.execute("SELECT number, kind, key FROM changed").fetchall()
        self.last_number = max((row[0] for row in changed), default=0)
        """The last record that these changes cover."""
        self._keys: dict[str, dict[str, None]] = {kind: {} for kind in (*COLUMNS, "embedders")}
        for _, kind, key in changed:
            if kind != "meta" or key not in LOCAL_META:
                self._keys[kind][str(key)] = None
        rows = catalog.embedders()
        self.embedders: Sequence[tuple[str, int, bytes | None]] = [
            (row.fingerprint, row.dimension, row.probe)
            for row in rows
            if everything or row.fingerprint in self._keys["embedders"]
        ]
        known = {row.fingerprint for row in rows}
        self.removed_embedders: Sequence[str] = [name for name in self._keys["embedders"] if name not in known]
        current = self._embedder
        self.embedder = (current.fingerprint, current.dimension, current.probe) if current else None
        self._files = {} if digests is None else self._changed_files({} if everything else digests)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to publish."""
        return not self.everything and not any(self._keys.values())

    def keys(self, kind: str) -> list[str]:
        """See `ChangedRows.keys`."""
        return list(self._keys[kind])

    def gone(self, kind: str) -> list[str]:
        """See `ChangedRows.gone`."""
        if kind == "attachments":
            return [name for name, path in self._files.items() if path is None]
        if kind == "derived":
            existing = {f"{row[1]} {row[0]}" for row in self.rows(kind)}
        elif kind == "contexts":
            existing = {row[0].hex() for row in self.rows(kind)}
        else:
            existing = {str(row[0]) for row in self.rows(kind)}
        return [key for key in self._keys[kind] if key not in existing]

    def rows(self, table: str) -> Iterable[Row]:
        """See `ChangedRows.rows`."""
        if table == "attachments":
            return self._attachment_rows()
        return self._catalog_rows(table)

    def vectors(self, hashes: Sequence[bytes]) -> NDArray[np.float32]:
        """See `ChangedRows.vectors`."""
        embedder = self._embedder
        rows = Catalog(self._connection).find_vector_rows(embedder.key, hashes) if embedder is not None else {}
        if embedder is None or len(rows) < len(set(hashes)):
            raise self._damaged_error("has chunks without a vector")
        file = open_vectors(self._directory, embedder)
        try:
            return np.array(file.matrix(embedder.rows)[[rows[key] for key in hashes]])
        finally:
            file.close()

    def _catalog_rows(self, table: str) -> Iterator[Row]:
        kind = "documents" if table == "chunks" else table
        embedder = {"embedder": self._embedder.key if self._embedder else 0}
        keys = "IS NOT NULL" if self.everything else "IN (SELECT key FROM temp.wanted)"
        if not self.everything:
            self._connection.execute("CREATE TEMP TABLE IF NOT EXISTS wanted (key PRIMARY KEY)")
            self._connection.execute("DELETE FROM temp.wanted")
            values = [(int(key) if kind == "documents" else key,) for key in self._keys[kind]]
            self._connection.executemany("INSERT INTO temp.wanted VALUES (?)", values)
        for row in self._connection.execute(_EXISTING[table].format(keys=keys), embedder if table == "chunks" else {}):
            if table == "chunks" and (row[2] is None or row[14] is None or row[15] is None):
                raise self._damaged_error(f"has no vector or no terms of chunk {row[0]}")
            if self.everything and _is_of_directory(table, row):
                continue
            yield row

    def _changed_files(self, digests: dict[str, str]) -> dict[str, Path | None]:
        """Name -> file of the attachments that differ from those of the database; None if it is gone."""
        found: dict[str, Path] = {}
        for folder in (WEB_FOLDER, ADDED_FOLDER):
            for path in sorted((self._directory / folder).rglob("*")):
                if path.is_file() and not path.name.endswith(".new"):
                    found[path.relative_to(self._directory).as_posix()] = path
        changed: dict[str, Path | None] = {
            name: path for name, path in found.items() if digests.get(name) != file_digest(path)
        }
        changed.update((name, None) for name in digests if name not in found)
        self._keys["attachments"] = dict.fromkeys(changed)
        return changed

    def _attachment_rows(self) -> Iterator[Row]:
        for name, path in self._files.items():
            if path is not None:
                yield name, file_digest(path), path.read_bytes()

    def _damaged_error(self, reason: str) -> KnowledgeBaseDamaged:
        return KnowledgeBaseDamaged(str(self._directory / CATALOG_FILE), reason, repair_command(self._directory))


def _is_of_directory(table: str, row: Row) -> bool:
    """Whether a row does not move to a database with everything else: external stores are filled again there."""
    return table == "derived" or (table == "meta" and (row[0] in LOCAL_META or row[0].startswith("derived")))


def file_digest(path: Path) -> str:
    """A digest of a file's content."""
    return blake2b(path.read_bytes(), digest_size=16).hexdigest()


def forget_changes(connection: sqlite3.Connection, last_number: int) -> None:
    """Forget the records up to a number, in the caller's transaction: they are published."""
    connection.execute("DELETE FROM changed WHERE number <= ?", (last_number,))
