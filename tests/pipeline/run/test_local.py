"""Index runs on this machine: workers change nothing but the time, and none of them outlives the run."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from ragkit.errors import InvalidOption, LoadError, PipelineError, WorkerError
from ragkit.index import build
from ragkit.index.build_runner import PreparedFile
from ragkit.index.plan import FileTask
from ragkit.index.report import FileRead, IndexEvent
from ragkit.knowledge_base.indexing import IndexOptions
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.load.file_io import FileStat
from ragkit.load.parsing import ParseFailure, ParseTask
from ragkit.pipeline.assemble import PipelineComponents
from ragkit.pipeline.run import local
from ragkit.pipeline.run.local import LOOKAHEAD_FILES, LocalRunner
from ragkit.pipeline.run.worker_process import WorkerProcess
from ragkit.pipeline.runners import RUNNERS, LocalOptions
from ragkit.pipeline.settings import Pipeline
from tests.pipeline.run.corpus import Content, content, indexed, pipeline, write_corpus

TWO = "{name: local, workers: 2}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("text") / "docs")


@pytest.fixture(scope="module")
def expected(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Content:
    """What this process alone makes of the folder."""
    kb = tmp_path_factory.mktemp("kb") / "kb"
    indexed(kb, folder)
    return content(kb)


def workers(module: str = "run.worker_process") -> list[psutil.Process]:
    """The worker processes (`load.parse_worker`: their parsers) of this process and of what it started."""
    found: list[psutil.Process] = []
    for process in psutil.Process().children(recursive=True):
        try:
            found += [process] if any(module in argument for argument in process.cmdline()) else []
        except psutil.Error:
            continue  # it ended while we looked
    return found


def wait_until_none_are_left() -> None:
    deadline = time.monotonic() + 10
    while (left := [*workers(), *workers("load.parse_worker")]) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert left == []


def work_of(folder: Path) -> list[FileTask]:
    paths = sorted(folder.iterdir())
    return [FileTask(str(path), path, FileStat.from_stat(path.stat()), None) for path in paths]


def runner(workers: int = 2) -> LocalRunner:
    return LocalRunner(LocalOptions(workers), PipelineComponents(pipeline()))


def test_worker_processes_make_the_same_index_as_this_process(tmp_path: Path, folder: Path, expected: Content) -> None:
    seen: list[int] = []
    report = indexed(tmp_path / "kb", folder, TWO, IndexOptions(on_event=lambda event: seen.append(len(workers()))))
    assert content(tmp_path / "kb") == expected
    assert max(seen) == 2
    assert (report.files["added"], report.files["skipped"]) == (59, 1)
    assert report.skipped == ((str(folder / "011.txt"), "holds no text"),)
    assert sorted(report.stage_seconds) == ["embed", "load", "split", "store"]
    assert min(report.stage_seconds.values()) > 0
    wait_until_none_are_left()


def test_a_few_files_start_no_worker_but_their_parsers(tmp_path: Path, folder: Path) -> None:
    seen: list[tuple[int, int]] = []

    def look(event: IndexEvent) -> None:
        if isinstance(event, FileRead):
            seen.append((len(workers()), len(workers("load.parse_worker"))))

    indexed(tmp_path / "kb", folder, how=IndexOptions(on_event=look))
    assert max(count for count, _ in seen) == 0
    assert max(parsers for _, parsers in seen) == len(os.sched_getaffinity(0))


def test_many_files_start_workers_though_nobody_named_a_number(
    tmp_path: Path, folder: Path, expected: Content, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "INLINE_MAX_BYTES", 1000)
    seen: list[int] = []
    indexed(tmp_path / "kb", folder, how=IndexOptions(on_event=lambda event: seen.append(len(workers()))))
    assert max(seen) == len(os.sched_getaffinity(0))
    assert content(tmp_path / "kb") == expected


def test_windows_and_waits_of_other_sizes_make_the_same_index(
    tmp_path: Path, folder: Path, expected: Content, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "EMBED_BATCH_SIZE", 5)
    monkeypatch.setattr(build, "MAX_PENDING_CHUNKS", 7)
    report = indexed(tmp_path / "kb", folder)
    assert content(tmp_path / "kb") == expected
    assert report.embedded == len(expected[2]) // (64 * 4)


def test_killed_workers_lose_and_double_no_chunk(tmp_path: Path, folder: Path, expected: Content) -> None:
    killed: list[int] = []

    def kill(event: IndexEvent) -> None:
        if isinstance(event, FileRead) and len(killed) < 3:
            victim = workers()[0]
            victim.kill()
            killed.append(victim.pid)
            time.sleep(0.2)  # so that its successor is another one of the list

    report = indexed(tmp_path / "kb", folder, TWO, IndexOptions(on_event=kill))
    assert len(set(killed)) == 3
    assert (report.files["added"], report.failures) == (59, ())
    assert content(tmp_path / "kb") == expected


def test_a_file_that_ends_every_worker_is_reported_and_the_rest_is_indexed(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = WorkerProcess.prepare

    def die_of_one(self: WorkerProcess, task: ParseTask) -> PreparedFile | ParseFailure:
        if task.source.endswith("005.txt"):
            self.kill()
        return ask(self, task)

    monkeypatch.setattr(WorkerProcess, "prepare", die_of_one)
    report = indexed(tmp_path / "kb", folder, TWO)
    [failure] = report.failures
    assert failure.source == str(folder / "005.txt")
    assert failure.error == "the worker process exited 3 times (exit code -9: no error output)"
    assert report.files["added"] == 58


@pytest.mark.parametrize("error", [KeyboardInterrupt(), LoadError("x", "stop")])
def test_a_run_that_is_stopped_leaves_no_process_and_can_be_taken_up(
    tmp_path: Path, folder: Path, expected: Content, error: BaseException
) -> None:
    seen: list[int] = []
    before = set(threading.enumerate())  # the loop of services is one for the process, and stays

    def stop(event: IndexEvent) -> None:
        if isinstance(event, FileRead):
            seen.append(len(workers()))
        if len(seen) == 20:
            raise error

    with pytest.raises(type(error)):
        indexed(tmp_path / "kb", folder, TWO, IndexOptions(on_event=stop))
    assert max(seen) == 2
    wait_until_none_are_left()
    assert [thread.name for thread in threading.enumerate() if thread not in before] == []
    indexed(tmp_path / "kb", folder, TWO)
    assert content(tmp_path / "kb")[:2] == expected[:2]


def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path, folder: Path) -> None:
    parent = os.fork()
    if parent == 0:  # this one only starts workers, and waits to be killed
        with runner() as crew:
            next(iter(crew.prepare_files(work_of(folder))))
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


class Counting(list[FileTask]):
    """Knows how many of its files were taken."""

    taken = 0

    def __iter__(self) -> Iterator[FileTask]:
        for one in super().__iter__():
            self.taken += 1
            yield one


def test_workers_are_ahead_of_the_caller_by_a_few_files(folder: Path) -> None:
    work = Counting(work_of(folder))
    with runner() as crew:
        found = crew.prepare_files(work)
        names = [next(found)[0].path.name for _ in range(3)]
        time.sleep(0.5)
        assert names == ["000.txt", "001.txt", "002.txt"]
        assert work.taken == 3 + LOOKAHEAD_FILES * 2


def test_workers_are_ahead_of_the_caller_by_a_few_bytes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "LOOKAHEAD_BYTES", 1)
    work = Counting(work_of(folder))
    with runner() as crew:
        next(iter(crew.prepare_files(work)))
        assert work.taken == 2  # one is being worked on, however large it is, and the next is held back


def test_what_a_part_raises_in_a_worker_is_raised_here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[object] = [PipelineError(["x.yaml:1:1: wrong"]), "nonsense"]
    monkeypatch.setattr(
        WorkerProcess, "_request", lambda self, question: answers.pop(0) if isinstance(question, ParseTask) else "ready"
    )
    worker = WorkerProcess(pipeline())
    with pytest.raises(PipelineError, match=r"x\.yaml:1:1: wrong"):
        worker.prepare(ParseTask(folder / "000.txt", "000.txt"))
    with pytest.raises(WorkerError, match="unexpected str from a worker process: run the command again"):
        worker.prepare(ParseTask(folder / "000.txt", "000.txt"))
    worker.stop()


def test_a_worker_that_cannot_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragkit.pipeline.run.worker_process._BOOTSTRAP", "raise SystemExit('no such component')")
    with pytest.raises(WorkerError, match=r"cannot start a worker process \(no such component\): run `ragkit doctor`"):
        WorkerProcess(pipeline())


def test_the_number_of_workers_of_a_run_stands_over_that_of_the_pipeline(tmp_path: Path, folder: Path) -> None:
    seen: list[int] = []
    how = IndexOptions(jobs=1, on_event=lambda event: seen.append(len(workers())))
    indexed(tmp_path / "kb", folder, TWO, how)
    assert max(seen) == 1


def test_the_runner_is_the_one_that_the_pipeline_names() -> None:
    assert RUNNERS.names() == ["local", "ray"]
    with PipelineComponents(Pipeline.default()).create_runner() as chosen:
        assert (type(chosen), chosen.max_parallel_batches) == (LocalRunner, 1)


def test_a_knowledge_base_remembers_who_indexed_it(tmp_path: Path, folder: Path) -> None:
    indexed(tmp_path / "kb", folder, TWO)
    assert KnowledgeBase.open(tmp_path / "kb").pipeline.runner.options == LocalOptions(2)


def test_a_negative_number_of_workers_is_refused_where_it_is_written() -> None:
    with pytest.raises(InvalidOption, match=r"workers must be >= 0 \(got -1\)"):
        LocalOptions(-1)
    with pytest.raises(PipelineError, match=r"pipeline:1:29: workers must be >= 0 \(got -1\)"):
        Pipeline.from_yaml("run: {name: local, workers: -1}\n", environ={})
