"""Reads only the documents that a principal may read.

Views of the connection stand before the tables of the catalog, so that every query of every caller, now and later,
sees the readable rows only; vectors, filters, counts and names follow from them. Word statistics (BM25) are of all.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from ragkit.index.access.rules import AccessSettings, Grants
from ragkit.index.catalog.directory import open_catalog
from ragkit.index.catalog.sqlite import Catalog, EmbedderRow
from ragkit.index.kept_vectors import KeptVectors
from ragkit.index.reader import CatalogReader, CatalogSnapshot
from ragkit.lexical.base import ChunkKeys
from ragkit.lexical.bm25_index import Bm25Index, encode_term
from ragkit.store.native.scanner import Scanner

_VIEWS_SQL = """
CREATE TEMP TABLE IF NOT EXISTS readable (key INTEGER PRIMARY KEY);
CREATE TEMP TABLE IF NOT EXISTS readable_state (generation INTEGER NOT NULL, digest TEXT NOT NULL);
CREATE TEMP VIEW IF NOT EXISTS documents AS
    SELECT * FROM main.documents WHERE +key IN (SELECT key FROM temp.readable);
CREATE TEMP VIEW IF NOT EXISTS chunks AS
    SELECT * FROM main.chunks WHERE +document IN (SELECT key FROM temp.readable);
CREATE TEMP VIEW IF NOT EXISTS files AS
    SELECT * FROM main.files f WHERE
    EXISTS (SELECT 1 FROM main.documents d WHERE d.source = f.source AND d.live = 1
            AND +d.key IN (SELECT key FROM temp.readable))
    OR (f.document IS NULL AND f.source IN (SELECT p.reason FROM main.files p JOIN main.documents d
        ON d.source = p.source WHERE p.status = 'part' AND d.live = 1 AND +d.key IN (SELECT key FROM temp.readable)));
CREATE TEMP VIEW IF NOT EXISTS roots AS
    SELECT * FROM main.roots WHERE path NOT IN
    (SELECT source FROM main.documents WHERE +key NOT IN (SELECT key FROM temp.readable))
    AND path NOT IN (SELECT source FROM main.files WHERE document IS NULL);
"""


class ReadableBm25Index(Bm25Index):
    """The lexical index; it tells the words of readable chunks only."""

    def missing_terms(self, terms: Sequence[str]) -> list[str]:
        """Those of the terms that no readable chunk contains, in order."""
        return [term for term in terms if not self._count(term, 1)]

    def find_terms(self, prefixes: Sequence[str]) -> dict[str, int]:
        """The terms of readable chunks that begin with one of the prefixes, each with the number of these chunks."""
        counts = {term: self._count(term) for term in super().find_terms(prefixes)}
        return {term: count for term, count in counts.items() if count}

    def _count(self, term: str, limit: int = -1) -> int:
        statement = (
            "SELECT count(DISTINCT doc) FROM (SELECT p.doc FROM @_postings p WHERE p.term = ?"
            " AND EXISTS (SELECT 1 FROM chunks c WHERE c.key = p.doc AND c.live = 1) LIMIT ?)"
        )
        return int(self._execute(statement, (encode_term(term), limit)).fetchone()[0])


class RestrictedReader(CatalogReader):
    """Reads a knowledge base as a principal; its vectors are those of the reader of everything."""

    def __init__(self, unrestricted: CatalogReader, grants: Grants, settings: AccessSettings) -> None:
        self._unrestricted = unrestricted
        self._grants = grants
        self._settings = settings
        connection = open_catalog(unrestricted.directory, verify_checksums=False, copy_if_locked=True)
        super().__init__(unrestricted.directory, ReadableBm25Index, None, connection, unrestricted.remote_vectors)

    @property
    def is_restricted(self) -> bool:
        """Whether it may leave out documents."""
        return True

    @contextmanager
    def latest_catalog(self) -> Iterator[Catalog]:
        """The catalog in its latest state, restricted as well."""
        with self.snapshot() as snapshot:
            yield Catalog(snapshot.connection)

    def readable_set(self, connection: sqlite3.Connection) -> str:
        """A hash of the keys of the readable documents of the generation that a connection sees."""
        [digest] = connection.execute("SELECT digest FROM temp.readable_state").fetchone()
        return str(digest)

    def shares_hidden_content(self, snapshot: CatalogSnapshot, source: str) -> bool:
        """Whether a file, or one that is inside of it, holds a document that the principal may not read."""
        found = snapshot.connection.execute(
            "SELECT 1 FROM main.documents d LEFT JOIN main.files f ON f.source = d.source WHERE d.live = 1"
            " AND (d.source = :file OR (f.status = 'part' AND f.reason = :file)"
            " OR substr(d.source, 1, length(:file) + 1) IN (:file || '#', :file || '!', :file || '/'))"
            " AND d.key NOT IN (SELECT key FROM temp.readable) LIMIT 1",
            {"file": source},
        )
        return found.fetchone() is not None

    def _begin_snapshot(self, connection: sqlite3.Connection) -> CatalogSnapshot:
        while True:
            self._create_views(connection)
            snapshot = super()._begin_snapshot(connection)
            [state] = connection.execute("SELECT generation FROM temp.readable_state").fetchone()
            if state == snapshot.arrays.generation:
                return snapshot
            connection.rollback()  # a writer published in between

    def _create_views(self, connection: sqlite3.Connection) -> None:
        """Bring the views of a connection to its generation; they outlive the transactions of snapshots."""
        connection.execute("BEGIN")
        try:
            generation = Catalog(connection).generation()
            for statement in _VIEWS_SQL.split(";\n"):
                connection.execute(statement)
            row = connection.execute("SELECT generation FROM temp.readable_state").fetchone()
            if row is None or row[0] != generation:
                connection.execute("DELETE FROM temp.readable")
                connection.execute("DELETE FROM temp.readable_state")
                rows = connection.execute("SELECT key, source, metadata FROM main.documents WHERE live = 1").fetchall()
                may_read = self._settings.may_read
                keys = [(k,) for k, source, data in rows if may_read(self._grants, source, json.loads(data))]
                connection.executemany("INSERT INTO temp.readable VALUES (?)", keys)
                digest = sha256(json.dumps(keys).encode()).hexdigest()
                connection.execute("INSERT INTO temp.readable_state VALUES (?, ?)", (generation, digest))
            connection.execute("COMMIT")
        except BaseException:
            connection.rollback()
            raise

    def find_kept_vectors(self, embedder: EmbedderRow) -> KeptVectors:
        """Those of the reader of everything: they are found by the texts of readable chunks only."""
        return self._unrestricted.find_kept_vectors(embedder)

    def _load_vectors(
        self, connection: sqlite3.Connection, embedder: EmbedderRow | None, used: ChunkKeys
    ) -> tuple[NDArray[np.float32], Scanner]:
        return self._unrestricted._load_vectors(connection, embedder, used)
