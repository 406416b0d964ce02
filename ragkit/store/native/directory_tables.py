"""The database of a `DirectoryStore`: tables, connections, and documents as columns.

The vectors are in a `VectorFile`; `documents.row` is the number of a document's row in it.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from json.scanner import make_scanner
from pathlib import Path
from typing import Any, TypeAlias, cast

from ragkit.errors import KnowledgeBaseDamaged, KnowledgeBaseLocked, StoreError
from ragkit.records import Document, Heading
from ragkit.sqlite_wal import enable_wal
from ragkit.store import sqlite_files
from ragkit.store.fast_records import build_document

LAYOUT_VERSION = 2
DATABASE_FILE = "store.sqlite"
REPAIR_HINT = "`ragkit verify --repair`, or rebuild the store"

_scan_json: Callable[[str, int], tuple[Any, int]] = make_scanner(json.JSONDecoder())  # type: ignore[arg-type]
"""`json.loads` without skipping white space, which `json.dumps` does not write; only for text with a valid checksum."""

ColumnValue: TypeAlias = str | bytes | int
"""A string with lone surrogates, which SQLite rejects as text, is stored as bytes."""

TABLES = (
    """
    -- generation: incremented by every commit. file: the name of the vector file, '' before the first rows.
    CREATE TABLE state (
        one INTEGER PRIMARY KEY CHECK (one = 1), format INTEGER NOT NULL, generation INTEGER NOT NULL,
        file TEXT NOT NULL, file_id BLOB NOT NULL, dimension INTEGER NOT NULL,
        rows INTEGER NOT NULL, documents INTEGER NOT NULL
    )
    """,
    """
    -- id: UTF-8, so that ids sort by code point. rest: the other fields as a JSON list, including the metadata, so
    -- that a search reads one table only. vector: the checksum of the row in the vector file.
    CREATE TABLE documents (
        row INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, source NOT NULL, title NOT NULL, rest TEXT NOT NULL,
        text NOT NULL, vector INTEGER NOT NULL, checksum INTEGER NOT NULL
    )
    """,
    """
    -- Every row of the vector file, dead ones included: the metadata of a row do not change while readers use it.
    -- Filters are evaluated on these.
    CREATE TABLE metadata (row INTEGER PRIMARY KEY, json TEXT NOT NULL, checksum INTEGER NOT NULL)
    """,
    """
    -- Replaced or deleted rows of the vector file, and the generation that did it.
    CREATE TABLE dead (row INTEGER PRIMARY KEY, generation INTEGER NOT NULL)
    """,
    "CREATE INDEX dead_by_generation ON dead (generation)",
)


@dataclass(frozen=True, slots=True)
class StoreState:
    """The single row of `state`: the committed state."""

    generation: int
    file: str
    file_id: bytes
    dimension: int
    """0 before the first rows."""
    rows: int
    """Committed rows of the vector file, dead ones included."""
    documents: int
    """Number of documents: the rows without the dead ones."""


def connect(path: Path, busy_seconds: float) -> sqlite3.Connection:
    """A connection in autocommit mode, with explicit transactions. For one thread at a time."""
    connection = sqlite_files.connect(path, "rwc", busy_seconds)
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA cache_size=-16384")
    return connection


def create_tables(connection: sqlite3.Connection, busy_seconds: float) -> None:
    """Create the tables if they do not exist; several processes may call this at once."""
    if _has_tables(connection):
        return
    enable_wal(connection, busy_seconds)
    connection.execute("BEGIN IMMEDIATE")
    if not _has_tables(connection):  # another process may have created them
        for statement in TABLES:
            connection.execute(statement)
        connection.execute("INSERT INTO state VALUES (1, ?, 0, '', x'', 0, 0, 0)", (LAYOUT_VERSION,))
    connection.execute("COMMIT")


def _has_tables(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'state'").fetchone() is not None


def read_state(connection: sqlite3.Connection, path: Path) -> StoreState:
    """The state that the connection's transaction sees. Raises KnowledgeBaseDamaged for an unknown layout."""
    sql = "SELECT format, generation, file, file_id, dimension, rows, documents FROM state"
    row = connection.execute(sql).fetchone()
    if row is None or row[0] != LAYOUT_VERSION:
        reason = f"has layout {row[0] if row else None}, expected {LAYOUT_VERSION}"
        raise KnowledgeBaseDamaged(str(path), reason, REPAIR_HINT)
    return StoreState(*row[1:])


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Translate the errors of SQLite."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
            raise KnowledgeBaseLocked(str(path), "another process") from error
        if code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
            raise KnowledgeBaseDamaged(str(path), f"is not an intact database ({error})", REPAIR_HINT) from error
        raise StoreError(f"SQLite error in {path}: {error}") from error
    except UnicodeDecodeError as error:  # see `DATABASE_ERRORS`
        raise KnowledgeBaseDamaged(str(path), f"is not an intact database ({error})", REPAIR_HINT) from error


DOCUMENT_COLUMNS = "documents.row, id, source, title, rest, text, vector, documents.checksum"


def encode_document(row: int, document: Document, vector: int) -> tuple[ColumnValue, ...]:
    """The values of DOCUMENT_COLUMNS; `vector` is the checksum of the document's vector."""
    headings = [heading.to_row() for heading in document.headings]
    rest = [document.metadata, document.format, document.language, document.page_starts, headings]
    columns: tuple[ColumnValue, ...] = (
        encode_id(document.id),
        _encode_text(document.source),
        _encode_text(document.title),
        json.dumps(rest),
        _encode_text(document.text),
        vector,
    )
    return (row, *columns, column_checksum(columns))


def decode_document(columns: Sequence[Any], path: Path) -> Document:
    """The inverse of `encode_document`; ignores one extra column at the end.

    Raises KnowledgeBaseDamaged on a checksum mismatch.
    """
    row, name, source, title, rest, text, vector, expected, _ = columns
    key = name.decode("utf-8", "surrogatepass")
    # the input of `column_checksum`, if all of it is ASCII: a fast path, as this dominates the time of a search
    plain = (
        f"{len(key)}:{key}{len(source)}:{source}{len(title)}:{title}{len(rest)}:{rest}{len(text)}:{text}"
        f"{len(str(vector))}:{vector}"
    )
    if not plain.isascii() or zlib.crc32(plain.encode()) != expected:
        if column_checksum(columns[1:7]) != expected:
            raise KnowledgeBaseDamaged(str(path), f"has an altered document in row {row!r}", REPAIR_HINT)
        source, title, text = map(_decode_text, (source, title, text))
    metadata, format_, language, page_starts, headings = _scan_json(rest, 0)[0]
    return build_document(
        text,
        metadata,
        source,
        title,
        tuple(page_starts),
        tuple([Heading(*heading) for heading in headings]) if headings else (),
        format_,
        language,
        key,
    )


def encode_id(name: str) -> bytes:
    """The stored form of an id."""
    return name.encode("utf-8", "surrogatepass")


def decode_id(name: bytes) -> str:
    """The inverse of `encode_id`."""
    return name.decode("utf-8", "surrogatepass")


def column_checksum(values: Iterable[ColumnValue]) -> int:
    """CRC-32 over some columns, each prefixed with its length."""
    raw = [value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass") for value in values]
    return zlib.crc32(b"".join([b"%d:%b" % (len(item), item) for item in raw]))


def _encode_text(value: str) -> str | bytes:
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-8", "surrogatepass")
    return value


def _decode_text(value: ColumnValue) -> str:
    return value if isinstance(value, str) else cast("bytes", value).decode("utf-8", "surrogatepass")
