"""What a grid came to: as a table, as JSON, and the winner as a pipeline file."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import asdict

from ragkit import __version__
from ragkit.evaluate.intervals import Figure
from ragkit.pipeline.tuning import PER, HeldOut, Tried, Tuned, pareto
from ragkit.records import JSON


def table(tuned: Tuned) -> list[str]:
    """A line for each trial, the best first, under a head; then what it all means."""
    names = list(dict.fromkeys(name for one in tuned.tried for name in one.trial.changes))
    metric, lead = tuned.grid.options.metric, "" if tuned.grid.options.asks else "search "
    head = [
        "",
        "#",
        *names,
        metric,
        "95 % interval",
        "behind",
        f"{lead}ms p50",
        "index s",
        "chunks",
        "bytes",
        f"$/index+{PER}",
    ]
    rows = [
        [
            _mark(one, tuned.winner),
            str(one.trial.number),
            *(one.trial.changes.get(name, "") for name in names),
            f"{one.quality.mean:.4f}",
            _span(one.quality),
            "" if one.behind.mean == 0 and one.behind.high == 0 else f"{one.behind.mean:.4f}",
            f"{one.milliseconds:.1f}",
            f"{one.price.seconds:.1f}",
            f"{one.chunks:,}",
            _size(one.bytes),
            _dollars(one.cost_usd),
        ]
        for one in sorted(tuned.tried, key=lambda one: (-one.quality.mean, one.milliseconds))
    ]
    if all(one.cost_usd == 0 for one in tuned.tried):
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


def remarks(tuned: Tuned) -> list[str]:
    """What a reader must know of the table."""
    options, alike = tuned.grid.options, len(tuned.alike)
    lines = [
        f"* the winner; = {alike - 1} {'other' if alike == 2 else 'others'} of {len(tuned.tried)} cannot be told from "
        f"the best on these {tuned.chosen_on} questions (95 % paired bootstrap)"
    ]
    if options.choose != "best":
        lines.append(f"winner: the {options.choose} of those")
    quick = min(tuned.alike, key=lambda one: one.milliseconds)
    if quick.milliseconds < tuned.winner.milliseconds / 2:
        times = f"{quick.milliseconds:.1f} ms against {tuned.winner.milliseconds:.1f}"
        lines.append(f"of those, #{quick.trial.number} is much faster ({times}): `choose: fastest` takes it")
    if tuned.held_out:
        lines += _of_held_out(tuned.held_out, options.metric)
    else:
        lines.append(
            "the winner was chosen and judged on the same questions: its figure is flattered; leave out `holdout: 0`"
        )
    c = tuned.counts
    lines.append(
        f"this run: {c['indexes']} indexes, {c['read']:,} files read, {c['split']:,} split; texts embedded "
        f"{c['embedded']:,}, distinct (text, embedder) {c['distinct']:,}, vectors taken over {c['taken']:,}; "
        f"{tuned.seconds:.1f} s, {tuned.cpu_seconds:.1f} CPU s, {_dollars(tuned.usage.total_cost_usd)}"
    )
    return [*lines, *(f"note: {one}" for one in tuned.notes)]


def to_json(tuned: Tuned) -> dict[str, JSON]:
    """The same as one JSON object."""
    best = _on_the_front(tuned.tried)
    return {
        "grid": str(tuned.grid.path),
        "metric": tuned.grid.options.metric,
        "choose": tuned.grid.options.choose,
        "questions": {"choose": tuned.chosen_on, "held_out": tuned.held_out[0].quality.n if tuned.held_out else 0},
        "trials": [_trial(one, tuned.winner, best) for one in tuned.tried],
        "winner": tuned.winner.trial.number,
        "held_out": [
            {"number": one.trial.number, "quality": asdict(one.quality), "p": one.p} for one in tuned.held_out
        ],
        "counts": dict(tuned.counts),
        "usage": tuned.usage.to_dict(),
        "seconds": tuned.seconds,
        "cpu_seconds": tuned.cpu_seconds,
        "notes": list(tuned.notes),
    }


def winner_file(tuned: Tuned, today: dt.date) -> str:
    """The winner as a pipeline file, with its figures in a comment."""
    one, options = tuned.winner, tuned.grid.options
    lines = [
        f"Chosen by `ragkit tune {tuned.grid.path.name}` (ragkit {__version__}, {today.isoformat()})",
        f"from {len(tuned.tried)} trials: {one.trial.label}",
        f"{options.metric} {_figure(one.quality)} on the {tuned.chosen_on} questions that chose it",
        *(f"{options.metric} {_figure(held.quality)} on {held.quality.n} that did not" for held in tuned.held_out[:1]),
        f"{one.milliseconds:.1f} ms {'an answer' if options.asks else 'a search'} (p50); "
        f"{len(tuned.alike) - 1} of the others cannot be told from the best",
    ]
    return "".join(f"# {line}\n" for line in lines) + one.trial.pipeline.to_yaml()


def _of_held_out(held: Sequence[HeldOut], metric: str) -> list[str]:
    winner = held[0]
    lines = [
        f"held out, {winner.quality.n} questions that chose nothing: {metric} {_figure(winner.quality)} for the winner"
    ]
    for one in held[1:]:
        lines.append(f"  and {_figure(one.quality)} for the base pipeline, {one.trial.label} (p {one.p:.3f})")
    return lines


def _trial(one: Tried, winner: Tried, front: set[int]) -> dict[str, JSON]:
    return {
        "number": one.trial.number,
        "changes": dict(one.trial.changes),
        "quality": asdict(one.quality),
        "behind": asdict(one.behind),
        "told_apart_from_best": one.told_apart,
        "winner": one is winner,
        "pareto": one.trial.number in front,
        "ms_p50": one.milliseconds,
        "index_seconds": one.price.seconds,
        "index_cost_usd": one.price.cost_usd,
        "cost_usd_index_and_1000_questions": one.cost_usd,
        "chunks": one.chunks,
        "bytes": one.bytes,
        "resumed": one.resumed,
        "rows": [asdict(row) for row in one.rows],
    }


def _on_the_front(tried: Sequence[Tried]) -> set[int]:
    """Numbers of the trials that no other beats in both quality and latency."""
    return {tried[place].trial.number for place in pareto([(one.milliseconds, one.quality.mean) for one in tried])}


def _mark(one: Tried, winner: Tried) -> str:
    return "*" if one is winner else "" if one.told_apart else "="


def _span(one: Figure) -> str:
    return f"{one.low:.4f} to {one.high:.4f}"


def _figure(one: Figure) -> str:
    return f"{one.mean:.4f} ({_span(one)})"


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB"


def _dollars(cost: float | None) -> str:
    return "price unknown" if cost is None else "no cost" if cost == 0 else f"${cost:.4f}"
