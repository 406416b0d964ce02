"""Read access to a knowledge base, for any number of threads.

Each snapshot has its own connection and is one read transaction: rows, vectors and lexical index belong to the same
generation. In-memory data is cached per generation.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from ragkit.errors import KnowledgeBaseDamaged, KnowledgeBaseError
from ragkit.index.catalog.checksums import read_checksums
from ragkit.index.catalog.directory import CATALOG_FILE, open_catalog, open_vectors, repair_command
from ragkit.index.catalog.document_index import DocumentIndex
from ragkit.index.catalog.duplicate_index import DuplicateIndex
from ragkit.index.catalog.row_checks import verify_vector_rows
from ragkit.index.catalog.sqlite import Catalog, EmbedderRow, heading_from_json
from ragkit.index.kept_vectors import KeptVectors
from ragkit.index.snapshot.arrays import SnapshotArrays, StaticVectors
from ragkit.index.snapshot.chunk_filter import ChunkFilter
from ragkit.index.snapshot.documents import DocumentLookups, choose_central
from ragkit.index.snapshot.rows import CatalogRows
from ragkit.lexical.base import NO_EXTRA_TERMS, Bm25Scores, ChunkKeys, ExtraTerms, LexicalIndex
from ragkit.lexical.document_fields import DOCUMENT_BOOST, NamedDocuments
from ragkit.lexical.near_duplicates import Passage
from ragkit.records import Chunk, ChunkSpan, Where
from ragkit.sqlite_columns import read_integer_columns
from ragkit.store.native.scanner import Scanner
from ragkit.store.native.vector_file import VectorFile
from ragkit.store.sqlite_files import CopiedConnection

if TYPE_CHECKING:
    from ragkit.index.external_store import ExternalStore  # which most knowledge bases do not have

MAX_IDLE_CONNECTIONS = 8
"""Idle connections kept for the next snapshot, each with its page cache. They are not bound to threads: a server has
more threads than concurrent readers."""
MAX_CENTRAL_CHUNKS = 1000
"""Chunks of one document that are compared with each other."""
INT8_COPY_SUFFIX = ".i8"
"""Suffix of the 8-bit copy of a vector file: a cache, safe to delete."""


class RemoteVectors(Protocol):
    """The vectors of a copy that leaves them in its database. Raises DatabaseFailed."""

    def count(self) -> int:
        """The number of vectors."""

    def search(
        self, fingerprint: str, query: NDArray[np.float32], top_k: int, allowed: ChunkKeys
    ) -> list[tuple[int, str, float]]:
        """The nearest of the chunks with the keys `allowed`: (key, chunk id, cosine), best first, ties by key."""

    def fetch(self, fingerprint: str, keys: Sequence[int]) -> dict[int, NDArray[np.float32]]:
        """The vectors of these chunks."""


class MissingVectors(Protocol):
    """Computes the vectors that chunks do not have yet, for one search: `ragkit.index.on_demand`."""

    def find_candidates(
        self, snapshot: CatalogSnapshot, query: NDArray[np.float32], top_k: int, where: Where, question: str
    ) -> list[tuple[int, float]]:
        """The candidates without a stored vector that were embedded now or for earlier questions: (key, cosine)."""

    def find(self, snapshot: CatalogSnapshot, keys: Sequence[int]) -> dict[int, NDArray[np.float32]]:
        """The vectors that were computed for some of these chunks, which have no stored one."""

    def compute(self, snapshot: CatalogSnapshot, keys: Sequence[int]) -> None:
        """Embed those of these chunks that were not embedded before."""

    def estimate_cosines(self, snapshot: CatalogSnapshot, keys: Sequence[int]) -> NDArray[np.float64]:
        """Cosines of chunks that have no vector with the question: (len(keys),)."""


class CatalogReader:
    """Reads a knowledge base. Close it, or use it as a context manager."""

    def __init__(
        self,
        directory: Path,
        lexicon: Callable[[sqlite3.Connection], LexicalIndex],
        derived: ExternalStore | None = None,
        connection: sqlite3.Connection | None = None,
        remote_vectors: RemoteVectors | None = None,
    ) -> None:
        """`derived` is the external vector store; without one, dense search uses the catalog's vectors.

        `remote_vectors`: where a copy finds the vectors that it left in its database; the caller closes it.

        `connection`: an open one to the catalog, whose files were verified; None: verify and open it.
        """
        self.directory = directory
        self.external_store = derived
        self.remote_vectors = remote_vectors
        self._open_lexical_index = lexicon
        self._closed = False
        self._lock = threading.Lock()
        self._load_lock = threading.Lock()
        self._arrays: SnapshotArrays | None = None
        self._vector_files: dict[str, VectorFile] = {}
        self._scanners: dict[str, Scanner] = {}
        self.kept_vectors: KeptVectors | None = None
        """The vectors that searches have computed; see `find_kept_vectors`."""
        self.is_verified = read_checksums(directory) is not None
        """Whether all files were verified on open; otherwise each row is verified when it is read."""
        self._idle_connections = [connection or open_catalog(directory, copy_if_locked=True)]

    def __enter__(self) -> CatalogReader:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections and files; open snapshots keep their connection until they end."""
        with self._lock:
            self._closed = True
            connections, self._idle_connections = self._idle_connections, []
            files, self._vector_files = self._vector_files, {}
            for connection in connections:
                connection.close()
            for vectors in files.values():
                vectors.close()
            if self.external_store is not None:
                self.external_store.close()

    @property
    def is_restricted(self) -> bool:
        """Whether it may leave out documents, which its principal may not read."""
        return False

    def readable_set(self, connection: sqlite3.Connection) -> str:
        """Identifies the documents that may be read; '' for everything."""
        return ""

    def shares_hidden_content(self, snapshot: CatalogSnapshot, source: str) -> bool:
        """Whether a file, or one that is inside of it, holds a document that the principal may not read."""
        return False

    @contextmanager
    def snapshot(self) -> Iterator[CatalogSnapshot]:
        """Open a read transaction on the current generation."""
        connection = self._acquire_connection()
        try:
            yield self._begin_snapshot(connection)
        except sqlite3.DatabaseError as error:
            path, fix = self.directory / CATALOG_FILE, repair_command(self.directory)
            raise KnowledgeBaseDamaged(str(path), f"cannot be read ({error})", fix) from error
        finally:
            self._release_connection(connection)

    def find_kept_vectors(self, embedder: EmbedderRow) -> KeptVectors:
        """The vectors that searches have computed for chunks without one."""
        with self._lock:
            if self.kept_vectors is None:
                self.kept_vectors = KeptVectors(self.directory, embedder.fingerprint, embedder.dimension)
            return self.kept_vectors

    @contextmanager
    def latest_catalog(self) -> Iterator[Catalog]:
        """The catalog in its latest state, independent of open snapshots."""
        connection = self._acquire_connection()
        try:
            yield Catalog(connection)
        finally:
            self._release_connection(connection)

    def _begin_snapshot(self, connection: sqlite3.Connection) -> CatalogSnapshot:
        """Begin a transaction. Retries if a writer just replaced the vector file that the transaction refers to."""
        while True:
            connection.execute("BEGIN")
            state = _read_state(connection)
            try:
                return CatalogSnapshot(self, connection, self._open_lexical_index(connection))
            except KnowledgeBaseDamaged:
                connection.rollback()
                if _read_state(connection) == state:
                    raise

    def arrays(self, connection: sqlite3.Connection) -> SnapshotArrays:
        """The arrays of the generation that this connection's transaction sees."""
        state = _read_state(connection)
        cached = self._arrays
        if cached is not None and (cached.generation, cached.filled) == state:
            return cached
        with self._load_lock:  # one thread loads a new generation, the others wait and reuse it
            cached = self._arrays
            if cached is not None and (cached.generation, cached.filled) == state:
                return cached
            self._arrays = self._load_arrays(connection, *state)
            return self._arrays

    def _load_arrays(self, connection: sqlite3.Connection, generation: int, filled: int) -> SnapshotArrays:
        columns = ("key", "vector", "document")
        keys, vectors, documents = read_integer_columns(connection, columns, "chunks WHERE live = 1")
        used = _unique_sorted(vectors[vectors >= 0])
        catalog = Catalog(connection)
        self._close_replaced_files({row.file for row in catalog.embedders()})
        matrix, scanner = self._load_vectors(connection, catalog.current_embedder(), used)
        used_rows = None if len(used) == len(matrix) else used
        static, row = None, catalog.static_embedder() if len(vectors) and vectors.min() < 0 else None
        if row is None and len(vectors) and vectors.min() < 0:
            path, fix = self.directory / CATALOG_FILE, repair_command(self.directory)
            raise KnowledgeBaseDamaged(str(path), "has chunks but no vectors", fix)
        if row is not None:
            used = _unique_sorted(~vectors[vectors < 0])
            static = StaticVectors(row.key, row.fingerprint, *self._load_vectors(connection, row, used), used)
        return SnapshotArrays(generation, filled, keys, vectors, documents, matrix, used_rows, scanner, static)

    def _close_replaced_files(self, current: set[str]) -> None:
        """Close the vector files that the catalog does not name any more; open snapshots keep their memory map."""
        with self._lock:
            for name in self._vector_files.keys() - current:
                self._vector_files.pop(name).close()
                del self._scanners[name]

    def _load_vectors(
        self, connection: sqlite3.Connection, embedder: EmbedderRow | None, used: ChunkKeys
    ) -> tuple[NDArray[np.float32], Scanner]:
        """The vectors of an embedder. Without a checksum file, each row is verified."""
        if embedder is not None and not Catalog(connection).has_vectors():
            return np.zeros((0, embedder.dimension), np.float32), Scanner()
        if embedder is None:
            if len(used):
                path, fix = self.directory / CATALOG_FILE, repair_command(self.directory)
                raise KnowledgeBaseDamaged(str(path), "has chunks but no vectors", fix)
            return np.zeros((0, 1), np.float32), Scanner()
        name = embedder.file
        with self._lock:
            if name not in self._vector_files:
                opened = open_vectors(self.directory, embedder)
                self._scanners[name] = Scanner(opened.path.with_suffix(INT8_COPY_SUFFIX), embedder.file_id)
                self._vector_files[name] = opened
            vectors, scanner = self._vector_files[name], self._scanners[name]
        if len(used) and not (used[0] >= 0 and used[-1] < embedder.rows):
            reason = f"is truncated: a chunk refers to a row outside of 0 to {embedder.rows - 1}"
            raise KnowledgeBaseDamaged(str(vectors.path), reason, repair_command(self.directory))
        matrix = vectors.matrix(embedder.rows)
        if not self.is_verified:
            verify_vector_rows(connection, embedder.key, matrix, vectors.path, repair_command(self.directory))
        return matrix, scanner

    def _acquire_connection(self) -> sqlite3.Connection:
        """The idle connection that was used last, since its page cache is warm; else a new one."""
        with self._lock:
            if self._idle_connections:
                return self._idle_connections.pop()
        return open_catalog(self.directory, verify_checksums=False, copy_if_locked=True)

    def _release_connection(self, connection: sqlite3.Connection) -> None:
        """End the transaction; keep the connection for reuse, or close it."""
        try:
            connection.rollback()
        except sqlite3.Error:
            connection.close()
            raise
        with self._lock:
            keep = not self._closed and not isinstance(connection, CopiedConnection)
            if keep and len(self._idle_connections) < MAX_IDLE_CONNECTIONS:
                self._idle_connections.append(connection)
                return
        connection.close()


class CatalogSnapshot:
    """One generation of a knowledge base. Keys are chunk keys: ints in insertion order."""

    def __init__(self, reader: CatalogReader, connection: sqlite3.Connection, lexicon: LexicalIndex) -> None:
        self._reader = reader
        self.connection = connection
        self._lexical_index = lexicon
        self.arrays = reader.arrays(connection)
        self._last_named: tuple[str, NamedDocuments] | None = None
        self._on_demand: MissingVectors | None = None
        self._filter = ChunkFilter(connection, self.arrays)
        verified = self.arrays.verified_documents
        self._rows = CatalogRows(connection, reader.directory, verified, is_verified=reader.is_verified)
        self.documents = DocumentLookups(connection, self.arrays, self._rows, self._filter)

    @property
    def is_restricted(self) -> bool:
        """Whether it may leave out documents, which its principal may not read."""
        return self._reader.is_restricted

    def shares_hidden_content(self, source: str) -> bool:
        """Whether a file, or one that is inside of it, holds a document that the principal may not read."""
        return self._reader.shares_hidden_content(self, source)

    @property
    def has_outdated_store(self) -> bool:
        """Whether there is an external vector store, which does not hold this generation."""
        store = self._reader.external_store
        return store is not None and not store.is_current(Catalog(self.connection))

    @property
    def identity(self) -> str:
        """The same for two snapshots only if they have the same documents, of which the same may be read."""
        of_catalog = Catalog(self.connection).get_meta("id") or ""
        return f"{of_catalog} {self.arrays.generation} {self._reader.readable_set(self.connection)}"

    def embedding_on_demand(self, vectors: MissingVectors) -> CatalogSnapshot:
        """The same snapshot, whose searches embed the best of the chunks that have no vector yet."""
        snapshot = copy(self)
        snapshot._on_demand = vectors
        return snapshot

    def search_dense(
        self, query: NDArray[np.float32], top_k: int, where: Where = None, question: str = ""
    ) -> list[tuple[int, float]]:
        """The chunks nearest to a unit vector, (dimension,): (key, cosine), best first, ties by key.

        `question`: its text, which finds the candidates among chunks that have no vector yet.
        """
        found = self._search_vectors(query, top_k, where)
        if self.arrays.static is None or self._on_demand is None or not question:
            return found
        found = [*found, *self._on_demand.find_candidates(self, query, top_k, where, question)]
        return sorted(found, key=lambda pair: (-pair[1], pair[0]))[:top_k]

    def _search_vectors(self, query: NDArray[np.float32], top_k: int, where: Where) -> list[tuple[int, float]]:
        """The nearest of the chunks that have vectors."""
        a = self.arrays
        if not len(a.chunk_keys):
            return []
        results = self._search_external_store(query, top_k, where)
        if results is not None:
            return results
        mask = self._filter.mask(where)
        if (remote := self._remote_vectors()) is not None:
            allowed = a.chunk_keys if mask is None else a.chunk_keys[mask]
            found = remote.search(self._fingerprint(), query, top_k, allowed)
            ids = self._ids([key for key, _, _ in found])
            return [(key, score) for key, identity, score in found if ids.get(key) == identity][:top_k]
        if mask is None and a.static is None:
            return self._rank(a.matrix, a.scanner, a.chunk_keys, a.vector_rows, a.used_rows, query, top_k)
        chosen = a.vector_rows >= 0 if mask is None else mask & (a.vector_rows >= 0)
        rows = a.vector_rows[chosen]
        distinct = a.used_rows if mask is None else np.unique(rows)
        return self._rank(a.matrix, a.scanner, a.chunk_keys[chosen], rows, distinct, query, top_k)

    def search_static(self, query: NDArray[np.float32], top_k: int, where: Where = None) -> list[tuple[int, float]]:
        """Of the chunks that have no vector yet, those whose static vectors are nearest to one: as `search_dense`."""
        a = self.arrays
        if a.static is None or a.static.matrix.shape[1] != len(query):
            return []
        mask = self._filter.mask(where)
        chosen = a.vector_rows < 0 if mask is None else mask & (a.vector_rows < 0)
        rows, static = ~a.vector_rows[chosen], a.static
        allowed = static.used_rows if mask is None else np.unique(rows)
        return self._rank(static.matrix, static.scanner, a.chunk_keys[chosen], rows, allowed, query, top_k)

    @staticmethod
    def _rank(  # noqa: PLR0913, PLR0917 - the parts of one search
        matrix: NDArray[np.float32],
        scanner: Scanner,
        keys: ChunkKeys,
        rows: ChunkKeys,
        allowed: ChunkKeys | None,
        query: NDArray[np.float32],
        top_k: int,
    ) -> list[tuple[int, float]]:
        """The nearest of the chunks with these keys, whose vectors are these rows of a matrix; `allowed`: the distinct
        rows, None for all of the matrix."""
        if not len(keys):
            return []
        # Chunks with equal texts share a row, so the best top_k rows cover the best top_k chunks.
        best, scores = scanner.search(matrix, query, top_k, allowed)
        score_of = dict(zip(best.tolist(), scores.tolist(), strict=True))
        is_best = np.zeros(len(matrix), np.bool_)
        is_best[best] = True
        chosen = is_best[rows]
        pairs = zip(keys[chosen].tolist(), rows[chosen].tolist(), strict=True)
        results = [(key, score_of[row]) for key, row in pairs]
        return sorted(results, key=lambda pair: (-pair[1], pair[0]))[:top_k]

    def _search_external_store(
        self, query: NDArray[np.float32], top_k: int, where: Where
    ) -> list[tuple[int, float]] | None:
        """Search the external vector store; None if there is none, or it does not hold this generation.

        While a writer synchronizes the store, the catalog's vectors are searched instead.
        """
        store = self._reader.external_store
        if store is None or self._filter.leaves_out_copies:
            return None
        results = store.search(query, top_k, where, Catalog(self.connection), self._reader.latest_catalog)
        if results is None:
            return None
        query_sql = "SELECT id, key FROM chunks WHERE live = 1 AND id IN (SELECT value FROM json_each(?))"
        ids = json.dumps([result.document.id for result in results])
        keys = dict(self.connection.execute(query_sql, (ids,)).fetchall())
        if len(keys) < len(results):
            return None
        return sorted(((keys[r.document.id], r.score) for r in results), key=lambda pair: (-pair[1], pair[0]))

    def cosines(self, query: NDArray[np.float32], keys: Sequence[int]) -> NDArray[np.float32]:
        """Cosine of a unit vector with each of these live chunks: (len(keys),).

        Estimated from its static vector for a chunk that has no vector yet, and was not embedded for a question.
        """
        lacking = self.lacks_vector(keys)
        if not lacking.any():
            return np.asarray(self.embeddings(keys) @ query, np.float32)
        numbers = np.asarray(keys, np.int64)
        cosines = np.zeros(len(numbers), np.float32)
        cosines[~lacking] = self.embeddings(numbers[~lacking].tolist()) @ query
        on_demand = self._require_on_demand()
        computed = on_demand.find(self, numbers[lacking].tolist())
        rest = lacking & ~np.isin(numbers, list(computed))
        for place in np.flatnonzero(lacking & ~rest):
            cosines[place] = computed[int(numbers[place])] @ query
        if rest.any():
            cosines[rest] = on_demand.estimate_cosines(self, numbers[rest].tolist())
        return cosines

    def lacks_vector(self, keys: Sequence[int] | ChunkKeys) -> NDArray[np.bool_]:
        """Whether each of these live chunks has no vector of the embedder yet: (len(keys),)."""
        a = self.arrays
        if a.static is None:
            return np.zeros(len(keys), np.bool_)
        return np.asarray(a.vector_rows[self._positions(keys)] < 0)

    def static_vectors(self, keys: Sequence[int] | ChunkKeys) -> NDArray[np.float32]:
        """The static vectors of live chunks without a vector of the embedder: (len(keys), static dimension)."""
        a = self.arrays
        assert a.static is not None  # noqa: S101 - some chunks lack vectors
        return a.static.matrix[~a.vector_rows[self._positions(keys)]]

    def text_hashes(self, keys: Sequence[int]) -> dict[int, bytes]:
        """The text hash of each of these live chunks, which have no vector of the embedder."""
        a = self.arrays
        if a.static is None or not len(keys):
            return {}
        rows = (~a.vector_rows[self._positions(keys)]).tolist()
        hashes = Catalog(self.connection).find_text_hashes(a.static.embedder, rows)
        if missing := [row for row in rows if row not in hashes]:
            raise self._rows.damaged(f"is missing the text hash of the static vector {missing[0]}")
        return {key: hashes[row] for key, row in zip(keys, rows, strict=True)}

    def _positions(self, keys: Sequence[int] | ChunkKeys) -> ChunkKeys:
        return np.searchsorted(self.arrays.chunk_keys, np.asarray(keys, np.int64))

    @property
    def kept_vectors(self) -> KeptVectors:
        """The vectors that searches have computed for chunks without one, now and before."""
        embedder = Catalog(self.connection).current_embedder()
        assert embedder is not None  # noqa: S101 - there are chunks
        return self._reader.find_kept_vectors(embedder)

    def _require_on_demand(self) -> MissingVectors:
        if self._on_demand is None:
            self.require_all_embedded()
            raise AssertionError("all chunks have vectors")
        return self._on_demand

    def require_all_embedded(self) -> None:
        """Check that each chunk has a vector. Raises KnowledgeBaseError."""
        if count := len(self.arrays.chunk_keys) - self.count_embedded():
            raise KnowledgeBaseError(f"{count:,} chunks have no vectors yet: run `ragkit index`")

    def embeddings(self, keys: Sequence[int]) -> NDArray[np.float32]:
        """The unit vectors of these live chunks: (len(keys), dimension). Those without a vector are embedded."""
        a = self.arrays
        if (lacking := self.lacks_vector(keys)).any():
            on_demand, numbers = self._require_on_demand(), np.asarray(keys, np.int64)
            on_demand.compute(self, missing := numbers[lacking].tolist())
            computed, rows = on_demand.find(self, missing), np.zeros((len(numbers), a.matrix.shape[1]), np.float32)
            rows[~lacking] = a.matrix[a.vector_rows[self._positions(numbers[~lacking])]]
            rows[lacking] = np.stack([computed[key] for key in missing])
            return rows
        if (remote := self._remote_vectors()) is not None:
            found = remote.fetch(self._fingerprint(), keys)
            gone = np.zeros(a.matrix.shape[1], np.float32)  # removed from the database since this generation
            return np.array([found.get(int(key), gone) for key in keys], np.float32).reshape(len(keys), -1)
        return np.asarray(a.matrix[a.vector_rows[self._positions(keys)]], np.float32)

    def count_vectors(self) -> int:
        """The number of stored vectors, also of those that no chunk uses."""
        remote = self._remote_vectors()
        return len(self.arrays.matrix) if remote is None else remote.count()

    def count_embedded(self) -> int:
        """The number of live chunks that have a vector."""
        return (
            int(np.count_nonzero(self.arrays.vector_rows >= 0)) if self.arrays.static else len(self.arrays.chunk_keys)
        )

    def _remote_vectors(self) -> RemoteVectors | None:
        """Where the vectors are, if they are not here."""
        return None if Catalog(self.connection).has_vectors() else self._reader.remote_vectors

    def _fingerprint(self) -> str:
        return Catalog(self.connection).get_meta("embedder") or ""

    def _ids(self, keys: Sequence[int]) -> dict[int, str]:
        query = "SELECT key, id FROM chunks WHERE live = 1 AND key IN (SELECT value FROM json_each(?))"
        return dict(self.connection.execute(query, (json.dumps(list(keys)),)).fetchall())

    def search_terms(
        self, terms: Sequence[str], top_k: int, where: Where = None, extra: ExtraTerms = NO_EXTRA_TERMS
    ) -> list[tuple[int, float]]:
        """The best chunks for these terms by BM25: (key, score), best first, ties by key.

        `extra` maps additional terms to their weights, relative to 1 for one of `terms`.
        """
        mask = self._filter.mask(where)
        live = self.arrays.chunk_keys if mask is None else self.arrays.chunk_keys[mask]
        allowed = partial(np.isin, test_elements=live, assume_unique=True)
        # The index has all live chunks, and between two generations others besides.
        is_exact = len(live) == len(self._lexical_index.keys())
        return self._lexical_index.search(terms, top_k, None if is_exact else allowed, extra)

    def find_terms(self, prefixes: Sequence[str]) -> dict[str, int]:
        """The terms that begin with one of the prefixes, each with the number of chunks that contain it."""
        return self._lexical_index.find_terms(prefixes)

    def search_documents(
        self, question: str, terms: Sequence[str], top_k: int, where: Where = None
    ) -> list[tuple[int, float]]:
        """The best chunks of the documents that the question names: (key, BM25 plus the boost of its document)."""
        named = self._find_named(question)
        if not len(named.keys):
            return []
        mask = self._filter.mask(where)
        members = np.isin(self.arrays.document_keys, named.keys)
        live = self.arrays.chunk_keys[members if mask is None else members & mask]
        allowed = partial(np.isin, test_elements=live, assume_unique=True)
        found = self._lexical_index.search(
            terms, top_k, allowed, boosts=lambda keys: self._document_boosts(named, keys)
        )
        keys = np.array([key for key, _ in found], np.int64)
        return list(
            zip(
                keys.tolist(),
                (np.array([s for _, s in found]) + self._document_boosts(named, keys)).tolist(),
                strict=True,
            )
        )

    def document_scores(self, question: str, keys: Sequence[int]) -> Bm25Scores:
        """How well the question names the documents of these live chunks: (len(keys),)."""
        positions = np.searchsorted(self.arrays.chunk_keys, np.asarray(keys, np.int64))
        return self._find_named(question).scores_of(self.arrays.document_keys[positions])

    def _document_boosts(self, named: NamedDocuments, keys: ChunkKeys) -> Bm25Scores:
        positions = np.searchsorted(self.arrays.chunk_keys, keys)
        return DOCUMENT_BOOST * named.scores_of(self.arrays.document_keys[positions])

    def _find_named(self, question: str) -> NamedDocuments:
        """The documents that a question names; the last question is remembered."""
        last = self._last_named
        if last is None or last[0] != question:
            last = self._last_named = (question, DocumentIndex(self.connection).find(question))
        return last[1]

    def term_scores(self, terms: Sequence[str], keys: Sequence[int], extra: ExtraTerms = NO_EXTRA_TERMS) -> Bm25Scores:
        """BM25 scores of these chunks: (len(keys),)."""
        return self._lexical_index.scores(terms, keys, extra)

    def chunks(self, keys: Sequence[int]) -> list[Chunk]:
        """These chunks, in the order of `keys`. Raises KnowledgeBaseDamaged on a checksum mismatch."""
        query = f"{self._rows.chunks_sql} AND c.key IN (SELECT value FROM json_each(?))"  # noqa: S608 - constant names
        rows = self.connection.execute(query, (json.dumps([int(key) for key in keys]),))
        by_key = {row[0]: self._rows.chunk(row) for row in rows}
        if missing := [key for key in keys if key not in by_key]:
            raise self._rows.damaged(f"is missing the document of chunk {missing[0]}")
        return [by_key[key] for key in keys]

    def iter_chunks(self) -> Iterator[Chunk]:
        """Every live chunk, by source and offset."""
        for row in self.connection.execute(f"{self._rows.chunks_sql} ORDER BY d.source, c.start, c.key"):
            yield self._rows.chunk(row)

    def find_chunk(self, chunk_id: str) -> Chunk | None:
        """The live chunk with this id."""
        row = self.connection.execute(f"{self._rows.chunks_sql} AND c.id = ?", (chunk_id,)).fetchone()
        return None if row is None else self._rows.chunk(row)

    def central_chunks(self, source: str, count: int) -> list[Chunk]:
        """The chunks of a source that together are nearest to all of its chunks, the most central first.

        By the vectors that exist, static ones if most chunks have no others yet, of at most MAX_CENTRAL_CHUNKS chunks.
        """
        keys = self.documents.chunk_keys(source, MAX_CENTRAL_CHUNKS)
        lacking = self.lacks_vector(keys)
        uses_static = 2 * np.count_nonzero(lacking) > len(keys)
        keys = keys[lacking] if uses_static else keys[~lacking]
        if not len(keys):
            return []
        vectors = self.static_vectors(keys) if uses_static else self.embeddings(keys.tolist())
        return self.chunks(keys[choose_central(vectors, count)].tolist())

    def chunk_spans(self, chunk: Chunk) -> list[ChunkSpan]:
        """The spans of all live chunks of a chunk's document, by start."""
        rows = self.connection.execute(
            'SELECT c.start, c."end", c.heading FROM documents d JOIN chunks c ON c.document = d.key'
            " WHERE d.source = ? AND d.live = 1 AND c.live = 1 ORDER BY c.start, c.key",
            (chunk.source,),
        )
        return [ChunkSpan(start, end, heading_from_json(heading)[0]) for start, end, heading in rows]

    def document_text(self, chunk: Chunk) -> str:
        """The complete text of a chunk's document."""
        document = self.documents.find(chunk.source)
        return document.text if document is not None else chunk.text

    def count_matches(self, where: Where) -> int:
        """The number of chunks that match a filter. Raises InvalidFilter."""
        mask = self._filter.mask(where)
        return len(self.arrays.chunk_keys) if mask is None else int(np.count_nonzero(mask))

    def has_groups(self) -> bool:
        """Whether some passages say the same."""
        return DuplicateIndex(self.connection).count_groups() > 0

    def find_passages(self, chunk_ids: Sequence[str]) -> list[Passage]:
        """Those of these live chunks that have a group."""
        return DuplicateIndex(self.connection).passages(chunk_ids)

    def group_sources(self, group: int, limit: int, where: Where = None) -> list[str]:
        """The first `limit` sources with a chunk of a group that matches a filter, by key. Raises InvalidFilter."""
        mask, keys = self._filter.match(where), self.arrays.chunk_keys
        members = DuplicateIndex(self.connection).group(group)
        sources = (source for key, source in members if mask is None or mask[np.searchsorted(keys, key)])
        return [*islice(dict.fromkeys(sources), limit)]

    def without_copies(self) -> CatalogSnapshot:
        """The same snapshot, with one chunk of each group: the newest one that matches the filter of the search."""
        snapshot = copy(self)
        snapshot._filter = ChunkFilter(self.connection, self.arrays, leaves_out_copies=True)
        return snapshot


def _read_state(connection: sqlite3.Connection) -> tuple[int, int]:
    """The generation, and how many times its chunks have got vectors since they were published."""
    catalog = Catalog(connection)
    return catalog.generation(), catalog.filled()


def _unique_sorted(numbers: ChunkKeys) -> ChunkKeys:
    """Like `np.unique`, which imports `numpy.ma`."""
    ordered = np.sort(numbers)
    return ordered[np.flatnonzero(np.diff(ordered, prepend=-1))] if len(ordered) else ordered
