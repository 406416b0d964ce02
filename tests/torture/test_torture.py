"""The small part of the torture that runs with every test; `make torture` runs all of it.

A failure is printed with the command that repeats it: `python -m tests.torture --replay KIND/STORE/NAME`.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.torture.__main__ import STORES
from tests.torture.oracle import FAULTS

OTHERS = [store for store in STORES if store not in {"sqlite", "lancedb"}]
"""One of them has its turn beside sqlite. LanceDB takes a second to import, for each of hundreds of commands."""


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_thirty_kills_sixty_system_calls_and_ten_power_cuts_leave_nothing_wrong(tmp_path: Path) -> None:
    """Half on sqlite, half on another store, which is drawn; rot, crowds and shifting files a few times each."""
    seed = random.SystemRandom().randrange(10**6)
    counts = tmp_path / "counts.json"
    stores = ["--store", "sqlite", "--store", OTHERS[seed % len(OTHERS)]]
    done = subprocess.run(
        [sys.executable, "-m", "tests.torture", "--small", "--seed", str(seed), "--json", str(counts), *stores],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    said = f"seed {seed}\n{done.stdout}\n{done.stderr}"
    assert done.returncode == 0, said
    board = json.loads(counts.read_text())["torture"]
    assert {store: sum(cell[fault] for cell in kinds.values() for fault in FAULTS) for store, kinds in board.items()} \
        == dict.fromkeys(board, 0), said  # fmt: skip
    tried = {kind: sum(kinds[kind]["trials"] for kinds in board.values()) for kind in board["sqlite"]}
    assert tried["kill -9"] >= 30, said
    assert tried["kill at a call"] + tried["error of a call"] >= 60, said
    assert tried["power cut (unsynced lost)"] >= 10, said
