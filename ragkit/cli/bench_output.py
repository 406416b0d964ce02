"""How a benchmark is shown: a bar while it runs, on stderr; its tables at the end, on stdout."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from ragkit.bench.compare import BenchComparison, MetricDifference
from ragkit.bench.results import BenchResult
from ragkit.bench.run import BenchEvent, BenchStep, StoreDropped
from ragkit.bench.tables import ResultTable, build_tables, describe_conditions, format_number, incomplete_stores
from ragkit.cli.common import CliContext

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

LOG_INTERVAL_S = 15.0
"""Between two lines where there is no terminal."""
PLAIN_WIDTH = 118
"""Columns of a table that goes to a file."""
NOTABLE_CHANGE = 0.05
"""A change by less than this share is not coloured."""


class BenchProgress:
    """Told of every step, in a `with` block: a bar on a terminal, else a line now and then."""

    def __init__(self, shell: CliContext) -> None:
        self._shell = shell
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        self._logged_at = time.monotonic()

    def __enter__(self) -> BenchProgress:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Take the bar away. Stopping twice is fine."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def handle_event(self, event: BenchEvent) -> None:
        """Show one event."""
        if isinstance(event, StoreDropped):
            self._shell.log(f"{event.label} takes no further part: {event.reason}")
        elif self._shell.quiet:
            return
        elif sys.stderr.isatty():
            self._update_bar(event)
        elif time.monotonic() - self._logged_at >= LOG_INTERVAL_S:
            self._logged_at = time.monotonic()
            self._shell.log(f"{event.number} of {event.total} steps: {event.label}, {event.action}")

    def _update_bar(self, step: BenchStep) -> None:
        if self._bar is None:
            # here, not at the head: a run without a terminal shall not pay for the import
            from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bar

            columns = (BarColumn(bar_width=30), TimeElapsedColumn(), TextColumn("{task.description}"))
            self._bar = Bar(*columns, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task("", total=step.total)
            self._bar.start()
        if self._task is not None:
            self._bar.update(self._task, completed=step.number, description=f"{step.label}: {step.action}")


def print_results(outcome: BenchResult) -> None:
    """The tables, what must be said beside them, and what was not measured."""
    console = _create_console()
    for note in describe_conditions(outcome):
        console.print(Text(note, style="dim"))
    for table in build_tables(outcome):
        console.print()
        console.print(_render_table(table))
    rows = incomplete_stores(outcome)
    if rows:
        console.print()
    for label, status, reason in rows:
        said = f"{status}: {reason}" if status else reason
        console.print(Text.assemble((label, "bold"), "  ", (said, "yellow")))


def print_comparison(found: BenchComparison) -> None:
    """What differs, better in green and worse in red: each store as it stands, then the points of its curve."""
    console = _create_console()
    console.print(Text(f"{found.before} -> {found.after}", style="dim"))
    table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
    for position, column in enumerate(("store", "figure", "before", "after", "")):
        table.add_column(column, justify="right" if position > 1 else "left")
    last = ""
    for one in found.differences:
        label = one.label if one.sweep_point == "{}" else f"{one.label} {one.sweep_point}"
        table.add_row(
            "" if label == last else label,
            one.metric,
            format_number(one.before),
            format_number(one.after),
            _format_change(one),
        )
        last = label
    console.print(table)
    for run, labels in found.only_in.items():
        if labels:
            console.print(f"only in {run}: {', '.join(labels)}")


def _format_change(one: MetricDifference) -> Text:
    style = "" if abs(one.relative_change) < NOTABLE_CHANGE else "green" if one.relative_change > 0 else "red"
    word = "" if abs(one.relative_change) < 0.005 else " better" if one.relative_change > 0 else " worse"
    return Text(f"{abs(one.relative_change):.0%}{word}", style=style)


def _render_table(table: ResultTable) -> RichTable:
    drawn = RichTable(
        title=Text.assemble((table.title, "bold"), ("  " + table.note, "dim")),
        title_justify="left", title_style="", box=box.SIMPLE_HEAD, pad_edge=False,
    )  # fmt: skip
    for position, column in enumerate(table.columns):
        drawn.add_column(column, justify="right" if position else "left", no_wrap=not position)
    first = len(table.rows) - table.reference_rows
    for position, row in enumerate(table.rows):
        drawn.add_row(*row, style="dim italic" if position >= first else "")
    return drawn


def _create_console() -> Console:
    return Console() if sys.stdout.isatty() else Console(width=PLAIN_WIDTH)
