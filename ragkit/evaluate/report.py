"""Aggregates the results of an evaluation into a report, and compares it with an earlier report."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from ragkit.evaluate.intervals import BootstrapEstimate, bootstrap_mean, paired_p_value
from ragkit.evaluate.metrics import auroc
from ragkit.evaluate.questions import QuestionsInvalid
from ragkit.evaluate.run import READER_METRICS, QuestionResult
from ragkit.evaluate.verdict import judge_result
from ragkit.records import JSON


@dataclass(frozen=True, slots=True)
class EvaluationReport:
    """The metrics, latencies and cost of an evaluation, with the result of each question."""

    settings: Mapping[str, JSON]
    """Pipeline, model, versions, seed."""
    metrics: Mapping[str, BootstrapEstimate]
    """Quality in [0, 1], higher is better. Means over the questions for which a metric is defined."""
    milliseconds: Mapping[str, float]
    """Medians and 95th percentiles of search and answer latency."""
    cost_usd: float | None
    """Cost of all answers; None if a price is unknown."""
    outcomes: Sequence[QuestionResult] = field(repr=False)
    models: Mapping[str, Mapping[str, JSON]] = field(default_factory=dict)
    """Usage and cost of the models `judge` and `writer`, which are not part of `cost_usd`."""
    kinds: Mapping[str, Mapping[str, BootstrapEstimate]] = field(default_factory=dict)
    """READER_METRICS of the questions of each kind; empty if the questions have no kinds or no answers were asked."""

    @property
    def failed_questions(self) -> list[QuestionResult]:
        """The questions whose answer failed with an error."""
        return [outcome for outcome in self.outcomes if outcome.error]

    def to_dict(self) -> dict[str, JSON]:
        """The report as JSON, the input of `compare_with_baseline`."""
        return {
            "settings": dict(self.settings),
            "questions": len(self.outcomes),
            "figures": _estimates_json(self.metrics),
            "kinds": {kind: _estimates_json(metrics) for kind, metrics in self.kinds.items()},
            "milliseconds": dict(self.milliseconds),
            "cost_usd": self.cost_usd,
            **{name: dict(usage) for name, usage in self.models.items()},
            "rows": [_question_row(outcome) for outcome in self.outcomes],
        }


@dataclass(frozen=True, slots=True)
class MetricChange:
    """The change of a metric over the questions that both reports have."""

    name: str
    before: float
    now: float
    p: float
    """p-value of the paired randomization test."""
    n: int
    dropped: bool
    """Whether it fell by more than the allowed drop."""


def build_report(outcomes: Sequence[QuestionResult], settings: Mapping[str, JSON], seed: int = 0) -> EvaluationReport:
    """Aggregate the results of all questions."""
    metrics = _mean_metrics(outcomes, dict.fromkeys(name for outcome in outcomes for name in outcome.metrics), seed)
    answered = [outcome for outcome in outcomes if outcome.answer is not None]
    metrics |= _abstention_metrics(answered, seed)
    milliseconds = _time_percentiles("search", [outcome.search_ms for outcome in outcomes]) | _time_percentiles(
        "ask", [outcome.ask_ms for outcome in answered]
    )
    costs = [outcome.cost_usd for outcome in answered]
    known = [cost for cost in costs if cost is not None]
    cost = sum(known) if len(known) == len(costs) else None
    kinds = _kind_metrics(outcomes, seed)
    return EvaluationReport(settings, metrics, milliseconds, cost, outcomes, kinds=kinds)


def _mean_metrics(outcomes: Sequence[QuestionResult], names: Iterable[str], seed: int) -> dict[str, BootstrapEstimate]:
    """The mean of each metric over the questions that have it; without those that no question has."""
    estimates = {
        name: bootstrap_mean([outcome.metrics[name] for outcome in outcomes if name in outcome.metrics], seed)
        for name in names
    }
    return {name: estimate for name, estimate in estimates.items() if estimate is not None}


def _kind_metrics(outcomes: Sequence[QuestionResult], seed: int) -> dict[str, dict[str, BootstrapEstimate]]:
    by_kind: dict[str, list[QuestionResult]] = {}
    for outcome in outcomes:
        by_kind.setdefault(outcome.question.kind, []).append(outcome)
    if set(by_kind) == {""}:
        return {}
    kinds = {kind or "(none)": _mean_metrics(rows, READER_METRICS, seed) for kind, rows in by_kind.items()}
    return {kind: metrics for kind, metrics in kinds.items() if metrics}


def compare_with_baseline(now: EvaluationReport, baseline: Path, max_drop: float, seed: int = 0) -> list[MetricChange]:
    """Compare every metric with an earlier report, over the questions that both have, by id.

    Raises:
        QuestionsInvalid: the file is not a report, or has no question or metric in common with this one.
    """
    before = _read_baseline(baseline)
    rows = {outcome.question.id: outcome.metrics for outcome in now.outcomes}
    shared = [question for question in rows if question in before]
    if not shared:
        problem = "no question in common with this run"
        raise QuestionsInvalid(str(baseline), problem, "use a report of the same questions")
    changes = []
    for name in dict.fromkeys(name for question in shared for name in rows[question]):
        pairs = [(before[q][name], rows[q][name]) for q in shared if name in rows[q] and name in before[q]]
        if pairs:
            old_values, new_values = zip(*pairs, strict=True)
            old, new = float(np.mean(old_values)), float(np.mean(new_values))
            p = paired_p_value(old_values, new_values, seed)
            changes.append(MetricChange(name, old, new, p, len(pairs), new < old - max_drop))
    if not changes:
        raise QuestionsInvalid(str(baseline), "no metric in common with this run", "use the same --top-k")
    return changes


def _abstention_metrics(answered: Sequence[QuestionResult], seed: int) -> dict[str, BootstrapEstimate]:
    """Precision of abstentions, and AUROC of the evidence; answerable questions are the positives."""
    unanswerable = [outcome for outcome in answered if not outcome.question.answerable]
    abstained = [outcome for outcome in answered if outcome.abstained]
    estimates = {
        "abstention_precision": bootstrap_mean([float(not o.question.answerable) for o in abstained], seed),
        "evidence_auroc": _auroc_estimate(
            [o.evidence for o in answered if o.question.answerable], [o.evidence for o in unanswerable], seed
        ),
    }
    return {name: estimate for name, estimate in estimates.items() if estimate is not None}


def _auroc_estimate(positive: Sequence[float], negative: Sequence[float], seed: int) -> BootstrapEstimate | None:
    """AUROC with its bootstrap interval; positives and negatives are resampled separately."""
    area = auroc(positive, negative)
    if area is None:
        return None
    rng = np.random.default_rng(seed)
    samples = [
        auroc(rng.choice(positive, len(positive)).tolist(), rng.choice(negative, len(negative)).tolist()) or 0.0
        for _ in range(200)
    ]
    low, high = np.percentile(samples, (2.5, 97.5))
    return BootstrapEstimate(area, float(low), float(high), len(positive) + len(negative))


def _time_percentiles(name: str, values: Sequence[float]) -> dict[str, float]:
    if not values:
        return {}
    p50, p95 = np.percentile(values, (50, 95))
    return {f"{name}_p50": float(p50), f"{name}_p95": float(p95)}


def _estimates_json(metrics: Mapping[str, BootstrapEstimate]) -> dict[str, JSON]:
    return {name: asdict(estimate) for name, estimate in metrics.items()}


def _question_row(outcome: QuestionResult) -> dict[str, JSON]:
    return {
        **outcome.question.to_dict(),
        "verdict": judge_result(outcome).value,
        "figures": dict(outcome.metrics),
        "ranking": list(outcome.ranking),
        "answer": outcome.answer,
        "abstained": outcome.abstained,
        "evidence": outcome.evidence,
        "citations": [asdict(citation) for citation in outcome.citations],
        "hits": [asdict(hit) for hit in outcome.hits],
        "search_ms": outcome.search_ms,
        "ask_ms": outcome.ask_ms,
        "cost_usd": outcome.cost_usd,
        "error": outcome.error,
        **({"judged": dict(outcome.judgement)} if outcome.judgement is not None else {}),
    }


def _read_baseline(path: Path) -> dict[str, dict[str, float]]:
    """Metrics by question id of an earlier report."""
    try:
        data = json.loads(path.read_text("utf-8"))
        return {str(row["id"]): {k: float(v) for k, v in row["figures"].items()} for row in data["rows"]}
    except OSError as error:
        raise QuestionsInvalid(str(path), f"cannot be read ({error.strerror})", "write one with --out") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise QuestionsInvalid(str(path), "not a report of `ragkit eval`", "write one with --out") from error
