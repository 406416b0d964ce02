"""`ragkit tune`: many settings on one's own questions, and the best of them as a pipeline file."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import click

from ragkit.cli.common import Shell, verb
from ragkit.cli.files import write_file
from ragkit.cli.money import max_cost_option
from ragkit.errors import RagkitError
from ragkit.pipeline.tuning import Tuned, Tuning
from ragkit.pipeline.tuning_grid import read_grid
from ragkit.pipeline.tuning_report import remarks, table, to_json, winner_file


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
@verb
def command(
    shell: Shell,
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
        _drawing()  # a missing extra is told now, not after an hour
    read = read_grid(grid)
    shell.say(f"{len(read.trials)} trials")
    tuned = Tuning(read, work, jobs, shell.say).run(max_cost)
    write_file(write, winner_file(tuned, dt.datetime.now(dt.UTC).date()))
    if picture is not None:
        write_file(picture, _drawing()(tuned))
    if shell.json:
        shell.out_json({**to_json(tuned), "written": str(write), "plot": str(picture) if picture else None})
        return 0
    _print(shell, tuned)
    shell.say(f"written: {write}" + (f", {picture}" if picture else ""))
    return 0


def _drawing() -> Callable[[Tuned], bytes]:
    """What draws; Matplotlib is imported here and not by those who want no picture. Raises MissingExtra."""
    from ragkit.pipeline.tuning_plot import plot  # noqa: PLC0415

    return plot


def _print(shell: Shell, tuned: Tuned) -> None:
    head, *rows = table(tuned)
    shell.out(click.style(head, bold=True))
    for row in rows:
        shell.out(click.style(row, fg="green") if row.startswith("*") else row)
    for line in remarks(tuned):
        shell.out(line)
