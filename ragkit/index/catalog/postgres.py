"""A knowledge base in PostgreSQL: its rows, its vectors, the lease of its writer.

A publication is one transaction, so that readers see the old content or the new one. Readers and writers work on local
copies (`ragkit.index.replica`), which pull what changed since their version.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ragkit.distribution import DISTRIBUTION
from ragkit.errors import DatabaseFailed, KnowledgeBaseLocked, MissingExtra, NotAKnowledgeBase
from ragkit.index.catalog.database_url import DatabaseUrl
from ragkit.index.catalog.postgres_rows import COLUMNS, ChangedRows, Row, decode_row, encode_row, vectors_to_copy
from ragkit.index.catalog.postgres_schema import FORMAT, MIGRATIONS, TABLES

try:
    import psycopg
    from psycopg import errors, sql
except ImportError as error:
    raise MissingExtra("a knowledge base in PostgreSQL", extra="pgvector") from error

CONNECT_SECONDS = 10
MIN_SERVER_VERSION = 150_000
"""PostgreSQL 15."""
VECTOR_BATCH_ROWS = 2_000
"""Vectors fetched at a time."""
MIN_UNUSED_VECTORS = 1_000
"""As in a directory: below this number, vectors of deleted texts are kept, because texts come back."""
_LEASE_POLL_SECONDS = 0.2
_STOP_POLL_SECONDS = 0.5

ResultT = TypeVar("ResultT")
Connection = psycopg.Connection[tuple[Any, ...]]
Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class DatabaseState:
    """What the database says about a knowledge base."""

    id: str
    """Changes when the knowledge base is replaced as a whole."""
    version: int
    """The number of its last publication."""
    writer: str
    """Who holds the lease; '' if nobody does."""


@dataclass(frozen=True)
class EmbedderState:
    """An embedder with vectors in the database."""

    fingerprint: str
    dimension: int
    probe: bytes | None


@dataclass(frozen=True)
class Lease:
    """The right to publish, until another writer takes over."""

    token: int
    owner: str


class PostgresCatalog:
    """One knowledge base in a schema of a database. Safe for several threads.

    Raises:
        DatabaseFailed: the database is unreachable, too old, or rejected a request; from any method.
    """

    def __init__(self, url: DatabaseUrl) -> None:
        self.url = url
        self._lock = threading.RLock()
        self._connection: Connection | None = None

    def close(self) -> None:
        """Close the connection; the next call opens one."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    # state, tables, lease

    def state(self) -> DatabaseState | None:
        """The state of the knowledge base; None if there is none.

        Raises:
            NotAKnowledgeBase: a newer version of ragkit has upgraded it.
        """
        return self.run(self._read_state)

    def create(self) -> DatabaseState:
        """Create the tables, or upgrade them; returns the state. Several programs may do so at once.

        Raises:
            NotAKnowledgeBase: the schema holds tables of another application, or of a newer version of ragkit.
        """
        return self.run(self._migrate)

    def acquire_lease(self) -> Lease:
        """Become the writer. Waits for another one, as long as the address says, and takes over from a dead one.

        Raises:
            KnowledgeBaseLocked: another writer is at work.
        """
        owner = f"process {os.getpid()} on {socket.gethostname()} since {time.strftime('%Y-%m-%d %H:%M:%S')}"
        deadline = time.monotonic() + self.url.wait_seconds
        statement = (
            "UPDATE ragkit SET writer = %s, token = token + 1, lease_until = clock_timestamp() + %s * interval '1 s'"
            " WHERE lease_until IS NULL OR lease_until < clock_timestamp() RETURNING token"
        )
        while True:
            row = self.run(lambda c: c.execute(statement, (owner, self.url.lease_seconds)).fetchone())
            if row is not None:
                return Lease(int(row[0]), owner)
            if time.monotonic() >= deadline:
                state = self.state()
                raise KnowledgeBaseLocked(str(self.url), (state.writer if state else "") or "another process")
            time.sleep(_LEASE_POLL_SECONDS)

    def renew_lease(self, lease: Lease) -> bool:
        """Report that the writer is alive; False if another one took over."""
        statement = (
            "UPDATE ragkit SET lease_until = clock_timestamp() + %s * interval '1 s' WHERE token = %s AND writer = %s"
        )
        values = self.url.lease_seconds, lease.token, lease.owner
        return self.run(lambda c: c.execute(statement, values).rowcount == 1)

    def check_lease(self, lease: Lease) -> None:
        """Raises KnowledgeBaseLocked if another writer took over."""
        row = self.run(lambda c: c.execute("SELECT token, writer FROM ragkit").fetchone())
        if row is None or int(row[0]) != lease.token:
            raise self._taken_over_error(row[1] if row else None)

    def release_lease(self, lease: Lease) -> None:
        """Let the next writer begin."""
        statement = "UPDATE ragkit SET lease_until = NULL, writer = NULL WHERE token = %s AND writer = %s"
        self.run(lambda c: c.execute(statement, (lease.token, lease.owner)))

    # writing

    def publish(self, changes: ChangedRows, lease: Lease) -> int:
        """Write the changes of a local copy in one transaction, and wake the readers. Returns the new version.

        Raises:
            KnowledgeBaseLocked: another writer took over; nothing is written.
        """
        with self._transaction() as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (self._lock_number(),))
            version = self._check_lease(connection, changes, lease) + 1
            if changes.everything:
                self._delete_everything(connection)
            for kind in COLUMNS:
                self._replace_rows(connection, kind, changes, version)
            self._remove_embedders(connection, changes.removed_embedders, version)
            for embedder in changes.embedders:
                _put_embedder(connection, *embedder)
            if changes.embedder:
                self._add_missing_vectors(connection, changes, version)
            connection.execute("UPDATE ragkit SET version = %s, published = clock_timestamp()", (version,))
            connection.execute("SELECT pg_notify(%s, %s)", (self.channel, str(version)))
        return version

    def save_vectors(self, embedder: EmbedderState, hashes: Sequence[bytes], rows: Vectors) -> None:
        """Keep vectors by the hash of their text, before anything is published: they are never paid twice."""

        def save(connection: Connection) -> None:
            with connection.transaction():
                key = _put_embedder(connection, embedder.fingerprint, embedder.dimension, embedder.probe)
                _copy_vectors(connection, key, hashes, rows)

        self.run(save)

    def save_contexts(self, contexts: Iterable[tuple[bytes, str]]) -> None:
        """Keep sentences that models wrote, before anything is published."""
        rows = list(contexts)
        statement = (
            "INSERT INTO contexts SELECT request, sentence, (SELECT version + 1 FROM ragkit)"
            " FROM unnest(%s::bytea[], %s::text[]) AS written (request, sentence) ON CONFLICT DO NOTHING"
        )
        values = [request for request, _ in rows], [encode_row((sentence,))[0] for _, sentence in rows]
        self.run(lambda c: c.execute(statement, values))

    def delete_unused_vectors(self) -> None:
        """Delete vectors that no chunk has, if there are many of them and more than of the others."""

        def delete(connection: Connection) -> None:
            unused = "NOT EXISTS (SELECT 1 FROM chunks WHERE chunks.text_hash = vectors.text_hash)"
            query = f"SELECT count(*) FILTER (WHERE {unused}), count(*) FROM vectors"  # noqa: S608 - constant names
            row = connection.execute(query).fetchone() or (0, 0)
            if row[0] > max(MIN_UNUSED_VECTORS, row[1] - row[0]):
                connection.execute(f"DELETE FROM vectors WHERE {unused}")  # noqa: S608 - constant names

        self.run(delete)

    # reading

    def find_vectors(self, fingerprint: str, hashes: Sequence[bytes]) -> dict[bytes, Vectors]:
        """The vectors of these text hashes that the database has."""
        found: dict[bytes, Vectors] = {}
        for keys, rows in self.run(lambda c: list(_fetch_vectors(c, fingerprint, hashes))):
            found.update(zip(keys, rows, strict=True))
        return found

    def embedders(self) -> list[EmbedderState]:
        """Every embedder with vectors."""
        query = "SELECT fingerprint, dimension, probe FROM embedders ORDER BY key"
        return [EmbedderState(*row) for row in self.run(lambda c: c.execute(query).fetchall())]

    def read_meta(self, key: str) -> str | None:
        """A value of the table `meta`."""
        row = self.run(lambda c: c.execute("SELECT value FROM meta WHERE key = %s", (key,)).fetchone())
        return None if row is None else str(decode_row(row)[0])

    def digests(self) -> dict[str, str]:
        """The digest of each attachment, by path."""
        rows = self.run(lambda c: c.execute("SELECT path, digest FROM attachments").fetchall())
        return {decode_row(row)[0]: str(row[1]) for row in rows}

    def copy_bytes(self) -> int:
        """About how large a copy with vectors is: each takes 4 bytes a dimension, and 1 in the copy that is scanned."""
        query = (
            "SELECT (SELECT count(*) FROM chunks) * coalesce((SELECT max(dimension) FROM embedders WHERE fingerprint ="
            " (SELECT value FROM meta WHERE key = 'embedder')), 0) * 5"
            " + pg_table_size('documents') + 2 * pg_table_size('chunks')"
        )
        row = self.run(lambda c: c.execute(query).fetchone()) or (0,)
        return int(row[0])

    def count_rows(self) -> tuple[int, int, int]:
        """(documents, chunks, sum of the checksums of both)."""
        query = (
            "SELECT (SELECT count(*) FROM documents), (SELECT count(*) FROM chunks),"
            " (SELECT coalesce(sum(checksum), 0) FROM documents) + (SELECT coalesce(sum(checksum), 0) FROM chunks)"
        )
        row = self.run(lambda c: c.execute(query).fetchone()) or (0, 0, 0)
        return int(row[0]), int(row[1]), int(row[2])

    @contextmanager
    def read_changes(self, since: int) -> Iterator[PulledRows]:
        """One snapshot of the database, to read what was published after the version `since`."""
        with self._translate(), self._connect() as connection:
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            state = self._read_state(connection)
            if state is None:
                raise self._missing_error()
            yield PulledRows(connection, state, since)

    def publications(self, poll_seconds: float, stop: threading.Event) -> Iterator[None]:
        """Yields when something was published, and every `poll_seconds` anyway, until `stop` is set.

        Some proxies of connections pass no notifications: then only the poll tells.
        """
        with self._translate(), self._connect() as connection:
            connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self.channel)))
            last = time.monotonic()
            while not stop.is_set():
                notified = list(connection.notifies(timeout=_STOP_POLL_SECONDS, stop_after=1))
                if notified or time.monotonic() - last >= poll_seconds:
                    last = time.monotonic()
                    yield

    @property
    def channel(self) -> str:
        """The channel on which publications are announced."""
        return f"ragkit_{blake2b(self.url.schema.encode(), digest_size=8).hexdigest()}"

    # inside

    def _read_state(self, connection: Connection) -> DatabaseState | None:
        name = f"{self.url.schema}.ragkit"
        row = connection.execute("SELECT to_regclass(%s)", (_quote(name),)).fetchone()
        if row is None or row[0] is None:
            return None
        found = connection.execute("SELECT id, version, writer, format FROM ragkit").fetchone()
        if found is None:
            return None
        if int(found[3]) > FORMAT:
            reason = f"has format version {found[3]}, but this version of ragkit supports up to {FORMAT}"
            raise NotAKnowledgeBase(str(self.url), reason, f"upgrade with `pip install -U {DISTRIBUTION}`")
        return DatabaseState(str(found[0]), int(found[1]), str(found[2] or ""))

    def _migrate(self, connection: Connection) -> DatabaseState:
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (self._lock_number(),))
            state = self._read_state(connection)
            if state is None:
                self._check_schema(connection)
                connection.execute("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")
            row = connection.execute("SELECT format FROM ragkit").fetchone() if state else (0,)
            first = int(row[0]) if row else 0
            for migration in MIGRATIONS[first:]:
                connection.execute(migration.encode())
            if state is None:
                values = secrets.token_hex(16), FORMAT
                connection.execute("INSERT INTO ragkit (id, format, version) VALUES (%s, %s, 0)", values)
            elif first < FORMAT:
                connection.execute("UPDATE ragkit SET format = %s", (FORMAT,))
            created = self._read_state(connection)
        if created is None:
            raise self._missing_error()
        return created

    def _check_schema(self, connection: Connection) -> None:
        """Create the schema; one with tables of another application is refused."""
        query = (
            "SELECT tablename FROM pg_tables WHERE schemaname = %s AND tablename <> 'calls' ORDER BY tablename LIMIT 1"
        )
        row = connection.execute(query, (self.url.schema,)).fetchone()  # the ledger may be there before
        if row is not None:
            reason = f"holds the table {row[0]!r} of another application"
            raise NotAKnowledgeBase(str(self.url), reason, "name another schema, as in ?schema=manuals")
        connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(self.url.schema)))

    def _check_lease(self, connection: Connection, changes: ChangedRows, lease: Lease) -> int:
        """The version of the database; the copy must be of it, and the lease must be the writer's."""
        row = connection.execute("SELECT token, version, writer FROM ragkit FOR UPDATE").fetchone()
        if row is None or int(row[0]) != lease.token or int(row[1]) != changes.version:
            raise self._taken_over_error(row[2] if row else None)
        return int(row[1])

    def _taken_over_error(self, writer: str | None) -> KnowledgeBaseLocked:
        return KnowledgeBaseLocked(str(self.url), f"{writer or 'another process'}, which took over")

    def _delete_everything(self, connection: Connection) -> None:
        for table in TABLES:
            connection.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(table)))
        connection.execute("UPDATE ragkit SET id = %s", (secrets.token_hex(16),))

    def _replace_rows(self, connection: Connection, kind: str, changes: ChangedRows, version: int) -> None:
        columns = COLUMNS[kind]
        changed, gone = changes.keys(kind), changes.gone(kind)
        if changed and not changes.everything:
            for statement in columns.delete:
                connection.execute(statement, ([encode_row((key,))[0] for key in changed],))
        if gone and not changes.everything:
            connection.execute(
                "INSERT INTO removed SELECT %s, key, %s FROM unnest(%s::text[]) AS gone (key)"
                " ON CONFLICT (kind, key) DO UPDATE SET version = excluded.version",
                (kind, version, [encode_row((key,))[0] for key in gone]),
            )
        for table, names in columns.tables:
            fields = sql.SQL(", ").join(map(sql.Identifier, (*names, "version")))
            arriving = sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(table), fields)
            with connection.cursor() as cursor, cursor.copy(arriving) as copy:
                for row in changes.rows(table):
                    copy.write_row((*encode_row(row), version))

    def _remove_embedders(self, connection: Connection, fingerprints: Sequence[str], version: int) -> None:
        """Delete embedders with their vectors, and record it for the copies."""
        for fingerprint in fingerprints:
            connection.execute("DELETE FROM embedders WHERE fingerprint = %s", (fingerprint,))
            connection.execute(
                "INSERT INTO removed VALUES ('embedders', %s, %s)"
                " ON CONFLICT (kind, key) DO UPDATE SET version = excluded.version",
                (fingerprint, version),
            )

    def _add_missing_vectors(self, connection: Connection, changes: ChangedRows, version: int) -> None:
        """The vectors of the new chunks that were not saved before."""
        fingerprint, dimension, probe = changes.embedder or ("", 0, None)
        key = _put_embedder(connection, fingerprint, dimension, probe)
        query = (
            "SELECT DISTINCT text_hash FROM chunks WHERE version = %s AND NOT EXISTS"
            " (SELECT 1 FROM vectors WHERE embedder = %s AND vectors.text_hash = chunks.text_hash)"
        )
        missing = [row[0] for row in connection.execute(query, (version, key)).fetchall()]
        for start in range(0, len(missing), VECTOR_BATCH_ROWS):
            batch = missing[start : start + VECTOR_BATCH_ROWS]
            _copy_vectors(connection, key, batch, changes.vectors(batch))

    def _missing_error(self) -> NotAKnowledgeBase:
        return NotAKnowledgeBase(str(self.url), "is not a knowledge base", "build it with `ragkit index FOLDER`")

    def _lock_number(self) -> int:
        digest = blake2b(f"ragkit {self.url.schema}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big", signed=True)

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with self._lock, self._translate(), self._closed_by_interrupts():
            connection = self._open()
            with connection.transaction(), self._closed_by_interrupts():
                yield connection

    def run(self, function: Callable[[Connection], ResultT]) -> ResultT:
        """Call a function that may run twice. If the connection was lost, it is called again with a new one."""
        with self._lock, self._translate(), self._closed_by_interrupts():
            try:
                return function(self._open())
            except psycopg.OperationalError:
                if self._connection is not None and not self._connection.closed:
                    raise
            return function(self._open())

    def _open(self) -> Connection:
        if self._connection is None or self._connection.closed:
            self._connection = self._connect()
        return self._connection

    def _connect(self) -> Connection:
        connection: Connection = psycopg.connect(
            self.url.dsn, autocommit=True, application_name="ragkit", connect_timeout=CONNECT_SECONDS
        )
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: Connection) -> None:
        """Set the search path of a new connection. Raises DatabaseFailed if the server is too old."""
        if connection.info.server_version < MIN_SERVER_VERSION:
            version = connection.info.server_version // 10_000
            raise DatabaseFailed(str(self.url), f"it is PostgreSQL {version}", "use PostgreSQL 15 or newer")
        query = "SELECT nspname FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = 'vector'"
        found = connection.execute(query).fetchone()
        names = dict.fromkeys([self.url.schema, str(found[0]) if found else "public", "public"])
        path = sql.SQL(", ").join(map(sql.Identifier, names))
        connection.execute(sql.SQL("SET search_path = {}").format(path))

    @contextmanager
    def _closed_by_interrupts(self) -> Iterator[None]:
        """Close the connection if Ctrl-C ends the block.

        Amid a command it cannot roll back, and the renewal of the lease would wait for the locks of its transaction.
        """
        try:
            yield
        except Exception:
            raise
        except BaseException:
            self.close()
            raise

    @contextmanager
    def _translate(self) -> Iterator[None]:
        """Translate the errors of the client."""
        try:
            yield
        except (errors.FeatureNotSupported, errors.UndefinedFile, errors.InsufficientPrivilege) as error:
            hint = "install pgvector and run CREATE EXTENSION vector, or grant the rights on the schema"
            raise DatabaseFailed(str(self.url), _format_error(error), hint) from error
        except psycopg.OperationalError as error:
            hint = "start the database, or correct the address"
            raise DatabaseFailed(str(self.url), _format_error(error), hint) from error
        except psycopg.Error as error:
            raise DatabaseFailed(str(self.url), _format_error(error), "see the log of the database") from error


class PulledRows:
    """What a copy of the version `since` lacks, in one snapshot of the database."""

    def __init__(self, connection: Connection, state: DatabaseState, since: int) -> None:
        self._connection = connection
        self.state = state
        self.since = since

    def rows(self, table: str) -> Iterator[Row]:
        """The new rows of a table, by key."""
        names = next(dict(columns.tables)[table] for columns in COLUMNS.values() if table in dict(columns.tables))
        statement = sql.SQL("SELECT {} FROM {} WHERE version > {} ORDER BY {}").format(
            sql.SQL(", ").join(map(sql.Identifier, names)),
            sql.Identifier(table),
            sql.Literal(self.since),
            sql.Identifier(names[0]),
        )
        with self._connection.cursor(name=f"rows_{table}", binary=True) as cursor:
            cursor.itersize = 2_000
            cursor.execute(statement)
            for row in cursor:
                yield decode_row(row)

    @property
    def was_cleared(self) -> bool:
        """Whether everything was removed, vectors included, after the version `since`."""
        return self.since > 0 and bool(self.removed("embedders"))

    def removed(self, kind: str) -> list[str]:
        """The keys of removed rows, as text."""
        query = "SELECT key FROM removed WHERE kind = %s AND version > %s"
        return [str(decode_row(row)[0]) for row in self._connection.execute(query, (kind, self.since)).fetchall()]

    def embedders(self) -> list[EmbedderState]:
        """Every embedder with vectors."""
        query = "SELECT fingerprint, dimension, probe FROM embedders ORDER BY key"
        return [EmbedderState(*row) for row in self._connection.execute(query).fetchall()]

    def text_hashes(self) -> list[bytes]:
        """The text hashes of the new chunks, by the first chunk."""
        query = "SELECT text_hash FROM chunks WHERE version > %s GROUP BY text_hash ORDER BY min(key)"
        return [bytes(row[0]) for row in self._connection.execute(query, (self.since,)).fetchall()]

    def vectors(self, fingerprint: str, hashes: Sequence[bytes]) -> Iterator[tuple[list[bytes], Vectors]]:
        """The vectors of these text hashes in batches, in any order within a batch."""
        yield from _fetch_vectors(self._connection, fingerprint, hashes)


def _fetch_vectors(
    connection: Connection, fingerprint: str, hashes: Sequence[bytes]
) -> Iterator[tuple[list[bytes], Vectors]]:
    query = (
        "SELECT wanted.text_hash, vector_send(vectors.embedding) FROM unnest(%s::bytea[]) WITH ORDINALITY"
        " AS wanted (text_hash, place) JOIN vectors ON vectors.text_hash = wanted.text_hash AND vectors.embedder ="
        " (SELECT key FROM embedders WHERE fingerprint = %s) ORDER BY wanted.place"
    )
    for start in range(0, len(hashes), VECTOR_BATCH_ROWS):
        batch = list(hashes[start : start + VECTOR_BATCH_ROWS])
        with connection.cursor(binary=True) as cursor:
            found = cursor.execute(query, (batch, fingerprint)).fetchall()
        if found:
            # pgvector's binary form: two 16-bit numbers, then the values, all big-endian
            body = np.frombuffer(b"".join(bytes(row[1])[4:] for row in found), ">f4")
            yield [bytes(row[0]) for row in found], body.reshape(len(found), -1).astype(np.float32)


def _put_embedder(connection: Connection, fingerprint: str, dimension: int, probe: bytes | None) -> int:
    """Insert an embedder, or add its probe; returns its key."""
    row = connection.execute(
        "INSERT INTO embedders (fingerprint, dimension, probe) VALUES (%s, %s, %s) ON CONFLICT (fingerprint)"
        " DO UPDATE SET probe = coalesce(embedders.probe, excluded.probe) RETURNING key",
        (fingerprint, dimension, probe),
    ).fetchone()
    return int(row[0]) if row else 0


def _copy_vectors(connection: Connection, embedder: int, hashes: Sequence[bytes], rows: Vectors) -> None:
    """Insert vectors; those that are there stay."""
    connection.execute(
        "CREATE TEMP TABLE IF NOT EXISTS arriving (text_hash bytea, embedding vector) ON COMMIT DELETE ROWS"
    )
    with connection.cursor() as cursor, cursor.copy("COPY pg_temp.arriving FROM STDIN (FORMAT BINARY)") as copy:
        copy.write(vectors_to_copy(hashes, rows))
    connection.execute(
        "INSERT INTO vectors SELECT %s, text_hash, embedding FROM pg_temp.arriving ON CONFLICT DO NOTHING", (embedder,)
    )
    connection.execute("DELETE FROM pg_temp.arriving")


def _quote(name: str) -> str:
    return ".".join(f'"{part}"' for part in name.split("."))


def _format_error(error: psycopg.Error) -> str:
    """The message of an error on one line."""
    return " ".join((error.diag.message_primary or str(error) or type(error).__name__).split())
