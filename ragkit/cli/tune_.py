"""`ragkit tune`: many settings on one's own questions, and the best of them as a pipeline file."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import click

from ragkit.cli.common import CliContext, with_common_options
from ragkit.cli.costs import max_cost_option
from ragkit.cli.files import write_file
from ragkit.errors import RagkitError
from ragkit.tune.grid import read_grid
from ragkit.tune.report import format_remarks, format_trial_table, format_winner_file, tune_result_to_json
from ragkit.tune.search import GridSearch, TuneResult


@click.command()
@click.argument("grid", type=click.Path(path_type=Path))
@click.option(
    "--work", type=click.Path(path_type=Path), default=Path(".ragkit-tune"), show_default=True, metavar="DIR",
    help="Indexes and results: a run goes on where it stopped.",
)  # fmt: skip
@click.option(
    "--write", type=click.Path(path_type=Path), default=Path("tuned.yaml"), show_default=True, metavar="FILE",
    help="Write the winner as a pipeline file.",
)  # fmt: skip
@click.option("--force", is_flag=True, help="Write over a file that is there.")
@click.option(
    "--plot", "picture", type=click.Path(path_type=Path), metavar="FILE", help="Draw quality against latency."
)
@max_cost_option("Stop before all trials together cost more")
@click.option("--jobs", type=click.IntRange(min=0), default=0, help="Workers that read and split files.")
@with_common_options
def command(
    shell: CliContext,
    grid: Path,
    work: Path,
    write: Path,
    force: bool,
    picture: Path | None,
    max_cost: float | None,
    jobs: int,
) -> int:
    """Try the settings that GRID spans on your own questions.

    GRID is a YAML file with `documents`, `questions`, `metric` and `grid`: options of a pipeline file, each with a list
    of values. Half of the questions choose the winner, the other half tells how good it is. Whatever two settings
    share, reading, splitting and every vector, is done once.

    \b
        ragkit tune grid.yaml --plot tuned.png
        ragkit index docs/ --pipeline tuned.yaml
    """
    if write.exists() and not force:
        raise RagkitError(f"{write} is there already: name another file with --write, or add --force")
    if picture is not None:
        _load_plotter()  # a missing extra is told now, not after an hour
    read = read_grid(grid)
    shell.log(f"{len(read.trials)} trials")
    tuned = GridSearch(read, work, jobs, shell.log).run(max_cost)
    write_file(write, format_winner_file(tuned, dt.datetime.now(dt.UTC).date()))
    if picture is not None:
        write_file(picture, _load_plotter()(tuned))
    if shell.json:
        shell.write_json(
            {**tune_result_to_json(tuned), "written": str(write), "plot": str(picture) if picture else None}
        )
        return 0
    _print_table(shell, tuned)
    shell.log(f"written: {write}" + (f", {picture}" if picture else ""))
    return 0


def _load_plotter() -> Callable[[TuneResult], bytes]:
    """What draws; Matplotlib is imported here and not by those who want no picture. Raises MissingExtra."""
    from ragkit.tune.plot import render_plot

    return render_plot


def _print_table(shell: CliContext, tuned: TuneResult) -> None:
    head, *rows = format_trial_table(tuned)
    shell.write(click.style(head, bold=True))
    for row in rows:
        shell.write(click.style(row, fg="green") if row.startswith("*") else row)
    for line in format_remarks(tuned):
        shell.write(line)
