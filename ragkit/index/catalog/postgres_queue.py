"""The queue of texts that a run shares with workers, in the database of a knowledge base.

A batch is leased with `FOR UPDATE SKIP LOCKED`. A worker reports every few seconds; the batches of one that fell silent
are leased again. Vectors are stored by the hash of their text before a batch is finished, so that a batch which is
leased twice is not paid for twice.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ragkit.index.catalog.postgres import PostgresCatalog

MAX_WORKER_TRIES = 3
"""A batch that failed so often is left to the process that runs the index run, which reports the error."""


@dataclass(frozen=True)
class LeasedBatch:
    """Texts that this worker embeds."""

    key: int
    hashes: list[bytes]
    texts: list[str]


@dataclass(frozen=True)
class FinishedBatch:
    """What a batch has cost."""

    tokens: int
    cost_usd: float | None
    """None: unknown."""


class EmbeddingQueue:
    """The batches of one embedder. Safe for several threads. Every method raises DatabaseFailed."""

    def __init__(self, database: PostgresCatalog, embedder: str) -> None:
        """`embedder`: its fingerprint."""
        self._database, self._embedder = database, embedder

    def report(self, worker: str) -> None:
        """Tell that a worker is alive; it keeps its batches."""
        seconds = self._database.url.lease_seconds
        seen = (
            "INSERT INTO workers VALUES (%s, %s, clock_timestamp())"
            " ON CONFLICT (name) DO UPDATE SET seen = excluded.seen, embedder = excluded.embedder"
        )
        keep = (
            "UPDATE batches SET lease_until = clock_timestamp() + %s * interval '1 s'"
            " WHERE worker = %s AND NOT finished"
        )
        self._database.run(lambda c: c.execute(seen, (worker, self._embedder)))
        self._database.run(lambda c: c.execute(keep, (seconds, worker)))

    def leave(self, worker: str) -> None:
        """Give back what a worker has not finished."""
        self._database.run(lambda c: c.execute("DELETE FROM workers WHERE name = %s", (worker,)))
        give_back = "UPDATE batches SET worker = NULL, lease_until = NULL WHERE worker = %s AND NOT finished"
        self._database.run(lambda c: c.execute(give_back, (worker,)))

    def count_workers(self) -> int:
        """Workers with this embedder that reported within the time of a lease."""
        query = "SELECT count(*) FROM workers WHERE embedder = %s AND seen > clock_timestamp() - %s * interval '1 s'"
        values = self._embedder, self._database.url.lease_seconds
        row = self._database.run(lambda c: c.execute(query, values).fetchone())
        return int(row[0]) if row else 0

    def other_embedders(self) -> list[str]:
        """Fingerprints of other embedders for which batches wait."""
        query = "SELECT DISTINCT embedder FROM batches WHERE embedder <> %s AND NOT finished"
        return [str(row[0]) for row in self._database.run(lambda c: c.execute(query, (self._embedder,)).fetchall())]

    def clear(self) -> None:
        """Forget the batches of earlier runs; their vectors stay. Only for the holder of the writer's lease."""
        self._database.run(lambda c: c.execute("DELETE FROM batches"))

    def remove(self, keys: Iterable[int]) -> None:
        """Forget some batches; their vectors stay."""
        self._database.run(lambda c: c.execute("DELETE FROM batches WHERE key = ANY(%s)", (list(keys),)))

    def put(self, hashes: Sequence[bytes], texts: Sequence[str]) -> int:
        """Add a batch; returns its key."""
        statement = "INSERT INTO batches (embedder, hashes, texts) VALUES (%s, %s, %s) RETURNING key"
        body = zlib.compress(json.dumps(list(texts)).encode("ascii"), 1)
        row = self._database.run(lambda c: c.execute(statement, (self._embedder, list(hashes), body)).fetchone())
        return int(row[0]) if row else 0

    def lease(self, worker: str, *, is_writer: bool = False) -> LeasedBatch | None:
        """Take the oldest batch that nobody works on; None if there is none. `is_writer`: also those that failed."""
        statement = (
            "UPDATE batches SET worker = %s, tries = tries + 1, lease_until = clock_timestamp() + %s * interval '1 s'"
            " WHERE key = (SELECT key FROM batches WHERE embedder = %s AND NOT finished AND (tries < %s OR %s)"
            " AND (lease_until IS NULL OR lease_until < clock_timestamp())"
            " ORDER BY key FOR UPDATE SKIP LOCKED LIMIT 1) RETURNING key, hashes, texts"
        )
        values = worker, self._database.url.lease_seconds, self._embedder, MAX_WORKER_TRIES, is_writer
        row = self._database.run(lambda c: c.execute(statement, values).fetchone())
        if row is None:
            return None
        return LeasedBatch(int(row[0]), [bytes(key) for key in row[1]], json.loads(zlib.decompress(bytes(row[2]))))

    def holds(self, batch: LeasedBatch, worker: str) -> bool:
        """Whether the batch is still this worker's; not if it fell silent and another one took it, or the run ended."""
        query = "SELECT 1 FROM batches WHERE key = %s AND worker = %s AND NOT finished"
        return self._database.run(lambda c: c.execute(query, (batch.key, worker)).fetchone()) is not None

    def add_cost(self, batch: LeasedBatch, tokens: int, cost_usd: float | None) -> None:
        """Add what a worker has paid for a batch, whether it finished it or not."""
        statement = (
            "UPDATE batches SET tokens = tokens + %s, cost_usd = CASE WHEN tokens > 0 THEN cost_usd + %s ELSE %s END"
            " WHERE key = %s"
        )
        self._database.run(lambda c: c.execute(statement, (tokens, cost_usd, cost_usd, batch.key)))

    def finish(self, batch: LeasedBatch) -> None:
        """Report that the vectors of a batch are stored."""
        statement = "UPDATE batches SET finished = true, worker = NULL, lease_until = NULL WHERE key = %s"
        self._database.run(lambda c: c.execute(statement, (batch.key,)))

    def fail(self, batch: LeasedBatch, error: str) -> None:
        """Give a batch back that could not be embedded."""
        statement = "UPDATE batches SET worker = NULL, lease_until = NULL, error = %s WHERE key = %s AND NOT finished"
        self._database.run(lambda c: c.execute(statement, (error, batch.key)))

    def take_finished(self, key: int) -> FinishedBatch | None:
        """Remove a finished batch; None if it is not finished."""
        statement = "DELETE FROM batches WHERE key = %s AND finished RETURNING tokens, cost_usd"
        row = self._database.run(lambda c: c.execute(statement, (key,)).fetchone())
        return None if row is None else FinishedBatch(int(row[0]), None if row[1] is None else float(row[1]))
