"""A result as tables of text: for the terminal and for the report alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ragkit.bench.floor import NAME
from ragkit.bench.results import Line, Outcome
from ragkit.bench.truth import condition_of
from ragkit.records import JSON

Figures = Mapping[str, float]
NOTHING = "–"


@dataclass(frozen=True)
class Table:
    """Text in columns; the first is the store, the others are numbers."""

    title: str
    note: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    floors: int = 0
    """So many of the last rows are no stores."""


def tables(outcome: Outcome) -> list[Table]:
    """The result in three tables, stores in the order of their p50, floors last; what was never asked is left out."""
    lines = sorted(
        (line for line in outcome.lines if "p50_ms" in line.medians()),
        key=lambda line: (line.entry.name == NAME, line.medians()["p50_ms"]),
    )
    if not lines:
        return []
    return [_searching(outcome, lines), _filtered(outcome, lines), _keeping(lines)]


def notes(outcome: Outcome) -> list[str]:
    """What must be said beside the tables: what was measured, on what, and which stores have fallen out."""
    settings, machine, data = outcome.settings, outcome.machine, outcome.data
    said = [
        f"{data['name']}, {data['queries']} queries; top {settings['top_k']};"
        f" {_rounds(settings['rounds'])}, stores asked in turn",
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gb']} GB, {machine['system']},"
        f" Python {machine['python']}",
        f"one thread on one core but for q/s of {settings['threads']} threads; a store's server has what it takes",
    ]
    read = read_floor(outcome)
    if read:
        milliseconds, bandwidth = read
        said.append(
            f"no exact search over float32 rows on one thread is faster than {milliseconds:.3g} ms:"
            f" reading them once takes that long ({bandwidth:.1f} GB/s)"
        )
    return said


def fallen(outcome: Outcome) -> list[tuple[str, str, str]]:
    """(label, status, reason) of every line that is not as it should be."""
    return [
        (line.entry.label, "" if line.status == "ok" else line.status, line.reason)
        for line in outcome.lines
        if line.reason
    ]


def read_floor(outcome: Outcome) -> tuple[float, float] | None:
    """How long reading all rows once takes, in milliseconds, and the bandwidth of it in GB/s; None: not measured.

    Of the best round, since it is a bound: other work on the machine can only make it look looser.
    """
    figures = [figure for line in outcome.lines for figure in line.figures]
    times = [figure.value for figure in figures if figure.name == "read_ms"]
    bandwidths = [figure.value for figure in figures if figure.name == "read_gb_s"]
    return (min(times), max(bandwidths)) if times and bandwidths else None


def number(value: float) -> str:
    """Three digits that count: `0.123`, `12.3`, `1,230`, `1,234,567`."""
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.3g}"


def share_name(share: float) -> str:
    """`50 %`, `0.1 %`, in one piece."""
    return f"{share * 100:g}\u00a0%"


def _rounds(rounds: JSON) -> str:
    return "one round" if rounds == 1 else f"medians of {rounds} rounds"


def _searching(outcome: Outcome, lines: Sequence[Line]) -> Table:
    columns: tuple[tuple[str, Callable[[Figures], str]], ...] = (
        (f"recall@{outcome.settings['top_k']}", _recall("recall")),
        ("p50 ms", _figure("p50_ms")),
        ("p95 ms", _figure("p95_ms")),
        ("p99 ms", _figure("p99_ms")),
        ("CPU ms", _figure("cpu_ms")),
        ("q/s, 1 thread", _figure("qps_1")),
        (f"q/s, {outcome.settings['threads']} threads", _figure("qps_n")),
        ("$/M queries", _figure("dollars")),
    )
    return _table("Asking", "The time that a caller waits for hits with their texts and metadata.", columns, lines)


def _filtered(outcome: Outcome, lines: Sequence[Line]) -> Table:
    shares = outcome.settings["shares"]
    columns: list[tuple[str, Callable[[Figures], str]]] = []
    for share in shares if isinstance(shares, list) else ():
        name = condition_of(share)
        columns += [
            (f"{share_name(share)}: p50 ms", _figure(f"{name}:p50_ms")),
            ("recall", _recall(f"{name}:recall")),
        ]
    note = "A filter on one number, which lets this share of the rows through."
    return _table("Asking with a filter", note, columns, lines)


def _keeping(lines: Sequence[Line]) -> Table:
    columns: tuple[tuple[str, Callable[[Figures], str]], ...] = (
        ("build rows/s", _figure("build_rate")),
        ("CPU s", _figure("build_cpu_s")),
        ("add 1\u00a0% ms", _figure("add_ms")),
        ("delete 1\u00a0% ms", _figure("delete_ms")),
        ("recall then", _recall("recall_after")),
        ("cold open ms", _figure("cold_ms")),
        ("disk / rows", _ratio("disk_bytes")),
        ("memory / rows", _figure("build_memory")),
        ("asking", _figure("query_memory")),
    )
    note = (
        "Up to the first answer each time. Disk and peak memory over the bytes of the rows as float32;"
        " memory while building and while asking, without the packages themselves."
    )
    return _table("Building and keeping", note, columns, lines)


def _table(
    title: str, note: str, columns: Sequence[tuple[str, Callable[[Figures], str]]], lines: Sequence[Line]
) -> Table:
    figures = [line.medians() for line in lines]
    used = [
        (name, write)
        for name, write in columns
        if name == "recall" or any(write(found) != NOTHING for found in figures)
    ]
    rows = tuple(
        (line.entry.label, *(write(found) for _, write in used)) for line, found in zip(lines, figures, strict=True)
    )
    floors = sum(line.entry.name == NAME for line in lines)
    return Table(title, note, ("store", *(name for name, _ in used)), rows, floors)


def _figure(name: str) -> Callable[[Figures], str]:
    return lambda figures: number(figures[name]) if name in figures else NOTHING


def _recall(name: str) -> Callable[[Figures], str]:
    return lambda figures: f"{figures[name]:.4f}" if name in figures else NOTHING


def _ratio(name: str) -> Callable[[Figures], str]:
    return lambda figures: number(figures[name] / figures["raw_bytes"]) if name in figures else NOTHING
