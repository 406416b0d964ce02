"""Grid files: the trials that they define, and the errors of invalid ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragkit.errors import PipelineError
from ragkit.pipeline.settings import Pipeline
from ragkit.tune.grid import AutoQuestions, Grid, read_grid

HEAD = "documents: docs\nquestions: q.jsonl\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "q.jsonl").write_text('{"question": "q", "sources": ["a"]}\n')
    return tmp_path


def grid(folder: Path, text: str) -> Grid:
    path = folder / "grid.yaml"
    path.write_text(text)
    return read_grid(path, {})


def problems(folder: Path, text: str) -> list[str]:
    """The first line of each problem, without the folder."""
    with pytest.raises(PipelineError) as raised:
        grid(folder, text)
    return [problem.partition("\n")[0].rpartition("/")[2] for problem in raised.value.problems]


def test_every_combination_is_a_trial(folder: Path) -> None:
    result = grid(folder, HEAD + "grid:\n  split.chunk_size: [100, 200]\n  retrieve.document_weight: [0.3, 0.6]\n")
    assert [dict(trial.changes) for trial in result.trials] == [
        {"chunk_size": "100", "document_weight": "0.3"},
        {"chunk_size": "100", "document_weight": "0.6"},
        {"chunk_size": "200", "document_weight": "0.3"},
        {"chunk_size": "200", "document_weight": "0.6"},
    ]
    assert result.trials[3].pipeline == Pipeline.default()
    assert (result.base_trial, result.varied_options) == (
        result.trials[3],
        ("split.chunk_size", "retrieve.document_weight"),
    )
    assert result.documents == (folder / "docs",)


def test_a_list_of_grids_adds_up_without_duplicate_pipelines(folder: Path) -> None:
    text = HEAD + (
        "grid:\n- {embed: [{name: minilm}, {name: hashing, dimension: 64}], split.chunk_overlap: [0]}\n"
        "- {retrieve: [{name: dense}, {name: lexical}], retrieve.rerank: [null, {name: mmr}]}\n"
        "- {embed.name: [minilm], split.chunk_overlap: [0]}\n"
    )
    result = grid(folder, text)
    assert [trial.label for trial in result.trials] == [
        "embed minilm, chunk_overlap 0",
        "embed hashing (dimension 64), chunk_overlap 0",
        "retrieve dense, rerank null",
        "retrieve dense, rerank mmr",
        "retrieve lexical, rerank null",
        "retrieve lexical, rerank mmr",
    ]
    assert [trial.pipeline.embedder.name for trial in result.trials[:2]] == ["minilm", "hashing"]
    assert result.base_trial is None


def test_names_are_relative_to_the_grid_file(folder: Path) -> None:
    (folder / "base.yaml").write_text("extends: fast\nsplit: {chunk_size: 90, chunk_overlap: 5}\n")
    result = grid(folder, HEAD + "pipeline: base.yaml\ngrid: {retrieve.top_k: [3, 5]}\n")
    assert [(trial.pipeline.retriever.name, trial.label) for trial in result.trials] == [
        ("hybrid", "top_k 3"),
        ("hybrid", "top_k 5"),
    ]
    assert result.base_pipeline.splitters[0] == result.trials[0].pipeline.splitters[0]


def test_questions_can_be_generated(folder: Path) -> None:
    text = "documents: [docs]\nquestions: {auto: 20, seed: 3}\nmetric: recall@5\ngrid: {retrieve.top_k: [3]}\n"
    result = grid(folder, text)
    assert result.options.questions == AutoQuestions(20, 3)
    assert (result.options.depth, result.options.uses_answers) == (5, False)


def test_every_problem_is_reported_at_once_with_its_location(folder: Path) -> None:
    text = """\
documnets: docs
questions: none.jsonl
metric: ndgc@10
choose: quick
grid:
  split.chunk_sise: [100]
  splt.chunk_size: [100]
  retrieve.dense_weight: 0.5
  retrieve.top_k: [abc, 5]
  embed: [{name: minlm}]
"""
    errors = problems(folder, text)
    assert [error.partition(": ")[0] for error in errors] == [
        f"grid.yaml:{location}" for location in ("1:1", "2:12", "3:9", "4:9", "6:9", "7:3", "8:26", "9:20", "10:18")
    ]
    assert errors[0].endswith(
        "unknown option 'documnets' of the grid file (did you mean 'documents'?); available: questions, documents, "
        "pipeline, metric, choose, holdout, sample, seed"
    )
    assert errors[1].endswith("questions names a file that does not exist: 'none.jsonl'")
    assert errors[2].endswith("did you mean 'ndcg@10'?)")
    assert "unknown option 'chunk_sise' of the splitter 'recursive' (did you mean 'chunk_size'?)" in errors[4]
    assert "grid keys must be section or section.option (got 'splt.chunk_size') (did you mean 'split'?)" in errors[5]
    assert errors[6].endswith(
        "retrieve.dense_weight must be a list of one or more values to try (got 0.5; did you mean [0.5]?)"
    )
    assert errors[7].endswith("top_k must be an integer (got 'abc')")
    assert "unknown embedder 'minlm' (did you mean 'minilm'?)" in errors[8]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (HEAD, "grid.yaml:1:1: missing `grid`: a mapping of options to lists of values, such as"),
        (
            HEAD + "grid: 5\n",
            "grid.yaml:3:7: grid must be a mapping of options to lists of values, or a list of such mappings (got 5)",
        ),
        (
            HEAD + "grid: {split.chunk_size: []}\n",
            "chunk_size must be a list of one or more values to try (got an empty list)",
        ),
        ("questions: q.jsonl\ngrid: {retrieve.top_k: [1]}\n", "missing `documents`: a directory or a list"),
        (HEAD + "holdout: 1\ngrid: {retrieve.top_k: [1]}\n", "holdout must be >= 0 and < 1 (got 1)"),
        (HEAD + "pipeline: defualt\ngrid: {retrieve.top_k: [1]}\n", "(did you mean 'default'?)"),
        (
            HEAD + "pipeline: no.yaml\ngrid: {retrieve.top_k: [1]}\n",
            "pipeline names a file that does not exist: 'no.yaml'",
        ),
        (HEAD + "metric: 7\ngrid: {retrieve.top_k: [1]}\n", "metric must be a string (got 7"),
        ("- 1\n", "a grid file must be a mapping with `documents`, `questions` and `grid`"),
        (HEAD + "grid: {split.chunk_size: [30], split.chunk_overlap: [30]}\n", "chunk_overlap must be"),
        (HEAD + "grid: {split.chunk_size.x: [30]}\n", "cannot set 'x': the value above it has no options"),
    ],
)
def test_an_invalid_grid_is_rejected_with_the_allowed_values(folder: Path, text: str, expected: str) -> None:
    [error] = problems(folder, text)
    assert expected in error


def test_a_grid_of_too_many_trials_is_rejected(folder: Path) -> None:
    numbers = ", ".join(map(str, range(1, 101)))
    text = f"grid: {{retrieve.top_k: [{numbers}], retrieve.candidates: [{numbers}]}}\n"
    [error] = problems(folder, HEAD + text)
    assert error.endswith("at most 1,000 combinations (got 10,000)")


def test_a_missing_grid_file_is_reported(folder: Path) -> None:
    with pytest.raises(PipelineError, match=r"no\.yaml:1:1: cannot read the file: No such file or directory"):
        read_grid(folder / "no.yaml")
