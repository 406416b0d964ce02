"""The small torture run of `make test`; `make torture` is the full one.

A fault is printed with the command that repeats it: `python -m tests.torture --replay KIND/STORE/NAME`.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from tests.torture.calls import _hit_others, _hit_signalling, _killed_programs
from tests.torture.kinds import SMALL
from tests.torture.oracle import FAULTS
from tests.torture.scoreboard import tree_name
from tests.torture.subjects import STORES

TRACED = ("kill at a call", "error of a call")
CUT = "power cut (unsynced lost)"
SEED = 20261122
OTHERS = [store for store in STORES if store != "sqlite"]


def succeeds(*command: str) -> bool:
    """Whether a command succeeds."""
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def possible_kinds() -> list[str]:
    """The kinds of the small run. Containers may forbid tracing or mounting, which gives a warning."""
    kinds = list(SMALL)
    if not succeeds("strace", "-f", "-o", os.devnull, "-e", "inject=fsync:error=EIO", "true"):
        kinds = [kind for kind in kinds if kind not in TRACED]
        warnings.warn("this machine forbids tracing: no system calls are broken, only processes", stacklevel=1)
    if not (os.access("/dev/fuse", os.R_OK | os.W_OK) and succeeds("unshare", "-m", "true")):
        kinds.remove(CUT)
        warnings.warn("this machine forbids mounting: no power cuts are tested", stacklevel=1)
    return kinds


def test_operations_that_this_machine_forbids_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.succeeds", lambda *_: False)
    with pytest.warns(UserWarning, match="this machine forbids") as warned:
        assert possible_kinds() == ["kill -9", "Ctrl-C", "bit flip"]
    assert len(warned) == 2


def test_lancedb_is_preloaded_with_the_log_level_of_its_store() -> None:
    """LanceDB reads its level when it is imported. With another one, users would see less than the trials."""
    code = """
import os, sys
from tests.torture.forks import preload
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "lancedb":
            print(os.environ.get("LANCEDB_LOG"))
sys.meta_path.insert(0, Finder())
preload("lancedb")
"""
    environment = {name: value for name, value in os.environ.items() if name != "LANCEDB_LOG"}
    environment |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert result.stdout == "error\n"


def run_trials(stores: list[str], seed: int, tmp_path: Path) -> dict[str, int]:
    """Run the trials of all stores; fails on any fault."""
    kinds = possible_kinds()
    note = tmp_path / "counts.json"
    command = [sys.executable, "-m", "tests.torture", "--seed", str(seed), "--json", str(note), "--small"]
    for kind in kinds:
        command += ["--kind", kind]
    for store in stores:
        command += ["--store", store]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    result = f"seed {seed}\n{done.stdout}\n{done.stderr}"
    assert done.returncode == 0, result
    board = json.loads(note.read_text())["torture"][tree_name()]
    assert {store: sum(cell[fault] for cell in cells.values() for fault in FAULTS) for store, cells in board.items()} \
        == dict.fromkeys(stores, 0), result  # fmt: skip
    return {kind: sum(cells[kind]["trials"] for cells in board.values()) for kind in kinds}


def test_a_trial_that_killed_a_parser_process_first_is_not_counted() -> None:
    parser = ['15 execve("/usr/bin/python", ["python"], [...]) = 0', '15 openat(AT_FDCWD, "x.pyc", O_RDONLY) = ?']
    command = ['12 openat(AT_FDCWD, "kb/CURRENT", O_RDONLY) = ?', "14 +++ killed by SIGKILL +++"]
    assert _killed_programs("\n".join([*parser, *command])) == set()
    assert _killed_programs("\n".join([*parser, "15 +++ killed by SIGKILL +++", *command])) == {"15"}


def test_a_trial_that_broke_the_signals_between_threads_is_not_counted() -> None:
    disk = '12 write(5</kb/log>, "x", 1) = -1 ENOSPC (No space left on device) (INJECTED)'
    event = '14 write(13<anon_inode:[eventfd]>, "\\1", 8) = '
    assert not _hit_signalling(f"{disk}\n{event}8")
    assert _hit_signalling(f"{disk}\n{event}-1 ENOSPC (No space left on device) (INJECTED)")


def test_a_trial_in_which_a_document_could_not_be_read_is_not_counted() -> None:
    failed = "= -1 EIO (Input/output error) (INJECTED)"
    command = f'12 openat(AT_FDCWD</x>, "/x/kb/index.sqlite-shm", O_RDWR|O_CREAT, 0600) {failed}'
    parser = '15 openat(AT_FDCWD</x>, "/x/docs/a.txt", O_RDONLY) '
    assert not _hit_others(f"{command}\n{parser}= 8</x/docs/a.txt>", Path("/x/kb"))
    assert _hit_others(f"{command}\n{parser}{failed}", Path("/x/kb"))


@pytest.mark.timeout(1800)
def test_kills_failed_system_calls_and_power_cuts_cause_no_fault(tmp_path: Path) -> None:
    """On sqlite, with a fixed seed."""
    tried = run_trials(["sqlite"], SEED, tmp_path)
    assert tried["kill -9"] >= 5
    assert tried["Ctrl-C"] >= 5
    assert sum(tried.get(kind, 10 / len(TRACED)) for kind in TRACED) >= 10
    assert tried.get(CUT, 2) >= 2


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_random_store_has_no_fault_with_a_random_seed(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(10**6)
    tried = run_trials(["sqlite", OTHERS[seed % len(OTHERS)]], seed, tmp_path)
    assert min(tried.values()) >= 2
