"""Run an index build on this machine: processes read, parse and split; a thread embeds; the caller writes."""

from __future__ import annotations

import math
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from types import TracebackType

from ragkit.errors import LoadError, RagkitError, WorkerError
from ragkit.index.build_runner import EmbeddedTexts, PendingEmbedding, PreparedFile
from ragkit.index.plan import FileTask
from ragkit.load.files.file_groups import group_files
from ragkit.load.files.file_io import MB
from ragkit.load.process.parse_pool import GROUP_BYTES, GROUP_FILES
from ragkit.load.process.parsing import ParseFailure, ParseTask
from ragkit.pipeline.assemble import PipelineComponents
from ragkit.pipeline.run.index_worker import IndexWorker, strip_origins
from ragkit.pipeline.run.worker_process import Answer, WorkerExited, WorkerProcess
from ragkit.pipeline.runners import LocalOptions

INLINE_MAX_BYTES = 4 * MB
"""Up to this total size, files are prepared in this process: starting workers takes longer."""
LOOKAHEAD_GROUPS = 4
"""Groups of files in progress or waiting for the caller, per worker."""
LOOKAHEAD_BYTES = 64 * MB
"""Total size of these files; a single file can be larger."""
WINDOW_S = 1.0
"""Seconds after which the number of workers may grow."""
MAX_ATTEMPTS = 3
"""Attempts at a file whose worker process exits each time."""


class LocalRunner:
    """Runs worker processes, and stops them on exit."""

    max_parallel_batches = 1
    """A local model uses every core for one batch."""

    def __init__(self, options: LocalOptions, components: PipelineComponents) -> None:
        self._components = components
        self._requested_workers = options.workers
        self._workers = options.workers or len(os.sched_getaffinity(0))
        self._embedding_executor = ThreadPoolExecutor(1, thread_name_prefix="ragkit-embed")
        self._embedder_idle_since: float | None = -math.inf
        """By `time.monotonic`; None while something is being embedded."""
        self._inline_worker = IndexWorker(components, self._workers)
        self._worker_pool = _WorkerPool(components, self._workers, options.workers or 1, self._idle_since)

    def __enter__(self) -> LocalRunner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._worker_pool.close()
        self._inline_worker.close()
        self._embedding_executor.shutdown(cancel_futures=True)

    def prepare_files(self, work: Sequence[FileTask]) -> Iterator[tuple[FileTask, PreparedFile | ParseFailure]]:
        """The result for each file, from workers, or from this process if the files are few and no workers were set."""
        few = not self._requested_workers and _total_size(work) <= INLINE_MAX_BYTES
        few |= self._components.stays_in_process
        return self._prepare_inline(work) if few else self._worker_pool.prepare(work)

    def start_embedding(self, texts: Sequence[str]) -> PendingEmbedding:
        """Embed in a thread with a copy of this context, so that the current meter counts it."""
        self._embedder_idle_since = None
        return self._embedding_executor.submit(copy_context().run, self._embed, texts).result

    def _embed(self, texts: Sequence[str]) -> EmbeddedTexts:
        try:
            return self._inline_worker.embed(texts)
        finally:
            self._embedder_idle_since = time.monotonic()

    def _idle_since(self) -> float | None:
        return self._embedder_idle_since

    def _prepare_inline(self, work: Sequence[FileTask]) -> Iterator[tuple[FileTask, PreparedFile | ParseFailure]]:
        yield from zip(work, self._inline_worker.prepare(create_task(file) for file in work), strict=True)


class _WorkerPool:
    """Worker processes, started on demand and replaced if they exit.

    `first` of them may work at once. Their number doubles, up to `workers`, each time the caller waited for files more
    than half of WINDOW_S while nothing was being embedded: where embedding takes most of the time, one worker and its
    parser are enough, and each more would take 100 to 150 MB.
    """

    def __init__(
        self, components: PipelineComponents, workers: int, first: int, idle_since: Callable[[], float | None]
    ) -> None:
        self._pipeline = strip_origins(components.pipeline)
        self._size = workers
        self._allowed = first
        self._permits = threading.Semaphore(first)
        self._idle_since = idle_since
        self._window_start: float | None = None
        self._waited = 0.0
        self._executor = ThreadPoolExecutor(workers, thread_name_prefix="ragkit-work")
        self._idle: queue.LifoQueue[WorkerProcess] = queue.LifoQueue()
        self._alive: set[WorkerProcess] = set()
        self._lock = threading.Lock()
        self._closed = False

    def close(self) -> None:
        """Stop every process immediately; files in progress are dropped."""
        with self._lock:
            self._closed = True
            alive = list(self._alive)
        for worker in alive:
            worker.kill()
        self._executor.shutdown(wait=True, cancel_futures=True)
        for worker in alive:
            worker.stop()

    def prepare(self, work: Sequence[FileTask]) -> Iterator[tuple[FileTask, PreparedFile | ParseFailure]]:
        """The result for each file, in order. Files are submitted as results are taken."""
        waiting: deque[tuple[list[FileTask], Future[list[Answer]]]] = deque()
        ahead = 0
        for group in group_files(work, GROUP_FILES, GROUP_BYTES):
            size, most = _total_size(group), LOOKAHEAD_GROUPS * self._size
            while waiting and (len(waiting) >= most or ahead + size > LOOKAHEAD_BYTES):
                ahead -= _total_size(waiting[0][0])
                yield from self._oldest_results(waiting)
            waiting.append((group, self._executor.submit(self._prepare_group, group)))
            ahead += size
        while waiting:
            yield from self._oldest_results(waiting)

    def _oldest_results(
        self, waiting: deque[tuple[list[FileTask], Future[list[Answer]]]]
    ) -> Iterator[tuple[FileTask, PreparedFile | ParseFailure]]:
        """The oldest files with their results; waits for them. Raises the error of a component."""
        work, future = waiting.popleft()
        began = time.monotonic()
        answers = future.result()
        if (idle_since := self._idle_since()) is not None:
            self._waited += time.monotonic() - max(began, idle_since)
        self._add_workers()
        for file, answer in zip(work, answers, strict=False):  # an error is the last answer
            if isinstance(answer, RagkitError):
                raise answer
            yield file, answer

    def _add_workers(self) -> None:
        """Let more workers start if the caller waited for files most of the time."""
        now = time.monotonic()
        if self._window_start is not None:
            seconds = now - self._window_start
            if seconds < WINDOW_S:
                return
            if self._waited > seconds / 2 and (more := min(self._allowed, self._size - self._allowed)):
                self._allowed += more
                self._permits.release(more)
        self._window_start, self._waited = now, 0.0

    def _prepare_group(self, work: Sequence[FileTask]) -> list[Answer]:
        """Prepare files in an idle worker, and one by one if it exits: only one of them may be the reason. Runs in a
        thread."""
        if len(work) > 1:
            with suppress(WorkerExited):
                return self._run_in_worker(self._acquire_worker, [create_task(file) for file in work])
        return [self._prepare_file(file) for file in work]

    def _prepare_file(self, work: FileTask, attempt: int = 1) -> Answer:
        """Prepare a file in an idle worker, and retry in a new one if that exits."""
        task = create_task(work)
        try:
            [answer] = self._run_in_worker(self._acquire_worker if attempt == 1 else self._start_worker, [task])
            return answer
        except WorkerExited as error:
            if attempt < MAX_ATTEMPTS and not self._closed:
                return self._prepare_file(work, attempt + 1)
            reason = f"the worker process exited {attempt} times (exit code {error.exit_code}: {error.last_line})"
            return ParseFailure(task, LoadError(task.source, reason, "exclude the file, or use fewer workers"))

    def _run_in_worker(self, get_worker: Callable[[], WorkerProcess], tasks: Sequence[ParseTask]) -> list[Answer]:
        with self._permits:
            worker = get_worker()
            try:
                answers = worker.prepare(tasks)
            except BaseException:
                worker.stop()
                with self._lock:
                    self._alive.discard(worker)
                raise
            self._idle.put(worker)
        return answers

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
        raise WorkerError("the index build was stopped")


def create_task(work: FileTask) -> ParseTask:
    """The parse task of a file."""
    return ParseTask(work.path, work.source, work.stat)


def _total_size(work: Sequence[FileTask]) -> int:
    return sum(file.stat.size for file in work)
