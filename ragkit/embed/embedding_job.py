"""Embed texts in the background, batch by batch; completed batches survive the failure of a later one.

A `BatchingEmbedder` defines its batches; other embedders get all texts in one batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextvars import ContextVar, copy_context
from threading import Event
from typing import TypeAlias

from ragkit.embed.base import BatchingEmbedder, EmbeddingProvider, Rows

EmbeddedPart: TypeAlias = tuple[list[int], Rows]
"""Indexes of some texts, and their vectors."""

STOP_EVENT: ContextVar[Event | None] = ContextVar("ragkit_embedding_stopped", default=None)
"""Set when the job is cancelled: embedders must not wait or retry any more."""


class EmbeddingJob:
    """A background embedding of texts. Starts immediately, in a copy of the caller's context.

    Call `take_finished` any number of times, `iter_remaining` once, and always `close`. Not thread-safe.
    """

    def __init__(self, embedder: EmbeddingProvider, texts: Sequence[str]) -> None:
        batches, workers = [list(range(len(texts)))], 1
        if isinstance(embedder, BatchingEmbedder):
            batches, workers = embedder.batches(texts), embedder.concurrency
        self._embedder = embedder
        self._stop_event = Event()
        self._pool = ThreadPoolExecutor(max(1, min(workers, len(batches))), thread_name_prefix="ragkit-embed")
        self._pending: dict[Future[Rows], list[int]] = {}
        for batch in batches:
            batch_texts = [texts[index] for index in batch]
            self._pending[self._pool.submit(copy_context().run, self._embed, batch_texts)] = batch

    def take_finished(self) -> list[EmbeddedPart]:
        """The batches completed since the last call. Never blocks, never raises."""
        done = [future for future in self._pending if future.done() and future.exception() is None]
        return [(self._pending.pop(future), future.result()) for future in done]

    def iter_remaining(self) -> Iterator[EmbeddedPart]:
        """Yield the remaining batches as they complete. An error is raised after the running batches."""
        first_error: BaseException | None = None
        while self._pending:
            for future in wait(self._pending, return_when=FIRST_COMPLETED).done:
                batch = self._pending.pop(future)
                error = future.exception()
                if error is None:
                    yield batch, future.result()
                else:
                    first_error = first_error or error
                    self._cancel_pending()
        if first_error is not None:
            raise first_error

    def close(self) -> None:
        """Cancel batches that have not started, and wait for running ones; `take_finished` returns them."""
        self._cancel_pending()
        self._pool.shutdown()

    def _cancel_pending(self) -> None:
        self._stop_event.set()
        for future in [future for future in self._pending if future.cancel()]:
            del self._pending[future]

    def _embed(self, texts: Sequence[str]) -> Rows:
        STOP_EVENT.set(self._stop_event)
        return self._embedder.embed_texts(texts)
