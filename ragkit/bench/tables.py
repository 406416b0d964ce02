"""A result as tables of text: for the terminal and for the report alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ragkit.bench.ground_truth import condition_name
from ragkit.bench.numpy_reference import REFERENCE_NAME
from ragkit.bench.results import BenchResult, StoreResult
from ragkit.records import JSON

MedianValues = Mapping[str, float]
NO_VALUE = "–"


@dataclass(frozen=True)
class ResultTable:
    """Text in columns; the first is the store, the others are numbers."""

    title: str
    note: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    reference_rows: int = 0
    """So many of the last rows are no stores."""


def build_tables(outcome: BenchResult) -> list[ResultTable]:
    """The result in three tables, stores in the order of their p50, floors last; what was never asked is left out."""
    lines = sorted(
        (line for line in outcome.stores if "p50_ms" in line.medians()),
        key=lambda line: (line.entry.name == REFERENCE_NAME, line.medians()["p50_ms"]),
    )
    if not lines:
        return []
    return [_search_table(outcome, lines), _filter_table(outcome, lines), _storage_table(lines)]


def describe_conditions(outcome: BenchResult) -> list[str]:
    """What must be said beside the tables: what was measured, on what, and which stores have fallen out."""
    settings, machine, data = outcome.settings, outcome.machine, outcome.data
    said = [
        f"{data['name']}, {data['queries']} queries; top {settings['top_k']};"
        f" {_format_rounds(settings['rounds'])}, stores asked in turn",
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gb']} GB, {machine['system']},"
        f" Python {machine['python']}",
        f"one thread on one core but for q/s of {settings['threads']} threads; a store's server has what it takes",
    ]
    read = read_lower_bound(outcome)
    if read:
        milliseconds, bandwidth = read
        said.append(
            f"no exact search over float32 rows on one thread is faster than {milliseconds:.3g} ms:"
            f" reading them once takes that long ({bandwidth:.1f} GB/s)"
        )
    return said


def incomplete_stores(outcome: BenchResult) -> list[tuple[str, str, str]]:
    """(label, status, reason) of every line that is not as it should be."""
    return [
        (line.entry.label, "" if line.status == "ok" else line.status, line.reason)
        for line in outcome.stores
        if line.reason
    ]


def read_lower_bound(outcome: BenchResult) -> tuple[float, float] | None:
    """How long reading all rows once takes, in milliseconds, and the bandwidth of it in GB/s; None: not measured.

    Of the best round, since it is a bound: other work on the machine can only make it look looser.
    """
    figures = [figure for line in outcome.stores for figure in line.measurements]
    times = [figure.value for figure in figures if figure.name == "read_ms"]
    bandwidths = [figure.value for figure in figures if figure.name == "read_gb_s"]
    return (min(times), max(bandwidths)) if times and bandwidths else None


def format_number(value: float) -> str:
    """Three digits that count: `0.123`, `12.3`, `1,230`, `1,234,567`."""
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.3g}"


def format_share(share: float) -> str:
    """`50 %`, `0.1 %`, in one piece."""
    return f"{share * 100:g}\u00a0%"


def _format_rounds(rounds: JSON) -> str:
    return "one round" if rounds == 1 else f"medians of {rounds} rounds"


def _search_table(outcome: BenchResult, lines: Sequence[StoreResult]) -> ResultTable:
    columns: tuple[tuple[str, Callable[[MedianValues], str]], ...] = (
        (f"recall@{outcome.settings['top_k']}", _recall_cell("recall")),
        ("p50 ms", _number_cell("p50_ms")),
        ("p95 ms", _number_cell("p95_ms")),
        ("p99 ms", _number_cell("p99_ms")),
        ("CPU ms", _number_cell("cpu_ms")),
        ("q/s, 1 thread", _number_cell("qps_1")),
        (f"q/s, {outcome.settings['threads']} threads", _number_cell("qps_n")),
        ("$/M queries", _number_cell("dollars")),
    )
    return _make_table("Asking", "The time that a caller waits for hits with their texts and metadata.", columns, lines)


def _filter_table(outcome: BenchResult, lines: Sequence[StoreResult]) -> ResultTable:
    shares = outcome.settings["shares"]
    columns: list[tuple[str, Callable[[MedianValues], str]]] = []
    for share in shares if isinstance(shares, list) else ():
        name = condition_name(share)
        columns += [
            (f"{format_share(share)}: p50 ms", _number_cell(f"{name}:p50_ms")),
            ("recall", _recall_cell(f"{name}:recall")),
        ]
    note = "A filter on one number, which lets this share of the rows through."
    return _make_table("Asking with a filter", note, columns, lines)


def _storage_table(lines: Sequence[StoreResult]) -> ResultTable:
    columns: tuple[tuple[str, Callable[[MedianValues], str]], ...] = (
        ("build rows/s", _number_cell("build_rate")),
        ("CPU s", _number_cell("build_cpu_s")),
        ("add 1\u00a0% ms", _number_cell("add_ms")),
        ("delete 1\u00a0% ms", _number_cell("delete_ms")),
        ("recall then", _recall_cell("recall_after")),
        ("cold open ms", _number_cell("cold_ms")),
        ("disk / rows", _ratio_cell("disk_bytes")),
        ("memory / rows", _number_cell("build_memory")),
        ("asking", _number_cell("query_memory")),
    )
    note = (
        "Up to the first answer each time. Disk and peak memory over the bytes of the rows as float32;"
        " memory while building and while asking, without the packages themselves."
    )
    return _make_table("Building and keeping", note, columns, lines)


def _make_table(
    title: str, note: str, columns: Sequence[tuple[str, Callable[[MedianValues], str]]], lines: Sequence[StoreResult]
) -> ResultTable:
    figures = [line.medians() for line in lines]
    used = [
        (name, write)
        for name, write in columns
        if name == "recall" or any(write(found) != NO_VALUE for found in figures)
    ]
    rows = tuple(
        (line.entry.label, *(write(found) for _, write in used)) for line, found in zip(lines, figures, strict=True)
    )
    floors = sum(line.entry.name == REFERENCE_NAME for line in lines)
    return ResultTable(title, note, ("store", *(name for name, _ in used)), rows, floors)


def _number_cell(name: str) -> Callable[[MedianValues], str]:
    return lambda figures: format_number(figures[name]) if name in figures else NO_VALUE


def _recall_cell(name: str) -> Callable[[MedianValues], str]:
    return lambda figures: f"{figures[name]:.4f}" if name in figures else NO_VALUE


def _ratio_cell(name: str) -> Callable[[MedianValues], str]:
    return lambda figures: format_number(figures[name] / figures["raw_bytes"]) if name in figures else NO_VALUE
