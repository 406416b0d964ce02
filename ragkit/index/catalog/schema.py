"""Tables of the catalog, and connections to it.

One SQLite file in WAL mode with `synchronous=FULL`: committed data survives a power failure.
Vectors are stored in append-only files beside it; the table `vectors` maps text hashes to rows of these files.
"""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from pathlib import Path

from ragkit.sqlite_wal import enable_wal
from ragkit.store import sqlite_files

CATALOG_FORMAT = 1
"""Version of the schema. A newer version is rejected, an older one is upgraded."""

BUSY_TIMEOUT_S = 30.0
"""Seconds that a connection waits for a lock of another connection."""
READ_WAIT_S = 0.25
"""Seconds that a reader waits for it: another process holds it for milliseconds, or is stopped."""

CREATE_TABLES_SQL = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;

-- Indexed sources: absolute paths of files and folders, and URLs.
CREATE TABLE roots (path TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;

-- Every file seen by an index run. status: indexed, empty, skipped or failed;
-- part: a document inside the file `reason`, without size and times.
CREATE TABLE files (
    source TEXT PRIMARY KEY,
    size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, ctime_ns INTEGER NOT NULL, inode INTEGER NOT NULL,
    content_hash TEXT NOT NULL,
    recipe TEXT NOT NULL,
    status TEXT NOT NULL,
    reason TEXT NOT NULL, hint TEXT NOT NULL,
    document INTEGER
) STRICT, WITHOUT ROWID;

-- live = 0: staged, not yet published. body: the text, UTF-8, compressed with zlib. page_starts: places too.
CREATE TABLE documents (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL, source TEXT NOT NULL, content_hash TEXT NOT NULL, recipe TEXT NOT NULL,
    title TEXT NOT NULL, format TEXT NOT NULL, language TEXT NOT NULL,
    metadata TEXT NOT NULL, page_starts TEXT NOT NULL, headings TEXT NOT NULL,
    body BLOB NOT NULL, live INTEGER NOT NULL, checksum INTEGER NOT NULL
) STRICT;
CREATE INDEX documents_by_source ON documents (source);

-- heading: the heading path, and the place in the file.
-- vector: a row of the current embedder's file; < 0: ~vector is a row of the static embedder's file.
CREATE TABLE chunks (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL, document INTEGER NOT NULL, vector INTEGER NOT NULL,
    start INTEGER NOT NULL, "end" INTEGER NOT NULL,
    start_line INTEGER NOT NULL, end_line INTEGER NOT NULL,
    page INTEGER, heading TEXT NOT NULL, text TEXT NOT NULL,
    live INTEGER NOT NULL, checksum INTEGER NOT NULL
) STRICT;
CREATE INDEX chunks_by_document ON chunks (document);
CREATE INDEX chunks_live ON chunks (live, key, vector, document); -- covers the arrays of a search
CREATE INDEX chunks_by_id ON chunks (id);

-- One vector file per embedder; the first `rows` rows of it are committed.
CREATE TABLE embedders (
    key INTEGER PRIMARY KEY,
    fingerprint TEXT NOT NULL UNIQUE, dimension INTEGER NOT NULL,
    file TEXT NOT NULL, file_id BLOB NOT NULL, rows INTEGER NOT NULL, probe BLOB
) STRICT;
CREATE TABLE vectors (
    embedder INTEGER NOT NULL, text_hash BLOB NOT NULL, row INTEGER NOT NULL, checksum INTEGER NOT NULL,
    PRIMARY KEY (embedder, text_hash)
) STRICT, WITHOUT ROWID;
CREATE INDEX vectors_by_row ON vectors (embedder, row);

-- Chunks that were written to external vector stores.
CREATE TABLE derived (
    store TEXT NOT NULL, chunk INTEGER NOT NULL, chunk_id TEXT NOT NULL, PRIMARY KEY (store, chunk)
) STRICT, WITHOUT ROWID;
"""


CONTEXT_TABLES_SQL = """
-- Sentences on chunks that models wrote, by a hash of the request: no request is paid twice.
CREATE TABLE IF NOT EXISTS contexts (
    request BLOB PRIMARY KEY, sentence TEXT NOT NULL, checksum INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The context of each chunk that has one.
CREATE TABLE IF NOT EXISTS chunk_contexts (
    chunk INTEGER PRIMARY KEY, sentence TEXT NOT NULL, checksum INTEGER NOT NULL
) STRICT;
"""
"""Tables that were added after the first release. A catalog without them has no contexts."""

CORRUPT_DATA_ERRORS = (ValueError, TypeError, LookupError, ArithmeticError)
"""Errors that reading a corrupt row can raise: a flipped bit can produce any value of any type."""


def open_connection(path: Path, *, create: bool = False, copy_if_locked: bool = False) -> sqlite3.Connection:
    """A connection in autocommit mode: transactions are explicit. One thread at a time may use it.

    Args:
        path: the catalog. It must exist unless `create` is set.
        create: create a missing one.
        copy_if_locked: for reading alone; if another process keeps it locked, read a copy of it (`CopiedConnection`).
    """
    if copy_if_locked:
        connection = _connect_to_read(path)
    else:
        connection = sqlite_files.connect(path, "rwc" if create else "rw", BUSY_TIMEOUT_S)
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA cache_size=-32768")  # KiB; with twice as much, an index run takes as long
    connection.execute("PRAGMA temp_store=MEMORY")
    return connection


def _connect_to_read(path: Path) -> sqlite3.Connection:
    connection = sqlite_files.connect(path, "rw", READ_WAIT_S)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        connection.execute(f"PRAGMA busy_timeout={int(BUSY_TIMEOUT_S * 1000)}")
    except sqlite3.OperationalError as error:
        connection.close()
        if error.sqlite_errorcode & 0xFF not in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_PROTOCOL}:
            raise
        with suppress(OSError):
            return sqlite_files.connect_to_copy(path)
        return sqlite_files.connect(path, "rw", BUSY_TIMEOUT_S)
    except BaseException:
        connection.close()
        raise
    return connection


def create_missing_tables(connection: sqlite3.Connection) -> None:
    """Create the tables and indexes that were added after the first release.

    They do not change the format version: a catalog without them has no contexts and reads more slowly. Finding one of
    100,000 documents by id takes 0.5 s without the index and 0.01 ms with it.
    """
    for statement in CONTEXT_TABLES_SQL.split(";"):  # `executescript` would commit
        connection.execute(statement)
    connection.execute("CREATE INDEX IF NOT EXISTS documents_by_id ON documents (id)")


def create_catalog_tables(connection: sqlite3.Connection) -> None:
    """Create the tables of a new catalog, in one transaction. Raises sqlite3.OperationalError."""
    mode = enable_wal(connection, BUSY_TIMEOUT_S)
    if mode != "wal":  # on a disk error SQLite keeps the old mode without raising
        raise sqlite3.OperationalError(f"cannot enable WAL, the journal mode is {mode!r}")
    connection.executescript(f"BEGIN IMMEDIATE;{CREATE_TABLES_SQL}COMMIT;")
