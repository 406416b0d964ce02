"""The rows of a knowledge base on their way to PostgreSQL and back. Imports no client of a database."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Row = tuple[Any, ...]


@dataclass(frozen=True)
class KindColumns:
    """One kind of row."""

    tables: tuple[tuple[str, tuple[str, ...]], ...]
    """Tables with their columns; the first column is the key."""
    delete: tuple[bytes, ...]
    """Statements that delete rows by a list of keys."""


_DOCUMENT = (
    "key", "id", "source", "content_hash", "recipe", "title", "format", "language", "metadata", "page_starts",
    "headings", "body", "checksum",
)  # fmt: skip
_CHUNK = (
    "key", "document", "text_hash", "id", "start", "end", "start_line", "end_line", "page", "heading", "text",
    "checksum", "context", "context_checksum", "terms", "length",
)  # fmt: skip
_FILE = (
    "source", "size", "mtime_ns", "ctime_ns", "inode", "content_hash", "recipe", "status", "reason", "hint", "document",
)  # fmt: skip

COLUMNS: dict[str, KindColumns] = {
    "meta": KindColumns((("meta", ("key", "value")),), (b"DELETE FROM meta WHERE key = ANY(%s)",)),
    "roots": KindColumns((("roots", ("path",)),), (b"DELETE FROM roots WHERE path = ANY(%s)",)),
    "files": KindColumns((("files", _FILE),), (b"DELETE FROM files WHERE source = ANY(%s)",)),
    "documents": KindColumns(
        (("documents", _DOCUMENT), ("chunks", _CHUNK)),
        (
            b"DELETE FROM chunks WHERE document = ANY(%s::bigint[])",
            b"DELETE FROM documents WHERE key = ANY(%s::bigint[])",
        ),
    ),
    "contexts": KindColumns(
        (("contexts", ("request", "sentence")),), (b"DELETE FROM contexts WHERE encode(request, 'hex') = ANY(%s)",)
    ),
    "derived": KindColumns(
        (("derived", ("store", "chunk", "chunk_id")),), (b"DELETE FROM derived WHERE chunk || ' ' || store = ANY(%s)",)
    ),
    "attachments": KindColumns(
        (("attachments", ("path", "digest", "data")),), (b"DELETE FROM attachments WHERE path = ANY(%s)",)
    ),
}
"""Kind of row -> its tables. A chunk belongs to its document: the kind is `documents`."""


class ChangedRows(Protocol):
    """What a local copy changed since a version."""

    version: int
    """The version that the copy was made from."""
    everything: bool
    """Whether all rows of the database are replaced by those of the copy."""
    embedder: tuple[str, int, bytes | None] | None
    """The embedder of the chunks: fingerprint, dimension, vector of the probe text."""
    embedders: Sequence[tuple[str, int, bytes | None]]
    """All embedders that changed."""
    removed_embedders: Sequence[str]
    """Fingerprints."""

    def keys(self, kind: str) -> list[str]:
        """The keys of every changed row, as text."""

    def gone(self, kind: str) -> list[str]:
        """The keys of changed rows that do not exist any more, as text."""

    def rows(self, table: str) -> Iterable[Row]:
        """The changed rows of a table that exist, in the columns of `COLUMNS`."""

    def vectors(self, hashes: Sequence[bytes]) -> NDArray[np.float32]:
        """The vectors of these text hashes: (len(hashes), dimension)."""


_ESCAPE = "\x1a"


def encode_row(row: Row) -> Row:
    """The row as PostgreSQL takes it: its texts cannot hold NUL, which is written as two other characters."""
    return tuple(
        value.replace(_ESCAPE, "\x1aS").replace("\0", "\x1aZ")
        if isinstance(value, str) and (_ESCAPE in value or "\0" in value)
        else value
        for value in row
    )


def decode_row(row: Row) -> Row:
    """The inverse of `encode_row`."""
    return tuple(
        value.replace("\x1aZ", "\0").replace("\x1aS", _ESCAPE) if isinstance(value, str) and _ESCAPE in value else value
        for value in row
    )


def vectors_to_copy(hashes: Sequence[bytes], rows: NDArray[np.float32]) -> bytes:
    """Rows (text hash of 16 bytes, pgvector's vector) in the binary form of COPY."""
    dimension = rows.shape[1]
    layout = np.dtype([
        ("fields", ">i2"), ("hash_size", ">i4"), ("hash", "u1", (16,)),
        ("vector_size", ">i4"), ("dimension", ">i2"), ("unused", ">i2"), ("values", ">f4", (dimension,)),
    ])  # fmt: skip
    table = np.zeros(len(hashes), layout)
    table["fields"], table["hash_size"], table["vector_size"] = 2, 16, 4 + 4 * dimension
    table["dimension"] = dimension
    table["hash"] = np.frombuffer(b"".join(hashes), np.uint8).reshape(-1, 16)
    table["values"] = rows
    return b"PGCOPY\n\xff\r\n\0" + bytes(8) + table.tobytes() + b"\xff\xff"
