"""`python -m tests.torture`: interrupt the command line, print the faults, write the counts."""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # this process forks, so it must have no threads
os.environ["OMP_NUM_THREADS"] = "1"

from tests.torture.kinds import FULL, KILLS_AROUND, NAMES, SMALL
from tests.torture.run import Plan, replay, run_all
from tests.torture.scoreboard import (
    Board,
    Cell,
    Cells,
    add_cells,
    read_board,
    release_table,
    summary,
    table,
    tree_name,
    write_board,
)
from tests.torture.subjects import STORES

DETAILS = {
    KILLS_AROUND: (
        ("writer", "writers"),
        ("worker", "workers"),
        ("reader", "readers"),
        ("session", "connections (`pg_terminate_backend`)"),
        ("server", "whole servers"),
        ("backend", "server processes were killed"),
        ("Ctrl-C", "processes were interrupted with Ctrl-C"),
        ("generations", "generations were written"),
        ("texts_embedded", "texts were embedded"),
        ("texts_answered_in_vain", "of them twice, since the process was killed before it stored the vector"),
    )
}
Numbers = Mapping[str, Mapping[str, int]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the trials and write the counts. Returns 1 if there was a fault."""
    chosen = _parser().parse_args(arguments)
    scratch = chosen.scratch or _scratch()
    if chosen.replay:
        return replay(chosen.replay, scratch)
    tree = tree_name()
    board = read_board(chosen.json)
    wanted = _numbers(chosen)
    if chosen.plan:
        _print_plan(board, tree, wanted)
        return 0
    if not chosen.add:
        for subject, kinds in wanted.items():
            for kind in kinds:
                board.get(tree, {}).pop((subject, kind), None)
    done = board.setdefault(tree, {})
    seed = chosen.seed if chosen.seed is not None else random.SystemRandom().randrange(10**8)
    until = None if chosen.budget is None else time.monotonic() + 60 * chosen.budget
    plan = Plan(wanted, seed, until, chosen.jobs, scratch)
    print(f"seed {seed}; ragkit {tree}; {', '.join(wanted)}; directories in {scratch}", flush=True)
    ran: Board = {tree: {}}
    ended_badly = False
    for cells, whole in run_all(plan, done):
        add_cells(board, tree, cells)
        add_cells(ran, tree, cells)
        _write_results(board, tree, chosen)
        ended_badly = ended_badly or not whole
    print(table(ran[tree], FULL, NAMES))
    _print_rates(ran[tree])
    return 1 if ended_badly or any(cell.failed for cell in ran[tree].values()) else 0


def _numbers(chosen: argparse.Namespace) -> dict[str, dict[str, int]]:
    """Subject -> kind -> breaks that are wanted."""
    subjects = chosen.store or list(STORES if chosen.small else FULL)
    numbers: dict[str, dict[str, int]] = {}
    for subject in subjects:
        counts = dict(SMALL if chosen.small else FULL[subject])
        if chosen.kind:
            counts = {kind: counts[kind] for kind in chosen.kind if kind in counts}
        numbers[subject] = counts if chosen.trials is None else dict.fromkeys(counts, chosen.trials)
    return {subject: counts for subject, counts in numbers.items() if counts}


def _write_results(board: Board, tree: str, chosen: argparse.Namespace) -> None:
    """Update the files after each part of a run, so that a stopped run keeps its results."""
    if chosen.json:
        write_board(chosen.json, board)
    if chosen.table:
        cells = board[tree]
        parts = [summary(cells, tree, DETAILS), release_table(cells, NAMES), table(cells, FULL, NAMES)]
        chosen.table.parent.mkdir(parents=True, exist_ok=True)
        chosen.table.write_text("\n\n".join(parts) + "\n")


def _print_rates(cells: Cells) -> None:
    print("\ntrials a minute:")
    for (subject, kind), cell in cells.items():
        print(f"  {kind}, {subject}: {60 * cell.trials / max(cell.seconds, 0.001):.1f}")


def _print_plan(board: Board, tree: str, wanted: Numbers) -> None:
    """What is missing, and how long it takes at the speed of the version with the most trials of each kind."""
    own, hours = board.get(tree, {}), 0.0
    for subject, kinds in wanted.items():
        for kind, number in kinds.items():
            cell = own.get((subject, kind), Cell())
            if cell.share(number) == 1:
                continue
            timed = [cells[subject, kind] for cells in board.values() if (subject, kind) in cells]
            timed = [other for other in timed if other.seconds and other.reached]
            missing = number - cell.reached
            needed = "never timed"
            if timed:
                most = max(timed, key=lambda one: one.reached)  # the first trials of a kind are slow
                took = missing * most.seconds / most.reached / 3600
                hours, needed = hours + took, f"{took:.2f} h"
            print(f"{kind}, {subject}: {missing:,} of {number:,} missing, {needed}")
    print(f"{hours:.1f} hours, one subject after another")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--store", action="append", choices=list(FULL), help="test only this one; repeatable")
    parser.add_argument("--kind", action="append", choices=list(NAMES), help="test only this kind; repeatable")
    parser.add_argument("--small", action="store_true", help="run the trials of `make test`")
    parser.add_argument("--trials", type=int, help="trials of each kind on each store; default: the full numbers")
    parser.add_argument("--seed", type=int, help="seed of the trials, to repeat a run")
    parser.add_argument(
        "--budget",
        type=float,
        metavar="MINUTES",
        help="maximum duration of the run; what is furthest from full is first",
    )
    parser.add_argument("--jobs", type=int, default=2, help="number of stores tested in parallel")
    parser.add_argument(
        "--replay", metavar="KIND/STORE/NAME", help="repeat one trial, by the name printed with its fault"
    )
    parser.add_argument("--plan", action="store_true", help="print what is missing, run nothing")
    parser.add_argument("--json", type=Path, help="write the counts to this file")
    parser.add_argument("--table", type=Path, help="write the tables to this Markdown file")
    parser.add_argument("--add", action="store_true", help="add to the counts of this version in the file")
    parser.add_argument("--scratch", type=Path, help="parent of the temporary directories")
    return parser


def _scratch() -> Path:
    """A directory in memory if possible: it is faster than a disk, and kills need no disk."""
    memory = Path("/dev/shm")
    return memory if os.access(memory, os.W_OK) else Path(os.environ.get("TMPDIR", "/tmp"))


if __name__ == "__main__":
    sys.exit(main())
