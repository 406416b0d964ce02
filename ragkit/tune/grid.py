"""A grid file -> the pipelines that it spans, or every problem in it at once, each with its place.

    pipeline: default
    documents: handbook
    questions: questions.jsonl
    metric: ndcg@10
    grid:
      split.chunk_size: [100, 200, 400]
      retrieve.dense_weight: [0.3, 0.55]
      embed: [{name: minilm}, {name: hashing}]

Names of files are relative to the grid file. A key of `grid` is a section or an option of a pipeline file, its list
holds the values to try; every combination is a trial. A list of such mappings spans the combinations of each.
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

from ragkit.errors import InvalidOption, PipelineError, did_you_mean
from ragkit.evaluate.metrics import RANKING_METRICS
from ragkit.pipeline import discovery
from ragkit.pipeline.convert import OptionsReader
from ragkit.pipeline.merge import display_path, unknown_pipeline_message
from ragkit.pipeline.overrides import Override
from ragkit.pipeline.sections import section_keys
from ragkit.pipeline.serialize import format_template
from ragkit.pipeline.settings import Pipeline
from ragkit.pipeline.yaml_nodes import (
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
)
from ragkit.pipeline.yaml_parser import MAX_CHARACTERS, ConfigReadError, create_source, parse_yaml

MAX_TRIALS = 1000
"""More combinations than that are a slip of the pen."""
ANSWER_METRICS = ("answer_contained", "exact_match", "token_f1", "citation_precision", "citation_recall")
"""Figures that need answers, beside those of rankings."""
_PROBLEM_PREFIX = re.compile(r"(.*?):(\d+):(\d+): ")
METRICS = (*(f"{one}@10" for one in RANKING_METRICS), *ANSWER_METRICS)
"""What a grid can ask for, with the usual depth."""
WinnerRule = Literal["best", "fastest", "cheapest"]


@dataclass(frozen=True)
class AutoQuestions:
    """Questions made of the documents by rule."""

    auto: int
    """How many, 1 or more."""
    seed: int = 0
    """Another one gives other questions."""

    def __post_init__(self) -> None:
        if self.auto < 1:
            raise InvalidOption("auto", self.auto, ">= 1")


@dataclass(frozen=True)
class TuneOptions:
    """What a grid file says beside its grid."""

    questions: str | AutoQuestions
    """A file of questions, a folder in the shape of the BEIR benchmark (which brings its documents), or
    `{auto: N, seed: S}`."""
    documents: str | tuple[str, ...] = ()
    """Folders and files that are indexed."""
    pipeline: str = "default"
    """What the trials change: a shipped pipeline, or a file."""
    metric: str = "ndcg@10"
    """What is best: a figure of rankings with its depth, or one of answers."""
    choose: WinnerRule = "best"
    """The winner: the best mean, or of those that cannot be told from it the fastest or the cheapest."""
    holdout: float = 0.5
    """The share of questions that choose nothing: the winner's figure is told on them. 0: no question is held out."""
    sample: int | None = None
    """Most questions that are used, drawn by the seed; null: all."""
    seed: int = 0
    """Of the halves, of the sample and of the intervals."""

    def __post_init__(self) -> None:
        if not 0 <= self.holdout < 1:
            raise InvalidOption("holdout", self.holdout, "a number from 0 to less than 1")
        if self.sample is not None and self.sample < 1:
            raise InvalidOption("sample", self.sample, "1 or more, or null")
        if not _is_metric(self.metric):
            raise InvalidOption("metric", self.metric, f"one of {', '.join(METRICS)} (or another depth)")

    @property
    def depth(self) -> int:
        """The k of `metric@k`; 10 for figures of answers."""
        return int(self.metric.partition("@")[2] or 10)

    @property
    def uses_answers(self) -> bool:
        """Whether the metric needs answers."""
        return self.metric in ANSWER_METRICS


@dataclass(frozen=True)
class Trial:
    """One combination of the grid."""

    number: int
    """From 1, in the order of the file."""
    changes: Mapping[str, str]
    """Option -> value, as written in the file: what makes it differ from the base."""
    pipeline: Pipeline

    @property
    def label(self) -> str:
        """`chunk_size 200, dense_weight 0.3`."""
        return ", ".join(f"{key} {value}" for key, value in self.changes.items()) or "the base pipeline"


@dataclass(frozen=True)
class Grid:
    """A grid file, read."""

    path: Path
    options: TuneOptions
    trials: tuple[Trial, ...]
    """Each pipeline once."""
    base_pipeline: Pipeline
    """What the trials change."""
    varied_options: tuple[str, ...] = field(default=())
    """The options that differ between trials, by their whole names."""

    @property
    def base_trial(self) -> Trial | None:
        """The trial that is the base pipeline itself, if the grid has it."""
        return next((one for one in self.trials if one.pipeline == self.base_pipeline), None)

    @property
    def folder(self) -> Path:
        """What names of files are relative to."""
        return self.path.parent

    @property
    def documents(self) -> tuple[Path, ...]:
        """What is indexed."""
        named = self.options.documents
        return tuple(self.folder / one for one in ((named,) if isinstance(named, str) else named))


def read_grid(path: Path, environ: Mapping[str, str] | None = None) -> Grid:
    """Read a grid file. Raises PipelineError with every problem, each as `file:line:column: message`."""
    problems: list[ConfigProblem] = []
    try:
        tree = _read_tree(path, problems)
    except ConfigReadError as error:
        raise PipelineError(format_problems([*problems, error.problem])) from error
    _check_metric(tree, problems)
    _check_files(tree, path, problems)
    sound = not problems
    options = OptionsReader(TuneOptions, "the grid file", problems).read(
        tree.without("grid", *(() if sound else ("metric",)))
    )
    base = _find_base(tree, path, problems)
    combinations = list(_iter_combinations(tree, problems))
    said: list[str] = []
    trials = _create_trials(base, combinations, environ, said) if base is not None else []
    if problems or said or not isinstance(options, TuneOptions):
        raise PipelineError(sorted(dict.fromkeys([*format_problems(problems), *said]), key=_problem_location))
    assert base is not None  # noqa: S101 - there would be a problem
    environ = os.environ if environ is None else environ
    return Grid(path, options, tuple(trials), Pipeline.load(base, environ=environ), _varied_options(combinations))


AxisValue = tuple[KeyNode, Node]
"""An option, and what it is set to."""


def _read_tree(path: Path, problems: list[ConfigProblem]) -> MappingNode:
    name = display_path(path)
    start = SourceLocation(SourceText(name, ()), 1, 1)
    try:
        text = path.read_bytes()[: MAX_CHARACTERS + 1].decode("utf-8-sig")
    except OSError as error:
        raise ConfigReadError(ConfigProblem(start, f"the file cannot be read: {error.strerror or error}")) from error
    except UnicodeDecodeError as error:
        raise ConfigReadError(ConfigProblem(start, "this is not UTF-8: a grid file is UTF-8 text")) from error
    tree = parse_yaml(text, create_source(name, text), problems)
    if not isinstance(tree, MappingNode):
        raise ConfigReadError(ConfigProblem(start, "a mapping with `documents`, `questions` and `grid` is wanted"))
    return tree


def _find_base(tree: MappingNode, path: Path, problems: list[ConfigProblem]) -> Path | None:
    """The file of the base pipeline, or None with a problem."""
    node = tree.get("pipeline") or ScalarNode("default", "default", plain=True, location=tree.location)
    if not isinstance(node, ScalarNode) or not isinstance(node.value, str):
        return None  # told when the options are read
    known = discovery.pipeline_path(node.value)
    if known is not None:
        return known
    if "/" not in node.value and not node.value.endswith((".yaml", ".yml")):
        problems.append(ConfigProblem(node.location, unknown_pipeline_message(node.value) + ", or the path of a file"))
        return None
    found = path.parent / node.value
    if not found.is_file():
        problems.append(ConfigProblem(node.location, f"pipeline is {describe_node(node)}, and there is no such file"))
        return None
    return found


def _iter_combinations(tree: MappingNode, problems: list[ConfigProblem]) -> Iterator[tuple[AxisValue, ...]]:
    """Every combination of every mapping of `grid`."""
    node, key = tree.get("grid"), tree.find_key("grid")
    if node is None:
        wanted = "a mapping of options to lists of values, as in `split.chunk_size: [100, 200]`"
        problems.append(ConfigProblem(key.location if key else tree.location, f"no `grid`: {wanted}"))
        return
    for table in node.entries if isinstance(node, SequenceNode) else (node,):
        if not isinstance(table, MappingNode) or not table.pairs:
            message = (
                f"grid is {describe_node(table)}: a mapping of options to lists of values is wanted, or a list of such"
            )
            problems.append(ConfigProblem(table.location, message))
            continue
        axes = [axis for pair in table.pairs if (axis := _axis_values(*pair, problems))]
        count = prod(len(axis) for axis in axes)
        if count > MAX_TRIALS:
            problems.append(ConfigProblem(table.location, f"{count:,} combinations: at most {MAX_TRIALS:,} are wanted"))
        else:
            yield from product(*axes)


def _axis_values(key: KeyNode, node: Node, problems: list[ConfigProblem]) -> list[AxisValue]:
    """The values of one option; none with a problem."""
    section = key.text.split(".")[0]
    if section not in section_keys() or not all(key.text.split(".")):
        hint = did_you_mean(section, section_keys())
        wanted = "a section, or section.option, is wanted"
        problems.append(
            ConfigProblem(
                key.location, f"{key.text!r} begins with no section{hint}: {wanted}; known: {', '.join(section_keys())}"
            )
        )
        return []
    if not isinstance(node, SequenceNode) or not node.entries:
        near = f" (did you mean [{node.text}]?)" if isinstance(node, ScalarNode) and node.text else ""
        problems.append(
            ConfigProblem(
                node.location, f"{key.text} is {describe_node(node)}: a list of values to try is wanted{near}"
            )
        )
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
    base: Path, combinations: Sequence[tuple[AxisValue, ...]], environ: Mapping[str, str] | None, said: list[str]
) -> list[Trial]:
    """A trial for each combination that is a pipeline of its own; what is wrong with any goes to `said`."""
    found: dict[str, Trial] = {}
    varied = _varied_options(combinations)
    environ = os.environ if environ is None else environ
    for values in combinations:
        try:
            pipeline = Pipeline.load(base, [Override.from_key(key, node) for key, node in values], environ=environ)
        except PipelineError as error:
            said += error.problems
            continue
        same = pipeline.to_yaml(complete=True)
        if same not in found:
            told = [(key.text, node) for key, node in values if key.text in varied]
            changes = {key.partition(".")[2] or key: _format_node(node) for key, node in told}
            found[same] = Trial(len(found) + 1, changes, pipeline)
    return list(found.values())


def _problem_location(problem: str) -> tuple[str, int, int]:
    """Where a problem stands, from its own words."""
    found = _PROBLEM_PREFIX.match(problem)
    return (found[1], int(found[2]), int(found[3])) if found else (problem, 0, 0)


def _format_node(node: Node) -> str:
    """A value as a label has it: of a part its name first."""
    if isinstance(node, MappingNode):
        name = node.get("name")
        rest = [f"{key.text} {_format_node(one)}" for key, one in node.without("name").pairs]
        return " ".join([*([_format_node(name)] if name is not None else []), *(f"({one})" for one in rest)])
    if isinstance(node, SequenceNode):
        return " + ".join(map(_format_node, node.entries))
    return format_template(node)[0] or node.text or "null"


def _is_metric(metric: str) -> bool:
    name, _, depth = metric.partition("@")
    return metric in ANSWER_METRICS or (name in RANKING_METRICS and depth.isdecimal() and int(depth) > 0)


def _check_metric(tree: MappingNode, problems: list[ConfigProblem]) -> None:
    """Told beside whatever else is wrong: a dataclass with another fault would not come to it."""
    node = tree.get("metric")
    if not isinstance(node, ScalarNode) or not isinstance(node.value, str) or _is_metric(node.value):
        return
    name = node.value.partition("@")[0]
    hint = did_you_mean(f"{name}@10", METRICS) or did_you_mean(name, METRICS)
    message = f"metric is {describe_node(node)}: one of {', '.join(METRICS)} (or another depth) is wanted{hint}"
    problems.append(ConfigProblem(node.location, message))


def _check_files(tree: MappingNode, path: Path, problems: list[ConfigProblem]) -> None:
    """Do the documents and questions exist?"""
    questions, documents = tree.get("questions"), tree.get("documents")
    if isinstance(questions, ScalarNode) and isinstance(questions.value, str):
        place = path.parent / questions.value
        if not place.exists():
            problems.append(
                ConfigProblem(questions.location, f"questions is {describe_node(questions)}, and there is no such file")
            )
        if documents is None and ((place / "corpus.jsonl").exists() or not place.exists()):
            return
    entries = (
        documents.entries if isinstance(documents, SequenceNode) else (documents,) if documents is not None else ()
    )
    for entry in entries:
        if isinstance(entry, ScalarNode) and not (path.parent / entry.text).exists():
            problems.append(
                ConfigProblem(
                    entry.location, f"documents names {describe_node(entry)}, and there is no such file or folder"
                )
            )
    if not entries:
        problems.append(ConfigProblem(tree.location, "no `documents`: a folder or a list of folders is wanted"))
