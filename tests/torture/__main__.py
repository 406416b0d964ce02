"""`python -m tests.torture`: interrupt the command line, print the faults, write the counts."""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # this process forks, so it must have no threads
os.environ["OMP_NUM_THREADS"] = "1"

from tests.torture.bench import Bench, TrialKind, open_bench
from tests.torture.kinds import FULL, KINDS, SMALL
from tests.torture.scoreboard import Cell, merged, read_board, table, write_board, write_table

STORES = ("sqlite", "faiss", "duckdb", "qdrant", "milvus", "chroma", "lancedb")
BATCH = 10
"""Trials of one kind before the next kind, so that a run that stops early has trials of every kind."""


@dataclass(frozen=True)
class Plan:
    """Settings of a run."""

    stores: tuple[str, ...]
    counts: dict[str, int]
    """Kind -> trials per store."""
    seed: int
    minutes: float | None
    jobs: int
    scratch: Path


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the trials and write the counts. Returns 1 if there was a fault."""
    chosen = _parser().parse_args(arguments)
    scratch = chosen.scratch or _scratch()
    if chosen.replay:
        return _replay(chosen.replay, scratch)
    counts = dict(SMALL if chosen.small else FULL)
    if chosen.kind:
        counts = {kind: counts.get(kind, FULL[kind]) for kind in chosen.kind}
    if chosen.trials is not None:
        counts = dict.fromkeys(counts, chosen.trials)
    seed = chosen.seed if chosen.seed is not None else random.SystemRandom().randrange(10**8)
    plan = Plan(tuple(chosen.store or STORES), counts, seed, chosen.budget, chosen.jobs, scratch)
    print(f"seed {seed}; stores: {', '.join(plan.stores)}; directories in {scratch}", flush=True)
    started_at = time.monotonic()
    all_cells: dict[tuple[str, str], Cell] = {}
    ended_badly = False
    for cells, whole in _run_all(plan):
        about = {"seed": seed, "minutes": round((time.monotonic() - started_at) / 60, 1)}
        _write_results(cells, about, chosen)
        all_cells |= cells
        ended_badly = ended_badly or not whole
    print(table(merged({}, all_cells, add=False), list(KINDS)))
    return 1 if ended_badly or any(cell.failed for cell in all_cells.values()) else 0


def _write_results(cells: dict[tuple[str, str], Cell], about: dict[str, object], chosen: argparse.Namespace) -> None:
    """Update the files after each store, so that a stopped run keeps its results."""
    if chosen.json:
        board = merged(read_board(chosen.json), cells, add=chosen.add)
        write_board(chosen.json, board, about)
        if chosen.table:
            write_table(chosen.table, table(board, list(KINDS)))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--store", action="append", choices=STORES, help="test only this store; repeatable")
    parser.add_argument("--kind", action="append", choices=list(KINDS), help="test only this kind; repeatable")
    parser.add_argument("--small", action="store_true", help="run the trials of `make test`")
    parser.add_argument("--trials", type=int, help="trials of each kind on each store; default: the full numbers")
    parser.add_argument("--seed", type=int, help="seed of the trials, to repeat a run")
    parser.add_argument("--budget", type=float, metavar="MINUTES", help="maximum duration of the run")
    parser.add_argument("--jobs", type=int, default=2, help="number of stores tested in parallel")
    parser.add_argument(
        "--replay", metavar="KIND/STORE/NAME", help="repeat one trial, by the name printed with its fault"
    )
    parser.add_argument("--json", type=Path, help="write the counts to this file")
    parser.add_argument("--table", type=Path, help="write the table between its marks in this file")
    parser.add_argument("--add", action="store_true", help="add to the counts in the file")
    parser.add_argument("--scratch", type=Path, help="parent of the temporary directories")
    return parser


def _scratch() -> Path:
    """A directory in memory if possible: it is faster than a disk, and kills need no disk."""
    memory = Path("/dev/shm")
    return memory if os.access(memory, os.W_OK) else Path(os.environ.get("TMPDIR", "/tmp"))


def _replay(name: str, scratch: Path) -> int:
    kind, store, key = name.split("/", 2)
    with open_bench(store, scratch) as bench:
        outcome = KINDS[kind].trial(bench, key)
    for fault in outcome.faults:
        print(f"{fault.kind}: {fault.what}")
    print(f"{len(outcome.faults)} faults{'' if outcome.reached else '; the interruption came too late'}")
    return 1 if outcome.faults else 0


def _run_all(plan: Plan) -> Iterator[tuple[dict[tuple[str, str], Cell], bool]]:
    """Run each store in a separate process, up to `jobs` in parallel. Yields its counts, and whether it completed."""
    waiting = list(plan.stores)
    rounds = -(-len(waiting) // plan.jobs)
    running: dict[int, tuple[str, Path]] = {}
    while waiting or running:
        while waiting and len(running) < plan.jobs:
            store = waiting.pop(0)
            note = plan.scratch / f"torture-{os.getpid()}-{store}.json"
            sys.stdout.flush()
            pid = os.fork()
            if pid == 0:
                os._exit(_store_process(plan, store, note, rounds))
            running[pid] = (store, note)
        pid, status = os.wait()
        store, note = running.pop(pid)
        if status:
            print(f"the trials of {store} ended with {os.waitstatus_to_exitcode(status)}", file=sys.stderr)
        yield _read_counts(store, note), not status


def _read_counts(store: str, note: Path) -> dict[tuple[str, str], Cell]:
    cells: dict[tuple[str, str], Cell] = {}
    if note.exists():
        for kind, result in json.loads(note.read_text()).items():
            if not result["trials"]:
                continue  # no time was left
            cells[store, kind] = Cell(result["trials"], result["reached"], Counter(result["faults"]), result["failed"])
        note.unlink()
    return cells


def _store_process(plan: Plan, store: str, note: Path, rounds: int) -> int:
    cells = {kind: Cell() for kind in plan.counts}
    try:
        deadline = None if plan.minutes is None else time.monotonic() + 60 * plan.minutes / rounds
        _run_store(plan, store, deadline, cells)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        return 1
    finally:
        # keep the counts before an internal error
        body = {kind: {**cell.__dict__, "faults": dict(cell.faults)} for kind, cell in cells.items()}
        note.write_text(json.dumps(body))
    sys.stdout.flush()
    return 0


def _run_store(plan: Plan, store: str, until: float | None, cells: dict[str, Cell]) -> None:
    with open_bench(store, plan.scratch) as bench:
        lines = {
            name: KINDS[name].keys(bench, count, random.Random(f"{plan.seed}/{store}/{name}"))
            for name, count in plan.counts.items()
        }
        while lines:
            for name in list(lines):
                if until is not None and time.monotonic() > until:
                    return
                if not _run_batch(bench, KINDS[name], lines[name], cells[name], until):
                    del lines[name]


def _run_batch(bench: Bench, kind: TrialKind, keys: Iterator[str], cell: Cell, until: float | None) -> bool:
    """Run a batch of trials. Returns whether more can follow."""
    for _ in range(BATCH):
        if until is not None and time.monotonic() > until:
            return True
        key = next(keys, None)
        if key is None:
            return False
        outcome = kind.trial(bench, key)
        cell.trials += 1
        cell.reached += outcome.reached
        cell.faults.update({fault.kind for fault in outcome.faults})
        if outcome.faults:
            cell.failed.append(key)
            for fault in outcome.faults:
                print(f"{kind.name}/{bench.store}/{key}: {fault.kind}: {fault.what}", flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main())
