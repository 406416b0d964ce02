"""Evaluate the pipelines of a grid on questions, and find the best and those that are not significantly worse.

Half of the questions select the winner, the other half evaluates it: on the selection questions the best of many trials
is overestimated. Results are recorded after each trial, so that an interrupted search can resume.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ragkit.errors import RagkitError
from ragkit.evaluate.intervals import BootstrapEstimate, bootstrap_mean, paired_difference, paired_p_value
from ragkit.evaluate.questions import Question, read_questions, write_beir_documents
from ragkit.evaluate.rule_questions import generate_questions
from ragkit.evaluate.run import Depths, EvaluatedSystem, QuestionResult, evaluate_questions
from ragkit.index.sources.ids import display_name
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.lexical.analyzer import extract_terms
from ragkit.records import Hit, content_id
from ragkit.tune.grid import AutoQuestions, Grid, Trial, TuneOptions
from ragkit.tune.reuse import StageKeys
from ragkit.tune.trial_index import IndexBuilder, IndexCost, TrialIndex, size_on_disk
from ragkit.usage.meter import AgentUsage, Meter, use_meter

CHUNK_DEPTH = 50
"""Chunks per search, so that they cover enough files; the same as in `ragkit eval`."""
TOP_K_OPTION = "retrieve.top_k"
COST_QUESTIONS = 1000
"""Number of questions in reported costs."""


@dataclass(frozen=True)
class QuestionScore:
    """The result of one question in one trial."""

    id: str
    value: float
    """The value of the metric."""
    search_ms: float
    ask_ms: float
    cost_usd: float | None


@dataclass(frozen=True)
class TrialResult:
    """The result of a trial on the selection questions."""

    trial: Trial
    rows: tuple[QuestionScore, ...]
    quality: BootstrapEstimate
    gap_to_best: BootstrapEstimate
    """Paired difference of the metric to the best trial."""
    index_cost: IndexCost
    chunks: int
    bytes: int
    resumed: bool
    """Whether the result is from an earlier run."""

    @property
    def is_worse(self) -> bool:
        """Whether it is significantly worse than the best: the interval of `gap_to_best` is above 0."""
        return self.gap_to_best.low > 0

    @property
    def median_ms(self) -> float:
        """Median latency of a search, or of an answer if the metric needs one."""
        ask_times = [row.ask_ms for row in self.rows if row.ask_ms]
        return float(np.median(ask_times or [row.search_ms for row in self.rows]))

    @property
    def cost_usd(self) -> float | None:
        """US dollars for the index and COST_QUESTIONS questions; None: a price is unknown."""
        costs = [row.cost_usd for row in self.rows]
        known = [cost for cost in costs if cost is not None]
        if len(known) < len(costs) or self.index_cost.cost_usd is None:
            return None
        return self.index_cost.cost_usd + COST_QUESTIONS * sum(known) / len(known)


@dataclass(frozen=True)
class HoldoutResult:
    """The result of a trial on the held-out questions."""

    trial: Trial
    quality: BootstrapEstimate
    p_value: float | None
    """The p-value of the difference to the winner; None for the winner."""


@dataclass(frozen=True)
class TuneResult:
    """The result of a grid search."""

    grid: Grid
    trial_results: tuple[TrialResult, ...]
    """In the order of the grid."""
    winner: TrialResult
    holdout_results: tuple[HoldoutResult, ...]
    """The winner, then the base pipeline if it is another trial; empty without held-out questions."""
    selection_questions: int
    """Number of selection questions."""
    counts: dict[str, int]
    """Files `read` and `split`, texts `embedded`, `distinct` (text, embedder), vectors `taken`, `indexes` built."""
    usage: AgentUsage
    """Usage of this run."""
    seconds: float
    cpu_seconds: float
    notes: tuple[str, ...] = ()

    @property
    def equivalent_to_best(self) -> list[TrialResult]:
        """The trials that are not significantly worse than the best, which is included."""
        return [result for result in self.trial_results if not result.is_worse]


ProgressCallback = Callable[[str], None]
"""Called with a line per step."""


@dataclass
class GridSearch:
    """A grid search.

    Args:
        grid: the trials.
        folder: the working directory for indexes and results.
        jobs: workers that read and split; 0: the number in the pipelines.
        on_progress: called with a line per step.
    """

    grid: Grid
    folder: Path
    jobs: int = 0
    on_progress: ProgressCallback = lambda line: None
    _notes: list[str] = field(default_factory=list)

    def run(self, max_cost_usd: float | None = None) -> TuneResult:
        """Run every trial that has no result yet.

        Raises:
            BudgetExceeded, PriceUnknown: the trials together exceed `max_cost_usd`; finished trials are kept.
            QuestionsInvalid, RagkitError: there are no usable questions.
        """
        started_at, cpu_before = time.perf_counter(), _cpu_seconds()
        self.folder.mkdir(parents=True, exist_ok=True)
        with use_meter(Meter(budget_usd=max_cost_usd)) as meter:
            builder = IndexBuilder(self.folder, self._collect_documents(), self.jobs)
            selection, holdout = self._split_questions(builder)
            tried = self._run_trials(builder, selection)
            winner = _select_winner(tried, self.grid.options)
            held_out = self._evaluate_holdout(builder, winner, holdout) if holdout else ()
            counts = {**builder.counts, "distinct": builder.new_vectors}
            usage = meter.usage()
        return TuneResult(
            self.grid,
            tuple(tried),
            winner,
            held_out,
            len(selection),
            {name: counts.get(name, 0) for name in ("read", "split", "embedded", "distinct", "taken", "indexes")},
            usage,
            time.perf_counter() - started_at,
            _cpu_seconds() - cpu_before,
            tuple(self._notes),
        )

    # questions

    def _collect_documents(self) -> list[Path]:
        """The documents of the grid, and those of a BEIR directory."""
        paths = list(self.grid.documents)
        if self._beir_folder is not None:
            self._names = write_beir_documents(self._beir_folder, self.folder / "documents")
            paths.append(self.folder / "documents")
        return paths

    @property
    def _beir_folder(self) -> Path | None:
        """The directory of the questions if it is in BEIR format."""
        questions = self.grid.options.questions
        folder = self.grid.folder / questions if isinstance(questions, str) else None
        return folder if folder is not None and (folder / "corpus.jsonl").exists() else None

    def _split_questions(self, builder: IndexBuilder) -> tuple[list[Question], list[Question]]:
        """The selection questions, and the held-out ones."""
        options = self.grid.options
        questions = self._load_questions(builder, options)
        required = "answers" if _needs_answers(options) else "sources"
        usable = [question for question in questions if question.answerable and getattr(question, required)]
        if len(usable) < len(questions):
            skipped = len(questions) - len(usable)
            self._notes.append(f"{skipped} questions have no {required} for {options.metric} and are skipped")
        random.Random(options.seed).shuffle(usable)
        usable = usable[: options.sample]
        holdout_size = round(len(usable) * options.holdout)
        selection, holdout = usable[holdout_size:], usable[:holdout_size]
        if not selection:
            raise RagkitError(f"no usable question: {options.metric} needs questions with {required}")
        if len(selection) < 20:
            hint = "small differences between trials will not be significant"
            self._notes.append(f"only {len(selection)} selection questions: {hint}")
        return selection, holdout

    def _load_questions(self, builder: IndexBuilder, options: TuneOptions) -> list[Question]:
        source = options.questions
        if isinstance(source, AutoQuestions):
            index = self._build_index(builder, self.grid.trials[0])
            with KnowledgeBase(index.directory, self.grid.trials[0].pipeline) as kb, kb.session() as session:
                documents = session.texts()
            generated = generate_questions(documents, extract_terms, source.auto, source.seed)
            return [question.with_display_sources(display_name) for question in generated]
        questions = read_questions(self.grid.folder / source)
        if self._beir_folder is None:
            return questions
        return [question.with_renamed_sources(self._names) for question in questions]

    # trials

    def _run_trials(self, builder: IndexBuilder, questions: Sequence[Question]) -> list[TrialResult]:
        """Run every trial on the selection questions."""
        rows: dict[int, tuple[tuple[QuestionScore, ...], TrialIndex, bool]] = {}
        order = self._order_trials(builder)
        for place, trial in enumerate(order):
            index = self._build_index(builder, trial, order[place:])
            scores, resumed = self._score_trial(builder, trial, index, questions)
            rows[trial.number] = (scores, index, resumed)
            mean = float(np.mean([score.value for score in scores]))
            median = np.median([score.search_ms for score in scores])
            latency = "from an earlier run" if resumed else f"{median:.1f} ms a search"
            score = f"{self.grid.options.metric} {mean:.4f}"
            self.on_progress(f"{place + 1} of {len(order)}: {trial.label}: {score}, {latency}")
        best = max(rows.values(), key=lambda entry: sum(row.value for row in entry[0]))[0]
        return [self._create_result(trial, *rows[trial.number], best, builder) for trial in self.grid.trials]

    def _order_trials(self, builder: IndexBuilder) -> list[Trial]:
        """The trials in an order that keeps those with shared stages together."""
        keys: dict[int, tuple[str, ...]] = {}
        first: dict[str, int] = {}
        for trial in self.grid.trials:
            stages = StageKeys.from_components(builder.components(trial.pipeline))
            keys[trial.number] = (stages.load, stages.split, stages.index)
            for key in keys[trial.number]:
                first.setdefault(key, trial.number)
        return sorted(self.grid.trials, key=lambda trial: (*(first[key] for key in keys[trial.number]), trial.number))

    def _build_index(self, builder: IndexBuilder, trial: Trial, order: Sequence[Trial] = ()) -> TrialIndex:
        before = builder.counts["indexes"]
        index = builder.get_index(trial.pipeline, [later_trial.pipeline for later_trial in order])
        if builder.counts["indexes"] > before:
            record = index.build_record
            self.on_progress(f"indexed {index.chunks:,} chunks: {record.embedded:,} embedded, {record.taken:,} reused")
        return index

    def _create_result(
        self,
        trial: Trial,
        rows: tuple[QuestionScore, ...],
        index: TrialIndex,
        resumed: bool,
        best: tuple[QuestionScore, ...],
        builder: IndexBuilder,
    ) -> TrialResult:
        seed = self.grid.options.seed
        quality = bootstrap_mean([row.value for row in rows], seed)
        assert quality is not None  # noqa: S101 - there are questions
        behind = paired_difference([row.value for row in rows], [row.value for row in best], seed)
        size = size_on_disk(index.directory, trial.pipeline.store.name)
        return TrialResult(trial, rows, quality, behind, builder.standalone_cost(index), index.chunks, size, resumed)

    def _evaluate_holdout(
        self, builder: IndexBuilder, winner: TrialResult, questions: Sequence[Question]
    ) -> tuple[HoldoutResult, ...]:
        """Evaluate the winner, and the base pipeline if it is a trial, on the held-out questions."""
        base = self.grid.base_trial
        seed = self.grid.options.seed
        holdout_results: list[HoldoutResult] = []
        values: list[float] = []
        for trial in (winner.trial, *([base] if base is not None and base != winner.trial else [])):
            rows, _ = self._score_trial(builder, trial, self._build_index(builder, trial), questions)
            trial_values = [row.value for row in rows]
            quality = bootstrap_mean(trial_values, seed)
            assert quality is not None  # noqa: S101 - as above
            holdout_results.append(
                HoldoutResult(trial, quality, paired_p_value(values, trial_values, seed) if values else None)
            )
            values = values or trial_values
        return tuple(holdout_results)

    # one trial

    def _score_trial(
        self, builder: IndexBuilder, trial: Trial, index: TrialIndex, questions: Sequence[Question]
    ) -> tuple[tuple[QuestionScore, ...], bool]:
        """The scores of a trial, and whether they are from an earlier run."""
        options = self.grid.options
        key = self._result_key(trial, index, questions)
        results = self.folder / "trials.jsonl"
        for line in results.read_text("utf-8").splitlines() if results.exists() else ():
            row = _parse_result(line)
            if row is not None and row[0] == key:
                return row[1], True
        rows = tuple(self._score_questions(builder, trial, index, questions))
        scores = [[row.id, row.value, row.search_ms, row.ask_ms, row.cost_usd] for row in rows]
        line = json.dumps({"key": key, "metric": options.metric, "trial": trial.label, "rows": scores})
        with results.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())
        return rows, False

    def _result_key(self, trial: Trial, index: TrialIndex, questions: Sequence[Question]) -> str:
        """The key of a recorded result: it changes with the pipeline, the documents and the questions."""
        question_texts = [json.dumps(question.to_dict(), sort_keys=True) for question in questions]
        options = self.grid.options
        depth = "own" if TOP_K_OPTION in self.grid.varied_options else str(CHUNK_DEPTH)
        settings = trial.pipeline.to_yaml(complete=True)
        return content_id(settings, index.fingerprint, index.content_digest, options.metric, depth, *question_texts)

    def _score_questions(
        self, builder: IndexBuilder, trial: Trial, index: TrialIndex, questions: Sequence[Question]
    ) -> Iterator[QuestionScore]:
        options = self.grid.options
        query_embedder = builder.query_embedder(trial.pipeline)
        spent: list[tuple[float, float | None]] = []
        # if the grid varies top_k, each trial is evaluated on its own number of hits
        depth = None if TOP_K_OPTION in self.grid.varied_options else max(CHUNK_DEPTH, 5 * options.depth)
        with ExitStack() as stack:
            parts = builder.components(trial.pipeline, known_questions=True)
            kb = stack.enter_context(KnowledgeBase(index.directory, trial.pipeline, parts))
            kb.search(questions[0].text, 1)  # warm up: the first search loads models

            def search(question: str, _: int) -> Sequence[Hit]:
                query_embedder.reset_savings()
                with use_meter(Meter()) as meter:
                    hits = kb.search(question, depth)
                cost = _add_costs(meter.usage().total_cost_usd, query_embedder.saved_cost_usd)
                spent.append((query_embedder.saved_seconds, cost))
                return hits

            ask = None
            if options.uses_answers:
                answers = KnowledgeBase(index.directory, trial.pipeline, builder.components(trial.pipeline))
                ask = stack.enter_context(answers).ask
            system = EvaluatedSystem(search, ask, display_name)
            outcomes = evaluate_questions(system, questions, Depths(options.depth, CHUNK_DEPTH))
            for outcome, (seconds, cost) in zip(outcomes, spent, strict=False):
                yield _to_score(outcome, options, seconds, cost)


def _to_score(outcome: QuestionResult, options: TuneOptions, seconds: float, cost: float | None) -> QuestionScore:
    """The score of a question. A failed answer counts as 0; `seconds` and `cost` of a cached query embedding are added.

    The cost of an answer includes its searches.
    """
    return QuestionScore(
        outcome.question.id,
        outcome.metrics.get(options.metric, 0.0),
        outcome.search_ms + 1000 * seconds,
        outcome.ask_ms,
        outcome.cost_usd if options.uses_answers else cost,
    )


def _select_winner(tried: Sequence[TrialResult], options: TuneOptions) -> TrialResult:
    """The winner by `choose`; ties go to the faster one."""
    best = max(tried, key=lambda result: (result.quality.mean, -result.median_ms))
    candidates = [result for result in tried if not result.is_worse]
    if options.choose == "fastest":
        return min(candidates, key=lambda result: result.median_ms)
    if options.choose == "cheapest":
        return min(candidates, key=lambda result: (result.cost_usd is None, result.cost_usd or 0.0, result.median_ms))
    return best


def pareto_indices(points: Sequence[tuple[float, float]]) -> list[int]:
    """Indices of the Pareto front of (cost, quality) points, by rising cost."""
    front: list[int] = []
    for index in sorted(range(len(points)), key=lambda index: (points[index][0], -points[index][1])):
        if not front or points[index][1] > points[front[-1]][1]:
            front.append(index)
    return front


def _needs_answers(options: TuneOptions) -> bool:
    return options.uses_answers and not options.metric.startswith("citation")


def _parse_result(line: str) -> tuple[str, tuple[QuestionScore, ...]] | None:
    """A recorded line; None if it is truncated."""
    try:
        data = json.loads(line)
        return data["key"], tuple(QuestionScore(*row) for row in data["rows"])
    except (ValueError, TypeError, KeyError):
        return None


def _add_costs(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a + b


def _cpu_seconds() -> float:
    """CPU seconds of this process and its finished children."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
