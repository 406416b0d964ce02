"""Formats a result as text tables, for the terminal and the HTML report."""

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
    """A table of text cells; the first column is the store, the others are numbers."""

    title: str
    note: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    reference_rows: int = 0
    """Number of rows at the end that are references, not stores."""


def build_tables(outcome: BenchResult) -> list[ResultTable]:
    """Three tables with the stores sorted by p50 and references last; stores without queries are omitted."""
    stores = sorted(
        (store for store in outcome.stores if "p50_ms" in store.medians()),
        key=lambda store: (store.entry.name == REFERENCE_NAME, store.medians()["p50_ms"]),
    )
    if not stores:
        return []
    return [_search_table(outcome, stores), _filter_table(outcome, stores), _storage_table(stores)]


def describe_conditions(outcome: BenchResult) -> list[str]:
    """The notes above the tables: data, machine, threads and the lower bound of exact search."""
    settings, machine, data = outcome.settings, outcome.machine, outcome.data
    notes = [
        f"{data['name']}, {data['queries']} queries; top {settings['top_k']};"
        f" {_format_rounds(settings['rounds'])}, stores queried in turn",
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gb']} GB, {machine['system']},"
        f" Python {machine['python']}",
        f"one thread on one core, except q/s with {settings['threads']} threads; servers of stores are not limited",
    ]
    read = read_lower_bound(outcome)
    if read:
        milliseconds, bandwidth = read
        time = f"{milliseconds:.3g} ms, the time to read all rows once ({bandwidth:.1f} GB/s)"
        notes.append(f"lower bound for exact search over float32 rows on one thread: {time}")
    return notes


def incomplete_stores(outcome: BenchResult) -> list[tuple[str, str, str]]:
    """(label, status, reason) of every store that is not or only partly measured."""
    stores = [store for store in outcome.stores if store.reason]
    return [(store.entry.label, "" if store.status == "ok" else store.status, store.reason) for store in stores]


def read_lower_bound(outcome: BenchResult) -> tuple[float, float] | None:
    """The time to read all rows once, in milliseconds, and the bandwidth in GB/s; None: not measured.

    The best round counts, since other load on the machine can only slow it down.
    """
    measurements = [measurement for store in outcome.stores for measurement in store.measurements]
    times = [measurement.value for measurement in measurements if measurement.name == "read_ms"]
    bandwidths = [measurement.value for measurement in measurements if measurement.name == "read_gb_s"]
    return (min(times), max(bandwidths)) if times and bandwidths else None


def format_number(value: float) -> str:
    """Three significant digits below 1,000, integers above: `0.123`, `12.3`, `1,230`, `1,234,567`."""
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.3g}"


def format_share(share: float) -> str:
    """`50 %`, `0.1 %`, with a non-breaking space."""
    return f"{share * 100:g}\u00a0%"


def _format_rounds(rounds: JSON) -> str:
    return "one round" if rounds == 1 else f"medians of {rounds} rounds"


def _search_table(outcome: BenchResult, stores: Sequence[StoreResult]) -> ResultTable:
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
    return _make_table("Queries", "Latency until the caller has the hits with texts and metadata.", columns, stores)


def _filter_table(outcome: BenchResult, stores: Sequence[StoreResult]) -> ResultTable:
    shares = outcome.settings["shares"]
    columns: list[tuple[str, Callable[[MedianValues], str]]] = []
    for share in shares if isinstance(shares, list) else ():
        name = condition_name(share)
        columns += [
            (f"{format_share(share)}: p50 ms", _number_cell(f"{name}:p50_ms")),
            ("recall", _recall_cell(f"{name}:recall")),
        ]
    note = "A filter on one numeric field that selects this share of the rows."
    return _make_table("Filtered queries", note, columns, stores)


def _storage_table(stores: Sequence[StoreResult]) -> ResultTable:
    columns: tuple[tuple[str, Callable[[MedianValues], str]], ...] = (
        ("build rows/s", _number_cell("build_rate")),
        ("CPU s", _number_cell("build_cpu_s")),
        ("add 1\u00a0% ms", _number_cell("add_ms")),
        ("delete 1\u00a0% ms", _number_cell("delete_ms")),
        ("recall after", _recall_cell("recall_after")),
        ("cold open ms", _number_cell("cold_ms")),
        ("disk / rows", _ratio_cell("disk_bytes")),
        ("build memory / rows", _number_cell("build_memory")),
        ("query memory / rows", _number_cell("query_memory")),
    )
    note = (
        "Times include the first query. Disk usage and peak memory are relative to the size of the rows as float32;"
        " memory is without the packages."
    )
    return _make_table("Build and storage", note, columns, stores)


def _make_table(
    title: str, note: str, columns: Sequence[tuple[str, Callable[[MedianValues], str]]], stores: Sequence[StoreResult]
) -> ResultTable:
    medians = [store.medians() for store in stores]
    is_measured = [any(cell(values) != NO_VALUE for values in medians) for _, cell in columns]
    used = [column for column, measured in zip(columns, is_measured, strict=True) if measured or column[0] == "recall"]
    rows = tuple(
        (store.entry.label, *(cell(values) for _, cell in used)) for store, values in zip(stores, medians, strict=True)
    )
    references = sum(store.entry.name == REFERENCE_NAME for store in stores)
    return ResultTable(title, note, ("store", *(name for name, _ in used)), rows, references)


def _number_cell(name: str) -> Callable[[MedianValues], str]:
    return lambda medians: format_number(medians[name]) if name in medians else NO_VALUE


def _recall_cell(name: str) -> Callable[[MedianValues], str]:
    return lambda medians: f"{medians[name]:.4f}" if name in medians else NO_VALUE


def _ratio_cell(name: str) -> Callable[[MedianValues], str]:
    return lambda medians: format_number(medians[name] / medians["raw_bytes"]) if name in medians else NO_VALUE
