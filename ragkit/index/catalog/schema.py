"""The catalog's tables, and the connection that they are read and written through.

One SQLite file in WAL mode with `synchronous=FULL`: what was committed survives a power cut.
Vectors are not in it: they lie in append-only files beside it, and `vectors` says which row is whose.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from ragkit.store import sqlite_files

CATALOG_FORMAT = 1
"""The version of the layout. A newer one than this is refused, an older one is brought up to date."""

BUSY_TIMEOUT_S = 30.0
"""How long a connection waits for another one's commit before it gives up."""

CREATE_TABLES_SQL = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;

-- What was named on the command line, as absolute paths; files below them are looked after.
CREATE TABLE roots (path TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;

-- Every file that was looked at. status: indexed, empty, skipped or failed.
CREATE TABLE files (
    source TEXT PRIMARY KEY,
    size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, ctime_ns INTEGER NOT NULL, inode INTEGER NOT NULL,
    content_hash TEXT NOT NULL,
    recipe TEXT NOT NULL,
    status TEXT NOT NULL,
    reason TEXT NOT NULL, hint TEXT NOT NULL,
    document INTEGER
) STRICT, WITHOUT ROWID;

-- live = 0: worked on, not yet published. body: the text, zlib over UTF-8.
CREATE TABLE documents (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL, source TEXT NOT NULL, content_hash TEXT NOT NULL, recipe TEXT NOT NULL,
    title TEXT NOT NULL, format TEXT NOT NULL, language TEXT NOT NULL,
    metadata TEXT NOT NULL, page_starts TEXT NOT NULL, headings TEXT NOT NULL,
    body BLOB NOT NULL, live INTEGER NOT NULL, checksum INTEGER NOT NULL
) STRICT;
CREATE INDEX documents_by_source ON documents (source);

CREATE TABLE chunks (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL, document INTEGER NOT NULL, vector INTEGER NOT NULL,
    start INTEGER NOT NULL, "end" INTEGER NOT NULL,
    start_line INTEGER NOT NULL, end_line INTEGER NOT NULL,
    page INTEGER, heading TEXT NOT NULL, text TEXT NOT NULL,
    live INTEGER NOT NULL, checksum INTEGER NOT NULL
) STRICT;
CREATE INDEX chunks_by_document ON chunks (document);
CREATE INDEX chunks_live ON chunks (live, key, vector, document); -- the arrays of a search, without the text
CREATE INDEX chunks_by_id ON chunks (id);

-- One vector file for each embedder that was used; `rows` of it are committed, what lies behind is not.
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

-- What was handed over to vector stores beside the catalog.
CREATE TABLE derived (
    store TEXT NOT NULL, chunk INTEGER NOT NULL, chunk_id TEXT NOT NULL, PRIMARY KEY (store, chunk)
) STRICT, WITHOUT ROWID;
"""


CORRUPT_DATA_ERRORS = (ValueError, TypeError, LookupError, ArithmeticError)
"""What our own code raises when a catalog's numbers and texts are not what it wrote: a bit that turned can make any
value of one, also one of another type."""


def open_connection(path: Path, *, create: bool = False) -> sqlite3.Connection:
    """A connection in autocommit mode: transactions are begun and ended by name.

    The file must exist unless `create`; it is never made by accident. May be used by one thread at a time.
    """
    mode = "rwc" if create else "rw"
    connection = sqlite_files.connect(path, mode, BUSY_TIMEOUT_S)
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA cache_size=-65536")
    connection.execute("PRAGMA temp_store=MEMORY")
    return connection


def create_missing_indexes(connection: sqlite3.Connection) -> None:
    """Give a catalog, a new one or of an earlier version, the indexes that came later than its tables.

    They change no layout: a catalog without them is read too, only slower, and one with them by earlier versions. (Of
    100,000 documents one was found by its id in 0.5 s without, in 0.01 ms with it.)
    """
    connection.execute("CREATE INDEX IF NOT EXISTS documents_by_id ON documents (id)")


def create_catalog_tables(connection: sqlite3.Connection) -> None:
    """Lay out a new catalog, in one transaction. Raises sqlite3.OperationalError when it cannot be."""
    [mode] = connection.execute("PRAGMA journal_mode=WAL").fetchone()
    if mode != "wal":  # SQLite stays in the old mode when the disk fails, and does not say so
        raise sqlite3.OperationalError(f"its log cannot be made, the journal mode stays {mode!r}")
    connection.executescript(f"BEGIN IMMEDIATE;{CREATE_TABLES_SQL}COMMIT;")
