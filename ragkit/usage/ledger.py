"""The ledger: a SQLite file, or a table of a database, with one row for each call that used tokens or cost money.

A row is written when its call is reported, so the spending of a killed run is recorded; at once, but in a thread, if an
event loop reports it. Independent of knowledge
bases; callers pass the path.
"""

from __future__ import annotations

import logging
import secrets
import sqlite3
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Lock
from typing import Protocol, TypeVar

from ragkit.errors import DatabaseFailed, InvalidOption, KnowledgeBaseDamaged, KnowledgeBaseLocked
from ragkit.records import JSON
from ragkit.sql import SqlConnection
from ragkit.sqlite_errors import DATABASE_ERRORS
from ragkit.sqlite_wal import enable_wal
from ragkit.usage.meter import MeteredCall

FILE_NAME = "ledger.sqlite"
"""The file name in the directory of a knowledge base."""
BUSY_TIMEOUT_S = 10.0
"""Seconds to wait for the lock of another process, which may be stopped."""
FREE_CALL_WAIT_S = 0.25
"""Seconds that calls without cost wait for it: searches record the tokens of their questions."""
GROUPS: Mapping[str, str] = {
    "day": "date(at, 'unixepoch')",
    "model": "CASE provider WHEN '' THEN model ELSE provider || ':' || model END",
    "tool": "tool",
    "pipeline": "pipeline",
    "command": "verb",
}
"""SQL expressions to group spending by. Days are in UTC. Calls outside tools have the tool ''."""

PAUSE_S = 30.0
"""Seconds in which calls without cost are not recorded, after a row could not be written: searches do not wait."""
T = TypeVar("T")

_LOG = logging.getLogger("ragkit.ledger")
_CREATE_TABLE = """
CREATE TABLE IF NOT EXISTS calls (
    key INTEGER PRIMARY KEY,
    at REAL NOT NULL, -- seconds since 1970, UTC
    run TEXT NOT NULL, verb TEXT NOT NULL, pipeline TEXT NOT NULL,
    kind TEXT NOT NULL, provider TEXT NOT NULL, model TEXT NOT NULL, tool TEXT NOT NULL,
    prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL,
    embedding_tokens INTEGER NOT NULL, cached_tokens INTEGER NOT NULL,
    llm_cost_usd REAL, embedding_cost_usd REAL, -- NULL: the price is unknown
    saved_cost_usd REAL NOT NULL
) STRICT
"""
_SUMS = (
    "COUNT(DISTINCT run), COUNT(*), CAST(SUM(prompt_tokens) AS BIGINT), CAST(SUM(completion_tokens) AS BIGINT),"
    " CAST(SUM(embedding_tokens) AS BIGINT), CAST(SUM(cached_tokens) AS BIGINT), COALESCE(SUM(llm_cost_usd), 0.0),"
    " COALESCE(SUM(embedding_cost_usd), 0.0), COALESCE(SUM(saved_cost_usd), 0.0),"
    " COUNT(*) - COUNT(llm_cost_usd), COUNT(*) - COUNT(embedding_cost_usd)"
)

_INSERT = (
    "INSERT INTO calls (at, run, verb, pipeline, kind, provider, model, tool, prompt_tokens, completion_tokens,"
    " embedding_tokens, cached_tokens, llm_cost_usd, embedding_cost_usd, saved_cost_usd)"
    " VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
)


class LedgerTables(Protocol):
    """A connection to a database, in which `create_tables` has been called."""

    def run(self, work: Callable[[SqlConnection], T]) -> T:
        """The result of `work` in one transaction. Raises DatabaseFailed."""

    def close(self) -> None:
        """Close the connection; `run` opens it again."""


def create_tables(connection: SqlConnection) -> None:
    """Create the table of a ledger, if it does not exist."""
    connection.execute(_CREATE_TABLE)


@dataclass(frozen=True, slots=True)
class Spending:
    """Usage and cost, summed over calls."""

    name: str = ""
    """The day, model, tool, pipeline or command; empty for the total."""
    runs: int = 0
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    embedding_tokens: int = 0
    cached_tokens: int = 0
    llm_cost_usd: float | None = 0.0
    """None: the price of a call is unknown."""
    embedding_cost_usd: float | None = 0.0
    saved_cost_usd: float = 0.0
    known_cost_usd: float = 0.0
    """Cost of the calls with a known price."""

    @property
    def total_cost_usd(self) -> float | None:
        """LLM cost + embedding cost; None if either is unknown."""
        if self.llm_cost_usd is None or self.embedding_cost_usd is None:
            return None
        return self.llm_cost_usd + self.embedding_cost_usd

    def to_dict(self) -> dict[str, JSON]:
        """The fields by name, without `name` and with the total cost."""
        values: dict[str, JSON] = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "name"}
        return {**values, "total_cost_usd": self.total_cost_usd}


@dataclass(frozen=True, slots=True)
class Period:
    """A period: `since` is inclusive, `until` exclusive; None: no bound."""

    since: datetime | None = None
    until: datetime | None = None

    @staticmethod
    def parse(since: str | None, until: str | None, now: datetime | None = None) -> Period:
        """Parse a date (`2026-11-20`), a time (`2026-11-20T14:30`) or a number of days back (`7d`).

        UTC unless a time has an offset. A date as `until` is included in the period.

        Raises:
            InvalidOption: another format.
        """
        now = now or datetime.now(tz=UTC)
        return Period(_parse_moment("since", since, now, after=False), _parse_moment("until", until, now, after=True))

    def to_sql(self) -> tuple[str, tuple[float, ...]]:
        """An SQL condition and its parameters."""
        bounds = [("at >= ?", self.since), ("at < ?", self.until)]
        conditions = [(text, time.timestamp()) for text, time in bounds if time is not None]
        return " AND ".join(text for text, _ in conditions) or "1 = 1", tuple(value for _, value in conditions)


class Ledger:
    """The ledger in one place. Several threads and processes may write to it. Close it after use."""

    def __init__(self, place: Path | LedgerTables) -> None:
        """`place`: a file, which is created with the first row, or the tables of a database."""
        self.place = place
        self._paused_until = float("-inf")
        self._lock = Lock()
        self._connection: sqlite3.Connection | None = None
        self._writer: ThreadPoolExecutor | None = None
        self._writer_lock = Lock()  # not that of the file, which is held while a row is written
        """Writes the rows of calls in event loops, which do not wait for it."""

    def call_recorder(self, command: str, pipeline: str) -> Callable[[MeteredCall], None]:
        """A listener for the meter of one run, which writes a row for each call.

        A row that cannot be written is logged and does not end the run.
        """
        run = secrets.token_hex(8)

        def write(call: MeteredCall) -> None:
            usage = call.usage
            if not (usage.total_tokens or usage.cached_tokens or usage.total_cost_usd != 0):
                return
            if usage.total_cost_usd == 0 and time.monotonic() < self._paused_until:
                return
            try:
                self._insert((run, command, pipeline), call)
            except (*DATABASE_ERRORS, OSError, DatabaseFailed) as error:
                self._paused_until = time.monotonic() + PAUSE_S
                cost = usage.total_cost_usd
                level = logging.DEBUG if cost == 0 else logging.WARNING
                _LOG.log(
                    level, "%s cannot be written (%s): %s %s, USD %s", self.place, error, command, call.model, cost
                )

        def record(call: MeteredCall) -> None:
            if not _runs_event_loop():
                write(call)
            else:
                with self._writer_lock:
                    self._writer = self._writer or ThreadPoolExecutor(1, "ragkit-ledger")
                    self._writer.submit(write, call)

        return record

    def total_spending(self, period: Period | None = None) -> Spending:
        """The total of a period. Raises KnowledgeBaseDamaged, KnowledgeBaseLocked."""
        rows = self._query_spending("''", period or Period())
        return rows[0] if rows else Spending()

    def spending_by(self, group: str, period: Period | None = None) -> list[Spending]:
        """Spending grouped by one of GROUPS: days in order, other groups by descending cost.

        Raises:
            InvalidOption: an unknown group.
            KnowledgeBaseDamaged, KnowledgeBaseLocked: the file cannot be read.
        """
        if group not in GROUPS:
            raise InvalidOption("group", group, f"one of {', '.join(GROUPS)}")
        rows = self._query_spending(GROUPS[group], period or Period())
        return rows if group == "day" else sorted(rows, key=lambda row: (-row.known_cost_usd, row.name))

    def close(self) -> None:
        """Write what is to be written, and close the file."""
        with self._writer_lock:
            writer, self._writer = self._writer, None
        if writer is not None:
            writer.shutdown()
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None
            if not isinstance(self.place, Path):
                self.place.close()

    def _insert(self, run: tuple[str, str, str], call: MeteredCall) -> None:
        usage = call.usage
        values = (
            call.at, *run, call.kind, call.provider, call.model, call.tool,
            usage.prompt_tokens, usage.completion_tokens, usage.embedding_tokens, usage.cached_tokens,
            usage.llm_cost_usd, usage.embedding_cost_usd, usage.saved_cost_usd,
        )  # fmt: skip
        if not isinstance(self.place, Path):
            self.place.run(lambda connection: connection.execute(_INSERT, values))
            return
        wait = FREE_CALL_WAIT_S if usage.total_cost_usd == 0 else BUSY_TIMEOUT_S
        with self._lock:
            if self._connection is None:
                self._connection = _connect(self.place, wait)
            self._connection.execute(f"PRAGMA busy_timeout={int(wait * 1000)}")
            self._connection.execute(_INSERT, values)

    def _query_spending(self, group: str, period: Period) -> list[Spending]:
        if (writer := self._writer) is not None:
            writer.submit(int).result()  # after all rows before it
        where, values = period.to_sql()
        query = f"SELECT {group} AS name, {_SUMS} FROM calls WHERE {where} GROUP BY name ORDER BY name"  # noqa: S608
        if not isinstance(self.place, Path):
            return [_to_spending(row) for row in self.place.run(lambda c: c.execute(query, values).fetchall())]
        if not self.place.exists():
            return []
        try:
            with closing(_connect(self.place, BUSY_TIMEOUT_S)) as connection:
                return [_to_spending(row) for row in connection.execute(query, values)]
        except DATABASE_ERRORS as error:
            if _is_busy(error):
                raise KnowledgeBaseLocked(str(self.place), "another process") from error
            reason = f"is not a valid ledger ({error})"
            fix = f"`rm {self.place}` (only the record of past spending is lost)"
            raise KnowledgeBaseDamaged(str(self.place), reason, fix) from error


def _runs_event_loop() -> bool:
    """Whether this thread runs an event loop. Short commands do not import asyncio, which takes time."""
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and asyncio._get_running_loop() is not None


def _connect(path: Path, busy_seconds: float) -> sqlite3.Connection:
    """Open in autocommit mode. A crash of the process loses no rows; a power failure may lose the last ones."""
    if not path.exists():
        path.touch(mode=0o600)
    connection = sqlite3.connect(path, timeout=busy_seconds, isolation_level=None, check_same_thread=False)
    try:
        enable_wal(connection, busy_seconds)
        connection.execute("PRAGMA synchronous=NORMAL")
        create_tables(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _is_busy(error: Exception) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _to_spending(row: tuple[str, int, int, int, int, int, int, float, float, float, int, int]) -> Spending:
    name, runs, calls, prompt, completion, embedding, cached, llm, embed, saved, llm_unknown, embed_unknown = row
    return Spending(
        name, runs, calls, prompt, completion, embedding, cached,
        None if llm_unknown else llm, None if embed_unknown else embed, saved, llm + embed,
    )  # fmt: skip


def _parse_moment(option: str, text: str | None, now: datetime, *, after: bool) -> datetime | None:
    if text is None:
        return None
    days = text.removesuffix("d")
    try:
        if text.endswith("d") and days.isdigit():
            return now - timedelta(days=int(days))
        moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        expected = "a date like 2026-11-20, a time like 2026-11-20T14:30, or days back like 7d"
        raise InvalidOption(option, text, expected) from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return moment + timedelta(days=1) if after and len(text) <= len("2026-11-20") else moment
