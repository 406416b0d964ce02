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
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeVar

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import sql

from ragkit.distribution import DISTRIBUTION
from ragkit.errors import DatabaseFailed, KnowledgeBaseLocked, NotAKnowledgeBase
from ragkit.index.catalog.database_url import DatabaseUrl
from ragkit.index.catalog.postgres_connection import (
    IDLE_SECONDS,
    Connection,
    NoAnswer,
    connect,
    is_switched,
    to_database_failed,
    transaction,
    transaction_limits,
)
from ragkit.index.catalog.postgres_rows import COLUMNS, ChangedRows, Row, decode_row, encode_row, vectors_to_copy
from ragkit.index.catalog.postgres_schema import FORMAT, MIGRATIONS, TABLES

VECTOR_BATCH_ROWS = 2_000
"""Vectors fetched at a time."""
MIN_UNUSED_VECTORS = 1_000
"""As in a directory: below this number, vectors of deleted texts are kept, because texts come back."""
LONG_LOCK_SECONDS = 120
"""How long a publication waits for locks."""
LONG_IDLE_SECONDS = 600
"""How long a process may work between two statements of a publication, or while it reads one."""
_LEASE_POLL_SECONDS = 0.2
POOLED_POLL_SECONDS = 1.0
_STOP_POLL_SECONDS = 0.5

ResultT = TypeVar("ResultT")
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

    def __init__(self, url: DatabaseUrl, on_connect: Callable[[Connection], None] | None = None) -> None:
        """`on_connect` is called with each new connection, in a transaction."""
        self.url = url
        self._on_connect = on_connect
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
        return self.run(self._migrate, is_long=True)

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
                self._end_publications()
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
                for table in TABLES:
                    connection.execute(sql.SQL("DELETE FROM {}").format(connection.table(table)))
            for kind in COLUMNS:
                self._replace_rows(connection, kind, changes, version)
            self._remove_embedders(connection, changes.removed_embedders, version)
            for embedder in changes.embedders:
                _put_embedder(connection, *embedder)
            if changes.embedder:
                self._add_missing_vectors(connection, changes, version)
            # last, since it locks the row in which the lease is renewed; a writer that took over changed the token
            statement = (
                "UPDATE ragkit SET version = %s, published = clock_timestamp(), id = coalesce(%s, id)"
                " WHERE token = %s AND version = %s"
            )
            identity = secrets.token_hex(16) if changes.everything else None
            values = version, identity, lease.token, changes.version
            if connection.execute(statement, values).rowcount != 1:
                raise self._taken_over_error(None)
            connection.execute("SELECT pg_notify(%s, %s)", (self.channel, str(version)))
        return version

    def save_vectors(self, embedder: EmbedderState, hashes: Sequence[bytes], rows: Vectors) -> None:
        """Keep vectors by the hash of their text, before anything is published: they are never paid twice."""

        def save(connection: Connection) -> None:
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

        self.run(delete, is_long=True)

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
            " + pg_table_size(%s::regclass) + 2 * pg_table_size(%s::regclass)"
        )
        tables = [_quote(f"{self.url.schema}.{table}") for table in ("documents", "chunks")]
        row = self.run(lambda c: c.execute(query, tables).fetchone()) or (0,)
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
        level = "ISOLATION LEVEL REPEATABLE READ READ ONLY"
        with self._translate(), connect(self.url) as connection, self._begin(connection, level, is_long=True):
            state = self._read_state(connection)
            if state is None:
                raise self._missing_error()
            yield PulledRows(connection, state, since)

    def publications(self, poll_seconds: float, stop: threading.Event) -> Iterator[None]:
        """Yields when something was published, and every `poll_seconds` anyway, until `stop` is set.

        Poolers pass no notifications: behind one, it looks for publications every second.
        """
        with self._translate(), connect(self.url) as connection:
            if connection.is_pooled:
                poll_seconds = min(poll_seconds, POOLED_POLL_SECONDS)
            else:
                connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self.channel)))
            last = time.monotonic()
            while not stop.is_set():
                notified = False
                if connection.is_pooled:
                    stop.wait(_STOP_POLL_SECONDS)
                else:
                    notified = bool(list(connection.notifies(timeout=_STOP_POLL_SECONDS, stop_after=1)))
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
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (self._lock_number(),))
        state = self._read_state(connection)
        if state is None:
            self._check_schema(connection)
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")
        row = connection.execute("SELECT format FROM ragkit").fetchone() if state else (0,)
        first = int(row[0]) if row else 0
        for migration in MIGRATIONS[first:]:
            connection.execute(migration)
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
        """The version of the database; the copy must be of it, and the lease must be the writer's. Locks nothing."""
        row = connection.execute("SELECT token, version, writer FROM ragkit").fetchone()
        if row is None or int(row[0]) != lease.token or int(row[1]) != changes.version:
            raise self._taken_over_error(row[2] if row else None)
        return int(row[1])

    def _taken_over_error(self, writer: str | None) -> KnowledgeBaseLocked:
        return KnowledgeBaseLocked(str(self.url), f"{writer or 'another process'}, which took over")

    def _end_publications(self) -> None:
        """End the transaction of an earlier writer, which holds locks and cannot publish any more.

        The database does not know yet that a machine vanished in the middle of one.
        """
        number = self._lock_number() % 2**64
        statement = (
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1"
            " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
            " AND classid::bigint = %s AND objid::bigint = %s AND pid <> pg_backend_pid()"
        )
        with suppress(DatabaseFailed):  # of another user: its transaction ends by the limits of the database
            self.run(lambda c: c.execute(statement, (number >> 32, number % 2**32)))

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
            arriving = sql.SQL("COPY {} ({}) FROM STDIN").format(connection.table(table), fields)
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
        """A long transaction, which is not tried again; a connection that was lost before it is opened again."""
        with self._lock, self._translate(), self._closed_by_interrupts():
            connection = self._open()
            try:
                connection.execute("SELECT 1")
            except psycopg.OperationalError:
                self.close()
                connection = self._open()
            with self._begin(connection, is_long=True), self._closed_by_interrupts():
                yield connection

    def run(
        self, function: Callable[[Connection], ResultT], *, is_long: bool = False, repeat_commit: bool = True
    ) -> ResultT:
        """The result of a function in one transaction. It is called again if the connection was lost, or has to be.

        Args:
            function: may run twice.
            is_long: its statements may take as long as they need, while the database works on them.
            repeat_commit: also if the connection was lost during the commit, which may have succeeded.
        """
        with self._lock, self._translate(), self._closed_by_interrupts():
            for is_last in (False, True):
                connection, ended = self._open(), False
                try:
                    with self._begin(connection, is_long=is_long):
                        result = function(connection)
                        ended = True
                except psycopg.Error as error:
                    if is_switched(error):
                        self.close()
                    if is_last or not connection.closed or isinstance(error, NoAnswer) or (ended and not repeat_commit):
                        raise
                else:
                    return result
            raise AssertionError("the second attempt returns or raises")

    def run_alone(self, function: Callable[[Connection], ResultT]) -> ResultT:
        """The result of a function outside of a transaction, for statements that cannot run in one."""
        with self._lock, self._translate(), self._closed_by_interrupts(), self._long(self._open()) as connection:
            return function(connection)

    @contextmanager
    def _begin(self, connection: Connection, level: str = "", *, is_long: bool) -> Iterator[None]:
        if not is_long:
            limits = transaction_limits(self.url.statement_seconds, self.url.lock_seconds, IDLE_SECONDS)
            with transaction(connection, limits):
                yield
            return
        limits = transaction_limits(0, LONG_LOCK_SECONDS, LONG_IDLE_SECONDS)
        with self._long(connection), transaction(connection, limits, level):
            if connection.is_pooled:
                row = connection.execute("SELECT pg_backend_pid()").fetchone()
                connection.backend_pid = int(row[0]) if row else 0
            yield

    @contextmanager
    def _long(self, connection: Connection) -> Iterator[Connection]:
        """Wait for statements as long as the database works on them."""
        connection.is_working = lambda: self._is_working(connection)
        try:
            yield connection
        finally:
            connection.is_working = None

    def _is_working(self, connection: Connection) -> bool:
        """Ask over another connection whether the database works on a statement."""
        query = (
            "SELECT state = 'active' AND wait_event IS DISTINCT FROM 'ClientRead' FROM pg_stat_activity WHERE pid = %s"
        )
        try:
            with connect(self.url) as other:
                row = other.execute(query, (connection.backend_pid,)).fetchone()
        except psycopg.Error:
            return False
        return row is not None and bool(row[0])

    def _open(self) -> Connection:
        if self._connection is None or self._connection.closed:
            connection = connect(self.url)
            try:
                if self._on_connect is not None:
                    with self._begin(connection, is_long=False):
                        self._on_connect(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

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
        except psycopg.Error as error:
            raise to_database_failed(error, self.url) from error


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
            self._connection.table(table),
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
        "CREATE TEMP TABLE IF NOT EXISTS pg_temp.arriving (text_hash bytea, embedding vector) ON COMMIT DROP"
    )
    with connection.cursor() as cursor, cursor.copy("COPY pg_temp.arriving FROM STDIN (FORMAT BINARY)") as copy:
        copy.write(vectors_to_copy(hashes, rows))
    connection.execute(
        "INSERT INTO vectors SELECT %s, text_hash, embedding FROM pg_temp.arriving ON CONFLICT DO NOTHING", (embedder,)
    )
    connection.execute("DELETE FROM pg_temp.arriving")


def _quote(name: str) -> str:
    return ".".join(f'"{part}"' for part in name.split("."))
