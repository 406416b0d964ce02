"""Embed texts for index runs of other processes: the worker, and the runner that shares its texts with workers."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from hashlib import blake2b
from types import TracebackType

import numpy as np

from ragkit.embed.base import BatchingEmbedder, EmbeddingProvider, PricedEmbedder, embed_probe
from ragkit.embed.embedding_job import EmbeddingJob
from ragkit.errors import DatabaseFailed, RagkitError
from ragkit.index.build_fingerprint import check_embedder_weights
from ragkit.index.build_runner import BuildRunner, EmbeddedTexts, PendingEmbedding, RunnerAround
from ragkit.index.catalog.database_url import DatabaseUrl
from ragkit.index.catalog.postgres import EmbedderState, PostgresCatalog
from ragkit.index.catalog.postgres_queue import EmbeddingQueue, FinishedBatch, LeasedBatch
from ragkit.index.catalog.postgres_tables import PostgresTables
from ragkit.usage.ledger import Ledger, create_tables
from ragkit.usage.meter import Meter, record_embedding, use_meter

POLL_SECONDS = 0.1
"""How often a worker without work, and a run that waits for workers, look at the queue."""
BATCHES_PER_WORKER = 2
"""Batches of a run that wait for each worker, so that it finds the next one when it has finished one."""
SHARED_TEXTS = 64
"""Texts that a worker takes at once: a second of work, so that all workers end at about the same time."""
_MAX_PAUSE_SECONDS = 10.0

_log = logging.getLogger("ragkit")


class EmbeddingWorker:
    """Embeds batches of a queue. Reports in a thread, over a connection of its own. A context manager.

    What it pays is in the ledger of the knowledge base at once, whatever becomes of the run.
    """

    def __init__(self, url: DatabaseUrl, embedder: EmbeddingProvider, pipeline: str = "") -> None:
        """`pipeline`: the name of the pipeline, for the ledger."""
        self.name = f"process {os.getpid()} on {socket.gethostname()}, {secrets.token_hex(4)}"
        self.database = PostgresCatalog(url)
        self.queue = EmbeddingQueue(self.database, embedder.fingerprint)
        self._embedder, self._url = embedder, url
        self._ledger = Ledger(PostgresTables(url, "ledger", create_tables, serial=False))
        self._on_call = self._ledger.call_recorder("index", pipeline)
        self._state: EmbedderState | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> EmbeddingWorker:
        self.queue.report(self.name)
        self._thread = threading.Thread(target=self._report, name="ragkit-worker", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        with suppress(DatabaseFailed):
            self.queue.leave(self.name)
        self._ledger.close()
        self.database.close()

    def work(self, *, is_writer: bool = False) -> int:
        """Embed the next batch; returns the number of its texts, 0 if there is none.

        Args:
            is_writer: this is the worker of the run itself, whose meter counts what it pays.

        Raises:
            ProviderError: and any other error of the embedder; the batch is given back.
            SettingsMismatch: the embedder has other weights than that of the knowledge base.
        """
        batch = self.queue.lease(self.name, is_writer=is_writer)
        if batch is None:
            return 0
        try:
            with nullcontext() if is_writer else self._charge(batch):
                is_complete = self._embed(batch)
            if is_complete:
                self.queue.finish(batch)
        except DatabaseFailed:
            raise
        except BaseException as error:
            with suppress(DatabaseFailed):
                self.queue.fail(batch, str(error))
            raise
        return len(batch.texts)

    @contextmanager
    def _charge(self, batch: LeasedBatch) -> Iterator[None]:
        """Record what the block pays in the ledger, and add it to the cost of the batch, also if it fails."""
        with use_meter(Meter(on_call=self._on_call)) as meter:
            try:
                yield
            finally:
                usage = meter.usage()
                if usage.embedding_tokens:
                    self.queue.add_cost(batch, usage.embedding_tokens, usage.embedding_cost_usd)

    def _embed(self, batch: LeasedBatch) -> bool:
        """Embed what has no vector yet, and store each part as soon as it was computed.

        Before each round of requests it looks whether another worker took over, which then embeds the rest: False.
        """
        state = self._check_weights()
        rest = dict(zip(batch.hashes, batch.texts, strict=True))
        while rest:
            known = self.database.find_vectors(state.fingerprint, list(rest))
            rest = {key: text for key, text in rest.items() if key not in known}
            if not rest:
                break
            if not self.queue.holds(batch, self.name):
                return False
            self._embed_texts(state, {key: rest.pop(key) for key in self._next_round(rest)})
        return True

    def _next_round(self, texts: Mapping[bytes, str]) -> list[bytes]:
        """The texts that are sent at once: one request for each parallel batch."""
        keys = list(texts)
        if not isinstance(self._embedder, BatchingEmbedder):
            return keys
        requests = self._embedder.batches(list(texts.values()))[: self._embedder.concurrency]
        return [keys[index] for request in requests for index in request]

    def _embed_texts(self, state: EmbedderState, texts: Mapping[bytes, str]) -> None:
        keys = list(texts)
        job = EmbeddingJob(self._embedder, list(texts.values()))
        try:
            for places, rows in job.iter_remaining():
                self.database.save_vectors(state, [keys[place] for place in places], rows)
        finally:
            job.close()
            for places, rows in job.take_finished():
                self.database.save_vectors(state, [keys[place] for place in places], rows)

    def _check_weights(self) -> EmbedderState:
        """The embedder as the database knows it. Compares the weights once."""
        if self._state is None:
            probe = embed_probe(self._embedder)
            fingerprint = self._embedder.fingerprint
            stored = next((one for one in self.database.embedders() if one.fingerprint == fingerprint), None)
            if stored is not None and stored.probe is not None:
                check_embedder_weights(str(self._url), stored.probe, probe)
            self._state = EmbedderState(fingerprint, len(probe), probe.tobytes())
        return self._state

    def _report(self) -> None:
        database = PostgresCatalog(self._url)
        queue = EmbeddingQueue(database, self._embedder.fingerprint)
        while not self._stop.wait(self._url.lease_seconds / 5):
            with suppress(DatabaseFailed):  # the next report may get through
                queue.report(self.name)
        database.close()


def run_worker(worker: EmbeddingWorker, stop: threading.Event, idle_seconds: float | None = None) -> int:
    """Work until `stop` is set, or there was no work for `idle_seconds`; returns the number of embedded texts.

    An unreachable database and errors of the embedder are logged; the worker tries again after a pause.
    """
    embedded, idle_since, pause = 0, time.monotonic(), POLL_SECONDS
    warned: set[str] = set()
    while not stop.is_set():
        try:
            count = worker.work()
            for other in set() if count else set(worker.queue.other_embedders()) - warned:
                warned.add(other)
                _log.warning("texts wait for the embedder %s: start a worker with its pipeline file", other)
            pause = POLL_SECONDS
        except RagkitError as error:
            _log.warning("%s", error)
            count, pause = 0, min(_MAX_PAUSE_SECONDS, 2 * pause + 0.5)
        embedded += count
        if count:
            idle_since = time.monotonic()
        elif idle_seconds is not None and time.monotonic() - idle_since >= idle_seconds:
            break
        else:
            stop.wait(pause)
    return embedded


class SharingRunner(RunnerAround):
    """A runner that gives texts to workers, as long as there are any; the run itself works as one of them."""

    def __init__(
        self,
        inner: BuildRunner,
        url: DatabaseUrl,
        embedder: EmbeddingProvider,
        saved: set[bytes],
        check_lease: Callable[[], None],
    ) -> None:
        """Prepare the worker of the run.

        Args:
            inner: reads the files, and embeds if there are no workers.
            url: the knowledge base.
            embedder: the embedder of the run.
            saved: gets the hashes of texts whose vectors are in the database.
            check_lease: raises KnowledgeBaseLocked if another run took over, whose batches are in the queue then.
        """
        super().__init__(inner)
        self._embedder, self._saved, self._check_lease = embedder, saved, check_lease
        self._worker = EmbeddingWorker(url, embedder)
        self._others = 0
        self._waiting: set[int] = set()
        """The keys of batches of this run."""

    @property
    def max_parallel_batches(self) -> int:
        """Batches of the workers, and those of the inner runner."""
        return super().max_parallel_batches + BATCHES_PER_WORKER * self._others

    def share(self, texts: Sequence[str]) -> PendingEmbedding | None:
        """Give texts to the workers; None if there are none."""
        self._others = self._worker.queue.count_workers() - 1  # this run reports as well
        if self._others < 1:
            return None
        hashes = [blake2b(text.encode("utf-8"), digest_size=16).digest() for text in texts]
        starts = range(0, len(texts), SHARED_TEXTS)
        parts = [slice(start, start + SHARED_TEXTS) for start in starts]
        keys = [self._worker.queue.put(hashes[part], texts[part]) for part in parts]
        self._waiting.update(keys)
        return lambda: self._wait_for(keys, hashes)

    def _wait_for(self, keys: Sequence[int], hashes: list[bytes]) -> EmbeddedTexts:
        """The vectors of a batch. Meanwhile this process embeds parts of it and of others, as a worker does."""
        started = time.perf_counter()
        for key in keys:
            while (finished := self._worker.queue.take_finished(key)) is None:
                self._check_lease()
                if not self._worker.work(is_writer=True):
                    time.sleep(POLL_SECONDS)
            self._waiting.discard(key)
            self._record(finished)
        found = self._worker.database.find_vectors(self._embedder.fingerprint, hashes)
        self._saved.update(found)
        return EmbeddedTexts(np.stack([found[one] for one in hashes]), time.perf_counter() - started)

    def _record(self, finished: FinishedBatch) -> None:
        """Count what a worker has paid, and recorded in the ledger, in the usage of this run."""
        model = self._embedder.model if isinstance(self._embedder, PricedEmbedder) else self._embedder.fingerprint
        provider = self._embedder.provider if isinstance(self._embedder, PricedEmbedder) else "local"
        if finished.tokens:
            record_embedding(model, finished.tokens, finished.cost_usd, provider=provider, booked=True)

    def __enter__(self) -> SharingRunner:
        self._check_lease()
        with ExitStack() as stack:  # an error ends the thread of the worker
            stack.enter_context(self._worker)
            self._worker.queue.clear()
            super().__enter__()
            stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            super().__exit__(kind, error, trace)
        finally:
            with suppress(DatabaseFailed):
                self._worker.queue.remove(self._waiting)
            self._worker.__exit__()
