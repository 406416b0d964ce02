"""Format the result of a grid search: as a table, as JSON, and the winner as a pipeline file."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import asdict

from ragkit import __version__
from ragkit.evaluate.intervals import BootstrapEstimate
from ragkit.records import JSON
from ragkit.tune.search import COST_QUESTIONS, HoldoutResult, TrialResult, TuneResult, pareto_indices


def format_trial_table(tuned: TuneResult) -> list[str]:
    """The table: a header and a line per trial, best first."""
    names = list(dict.fromkeys(name for result in tuned.trial_results for name in result.trial.changes))
    metric, lead = tuned.grid.options.metric, "" if tuned.grid.options.uses_answers else "search "
    head = ["", "#", *names, metric, "95 % interval", "behind", f"{lead}ms p50", "index s", "chunks", "bytes"]
    head.append(f"$/index+{COST_QUESTIONS}")
    rows = [
        [
            _rank_symbol(one, tuned.winner),
            str(one.trial.number),
            *(one.trial.changes.get(name, "") for name in names),
            f"{one.quality.mean:.4f}",
            _format_interval(one.quality),
            "" if one.gap_to_best.mean == 0 and one.gap_to_best.high == 0 else f"{one.gap_to_best.mean:.4f}",
            f"{one.median_ms:.1f}",
            f"{one.index_cost.seconds:.1f}",
            f"{one.chunks:,}",
            _format_size(one.bytes),
            _format_cost(one.cost_usd),
        ]
        for one in sorted(tuned.trial_results, key=lambda one: (-one.quality.mean, one.median_ms))
    ]
    if all(one.cost_usd == 0 for one in tuned.trial_results):
        head, rows = head[:-1], [row[:-1] for row in rows]
    left = 2 + len(names)
    widths = [max(len(row[at]) for row in [head, *rows]) for at in range(len(head))]
    return [
        "  ".join(
            cell.ljust(width) if at < left else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in [head, *rows]
    ]


def format_remarks(tuned: TuneResult) -> list[str]:
    """The lines below the table: significance, holdout result, work done."""
    options, others = tuned.grid.options, len(tuned.equivalent_to_best) - 1
    lines = [
        f"* winner; = {others} {'other' if others == 1 else 'others'} of {len(tuned.trial_results)} not significantly "
        f"worse than the best on {tuned.selection_questions} questions (95 % paired bootstrap)"
    ]
    if options.choose != "best":
        lines.append(f"winner: the {options.choose} of these")
    quick = min(tuned.equivalent_to_best, key=lambda one: one.median_ms)
    if quick.median_ms < tuned.winner.median_ms / 2:
        times = f"{quick.median_ms:.1f} ms instead of {tuned.winner.median_ms:.1f}"
        lines.append(f"of these, #{quick.trial.number} is much faster ({times}): select it with `choose: fastest`")
    if tuned.holdout_results:
        lines += _format_holdout(tuned.holdout_results, options.metric)
    else:
        lines.append(
            "the winner was selected and evaluated on the same questions, so its score is biased: remove `holdout: 0`"
        )
    counts = tuned.counts
    lines.append(
        f"this run: {counts['indexes']} indexes, {counts['read']:,} files read, {counts['split']:,} split; "
        f"texts embedded {counts['embedded']:,}, distinct (text, embedder) {counts['distinct']:,}, "
        f"vectors reused {counts['taken']:,}; "
        f"{tuned.seconds:.1f} s, {tuned.cpu_seconds:.1f} CPU s, {_format_cost(tuned.usage.total_cost_usd)}"
    )
    return [*lines, *(f"note: {note}" for note in tuned.notes)]


def tune_result_to_json(tuned: TuneResult) -> dict[str, JSON]:
    """The result as a JSON object."""
    front = _pareto_numbers(tuned.trial_results)
    return {
        "grid": str(tuned.grid.path),
        "metric": tuned.grid.options.metric,
        "choose": tuned.grid.options.choose,
        "questions": {
            "choose": tuned.selection_questions,
            "held_out": tuned.holdout_results[0].quality.n if tuned.holdout_results else 0,
        },
        "trials": [_trial_to_json(result, tuned.winner, front) for result in tuned.trial_results],
        "winner": tuned.winner.trial.number,
        "held_out": [
            {"number": one.trial.number, "quality": asdict(one.quality), "p": one.p_value}
            for one in tuned.holdout_results
        ],
        "counts": dict(tuned.counts),
        "usage": tuned.usage.to_dict(),
        "seconds": tuned.seconds,
        "cpu_seconds": tuned.cpu_seconds,
        "notes": list(tuned.notes),
    }


def format_winner_file(tuned: TuneResult, today: dt.date) -> str:
    """The winner as a pipeline file, with its metrics in a comment."""
    one, options = tuned.winner, tuned.grid.options
    lines = [
        f"Selected by `ragkit tune {tuned.grid.path.name}` (ragkit {__version__}, {today.isoformat()})",
        f"from {len(tuned.trial_results)} trials: {one.trial.label}",
        f"{options.metric} {_format_figure(one.quality)} on {tuned.selection_questions} questions that selected it",
        *(
            f"{options.metric} {_format_figure(held.quality)} on {held.quality.n} held-out questions"
            for held in tuned.holdout_results[:1]
        ),
        f"{one.median_ms:.1f} ms {'an answer' if options.uses_answers else 'a search'} (p50); "
        f"{len(tuned.equivalent_to_best) - 1} others are not significantly worse than the best",
    ]
    return "".join(f"# {line}\n" for line in lines) + one.trial.pipeline.to_yaml()


def _format_holdout(held: Sequence[HoldoutResult], metric: str) -> list[str]:
    winner = held[0]
    lines = [f"{winner.quality.n} held-out questions: {metric} {_format_figure(winner.quality)} for the winner"]
    lines += [
        f"  and {_format_figure(base.quality)} for the base pipeline, {base.trial.label} (p {base.p_value:.3f})"
        for base in held[1:]
    ]
    return lines


def _trial_to_json(one: TrialResult, winner: TrialResult, front: set[int]) -> dict[str, JSON]:
    return {
        "number": one.trial.number,
        "changes": dict(one.trial.changes),
        "quality": asdict(one.quality),
        "behind": asdict(one.gap_to_best),
        "told_apart_from_best": one.is_worse,
        "winner": one is winner,
        "pareto": one.trial.number in front,
        "ms_p50": one.median_ms,
        "index_seconds": one.index_cost.seconds,
        "index_cost_usd": one.index_cost.cost_usd,
        "cost_usd_index_and_1000_questions": one.cost_usd,
        "chunks": one.chunks,
        "bytes": one.bytes,
        "resumed": one.resumed,
        "rows": [asdict(row) for row in one.rows],
    }


def _pareto_numbers(results: Sequence[TrialResult]) -> set[int]:
    """Numbers of the trials on the Pareto front of quality and latency."""
    front = pareto_indices([(result.median_ms, result.quality.mean) for result in results])
    return {results[index].trial.number for index in front}


def _rank_symbol(one: TrialResult, winner: TrialResult) -> str:
    return "*" if one is winner else "" if one.is_worse else "="


def _format_interval(one: BootstrapEstimate) -> str:
    return f"{one.low:.4f} to {one.high:.4f}"


def _format_figure(one: BootstrapEstimate) -> str:
    return f"{one.mean:.4f} ({_format_interval(one)})"


def _format_size(count: int) -> str:
    return f"{count / 1e6:.1f} MB"


def _format_cost(cost: float | None) -> str:
    return "price unknown" if cost is None else "no cost" if cost == 0 else f"${cost:.4f}"
