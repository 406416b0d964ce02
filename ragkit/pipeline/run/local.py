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
from ragkit.index.build_runner import PendingEmbedding, PreparedFile
from ragkit.index.plan import FileTask
from ragkit.load.file_io import MB
from ragkit.load.parsing import ParseFailure, ParseTask
from ragkit.pipeline.assemble import PipelineComponents
from ragkit.pipeline.run.index_worker import IndexWorker, strip_origins
from ragkit.pipeline.run.worker_process import WorkerExited, WorkerProcess
from ragkit.pipeline.runners import LocalOptions

INLINE_MAX_BYTES = 4 * MB
"""Files that are not more than this together are split before worker processes would have started."""
LOOKAHEAD_FILES = 4
"""Files in work or waiting for the caller, for each worker."""
LOOKAHEAD_BYTES = 64 * MB
"""Size of these files together; a single one may be larger."""
MAX_ATTEMPTS = 3
"""How often a file is begun before it is given up, when its worker process ends each time."""


class LocalRunner:
    """Drives worker processes of its own, and ends them when it is left."""

    max_parallel_batches = 1
    """A model on this machine uses every core for one window."""

    def __init__(self, options: LocalOptions, parts: PipelineComponents) -> None:
        self._parts = parts
        self._requested_workers = options.workers
        self._workers = options.workers or len(os.sched_getaffinity(0))
        self._embedding_executor = ThreadPoolExecutor(1, thread_name_prefix="ragkit-embed")
        self._inline_worker = IndexWorker(parts, self._workers)
        self._worker_pool = _WorkerPool(parts, self._workers)

    def __enter__(self) -> LocalRunner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._worker_pool.close()
        self._inline_worker.close()
        self._embedding_executor.shutdown(cancel_futures=True)

    def prepare_files(self, work: Sequence[FileTask]) -> Iterator[tuple[FileTask, PreparedFile | ParseFailure]]:
        """What becomes of each file: by workers, or here when the files are few and nobody asked for workers."""
        few = not self._requested_workers and sum(one.stat.size for one in work) <= INLINE_MAX_BYTES
        return self._prepare_inline(work) if few else self._worker_pool.prepare(work)

    def start_embedding(self, texts: Sequence[str]) -> PendingEmbedding:
        """Embed in a thread of its own; with this context, so that the run's meter counts what it embeds."""
        return self._embedding_executor.submit(copy_context().run, self._inline_worker.embed, texts).result

    def _prepare_inline(self, work: Sequence[FileTask]) -> Iterator[tuple[FileTask, PreparedFile | ParseFailure]]:
        yield from zip(work, self._inline_worker.prepare(create_task(one) for one in work), strict=True)


class _WorkerPool:
    """Worker processes, started when they are needed, each replaced when it dies."""

    def __init__(self, parts: PipelineComponents, workers: int) -> None:
        self._pipeline = strip_origins(parts.pipeline)
        self._size = workers
        self._executor = ThreadPoolExecutor(workers, thread_name_prefix="ragkit-work")
        self._idle: queue.LifoQueue[WorkerProcess] = queue.LifoQueue()
        self._alive: set[WorkerProcess] = set()
        self._lock = threading.Lock()
        self._closed = False

    def close(self) -> None:
        """End every process at once; files in work are given up."""
        with self._lock:
            self._closed = True
            alive = list(self._alive)
        for worker in alive:
            worker.kill()
        self._executor.shutdown(wait=True, cancel_futures=True)
        for worker in alive:
            worker.stop()

    def prepare(self, work: Sequence[FileTask]) -> Iterator[tuple[FileTask, PreparedFile | ParseFailure]]:
        """What becomes of each file, in order. Files are taken as results are."""
        waiting: deque[tuple[FileTask, Future[PreparedFile | ParseFailure]]] = deque()
        ahead = 0
        for one in work:
            while waiting and (len(waiting) >= LOOKAHEAD_FILES * self._size or ahead + one.stat.size > LOOKAHEAD_BYTES):
                ahead -= waiting[0][0].stat.size
                yield _oldest_result(waiting)
            waiting.append((one, self._executor.submit(self._prepare_file, one)))
            ahead += one.stat.size
        while waiting:
            yield _oldest_result(waiting)

    def _prepare_file(self, work: FileTask, tried: int = 1) -> PreparedFile | ParseFailure:
        """One file in a worker that is free, and again in a fresh one when that dies. Runs in a thread."""
        task = create_task(work)
        try:
            return self._run_in_worker(self._acquire_worker if tried == 1 else self._start_worker, task)
        except WorkerExited as end:
            if tried < MAX_ATTEMPTS and not self._closed:
                return self._prepare_file(work, tried + 1)
            reason = f"its worker process ended {tried} times (exit code {end.exit_code}: {end.last_line})"
            return ParseFailure(task, LoadError(task.source, reason, "leave it out, or run fewer workers"))

    def _run_in_worker(self, take: Callable[[], WorkerProcess], task: ParseTask) -> PreparedFile | ParseFailure:
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

    def _acquire_worker(self) -> WorkerProcess:
        try:
            return self._idle.get_nowait()
        except queue.Empty:
            return self._start_worker()

    def _start_worker(self) -> WorkerProcess:
        worker = WorkerProcess(self._pipeline)
        with self._lock:
            if not self._closed:
                self._alive.add(worker)
                return worker
        worker.stop()
        raise WorkerError("the run was stopped")


def create_task(work: FileTask) -> ParseTask:
    """What a parser needs to know of a file."""
    return ParseTask(work.path, work.source, work.stat)


def _oldest_result(
    waiting: deque[tuple[FileTask, Future[PreparedFile | ParseFailure]]],
) -> tuple[FileTask, PreparedFile | ParseFailure]:
    """The file that waits longest, once its worker is done with it."""
    work, future = waiting.popleft()
    return work, future.result()
