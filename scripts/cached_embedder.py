"""An embedder with a vector cache that embeds no text twice, and a cache in a SQLite file."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Protocol

import numpy as np

from ragkit.embed.base import EmbeddingProvider, Row, Rows
from ragkit.embed.embedding_job import EmbeddingJob
from ragkit.errors import KnowledgeBaseDamaged, KnowledgeBaseLocked
from ragkit.records import content_id

BUSY_TIMEOUT_S = 30.0
"""Seconds to wait for a lock of another process."""


class VectorCache(Protocol):
    """Vectors by key. Thread-safe."""

    def get_many(self, keys: Sequence[str]) -> dict[str, Row]:
        """The cached vectors of these keys."""

    def put_many(self, rows: Mapping[str, Row]) -> None:
        """Store vectors; existing keys are replaced."""


def text_cache_key(fingerprint: str, text: str) -> str:
    """Cache key of a text: 32 hex digits, from text and embedder fingerprint."""
    return content_id(fingerprint, "text", text)


def query_cache_key(fingerprint: str, text: str) -> str:
    """Cache key of a question, which some models embed differently from a document."""
    return content_id(fingerprint, "query", text)


class CachedEmbedder:
    """Embeds only texts that are not cached; equal texts of one call are embedded once.

    Thread-safe where `inner` is. Concurrent calls with the same new text may both embed it.
    """

    def __init__(self, inner: EmbeddingProvider, cache: VectorCache) -> None:
        self.inner = inner
        self._cache = cache

    @property
    def dimension(self) -> int:
        """The dimension of the inner embedder."""
        return self.inner.dimension

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the inner embedder: caching changes no vector."""
        return self.inner.fingerprint

    def embed_texts(self, texts: Sequence[str]) -> Rows:
        """One vector per text, in order: (len(texts), dimension). After an error, completed batches stay cached."""
        fingerprint = self.fingerprint
        keys = [text_cache_key(fingerprint, text) for text in texts]
        text_by_key = dict(zip(keys, texts, strict=True))
        cached = self._load_cached(list(text_by_key))
        missing = [key for key in text_by_key if key not in cached]
        if missing:
            cached |= self._embed_missing(missing, [text_by_key[key] for key in missing])
        rows = np.empty((len(keys), self.dimension), np.float32)
        for index, key in enumerate(keys):
            rows[index] = cached[key]
        return rows

    def embed_query(self, text: str) -> Row:
        """The vector of a question: (dimension,)."""
        key = query_cache_key(self.fingerprint, text)
        cached = self._load_cached([key])
        if key not in cached:
            cached[key] = self.inner.embed_query(text)
            self._cache.put_many(cached)
        return cached[key]

    def _embed_missing(self, keys: Sequence[str], texts: Sequence[str]) -> dict[str, Row]:
        """The vectors of new texts, cached batch by batch."""
        result: dict[str, Row] = {}
        embedding = EmbeddingJob(self.inner, texts)
        try:
            for indexes, rows in embedding.iter_remaining():
                new = {keys[index]: row for index, row in zip(indexes, rows, strict=True)}
                self._cache.put_many(new)
                result |= new
        finally:
            embedding.close()
        return result

    def _load_cached(self, keys: Sequence[str]) -> dict[str, Row]:
        """Cached vectors; those with another dimension are ignored."""
        shape = (self.dimension,)
        return {key: row for key, row in self._cache.get_many(keys).items() if row.shape == shape}


class SqliteVectorCache:
    """float32 vectors by key. Close it, or use it as a context manager."""

    def __init__(self, path: Path) -> None:
        """Open or create the file; its folder must exist.

        Raises:
            KnowledgeBaseDamaged: the file is not a SQLite file, or cannot be opened.
            KnowledgeBaseLocked: another process holds a lock for more than BUSY_TIMEOUT_S.
        """
        self._path = path
        self._lock = Lock()
        with self._translate_errors():
            self._connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, check_same_thread=False)
        try:
            with self._translate_errors():
                self._connection.execute("PRAGMA journal_mode = WAL")
                self._connection.execute("CREATE TABLE IF NOT EXISTS vectors (key TEXT PRIMARY KEY, row BLOB NOT NULL)")
        except BaseException:
            self._connection.close()
            raise

    def get_many(self, keys: Sequence[str]) -> dict[str, Row]:
        """The cached vectors of these keys. Raises KnowledgeBaseDamaged, KnowledgeBaseLocked."""
        query = "SELECT key, row FROM vectors WHERE key IN (SELECT value FROM json_each(?))"
        with self._lock, self._translate_errors():
            rows = self._connection.execute(query, (json.dumps(list(keys)),)).fetchall()
        return {key: np.frombuffer(raw, "<f4").astype(np.float32) for key, raw in rows if len(raw) % 4 == 0}

    def put_many(self, rows: Mapping[str, Row]) -> None:
        """Store these vectors, atomically. Raises KnowledgeBaseDamaged, KnowledgeBaseLocked."""
        values = [(key, np.asarray(row, "<f4").tobytes()) for key, row in rows.items()]
        with self._lock, self._translate_errors(), self._connection:
            self._connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", values)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def __enter__(self) -> SqliteVectorCache:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise KnowledgeBaseLocked(str(self._path), "another process") from error
            reason = f"cannot be used as a vector cache ({error})"
            raise KnowledgeBaseDamaged(
                str(self._path), reason, f"`rm {self._path}` (the vectors are computed again)"
            ) from error
