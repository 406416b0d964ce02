"""Limits the requests per minute of each token and address: in one process, or over all servers of a database."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from ragkit.errors import DatabaseFailed
from ragkit.server.state.database import StateDatabase
from ragkit.sql import SqlConnection

MAX_CLIENTS = 10_000
"""Tokens and addresses whose requests are counted; the first ones are forgotten."""
SHARED_SECONDS = 2.0
"""How long a request waits to be counted in the database."""
ALONE_SECONDS = 5.0
"""How long requests are counted in this process after the database did not answer."""


@dataclass(slots=True)
class TokenBucket:
    """A token bucket of one minute of requests, refilled continuously."""

    remaining: float
    refilled_at: float

    def take(self, per_minute: int, now: float) -> float:
        """Take one token; returns the seconds until the next one if the bucket is empty. `now`: of any one clock."""
        elapsed = max(0.0, now - self.refilled_at)
        self.remaining = min(per_minute, self.remaining + elapsed * per_minute / 60)
        self.refilled_at = now
        if self.remaining >= 1:
            self.remaining -= 1
            return 0.0
        return (1 - self.remaining) * 60 / per_minute


@dataclass
class RequestRates:
    """The buckets of all clients."""

    _buckets: dict[str, TokenBucket] = field(default_factory=dict)
    _alone_until: float = 0.0

    async def take(self, state: StateDatabase | None, client: str, per_minute: int) -> float:
        """Count a request; returns the seconds to wait if the limit is reached, else 0.

        `state`: that of the server; None: it has none, and counts in this process. So does a server whose database does
        not answer: searches need no database, and must not wait for it.
        """
        if state is not None and state.is_shared and time.monotonic() >= self._alone_until:
            try:
                async with asyncio.timeout(SHARED_SECONDS):
                    return await state.run(lambda connection: _take_shared(connection, client, per_minute))
            except (DatabaseFailed, TimeoutError):
                self._alone_until = time.monotonic() + ALONE_SECONDS
        now = time.monotonic()
        if len(self._buckets) >= MAX_CLIENTS and client not in self._buckets:
            del self._buckets[next(iter(self._buckets))]
        return self._buckets.setdefault(client, TokenBucket(per_minute, now)).take(per_minute, now)


def _take_shared(connection: SqlConnection, client: str, per_minute: int) -> float:
    # the clock of the database: those of the servers may differ
    now = float(connection.execute("SELECT extract(epoch FROM clock_timestamp())").fetchone()[0])
    row = connection.execute("SELECT remaining, refilled FROM rates WHERE client = ?", (client,)).fetchone()
    bucket = TokenBucket(*row) if row else TokenBucket(per_minute, now)
    wait = bucket.take(per_minute, now)
    connection.execute(
        "INSERT INTO rates VALUES (?,?,?) ON CONFLICT (client) DO UPDATE SET remaining = excluded.remaining,"
        " refilled = excluded.refilled",
        (client, bucket.remaining, bucket.refilled_at),
    )
    return wait
