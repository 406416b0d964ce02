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
from ragkit.evaluate.automatic import automatic
from ragkit.evaluate.intervals import Figure, figure, paired_difference, paired_p
from ragkit.evaluate.questions import Question, read_questions, spread
from ragkit.evaluate.run import Depths, Outcome, System, evaluate
from ragkit.index.names import shown
from ragkit.pipeline.knowledge_base import KnowledgeBase
from ragkit.pipeline.tuning_grid import AutoQuestions, Grid, Trial, TuneOptions
from ragkit.pipeline.tuning_index import Index, Price, Workshop, bytes_of
from ragkit.pipeline.tuning_reuse import Keys
from ragkit.records import Hit, content_id
from ragkit.retrieve.terms import terms
from ragkit.usage.meter import AgentUsage, Meter, metered

CHUNKS = 50
"""Chunks that are asked for, so that enough files are among them; as `ragkit eval` has it."""
TOP_K = "retrieve.top_k"
PER = 1000
"""Questions that a cost is told for."""


@dataclass(frozen=True)
class Judged:
    """One question in one trial."""

    id: str
    value: float
    """Of the metric."""
    search_ms: float
    ask_ms: float
    cost_usd: float | None


@dataclass(frozen=True)
class Tried:
    """One trial on the questions that choose."""

    trial: Trial
    rows: tuple[Judged, ...]
    quality: Figure
    behind: Figure
    """How much lower its metric is than the best one's, question by question."""
    price: Price
    chunks: int
    bytes: int
    resumed: bool
    """An earlier run had done it."""

    @property
    def told_apart(self) -> bool:
        """Whether it is worse than the best beyond chance: the interval of `behind` lies above 0."""
        return self.behind.low > 0

    @property
    def milliseconds(self) -> float:
        """Median of what a person waits for: the search, or the answer where the metric needs one."""
        asked = [one.ask_ms for one in self.rows if one.ask_ms]
        return float(np.median(asked or [one.search_ms for one in self.rows]))

    @property
    def cost_usd(self) -> float | None:
        """US dollars for the index and 1,000 questions; None: a price is unknown."""
        costs = [one.cost_usd for one in self.rows]
        known = [one for one in costs if one is not None]
        if len(known) < len(costs) or self.price.cost_usd is None:
            return None
        return self.price.cost_usd + PER * sum(known) / len(known)


@dataclass(frozen=True)
class HeldOut:
    """A trial on the questions that chose nothing."""

    trial: Trial
    quality: Figure
    p: float | None
    """The chance of so large a difference from the winner between pipelines that are alike; None for the winner."""


@dataclass(frozen=True)
class Tuned:
    """What a grid came to."""

    grid: Grid
    tried: tuple[Tried, ...]
    """In the order of the grid."""
    winner: Tried
    held_out: tuple[HeldOut, ...]
    """The winner first, then the base pipeline, if it is another trial; empty without held-out questions."""
    chosen_on: int
    """Questions that chose."""
    counts: dict[str, int]
    """Files `read` and `split`, texts `embedded`, (text, embedder) `distinct`, vectors `taken`, `indexes` made."""
    usage: AgentUsage
    """What this run spent."""
    seconds: float
    cpu_seconds: float
    notes: tuple[str, ...] = ()

    @property
    def alike(self) -> list[Tried]:
        """The trials that cannot be told from the best one, itself included."""
        return [one for one in self.tried if not one.told_apart]


Tell = Callable[[str], None]
"""Told of every step, in a line."""


@dataclass
class Tuning:
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
    tell: Tell = lambda line: None
    _notes: list[str] = field(default_factory=list)

    def run(self, max_cost_usd: float | None = None) -> Tuned:
        """Try everything that was not tried before.

        Raises:
            BudgetExceeded, PriceUnknown: it costs more than `max_cost_usd`, over all trials together; what was tried
                is kept.
            QuestionsInvalid, RagkitError: no question can be used.
        """
        began, spent = time.perf_counter(), _cpu_seconds()
        self.folder.mkdir(parents=True, exist_ok=True)
        with metered(Meter(budget_usd=max_cost_usd)) as meter:
            workshop = Workshop(self.folder, self._documents(), self.jobs)
            choosing, reporting = self._questions(workshop)
            tried = self._try(workshop, choosing)
            winner = _winner(tried, self.grid.options)
            held_out = self._hold_out(workshop, winner, reporting) if reporting else ()
            counts = {**workshop.counts, "distinct": workshop.distinct}
            usage = meter.usage()
        return Tuned(
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

    def _documents(self) -> list[Path]:
        """What is indexed: the documents that are named, and those that a BEIR folder brings."""
        found = list(self.grid.documents)
        if self._collection is not None:
            self._names = spread(self._collection, self.folder / "documents")
            found.append(self.folder / "documents")
        return found

    @property
    def _collection(self) -> Path | None:
        """The BEIR folder, where the questions are one."""
        named = self.grid.options.questions
        place = self.grid.folder / named if isinstance(named, str) else None
        return place if place is not None and (place / "corpus.jsonl").exists() else None

    def _questions(self, workshop: Workshop) -> tuple[list[Question], list[Question]]:
        """The questions that choose, and those that are held out."""
        options = self.grid.options
        asked = self._all_questions(workshop, options)
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

    def _all_questions(self, workshop: Workshop, options: TuneOptions) -> list[Question]:
        named = options.questions
        if isinstance(named, AutoQuestions):
            index = self._index(workshop, self.grid.trials[0])
            with KnowledgeBase(index.directory, self.grid.trials[0].pipeline) as kb:
                documents = [one for source, _, _ in kb.documents() if (one := kb.document(source)) is not None]
            return [one.relative(shown) for one in automatic(documents, terms, named.auto, named.seed)]
        found = read_questions(self.grid.folder / named)
        return [one.renamed(self._names) for one in found] if self._collection is not None else found

    # trials

    def _try(self, workshop: Workshop, questions: Sequence[Question]) -> list[Tried]:
        """Every trial on the questions that choose."""
        rows: dict[int, tuple[tuple[Judged, ...], Index, bool]] = {}
        order = self._order(workshop)
        for place, trial in enumerate(order):
            index = self._index(workshop, trial, order[place:])
            found, resumed = self._judge(workshop, trial, index, questions)
            rows[trial.number] = (found, index, resumed)
            mean = float(np.mean([one.value for one in found]))
            done = "known" if resumed else f"{np.median([one.search_ms for one in found]):.1f} ms a search"
            self.tell(f"{place + 1} of {len(order)}: {trial.label}: {self.grid.options.metric} {mean:.4f}, {done}")
        best = max(rows.values(), key=lambda one: sum(row.value for row in one[0]))[0]
        return [self._tried(trial, *rows[trial.number], best, workshop) for trial in self.grid.trials]

    def _order(self, workshop: Workshop) -> list[Trial]:
        """Trials that share most stand together."""
        keys = {trial.number: Keys.of(workshop.parts(trial.pipeline)) for trial in self.grid.trials}
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

    def _index(self, workshop: Workshop, trial: Trial, order: Sequence[Trial] = ()) -> Index:
        before = workshop.counts["indexes"]
        index = workshop.index(trial.pipeline, [one.pipeline for one in order])
        if workshop.counts["indexes"] > before:
            made = index.made
            self.tell(f"indexed {index.chunks:,} chunks: {made.embedded:,} embedded, {made.taken:,} taken over")
        return index

    def _tried(
        self,
        trial: Trial,
        rows: tuple[Judged, ...],
        index: Index,
        resumed: bool,
        best: tuple[Judged, ...],
        workshop: Workshop,
    ) -> Tried:
        seed = self.grid.options.seed
        quality = figure([one.value for one in rows], seed)
        assert quality is not None  # noqa: S101 - there is a question
        behind = paired_difference([one.value for one in rows], [one.value for one in best], seed)
        size = bytes_of(index.directory, trial.pipeline.store.name)
        return Tried(trial, rows, quality, behind, workshop.alone(index), index.chunks, size, resumed)

    def _hold_out(self, workshop: Workshop, winner: Tried, questions: Sequence[Question]) -> tuple[HeldOut, ...]:
        """The winner, and the base pipeline where it is a trial, on questions that chose nothing."""
        base = self.grid.base_trial
        seed = self.grid.options.seed
        found: list[HeldOut] = []
        values: list[float] = []
        for trial in (winner.trial, *([base] if base is not None and base != winner.trial else [])):
            rows, _ = self._judge(workshop, trial, self._index(workshop, trial), questions)
            own = [one.value for one in rows]
            quality = figure(own, seed)
            assert quality is not None  # noqa: S101 - as above
            found.append(HeldOut(trial, quality, paired_p(values, own, seed) if values else None))
            values = values or own
        return tuple(found)

    # one trial

    def _judge(
        self, workshop: Workshop, trial: Trial, index: Index, questions: Sequence[Question]
    ) -> tuple[tuple[Judged, ...], bool]:
        """Its rows, and whether an earlier run had them."""
        options = self.grid.options
        key = self._key(trial, index, questions)
        results = self.folder / "trials.jsonl"
        for line in results.read_text("utf-8").splitlines() if results.exists() else ():
            row = _parsed(line)
            if row is not None and row[0] == key:
                return row[1], True
        rows = tuple(self._ask(workshop, trial, index, questions))
        line = json.dumps(
            {"key": key, "metric": options.metric, "trial": trial.label, "rows": [_values(one) for one in rows]}
        )
        with results.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())
        return rows, False

    def _key(self, trial: Trial, index: Index, questions: Sequence[Question]) -> str:
        """What a result depends on: another pipeline, other documents or other questions give another key."""
        asked = [json.dumps(one.to_dict(), sort_keys=True) for one in questions]
        options = self.grid.options
        depth = "own" if TOP_K in self.grid.varied else str(CHUNKS)
        return content_id(
            trial.pipeline.to_yaml(complete=True), index.fingerprint, index.content, options.metric, depth, *asked
        )

    def _ask(self, workshop: Workshop, trial: Trial, index: Index, questions: Sequence[Question]) -> Iterator[Judged]:
        options = self.grid.options
        asker = workshop.asker(trial.pipeline)
        spent: list[tuple[float, float | None]] = []
        # with top_k in the grid a trial is judged by what it would show; else all are looked at equally deep
        asked_for = None if TOP_K in self.grid.varied else max(CHUNKS, 5 * options.depth)
        with ExitStack() as stack:
            parts = workshop.parts(trial.pipeline, known_questions=True)
            kb = stack.enter_context(KnowledgeBase(index.directory, trial.pipeline, parts))
            kb.search(questions[0].text, 1)  # what is loaded at the first search is no part of its time

            def search(question: str, _: int) -> Sequence[Hit]:
                asker.start()
                with metered(Meter()) as meter:
                    hits = kb.search(question, asked_for)
                spent.append((asker.seconds, _sum(meter.usage().total_cost_usd, asker.cost_usd)))
                return hits

            ask = None
            if options.asks:
                answers = KnowledgeBase(index.directory, trial.pipeline, workshop.parts(trial.pipeline))
                ask = stack.enter_context(answers).ask
            outcomes = evaluate(System(search, ask, shown), questions, Depths(options.depth, CHUNKS))
            for outcome, (seconds, cost) in zip(outcomes, spent, strict=False):
                yield _judged(outcome, options, seconds, cost)


def _judged(outcome: Outcome, options: TuneOptions, seconds: float, cost: float | None) -> Judged:
    """A failed answer is a miss. The embedding of a question that was known counts as if it had not been.

    An answer searches for itself, so that its cost is all that the question costs.
    """
    return Judged(
        outcome.question.id,
        outcome.figures.get(options.metric, 0.0),
        outcome.search_ms + 1000 * seconds,
        outcome.ask_ms,
        outcome.cost_usd if options.asks else cost,
    )


def _winner(tried: Sequence[Tried], options: TuneOptions) -> Tried:
    """By `choose`; among equals the faster one."""
    best = max(tried, key=lambda one: (one.quality.mean, -one.milliseconds))
    alike = [one for one in tried if not one.told_apart]
    if options.choose == "fastest":
        return min(alike, key=lambda one: one.milliseconds)
    if options.choose == "cheapest":
        return min(alike, key=lambda one: (one.cost_usd is None, one.cost_usd or 0.0, one.milliseconds))
    return best


def pareto(points: Sequence[tuple[float, float]]) -> list[int]:
    """Places of the (less is better, more is better) points that no other point beats in both, by rising first."""
    kept: list[int] = []
    for place in sorted(range(len(points)), key=lambda one: (points[one][0], -points[one][1])):
        if not kept or points[place][1] > points[kept[-1]][1]:
            kept.append(place)
    return kept


def _needs_answers(options: TuneOptions) -> bool:
    return options.asks and not options.metric.startswith("citation")


def _values(one: Judged) -> list[str | float | None]:
    return [one.id, one.value, one.search_ms, one.ask_ms, one.cost_usd]


def _parsed(line: str) -> tuple[str, tuple[Judged, ...]] | None:
    """A line of results; None for one that was cut off."""
    try:
        data = json.loads(line)
        return data["key"], tuple(Judged(*row) for row in data["rows"])
    except (ValueError, TypeError, KeyError):
        return None


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def _cpu_seconds() -> float:
    """Of this process and those that it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
