"""The read side of a knowledge base: whole generations, for any number of threads.

Each `view()` has a connection of its own and is one read transaction, in which rows, vectors and the full text
index all belong to one generation. What is kept in memory is kept per generation.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ragkit.errors import Damaged
from ragkit.index.catalog import Catalog, checksum, document_of, text_length
from ragkit.index.derived import Derived, filterable
from ragkit.index.home import CATALOG, open_catalog, repair_command
from ragkit.index.seal import read_seal
from ragkit.index.unsealed import check_rows
from ragkit.records import JSON, Chunk, Document, Metadata, Span
from ragkit.store.columns import Columns
from ragkit.store.filters import parse_filter
from ragkit.store.scanner import Scanner
from ragkit.store.vectorfile import VectorFile

Keys = NDArray[np.int64]
Where = Mapping[str, JSON] | None
IDLE_CONNECTIONS = 8
"""Connections that are kept for the next view, each with its cache of pages. They do not go with threads: a server
has more of these than ever read at the same time, and they come and go."""
NO_EXTRA: Mapping[str, float] = MappingProxyType({})
COPY_SUFFIX = ".i8"
"""Of the 8-bit copy beside a vector file: it saves time, and may be deleted."""


class SearchesTerms(Protocol):
    """The full text index, as a view uses it."""

    def search(
        self,
        terms: Sequence[str],
        top_k: int,
        allowed: Callable[[Keys], NDArray[np.bool_]] | None = None,
        extra: Mapping[str, float] = NO_EXTRA,
    ) -> list[tuple[int, float]]:
        """The best chunks for these terms by BM25, among those that `allowed` lets through: (key, score)."""

    def scores(
        self, terms: Sequence[str], keys: Sequence[int], extra: Mapping[str, float] = NO_EXTRA
    ) -> NDArray[np.float32]:
        """BM25 scores of these chunks; 0 where no term matches."""


@dataclass(frozen=True)
class Arrays:
    """What one generation's searches need in memory. Row i of each array is the i-th live chunk by key."""

    generation: int
    keys: Keys
    vectors: Keys
    """Row of the chunk's vector."""
    documents: Keys
    """Key of the chunk's document."""
    matrix: NDArray[np.float32]
    """(rows, dimension): every committed vector, also those of no live chunk."""
    used: Keys | None
    """The rows that live chunks have, or None when those are all."""
    scanner: Scanner
    columns: Columns = field(default_factory=Columns)
    """Metadata of the documents, a row each in the order of their keys; filled at the first filter."""
    masks: dict[str, NDArray[np.bool_]] = field(default_factory=dict)
    """Which chunks the filters let through that were asked for, by the filters' JSON."""
    checked: set[str] = field(default_factory=set)
    """Ids of the documents whose rows were held against their checksums, as no seal vouches for them."""


@dataclass(frozen=True, slots=True)
class DocumentRow:
    """A document as a list shows it."""

    id: str
    source: str
    title: str
    chunks: int
    characters: int
    """Of the text that the loader produced."""
    format: str
    modified_ns: int | None
    """When its file was changed last, by the file's own time; None for what is no file."""


class Reader:
    """Opens a knowledge base for reading. Close it, or use it as a context manager."""

    def __init__(
        self, directory: Path, lexicon: Callable[[sqlite3.Connection], SearchesTerms], derived: Derived | None = None
    ) -> None:
        """`derived`: the vector store beside the catalog; without one the catalog is searched itself."""
        self.directory = directory
        self.derived = derived
        self._lexicon = lexicon
        self._closed = False
        self._lock = threading.Lock()
        self._loading = threading.Lock()
        self._arrays: Arrays | None = None
        self._vectors: dict[str, VectorFile] = {}
        self._scanners: dict[str, Scanner] = {}
        self.sealed = read_seal(directory) is not None
        """Whether all files were held against their checksums when this was opened; else each row is as it is read."""
        self._idle = [open_catalog(directory)]

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of every connection and file; a view that is open keeps its connection to its end."""
        with self._lock:
            self._closed = True
            for connection in self._idle:
                connection.close()
            for vectors in self._vectors.values():
                vectors.close()
            if self.derived is not None:
                self.derived.close()
            self._idle.clear()
            self._vectors.clear()

    @contextmanager
    def view(self) -> Iterator[View]:
        """One generation, unchanged for as long as the view is open."""
        connection = self._take()
        try:
            yield self._snapshot(connection)
        except sqlite3.DatabaseError as error:
            path = self.directory / CATALOG
            raise Damaged(str(path), f"cannot be read ({error})", repair_command(self.directory)) from error
        finally:
            self._give(connection)

    @contextmanager
    def newest(self) -> Iterator[Catalog]:
        """The catalog as it is now, whatever a view that is open sees."""
        connection = self._take()
        try:
            yield Catalog(connection)
        finally:
            self._give(connection)

    def _snapshot(self, connection: sqlite3.Connection) -> View:
        """A transaction, and what it sees.

        Begun anew when a writer, just after, made the vector file anew and took away the one that it saw.
        """
        while True:
            connection.execute("BEGIN")
            generation = Catalog(connection).generation()
            try:
                return View(self, connection, self._lexicon(connection))
            except Damaged:
                connection.rollback()
                if Catalog(connection).generation() == generation:
                    raise

    def arrays(self, connection: sqlite3.Connection) -> Arrays:
        """The arrays of the generation that this connection's transaction sees."""
        row = connection.execute("SELECT value FROM meta WHERE key = 'generation'").fetchone()
        generation = int(row[0])
        cached = self._arrays
        if cached is not None and cached.generation == generation:
            return cached
        with self._loading:  # one thread loads; those that come with it, after a new generation, take what it has
            cached = self._arrays
            if cached is not None and cached.generation == generation:
                return cached
            loaded = self._load(connection, generation)
            self._arrays = loaded
            return loaded

    def _load(self, connection: sqlite3.Connection, generation: int) -> Arrays:
        rows = connection.execute("SELECT key, vector, document FROM chunks WHERE live = 1 ORDER BY key").fetchall()
        keys, vectors, documents = np.ascontiguousarray(np.array(rows, np.int64).reshape(-1, 3).T)
        used = np.unique(vectors)
        matrix, scanner = self._matrix(connection, used)
        some = None if len(used) == len(matrix) else used
        return Arrays(generation, keys, vectors, documents, matrix, some, scanner)

    def _matrix(self, connection: sqlite3.Connection, used: Keys) -> tuple[NDArray[np.float32], Scanner]:
        """The vectors of the embedder in use. Without a seal each row is held against its checksum."""
        row = connection.execute(
            "SELECT e.key, e.file, e.dimension, e.file_id, e.rows FROM embedders e"
            " JOIN meta m ON m.key = 'embedder' AND m.value = e.fingerprint"
        ).fetchone()
        if row is None:
            if len(used):
                raise Damaged(str(self.directory / CATALOG), "names no vectors", repair_command(self.directory))
            return np.zeros((0, 1), np.float32), Scanner()
        embedder, name, dimension, file_id, count = row
        with self._lock:
            if name not in self._vectors:
                path, fix = self.directory / name, repair_command(self.directory)
                opened = VectorFile.open(path, dimension=dimension, file_id=file_id, rows=count, fix=fix)
                for other in self._vectors.values():
                    other.close()  # views that are open keep what they have of it
                self._vectors = {name: opened}
                self._scanners = {name: Scanner(path.with_suffix(COPY_SUFFIX), file_id)}
            vectors, scanner = self._vectors[name], self._scanners[name]
        if len(used) and not (used[0] >= 0 and used[-1] < count):
            raise Damaged(str(self.directory / name), "lacks rows", repair_command(self.directory))
        matrix = vectors.matrix(count)
        if not self.sealed:
            check_rows(connection, embedder, matrix, vectors.path, repair_command(self.directory))
        return matrix, scanner

    def _take(self) -> sqlite3.Connection:
        """The connection that was used last: it has most of what is asked for in its cache."""
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return open_catalog(self.directory, check_seal=False)

    def _give(self, connection: sqlite3.Connection) -> None:
        """End the transaction, and keep the connection or close it."""
        try:
            connection.rollback()
        except sqlite3.Error:
            connection.close()
            raise
        with self._lock:
            if not self._closed and len(self._idle) < IDLE_CONNECTIONS:
                self._idle.append(connection)
                return
        connection.close()


class View:
    """One generation of a knowledge base. Keys are chunk keys: ints in the order in which chunks came in."""

    def __init__(self, reader: Reader, connection: sqlite3.Connection, lexicon: SearchesTerms) -> None:
        self._reader = reader
        self.connection = connection
        self._lexicon = lexicon
        self.arrays = reader.arrays(connection)

    def search_dense(self, query: NDArray[np.float32], top_k: int, where: Where = None) -> list[tuple[int, float]]:
        """The nearest chunks to a unit row of (dimension,): (key, cosine), best first, ties by key."""
        a = self.arrays
        if not len(a.keys):
            return []
        found = self._search_derived(query, top_k, where)
        if found is not None:
            return found
        mask = self._mask(where)
        rows = a.used if mask is None else np.unique(a.vectors[mask])
        # Chunks may share a row (equal texts), so that the best rows hold at least the best chunks.
        best, scores = a.scanner.nearest(a.matrix, query, top_k, rows)
        score_of = dict(zip(best.tolist(), scores.tolist(), strict=True))
        chosen = np.isin(a.vectors, best) if mask is None else np.isin(a.vectors, best) & mask
        found = [
            (key, score_of[row]) for key, row in zip(a.keys[chosen].tolist(), a.vectors[chosen].tolist(), strict=True)
        ]
        return sorted(found, key=lambda pair: (-pair[1], pair[0]))[:top_k]

    def _search_derived(self, query: NDArray[np.float32], top_k: int, where: Where) -> list[tuple[int, float]] | None:
        """What the vector store beside the catalog finds; None when there is none, or not of this generation.

        The catalog can always answer by itself: a store that a writer is just bringing in line is passed over.
        """
        derived = self._reader.derived
        if derived is None:
            return None
        results = derived.search(query, top_k, where, Catalog(self.connection), self._reader.newest)
        if results is None:
            return None
        marks = ",".join("?" * len(results))
        ids = [result.document.id for result in results]
        rows = self.connection.execute(f"SELECT id, key FROM chunks WHERE live = 1 AND id IN ({marks})", ids)  # noqa: S608
        keys = dict(rows.fetchall())
        if len(keys) < len(results):
            return None
        return sorted(((keys[r.document.id], r.score) for r in results), key=lambda pair: (-pair[1], pair[0]))

    def cosines(self, query: NDArray[np.float32], keys: Sequence[int]) -> NDArray[np.float32]:
        """Cosine of a unit row with each of these live chunks: (len(keys),)."""
        a = self.arrays
        at = np.searchsorted(a.keys, np.asarray(keys, np.int64))
        return np.asarray(a.matrix[a.vectors[at]] @ query, np.float32)

    def rows(self, keys: Sequence[int]) -> NDArray[np.float32]:
        """The unit rows of these live chunks: (len(keys), dimension)."""
        a = self.arrays
        at = np.searchsorted(a.keys, np.asarray(keys, np.int64))
        return np.asarray(a.matrix[a.vectors[at]], np.float32)

    def search_terms(
        self, terms: Sequence[str], top_k: int, where: Where = None, extra: Mapping[str, float] = NO_EXTRA
    ) -> list[tuple[int, float]]:
        """The best chunks for these terms by BM25: (key, score), best first, ties by key.

        `extra` are further terms, each with what it counts where one of `terms` counts 1.
        """
        mask = self._mask(where)
        live = self.arrays.keys if mask is None else self.arrays.keys[mask]

        def allowed(keys: Keys) -> NDArray[np.bool_]:
            return np.isin(keys, live, assume_unique=True)

        return self._lexicon.search(terms, top_k, allowed, extra)

    def term_scores(
        self, terms: Sequence[str], keys: Sequence[int], extra: Mapping[str, float] = NO_EXTRA
    ) -> NDArray[np.float32]:
        """BM25 scores of these chunks: (len(keys),)."""
        return self._lexicon.scores(terms, keys, extra)

    def chunks(self, keys: Sequence[int]) -> list[Chunk]:
        """These chunks, in the order asked for. Raises Damaged when a row is not what was written."""
        marks = ",".join("?" * len(keys))
        rows = self.connection.execute(f"{_CHUNKS} AND c.key IN ({marks})", tuple(keys))
        by_key = {row[0]: self._chunk(row) for row in rows}
        if missing := [key for key in keys if key not in by_key]:
            raise self._damaged(f"the document of chunk {missing[0]} is missing")
        return [by_key[key] for key in keys]

    def all_chunks(self) -> Iterator[Chunk]:
        """Every live chunk, by source and place."""
        for row in self.connection.execute(f"{_CHUNKS} ORDER BY d.source, c.start, c.key"):
            yield self._chunk(row)

    def find_chunk(self, chunk_id: str) -> Chunk | None:
        """The live chunk with this id."""
        row = self.connection.execute(f"{_CHUNKS} AND c.id = ?", (chunk_id,)).fetchone()
        return None if row is None else self._chunk(row)

    def documents(self) -> Iterator[tuple[str, str, int]]:
        """(source, title, number of chunks) of every live document, by source."""
        yield from self.connection.execute(
            "SELECT d.source, d.title, (SELECT count(*) FROM chunks c WHERE c.document = d.key)"
            " FROM documents d WHERE d.live = 1 ORDER BY d.source"
        )

    def document(self, source: str) -> Document | None:
        """The live document of a source, with its whole text."""
        return self._document("source", source)

    def find_document(self, document_id: str) -> Document | None:
        """The live document with this id, with its whole text."""
        return self._document("id", document_id)

    def document_rows(self, after: str, limit: int, text: str = "") -> list[DocumentRow]:
        """The next `limit` live documents behind the source `after`, by source.

        With `text` those whose source or title holds it; small and capital ASCII letters count as equal.
        """
        rows = self.connection.execute(
            "SELECT d.id, d.source, d.title, (SELECT count(*) FROM chunks c WHERE c.document = d.key), d.body,"
            " d.format, f.mtime_ns FROM documents d LEFT JOIN files f ON f.source = d.source"
            " WHERE d.live = 1 AND d.source > ?1"
            " AND (?2 = '' OR instr(lower(d.source), lower(?2)) OR instr(lower(d.title), lower(?2)))"
            " ORDER BY d.source LIMIT ?3",
            (after, text, limit),
        )
        return [
            DocumentRow(identity, source, title, chunks, text_length(body), form, modified)
            for identity, source, title, chunks, body, form, modified in rows
        ]

    def _document(self, column: str, value: str) -> Document | None:
        query = f"{_DOCUMENT} AND {column} = ? ORDER BY source LIMIT 1"
        row = self.connection.execute(query, (value,)).fetchone()
        if row is None:
            return None
        self._check(row[-1], row[:-1], f"the document {row[1]}")
        return document_of(row[:-1])

    def outline(self, chunk: Chunk) -> list[Span]:
        """The places of all live chunks of a chunk's document, by start."""
        rows = self.connection.execute(
            'SELECT c.start, c."end", c.heading FROM documents d JOIN chunks c ON c.document = d.key'
            " WHERE d.source = ? AND d.live = 1 AND c.live = 1 ORDER BY c.start, c.key",
            (chunk.source,),
        )
        return [Span(start, end, tuple(json.loads(heading))) for start, end, heading in rows]

    def text_of(self, chunk: Chunk) -> str:
        """The whole text of a chunk's document."""
        document = self.document(chunk.source)
        return document.text if document is not None else chunk.text

    def _mask(self, where: Where) -> NDArray[np.bool_] | None:
        """Which live chunks a filter lets through, or None for all. Raises InvalidFilter."""
        if not where:
            return None
        name = json.dumps(where, sort_keys=True, default=str)
        if name not in self.arrays.masks:
            condition = parse_filter(where)
            documents = np.unique(self.arrays.documents)
            self.arrays.columns.fill(len(documents), self._metadata)
            good = documents[self.arrays.columns.mask(condition, len(documents))]
            self.arrays.masks[name] = np.isin(self.arrays.documents, good)
        return self.arrays.masks[name]

    def _metadata(self, first: int) -> Iterator[Metadata]:
        """What filters see of each live document that has chunks, by key, from the `first` one on."""
        rows = self.connection.execute(
            "SELECT source, title, metadata FROM documents WHERE live = 1"
            " AND key IN (SELECT document FROM chunks WHERE live = 1) ORDER BY key LIMIT -1 OFFSET ?",
            (first,),
        )
        return (filterable(*row) for row in rows)

    def _chunk(self, row: tuple[Any, ...]) -> Chunk:
        key, identity, start, end, start_line, end_line, page, heading, text, crc, document_id, source, title, meta = (
            row
        )
        values = (identity, start, end, start_line, end_line, page, heading, text)
        self._check(crc, values, f"chunk {key}")
        self._check_document(document_id)
        return Chunk(
            id=identity,
            document_id=document_id,
            source=source,
            text=text,
            start=start,
            end=end,
            start_line=start_line,
            end_line=end_line,
            page=page,
            heading=tuple(json.loads(heading)),
            title=title,
            metadata=json.loads(meta),
        )

    def _check(self, stored: object, values: Sequence[object], what: str) -> None:
        if stored != checksum(tuple(values)):
            raise self._damaged(f"is not what was written ({what})")

    def _check_document(self, document_id: str) -> None:
        """Hold the row of a document, of which each of its chunks has a part, against its checksum, where no seal
        vouches for it."""
        if self._reader.sealed or document_id in self.arrays.checked:
            return
        row = self.connection.execute(f"{_DOCUMENT} AND id = ?", (document_id,)).fetchone()
        self._check(row and row[-1], row[:-1] if row else (), f"the document {document_id}")
        self.arrays.checked.add(document_id)

    def _damaged(self, reason: str) -> Damaged:
        directory = self._reader.directory
        return Damaged(str(directory / CATALOG), reason, repair_command(directory))


_DOCUMENT = (
    "SELECT id, source, title, format, language, metadata, page_starts, headings, body, checksum"
    " FROM documents WHERE live = 1"
)
_CHUNKS = (
    "SELECT c.key, c.id, c.start, c.end, c.start_line, c.end_line, c.page, c.heading, c.text, c.checksum,"
    " d.id, d.source, d.title, d.metadata FROM chunks c JOIN documents d ON d.key = c.document WHERE c.live = 1"
)
