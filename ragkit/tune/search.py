"""Try the pipelines of a grid on one's own questions, and say which is best and which cannot be told from it.

Half of the questions choose; the winner's figure is told on the other half, because the best of many is flattered by
the questions that it was chosen by. What was tried is written down trial by trial, so that a run goes on where it
was cut off.
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
from ragkit.index.source_ids import display_name
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.lexical.analyzer import extract_terms
from ragkit.records import Hit, content_id
from ragkit.tune.grid import AutoQuestions, Grid, Trial, TuneOptions
from ragkit.tune.reuse import StageKeys
from ragkit.tune.trial_index import IndexBuilder, IndexCost, TrialIndex, size_on_disk
from ragkit.usage.meter import AgentUsage, Meter, use_meter

CHUNK_DEPTH = 50
"""Chunks that are asked for, so that enough files are among them; as `ragkit eval` has it."""
TOP_K_OPTION = "retrieve.top_k"
COST_QUESTIONS = 1000
"""Questions that a cost is told for."""


@dataclass(frozen=True)
class QuestionScore:
    """One question in one trial."""

    id: str
    value: float
    """Of the metric."""
    search_ms: float
    ask_ms: float
    cost_usd: float | None


@dataclass(frozen=True)
class TrialResult:
    """One trial on the questions that choose."""

    trial: Trial
    rows: tuple[QuestionScore, ...]
    quality: BootstrapEstimate
    gap_to_best: BootstrapEstimate
    """How much lower its metric is than the best one's, question by question."""
    index_cost: IndexCost
    chunks: int
    bytes: int
    resumed: bool
    """An earlier run had done it."""

    @property
    def is_worse(self) -> bool:
        """Whether it is worse than the best beyond chance: the interval of `behind` lies above 0."""
        return self.gap_to_best.low > 0

    @property
    def median_ms(self) -> float:
        """Median of what a person waits for: the search, or the answer where the metric needs one."""
        asked = [one.ask_ms for one in self.rows if one.ask_ms]
        return float(np.median(asked or [one.search_ms for one in self.rows]))

    @property
    def cost_usd(self) -> float | None:
        """US dollars for the index and 1,000 questions; None: a price is unknown."""
        costs = [one.cost_usd for one in self.rows]
        known = [one for one in costs if one is not None]
        if len(known) < len(costs) or self.index_cost.cost_usd is None:
            return None
        return self.index_cost.cost_usd + COST_QUESTIONS * sum(known) / len(known)


@dataclass(frozen=True)
class HoldoutResult:
    """A trial on the questions that chose nothing."""

    trial: Trial
    quality: BootstrapEstimate
    p_value: float | None
    """The chance of so large a difference from the winner between pipelines that are alike; None for the winner."""


@dataclass(frozen=True)
class TuneResult:
    """What a grid came to."""

    grid: Grid
    trial_results: tuple[TrialResult, ...]
    """In the order of the grid."""
    winner: TrialResult
    holdout_results: tuple[HoldoutResult, ...]
    """The winner first, then the base pipeline, if it is another trial; empty without held-out questions."""
    selection_questions: int
    """Questions that chose."""
    counts: dict[str, int]
    """Files `read` and `split`, texts `embedded`, (text, embedder) `distinct`, vectors `taken`, `indexes` made."""
    usage: AgentUsage
    """What this run spent."""
    seconds: float
    cpu_seconds: float
    notes: tuple[str, ...] = ()

    @property
    def equivalent_to_best(self) -> list[TrialResult]:
        """The trials that cannot be told from the best one, itself included."""
        return [one for one in self.trial_results if not one.is_worse]


ProgressCallback = Callable[[str], None]
"""Told of every step, in a line."""


@dataclass
class GridSearch:
    """One run over a grid.

    Args:
        grid: what is tried.
        folder: where indexes and results are kept.
        jobs: workers that read and split; 0: as the pipelines say.
        tell: told of every step.
    """

    grid: Grid
    folder: Path
    jobs: int = 0
    on_progress: ProgressCallback = lambda line: None
    _notes: list[str] = field(default_factory=list)

    def run(self, max_cost_usd: float | None = None) -> TuneResult:
        """Try everything that was not tried before.

        Raises:
            BudgetExceeded, PriceUnknown: it costs more than `max_cost_usd`, over all trials together; what was tried
                is kept.
            QuestionsInvalid, RagkitError: no question can be used.
        """
        began, spent = time.perf_counter(), _cpu_seconds()
        self.folder.mkdir(parents=True, exist_ok=True)
        with use_meter(Meter(budget_usd=max_cost_usd)) as meter:
            workshop = IndexBuilder(self.folder, self._collect_documents(), self.jobs)
            choosing, reporting = self._split_questions(workshop)
            tried = self._run_trials(workshop, choosing)
            winner = _select_winner(tried, self.grid.options)
            held_out = self._evaluate_holdout(workshop, winner, reporting) if reporting else ()
            counts = {**workshop.counts, "distinct": workshop.new_vectors}
            usage = meter.usage()
        return TuneResult(
            self.grid,
            tuple(tried),
            winner,
            held_out,
            len(choosing),
            {name: counts.get(name, 0) for name in ("read", "split", "embedded", "distinct", "taken", "indexes")},
            usage,
            time.perf_counter() - began,
            _cpu_seconds() - spent,
            tuple(self._notes),
        )

    # questions

    def _collect_documents(self) -> list[Path]:
        """What is indexed: the documents that are named, and those that a BEIR folder brings."""
        found = list(self.grid.documents)
        if self._beir_folder is not None:
            self._names = write_beir_documents(self._beir_folder, self.folder / "documents")
            found.append(self.folder / "documents")
        return found

    @property
    def _beir_folder(self) -> Path | None:
        """The BEIR folder, where the questions are one."""
        named = self.grid.options.questions
        place = self.grid.folder / named if isinstance(named, str) else None
        return place if place is not None and (place / "corpus.jsonl").exists() else None

    def _split_questions(self, workshop: IndexBuilder) -> tuple[list[Question], list[Question]]:
        """The questions that choose, and those that are held out."""
        options = self.grid.options
        asked = self._load_questions(workshop, options)
        usable = [one for one in asked if one.answerable and (one.answers if _needs_answers(options) else one.sources)]
        if len(usable) < len(asked):
            self._notes.append(f"{len(asked) - len(usable)} questions say nothing to {options.metric} and are left out")
        chance = random.Random(options.seed)
        chance.shuffle(usable)
        usable = usable[: options.sample]
        held = round(len(usable) * options.holdout)
        choosing, reporting = usable[held:], usable[:held]
        if not choosing:
            raise RagkitError(
                f"no question is left to choose by: {options.metric} needs answers or sources in the file"
            )
        if len(choosing) < 20:
            self._notes.append(
                f"{len(choosing)} questions choose: too few to tell settings apart, unless they differ much"
            )
        return choosing, reporting

    def _load_questions(self, workshop: IndexBuilder, options: TuneOptions) -> list[Question]:
        named = options.questions
        if isinstance(named, AutoQuestions):
            index = self._build_index(workshop, self.grid.trials[0])
            with KnowledgeBase(index.directory, self.grid.trials[0].pipeline) as kb:
                documents = [one for source, _, _ in kb.documents() if (one := kb.document(source)) is not None]
            return [
                one.with_display_sources(display_name)
                for one in generate_questions(documents, extract_terms, named.auto, named.seed)
            ]
        found = read_questions(self.grid.folder / named)
        return [one.with_renamed_sources(self._names) for one in found] if self._beir_folder is not None else found

    # trials

    def _run_trials(self, workshop: IndexBuilder, questions: Sequence[Question]) -> list[TrialResult]:
        """Every trial on the questions that choose."""
        rows: dict[int, tuple[tuple[QuestionScore, ...], TrialIndex, bool]] = {}
        order = self._order_trials(workshop)
        for place, trial in enumerate(order):
            index = self._build_index(workshop, trial, order[place:])
            found, resumed = self._score_trial(workshop, trial, index, questions)
            rows[trial.number] = (found, index, resumed)
            mean = float(np.mean([one.value for one in found]))
            done = "known" if resumed else f"{np.median([one.search_ms for one in found]):.1f} ms a search"
            self.on_progress(
                f"{place + 1} of {len(order)}: {trial.label}: {self.grid.options.metric} {mean:.4f}, {done}"
            )
        best = max(rows.values(), key=lambda one: sum(row.value for row in one[0]))[0]
        return [self._create_result(trial, *rows[trial.number], best, workshop) for trial in self.grid.trials]

    def _order_trials(self, workshop: IndexBuilder) -> list[Trial]:
        """Trials that share most stand together."""
        keys = {
            trial.number: StageKeys.from_components(workshop.components(trial.pipeline)) for trial in self.grid.trials
        }
        first: dict[str, int] = {}
        for trial in self.grid.trials:
            for key in (keys[trial.number].load, keys[trial.number].split, keys[trial.number].index):
                first.setdefault(key, trial.number)
        return sorted(
            self.grid.trials,
            key=lambda trial: (
                *(first[one] for one in (keys[trial.number].load, keys[trial.number].split, keys[trial.number].index)),
                trial.number,
            ),
        )

    def _build_index(self, workshop: IndexBuilder, trial: Trial, order: Sequence[Trial] = ()) -> TrialIndex:
        before = workshop.counts["indexes"]
        index = workshop.get_index(trial.pipeline, [one.pipeline for one in order])
        if workshop.counts["indexes"] > before:
            made = index.build_record
            self.on_progress(f"indexed {index.chunks:,} chunks: {made.embedded:,} embedded, {made.taken:,} taken over")
        return index

    def _create_result(
        self,
        trial: Trial,
        rows: tuple[QuestionScore, ...],
        index: TrialIndex,
        resumed: bool,
        best: tuple[QuestionScore, ...],
        workshop: IndexBuilder,
    ) -> TrialResult:
        seed = self.grid.options.seed
        quality = bootstrap_mean([one.value for one in rows], seed)
        assert quality is not None  # noqa: S101 - there is a question
        behind = paired_difference([one.value for one in rows], [one.value for one in best], seed)
        size = size_on_disk(index.directory, trial.pipeline.store.name)
        return TrialResult(trial, rows, quality, behind, workshop.standalone_cost(index), index.chunks, size, resumed)

    def _evaluate_holdout(
        self, workshop: IndexBuilder, winner: TrialResult, questions: Sequence[Question]
    ) -> tuple[HoldoutResult, ...]:
        """The winner, and the base pipeline where it is a trial, on questions that chose nothing."""
        base = self.grid.base_trial
        seed = self.grid.options.seed
        found: list[HoldoutResult] = []
        values: list[float] = []
        for trial in (winner.trial, *([base] if base is not None and base != winner.trial else [])):
            rows, _ = self._score_trial(workshop, trial, self._build_index(workshop, trial), questions)
            own = [one.value for one in rows]
            quality = bootstrap_mean(own, seed)
            assert quality is not None  # noqa: S101 - as above
            found.append(HoldoutResult(trial, quality, paired_p_value(values, own, seed) if values else None))
            values = values or own
        return tuple(found)

    # one trial

    def _score_trial(
        self, workshop: IndexBuilder, trial: Trial, index: TrialIndex, questions: Sequence[Question]
    ) -> tuple[tuple[QuestionScore, ...], bool]:
        """Its rows, and whether an earlier run had them."""
        options = self.grid.options
        key = self._result_key(trial, index, questions)
        results = self.folder / "trials.jsonl"
        for line in results.read_text("utf-8").splitlines() if results.exists() else ():
            row = _parse_result(line)
            if row is not None and row[0] == key:
                return row[1], True
        rows = tuple(self._score_questions(workshop, trial, index, questions))
        line = json.dumps(
            {"key": key, "metric": options.metric, "trial": trial.label, "rows": [_score_row(one) for one in rows]}
        )
        with results.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())
        return rows, False

    def _result_key(self, trial: Trial, index: TrialIndex, questions: Sequence[Question]) -> str:
        """What a result depends on: another pipeline, other documents or other questions give another key."""
        asked = [json.dumps(one.to_dict(), sort_keys=True) for one in questions]
        options = self.grid.options
        depth = "own" if TOP_K_OPTION in self.grid.varied_options else str(CHUNK_DEPTH)
        return content_id(
            trial.pipeline.to_yaml(complete=True),
            index.fingerprint,
            index.content_digest,
            options.metric,
            depth,
            *asked,
        )

    def _score_questions(
        self, workshop: IndexBuilder, trial: Trial, index: TrialIndex, questions: Sequence[Question]
    ) -> Iterator[QuestionScore]:
        options = self.grid.options
        asker = workshop.query_embedder(trial.pipeline)
        spent: list[tuple[float, float | None]] = []
        # with top_k in the grid a trial is judged by what it would show; else all are looked at equally deep
        asked_for = None if TOP_K_OPTION in self.grid.varied_options else max(CHUNK_DEPTH, 5 * options.depth)
        with ExitStack() as stack:
            parts = workshop.components(trial.pipeline, known_questions=True)
            kb = stack.enter_context(KnowledgeBase(index.directory, trial.pipeline, parts))
            kb.search(questions[0].text, 1)  # what is loaded at the first search is no part of its time

            def search(question: str, _: int) -> Sequence[Hit]:
                asker.reset_savings()
                with use_meter(Meter()) as meter:
                    hits = kb.search(question, asked_for)
                spent.append((asker.saved_seconds, _add_costs(meter.usage().total_cost_usd, asker.saved_cost_usd)))
                return hits

            ask = None
            if options.uses_answers:
                answers = KnowledgeBase(index.directory, trial.pipeline, workshop.components(trial.pipeline))
                ask = stack.enter_context(answers).ask
            outcomes = evaluate_questions(
                EvaluatedSystem(search, ask, display_name), questions, Depths(options.depth, CHUNK_DEPTH)
            )
            for outcome, (seconds, cost) in zip(outcomes, spent, strict=False):
                yield _to_score(outcome, options, seconds, cost)


def _to_score(outcome: QuestionResult, options: TuneOptions, seconds: float, cost: float | None) -> QuestionScore:
    """A failed answer is a miss. The embedding of a question that was known counts as if it had not been.

    An answer searches for itself, so that its cost is all that the question costs.
    """
    return QuestionScore(
        outcome.question.id,
        outcome.metrics.get(options.metric, 0.0),
        outcome.search_ms + 1000 * seconds,
        outcome.ask_ms,
        outcome.cost_usd if options.uses_answers else cost,
    )


def _select_winner(tried: Sequence[TrialResult], options: TuneOptions) -> TrialResult:
    """By `choose`; among equals the faster one."""
    best = max(tried, key=lambda one: (one.quality.mean, -one.median_ms))
    alike = [one for one in tried if not one.is_worse]
    if options.choose == "fastest":
        return min(alike, key=lambda one: one.median_ms)
    if options.choose == "cheapest":
        return min(alike, key=lambda one: (one.cost_usd is None, one.cost_usd or 0.0, one.median_ms))
    return best


def pareto_indices(points: Sequence[tuple[float, float]]) -> list[int]:
    """Places of the (less is better, more is better) points that no other point beats in both, by rising first."""
    kept: list[int] = []
    for place in sorted(range(len(points)), key=lambda one: (points[one][0], -points[one][1])):
        if not kept or points[place][1] > points[kept[-1]][1]:
            kept.append(place)
    return kept


def _needs_answers(options: TuneOptions) -> bool:
    return options.uses_answers and not options.metric.startswith("citation")


def _score_row(one: QuestionScore) -> list[str | float | None]:
    return [one.id, one.value, one.search_ms, one.ask_ms, one.cost_usd]


def _parse_result(line: str) -> tuple[str, tuple[QuestionScore, ...]] | None:
    """A line of results; None for one that was cut off."""
    try:
        data = json.loads(line)
        return data["key"], tuple(QuestionScore(*row) for row in data["rows"])
    except (ValueError, TypeError, KeyError):
        return None


def _add_costs(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def _cpu_seconds() -> float:
    """Of this process and those that it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
