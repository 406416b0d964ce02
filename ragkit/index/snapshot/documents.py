"""Look up whole documents in a snapshot of the catalog: by source or id, as a list, and their metadata."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragkit.index.aggregate import FieldAggregate, aggregate_field
from ragkit.index.catalog.sqlite import filter_metadata, stored_text_length
from ragkit.index.snapshot.arrays import SnapshotArrays
from ragkit.index.snapshot.chunk_filter import ChunkFilter
from ragkit.index.snapshot.rows import CHUNKS_SQL, CatalogRows
from ragkit.lexical.base import ChunkKeys
from ragkit.records import Chunk, Document, Metadata, Where

HEAD_CHARS = 1500
"""Characters of the beginning of a text."""
_HEAD_BYTES = 4 * HEAD_CHARS
"""Stored and read of a text: enough for its beginning, however badly it is compressed."""


@dataclass(frozen=True, slots=True)
class DocumentSummary:
    """A document in a list of documents."""

    id: str
    source: str
    title: str
    chunks: int
    characters: int
    """Length of the extracted text."""
    format: str
    modified_ns: int | None
    """Modification time of its file; None if it has no file."""


class DocumentLookups:
    """The live documents of one generation."""

    def __init__(
        self, connection: sqlite3.Connection, arrays: SnapshotArrays, rows: CatalogRows, chunk_filter: ChunkFilter
    ) -> None:
        self._connection = connection
        self._arrays = arrays
        self._rows = rows
        self._filter = chunk_filter

    def select(self, where: Where = None) -> Iterator[tuple[str, str, int]]:
        """(source, title, number of chunks) of every live document that matches a filter, by source."""
        # `yield from` would close the cursor of an abandoned iterator: an error if the catalog is closed by then
        return self._select_documents(
            "d.source, d.title, (SELECT count(*) FROM chunks c WHERE c.document = d.key)", where
        )

    def iter_texts(self, where: Where = None) -> Iterator[tuple[str, str, bytes]]:
        """(source, title, compressed UTF-8 text) of every live document that matches a filter, by source."""
        return self._select_documents("d.source, d.title, d.body", where)

    def iter_heads(self, where: Where = None) -> Iterator[Document]:
        """Every live document that matches a filter, by source, with the beginning of its text alone."""
        columns = f"d.id, d.source, d.title, d.format, d.metadata, substr(d.body, 1, {_HEAD_BYTES})"
        for key, source, title, kind, metadata, body in self._select_documents(columns, where):
            text = zlib.decompressobj().decompress(body, _HEAD_BYTES).decode("utf-8", "ignore")
            yield Document(text[:HEAD_CHARS], json.loads(metadata), source, title, format=kind, id=key)

    def _select_documents(self, columns: str, where: Where) -> Iterator[Any]:
        mask = self._filter.match(where)
        keys = None if mask is None else json.dumps(np.unique(self._arrays.document_keys[mask]).tolist())
        return self._connection.execute(
            f"SELECT {columns} FROM documents d WHERE d.live = 1"  # noqa: S608 - constant names
            " AND (:keys IS NULL OR d.key IN (SELECT value FROM json_each(:keys))) ORDER BY d.source",
            {"keys": keys},
        )

    def chunks_between(self, source: str, start: int, end: int) -> list[Chunk]:
        """The live chunks of a source that overlap [start:end] of its text, in order."""
        rows = self._connection.execute(
            f'{self._rows.chunks_sql} AND d.source = ? AND c.start < ? AND c."end" > ? ORDER BY c.start, c.key',
            (source, end, start),
        )
        return [self._rows.chunk(row) for row in rows]

    def chunk_keys(self, source: str, limit: int) -> ChunkKeys:
        """The keys of at most `limit` live chunks of a source, spread evenly, in the order of its text."""
        rows = self._connection.execute(
            "SELECT c.key FROM documents d JOIN chunks c ON c.document = d.key"
            " WHERE d.source = ? AND d.live = 1 AND c.live = 1 ORDER BY c.start, c.key",
            (source,),
        )
        return spread_evenly(np.array([row[0] for row in rows], np.int64), limit)

    def find(self, source: str) -> Document | None:
        """The live document of a source, with its complete text."""
        return self._rows.document("source", source)

    def find_by_id(self, document_id: str) -> Document | None:
        """The live document with this id, with its complete text."""
        return self._rows.document("id", document_id)

    def list_after(self, after: str, limit: int, text: str = "") -> list[DocumentSummary]:
        """The next `limit` live documents after the source `after`, by source.

        `text` selects documents whose source or title contains it, ignoring the case of ASCII letters.
        """
        rows = self._connection.execute(
            "SELECT d.id, d.source, d.title, (SELECT count(*) FROM chunks c WHERE c.document = d.key), d.body,"
            " d.format, f.mtime_ns FROM documents d LEFT JOIN files f ON f.source = d.source"
            " WHERE d.live = 1 AND d.source > :after"
            " AND (:text = '' OR instr(lower(d.source), lower(:text)) OR instr(lower(d.title), lower(:text)))"
            " ORDER BY d.source LIMIT :limit",
            {"after": after, "text": text, "limit": limit},
        )
        return [
            DocumentSummary(identity, source, title, chunks, stored_text_length(body), form, modified)
            for identity, source, title, chunks, body, form, modified in rows
        ]

    def first_chunk(self, document_id: str) -> Chunk | None:
        """The live chunk at the beginning of a document."""
        query = f"{CHUNKS_SQL} AND d.id = ? ORDER BY c.start, c.key LIMIT 1"
        first = self._connection.execute(query, (document_id,)).fetchone()
        return None if first is None else self._rows.chunk(first)

    def sample_metadata(self, where: Where, limit: int) -> tuple[int, list[Metadata]]:
        """The number of documents that match a filter, and the metadata of up to `limit` of them, spread evenly.

        Raises InvalidFilter.
        """
        mask = self._filter.mask(where)
        keys = np.unique(self._arrays.document_keys if mask is None else self._arrays.document_keys[mask])
        chosen = spread_evenly(keys, limit)
        rows = self._connection.execute(
            "SELECT source, title, metadata FROM documents"
            " WHERE key IN (SELECT value FROM json_each(?)) ORDER BY source",
            (json.dumps(chosen.tolist()),),
        )
        return len(keys), [filter_metadata(*row) for row in rows]

    def aggregate(self, field: str, where: Where) -> FieldAggregate:
        """The numbers in a metadata field of the live documents that match. Raises InvalidFilter."""
        mask = self._filter.mask(where)
        keys = self._arrays.document_keys if mask is None else self._arrays.document_keys[mask]
        chosen = set(np.unique(keys).tolist())
        rows = self._connection.execute(
            "SELECT key, source, title, metadata FROM documents WHERE live = 1 ORDER BY key"
        )
        return aggregate_field((filter_metadata(*row) for key, *row in rows if key in chosen), field)


def spread_evenly(keys: ChunkKeys, limit: int) -> ChunkKeys:
    """At most `limit` of some keys, with the first and the last one."""
    return keys if len(keys) <= limit else keys[np.linspace(0, len(keys) - 1, limit).astype(np.int64)]


def choose_central(vectors: NDArray[np.float32], count: int) -> list[int]:
    """The rows, (n, dimension), that together are nearest to all rows, the most central first.

    Greedy facility location (Nemhauser, Wolsey and Fisher, 1978).
    """
    similarity = np.maximum(vectors @ vectors.T, 0)
    chosen, covered = list[int](), np.zeros(len(vectors), np.float32)
    for _ in range(min(count, len(vectors))):
        gains = np.maximum(similarity - covered, 0).sum(axis=1)
        gains[chosen] = -1
        chosen.append(int(gains.argmax()))
        covered = np.maximum(covered, similarity[chosen[-1]])
    return chosen
