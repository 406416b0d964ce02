"""A short run of the load benchmark: many sessions at once, with misbehaving clients."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "serve_load.py"


def test_concurrent_sessions_stay_isolated_and_no_request_fails() -> None:
    ran = subprocess.run(
        [sys.executable, str(SCRIPT), "--sessions", "10", "--seconds", "5", "--embed", "hashing", "--json"],
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-2000:]
    found = json.loads(ran.stdout)
    assert (found["errors"], found["wrong"], found["examples"]) == (0, 0, [])
    assert found["answers"] >= 10 and found["searches"] >= 10
    assert found["history_checked"] == 2 * found["answers"]
    assert found["bad_clients"]["left in mid-answer"] >= 1 and found["bad_clients"]["never read: asked"] >= 50
    assert ran.stderr == "", "the server warned of something"
