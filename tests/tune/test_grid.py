"""Grid files: what they span, and what is said of one that is wrong."""

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
    with pytest.raises(PipelineError) as met:
        grid(folder, text)
    return [one.partition("\n")[0].rpartition("/")[2] for one in met.value.problems]


def test_every_combination_is_a_trial(folder: Path) -> None:
    found = grid(folder, HEAD + "grid:\n  split.chunk_size: [100, 200]\n  retrieve.dense_weight: [0.3, 0.55]\n")
    assert [dict(one.changes) for one in found.trials] == [
        {"chunk_size": "100", "dense_weight": "0.3"},
        {"chunk_size": "100", "dense_weight": "0.55"},
        {"chunk_size": "200", "dense_weight": "0.3"},
        {"chunk_size": "200", "dense_weight": "0.55"},
    ]
    assert found.trials[3].pipeline == Pipeline.default()
    assert (found.base_trial, found.varied_options) == (found.trials[3], ("split.chunk_size", "retrieve.dense_weight"))
    assert found.documents == (folder / "docs",)


def test_a_list_of_grids_spans_each_and_no_pipeline_twice(folder: Path) -> None:
    text = HEAD + (
        "grid:\n- {embed: [{name: minilm}, {name: hashing, dimension: 64}], split.chunk_overlap: [0]}\n"
        "- {retrieve: [{name: dense}, {name: lexical}], retrieve.rerank: [null, {name: mmr}]}\n"
        "- {embed.name: [minilm], split.chunk_overlap: [0]}\n"
    )
    found = grid(folder, text)
    assert [one.label for one in found.trials] == [
        "embed minilm, chunk_overlap 0",
        "embed hashing (dimension 64), chunk_overlap 0",
        "retrieve dense, rerank null",
        "retrieve dense, rerank mmr",
        "retrieve lexical, rerank null",
        "retrieve lexical, rerank mmr",
    ]
    assert [one.pipeline.embedder.name for one in found.trials[:2]] == ["minilm", "hashing"]
    assert found.base_trial is None


def test_names_are_relative_to_the_grid_file(folder: Path) -> None:
    (folder / "base.yaml").write_text("extends: fast\nsplit: {chunk_size: 90, chunk_overlap: 5}\n")
    found = grid(folder, HEAD + "pipeline: base.yaml\ngrid: {retrieve.top_k: [3, 5]}\n")
    assert [(one.pipeline.retriever.name, one.label) for one in found.trials] == [
        ("hybrid", "top_k 3"),
        ("hybrid", "top_k 5"),
    ]
    assert found.base_pipeline.splitters[0] == found.trials[0].pipeline.splitters[0]


def test_questions_can_be_made_by_rule(folder: Path) -> None:
    text = "documents: [docs]\nquestions: {auto: 20, seed: 3}\nmetric: recall@5\ngrid: {retrieve.top_k: [3]}\n"
    found = grid(folder, text)
    assert found.options.questions == AutoQuestions(20, 3)
    assert (found.options.depth, found.options.uses_answers) == (5, False)


def test_every_problem_is_told_at_once_with_its_place(folder: Path) -> None:
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
    found = problems(folder, text)
    assert [one.partition(": ")[0] for one in found] == [
        f"grid.yaml:{place}" for place in ("1:1", "2:12", "3:9", "4:9", "6:9", "7:3", "8:26", "9:20", "10:18")
    ]
    assert found[0].endswith(
        "the grid file has no option 'documnets' (did you mean 'documents'?); known: questions, documents, pipeline, "
        "metric, choose, holdout, sample, seed"
    )
    assert found[1].endswith("questions is 'none.jsonl', and there is no such file")
    assert found[2].endswith("(did you mean 'ndcg@10'?)")
    assert "has no option 'chunk_sise' (did you mean 'chunk_size'?)" in found[4]
    assert "'splt.chunk_size' begins with no section (did you mean 'split'?)" in found[5]
    assert found[6].endswith("retrieve.dense_weight is 0.5: a list of values to try is wanted (did you mean [0.5]?)")
    assert found[7].endswith("top_k is 'abc': a whole number is wanted")
    assert "'minlm' is not the name of an embedder (did you mean 'minilm'?)" in found[8]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEAD, "grid.yaml:1:1: no `grid`: a mapping of options to lists of values, as in"),
        (HEAD + "grid: 5\n", "grid.yaml:3:7: grid is 5: a mapping of options to lists of values is wanted"),
        (HEAD + "grid: {split.chunk_size: []}\n", "chunk_size is a list: a list of values to try is wanted"),
        ("questions: q.jsonl\ngrid: {retrieve.top_k: [1]}\n", "no `documents`: a folder or a list of folders"),
        (HEAD + "holdout: 1\ngrid: {retrieve.top_k: [1]}\n", "holdout is 1: a number from 0 to less than 1"),
        (HEAD + "pipeline: defualt\ngrid: {retrieve.top_k: [1]}\n", "(did you mean 'default'?)"),
        (HEAD + "pipeline: no.yaml\ngrid: {retrieve.top_k: [1]}\n", "'no.yaml', and there is no such file"),
        (HEAD + "metric: 7\ngrid: {retrieve.top_k: [1]}\n", "metric is 7: text is wanted"),
        ("- 1\n", "a mapping with `documents`, `questions` and `grid` is wanted"),
        (HEAD + "grid: {split.chunk_size: [30], split.chunk_overlap: [30]}\n", "chunk_overlap is 30: a whole number"),
        (HEAD + "grid: {split.chunk_size.x: [30]}\n", "'x' leads into a single value: it has no options"),
    ],
)
def test_a_wrong_grid_is_refused_with_what_is_wanted(folder: Path, text: str, said: str) -> None:
    [found] = problems(folder, text)
    assert said in found


def test_a_grid_of_a_million_trials_is_a_slip_of_the_pen(folder: Path) -> None:
    numbers = ", ".join(map(str, range(1, 101)))
    text = f"grid: {{retrieve.top_k: [{numbers}], retrieve.candidates: [{numbers}]}}\n"
    [found] = problems(folder, HEAD + text)
    assert found.endswith("10,000 combinations: at most 1,000 are wanted")


def test_a_file_that_is_not_there_is_said_so(folder: Path) -> None:
    with pytest.raises(PipelineError, match=r"no\.yaml:1:1: the file cannot be read: No such file or directory"):
        read_grid(folder / "no.yaml")
