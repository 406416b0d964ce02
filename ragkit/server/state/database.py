"""The state of a server: the thread that uses its connection, and what its stores share.

A running answer whose worker process does not live any more was interrupted.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from ragkit.errors import DatabaseFailed
from ragkit.index.catalog.database_url import DatabaseUrl
from ragkit.server.http_errors import RequestRejected, disk_full, invalid_request
from ragkit.server.settings import Retention
from ragkit.server.state.rights_filter import RightsFilter
from ragkit.server.state.sqlite import SqliteState
from ragkit.sql import SqlConnection
from ragkit.sqlite_errors import DATABASE_ERRORS

MAX_WAIT_SECONDS = 10.0
"""How long a request waits for the state in a database."""
GIVEN_UP_SECONDS = 600.0
"""How long an answer is looked for whose end could not be stored: a commit under way may succeed late."""
FIRST_MARK_SECONDS, MAX_MARK_SECONDS = 1.0, 60.0
"""When it is first marked as interrupted; each further time comes after twice as long, up to the second number."""
P = ParamSpec("P")
T = TypeVar("T")
StoreT = TypeVar("StoreT", bound="StateStore")


def new_id(prefix: str) -> str:
    """An id that cannot be guessed: 128 random bits."""
    return f"{prefix}_{secrets.token_urlsafe(16)}"


def format_time(seconds: float | None) -> str | None:
    """Unix seconds as `2026-11-22T01:02:03.456Z`."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def encode_cursor(*values: str | float) -> str:
    """An opaque cursor for the next page of a list."""
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode().rstrip("=")


def decode_cursor(cursor: str, *kinds: type) -> list[str | float]:
    """The inverse of `encode_cursor`. Raises RequestRejected for an invalid cursor."""
    try:
        values = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (binascii.Error, ValueError, RecursionError) as error:
        raise invalid_request("invalid cursor: use `next` of the previous page", "cursor", "invalid_cursor") from error
    if not isinstance(values, list) or [type(value) for value in values] != list(kinds):
        raise invalid_request("invalid cursor: use `next` of the previous page", "cursor", "invalid_cursor")
    return values


class StateBackend(Protocol):
    """Where the state is; used by one thread."""

    def run(self, work: Callable[[SqlConnection], T]) -> T:
        """The result of `work` in one transaction; others wait."""

    def is_alive(self, connection: SqlConnection, worker: str) -> bool:
        """Whether the process of another worker runs."""

    def check_writable(self, connection: SqlConnection) -> None:
        """Write something. Raises the error that prevents it."""

    def forget(self, worker: str) -> None:
        """Delete what is kept of a dead worker."""

    def close(self) -> None:
        """Close it: this worker has ended."""


class StateDatabase:
    """The open state. `run` executes functions in the one thread that uses its connection."""

    def __init__(self, place: Path | DatabaseUrl) -> None:
        """Open or create the state in a directory, or in the database of a knowledge base.

        Raises:
            KnowledgeBaseDamaged: the file in the directory is no state, or of a later version.
            DatabaseFailed, NotAKnowledgeBase: the database is unreachable, or of a later version.
        """
        self.worker_id = new_id("wrk")
        self.is_shared = isinstance(place, DatabaseUrl)
        """Whether servers on other machines use it too."""
        self._place = place
        self._given_up: dict[str, float] = {}
        """Traces of answers of this worker whose end could not be stored, and when that was noticed."""
        self._closed = False
        self._timer: threading.Timer | None = None
        self._timer_lock = threading.Lock()
        self._executor = ThreadPoolExecutor(1, "ragkit-server-state")
        self._backend = self._executor.submit(_open_backend, place, self.worker_id).result()
        self._executor.submit(self._backend.run, self.mark_interrupted).result()

    async def run(self, work: Callable[[SqlConnection], T]) -> T:
        """Run `work` in one transaction and return its result. It completes even if the caller is cancelled.

        Raises DatabaseFailed if the database does not answer in MAX_WAIT_SECONDS; `work` is rolled back then, unless
        its commit was under way.
        """
        is_abandoned = False

        def run_unless_abandoned(connection: SqlConnection) -> T:
            result = work(connection)
            if is_abandoned:
                raise self._no_answer()
            return result

        future = asyncio.get_running_loop().run_in_executor(self._executor, self._backend.run, run_unless_abandoned)
        future.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # it may have no caller any more
        try:
            async with asyncio.timeout(MAX_WAIT_SECONDS if self.is_shared else None):
                return await asyncio.shield(future)
        except TimeoutError:
            is_abandoned = True
            future.cancel()  # if it has not begun
            raise self._no_answer() from None

    async def check_writable(self) -> None:
        """Raises the error that prevents writing."""
        await self.run(self._backend.check_writable)

    def give_up(self, trace: str) -> None:
        """The answer with this trace has ended, which could not be stored: it counts as interrupted.

        It is marked as soon as the database answers: other servers see it as running until then, since this one lives.
        """
        with self._timer_lock:
            self._given_up[trace] = time.monotonic()
            if self._timer is None or self._timer.interval > FIRST_MARK_SECONDS:
                self._mark_after(FIRST_MARK_SECONDS)

    def _mark_after(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = threading.Timer(seconds, self._mark_given_up, (seconds,))
        self._timer.daemon = True
        self._timer.start()

    def _mark_given_up(self, waited: float) -> None:
        # RuntimeError: closed meanwhile
        with suppress(DatabaseFailed, RequestRejected, RuntimeError, *DATABASE_ERRORS):
            self._executor.submit(self._mark_unless_closed).result()
        with self._timer_lock:
            if self._timer is not threading.current_thread():  # another timer has taken over
                return
            self._timer = None
            if self._given_up and not self._closed:  # again, since a commit under way may succeed late
                self._mark_after(min(2 * waited, MAX_MARK_SECONDS))

    def _mark_unless_closed(self) -> None:
        if not self._closed:  # in the one thread that also closes the connection, after this was set
            self._backend.run(self.mark_interrupted)

    def _no_answer(self) -> DatabaseFailed:
        reason = f"no answer for {MAX_WAIT_SECONDS:g} s"
        return DatabaseFailed(str(self._place), reason, "start the database, or correct the address")

    def close(self) -> None:
        """Close the state and release the lock of this worker. Idempotent."""
        if self._closed:
            return
        with self._timer_lock:
            self._closed = True
            if self._timer is not None:
                self._timer.cancel()
        self._executor.submit(self._backend.close).result()
        self._executor.shutdown()

    def require_space(self, free_bytes: int) -> None:
        """Raises RequestRejected if the disk of a directory has less than this free: nothing is deleted or cut."""
        if isinstance(self._place, Path) and shutil.disk_usage(self._place).free < free_bytes:
            raise disk_full()

    def mark_interrupted(self, connection: SqlConnection) -> None:
        """Mark the running rows of dead workers as interrupted. Call it before reading running rows."""
        rows = connection.execute(
            "SELECT worker FROM traces WHERE status = 'running' UNION SELECT worker FROM messages"
            " WHERE status = 'running'"
        )
        for (worker,) in rows.fetchall():
            if not self.is_alive(connection, worker):
                now = time.time()
                connection.execute(
                    "UPDATE traces SET status = 'interrupted', ended = ?, error = 'the server was stopped'"
                    " WHERE status = 'running' AND worker = ?",
                    (now, worker),
                )
                interrupted = "UPDATE messages SET status = 'interrupted' WHERE status = 'running' AND worker = ?"
                connection.execute(interrupted, (worker,))
                self._backend.forget(worker)
        for trace, noticed in list(self._given_up.items()):
            if time.monotonic() - noticed > GIVEN_UP_SECONDS:
                del self._given_up[trace]
            ended = (time.time(), trace)
            connection.execute(
                "UPDATE traces SET status = 'interrupted', ended = ? WHERE status = 'running' AND id = ?", ended
            )
            connection.execute(
                "UPDATE messages SET status = 'interrupted' WHERE status = 'running' AND trace = ?", (trace,)
            )

    def is_alive(self, connection: SqlConnection, worker: str) -> bool:
        """Whether the process of a worker runs."""
        return worker == self.worker_id or self._backend.is_alive(connection, worker)


def _open_backend(place: Path | DatabaseUrl, worker: str) -> StateBackend:
    if isinstance(place, Path):
        return SqliteState(place, worker)
    from ragkit.server.state.postgres import PostgresState  # noqa: PLC0415 - needs psycopg

    return PostgresState(place, worker)


class StateStore:
    """Some of the tables of a state database."""

    def __init__(self, state: StateDatabase, retention: Retention) -> None:
        self._state = state
        self._retention = retention

    async def show(self, result: T) -> T:
        """The result of a method as the current principal may see it."""
        return result


class AnswerStore(StateStore):
    """A store of what was answered: nothing leaves it but through the filter."""

    def __init__(self, state: StateDatabase, retention: Retention, rights: RightsFilter) -> None:
        super().__init__(state, retention)
        self.rights = rights

    async def show(self, result: T) -> T:
        """The result with all blanked that the current principal may not read now."""
        return await self.rights.show(result)


def in_transaction(
    method: Callable[Concatenate[StoreT, SqlConnection, P], T],
) -> Callable[Concatenate[StoreT, P], Coroutine[Any, Any, T]]:
    """Make a method asynchronous: it runs in the thread and one transaction of the database, with its connection.

    Its result passes `show`.
    """

    @wraps(method)
    async def run(self: StoreT, /, *args: P.args, **kwargs: P.kwargs) -> T:
        context = copy_context()  # it says whose the rows are
        result = await self._state.run(lambda connection: context.run(method, self, connection, *args, **kwargs))
        return await self.show(result)

    return run
