"""Connections to PostgreSQL: the schema of their statements, and how long they wait.

Nothing relies on the state of a session: each statement names its schema, and each transaction sets its own limits. So
a pooler may give every transaction another connection (pgbouncer with `pool_mode = transaction`).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any, TypeVar

from ragkit.errors import DatabaseFailed, MissingExtra
from ragkit.index.catalog.database_url import DatabaseUrl
from ragkit.sql import POSTGRES_CLIENT_LIMITS

try:
    import psycopg
    from psycopg import errors, sql
    from psycopg.conninfo import conninfo_to_dict
except ImportError as error:
    raise MissingExtra("a knowledge base in PostgreSQL", extra="pgvector") from error

T = TypeVar("T")

SERVER_LIMITS = (
    "SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 3; SET tcp_keepalives_count = 3;"
    " SET tcp_user_timeout = 15000"
)
"""The same for the other end: the database ends the session of a machine that vanished, and frees its locks."""
IDLE_SECONDS = 10
"""A process that stops in the middle of a transaction, and holds its locks, is disconnected after so long."""
MIN_SERVER_VERSION = 150_000
"""PostgreSQL 15."""
SWITCHED = ("25006", "57P01", "57P02", "57P03", "57P05", "25P03", "08")
"""SQLSTATEs, or their beginnings, after which a new connection may succeed: the node is read-only, ends or is gone."""
_MARGIN_SECONDS = 2.0
"""How much longer the client waits than the database takes to end a statement."""
_RELATION = re.compile(
    r"\b(?:(?:FROM|JOIN)\s+(?!\w+\()|INTO\s+|(?<!FOR )(?<!DO )UPDATE\s+|REFERENCES\s+"
    r"|TABLE\s+(?:IF\s+(?:NOT\s+)?EXISTS\s+)?|LOCK\s+|INDEX\s+(?:IF\s+NOT\s+EXISTS\s+)?\w+\s+ON\s+)"
    r"(?!pg_|TABLE\b|SET\b)(?=[a-z_])(?P<name>\w+)\b(?!\.)"
)
"""The name of a table where one stands in a statement. Functions have no space before their parenthesis."""
_VECTOR = re.compile(r"(?<=::)(?:vector|halfvec)\b|(?<=embedding )vector\b|\bvector_send(?=\()|\bhalfvec_ip_ops\b|<#>")


class NoAnswer(psycopg.OperationalError):
    """The database sent nothing for too long; the connection is closed."""


class SchemaCursor(psycopg.Cursor[tuple[Any, ...]]):
    """Names the schema of the connection in each statement that is a string."""

    def execute(self, query: Any, *args: Any, **kwargs: Any) -> SchemaCursor:
        """As in the base class."""
        if isinstance(query, str | bytes):
            connection = self.connection
            assert isinstance(connection, Connection)  # noqa: S101 - made by it
            query = connection.qualify(query if isinstance(query, str) else query.decode()).encode()
        super().execute(query, *args, **kwargs)
        return self


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection to the schema of one knowledge base, in autocommit mode."""

    schema = "public"
    vector_schema = "public"
    """The schema of pgvector."""
    backend_pid = 0
    """The process of the database at the begin of the transaction."""
    is_pooled = False
    """Whether a pooler stands between, which may choose another process for each transaction."""
    answer_seconds = 30.0
    """How long the database may send nothing while it is waited for."""
    is_working: Callable[[], bool] | None = None
    """Asked after `answer_seconds`: whether the statement still runs. None: then the connection has failed."""

    def wait(self, gen: Generator[Any, Any, T], *args: Any, **kwargs: Any) -> T:
        """As in the base class. Raises OperationalError if nothing comes for too long."""
        return super().wait(self._limit(gen), *args, **kwargs)

    def _limit(self, gen: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        last = time.monotonic()
        try:
            state = next(gen)
            while True:
                ready = yield state
                if ready:
                    last = time.monotonic()
                elif time.monotonic() - last > self.answer_seconds:
                    if self.is_working is None or not self.is_working():
                        self.close()
                        raise NoAnswer(f"no answer for {self.answer_seconds:g} s")
                    last = time.monotonic()
                state = gen.send(ready)
        except StopIteration as end:
            result: T = end.value
            return result

    def qualify(self, statement: str) -> str:
        """The statement with the schema before the names of its tables, and that of pgvector before its own."""
        return _qualify(statement, self.schema, self.vector_schema)

    def table(self, name: str) -> sql.Identifier:
        """A table of the schema, for composed statements."""
        return sql.Identifier(self.schema, name)


@lru_cache(maxsize=1024)
def _qualify(statement: str, schema: str, vector_schema: str) -> str:
    def name_type(match: re.Match[str]) -> str:
        return f'OPERATOR("{vector_schema}".<#>)' if match[0] == "<#>" else f'"{vector_schema}".{match[0]}'

    named = _RELATION.sub(lambda match: f'{match[0][: -len(match["name"])]}"{schema}".{match["name"]}', statement)
    return _VECTOR.sub(name_type, named)


def connect(url: DatabaseUrl) -> Connection:
    """Open a connection. Raises psycopg.Error, or DatabaseFailed if the server is too old."""
    options: dict[str, Any] = {**POSTGRES_CLIENT_LIMITS, "application_name": "ragkit", **conninfo_to_dict(url.dsn)}
    connection = Connection.connect(
        autocommit=True,
        cursor_factory=SchemaCursor,
        prepare_threshold=None,  # a prepared statement belongs to a session
        **options,
    )
    connection.schema, connection.answer_seconds = url.schema, url.statement_seconds + _MARGIN_SECONDS
    try:
        if connection.info.server_version < MIN_SERVER_VERSION:
            version = connection.info.server_version // 10_000
            raise DatabaseFailed(str(url), f"it is PostgreSQL {version}", "use PostgreSQL 15 or newer")
        found = connection.execute(
            "SELECT (SELECT n.nspname FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_namespace n"
            " ON n.oid = e.extnamespace WHERE e.extname = 'vector'), pg_catalog.pg_backend_pid()"
        ).fetchone()
        vector_schema, process = found or (None, 0)
        connection.vector_schema = str(vector_schema or "public")
        # a pooler gives its clients numbers of its own
        connection.backend_pid, connection.is_pooled = int(process), process != connection.info.backend_pid
        if not connection.is_pooled:
            connection.execute(SERVER_LIMITS)
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def transaction(connection: Connection, limits: str, level: str = "") -> Iterator[None]:
    """A transaction of an isolation level, with the statements `limits` at its begin, which are sent with BEGIN."""
    connection.execute(f"BEGIN {level}; {limits}")
    try:
        yield
    except BaseException:
        if not connection.closed:
            with suppress(psycopg.Error):
                connection.execute("ROLLBACK")
        raise
    # a timeout that ends the wait for a synchronous standby is reported as success
    connection.execute("SET LOCAL statement_timeout = 0; COMMIT")


def transaction_limits(statement: float, lock: float, idle: float) -> str:
    """The statements that limit a transaction, in seconds: each statement, the wait for a lock, the client's pauses."""
    limits = {"statement_timeout": statement, "lock_timeout": lock, "idle_in_transaction_session_timeout": idle}
    return "; ".join(f"SET LOCAL {name} = {round(1000 * seconds)}" for name, seconds in limits.items())


def is_switched(error: psycopg.Error) -> bool:
    """Whether the node does not take part any more, so that a new connection may lead to one that does."""
    return (error.sqlstate or "").startswith(SWITCHED)


def to_database_failed(error: psycopg.Error, url: DatabaseUrl) -> DatabaseFailed:
    """An error of the client as one of ragkit."""
    reason = " ".join((error.diag.message_primary or str(error) or type(error).__name__).split())
    if isinstance(error, errors.ReadOnlySqlTransaction):
        hint = "promote the node, or add `target_session_attrs=read-write` and the other hosts to the address"
    elif isinstance(error, errors.FeatureNotSupported | errors.UndefinedFile | errors.InsufficientPrivilege):
        hint = "install pgvector and run CREATE EXTENSION vector, or grant the rights on the schema"
    elif isinstance(error, psycopg.OperationalError):
        hint = "start the database, or correct the address"
    else:
        hint = "see the log of the database"
    return DatabaseFailed(str(url), reason, hint)
