"""Run an index build on a Ray cluster: workers read, parse, split and embed; this process plans and writes.

Each task is a batch of files or of texts. A few tasks per worker are in flight, and more are submitted as results are
taken. Ray Data is not used: only the catalog knows which texts already have vectors, so splitting and embedding cannot
be one stream, and a task takes milliseconds to start where such a stream takes seconds. Tasks have no side effects and
are retried if a worker dies. Ray's usage statistics are turned off.
"""

from __future__ import annotations

import os
import pickle
import socket
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import TypeAlias, TypeVar

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # Ray reads it on import
import ray
from ray import ObjectRef
from ray.exceptions import RayError, RayTaskError

from ragkit.errors import RagkitError, WorkerError
from ragkit.index.build_runner import EmbeddedTexts, PendingEmbedding, PreparedFile
from ragkit.index.plan import FileTask
from ragkit.load.files.file_groups import group_files
from ragkit.load.files.file_io import MB
from ragkit.load.process.parsing import ParseFailure, ParseTask
from ragkit.pipeline.assemble import PipelineComponents
from ragkit.pipeline.run.index_worker import IndexWorker, strip_origins
from ragkit.pipeline.runners import RayOptions
from ragkit.usage.meter import Meter, MeteredCall, current_meter, use_meter

Result = TypeVar("Result")
PrepareResult: TypeAlias = list[PreparedFile | ParseFailure] | RagkitError

MAX_TASK_BYTES = 2 * MB
"""Total size of the files of a task; a single file can be larger."""
MAX_TASK_FILES = 32
"""Maximum number of files of a task."""
LOOKAHEAD_TASKS = 2
"""Tasks in flight or waiting for the caller, per worker."""
CONNECT_SECONDS = 10.0
"""Timeout for connecting to the head node."""
MAX_RETRIES = 3
"""Retries of a task whose worker died."""


class RayRunner:
    """Runs tasks on a cluster. A cluster that was started for the build is stopped on exit."""

    def __init__(self, options: RayOptions, components: PipelineComponents) -> None:
        self._options = options
        self._pipeline = pickle.dumps(strip_origins(components.pipeline))
        self._owns_cluster = False
        self._workers = options.workers

    def __enter__(self) -> RayRunner:
        self._owns_cluster = not ray.is_initialized()
        if self._owns_cluster:
            self._connect()
        if not self._workers:
            resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]  # untyped in Ray
            self._workers = max(1, int(resources.get("CPU", 1)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._owns_cluster:
            ray.shutdown()

    @property
    def max_parallel_batches(self) -> int:
        """The number of workers."""
        return self._workers

    def prepare_files(self, work: Sequence[FileTask]) -> Iterator[tuple[FileTask, PreparedFile | ParseFailure]]:
        """The result for each file, in order."""
        in_flight: deque[tuple[list[FileTask], ObjectRef[PrepareResult]]] = deque()
        for batch in group_files(work, MAX_TASK_FILES, MAX_TASK_BYTES):
            if len(in_flight) >= LOOKAHEAD_TASKS * self._workers:
                yield from self._collect_results(*in_flight.popleft())
            tasks = [ParseTask(file.path, file.source, file.stat) for file in batch]
            in_flight.append((batch, _REMOTE_PREPARE.remote(self._pipeline, tasks)))
        while in_flight:
            yield from self._collect_results(*in_flight.popleft())

    def start_embedding(self, texts: Sequence[str]) -> PendingEmbedding:
        """Start to embed texts on the cluster; calls of the embedder count on the current meter."""
        reference = _REMOTE_EMBED.remote(self._pipeline, list(texts))

        def wait() -> EmbeddedTexts:
            with _translate_errors(self._options):
                answer = _unwrap_result(ray.get(reference))
            meter = current_meter()
            if meter is not None:
                for call in answer.calls:
                    meter.record(call)
            return answer.embedding

        return wait

    def _connect(self) -> None:
        address = self._options.address or os.environ.get("RAY_ADDRESS") or "local"
        cores = (self._options.workers or None) if address == "local" else None
        with _translate_errors(self._options):
            _check_reachable(address)
            ray.init(
                address,
                num_cpus=cores,
                include_dashboard=False if address == "local" else None,
                log_to_driver=False,
                configure_logging=False,
            )

    def _collect_results(
        self, batch: list[FileTask], reference: ObjectRef[PrepareResult]
    ) -> Iterator[tuple[FileTask, PreparedFile | ParseFailure]]:
        """The files of a task with their results; waits for it."""
        with _translate_errors(self._options):
            outcomes = _unwrap_result(ray.get(reference))
        return zip(batch, outcomes, strict=True)


@dataclass(frozen=True, slots=True)
class _EmbedResult:
    """The result of an embedding task."""

    embedding: EmbeddedTexts
    calls: tuple[MeteredCall, ...]


_INDEX_WORKERS: dict[bytes, IndexWorker] = {}
"""In a worker process: the worker of the latest pipeline, with its loaded models."""


def _get_index_worker(pipeline: bytes) -> IndexWorker:
    if pipeline not in _INDEX_WORKERS:
        while _INDEX_WORKERS:
            _INDEX_WORKERS.popitem()[1].close()
        _INDEX_WORKERS[pipeline] = IndexWorker(PipelineComponents(pickle.loads(pipeline)))  # noqa: S301 - written by `RayRunner`
    return _INDEX_WORKERS[pipeline]


def _prepare_files(pipeline: bytes, tasks: list[ParseTask]) -> PrepareResult:
    """In a worker process: the results for files. A RagkitError is returned, because Ray would wrap it."""
    try:
        return list(_get_index_worker(pipeline).prepare(tasks))
    except RagkitError as error:
        return error


def _embed_texts(pipeline: bytes, texts: list[str]) -> _EmbedResult | RagkitError:
    """In a worker process: the vectors of texts, and the metered calls."""
    try:
        with use_meter(Meter()) as meter:
            return _EmbedResult(_get_index_worker(pipeline).embed(texts), meter.calls)
    except RagkitError as error:
        return error


_REMOTE_PREPARE = ray.remote(num_cpus=1, max_retries=MAX_RETRIES)(_prepare_files)
_REMOTE_EMBED = ray.remote(num_cpus=1, max_retries=MAX_RETRIES)(_embed_texts)


def _check_reachable(address: str) -> None:
    """Raises ConnectionError if `host:port` is unreachable: Ray itself would retry for 15 minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        return  # `auto` or `local`
    if host in ("localhost", "127.0.0.1"):
        host = str(ray.util.get_node_ip_address())  # type: ignore[no-untyped-call]  # the address that Ray uses for this host
    try:
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
    except OSError as error:
        raise ConnectionError(f"no answer at {host}:{port}") from error


def _unwrap_result(answer: Result | RagkitError) -> Result:
    """The result of a task. Raises the error that it returned."""
    if isinstance(answer, RagkitError):
        raise answer
    return answer


@contextmanager
def _translate_errors(options: RayOptions) -> Iterator[None]:
    """Translate errors of Ray to WorkerError."""
    where = f"the Ray cluster at {options.address}" if options.address else "Ray"
    try:
        yield
    except RayTaskError as error:
        reason = str(error.cause).strip().rpartition("\n")[2]
        raise WorkerError(f"a worker of {where} failed ({reason})") from error
    except RayError as error:
        reason = str(error).strip().partition("\n")[0]
        raise WorkerError(f"{where} lost {MAX_RETRIES + 1} workers on one task ({reason}): see `ray status`") from error
    except (ConnectionError, RuntimeError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise WorkerError(f"cannot connect to {where} ({reason}): is it running? see `ray status`") from error
