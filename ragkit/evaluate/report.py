"""The report of an evaluation: means with intervals, a line per question, and a comparison with an earlier one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from ragkit.evaluate.intervals import BootstrapEstimate, bootstrap_mean, paired_p_value
from ragkit.evaluate.metrics import auroc
from ragkit.evaluate.questions import QuestionsInvalid
from ragkit.evaluate.run import QuestionResult
from ragkit.records import JSON


@dataclass(frozen=True, slots=True)
class EvaluationReport:
    """An evaluation."""

    settings: Mapping[str, JSON]
    """What the figures depend on: pipeline, model, versions, seed."""
    metrics: Mapping[str, BootstrapEstimate]
    """Quality: higher is better, 1 the best. Means over the questions for which they are defined."""
    milliseconds: Mapping[str, float]
    """Medians and 95th percentiles of searching and asking."""
    cost_usd: float | None
    """Of all answers; None when a price is unknown."""
    outcomes: Sequence[QuestionResult] = field(repr=False)
    models: Mapping[str, Mapping[str, JSON]] = field(default_factory=dict)
    """`judge`, `writer`: the models that helped, and what they cost, apart from the answers."""

    @property
    def failed_questions(self) -> list[QuestionResult]:
        """The questions without an answer because something failed."""
        return [one for one in self.outcomes if one.error]

    def to_dict(self) -> dict[str, JSON]:
        """The report as one JSON object: `compare` reads it."""
        return {
            "settings": dict(self.settings),
            "questions": len(self.outcomes),
            "figures": {name: asdict(one) for name, one in self.metrics.items()},
            "milliseconds": dict(self.milliseconds),
            "cost_usd": self.cost_usd,
            **{name: dict(one) for name, one in self.models.items()},
            "rows": [_question_row(one) for one in self.outcomes],
        }


@dataclass(frozen=True, slots=True)
class MetricChange:
    """A figure now and before, over the questions that both reports have."""

    name: str
    before: float
    now: float
    p: float
    """The chance of so large a difference between runs that are alike."""
    n: int
    dropped: bool
    """It fell by more than was allowed."""


def build_report(outcomes: Sequence[QuestionResult], settings: Mapping[str, JSON], seed: int = 0) -> EvaluationReport:
    """Add everything up."""
    names = list(dict.fromkeys(name for one in outcomes for name in one.metrics))
    figures: dict[str, BootstrapEstimate] = {}
    for name in names:
        found = bootstrap_mean([one.metrics[name] for one in outcomes if name in one.metrics], seed)
        if found is not None:
            figures[name] = found
    asked = [one for one in outcomes if one.answer is not None]
    figures |= _abstention_metrics(asked, seed)
    milliseconds = _time_percentiles("search", [one.search_ms for one in outcomes]) | _time_percentiles(
        "ask", [one.ask_ms for one in asked]
    )
    costs = [one.cost_usd for one in asked]
    known = [cost for cost in costs if cost is not None]
    return EvaluationReport(settings, figures, milliseconds, sum(known) if len(known) == len(costs) else None, outcomes)


def compare_with_baseline(now: EvaluationReport, baseline: Path, max_drop: float, seed: int = 0) -> list[MetricChange]:
    """Hold every figure against an earlier report of the same questions.

    Only questions that both have are compared, by their ids.

    Raises:
        QuestionsInvalid: the file is no report, or has no question in common with this one.
    """
    before = _read_baseline(baseline)
    rows = {one.question.id: one.metrics for one in now.outcomes}
    shared = [name for name in rows if name in before]
    if not shared:
        raise QuestionsInvalid(
            str(baseline), "has no question in common with this run", "use a report of the same ones"
        )
    changes = []
    for name in dict.fromkeys(name for one in shared for name in rows[one]):
        pairs = [(before[one][name], rows[one][name]) for one in shared if name in rows[one] and name in before[one]]
        if pairs:
            old, new = (float(np.mean(side)) for side in zip(*pairs, strict=True))
            p = paired_p_value([one for one, _ in pairs], [one for _, one in pairs], seed)
            changes.append(MetricChange(name, old, new, p, len(pairs), new < old - max_drop))
    if not changes:
        raise QuestionsInvalid(str(baseline), "has no figure in common with this run", "use the same --depth")
    return changes


def _abstention_metrics(asked: Sequence[QuestionResult], seed: int) -> dict[str, BootstrapEstimate]:
    """Of the refused the share that has no answer, of those without an answer the share that was refused."""
    outside = [one for one in asked if not one.question.answerable]
    refused = [one for one in asked if one.abstained]
    found = {
        "abstention_precision": bootstrap_mean([float(not one.question.answerable) for one in refused], seed),
        "abstention_recall": bootstrap_mean([float(one.abstained) for one in outside], seed),
    }
    area = auroc([one.evidence for one in asked if one.question.answerable], [one.evidence for one in outside])
    if area is not None:
        found["evidence_auroc"] = _auroc_estimate(asked, area, seed)
    return {name: one for name, one in found.items() if one is not None}


def _auroc_estimate(asked: Sequence[QuestionResult], area: float, seed: int) -> BootstrapEstimate:
    """The area with its bootstrap interval: questions are drawn, each kind for itself."""
    chance = np.random.default_rng(seed)
    inside = np.array([one.evidence for one in asked if one.question.answerable])
    outside = np.array([one.evidence for one in asked if not one.question.answerable])
    drawn = [
        auroc(list(chance.choice(inside, len(inside))), list(chance.choice(outside, len(outside)))) or 0.0
        for _ in range(200)
    ]
    low, high = np.percentile(drawn, (2.5, 97.5))
    return BootstrapEstimate(area, float(low), float(high), len(asked))


def _time_percentiles(name: str, values: Sequence[float]) -> dict[str, float]:
    if not values:
        return {}
    p50, p95 = np.percentile(values, (50, 95))
    return {f"{name}_p50": float(p50), f"{name}_p95": float(p95)}


def _question_row(one: QuestionResult) -> dict[str, JSON]:
    return {
        **one.question.to_dict(),
        "figures": dict(one.metrics),
        "ranking": list(one.ranking),
        "answer": one.answer,
        "abstained": one.abstained,
        "evidence": one.evidence,
        "citations": [asdict(cited) for cited in one.citations],
        "hits": [asdict(hit) for hit in one.hits],
        "search_ms": one.search_ms,
        "ask_ms": one.ask_ms,
        "cost_usd": one.cost_usd,
        "error": one.error,
        **({"judged": dict(one.judgement)} if one.judgement is not None else {}),
    }


def _read_baseline(path: Path) -> dict[str, dict[str, float]]:
    """Figures by question of a report that was written before."""
    try:
        data = json.loads(path.read_text("utf-8"))
        return {str(row["id"]): {k: float(v) for k, v in row["figures"].items()} for row in data["rows"]}
    except OSError as error:
        raise QuestionsInvalid(str(path), f"cannot be read ({error.strerror})", "write one with --out") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise QuestionsInvalid(str(path), "is no report of `ragkit eval`", "write one with --out") from error
