"""Texts embedded in the background, batch by batch. What has come is kept when a later batch fails.

Knows nothing of services: an embedder that keeps `Batching` says how its texts are cut, any other gets all in one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextvars import ContextVar, copy_context
from threading import Event
from typing import TypeAlias

from ragkit.embed.base import Batching, EmbeddingProvider, Rows

Part: TypeAlias = tuple[list[int], Rows]
"""Places of some texts, and their rows."""

STOPPED: ContextVar[Event | None] = ContextVar("ragkit_embedding_stopped", default=None)
"""Set when nobody waits for the rows any more: an embedder that is about to wait, or to try again, gives up then."""


class Embedding:
    """Texts on their way to an embedder. Begins at once, with the caller's context, so that its meter counts.

    Take `ready` as often as you like, `rest` once, and `close` it in any case. For one thread.
    """

    def __init__(self, embedder: EmbeddingProvider, texts: Sequence[str]) -> None:
        batches, workers = [list(range(len(texts)))], 1
        if isinstance(embedder, Batching):
            batches, workers = embedder.batches(texts), embedder.concurrency
        self._embedder = embedder
        self._stopped = Event()
        self._pool = ThreadPoolExecutor(max(1, min(workers, len(batches))), thread_name_prefix="ragkit-embed")
        self._waiting: dict[Future[Rows], list[int]] = {}
        for batch in batches:
            part = [texts[place] for place in batch]
            self._waiting[self._pool.submit(copy_context().run, self._embed, part)] = batch

    def ready(self) -> list[Part]:
        """What has come since it was last asked. Waits for nothing and raises nothing."""
        done = [future for future in self._waiting if future.done() and future.exception() is None]
        return [(self._waiting.pop(future), future.result()) for future in done]

    def rest(self) -> Iterator[Part]:
        """Wait for what is missing. At an error what is under way still comes, then the error is raised."""
        first: BaseException | None = None
        while self._waiting:
            for future in wait(self._waiting, return_when=FIRST_COMPLETED).done:
                batch = self._waiting.pop(future)
                error = future.exception()
                if error is None:
                    yield batch, future.result()
                else:
                    first = first or error
                    self._drop()
        if first is not None:
            raise first

    def close(self) -> None:
        """Drop what has not begun, and wait for what is under way: it may be paid for. `ready` gives it then."""
        self._drop()
        self._pool.shutdown()

    def _drop(self) -> None:
        self._stopped.set()
        for future in [future for future in self._waiting if future.cancel()]:
            del self._waiting[future]

    def _embed(self, texts: Sequence[str]) -> Rows:
        STOPPED.set(self._stopped)
        return self._embedder.embed_texts(texts)
