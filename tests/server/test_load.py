"""A short run of the load benchmark: many sessions at once, with misbehaving clients."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "serve_load.py"


@pytest.mark.slow
def test_concurrent_sessions_stay_isolated_and_no_request_fails() -> None:
    # Bad clients run in two slices of three seconds; in shorter ones no answer may begin, which they could leave.
    process = subprocess.run(
        [sys.executable, str(SCRIPT), "--sessions", "10", "--seconds", "12", "--embed", "hashing", "--json"],
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stdout[-2000:] + process.stderr[-2000:]
    result = json.loads(process.stdout)
    assert (result["errors"], result["wrong"], result["examples"]) == (0, 0, [])
    assert result["answers"] >= 10 and result["searches"] >= 10
    assert result["history_checked"] == 2 * result["answers"]
    assert result["bad_clients"]["left in mid-answer"] >= 1 and result["bad_clients"]["never read: asked"] >= 50
    assert process.stderr == "", "the server warned of something"
