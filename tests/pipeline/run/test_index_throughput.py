"""The benchmark of an index run measures what its report says."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks import index_throughput
from benchmarks.index_throughput import (
    EMBEDDER,
    INDEX,
    LIBRARY,
    OTHER_EMBEDDER,
    OTHER_INDEX,
    Timing,
    format_row,
    summarize,
)

PROJECT = Path(__file__).parents[3]


def test_figures_are_medians_of_the_rounds_and_of_the_ratios_of_each_round() -> None:
    timings = {
        INDEX: [Timing(9, 4, 100, 500), Timing(5, 2, 300, 500), Timing(7, 10, 200, 500)],
        EMBEDDER: [Timing(3, 2), Timing(1, 1), Timing(2, 9)],
        LIBRARY: [Timing(4, 20), Timing(4, 20), Timing(4, 45)],
    }
    rows = summarize(timings, 500)
    assert rows[INDEX] == {"wall": 7, "cpu": 4, "of_embedder": 0.5, "peak_mb": 300, "outside": 2}
    assert rows[EMBEDDER] == {"wall": 2, "cpu": 2, "of_embedder": 1}
    assert rows[LIBRARY] == {"wall": 4, "cpu": 20, "of_embedder": 0.1}
    assert "outside 2.000 s CPU / 1,000 chunks   at most 300 MB" in format_row(INDEX, rows[INDEX], 500)
    assert "outside" not in format_row(EMBEDDER, rows[EMBEDDER], 500)


def test_ratios_are_of_the_rounds_in_which_the_embedder_ran() -> None:
    timings = {
        INDEX: [Timing(9, 4, 100, 500), Timing(5, 5, 300, 500), Timing(7, 6, 200, 500)],
        EMBEDDER: [Timing(3, 2)],
    }
    rows = summarize(timings, 500)
    assert rows[INDEX] == {"wall": 7, "cpu": 5, "of_embedder": 0.5, "peak_mb": 300, "outside": 4}


def test_the_ratios_need_a_round_with_the_embedder(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        index_throughput.parse_arguments(["docs", "--embedder-rounds", "0"])
    assert "--embedder-rounds 0: at least 1" in capsys.readouterr().err


@pytest.mark.slow
def test_every_row_is_measured_in_each_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "docs").mkdir()
    for number in range(9):
        (tmp_path / "docs" / f"{number}.txt").write_text(f"Pump {number} fills the dewar in {number + 20} minutes.")
    library = "import sys; print([1.5, float(len(open(sys.argv[1]).read()) > 100)])"
    monkeypatch.setattr(index_throughput, "SENTENCE_TRANSFORMERS", library)
    options = [
        "--pipeline",
        "fast",
        "--rounds",
        "2",
        "--against",
        str(PROJECT),
        "--st-python",
        sys.executable,
        "--json",
    ]
    monkeypatch.setattr(sys, "argv", ["index_throughput.py", str(tmp_path / "docs"), *options])
    index_throughput.main()
    report = json.loads(capsys.readouterr().out)
    assert (report["chunks"], report["pipeline"], report["rounds"]) == (9, "fast", 2)
    rows = report["rows"]
    assert [*rows] == [INDEX, OTHER_INDEX, EMBEDDER, OTHER_EMBEDDER, LIBRARY]
    assert rows[OTHER_EMBEDDER]["cpu"] > 0
    assert rows[LIBRARY]["cpu"] == 1
    for name in (INDEX, OTHER_INDEX):
        assert rows[name]["cpu"] > rows[EMBEDDER]["cpu"] > 0
        assert 30 < rows[name]["peak_mb"] < 1000
        assert rows[name]["outside"] > 0
    assert report["versions"]["python"].startswith("3.")
