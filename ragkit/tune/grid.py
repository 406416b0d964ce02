"""Read a grid file into the pipelines that it defines, and collect every problem in it.

    pipeline: default
    documents: handbook
    questions: questions.jsonl
    metric: ndcg@10
    grid:
      split.chunk_size: [100, 200, 400]
      retrieve.dense_weight: [0.3, 0.55]
      embed: [{name: minilm}, {name: hashing}]

Paths are relative to the grid file. A key of `grid` is a section or an option of a pipeline file, its list has the
values to try; every combination is a trial. A list of mappings adds up the combinations of each.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from pathlib import Path
from typing import Literal

from ragkit.config.convert import OptionsReader
from ragkit.config.yaml_nodes import (
    ConfigProblem,
    KeyNode,
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
    SourceLocation,
    SourceText,
    describe_node,
    format_problems,
    must_be,
)
from ragkit.config.yaml_parser import ConfigReadError, create_source, parse_yaml
from ragkit.errors import InvalidOption, PipelineError, closest_match, did_you_mean
from ragkit.evaluate.metrics import RANKING_METRICS
from ragkit.pipeline import discovery
from ragkit.pipeline.merge import display_path, read_utf8, unknown_pipeline_message
from ragkit.pipeline.overrides import Override
from ragkit.pipeline.sections import section_keys
from ragkit.pipeline.serialize import format_template
from ragkit.pipeline.settings import Pipeline

MAX_TRIALS = 1000
"""Maximum number of combinations."""
ANSWER_METRICS = (
    "right", "first_sentence", "cited", "answer_contained", "exact_match", "token_f1", "citation_precision",
    "citation_recall",
)  # fmt: skip
"""Metrics that need answers, beside the ranking metrics."""
_PROBLEM_PREFIX = re.compile(r"(.*?):(\d+):(\d+): ")
METRICS = (*(f"{name}@10" for name in RANKING_METRICS), *ANSWER_METRICS)
"""Valid metrics, ranking metrics with the default depth."""
WinnerRule = Literal["best", "fastest", "cheapest"]


@dataclass(frozen=True)
class AutoQuestions:
    """Questions generated from the documents by rules."""

    auto: int
    """Number of questions, >= 1."""
    seed: int = 0
    """Random seed of the questions."""

    def __post_init__(self) -> None:
        if self.auto < 1:
            raise InvalidOption("auto", self.auto, ">= 1")


@dataclass(frozen=True)
class TuneOptions:
    """The options of a grid file."""

    questions: str | AutoQuestions
    """A file of questions, a directory in BEIR format (which includes the documents), or `{auto: N, seed: S}`."""
    documents: str | tuple[str, ...] = ()
    """Directories and files to index."""
    pipeline: str = "default"
    """The base pipeline of the trials: a shipped pipeline, or a file."""
    metric: str = "ndcg@10"
    """The metric to maximize: a ranking metric with its depth, or an answer metric."""
    choose: WinnerRule = "best"
    """The winner: the best mean, or the fastest or cheapest trial that is not significantly worse."""
    holdout: float = 0.5
    """The share of questions that are held out to evaluate the winner; 0: none."""
    sample: int | None = None
    """Maximum number of questions, sampled with the seed; null: all."""
    seed: int = 0
    """Random seed of the holdout split, the sample and the intervals."""

    def __post_init__(self) -> None:
        if not 0 <= self.holdout < 1:
            raise InvalidOption("holdout", self.holdout, ">= 0 and < 1")
        if self.sample is not None and self.sample < 1:
            raise InvalidOption("sample", self.sample, ">= 1 or null")
        if not _is_metric(self.metric):
            raise InvalidOption("metric", self.metric, f"one of {', '.join(METRICS)} (or another depth)")

    @property
    def depth(self) -> int:
        """The k of `metric@k`; 10 for answer metrics."""
        return int(self.metric.partition("@")[2] or 10)

    @property
    def uses_answers(self) -> bool:
        """Whether the metric needs answers."""
        return self.metric in ANSWER_METRICS


@dataclass(frozen=True)
class Trial:
    """One combination of the grid."""

    number: int
    """Starts at 1, in file order."""
    changes: Mapping[str, str]
    """Option -> value as written in the file, for the options that vary."""
    pipeline: Pipeline

    @property
    def label(self) -> str:
        """`chunk_size 200, dense_weight 0.3`."""
        return ", ".join(f"{key} {value}" for key, value in self.changes.items()) or "the base pipeline"


@dataclass(frozen=True)
class Grid:
    """A parsed grid file."""

    path: Path
    options: TuneOptions
    trials: tuple[Trial, ...]
    """Distinct pipelines."""
    base_pipeline: Pipeline
    """The pipeline that the trials change."""
    varied_options: tuple[str, ...] = field(default=())
    """The full names of the options that differ between trials."""

    @property
    def base_trial(self) -> Trial | None:
        """The trial with the base pipeline itself, or None."""
        return next((trial for trial in self.trials if trial.pipeline == self.base_pipeline), None)

    @property
    def folder(self) -> Path:
        """The directory that paths are relative to."""
        return self.path.parent

    @property
    def documents(self) -> tuple[Path, ...]:
        """Paths to index."""
        documents = self.options.documents
        return tuple(self.folder / path for path in ((documents,) if isinstance(documents, str) else documents))


def read_grid(path: Path, environ: Mapping[str, str] | None = None) -> Grid:
    """Read a grid file. Raises PipelineError with every problem, each as `file:line:column: message`."""
    problems: list[ConfigProblem] = []
    try:
        tree = _read_tree(path, problems)
    except ConfigReadError as error:
        raise PipelineError(format_problems([*problems, error.problem])) from error
    _check_metric(tree, problems)
    _check_files(tree, path, problems)
    options_tree = tree.without("grid", "metric") if problems else tree.without("grid")
    options = OptionsReader(TuneOptions, "the grid file", problems).read(options_tree)
    base = _find_base(tree, path, problems)
    combinations = list(_iter_combinations(tree, problems))
    messages: list[str] = []
    trials = _create_trials(base, combinations, environ, messages) if base is not None else []
    if problems or messages or not isinstance(options, TuneOptions):
        raise PipelineError(sorted(dict.fromkeys([*format_problems(problems), *messages]), key=_problem_location))
    assert base is not None  # noqa: S101 - else there is a problem
    environ = os.environ if environ is None else environ
    return Grid(path, options, tuple(trials), Pipeline.load(base, environ=environ), _varied_options(combinations))


AxisValue = tuple[KeyNode, Node]
"""An option and its value."""


def _read_tree(path: Path, problems: list[ConfigProblem]) -> MappingNode:
    name, text = display_path(path), read_utf8(path)
    tree = parse_yaml(text, create_source(name, text), problems)
    if not isinstance(tree, MappingNode):
        message = "a grid file must be a mapping with `documents`, `questions` and `grid`"
        raise ConfigReadError(SourceLocation(SourceText(name, ()), 1, 1), message)
    return tree


def _find_base(tree: MappingNode, path: Path, problems: list[ConfigProblem]) -> Path | None:
    """The file of the base pipeline, or None after adding to `problems`."""
    node = tree.get("pipeline") or ScalarNode("default", "default", plain=True, location=tree.location)
    if not isinstance(node, ScalarNode) or not isinstance(node.value, str):
        return None  # OptionsReader reports it
    shipped = discovery.pipeline_path(node.value)
    if shipped is not None:
        return shipped
    if "/" not in node.value and not node.value.endswith((".yaml", ".yml")):
        problems.append(ConfigProblem(node.location, unknown_pipeline_message(node.value) + ", or the path of a file"))
        return None
    file = path.parent / node.value
    if not file.is_file():
        message = f"pipeline names a file that does not exist: {describe_node(node)}"
        problems.append(ConfigProblem(node.location, message))
        return None
    return file


def _iter_combinations(tree: MappingNode, problems: list[ConfigProblem]) -> Iterator[tuple[AxisValue, ...]]:
    """Every combination of every mapping of `grid`."""
    node, key = tree.get("grid"), tree.find_key("grid")
    if node is None:
        message = "missing `grid`: a mapping of options to lists of values, such as `split.chunk_size: [100, 200]`"
        problems.append(ConfigProblem((key or tree).location, message))
        return
    for table in node.entries if isinstance(node, SequenceNode) else (node,):
        if not isinstance(table, MappingNode) or not table.pairs:
            message = must_be("grid", "a mapping of options to lists of values, or a list of such mappings", table)
            problems.append(ConfigProblem(table.location, message))
            continue
        axes = [axis for pair in table.pairs if (axis := _axis_values(*pair, problems))]
        count = prod(len(axis) for axis in axes)
        if count > MAX_TRIALS:
            message = f"the grid must have at most {MAX_TRIALS:,} combinations (got {count:,})"
            problems.append(ConfigProblem(table.location, message))
        else:
            yield from product(*axes)


def _axis_values(key: KeyNode, node: Node, problems: list[ConfigProblem]) -> list[AxisValue]:
    """The values of one option; empty after adding to `problems`."""
    section = key.text.split(".")[0]
    if section not in section_keys() or not all(key.text.split(".")):
        hint = did_you_mean(section, section_keys())
        message = f"grid keys must be section or section.option (got {key.text!r}){hint}"
        problems.append(ConfigProblem(key.location, f"{message}; available: {', '.join(section_keys())}"))
        return []
    if not isinstance(node, SequenceNode) or not node.entries:
        suggestion = f"[{node.text}]" if isinstance(node, ScalarNode) and node.text else ""
        expected = "a list of one or more values to try"
        problems.append(ConfigProblem(node.location, must_be(key.text, expected, node, suggestion)))
        return []
    return [(key, entry) for entry in node.entries]


def _varied_options(combinations: Sequence[tuple[AxisValue, ...]]) -> tuple[str, ...]:
    """The options that not every combination sets to the same value."""
    seen: dict[str, list[str]] = {}
    for values in combinations:
        for key, node in values:
            seen.setdefault(key.text, []).append(_format_node(node))
    return tuple(name for name, texts in seen.items() if len(set(texts)) > 1 or len(texts) < len(combinations))


def _create_trials(
    base: Path, combinations: Sequence[tuple[AxisValue, ...]], environ: Mapping[str, str] | None, messages: list[str]
) -> list[Trial]:
    """A trial for each distinct pipeline; problems are added to `messages`."""
    trials: dict[str, Trial] = {}
    varied = _varied_options(combinations)
    environ = os.environ if environ is None else environ
    for values in combinations:
        try:
            pipeline = Pipeline.load(base, [Override.from_key(key, node) for key, node in values], environ=environ)
        except PipelineError as error:
            messages += error.problems
            continue
        text = pipeline.to_yaml(complete=True)
        if text not in trials:
            changed = [(key.text, node) for key, node in values if key.text in varied]
            changes = {key.partition(".")[2] or key: _format_node(node) for key, node in changed}
            trials[text] = Trial(len(trials) + 1, changes, pipeline)
    return list(trials.values())


def _problem_location(problem: str) -> tuple[str, int, int]:
    """The location at the start of a message, to sort by."""
    match = _PROBLEM_PREFIX.match(problem)
    return (match[1], int(match[2]), int(match[3])) if match else (problem, 0, 0)


def _format_node(node: Node) -> str:
    """A value for a label; the name of a component comes first."""
    if isinstance(node, MappingNode):
        name = node.get("name")
        options = [f"({key.text} {_format_node(value)})" for key, value in node.without("name").pairs]
        return " ".join([*([_format_node(name)] if name is not None else []), *options])
    if isinstance(node, SequenceNode):
        return " + ".join(map(_format_node, node.entries))
    return format_template(node)[0] or node.text or "null"


def _is_metric(metric: str) -> bool:
    name, _, depth = metric.partition("@")
    return metric in ANSWER_METRICS or (name in RANKING_METRICS and depth.isdecimal() and int(depth) > 0)


def _check_metric(tree: MappingNode, problems: list[ConfigProblem]) -> None:
    """Check the metric before the dataclass, which would hide it behind another problem."""
    node = tree.get("metric")
    if not isinstance(node, ScalarNode) or not isinstance(node.value, str) or _is_metric(node.value):
        return
    name = node.value.partition("@")[0]
    similar = closest_match(f"{name}@10", METRICS) or closest_match(name, METRICS)
    expected = f"one of {', '.join(METRICS)} (or another depth)"
    problems.append(ConfigProblem(node.location, must_be("metric", expected, node, repr(similar) if similar else "")))


def _check_files(tree: MappingNode, path: Path, problems: list[ConfigProblem]) -> None:
    """Check that documents and questions exist."""
    questions, documents = tree.get("questions"), tree.get("documents")
    if isinstance(questions, ScalarNode) and isinstance(questions.value, str):
        file = path.parent / questions.value
        if not file.exists():
            message = f"questions names a file that does not exist: {describe_node(questions)}"
            problems.append(ConfigProblem(questions.location, message))
        if documents is None and ((file / "corpus.jsonl").exists() or not file.exists()):
            return
    listed = documents.entries if isinstance(documents, SequenceNode) else (documents,)
    entries = [entry for entry in listed if entry is not None]
    for entry in entries:
        if isinstance(entry, ScalarNode) and not (path.parent / entry.text).exists():
            message = f"documents names a file or directory that does not exist: {describe_node(entry)}"
            problems.append(ConfigProblem(entry.location, message))
    if not entries:
        problems.append(ConfigProblem(tree.location, "missing `documents`: a directory or a list of directories"))
