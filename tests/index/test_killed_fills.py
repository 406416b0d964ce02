"""Kills at random moments while vectors are filled by a run, searches, a server and two processes at once.

RAGKIT_FILL_KILLS=300 kills as often; RAGKIT_FILL_SEED chooses other moments.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

KINDS = {"run", "search", "server", "two machines"}
KILLS = int(os.environ.get("RAGKIT_FILL_KILLS", "8"))
SEED = os.environ.get("RAGKIT_FILL_SEED", "1")


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_kills_lose_double_and_delay_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.index.killed_fills", str(tmp_path), f"{KILLS}", SEED]
    result = subprocess.run(command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True, check=True)
    report = json.loads(result.stdout)
    sys.stdout.write(result.stdout)
    assert report["faults"] == []
    assert report["searches"] == KILLS
    assert report["waited"] == 0
    assert set(report["kills"]) == {kind for kind in report["vectors"] if report["vectors"][kind]} == KINDS
    assert report["reached"] >= KILLS / 2
