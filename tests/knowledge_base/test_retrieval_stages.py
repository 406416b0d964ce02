"""Retrieval stages in a knowledge base and on the command line: offsets, costs, errors."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from ragkit.errors import PipelineError
from ragkit.knowledge_base.diagnosis.diagnose import (
    NEAR_DEPTH,
    SEARCH_DEPTH,
    DiagnosisQuery,
    ExpectedLocation,
    diagnose,
)
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.settings import Pipeline
from tests import reads
from tests.cli.conftest import Ragkit, ragkit, workplace  # noqa: F401 - fixtures

EMBED = "embed: {name: hashing, dimension: 64}\nsplit: {name: recursive, chunk_size: 12, chunk_overlap: 0}\n"
STEPS = [
    "First the valve is closed and the pressure falls.",
    "Then the filter is taken out and washed in water.",
    "After an hour it is dry and is put back in its place.",
]
HANDBOOK = "# Boiler\n\n" + "\n\n".join(STEPS) + "\n"
KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "GROQ_API_KEY", "RAGKIT_MOCK_JSON")
ANSWER = {"content": "is the filter washed", "usage": {"prompt_tokens": 50, "completion_tokens": 5}}


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "boiler.md").write_text(HANDBOOK)
    (folder / "copy of boiler.md").write_text(HANDBOOK)
    (folder / "hedge.md").write_text("# Hedge\n\nThe hedge is cut in August, and never washed.\n")
    return folder


def knowledge_base(path: Path, docs: Path, retrieve: str) -> KnowledgeBase:
    kb = KnowledgeBase.open(path, Pipeline.from_yaml(f"{EMBED}retrieve: {retrieve}\n"))
    kb.index(docs)
    return kb


def test_a_hit_with_neighbours_equals_the_document_at_its_offsets(tmp_path: Path, docs: Path) -> None:
    retrieve = "{name: lexical, top_k: 1, distinct: {}, context: {name: neighbours}}"
    with knowledge_base(tmp_path / "kb", docs, retrieve) as kb:
        [hit] = kb.search("filter washed in water")
        document = reads.document(kb, hit.chunk.source)
        assert document is not None
        assert hit.chunk.text == HANDBOOK.rstrip()
        assert document.text[hit.chunk.start : hit.chunk.end] == hit.chunk.text
        assert (hit.chunk.start_line, hit.chunk.end_line) == (1, 7)


def test_a_quote_from_the_context_of_a_hit_has_its_own_offsets(tmp_path: Path, docs: Path) -> None:
    with knowledge_base(tmp_path / "kb", docs, "{name: lexical, top_k: 1, context: {name: parent}}") as kb:
        answer = kb.ask("What is taken out and washed in water, and dry after an hour?", model="extractive")
        by_line = {citation.start_line: citation for citation in answer.citations}
        assert (by_line[7].quote, by_line[7].verified) == (STEPS[2], True)
        assert HANDBOOK[by_line[7].start : by_line[7].end] == STEPS[2]


def test_duplicates_are_removed_from_the_hits(tmp_path: Path, docs: Path) -> None:
    with knowledge_base(tmp_path / "kb", docs, "{name: lexical, top_k: 2}") as kb:
        assert [Path(hit.chunk.source).name for hit in kb.search("washed")] == ["boiler.md", "copy of boiler.md"]
    with knowledge_base(tmp_path / "kb", docs, "{name: lexical, top_k: 2, distinct: {}}") as kb:
        assert [Path(hit.chunk.source).name for hit in kb.search("washed")] == ["boiler.md", "hedge.md"]


def test_the_cost_of_query_rewriting_is_in_the_usage_of_a_search_and_in_the_ledger(
    docs: Path,
    ragkit: Ragkit,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Path("ragkit.yaml").write_text(f"{EMBED}retrieve: {{name: lexical, rewrite: {{name: multi_query}}}}\n")
    monkeypatch.setenv("RAGKIT_MOCK_JSON", json.dumps([ANSWER]))
    ragkit("index", "docs")
    result = ragkit("search", "how does one clean it", "--json").json
    assert {Path(hit["source"]).name for hit in result["hits"]} == {"boiler.md", "copy of boiler.md", "hedge.md"}
    usage = result["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["llm_cost_usd"]) == (50, 5, 0.0)
    ledger = ragkit("usage", "--json").json
    assert "scripted" in json.dumps(ledger)


def test_the_cost_of_query_rewriting_is_in_the_usage_of_an_answer(
    tmp_path: Path, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGKIT_MOCK_JSON", json.dumps([ANSWER]))
    with knowledge_base(tmp_path / "kb", docs, "{name: dense, rewrite: {name: hyde}}") as kb:
        answer = kb.ask("How does one clean it?", model="extractive")
        assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (50, 5)
        assert answer.usage.by_tool["search_knowledge_base"].stats.prompt_tokens == 50


def test_validation_reports_a_missing_model_provider(
    ragkit: Ragkit,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for key in KEYS:
        monkeypatch.delenv(key, raising=False)
    text = "extends: default\nretrieve:\n  name: hybrid\n  rewrite: {name: hyde}\n"
    Path("mine.yaml").write_text(text)
    output = ragkit("pipeline", "validate", "mine.yaml", code=1).err.splitlines()
    assert output[0].startswith("mine.yaml:4:12: rewrite.provider must be an available provider")
    with pytest.raises(PipelineError, match=r"4:12: rewrite.provider must be an available provider"):
        Pipeline.load("mine.yaml").validate()
    monkeypatch.setenv("RAGKIT_MOCK_JSON", "[]")
    assert ragkit("pipeline", "validate", "mine.yaml").out == "mine.yaml: valid\n"
    Pipeline.load("mine.yaml").validate()


def test_an_unknown_provider_is_reported_with_a_suggestion(ragkit: Ragkit) -> None:  # noqa: F811
    text = "extends: default\nretrieve: {name: hybrid, rewrite: {provider: opanai}}\n"
    Path("mine.yaml").write_text(text)
    output = ragkit("pipeline", "validate", "mine.yaml", code=1).err
    assert "mine.yaml:2:35: rewrite: unknown provider 'opanai' (did you mean 'openai'?)" in output


def test_why_finds_a_passage_inside_a_wider_hit(docs: Path, ragkit: Ragkit) -> None:  # noqa: F811
    Path("ragkit.yaml").write_text(f"{EMBED}retrieve: {{name: lexical, top_k: 1, context: {{name: parent}}}}\n")
    ragkit("index", "docs")
    result = ragkit("explain", "valve pressure", "--expect", "docs/boiler.md:7", "--json").json
    assert (result["rank"], result["advice"]) == (1, ["none: it is hit 1"])


def test_why_reports_the_rank_of_a_search_even_if_deeper_rankings_differ(tmp_path: Path) -> None:
    rng = random.Random(4)
    words = [f"{first}{second}" for first in "bdfgklmnpr" for second in ("ale", "oot", "ime", "ust")]
    (tmp_path / "docs").mkdir()
    for number in range(150):
        (tmp_path / "docs" / f"{number}.txt").write_text(" ".join(rng.choices(words, k=30)))
    with KnowledgeBase.open(tmp_path / "kb", Pipeline.from_yaml("embed: {name: hashing, dimension: 64}\n")) as kb:
        kb.index(tmp_path / "docs")
        question = "bale doot fime gust kale"
        near = {hit.chunk.source: hit.rank for hit in kb.search(question, NEAR_DEPTH)}
        deep = {hit.chunk.source: hit.rank for hit in kb.search(question, SEARCH_DEPTH)}
        assert len(near) == NEAR_DEPTH
        moved = [source for source, rank in near.items() if deep[source] != rank]
        for source in moved[:3]:
            result = diagnose(kb, DiagnosisQuery(question, top_k=1), ExpectedLocation(source))
            assert [stage.rank for stage in result.stages[-1:]] == [near[source]]
        assert moved
