"""The shipped pipelines at work, each with its services where they can be had here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline import discovery
from ragkit.pipeline.settings import Pipeline
from tests.servers.plugin import SERVERS
from tests.wire_embed.dialects import DIALECTS
from tests.wire_embed.server import WireServer

ELSEWHERE = {
    "local-faiss": "a model of sentence-transformers, which needs torch",
    "ray-cluster": "a cluster and a Qdrant server",
}
"""What is not run here, and what it would take; `tests/embed` and `tests/pipeline/run` test those parts."""

PLACES = {"gemini-pgvector": "pgvector", "pinecone": "pinecone"}
"""Pipeline -> its server, which the tests start."""


@pytest.fixture(params=[name for name in discovery.pipeline_names() if name not in ELSEWHERE])
def pipeline(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pipeline]:
    """One of them, with the addresses of the services that run here, and without a chat model."""
    name = str(request.param)
    overrides = ["answer.provider=extractive"]
    if name in PLACES:
        server = SERVERS[PLACES[name]]
        server.start()
        for variable, value in {**server.environment, **server.fresh()}.items():
            option = variable.removeprefix(f"RAGKIT_TEST_{PLACES[name].upper()}_").lower()
            overrides.append(f"store.{option}={value}")
    loaded = Pipeline.load(name, overrides, environ={})
    with ExitStack() as stack:
        if loaded.embedder.name in DIALECTS:
            service = stack.enter_context(WireServer(loaded.embedder.name).running())
            for variable, value in service.environment.items():
                monkeypatch.setenv(variable, value)
        yield loaded


def test_a_shipped_pipeline_indexes_finds_and_answers(pipeline: Pipeline, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "boiler.md").write_text("# Boiler\n\nThe boiler takes eleven minutes to reach its working pressure.\n")
    (docs / "garden.md").write_text("# Garden\n\nThe hedge is cut in August.\n")
    with KnowledgeBase.open(tmp_path / "kb", pipeline) as kb:
        assert kb.index(docs).files["added"] == 2
        assert kb.search("when is the hedge cut", 1)[0].chunk.title == "Garden"
        answer = kb.ask("How long does the boiler take to reach its working pressure?")
        assert "eleven minutes" in answer.text
        assert kb.verify().problems == ()
        assert kb.freshness(60).is_current


def test_what_is_not_run_here_is_shipped() -> None:
    assert set(ELSEWHERE) | set(PLACES) <= set(discovery.pipeline_names())
