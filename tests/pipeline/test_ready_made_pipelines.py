"""The shipped pipelines with real or simulated services."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline import discovery
from ragkit.pipeline.settings import Pipeline
from tests import reads
from tests.servers.plugin import SERVERS
from tests.wire_embed.dialects import DIALECTS
from tests.wire_embed.server import WireServer

EXCLUDED = {
    "local-faiss": "a model of sentence-transformers, which needs torch",
    "ray-cluster": "a cluster and a Qdrant server",
}
"""Pipeline -> what it requires; `tests/embed` and `tests/pipeline/run` test these components."""

SERVER_NAMES = {"gemini-pgvector": "pgvector", "pinecone": "pinecone"}
"""Pipeline -> the server that the tests start."""


@pytest.fixture(params=[name for name in discovery.pipeline_names() if name not in EXCLUDED])
def pipeline(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pipeline]:
    """A shipped pipeline with the addresses of the test services, and without a chat model."""
    name = str(request.param)
    overrides = ["answer.provider=extractive"]
    if name in SERVER_NAMES:
        server = SERVERS[SERVER_NAMES[name]]
        server.start()
        for variable, value in {**server.environment, **server.fresh()}.items():
            option = variable.removeprefix(f"RAGKIT_TEST_{SERVER_NAMES[name].upper()}_").lower()
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
        assert reads.freshness(kb, 60).is_current


def test_the_excluded_pipelines_exist() -> None:
    assert set(EXCLUDED) | set(SERVER_NAMES) <= set(discovery.pipeline_names())
