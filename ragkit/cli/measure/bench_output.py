"""Prints the tables of benchmarks on stdout. Adapts the package `rich`."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping

from ragkit.bench.compare import BenchComparison, MetricDifference
from ragkit.bench.metric_names import format_metric, is_shown, metric_name, metric_order
from ragkit.bench.results import BenchResult
from ragkit.bench.run import format_sweep_point
from ragkit.bench.styles import store_colour
from ragkit.bench.tables import ResultTable, build_tables, describe_conditions, incomplete_stores
from ragkit.bench.verdict import decide
from ragkit.errors import MissingExtra

try:
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text
except ModuleNotFoundError as error:
    raise MissingExtra("printing the tables of a benchmark", extra="bench") from error

PLAIN_WIDTH = 118
"""Width of tables that are not printed to a terminal."""
NOTABLE_CHANGE = 0.05
"""Smaller relative changes are not colored."""


def print_results(result: BenchResult) -> None:
    """Print conditions, tables and incomplete stores."""
    console = _create_console()
    for note in describe_conditions(result):
        console.print(Text(note, style="dim"))
    colours = {store.entry.label: store_colour(store.entry.name) for store in result.stores}
    for table in build_tables(result):
        console.print()
        console.print(_render_table(table, colours))
    rows = incomplete_stores(result)
    if rows:
        console.print()
    for label, status, reason in rows:
        message = f"{status}: {reason}" if status else reason
        console.print(Text.assemble((label, "bold"), "  ", (message, "yellow")))
    verdict = decide(result)
    if verdict:
        console.print()
        console.print(Text.assemble(("Verdict", "bold"), "  ", " ".join(verdict.sentences)))


def print_comparison(comparison: BenchComparison) -> None:
    """Print the differences per store and sweep point, improvements in green and regressions in red."""
    console = _create_console()
    console.print(Text(f"{comparison.before} -> {comparison.after}", style="dim"))
    table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
    for position, column in enumerate(("store", "figure", "before", "after", "")):
        table.add_column(column, justify="right" if position > 1 else "left")
    shown = [item for item in comparison.differences if is_shown(item.metric)]
    shown.sort(key=lambda item: (item.label, item.sweep_point, metric_order(item.metric)))
    last = ""
    for item in shown:
        label = _format_point(item)
        if last and label != last:
            table.add_section()
        values = (format_metric(item.metric, value) for value in (item.before, item.after))
        name = Text("" if label == last else label, style=store_colour(item.store))
        table.add_row(name, metric_name(item.metric), *values, _format_change(item))
        last = label
    console.print(table)
    for run, labels in comparison.only_in.items():
        if labels:
            console.print(f"only in {run}: {', '.join(labels)}")


def _format_point(difference: MetricDifference) -> str:
    """The label with the options of the sweep point: `faiss hnsw, ef_search 16`."""
    point = format_sweep_point(json.loads(difference.sweep_point))
    return f"{difference.label}, {point}" if point else difference.label


def _format_change(difference: MetricDifference) -> Text:
    change = difference.relative_change
    style = "" if abs(change) < NOTABLE_CHANGE else "green" if change > 0 else "red"
    word = "" if abs(change) < 0.005 else " better" if change > 0 else " worse"
    return Text(f"{abs(change):,.0%}{word}", style=style)


def _render_table(table: ResultTable, colours: Mapping[str, str]) -> RichTable:
    rendered = RichTable(
        title=Text.assemble((table.title, "bold"), ("  " + table.note, "dim")),
        title_justify="left", title_style="", box=box.SIMPLE_HEAD, pad_edge=False,
    )  # fmt: skip
    for position, column in enumerate(table.columns):
        rendered.add_column(column, justify="right" if position else "left", no_wrap=not position)
    first = len(table.rows) - table.reference_rows
    for position, row in enumerate(table.rows):
        label = Text(row[0], style=colours[row[0]])
        rendered.add_row(label, *row[1:], style="dim italic" if position >= first else "")
    return rendered


def _create_console() -> Console:
    return Console() if sys.stdout.isatty() else Console(width=PLAIN_WIDTH)
