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
    metric, prefix = tuned.grid.options.metric, "" if tuned.grid.options.uses_answers else "search "
    header = ["", "#", *names, metric, "95 % interval", "behind", f"{prefix}ms p50", "index s", "chunks", "bytes"]
    header.append(f"$/index+{COST_QUESTIONS}")
    rows = [
        [
            _rank_symbol(result, tuned.winner),
            str(result.trial.number),
            *(result.trial.changes.get(name, "") for name in names),
            f"{result.quality.mean:.4f}",
            _format_interval(result.quality),
            "" if result.gap_to_best.mean == 0 and result.gap_to_best.high == 0 else f"{result.gap_to_best.mean:.4f}",
            f"{result.median_ms:.1f}",
            f"{result.index_cost.seconds:.1f}",
            f"{result.chunks:,}",
            _format_size(result.bytes),
            _format_cost(result.cost_usd),
        ]
        for result in sorted(tuned.trial_results, key=lambda result: (-result.quality.mean, result.median_ms))
    ]
    if all(result.cost_usd == 0 for result in tuned.trial_results):
        header, rows = header[:-1], [row[:-1] for row in rows]
    left = 2 + len(names)
    widths = [max(len(row[at]) for row in [header, *rows]) for at in range(len(header))]
    return [
        "  ".join(
            text.ljust(width) if at < left else text.rjust(width)
            for at, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in [header, *rows]
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
    fastest = min(tuned.equivalent_to_best, key=lambda result: result.median_ms)
    if fastest.median_ms < tuned.winner.median_ms / 2:
        times = f"{fastest.median_ms:.1f} ms instead of {tuned.winner.median_ms:.1f}"
        lines.append(f"of these, #{fastest.trial.number} is much faster ({times}): select it with `choose: fastest`")
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
            {"number": result.trial.number, "quality": asdict(result.quality), "p": result.p_value}
            for result in tuned.holdout_results
        ],
        "counts": dict(tuned.counts),
        "usage": tuned.usage.to_dict(),
        "seconds": tuned.seconds,
        "cpu_seconds": tuned.cpu_seconds,
        "notes": list(tuned.notes),
    }


def format_winner_file(tuned: TuneResult, today: dt.date) -> str:
    """The winner as a pipeline file, with its metrics in a comment."""
    winner, options = tuned.winner, tuned.grid.options
    lines = [
        f"Selected by `ragkit tune {tuned.grid.path.name}` (ragkit {__version__}, {today.isoformat()})",
        f"from {len(tuned.trial_results)} trials: {winner.trial.label}",
        f"{options.metric} {_format_figure(winner.quality)} on {tuned.selection_questions} questions that selected it",
        *(
            f"{options.metric} {_format_figure(holdout.quality)} on {holdout.quality.n} held-out questions"
            for holdout in tuned.holdout_results[:1]
        ),
        f"{winner.median_ms:.1f} ms {'an answer' if options.uses_answers else 'a search'} (p50); "
        f"{len(tuned.equivalent_to_best) - 1} others are not significantly worse than the best",
    ]
    return "".join(f"# {line}\n" for line in lines) + winner.trial.pipeline.to_yaml()


def _format_holdout(holdout_results: Sequence[HoldoutResult], metric: str) -> list[str]:
    winner = holdout_results[0]
    lines = [f"{winner.quality.n} held-out questions: {metric} {_format_figure(winner.quality)} for the winner"]
    lines += [
        f"  and {_format_figure(base.quality)} for the base pipeline, {base.trial.label} (p {base.p_value:.3f})"
        for base in holdout_results[1:]
    ]
    return lines


def _trial_to_json(result: TrialResult, winner: TrialResult, front: set[int]) -> dict[str, JSON]:
    return {
        "number": result.trial.number,
        "changes": dict(result.trial.changes),
        "quality": asdict(result.quality),
        "behind": asdict(result.gap_to_best),
        "told_apart_from_best": result.is_worse,
        "winner": result is winner,
        "pareto": result.trial.number in front,
        "ms_p50": result.median_ms,
        "index_seconds": result.index_cost.seconds,
        "index_cost_usd": result.index_cost.cost_usd,
        "cost_usd_index_and_1000_questions": result.cost_usd,
        "chunks": result.chunks,
        "bytes": result.bytes,
        "resumed": result.resumed,
        "rows": [asdict(row) for row in result.rows],
    }


def _pareto_numbers(results: Sequence[TrialResult]) -> set[int]:
    """Numbers of the trials on the Pareto front of quality and latency."""
    front = pareto_indices([(result.median_ms, result.quality.mean) for result in results])
    return {results[index].trial.number for index in front}


def _rank_symbol(result: TrialResult, winner: TrialResult) -> str:
    return "*" if result is winner else "" if result.is_worse else "="


def _format_interval(estimate: BootstrapEstimate) -> str:
    return f"{estimate.low:.4f} to {estimate.high:.4f}"


def _format_figure(estimate: BootstrapEstimate) -> str:
    return f"{estimate.mean:.4f} ({_format_interval(estimate)})"


def _format_size(count: int) -> str:
    return f"{count / 1e6:.1f} MB"


def _format_cost(cost: float | None) -> str:
    return "price unknown" if cost is None else "no cost" if cost == 0 else f"${cost:.4f}"
