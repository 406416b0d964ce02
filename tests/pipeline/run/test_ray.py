"""Index runs on a real Ray cluster of several worker processes, started here: the same index, whatever is killed."""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import ray
from ray.cluster_utils import Cluster

from ragkit.errors import InvalidOption, LoadError, WorkerError
from ragkit.index.report import FileRead, IndexEvent, TextsEmbedded
from ragkit.knowledge_base.indexing import IndexOptions
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.assemble import PipelineComponents
from ragkit.pipeline.run import ray as ray_runner
from ragkit.pipeline.run.index_worker import strip_origins
from ragkit.pipeline.run.ray import RayRunner
from ragkit.pipeline.runners import RayOptions
from ragkit.pipeline.settings import Pipeline
from ragkit.usage.meter import Meter, use_meter
from tests.pipeline.run.corpus import content, indexed, pipeline, write_corpus

CPUS = 3


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of a cluster on this machine, which ends with these tests."""
    started = Cluster()
    for left in (2, 1, 0):
        try:
            started.add_node(num_cpus=CPUS, object_store_memory=200 * 2**20, include_dashboard=False)
            break
        except Exception as error:  # Ray has no other: it gives itself 30 seconds, whatever else a machine is doing
            if left == 0 or "timed out" not in str(error):
                raise
            started = Cluster()
    yield str(started.address)
    started.shutdown()  # type: ignore[no-untyped-call]


def workers(*titles: str) -> list[psutil.Process]:
    """The worker processes of the cluster with one of these titles: Ray names each by the task that it is at."""
    found: list[psutil.Process] = []
    for process in psutil.Process().children(recursive=True):
        try:
            said = " ".join(process.cmdline())
        except psutil.Error:
            continue  # it ended while we looked
        found += [process] if any(said.startswith(f"ray::{title}") for title in titles) else []
    return found


def kill_one(*titles: str) -> str:
    """Kill a worker with one of these titles, and wait for it to be gone; returns what it was at."""
    deadline = time.monotonic() + 30
    while not (victims := workers(*titles)):
        assert time.monotonic() < deadline, f"no worker is at {titles}"
        time.sleep(0.002)
    said = str(victims[0].cmdline()[0])
    victims[0].kill()
    victims[0].wait(10)
    return said


def test_a_cluster_whose_workers_are_killed_makes_the_same_index_as_this_process(
    tmp_path: Path, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_runner, "MAX_TASK_BYTES", 100_000)
    folder = write_corpus(tmp_path / "docs")
    # the second task takes long enough to be killed in the middle of it
    text = (folder / "002.txt").read_text()
    (folder / "000a.txt").write_text(text * (1_500_000 // len(text)))
    indexed(tmp_path / "here", folder)
    killed: dict[type[IndexEvent], str] = {}

    def kill(event: IndexEvent) -> None:
        if isinstance(event, FileRead) and FileRead not in killed:
            killed[FileRead] = kill_one("_prepare_files")
        elif isinstance(event, TextsEmbedded) and TextsEmbedded not in killed:
            killed[TextsEmbedded] = kill_one("_embed_texts", "_prepare_files", "IDLE")

    run = f'{{name: ray, address: "{cluster}", workers: 2}}'
    report = indexed(tmp_path / "kb", folder, run, IndexOptions(on_event=kill))
    assert killed[FileRead] == "ray::_prepare_files"
    assert killed.keys() == {FileRead, TextsEmbedded}
    assert (report.files["added"], report.files["skipped"], report.failures) == (60, 1, ())
    assert content(tmp_path / "kb") == content(tmp_path / "here")
    assert not ray.is_initialized()


def test_an_error_in_mid_run_reaches_the_caller_and_leaves_a_cluster_that_was_joined_before(
    tmp_path: Path, cluster: str
) -> None:
    folder = write_corpus(tmp_path / "docs", files=12)
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7 and no more")

    def stop(event: IndexEvent) -> None:
        if isinstance(event, TextsEmbedded):
            raise LoadError("x", "stop here")

    ray.init(cluster, log_to_driver=False, configure_logging=False)
    try:
        run = f'{{name: ray, address: "{cluster}"}}'
        with pytest.raises(LoadError, match="x: stop here"):
            indexed(tmp_path / "kb", folder, run, IndexOptions(on_event=stop))
        assert ray.is_initialized()
        report = indexed(tmp_path / "kb", folder, run)
        assert [failure.source for failure in report.failures] == [str(folder / "broken.pdf")]
        assert indexed(tmp_path / "here", folder).failures == report.failures
        assert content(tmp_path / "kb")[:2] == content(tmp_path / "here")[:2]
    finally:
        ray.shutdown()


def test_what_embedding_on_the_cluster_costs_is_counted_by_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = RayRunner(RayOptions(), PipelineComponents(Pipeline.default()))
    packed = pickle.dumps(strip_origins(Pipeline.default()))
    answer = ray_runner._embed_texts(packed, ["The hedge is cut in August.", "The boiler is swept in May."])
    monkeypatch.setattr(ray_runner._REMOTE_EMBED, "remote", lambda pipeline, texts: answer)
    monkeypatch.setattr(ray, "get", lambda reference: reference)
    with use_meter(Meter()) as meter:
        rows, seconds = runner.start_embedding(["any", "texts"])()
    assert (rows.shape, seconds > 0) == ((2, 384), True)
    assert meter.usage().embedding_tokens == 18
    ray_runner._INDEX_WORKERS.clear()


def test_an_error_of_a_part_arrives_as_it_was_raised() -> None:
    error = LoadError("a.txt", "cannot be read", "mend it")
    sent = pickle.loads(pickle.dumps(error))
    with pytest.raises(LoadError, match=r"a\.txt: cannot be read: mend it"):
        ray_runner._unwrap_result(sent)


def test_a_cluster_that_is_not_there_is_an_error_at_once(tmp_path: Path) -> None:
    folder = write_corpus(tmp_path / "docs", files=1)
    said = r"cannot connect to the Ray cluster at 127\.0\.0\.1:9 \(no answer at .+:9\): is it running\?"
    with pytest.raises(WorkerError, match=said):
        indexed(tmp_path / "kb", folder, '{name: ray, address: "127.0.0.1:9"}')


def test_the_ray_client_is_refused_where_it_is_written() -> None:
    with pytest.raises(InvalidOption, match=r"address must be host:port or auto.*\(got 'ray://head:10001'\)"):
        RayOptions(address="ray://head:10001")


def test_files_travel_a_few_at_a_time_and_large_ones_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_runner, "MAX_TASK_BYTES", 100)
    monkeypatch.setattr(ray_runner, "MAX_TASK_FILES", 3)
    sizes = [10, 20, 30, 40, 500, 60, 30, 30]
    for number, size in enumerate(sizes):
        (tmp_path / f"{number}.txt").write_text("x" * size)
    with KnowledgeBase.open(tmp_path / "kb", pipeline()) as kb:
        plan = kb._indexer._create_plan([tmp_path], {}, IndexOptions(), everything=False)
    batches = [[work.stat.size for work in batch] for batch in ray_runner._batches(plan.tasks)]
    assert batches == [[10, 20, 30], [40], [500], [60, 30], [30]]


def test_ray_reports_no_usage() -> None:
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
