"""An index run on a Ray cluster: its workers read, parse, split and embed; this process plans and writes.

Files travel in tasks of a few, windows of texts in others; a few tasks for each worker are under way, the next ones are
sent as results are taken. It is no single stream of Ray Data, because between splitting and embedding stands the
catalog, which alone knows the texts that have vectors already, and because a task costs a few milliseconds where such a
stream begins after seconds. A task whose worker dies is done again by another one; it has changed nothing, so nothing
is lost or done twice. Ray's own usage statistics are switched off.
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

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # Ray looks when it is imported
import ray
from ray import ObjectRef
from ray.exceptions import RayError, RayTaskError

from ragkit.errors import RagkitError, WorkerError
from ragkit.index.build_runner import EmbeddedTexts, PendingEmbedding, PreparedFile
from ragkit.index.plan import FileTask
from ragkit.load.file_io import MB
from ragkit.load.parsing import ParseFailure, ParseTask
from ragkit.pipeline.assemble import PipelineComponents
from ragkit.pipeline.run.index_worker import IndexWorker, strip_origins
from ragkit.pipeline.runners import RayOptions
from ragkit.usage.meter import Meter, MeteredCall, current_meter, use_meter

Result = TypeVar("Result")
PrepareResult: TypeAlias = list[PreparedFile | ParseFailure] | RagkitError

MAX_TASK_BYTES = 2 * MB
"""Size of the files that one task reads; a single one may be larger."""
MAX_TASK_FILES = 32
"""Files that one task reads at most."""
LOOKAHEAD_TASKS = 2
"""Tasks with files under way or waiting for the caller, for each worker."""
CONNECT_SECONDS = 10.0
"""How long the head of a cluster may take to answer."""
MAX_RETRIES = 3
"""How often a task is begun again after its worker died."""


class RayRunner:
    """Drives the workers of a cluster, which is left as it was; one that was started for the run is stopped."""

    def __init__(self, options: RayOptions, parts: PipelineComponents) -> None:
        self._options = options
        self._pipeline = pickle.dumps(strip_origins(parts.pipeline))
        self._owns_cluster = False
        self._workers = options.workers

    def __enter__(self) -> RayRunner:
        self._owns_cluster = not ray.is_initialized()
        if self._owns_cluster:
            self._connect()
        if not self._workers:
            there: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]  # Ray has no types here
            self._workers = max(1, int(there.get("CPU", 1)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._owns_cluster:
            ray.shutdown()

    @property
    def max_parallel_batches(self) -> int:
        """As many as there are workers."""
        return self._workers

    def prepare_files(self, work: Sequence[FileTask]) -> Iterator[tuple[FileTask, PreparedFile | ParseFailure]]:
        """What becomes of each file, in order."""
        under_way: deque[tuple[list[FileTask], ObjectRef[PrepareResult]]] = deque()
        for batch in _batches(work):
            if len(under_way) >= LOOKAHEAD_TASKS * self._workers:
                yield from self._collect_results(*under_way.popleft())
            tasks = [ParseTask(one.path, one.source, one.stat) for one in batch]
            under_way.append((batch, _REMOTE_PREPARE.remote(self._pipeline, tasks)))
        while under_way:
            yield from self._collect_results(*under_way.popleft())

    def start_embedding(self, texts: Sequence[str]) -> PendingEmbedding:
        """Begin to embed some texts on the cluster; what the embedder reports is counted here."""
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
        """The files of a task, once it is done."""
        with _translate_errors(self._options):
            outcomes = _unwrap_result(ray.get(reference))
        return zip(batch, outcomes, strict=True)


@dataclass(frozen=True, slots=True)
class _EmbedResult:
    """What comes back from the cluster for a window."""

    embedding: EmbeddedTexts
    calls: tuple[MeteredCall, ...]


_INDEX_WORKERS: dict[bytes, IndexWorker] = {}
"""In a worker: the stage of the pipeline that it worked for last, with the models that it has loaded."""


def _get_index_worker(pipeline: bytes) -> IndexWorker:
    if pipeline not in _INDEX_WORKERS:
        while _INDEX_WORKERS:
            _INDEX_WORKERS.popitem()[1].close()
        _INDEX_WORKERS[pipeline] = IndexWorker(PipelineComponents(pickle.loads(pipeline)))  # noqa: S301 - written by `RayRunner`
    return _INDEX_WORKERS[pipeline]


def _prepare_files(pipeline: bytes, tasks: list[ParseTask]) -> PrepareResult:
    """In a worker: what becomes of some files. An error of ours travels as a value, to arrive as it is."""
    try:
        return list(_get_index_worker(pipeline).prepare(tasks))
    except RagkitError as error:
        return error


def _embed_texts(pipeline: bytes, texts: list[str]) -> _EmbedResult | RagkitError:
    """In a worker: the vectors of a window, with what it cost."""
    try:
        with use_meter(Meter()) as meter:
            return _EmbedResult(_get_index_worker(pipeline).embed(texts), meter.calls)
    except RagkitError as error:
        return error


_REMOTE_PREPARE = ray.remote(num_cpus=1, max_retries=MAX_RETRIES)(_prepare_files)
_REMOTE_EMBED = ray.remote(num_cpus=1, max_retries=MAX_RETRIES)(_embed_texts)


def _batches(work: Sequence[FileTask]) -> Iterator[list[FileTask]]:
    """The files in order, a few at a time."""
    batch: list[FileTask] = []
    size = 0
    for one in work:
        if batch and (len(batch) >= MAX_TASK_FILES or size + one.stat.size > MAX_TASK_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(one)
        size += one.stat.size
    if batch:
        yield batch


def _check_reachable(address: str) -> None:
    """Raises ConnectionError when nobody listens at `host:port`: Ray itself would try for a quarter of an hour."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        return  # `auto` or `local`
    if host in ("localhost", "127.0.0.1"):
        host = str(ray.util.get_node_ip_address())  # type: ignore[no-untyped-call]  # the address that Ray takes it for
    try:
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
    except OSError as error:
        raise ConnectionError(f"nothing answers at {host}:{port}") from error


def _unwrap_result(answer: Result | RagkitError) -> Result:
    """What a worker gave back. Raises the error of ours that it met."""
    if isinstance(answer, RagkitError):
        raise answer
    return answer


@contextmanager
def _translate_errors(options: RayOptions) -> Iterator[None]:
    """Errors of Ray as ours."""
    where = f"the Ray cluster at {options.address}" if options.address else "Ray"
    try:
        yield
    except RayTaskError as error:
        reason = str(error.cause).strip().rpartition("\n")[2]
        raise WorkerError(f"a worker of {where} failed ({reason})") from error
    except RayError as error:
        reason = str(error).strip().partition("\n")[0]
        raise WorkerError(
            f"{where} lost a worker {MAX_RETRIES + 1} times over one task ({reason}): see `ray status`"
        ) from error
    except (ConnectionError, RuntimeError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise WorkerError(f"{where} cannot be reached ({reason}): is it running? see `ray status`") from error
