"""The shipped pipelines at work, each with its services where they can be had here."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from ragkit.pipeline import shipped
from ragkit.pipeline.knowledge_base import KnowledgeBase
from ragkit.pipeline.settings import Pipeline
from tests.servers.plugin import SERVERS

RUN_HERE = ("default", "fast", "pinecone")
"""Those that need nothing, or a server that the tests start; the others need a key, a model or a cluster."""


@pytest.fixture(params=RUN_HERE)
def pipeline(request: pytest.FixtureRequest, tmp_path: Path) -> Pipeline:
    """One of them, with the addresses of the servers that run here."""
    name = str(request.param)
    text = (shipped.folder() / f"{name}.yaml").read_text(encoding="utf-8")
    [store] = re.findall(r"^store:\n  name: (\S+)$", text, re.MULTILINE)
    overrides: list[str] = []
    if store in SERVERS:
        SERVERS[store].start()
        for variable, value in {**SERVERS[store].environment, **SERVERS[store].fresh()}.items():
            option = variable.removeprefix(f"RAGKIT_TEST_{store.upper()}_").lower()
            overrides.append(f"store.{option}={value}")
    return Pipeline.load(name, overrides, environ={**os.environ, "PINECONE_API_KEY": "pc-test"})


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
        assert kb.freshness().current
