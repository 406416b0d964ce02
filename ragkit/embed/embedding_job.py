"""Texts embedded in the background, batch by batch. What has come is kept when a later batch fails.

Knows nothing of services: an embedder that keeps `BatchingEmbedder` says how its texts are cut, any other gets all in one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextvars import ContextVar, copy_context
from threading import Event
from typing import TypeAlias

from ragkit.embed.base import BatchingEmbedder, EmbeddingProvider, Rows

EmbeddedPart: TypeAlias = tuple[list[int], Rows]
"""Places of some texts, and their rows."""

STOP_EVENT: ContextVar[Event | None] = ContextVar("ragkit_embedding_stopped", default=None)
"""Set when nobody waits for the rows any more: an embedder that is about to wait, or to try again, gives up then."""


class EmbeddingJob:
    """Texts on their way to an embedder. Begins at once, with the caller's context, so that its meter counts.

    Take `ready` as often as you like, `rest` once, and `close` it in any case. For one thread.
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
            part = [texts[place] for place in batch]
            self._pending[self._pool.submit(copy_context().run, self._embed, part)] = batch

    def take_finished(self) -> list[EmbeddedPart]:
        """What has come since it was last asked. Waits for nothing and raises nothing."""
        done = [future for future in self._pending if future.done() and future.exception() is None]
        return [(self._pending.pop(future), future.result()) for future in done]

    def iter_remaining(self) -> Iterator[EmbeddedPart]:
        """Wait for what is missing. At an error what is under way still comes, then the error is raised."""
        first: BaseException | None = None
        while self._pending:
            for future in wait(self._pending, return_when=FIRST_COMPLETED).done:
                batch = self._pending.pop(future)
                error = future.exception()
                if error is None:
                    yield batch, future.result()
                else:
                    first = first or error
                    self._cancel_pending()
        if first is not None:
            raise first

    def close(self) -> None:
        """Drop what has not begun, and wait for what is under way: it may be paid for. `ready` gives it then."""
        self._cancel_pending()
        self._pool.shutdown()

    def _cancel_pending(self) -> None:
        self._stop_event.set()
        for future in [future for future in self._pending if future.cancel()]:
            del self._pending[future]

    def _embed(self, texts: Sequence[str]) -> Rows:
        STOP_EVENT.set(self._stop_event)
        return self._embedder.embed_texts(texts)
