"""The soak test: bounds of its samples, changes of its folder, and a short run."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SAMPLE = BENCHMARKS.parent / "data" / "sample"
HOUR, MINUTE = 3600, 60


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return import_module("soak_figures")


@pytest.fixture
def folder_of(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return import_module("soak_folder").Folder


def series(*values: float, every: float = MINUTE) -> list[dict[str, float]]:
    """Samples of x, one per minute from 0."""
    return [{"at": number * every, "x": value} for number, value in enumerate(values)]


def rising(start: float, by: float) -> list[dict[str, float]]:
    """Samples of an hour in which x grows by `by`."""
    return series(*(start + by * minute / 60 for minute in range(61)))


def test_the_slope_of_a_line_is_per_hour(figures: ModuleType) -> None:
    assert figures.theil_sen([0, 1800, 3600, 7200], [5, 6, 7, 9]) == pytest.approx(2)


def test_a_quarter_of_outliers_does_not_change_a_slope(figures: ModuleType) -> None:
    at = [minute * MINUTE for minute in range(60)]
    values = [1000.0 * minute if minute % 4 == 1 else 3 * minute / 60 for minute in range(60)]
    assert figures.theil_sen(at, values) == pytest.approx(3, abs=1)


def test_a_slope_needs_two_distinct_times(figures: ModuleType) -> None:
    with pytest.raises(ValueError, match="two distinct times"):
        figures.theil_sen([7, 7], [1, 2])


@pytest.mark.parametrize(
    ("start", "by", "expected"),
    [(100, 9.9, True), (100, 10.5, False), (400, 19, True), (400, 22, False), (100, -50, True)],
)
def test_memory_may_grow_by_a_twentieth_or_ten_megabytes_an_hour(
    figures: ModuleType, start: float, by: float, expected: bool
) -> None:
    finding = figures.memory(rising(start, by), 0.0, "x", "memory")
    assert finding.slope == pytest.approx(by, abs=0.001)
    assert finding.held is expected


def test_a_count_that_grows_every_half_hour_fails(figures: ModuleType) -> None:
    assert figures.count(series(*(20 + minute // 30 for minute in range(121))), 0.0, "x", "files").held is False
    assert figures.count(series(*(20 + 5 * (minute % 7 == 0) for minute in range(121))), 0.0, "x", "files").held is True


def test_growth_during_the_warm_up_is_ignored(figures: ModuleType) -> None:
    samples = series(*(min(minute, 15) * 10 for minute in range(61)))
    assert figures.memory(samples, 15 * MINUTE, "x", "memory").held is True
    assert figures.memory(samples, 0.0, "x", "memory").median == 150
    assert figures.memory(samples, 15 * MINUTE, "x", "memory").slope == 0


def test_a_slope_over_a_few_minutes_is_reported_but_not_judged(figures: ModuleType) -> None:
    finding = figures.memory(series(1, 100, 200), 0.0, "x", "memory")
    assert (finding.held, finding.slope) == (None, pytest.approx(5970))
    assert figures.memory(series(1), 0.0, "x", "memory").held is None


def test_an_empty_series_fails(figures: ModuleType) -> None:
    assert figures.at_most([], 2.0, "found").held is False
    assert figures.at_most([2.0, 0.5], 2.0, "found").held is True
    assert figures.at_most([2.1, 0.5], 2.0, "found").held is False


def steady_result() -> dict[str, Any]:
    """The result of an hour without growth or errors."""
    parts = ("rss_mb", "pss_mb", "fds", "threads")
    steady = {f"{who}_{part}": 20.0 for who in ("library", "server") for part in parts}
    samples = [{"at": minute * MINUTE, "index_mb": 2.0, "kb_files": 9, **steady} for minute in range(61)]
    rounds = [{"at": minute * MINUTE, "peak_mb": 180.0, "found_s": 0.1} for minute in range(61)]
    return {"warm_up_s": 900, "samples": samples, "rounds": rounds, "errors": [], "wrong": [], "fresh": {"index_mb": 1}}


def test_an_hour_without_growth_passes(figures: ModuleType) -> None:
    assert [finding.name for finding in figures.verdict(steady_result()) if not finding.held] == []


@pytest.mark.parametrize(
    ("where", "key", "name"),
    [
        ("samples", "library_rss_mb", "library: resident memory"),
        ("samples", "server_pss_mb", "server: its share of memory (PSS)"),
        ("samples", "server_fds", "server: open files"),
        ("samples", "library_threads", "library: threads"),
        ("samples", "kb_files", "files in the knowledge base"),
        ("rounds", "peak_mb", "index run: peak memory"),
        ("rounds", "found_s", "new words found after a run"),
        ("samples", "index_mb", "index on disk"),
    ],
)
def test_each_growing_series_is_reported(figures: ModuleType, where: str, key: str, name: str) -> None:
    result = steady_result()
    for number, sample in enumerate(result[where]):
        sample[key] += number
    assert [finding.name for finding in figures.verdict(result) if not finding.held] == [name]


def test_after_a_short_warm_up_slopes_are_reported_but_not_judged(figures: ModuleType) -> None:
    result = {**steady_result(), "warm_up_s": 300, "errors": ["message"]}
    for number, sample in enumerate(result["samples"]):
        sample["server_rss_mb"] += number
    findings = {finding.name: finding for finding in figures.verdict(result)}
    assert (findings["server: resident memory"].slope, findings["server: resident memory"].held) == (
        pytest.approx(60),
        None,
    )
    assert findings["errors"].held is False


@pytest.mark.parametrize(("key", "name"), [("errors", "errors"), ("wrong", "wrong answers")])
def test_one_error_or_wrong_answer_fails(figures: ModuleType, key: str, name: str) -> None:
    assert [finding.name for finding in figures.verdict({**steady_result(), key: ["message"]}) if not finding.held] == [
        name
    ]
    assert f"| {name} | 1 |  | 1 | <= 0 | **no** |" in figures.table(figures.verdict({**steady_result(), key: ["x"]}))


def test_changes_of_the_folder_are_deterministic_and_as_reported(tmp_path: Path, folder_of: Any) -> None:
    folders = [folder_of(tmp_path / name, SAMPLE, 12, seed=3) for name in ("one", "other")]
    before = set(folders[0].marks)
    steps = [folder.step() for folder in folders]
    assert (steps[0].gone, list(steps[0].new)) == (steps[1].gone, list(steps[1].new))
    step, after = steps[0], set(folders[0].marks)
    assert {"added": len(after - before), "removed": len(before - after), "updated": 3} == step.expected
    assert len(after) == len(before) == 12
    assert set(folders[0].root.glob("notes/*/*.md")) == after
    text = "".join(path.read_text() for path in after)
    assert [mark for mark in step.gone if mark in text] == []
    assert [mark for mark, path in step.new.items() if path.read_text().count(mark) != 8] == []


@pytest.mark.slow
def test_a_short_run_passes(tmp_path: Path) -> None:
    process = subprocess.run(
        [sys.executable, str(BENCHMARKS / "soak.py"), "--minutes", "0.5", "--every", "6", "--sample-every", "2",
         "--embed", "hashing", "--notes", "12", "--out", str(tmp_path), "--json"],
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stdout[-2000:] + process.stderr[-2000:]
    result = json.loads((tmp_path / "soak.json").read_text())
    assert (result["errors"], result["wrong"]) == ([], [])
    assert result["asked"].keys() == {
        "library search",
        "library ask",
        "server search",
        "server chat",
        "server completion",
    }
    assert len(result["rounds"]) >= 2 and len(result["samples"]) >= 5 and result["verified"] == 1
    assert (tmp_path / "soak.png").read_bytes().startswith(b"\x89PNG")
