"""Index runs on a local Ray cluster: the index does not depend on killed workers."""

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

from ragkit.embed.openai import OpenAIEmbeddingProvider
from ragkit.errors import InvalidOption, LoadError, WorkerError
from ragkit.index.report import FileRead, IndexEvent, TextsEmbedded
from ragkit.knowledge_base.index_options import IndexOptions
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.assemble import PipelineComponents
from ragkit.pipeline.run import ray as ray_runner
from ragkit.pipeline.run.index_worker import strip_origins
from ragkit.pipeline.run.ray import RayRunner
from ragkit.pipeline.runners import RayOptions
from ragkit.pipeline.settings import Pipeline
from ragkit.records import Chunk
from ragkit.usage.meter import Meter, use_meter
from tests import reads
from tests.pipeline.run.corpus import content, indexed, write_corpus

CPUS = 3


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of a local cluster."""
    started = Cluster()
    for retries_left in (2, 1, 0):
        try:
            started.add_node(num_cpus=CPUS, object_store_memory=200 * 2**20, include_dashboard=False)
            break
        except Exception as error:  # Ray raises no specific type when its 30 seconds are over
            if retries_left == 0 or "timed out" not in str(error):
                raise
            started = Cluster()
    yield str(started.address)
    started.shutdown()  # type: ignore[no-untyped-call]


def workers(*titles: str) -> list[psutil.Process]:
    """The worker processes of the cluster with one of these titles: Ray sets the title to the current task."""
    processes: list[psutil.Process] = []
    for process in psutil.Process().children(recursive=True):
        try:
            command = " ".join(process.cmdline())
        except psutil.Error:
            continue  # the process has ended
        processes += [process] if any(command.startswith(f"ray::{title}") for title in titles) else []
    return processes


def kill_one(*titles: str) -> str:
    """Kill a worker with one of these titles and wait for its end; returns its title."""
    deadline = time.monotonic() + 30
    while not (victims := workers(*titles)):
        assert time.monotonic() < deadline, f"no worker has a title of {titles}"
        time.sleep(0.002)
    title = str(victims[0].cmdline()[0])
    victims[0].kill()
    victims[0].wait(10)
    return title


@pytest.mark.slow
def test_a_cluster_with_killed_workers_builds_the_same_index_as_one_process(
    tmp_path: Path, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_runner, "MAX_TASK_BYTES", 100_000)
    folder = write_corpus(tmp_path / "docs")
    # the second task takes long enough to be killed while it runs
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


def test_an_error_during_a_run_reaches_the_caller_and_keeps_an_existing_connection(
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


def test_contexts_of_chunks_are_written_by_this_process(tmp_path: Path, cluster: str) -> None:
    folder = write_corpus(tmp_path / "docs", files=6)
    split = 'split: {name: recursive, context: {model: "echo:echo", max_tokens: 20}}\n'
    found: list[list[Chunk]] = []
    for name, run in (("kb", f'{{name: ray, address: "{cluster}"}}'), ("here", "{name: local}")):
        settings = f"{split}embed: {{name: hashing, dimension: 64}}\nrun: {run}\n"
        with KnowledgeBase.open(tmp_path / name, Pipeline.from_yaml(settings)) as kb:
            report = kb.index(folder)
            found.append(list(reads.chunks(kb)))
            assert report.contexts == len({chunk.text for chunk in found[-1]})
            assert all("<chunk>" in chunk.context for chunk in found[-1])
    assert found[0] == found[1]


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_splitter_that_embeds_at_a_cost_is_refused(tmp_path: Path, dry_run: bool) -> None:
    folder = write_corpus(tmp_path / "docs", files=1)
    settings = "split: {name: semantic}\nembed: {name: openai}\nrun: {name: ray}\n"
    says = "run.name must be 'local': the splitter 'semantic' embeds sentences with text-embedding-3-small"
    embedder = OpenAIEmbeddingProvider(api_key="test-key", dimensions=8)
    with (
        KnowledgeBase.open(tmp_path / "kb", Pipeline.from_yaml(settings), embedder=embedder) as kb,
        pytest.raises(InvalidOption, match=says),
    ):
        kb.index(folder, options=IndexOptions(dry_run=dry_run))
    free = Pipeline.from_yaml("split: {name: semantic}\nrun: {name: ray}\n")
    assert isinstance(PipelineComponents(free).create_runner(), RayRunner)


def test_the_cost_of_embedding_on_the_cluster_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = RayRunner(RayOptions(), PipelineComponents(Pipeline.default()))
    packed = pickle.dumps(strip_origins(Pipeline.default()))
    result = ray_runner._embed_texts(packed, ["The hedge is cut in August.", "The boiler is swept in May."])
    monkeypatch.setattr(ray_runner._REMOTE_EMBED, "remote", lambda pipeline, texts: result)
    monkeypatch.setattr(ray, "get", lambda reference: reference)
    with use_meter(Meter()) as meter:
        rows, seconds = runner.start_embedding(["any", "texts"])()
    assert (rows.shape, seconds > 0) == ((2, 384), True)
    assert meter.usage().embedding_tokens == 18
    ray_runner._INDEX_WORKERS.clear()


def test_an_error_of_a_component_is_raised_unchanged() -> None:
    error = LoadError("a.txt", "cannot be read", "repair it")
    sent = pickle.loads(pickle.dumps(error))
    with pytest.raises(LoadError, match=r"a\.txt: cannot be read: repair it"):
        ray_runner._unwrap_result(sent)


def test_an_unreachable_cluster_is_an_immediate_error(tmp_path: Path) -> None:
    folder = write_corpus(tmp_path / "docs", files=1)
    message = r"cannot connect to the Ray cluster at 127\.0\.0\.1:9 \(no answer at .+:9\): is it running\?"
    with pytest.raises(WorkerError, match=message):
        indexed(tmp_path / "kb", folder, '{name: ray, address: "127.0.0.1:9"}')


def test_an_address_of_ray_client_is_rejected() -> None:
    with pytest.raises(InvalidOption, match=r"address must be host:port or auto.*\(got 'ray://head:10001'\)"):
        RayOptions(address="ray://head:10001")


def test_ray_reports_no_usage() -> None:
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
