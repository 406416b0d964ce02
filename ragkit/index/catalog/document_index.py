"""The index of document fields in the catalog: names, titles, metadata, opening words, dates, periods and versions.

It is derived from the rows of the documents: a write session brings it up to date at its end, without reading a file or
embedding anything. A catalog that only older versions wrote has none; then no question names a document.
"""

from __future__ import annotations

import json
import sqlite3
import zlib

from ragkit.index.catalog.sqlite import Catalog
from ragkit.lexical.bm25_index import Bm25Index
from ragkit.lexical.document_fields import (
    FIELDS_VERSION,
    NO_DOCUMENTS,
    OPENING_CHARS,
    DocumentFields,
    NamedDocuments,
    document_terms,
    find_named_documents,
)

TABLE = "document_lexicon"
VERSION_KEY = "document_fields"
"""Key of the table `meta`: the version of the terms."""
_STORED_OPENING_BYTES = 8 * OPENING_CHARS
"""Compressed bytes that are read of a text: enough for its opening, however badly it is compressed."""
_BATCH = 500


class DocumentIndex:
    """The field terms of all documents of a catalog, by the key of the document."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._index = Bm25Index(connection, TABLE)

    def exists(self) -> bool:
        """Whether the catalog has this index."""
        query = "SELECT count(*) FROM sqlite_master WHERE name = ?"
        return bool(self._connection.execute(query, (f"{TABLE}_documents",)).fetchone()[0])

    def synchronize(self) -> None:
        """Index the documents that are new, and forget those that are gone. Starts a transaction if there is work."""
        catalog = Catalog(self._connection)
        current = catalog.get_meta(VERSION_KEY) == FIELDS_VERSION and self.exists()
        added, removed = self._changes() if current else ([], [])
        if current and not added and not removed:
            return
        with catalog.transaction():
            if not current:
                self._recreate()
                catalog.set_meta(VERSION_KEY, FIELDS_VERSION)
                added, removed = self._changes()
            self._index.remove(removed)
            self._connection.executemany(
                f"DELETE FROM {TABLE}_documents WHERE key = ?",  # noqa: S608 - constant name
                [(key,) for key in removed],
            )
            for start in range(0, len(added), _BATCH):
                self._add(added[start : start + _BATCH])

    def find(self, question: str) -> NamedDocuments:
        """The documents whose fields match the question."""
        if not self.exists():
            return NO_DOCUMENTS
        return find_named_documents(self._index, question)

    def _changes(self) -> tuple[list[int], list[int]]:
        """The keys of documents that are not indexed, and the indexed keys that are no documents (or other ones)."""
        added = self._connection.execute(
            f"SELECT d.key FROM documents d LEFT JOIN {TABLE}_documents i ON i.key = d.key AND i.id = d.id"  # noqa: S608
            " WHERE i.key IS NULL ORDER BY d.key"
        ).fetchall()
        removed = self._connection.execute(
            f"SELECT i.key FROM {TABLE}_documents i LEFT JOIN documents d ON d.key = i.key AND d.id = i.id"  # noqa: S608
            " WHERE d.key IS NULL ORDER BY i.key"
        ).fetchall()
        return [row[0] for row in added], [row[0] for row in removed]

    def _recreate(self) -> None:
        for name in (f"{TABLE}_postings", TABLE, f"{TABLE}_lengths", f"{TABLE}_stamp", f"{TABLE}_documents"):
            self._connection.execute(f"DROP TABLE IF EXISTS {name}")
        self._index.create_tables()
        self._connection.execute(f"CREATE TABLE {TABLE}_documents (key INTEGER PRIMARY KEY, id TEXT NOT NULL) STRICT")

    def _add(self, keys: list[int]) -> None:
        rows = self._connection.execute(
            "SELECT key, id, source, title, metadata, substr(body, 1, ?) FROM documents"
            " WHERE key IN (SELECT value FROM json_each(?))",
            (_STORED_OPENING_BYTES, json.dumps(keys)),
        ).fetchall()
        terms = [
            document_terms(DocumentFields(source, title, json.loads(metadata), _opening(body)))
            for _, _, source, title, metadata, body in rows
        ]
        self._index.add([row[0] for row in rows], terms)
        self._connection.executemany(f"INSERT INTO {TABLE}_documents VALUES (?, ?)", [row[:2] for row in rows])  # noqa: S608


def _opening(body: bytes) -> str:
    """The first characters of a stored text."""
    start = zlib.decompressobj().decompress(body, 4 * OPENING_CHARS)
    return start.decode("utf-8", "ignore")[:OPENING_CHARS]
