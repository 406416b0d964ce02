"""Runs of trials: subjects in processes of their own, for some minutes each, what is furthest from full first."""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tests.torture.bench import Bench, open_bench
from tests.torture.calls import FEW
from tests.torture.kinds import KILLS_AROUND, KINDS
from tests.torture.scoreboard import Cell, Cells
from tests.torture.subjects import DATABASE

BATCH = 5
"""Trials of one kind before the next kind, so that a run that stops early has trials of every kind."""
SLICE_SECONDS = 60.0, 600.0
"""How long a subject is at work before its counts are written, at least and at most."""
LONG_LAST = 0.5
"""A trial of minutes begins when the other kinds have this share of their numbers."""
KILLS = 25
"""Kills of one trial around a database."""


@dataclass(frozen=True)
class Plan:
    """Settings of a run."""

    wanted: Mapping[str, Mapping[str, int]]
    """Subject -> kind -> breaks."""
    seed: int
    until: float | None
    """The monotonic time at which the run ends."""
    jobs: int
    scratch: Path

    @property
    def slice_seconds(self) -> float:
        """How long a subject is at work: all have a turn in a run of minutes."""
        shortest, longest = SLICE_SECONDS
        if self.until is None:
            return longest
        return min(longest, max(shortest, (self.until - time.monotonic()) * self.jobs / len(self.wanted)))


@dataclass(frozen=True)
class Slice:
    """The work of one process."""

    subject: str
    missing: Mapping[str, int]
    """Kind -> trials."""
    done: Mapping[str, int]
    """Kind -> breaks of earlier runs."""
    seed: str
    until: float | None
    """When a trial of minutes must have ended."""
    stop_at: float
    """When the process ends."""
    note: Path
    """Where its counts are written."""


def run_all(plan: Plan, own: Cells) -> Iterator[tuple[Cells, bool]]:
    """Run subjects in turn, up to `jobs` in parallel. Yields the new counts, and whether a process ended well.

    The caller adds them to `own`, the counts of this version.
    """
    left = {subject: dict(kinds) for subject, kinds in plan.wanted.items()}
    start = {key: replace(cell) for key, cell in own.items()}
    seconds = plan.slice_seconds
    running: dict[int, Slice] = {}
    added: Cells = {}
    number = 0
    while True:
        out_of_time = plan.until is not None and time.monotonic() >= plan.until
        for subject in [] if out_of_time else _in_turn(left, own):
            if len(running) >= plan.jobs:
                break
            if subject in {slice_.subject for slice_ in running.values()}:
                continue
            number += 1
            stop_at = min(time.monotonic() + seconds, plan.until or math.inf)
            missing = _missing(left[subject], subject, own, start, added)
            done = {kind: own.get((subject, kind), Cell()).reached for kind in missing}
            note = plan.scratch / f"torture-{os.getpid()}-{number}.json"
            slice_ = Slice(subject, missing, done, f"{plan.seed}/{number}", plan.until, stop_at, note)
            running[_start(plan, slice_)] = slice_
        if not running:
            return
        pid, status = os.wait()
        slice_ = running.pop(pid)
        if status:
            print(f"the trials of {slice_.subject} ended with {os.waitstatus_to_exitcode(status)}", file=sys.stderr)
            left.pop(slice_.subject, None)
        cells, ended = _read_counts(slice_)
        for key, cell in cells.items():
            added.setdefault(key, Cell()).add(cell)
        for kind in ended:
            left.get(slice_.subject, {}).pop(kind, None)
        yield cells, not status


def _in_turn(left: Mapping[str, Mapping[str, int]], own: Cells) -> list[str]:
    """The subjects with trials left, those furthest from their numbers first."""
    shares = {}
    for subject, kinds in left.items():
        done = [own.get((subject, kind), Cell()).share(number) for kind, number in kinds.items()]
        unfinished = [share for share in done if share < 1]
        if unfinished:
            shares[subject] = sum(unfinished) / len(unfinished)
    return sorted(shares, key=lambda subject: shares[subject])


def _missing(kinds: Mapping[str, int], subject: str, own: Cells, start: Cells, added: Cells) -> dict[str, int]:
    """Kind -> trials of this run. What came too late is made up for by the next run."""
    result = {}
    for kind, wanted in kinds.items():
        key = subject, kind
        tried = start.get(key, Cell()).reached + added.get(key, Cell()).trials
        result[kind] = 0 if own.get(key, Cell()).share(wanted) == 1 else max(0, wanted - tried)
    return result


def _start(plan: Plan, slice_: Slice) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        os._exit(_subject_process(plan, slice_))
    return pid


def _subject_process(plan: Plan, slice_: Slice) -> int:
    cells = {kind: Cell() for kind, count in slice_.missing.items()}
    ended: list[str] = [kind for kind, count in slice_.missing.items() if count <= 0]
    try:
        if slice_.subject == DATABASE:
            _run_database(slice_, cells[KILLS_AROUND], ended)
        else:
            with open_bench(slice_.subject, plan.scratch) as bench:
                _run_kinds(bench, slice_, cells, ended)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        return 1
    finally:
        # keep the counts before an internal error
        tried = {kind: cell.to_json() for kind, cell in cells.items() if cell.trials or cell.done}
        slice_.note.write_text(json.dumps({"cells": tried, "ended": ended}))
    sys.stdout.flush()
    return 0


def _read_counts(slice_: Slice) -> tuple[Cells, list[str]]:
    if not slice_.note.exists():
        return {}, []
    result = json.loads(slice_.note.read_text())
    slice_.note.unlink()
    cells = {(slice_.subject, kind): Cell.from_json(values) for kind, values in result["cells"].items()}
    return cells, result["ended"]


def _run_kinds(bench: Bench, slice_: Slice, cells: dict[str, Cell], ended: list[str]) -> None:
    """Run batches of trials, each time of the kind that is furthest from its number."""
    keys = {
        kind: KINDS[kind].keys(bench, count, random.Random(f"{slice_.seed}/{bench.name}/{kind}"))
        for kind, count in slice_.missing.items()
        if count > 0
    }

    def order(kind: str) -> tuple[float, int]:
        done = slice_.done[kind] + cells[kind].reached
        share = done / max(1, slice_.done[kind] + slice_.missing[kind])
        return share + (LONG_LAST if _duration(kind) else 0), list(keys).index(kind)

    while keys and time.monotonic() < slice_.stop_at:
        for kind in sorted(keys, key=order):
            if slice_.until is None or time.monotonic() + _duration(kind) < slice_.until:
                break
        else:
            return
        if not _run_batch(bench, kind, keys[kind], cells[kind], slice_):
            # fewer trials than wanted: there are no others
            cells[kind].done = FEW < cells[kind].trials < slice_.missing[kind]
            ended.append(kind)
            del keys[kind]


def _duration(kind: str) -> float:
    """Seconds that a trial takes at least."""
    return float(getattr(KINDS[kind], "seconds", 0))


def _run_batch(bench: Bench, kind: str, keys: Iterator[str], cell: Cell, slice_: Slice) -> bool:
    """Run a batch of trials. Returns whether more can follow."""
    for _ in range(BATCH):
        if time.monotonic() > slice_.stop_at:
            return True
        started_at = time.monotonic()
        key = next(keys, None)
        if key is None:
            return False
        outcome = KINDS[kind].trial(bench, key)
        cell.seconds += time.monotonic() - started_at
        cell.trials += 1
        cell.reached += outcome.reached
        cell.faults.update({fault.kind for fault in outcome.faults})
        if outcome.faults:
            cell.failed.append(key)
            for fault in outcome.faults:
                print(f"{kind}/{bench.name}/{key}: {fault.kind}: {fault.what}", flush=True)
    return cell.trials < slice_.missing[kind]


def _run_database(slice_: Slice, cell: Cell, ended: list[str]) -> None:
    """Run trials of some kills each, until the number or the time is reached."""
    chance = random.Random(f"{slice_.seed}/{DATABASE}")
    while cell.reached < slice_.missing[KILLS_AROUND] and time.monotonic() < slice_.stop_at:
        kills = min(KILLS, slice_.missing[KILLS_AROUND] - cell.reached)
        cell.add(_run_database_trial(f"{chance.randrange(10**8)}:{kills}"))
    if cell.reached >= slice_.missing[KILLS_AROUND]:
        ended.append(KILLS_AROUND)


def _run_database_trial(key: str) -> Cell:
    """One trial: `SEED:KILLS`. It has threads, so it is a program of its own."""
    seed, _, kills = key.partition(":")
    started_at = time.monotonic()
    command = [sys.executable, "-m", "tests.torture.database", "--kills", kills, "--seed", seed]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode not in (0, 1) or not done.stdout:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}")
    counts = json.loads(done.stdout)
    faults = Counter(
        lost=counts["lost"],
        doubled=counts["doubled"],
        wrong=counts["half_seen"] + counts["went_back"],
        hung=counts["hung"],
        unclear=len(counts["other"]),
        embedded=counts["paid_twice"],
    )
    if faults.total():
        print(
            f"{KILLS_AROUND}/{DATABASE}/{key}: {dict(+faults)}",
            *counts["other"],
            *counts["log"],
            sep="\n  ",
            flush=True,
        )
    names = ("generations", "texts_embedded", "texts_answered_in_vain")
    details = Counter({**counts["kills"], **{name: counts[name] for name in names}})
    failed = [key] if faults.total() else []
    return Cell(1, sum(counts["kills"].values()), time.monotonic() - started_at, +faults, failed, details=details)


def replay(name: str, scratch: Path) -> int:
    """Repeat one trial, `KIND/SUBJECT/NAME`, and print its faults. Returns 1 if there are any."""
    kind, subject, key = name.split("/", 2)
    if subject == DATABASE:
        cell = _run_database_trial(key)
        print(f"{cell.faults.total()} faults: {dict(cell.faults)}")
        return 1 if cell.failed else 0
    with open_bench(subject, scratch) as bench:
        outcome = KINDS[kind].trial(bench, key)
    for fault in outcome.faults:
        print(f"{fault.kind}: {fault.what}")
    print(f"{len(outcome.faults)} faults{'' if outcome.reached else '; the interruption came too late'}")
    return 1 if outcome.faults else 0
