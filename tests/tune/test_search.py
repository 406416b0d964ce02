"""Grid search: shared work is done once, the winner is correct, and finished trials are not repeated."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from ragkit.embed.base import PROBE_TEXT, Rows
from ragkit.embed.hashing import HashingEmbedder
from ragkit.errors import BudgetExceeded
from ragkit.evaluate.questions import read_questions
from ragkit.evaluate.run import Depths, EvaluatedSystem, evaluate_questions
from ragkit.index.sources.ids import display_name
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.assemble import PipelineComponents
from ragkit.pipeline.settings import Pipeline
from ragkit.split.recursive import RecursiveSplitter
from ragkit.tune.grid import read_grid
from ragkit.tune.report import format_remarks, format_trial_table, format_winner_file, tune_result_to_json
from ragkit.tune.search import GridSearch, TuneResult, pareto_indices
from tests import reads
from tests.wire_embed.server import WireServer

WORDS = [
    *("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath", "inlet"),
    *("jetty", "knoll", "larch", "marsh", "north", "ocean", "pearl", "quarry", "ridge"),
]
HASHING = "extends: default\nembed: {name: hashing, dimension: 64}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Twelve files that share text, each with its own subject, and a question about each."""
    docs = tmp_path / "docs"
    docs.mkdir()
    lines = []
    for number in range(12):
        body = "\n\n".join(
            f"The {WORDS[number]} {WORDS[(number + n) % 18]} station number {number * 31 + n} is at the {WORDS[n]}."
            for n in range(12)
        )
        (docs / f"{WORDS[number]}.md").write_text(f"# Station {number}\n\n{body}\n")
        text = f"Where does station number {number * 31 + 7} of {WORDS[number]} lie?"
        lines.append(json.dumps({"id": str(number), "question": text, "sources": [f"{WORDS[number]}.md"]}))
    (tmp_path / "q.jsonl").write_text("\n".join(lines))
    (tmp_path / "base.yaml").write_text(HASHING)
    return tmp_path


def tune(folder: Path, grid: str, head: str = "", **options: float) -> TuneResult:
    path = folder / "grid.yaml"
    path.write_text(f"pipeline: base.yaml\ndocuments: docs\nquestions: q.jsonl\n{head}grid:\n{grid}")
    return GridSearch(read_grid(path, {}), folder / "work").run(**options)


SIX = "  split.chunk_size: [20, 40]\n  split.chunk_overlap: [0]\n  retrieve.dense_weight: [0.0, 0.5, 1.0]\n"


class Counting:
    """Records the embedded texts and counts the split documents."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.texts: list[tuple[str, str]] = []
        self.splits = 0
        embed, spans = HashingEmbedder.embed_texts, RecursiveSplitter.spans

        def embed_texts(embedder: HashingEmbedder, texts: Sequence[str]) -> Rows:
            self.texts += [(embedder.fingerprint, text) for text in texts]
            return embed(embedder, texts)

        def count_spans(splitter: RecursiveSplitter, *arguments: object) -> object:
            self.splits += 1
            return spans(splitter, *arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(HashingEmbedder, "embed_texts", embed_texts)
        monkeypatch.setattr(RecursiveSplitter, "spans", count_spans)

    @property
    def chunks(self) -> list[tuple[str, str]]:
        """The embedded texts without the questions and the probe."""
        return [text for text in self.texts if "station number" in text[1] and not text[1].startswith("Where")]


def test_no_chunk_is_embedded_twice_and_no_file_read_or_split_twice(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = Counting(monkeypatch)
    result = tune(folder, SIX)
    assert len(result.trial_results) == 6
    assert (result.counts["read"], result.counts["indexes"]) == (12, 2)
    assert (result.counts["split"], counts.splits) == (24, 24)
    assert len(counts.chunks) == len(set(counts.chunks)) == result.counts["embedded"] == result.counts["distinct"]


def test_a_paid_embedder_gets_each_text_once_and_files_are_split_once_for_all_embedders(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = "  embed: [{name: openai, dimensions: 16}, {name: openai, dimensions: 24}]\n"
    grid += "  retrieve.dense_weight: [0.4, 0.6]\n"
    with WireServer("openai").running() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(BudgetExceeded, match="nothing was spent"):
            tune(folder, grid, "holdout: 0\n", max_cost_usd=1e-5)
        assert server.tokens == 0
        result = tune(folder, grid, "holdout: 0\n", max_cost_usd=1.0)
        assert (result.counts["read"], result.counts["split"], result.counts["indexes"]) == (12, 12, 2)
        assert result.counts["embedded"] == result.counts["distinct"]
        texts = {text: count for (_, text), count in server.answered.items() if text != PROBE_TEXT}
        assert set(texts.values()) == {2}  # once for each dimension, chunks and questions
        assert result.usage.embedding_tokens == server.tokens
        assert result.usage.total_cost_usd == pytest.approx(server.tokens * 0.02 / 1e6)
        price = result.trial_results[0].index_cost.cost_usd
        assert price is not None
        assert 0 < price < (result.usage.total_cost_usd or 0)
        assert [trial.cost_usd for trial in result.trial_results[:1]] == [
            pytest.approx(result.trial_results[1].cost_usd)
        ]
        assert all(row.cost_usd for trial in result.trial_results for row in trial.rows)
        request_count = len(server.requests)
        assert tune(folder, grid, "holdout: 0\n").usage.total_cost_usd == 0.0
        assert len(server.requests) == request_count


def test_chunks_shared_by_two_splitters_are_embedded_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = Counting(monkeypatch)
    result = tune(folder, "  split.chunk_size: [20, 21, 22]\n  split.chunk_overlap: [0]\n")
    assert result.counts["taken"] > 0
    assert len(counts.chunks) == len(set(counts.chunks)) == result.counts["embedded"] == result.counts["distinct"]
    assert sum(trial.chunks for trial in result.trial_results) > result.counts["distinct"]


def test_the_scores_equal_those_of_a_separate_knowledge_base(folder: Path) -> None:
    result = tune(folder, SIX, "holdout: 0\nmetric: mrr@3\n")
    questions = {question.id: question for question in read_questions(folder / "q.jsonl")}
    for trial_result in result.trial_results[1::3]:
        with KnowledgeBase.open(folder / f"own-{trial_result.trial.number}", trial_result.trial.pipeline) as kb:
            kb.index(folder / "docs")
            trial_questions = [questions[row.id] for row in trial_result.rows]
            outcomes = list(
                evaluate_questions(EvaluatedSystem(kb.search, None, display_name), trial_questions, Depths(3, 50))
            )
            ids = {chunk.id for chunk in reads.chunks(kb)}
        assert [row.value for row in trial_result.rows] == [outcome.metrics["mrr@3"] for outcome in outcomes]
        assert trial_result.chunks == len(ids)


def test_chunks_have_the_same_ids_as_in_a_separate_knowledge_base(folder: Path) -> None:
    result = tune(folder, "  embed: [{name: hashing, dimension: 64}, {name: hashing, dimension: 128}]\n")
    ids = []
    for directory in sorted((folder / "work" / "indexes").iterdir()):
        with KnowledgeBase.open(directory) as kb:
            assert kb.verify().is_sound
            ids.append({chunk.id for chunk in reads.chunks(kb)})
    separate = []
    for trial_result in result.trial_results:
        with KnowledgeBase.open(folder / f"own-{trial_result.trial.number}", trial_result.trial.pipeline) as kb:
            kb.index(folder / "docs")
            separate.append({chunk.id for chunk in reads.chunks(kb)})
    assert sorted(map(sorted, ids)) == sorted(map(sorted, separate))
    assert ids[0].isdisjoint(ids[1])


def test_a_search_option_creates_no_second_index(folder: Path) -> None:
    result = tune(folder, "  retrieve.dense_weight: [0.1, 0.5]\n  retrieve.rerank: [null, {name: mmr}]\n")
    assert (result.counts["indexes"], len(list((folder / "work" / "indexes").iterdir()))) == (1, 1)


def test_a_finished_trial_is_not_repeated_and_an_index_is_not_rebuilt(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    score, calls = GridSearch._score_questions, [0]

    def interrupt_fifth_call(self: GridSearch, *arguments: object) -> object:
        calls[0] += 1
        if calls[0] == 5:
            raise KeyboardInterrupt
        return score(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(GridSearch, "_score_questions", interrupt_fifth_call)
    with pytest.raises(KeyboardInterrupt):
        tune(folder, SIX, "holdout: 0\n")
    result = tune(folder, SIX, "holdout: 0\n")
    assert [trial.resumed for trial in result.trial_results] == [True] * 4 + [False] * 2
    assert (calls[0], result.counts["embedded"], result.counts["read"]) == (7, 0, 0)
    again = tune(folder, SIX, "holdout: 0\n")
    assert (calls[0], [trial.quality for trial in again.trial_results]) == (
        7,
        [trial.quality for trial in result.trial_results],
    )


def test_changed_documents_are_evaluated_again(folder: Path) -> None:
    first = tune(folder, SIX)
    (folder / "docs" / "amber.md").write_text("# Amber\n\nThis file was replaced.\n")
    second = tune(folder, SIX)
    assert not any(trial.resumed for trial in second.trial_results)
    assert second.counts["embedded"] == second.counts["distinct"] == 1
    assert second.winner.chunks < first.winner.chunks or second.winner.trial != first.winner.trial


def test_half_of_the_questions_select_and_the_other_half_evaluate(folder: Path) -> None:
    result = tune(folder, SIX)
    selection_ids = {row.id for row in result.winner.rows}
    assert (result.selection_questions, len(selection_ids), result.holdout_results[0].quality.n) == (6, 6, 6)
    assert result.holdout_results[0].trial == result.winner.trial
    trial_ids = [{row.id for row in trial.rows} for trial in result.trial_results]
    assert all(ids == selection_ids for ids in trial_ids)
    assert any("6 held-out questions: ndcg@10" in line for line in format_remarks(result))
    flattered = tune(folder, SIX, "holdout: 0\n")
    assert (flattered.selection_questions, flattered.holdout_results) == (12, ())
    assert any("selected and evaluated on the same questions" in line for line in format_remarks(flattered))


def test_the_best_wins_and_equivalent_trials_are_listed(folder: Path) -> None:
    result = tune(
        folder, "  retrieve: [{name: lexical}, {name: dense}]\n  split.chunk_size: [60, 400]\n", "holdout: 0\n"
    )
    means = [trial.quality.mean for trial in result.trial_results]
    assert result.winner.quality.mean == max(means)
    assert result.winner.gap_to_best.mean == 0
    assert result.winner in result.equivalent_to_best
    for trial in result.trial_results:
        best = [row.value for row in max(result.trial_results, key=lambda trial: trial.quality.mean).rows]
        difference = float(np.mean([a - b.value for a, b in zip(best, trial.rows, strict=True)]))
        assert trial.gap_to_best.mean == pytest.approx(difference)
        assert trial.is_worse == (trial.gap_to_best.low > 0)


def test_the_fastest_equivalent_trial_can_be_selected(folder: Path) -> None:
    result = tune(folder, SIX, "choose: fastest\nholdout: 0\n")
    assert result.winner.median_ms == min(trial.median_ms for trial in result.equivalent_to_best)


def test_each_trial_is_evaluated_at_its_own_top_k(folder: Path) -> None:
    result = tune(folder, "  retrieve.top_k: [1, 8]\n", "holdout: 0\nmetric: precision@1\n")
    top_1, top_8 = result.trial_results
    assert top_1.quality == top_8.quality
    result = tune(folder, "  retrieve.top_k: [1, 8]\n", "holdout: 0\nmetric: recall@10\n")
    assert result.trial_results[0].quality.mean <= result.trial_results[1].quality.mean


def test_answers_are_generated_if_the_metric_needs_them(folder: Path) -> None:
    result = tune(folder, "  retrieve.dense_weight: [0.1, 0.5]\n", "holdout: 0\nmetric: citation_recall\n")
    assert all(row.ask_ms > 0 for trial in result.trial_results for row in trial.rows)
    assert result.winner.median_ms == pytest.approx(float(np.median([row.ask_ms for row in result.winner.rows])))


def test_a_second_store_is_filled_without_embedding(folder: Path) -> None:
    result = tune(folder, "  store.name: [sqlite, faiss]\n", "holdout: 0\n")
    assert (result.counts["indexes"], result.trial_results[0].quality) == (1, result.trial_results[1].quality)
    assert result.trial_results[1].bytes > result.trial_results[0].bytes


def test_a_header_can_be_omitted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = Counting(monkeypatch)
    result = tune(folder, "  split.header: [true, false]\n", "holdout: 0\n")
    assert (result.counts["read"], result.counts["split"], result.counts["indexes"]) == (12, 24, 2)
    assert result.counts["embedded"] == result.counts["distinct"] == 24
    starts = [text.split()[0] for _, text in counts.chunks]
    assert (starts.count("Station"), starts.count("#")) == (12, 12)  # the title as a header, or the text alone
    headers = [
        PipelineComponents(trial_result.trial.pipeline).build_fingerprint.split.get("header")
        for trial_result in result.trial_results
    ]
    assert headers == [None, False]  # None: the fingerprint from before the option existed
    assert Pipeline.from_yaml(format_winner_file(result, dt.date(2026, 1, 1))) == result.winner.trial.pipeline


def test_the_winner_is_a_pipeline_file_with_its_metrics(folder: Path) -> None:
    result = tune(folder, SIX)
    text = format_winner_file(result, dt.date(2026, 1, 2))
    assert text.startswith("# Selected by `ragkit tune grid.yaml` (ragkit ")
    assert f"# from 6 trials: {result.winner.trial.label}\n" in text
    assert Pipeline.from_yaml(text) == result.winner.trial.pipeline


def test_the_table_lists_the_best_first_and_json_agrees(folder: Path) -> None:
    result = tune(folder, SIX)
    head, *rows = format_trial_table(result)
    assert head.split()[:4] == ["#", "chunk_size", "chunk_overlap", "dense_weight"] or "chunk_overlap" not in head
    assert (len(rows), rows[0][0] in "*=") == (6, True)
    data = tune_result_to_json(result)
    assert json.loads(json.dumps(data))["winner"] == result.winner.trial.number
    trials = data["trials"]
    assert isinstance(trials, list)
    assert sum(bool(trial["pareto"]) for trial in trials if isinstance(trial, dict)) >= 1
    assert data["counts"] == result.counts


def test_a_pareto_front_contains_the_points_that_no_other_dominates() -> None:
    assert pareto_indices([(1, 0.2), (2, 0.5), (3, 0.4), (2, 0.6), (4, 0.6), (5, 0.9)]) == [0, 3, 5]
    assert pareto_indices([(1, 0.5), (1, 0.5)]) == [0]
