"""Files that cannot be read for a while keep what was indexed of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CONFIG = "extends: default\nembed: {name: hashing, dimension: 64}\nload: [{name: folder}, {name: csv, records: {}}]\n"
AS_OWNER = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
"""Root reads every file, unless it gives up its capabilities."""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "pump.txt").write_text("The pump runs at 40 bar.\n")
    (docs / "valve.txt").write_text("The valve is red.\n")
    (docs / "motors.csv").write_text("name,phases\nbig motor,3\nsmall motor,1\n")
    (tmp_path / "kb.yaml").write_text(CONFIG)
    assert run(tmp_path, "index", "docs").returncode == 0
    return tmp_path


def run(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command without root's right to read every file."""
    command = [*AS_OWNER, sys.executable, "-m", "ragkit", *arguments, "--kb", "kb", "--config", "kb.yaml"]
    return subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)


def listed(place: Path) -> list[str]:
    return [row["source"] for row in map(json.loads, run(place, "list", "--json").stdout.splitlines())]


def test_what_was_indexed_is_kept_and_the_failure_is_reported(place: Path) -> None:
    before = listed(place)
    assert [Path(source).name for source in before] == ["2", "3", "pump.txt", "valve.txt"]
    (place / "docs/pump.txt").write_text("The pump runs at 50 bar.\n")
    for name in ("pump.txt", "motors.csv"):
        (place / "docs" / name).chmod(0)
    for _ in range(2):
        result = run(place, "index", "docs", "--json")
        assert result.returncode == 7
        report = json.loads(result.stdout)
        assert {name: report["files"][name] for name in ("unchanged", "failed", "removed")} \
            == {"unchanged": 1, "failed": 2, "removed": 0}  # fmt: skip
        assert {failure["error"] for failure in report["failures"]} \
            == {"permission denied; what was indexed is kept"}  # fmt: skip
        assert listed(place) == before
        assert "40 bar" in run(place, "search", "pump").stdout
        assert run(place, "verify").returncode == 0


def test_a_file_that_can_be_read_again_is_indexed_without_being_asked(place: Path) -> None:
    before = listed(place)
    for name in ("pump.txt", "motors.csv"):
        (place / "docs" / name).chmod(0)
    assert run(place, "index", "docs").returncode == 7
    (place / "docs/pump.txt").chmod(0o600)
    (place / "docs/pump.txt").write_text("The pump runs at 50 bar.\n")
    (place / "docs/motors.csv").chmod(0o600)
    result = run(place, "index", "docs", "--json")
    assert (result.returncode, json.loads(result.stdout)["embedded"]) == (0, 1)
    assert listed(place) == before
    assert "50 bar" in run(place, "search", "pump").stdout
    assert run(place, "verify").returncode == 0


@pytest.mark.parametrize("change", ["deleted", "a link"])
def test_a_file_that_is_gone_while_it_cannot_be_read_is_removed(place: Path, change: str) -> None:
    pump = place / "docs/pump.txt"
    pump.chmod(0)
    assert run(place, "index", "docs").returncode == 7
    pump.unlink()
    if change == "a link":
        pump.symlink_to("/etc/hostname")
    result = run(place, "index", "docs", "--json")
    assert (result.returncode, json.loads(result.stdout)["files"]["removed"]) == (0, 1)
    assert [Path(source).name for source in listed(place)] == ["2", "3", "valve.txt"]


def test_what_was_indexed_with_other_settings_is_not_kept(place: Path) -> None:
    (place / "docs/pump.txt").chmod(0)
    (place / "kb.yaml").write_text(CONFIG + "split: {name: recursive, chunk_size: 100}\n")
    result = run(place, "index", "docs", "--rebuild", "--json")
    assert result.returncode == 7
    assert [failure["error"] for failure in json.loads(result.stdout)["failures"]] == ["permission denied"]
    assert [Path(source).name for source in listed(place)] == ["2", "3", "valve.txt"]
