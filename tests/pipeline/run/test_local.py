"""Local index runs: workers do not change the index, and none outlives the run."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from ragkit.errors import InvalidOption, LoadError, PipelineError, WorkerError
from ragkit.index import build
from ragkit.index.build_runner import PreparedFile
from ragkit.index.plan import FileTask
from ragkit.index.report import FileRead, IndexEvent, TextsEmbedded
from ragkit.knowledge_base.index_options import IndexOptions
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.load.files.file_io import FileStat
from ragkit.load.process.parsing import ParseTask
from ragkit.pipeline.assemble import PipelineComponents
from ragkit.pipeline.run import local, worker_process
from ragkit.pipeline.run.index_worker import IndexWorker
from ragkit.pipeline.run.local import LOOKAHEAD_GROUPS, LocalRunner
from ragkit.pipeline.run.worker_process import Answer, WorkerProcess
from ragkit.pipeline.runners import RUNNERS, LocalOptions
from ragkit.pipeline.settings import Pipeline
from tests.pipeline.run.corpus import Content, content, indexed, pipeline, write_corpus

TWO = "{name: local, workers: 2}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("text") / "docs")


@pytest.fixture(scope="module")
def expected(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Content:
    """The contents of an index built without workers."""
    kb = tmp_path_factory.mktemp("kb") / "kb"
    indexed(kb, folder)
    return content(kb)


def workers(module: str = "run.worker_process") -> list[psutil.Process]:
    """The child processes that run a module of ragkit (`load.process.parse_worker`: the parsers)."""
    found: dict[int, psutil.Process] = {}
    parents: dict[int, int] = {}
    for process in psutil.Process().children(recursive=True):
        try:
            parents[process.pid] = process.ppid()
            if any(module in argument for argument in process.cmdline()):
                found[process.pid] = process
        except psutil.Error:
            continue  # the process has ended
    # a process that one of them has just forked still has its command line
    return [process for pid, process in found.items() if parents[pid] not in found]


def wait_until_none_are_left() -> None:
    deadline = time.monotonic() + 10
    while (remaining := [*workers(), *workers("load.process.parse_worker")]) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert remaining == []


def slow_down_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker takes longer for a file than the caller for its result, on any machine."""
    prepare = WorkerProcess.prepare

    def prepare_slowly(self: WorkerProcess, tasks: Sequence[ParseTask]) -> list[Answer]:
        time.sleep(0.1)
        return prepare(self, tasks)

    monkeypatch.setattr(WorkerProcess, "prepare", prepare_slowly)


def file_tasks(folder: Path) -> list[FileTask]:
    paths = sorted(folder.iterdir())
    return [FileTask(str(path), path, FileStat.from_stat(path.stat()), None) for path in paths]


def runner(workers: int = 2) -> LocalRunner:
    return LocalRunner(LocalOptions(workers), PipelineComponents(pipeline()))


def test_worker_processes_build_the_same_index_as_one_process(tmp_path: Path, folder: Path, expected: Content) -> None:
    counts: list[int] = []
    report = indexed(tmp_path / "kb", folder, TWO, IndexOptions(on_event=lambda event: counts.append(len(workers()))))
    assert content(tmp_path / "kb") == expected
    assert max(counts) == 2
    assert (report.files["added"], report.files["skipped"]) == (59, 1)
    assert report.skipped == ((str(folder / "011.txt"), "holds no text"),)
    assert sorted(report.stage_seconds) == ["embed", "load", "split", "store"]
    assert min(report.stage_seconds.values()) > 0
    wait_until_none_are_left()


def test_a_few_files_start_parsers_but_no_workers(tmp_path: Path, folder: Path) -> None:
    counts: list[tuple[int, int]] = []

    def count_processes(event: IndexEvent) -> None:
        if isinstance(event, FileRead):
            counts.append((len(workers()), len(workers("load.process.parse_worker"))))

    indexed(tmp_path / "kb", folder, options=IndexOptions(on_event=count_processes))
    assert max(count for count, _ in counts) == 0
    assert max(parsers for _, parsers in counts) == len(os.sched_getaffinity(0))


def test_many_files_start_workers_by_default(
    tmp_path: Path, folder: Path, expected: Content, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "INLINE_MAX_BYTES", 1000)
    monkeypatch.setattr(local, "GROUP_FILES", 1)
    monkeypatch.setattr(local, "WINDOW_S", 0.0)
    monkeypatch.setattr(LocalRunner, "_idle_since", lambda self: 0.0)
    slow_down_workers(monkeypatch)
    counts: list[int] = []
    indexed(tmp_path / "kb", folder, options=IndexOptions(on_event=lambda event: counts.append(len(workers()))))
    assert max(counts) == len(os.sched_getaffinity(0))
    assert content(tmp_path / "kb") == expected


def test_a_run_that_waits_for_the_embedder_starts_one_worker(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "INLINE_MAX_BYTES", 1000)
    monkeypatch.setattr(local, "GROUP_FILES", 1)
    monkeypatch.setattr(local, "WINDOW_S", 0.0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: range(4))
    slow_down_workers(monkeypatch)
    embedded = threading.Event()
    monkeypatch.setattr(IndexWorker, "embed", lambda self, texts: embedded.wait())
    with LocalRunner(LocalOptions(), PipelineComponents(pipeline())) as started:
        wait_for_vectors = started.start_embedding(["text"])
        for _ in started.prepare_files(file_tasks(folder)):
            assert len(workers()) == 1
        embedded.set()
        wait_for_vectors()
        for _ in started.prepare_files(file_tasks(folder)):
            pass
        assert len(workers()) > 1
    wait_until_none_are_left()


def test_the_batch_sizes_do_not_change_the_index(
    tmp_path: Path, folder: Path, expected: Content, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "EMBED_BATCH_SIZE", 5)
    monkeypatch.setattr(build, "MAX_PENDING_CHUNKS", 7)
    report = indexed(tmp_path / "kb", folder)
    assert content(tmp_path / "kb") == expected
    assert report.embedded == len(expected[2]) // (64 * 4)


def test_a_small_run_tells_its_progress_in_small_batches_and_a_large_one_does_not(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "EMBED_BATCH_SIZE", 40)
    monkeypatch.setattr(build, "FIRST_BATCH_SIZE", 10)
    monkeypatch.setattr(build, "FIRST_TEXTS", 20)
    batches: list[int] = []

    def count(event: IndexEvent) -> None:
        if isinstance(event, TextsEmbedded):
            batches.append(event.texts)

    indexed(tmp_path / "kb", folder, options=IndexOptions(on_event=count))
    assert max(batches[:2]) <= 10
    assert max(batches[4:]) > 10


@pytest.mark.slow
@pytest.mark.parametrize("group_files", [1, 3])
def test_killed_workers_neither_lose_nor_duplicate_chunks(
    tmp_path: Path, folder: Path, expected: Content, monkeypatch: pytest.MonkeyPatch, group_files: int
) -> None:
    monkeypatch.setattr(local, "GROUP_FILES", group_files)
    killed: list[int] = []

    def kill(event: IndexEvent) -> None:
        if isinstance(event, FileRead) and len(killed) < 3 and (alive := workers()):
            alive[0].kill()
            killed.append(alive[0].pid)
            time.sleep(0.2)  # until the replacement is running

    report = indexed(tmp_path / "kb", folder, TWO, IndexOptions(on_event=kill))
    assert len(set(killed)) == 3
    assert (report.files["added"], report.failures) == (59, ())
    assert content(tmp_path / "kb") == expected


def test_a_file_that_kills_every_worker_is_reported_and_the_rest_is_indexed(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare = WorkerProcess.prepare

    def kill_on_one_file(self: WorkerProcess, tasks: Sequence[ParseTask]) -> list[Answer]:
        if any(task.source.endswith("005.txt") for task in tasks):
            self.kill()
        return prepare(self, tasks)

    monkeypatch.setattr(WorkerProcess, "prepare", kill_on_one_file)
    report = indexed(tmp_path / "kb", folder, TWO)
    [failure] = report.failures
    assert failure.source == str(folder / "005.txt")
    assert failure.error == "the worker process exited 3 times (exit code -9: no error output)"
    assert report.files["added"] == 58


@pytest.mark.parametrize("error", [KeyboardInterrupt(), LoadError("x", "stop")])
def test_a_stopped_run_leaves_no_process_and_can_be_resumed(
    tmp_path: Path, folder: Path, expected: Content, error: BaseException
) -> None:
    counts: list[int] = []
    before = set(threading.enumerate())  # the event loop thread of services is never stopped

    def stop(event: IndexEvent) -> None:
        if isinstance(event, FileRead):
            counts.append(len(workers()))
        if len(counts) == 20:
            raise error

    with pytest.raises(type(error)):
        indexed(tmp_path / "kb", folder, TWO, IndexOptions(on_event=stop))
    assert max(counts) == 2
    wait_until_none_are_left()
    assert [thread.name for thread in threading.enumerate() if thread not in before] == []
    indexed(tmp_path / "kb", folder, TWO)
    assert content(tmp_path / "kb")[:2] == expected[:2]


def test_workers_end_when_their_parent_is_killed(tmp_path: Path, folder: Path) -> None:
    parent = os.fork()
    if parent == 0:  # the child starts workers and waits to be killed
        with runner() as local_runner:
            next(iter(local_runner.prepare_files(file_tasks(folder))))
            (tmp_path / "pids").write_text(" ".join(str(process.pid) for process in [*workers(), *workers("load.w")]))
            (tmp_path / "ready").touch()
            signal.pause()
        os._exit(0)
    while not (tmp_path / "ready").exists():
        time.sleep(0.02)
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert len(pids) >= 2
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    deadline = time.monotonic() + 10
    while any(map(psutil.pid_exists, pids)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert [pid for pid in pids if psutil.pid_exists(pid)] == []


class CountingTasks(list[FileTask]):
    """Counts the consumed tasks."""

    consumed = 0

    def __iter__(self) -> Iterator[FileTask]:
        for task in super().__iter__():
            self.consumed += 1
            yield task


def test_workers_read_ahead_by_a_few_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "GROUP_FILES", 2)
    monkeypatch.setattr(local, "GROUP_BYTES", 1_000_000)
    tasks = CountingTasks(file_tasks(folder))
    with runner() as local_runner:
        prepared = local_runner.prepare_files(tasks)
        names = [next(prepared)[0].path.name for _ in range(3)]
        time.sleep(0.5)
        assert names == ["000.txt", "001.txt", "002.txt"]
        # the groups of these files and the groups ahead, and the first file of another one
        assert tasks.consumed == 2 * (2 + LOOKAHEAD_GROUPS * 2) + 1


def test_workers_read_ahead_by_a_few_bytes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "LOOKAHEAD_BYTES", 1)
    monkeypatch.setattr(local, "GROUP_FILES", 1)
    tasks = CountingTasks(file_tasks(folder))
    with runner() as local_runner:
        next(iter(local_runner.prepare_files(tasks)))
        assert tasks.consumed == 3  # one is processed regardless of its size, and the next one waits


def test_an_error_in_a_worker_is_raised_in_the_caller(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare = WorkerProcess.prepare

    def fail_at_the_second_file(self: WorkerProcess, tasks: Sequence[ParseTask]) -> list[Answer]:
        return [*prepare(self, tasks[:1]), PipelineError(["x.yaml:1:1: wrong"])]

    monkeypatch.setattr(WorkerProcess, "prepare", fail_at_the_second_file)
    with runner() as local_runner:
        prepared = local_runner.prepare_files(file_tasks(folder))
        assert isinstance(next(prepared)[1], PreparedFile)  # the files before it are not lost
        with pytest.raises(PipelineError, match=r"x\.yaml:1:1: wrong"):
            next(prepared)


def test_an_error_of_a_component_is_the_last_answer_of_a_worker(folder: Path) -> None:
    class Worker:
        def prepare_group(self, tasks: Sequence[ParseTask]) -> Iterator[ParseTask]:
            yield tasks[0]
            raise PipelineError(["x.yaml:1:1: wrong"])

    tasks = [ParseTask(folder / "000.txt", "000.txt")] * 2
    answers = worker_process._prepare(Worker(), tasks)  # type: ignore[arg-type]
    assert [type(answer) for answer in answers] == [ParseTask, PipelineError]


def test_a_wrong_answer_of_a_worker_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WorkerProcess, "_request", lambda self, request: "nonsense")
    worker = WorkerProcess(pipeline())
    with pytest.raises(WorkerError, match="unexpected str from a worker process: run the command again"):
        worker.prepare([ParseTask(folder / "000.txt", "000.txt")])
    worker.stop()


def test_a_worker_that_cannot_start_is_an_error_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragkit.pipeline.run.worker_process._BOOTSTRAP", "raise SystemExit('no such component')")
    with pytest.raises(WorkerError, match=r"cannot start a worker process \(no such component\): run `ragkit doctor`"):
        WorkerProcess(pipeline())


def test_the_jobs_option_of_a_run_overrides_the_workers_of_the_pipeline(tmp_path: Path, folder: Path) -> None:
    counts: list[int] = []
    options = IndexOptions(jobs=1, on_event=lambda event: counts.append(len(workers())))
    indexed(tmp_path / "kb", folder, TWO, options)
    assert max(counts) == 1


def test_the_pipeline_selects_the_runner() -> None:
    assert RUNNERS.names() == ["local", "ray"]
    with PipelineComponents(Pipeline.default()).create_runner() as selected:
        assert (type(selected), selected.max_parallel_batches) == (LocalRunner, 1)


def test_a_knowledge_base_stores_its_runner(tmp_path: Path, folder: Path) -> None:
    indexed(tmp_path / "kb", folder, TWO)
    assert KnowledgeBase.open(tmp_path / "kb").pipeline.runner.options == LocalOptions(2)


def test_a_negative_number_of_workers_is_rejected_with_its_location() -> None:
    with pytest.raises(InvalidOption, match=r"workers must be >= 0 \(got -1\)"):
        LocalOptions(-1)
    with pytest.raises(PipelineError, match=r"pipeline:1:29: workers must be >= 0 \(got -1\)"):
        Pipeline.from_yaml("run: {name: local, workers: -1}\n", environ={})
