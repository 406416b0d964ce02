"""An index run on this machine: processes read, parse and split; a thread embeds; the caller writes."""

from __future__ import annotations

import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from types import TracebackType

from ragkit.errors import LoadError, WorkerError
from ragkit.index.plan import Work
from ragkit.index.runner import Pending, Prepared
from ragkit.load.files import MB
from ragkit.load.parse import Failed, Task
from ragkit.pipeline.assemble import Assembly
from ragkit.pipeline.run.process import Ended, Worker
from ragkit.pipeline.run.stage import Stage, portable
from ragkit.pipeline.runners import LocalOptions

FEW_BYTES = 4 * MB
"""Files that are not more than this together are split before worker processes would have started."""
LOOK_AHEAD = 4
"""Files in work or waiting for the caller, for each worker."""
LOOK_AHEAD_BYTES = 64 * MB
"""Size of these files together; a single one may be larger."""
TRIES = 3
"""How often a file is begun before it is given up, when its worker process ends each time."""


class LocalRunner:
    """Drives worker processes of its own, and ends them when it is left."""

    windows = 1
    """A model on this machine uses every core for one window."""

    def __init__(self, options: LocalOptions, parts: Assembly) -> None:
        self._parts = parts
        self._asked = options.workers
        self._workers = options.workers or len(os.sched_getaffinity(0))
        self._embedding = ThreadPoolExecutor(1, thread_name_prefix="ragkit-embed")
        self._stage = Stage(parts, self._workers)
        self._crew = _Crew(parts, self._workers)

    def __enter__(self) -> LocalRunner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._crew.close()
        self._stage.close()
        self._embedding.shutdown(cancel_futures=True)

    def prepare(self, work: Sequence[Work]) -> Iterator[tuple[Work, Prepared | Failed]]:
        """What becomes of each file: by workers, or here when the files are few and nobody asked for workers."""
        few = not self._asked and sum(one.stat.size for one in work) <= FEW_BYTES
        return self._here(work) if few else self._crew.prepare(work)

    def embed(self, texts: Sequence[str]) -> Pending:
        """Embed in a thread of its own; with this context, so that the run's meter counts what it embeds."""
        return self._embedding.submit(copy_context().run, self._stage.embed, texts).result

    def _here(self, work: Sequence[Work]) -> Iterator[tuple[Work, Prepared | Failed]]:
        yield from zip(work, self._stage.prepare(task_of(one) for one in work), strict=True)


class _Crew:
    """Worker processes, started when they are needed, each replaced when it dies."""

    def __init__(self, parts: Assembly, workers: int) -> None:
        self._pipeline = portable(parts.pipeline)
        self._many = workers
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="ragkit-work")
        self._idle: queue.LifoQueue[Worker] = queue.LifoQueue()
        self._alive: set[Worker] = set()
        self._lock = threading.Lock()
        self._closed = False

    def close(self) -> None:
        """End every process at once; files in work are given up."""
        with self._lock:
            self._closed = True
            alive = list(self._alive)
        for worker in alive:
            worker.kill()
        self._threads.shutdown(wait=True, cancel_futures=True)
        for worker in alive:
            worker.stop()

    def prepare(self, work: Sequence[Work]) -> Iterator[tuple[Work, Prepared | Failed]]:
        """What becomes of each file, in order. Files are taken as results are."""
        waiting: deque[tuple[Work, Future[Prepared | Failed]]] = deque()
        ahead = 0
        for one in work:
            while waiting and (len(waiting) >= LOOK_AHEAD * self._many or ahead + one.stat.size > LOOK_AHEAD_BYTES):
                ahead -= waiting[0][0].stat.size
                yield _settled(waiting)
            waiting.append((one, self._threads.submit(self._run, one)))
            ahead += one.stat.size
        while waiting:
            yield _settled(waiting)

    def _run(self, work: Work, tried: int = 1) -> Prepared | Failed:
        """One file in a worker that is free, and again in a fresh one when that dies. Runs in a thread."""
        task = task_of(work)
        try:
            return self._ask(self._free_worker if tried == 1 else self._new_worker, task)
        except Ended as end:
            if tried < TRIES and not self._closed:
                return self._run(work, tried + 1)
            reason = f"its worker process ended {tried} times (exit code {end.code}: {end.said})"
            return Failed(task, LoadError(task.source, reason, "leave it out, or run fewer workers"))

    def _ask(self, take: Callable[[], Worker], task: Task) -> Prepared | Failed:
        worker = take()
        try:
            outcome = worker.prepare(task)
        except BaseException:
            worker.stop()
            with self._lock:
                self._alive.discard(worker)
            raise
        self._idle.put(worker)
        return outcome

    def _free_worker(self) -> Worker:
        try:
            return self._idle.get_nowait()
        except queue.Empty:
            return self._new_worker()

    def _new_worker(self) -> Worker:
        worker = Worker(self._pipeline)
        with self._lock:
            if not self._closed:
                self._alive.add(worker)
                return worker
        worker.stop()
        raise WorkerError("the run was stopped")


def task_of(work: Work) -> Task:
    """What a parser needs to know of a file."""
    return Task(work.path, work.source, work.stat)


def _settled(waiting: deque[tuple[Work, Future[Prepared | Failed]]]) -> tuple[Work, Prepared | Failed]:
    """The file that waits longest, once its worker is done with it."""
    work, future = waiting.popleft()
    return work, future.result()
