"""What a `DirectoryStore` keeps in its database: the tables, connections, and documents as columns.

Vectors are not in it: they lie in a `VectorFile` beside it, and `documents.row` says which row is whose.
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
from ragkit.store import sqlite_files
from ragkit.store.fast_records import build_document

LAYOUT_VERSION = 2
"""The version of the layout."""
DATABASE_FILE = "store.sqlite"
REPAIR_HINT = "`ragkit verify --repair`, or fill the store again"

_scan_json: Callable[[str, int], tuple[Any, int]] = make_scanner(json.JSONDecoder())  # type: ignore[arg-type]
"""`json.loads` without its look for blanks, of which `json.dumps` leaves none; only for what a checksum covers."""

ColumnValue: TypeAlias = str | bytes | int
"""A string with lone surrogates, which SQLite refuses as text, is kept as bytes."""

TABLES = (
    """
    -- generation: one more with every commit. file: the vector file's name, '' before the first rows.
    CREATE TABLE state (
        one INTEGER PRIMARY KEY CHECK (one = 1), format INTEGER NOT NULL, generation INTEGER NOT NULL,
        file TEXT NOT NULL, file_id BLOB NOT NULL, dimension INTEGER NOT NULL,
        rows INTEGER NOT NULL, documents INTEGER NOT NULL
    )
    """,
    """
    -- id: UTF-8, so that ids sort by code point. rest: the other fields as a list in JSON, metadata among them, so
    -- that a search looks into one table alone. vector: the checksum of the row in the vector file.
    CREATE TABLE documents (
        row INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, source NOT NULL, title NOT NULL, rest TEXT NOT NULL,
        text NOT NULL, vector INTEGER NOT NULL, checksum INTEGER NOT NULL
    )
    """,
    """
    -- Every row of the vector file, dead ones too: what a row means never changes while a reader may look at it.
    -- Filters are judged on these.
    CREATE TABLE metadata (row INTEGER PRIMARY KEY, json TEXT NOT NULL, checksum INTEGER NOT NULL)
    """,
    """
    -- Rows of the vector file that were replaced or deleted, and the generation that did it.
    CREATE TABLE dead (row INTEGER PRIMARY KEY, generation INTEGER NOT NULL)
    """,
    "CREATE INDEX dead_by_generation ON dead (generation)",
)


@dataclass(frozen=True, slots=True)
class StoreState:
    """The one row of `state`: what is committed."""

    generation: int
    file: str
    file_id: bytes
    dimension: int
    """0 before the first rows."""
    rows: int
    """Rows of the vector file that count, dead ones included."""
    documents: int
    """Documents that are here: rows without the dead ones."""


def connect(path: Path, busy_seconds: float) -> sqlite3.Connection:
    """A connection in autocommit mode: transactions are begun and ended by name. For one thread at a time."""
    connection = sqlite_files.connect(path, "rwc", busy_seconds)
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA cache_size=-16384")
    return connection


def create_tables(connection: sqlite3.Connection) -> None:
    """Lay out the database, unless it is; several processes may do so at once."""
    if _has_tables(connection):
        return
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("BEGIN IMMEDIATE")
    if not _has_tables(connection):  # another process may have been faster
        for statement in TABLES:
            connection.execute(statement)
        connection.execute("INSERT INTO state VALUES (1, ?, 0, '', x'', 0, 0, 0)", (LAYOUT_VERSION,))
    connection.execute("COMMIT")


def _has_tables(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'state'").fetchone() is not None


def read_state(connection: sqlite3.Connection, path: Path) -> StoreState:
    """What is committed, as this connection's transaction sees it."""
    row = connection.execute(
        "SELECT format, generation, file, file_id, dimension, rows, documents FROM state"
    ).fetchone()
    if row is None or row[0] != LAYOUT_VERSION:
        raise KnowledgeBaseDamaged(
            str(path), f"has layout {row[0] if row else None} where {LAYOUT_VERSION} is known", REPAIR_HINT
        )
    return StoreState(*row[1:])


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """SQLite's errors as ours."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
            raise KnowledgeBaseLocked(str(path), "another process") from error
        if code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
            raise KnowledgeBaseDamaged(str(path), f"is not a whole database ({error})", REPAIR_HINT) from error
        raise StoreError(f"{path} cannot be used: {error}") from error


DOCUMENT_COLUMNS = "documents.row, id, source, title, rest, text, vector, documents.checksum"


def encode_document(row: int, document: Document, vector: int) -> tuple[ColumnValue, ...]:
    """The values of DOCUMENT_COLUMNS; `vector` is the checksum of the document's row of the matrix."""
    headings = [[heading.start, heading.level, heading.text] for heading in document.headings]
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
    """The document that `encode_document` made columns of; one column more, behind them, is left alone.

    Raises KnowledgeBaseDamaged when a value has been altered.
    """
    row, name, source, title, rest, text, vector, expected, _ = columns
    key = name.decode("utf-8", "surrogatepass")
    # what `checksum` sums up, where all of it is ASCII: a search spends a good part of its time here
    plain = (
        f"{len(key)}:{key}{len(source)}:{source}{len(title)}:{title}{len(rest)}:{rest}{len(text)}:{text}"
        f"{len(str(vector))}:{vector}"
    )
    if not plain.isascii() or zlib.crc32(plain.encode()) != expected:
        if column_checksum(columns[1:7]) != expected:
            raise KnowledgeBaseDamaged(str(path), f"holds an altered document in row {row!r}", REPAIR_HINT)
        source, title, text = map(_decode_text, (source, title, text))
    metadata, format_, language, page_starts, headings = _scan_json(rest, 0)[0]
    return build_document(
        text,
        metadata,
        source,
        title,
        tuple(page_starts),
        tuple([Heading(*each) for each in headings]) if headings else (),
        format_,
        language,
        key,
    )


def encode_id(name: str) -> bytes:
    """An id as it is kept."""
    return name.encode("utf-8", "surrogatepass")


def decode_id(name: bytes) -> str:
    """An id as it was given."""
    return name.decode("utf-8", "surrogatepass")


def column_checksum(values: Iterable[ColumnValue]) -> int:
    """CRC-32 over some columns, each with its length, so that none can run into the next."""
    raw = [value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass") for value in values]
    return zlib.crc32(b"".join([b"%d:%b" % (len(each), each) for each in raw]))


def _encode_text(value: str) -> str | bytes:
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-8", "surrogatepass")
    return value


def _decode_text(value: ColumnValue) -> str:
    return value if isinstance(value, str) else cast("bytes", value).decode("utf-8", "surrogatepass")
