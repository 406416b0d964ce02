"""`ragkit tune`: find the best settings by grid search."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import click

from ragkit.cli.common import PATH, CliContext, with_common_options, write_file
from ragkit.cli.costs import max_cost_option
from ragkit.errors import RagkitError
from ragkit.tune.grid import read_grid
from ragkit.tune.report import format_remarks, format_trial_table, format_winner_file, tune_result_to_json
from ragkit.tune.search import GridSearch, TuneResult


@click.command()
@click.argument("grid", type=PATH)
@click.option("--work", type=PATH, default=Path(".ragkit-tune"), metavar="DIR",
              help="Directory of indexes and results, to resume a run (default: .ragkit-tune).")  # fmt: skip
@click.option("--save", type=PATH, default=Path("tuned.yaml"), metavar="FILE",
              help="Write the best settings as a pipeline file (default: tuned.yaml).")  # fmt: skip
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@max_cost_option("Maximum cost of all trials")
@click.option(
    "--jobs", type=click.IntRange(min=0), default=0, metavar="N", help="Number of processes that load and split files."
)
@with_common_options
def command(
    context: CliContext, grid: Path, work: Path, save: Path, force: bool, max_cost: float | None, jobs: int
) -> int:
    """Find the best settings of GRID for your own questions.

    GRID is a YAML file with `documents`, `questions`, `metric` and `grid`: options of a pipeline file, each with a list
    of values. Half of the questions select the best settings, the other half evaluates them. Trials share loaded
    files, chunks and embeddings.

    \b
        ragkit tune grid.yaml
        ragkit index docs/ --pipeline tuned.yaml
    """
    if save.exists() and not force:
        raise RagkitError(f"{save} exists: choose another file with --save, or add --force")
    search_grid = read_grid(grid)
    context.log(f"{len(search_grid.trials)} trials")
    result = GridSearch(search_grid, work, jobs, context.log).run(max_cost)
    write_file(save, format_winner_file(result, dt.datetime.now(dt.UTC).date()))
    if context.json:
        context.write_json({**tune_result_to_json(result), "written": str(save)})
        return 0
    _print_table(context, result)
    context.log(f"wrote {save}")
    return 0


def _print_table(context: CliContext, result: TuneResult) -> None:
    head, *rows = format_trial_table(result)
    context.write(click.style(head, bold=True))
    for row in rows:
        context.write(click.style(row, fg="green") if row.startswith("*") else row)
    for line in format_remarks(result):
        context.write(line)
