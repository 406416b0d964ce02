"""`ragkit bench`: sources of vectors, output and exit codes."""

from __future__ import annotations

import json
import re
import signal
import sys
import time
from io import StringIO
from pathlib import Path

import h5py
import numpy as np
import pytest
from rich.console import Console

from ragkit.bench.compare import BenchComparison, MetricDifference
from ragkit.bench.styles import store_colour
from ragkit.cli.measure.bench_output import print_comparison
from tests.cli.conftest import Ragkit, start

SETTINGS = """
data: {rows: 200, dimension: 8}
queries: 20
filtered_queries: 20
rounds: 1
round_seconds: 0.1
warm_up: 1
shares: [0.5]
stores:
  - {name: sqlite}
  - {name: numpy, label: floor}
  - {name: pgvector, options: {dsn: "${NO_SUCH_DSN}"}}
"""


@pytest.fixture
def settings(workplace: Path) -> Path:
    path = workplace / "bench.yaml"
    path.write_text(SETTINGS)
    return path


def test_tables_go_to_stdout_and_a_missing_store_is_a_row(settings: Path, ragkit: Ragkit) -> None:
    result = ragkit("bench", "--settings", settings, "--generate", "300", "--dim", "16")
    assert result.out.startswith("300 rows x 16, generated in clusters, seed 1, 20 queries; top 10; one round")
    titles = [line.split("  ")[0] for line in result.out.splitlines()]
    assert {"Queries", "Filtered queries", "Build and storage"} <= {*titles}
    first = next(line for line in result.out.splitlines() if line.strip().startswith("sqlite"))
    assert first.split()[:2] == ["sqlite", "1.0000"]
    assert "pgvector  missing: dsn must be an environment variable that is set (got '${NO_SUCH_DSN}')" in result.out
    assert "pgvector dropped" in result.err
    assert "Verdict  For 300 rows stay with sqlite (" in result.out


def test_json_is_one_object_with_all_measurements(settings: Path, ragkit: Ragkit) -> None:
    result = ragkit("bench", "--settings", settings, "--json", "--stores", "sqlite", "-k", "5", "--seed", "9").json
    assert (result["data"]["rows"], result["settings"]["top_k"], result["settings"]["seed"]) == (200, 5, 9)
    [sqlite] = result["stores"]
    assert (sqlite["label"], sqlite["status"], sqlite["figures"]["recall"]) == ("sqlite", "ok", 1.0)
    assert (result["report"], result["regressions"]) == (None, [])
    assert result["verdict"]["store"] == "sqlite"
    assert result["verdict"]["text"].startswith("For 200 rows stay with sqlite (")


def test_the_chunks_of_a_knowledge_base_are_the_rows(settings: Path, hashing: Path, ragkit: Ragkit) -> None:
    folder = settings.parent / "notes"
    folder.mkdir()
    for number in range(60):
        (folder / f"{number}.txt").write_text(f"Note {number} tells of thing {number * 7} and of nothing else.")
    ragkit("index", "notes", "-q")
    held_back = ragkit("bench", "--settings", settings, "--json", "--stores", "sqlite").json
    assert (held_back["data"]["name"], held_back["data"]["queries"]) == ("chunks of .ragkit: 53 rows x 64", 6)
    assert held_back["stores"][0]["figures"]["recall"] == 1.0
    assert (held_back["data"]["store"], held_back["data"]["method"]) == ("sqlite", "")
    assert held_back["verdict"]["text"].startswith("For your 53 chunks stay with sqlite (")
    questions = settings.parent / "questions.txt"
    questions.write_text("What of thing 7?\n\nWhat of thing 14?\n")
    requested = ragkit("bench", "--settings", settings, "--json", "--stores", "sqlite", "--questions", questions).json
    assert (requested["data"]["name"], requested["data"]["queries"]) == ("chunks of .ragkit: 59 rows x 64", 2)
    as_json = settings.parent / "questions.jsonl"
    as_json.write_text('{"question": "What of thing 7?"}\n{"question": "What of thing 14?"}\n')
    again = ragkit("bench", "--settings", settings, "--json", "--stores", "sqlite", "--questions", as_json).json
    assert again["data"] == requested["data"]
    as_json.write_text("{}\n")
    result = ragkit("bench", "--settings", settings, "--questions", as_json, code=2)
    assert "--questions must be" in result.err
    assert "JSON object with `question` per line" in result.err


def test_a_missing_knowledge_base_is_an_error_if_it_was_named(settings: Path, ragkit: Ragkit) -> None:
    assert "error: nowhere" in ragkit("bench", "--settings", settings, "--kb", "nowhere", code=1).err


def test_a_file_of_ann_benchmarks_is_accepted(settings: Path, ragkit: Ragkit) -> None:
    with h5py.File(settings.parent / "tiny.hdf5", "w") as file:
        file["train"] = np.random.default_rng(1).normal(size=(101, 4))
        file["test"] = np.random.default_rng(2).normal(size=(3, 4))
    result = ragkit("bench", "--settings", settings, "--json", "--stores", "sqlite", "--hdf5", "tiny.hdf5").json
    assert (result["data"]["name"], result["data"]["queries"]) == ("tiny: 100 rows x 4", 3)


def test_results_are_written_checked_and_compared(settings: Path, ragkit: Ragkit) -> None:
    first = ragkit("bench", "--settings", settings, "--out", "results", "--stores", "sqlite", "--json").json
    assert first["report"] == str(Path("results") / "report.html")
    baseline = Path("results") / "runs" / f"{first['run']}.json"
    again = ["bench", "--settings", settings, "--out", "results", "--stores", "sqlite", "--check", baseline]
    assert ragkit(*again, "--tolerance", "1000").err.splitlines()[-1] == "report: results/report.html"

    # a baseline that no machine reaches
    tree = json.loads(baseline.read_text())
    tree["stores"][0]["figures"]["p50_ms"] = 1e-9
    baseline.write_text(json.dumps(tree))
    worse = ragkit(*again, "--tolerance", "1000", code=1)
    assert "worse: sqlite: latency p50 1e-09 ms -> " in worse.err
    ragkit("bench", "--settings", settings, "--check", baseline, "-k", "3", code=2)

    compared = ragkit("bench", "compare", "results").out
    assert "sqlite" in compared
    assert "latency p50, filter 50\u00a0%" in compared
    assert " ms " in compared
    assert not re.search(r"\w+_(ms|s|rate|1|n|bytes)\b", compared)  # no key of the files
    result = ragkit("bench", "compare", "results", "results", "--json").json
    assert result["before"] == result["after"]
    assert {item["label"] for item in result["differences"]} == {"sqlite"}
    assert {item["better_by"] for item in result["differences"]} == {0.0}
    names = {item["figure"]: (item["store"], item["name"], item["unit"]) for item in result["differences"]}
    assert names["p50_ms"] == ("sqlite", "latency p50", "ms")
    assert names["f50:recall"] == ("sqlite", "recall, filter 50\u00a0%", "")


def test_a_benchmark_without_results_fails(settings: Path, ragkit: Ragkit) -> None:
    ragkit("bench", "--settings", settings, "--stores", "pgvector", code=1)


def test_every_mistake_of_the_settings_is_reported_with_its_place(settings: Path, ragkit: Ragkit) -> None:
    settings.write_text("rounds: 0\nstores:\n  - {name: sqlit}\n  - {name: faiss, options: {methd: flat}}\n")
    result = ragkit("bench", "--settings", settings, code=1)
    heads = [line for line in result.err.splitlines() if not line.startswith("  ")]
    assert [head.removeprefix(str(settings))[:7] for head in heads] == [":1:9: r", ":3:12: ", ":4:29: "]
    assert "unknown store 'sqlit' (did you mean 'sqlite'?)" in result.err
    assert result.out == ""


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--settings", "none.yaml"], "--settings must be "),
        (
            ["--stores", "sqlit,b"],
            "unknown store of these settings 'sqlit' (did you mean 'sqlite'?); "
            "available: sqlite, floor, numpy, pgvector",
        ),
        (["--rounds", "0"], "rounds must be >= 1 (got 0)"),
        (["--generate", "300", "--hdf5", "x"], "--generate, --hdf5, --questions must be used one at a time"),
        (["--tolerance", "-1"], "--tolerance must be >= 0 (got -1.0)"),
        (["--check", "none.json"], "--check must be "),
        (["--hdf5", "none.hdf5"], "--hdf5 must be "),
    ],
)
def test_usage_errors_come_before_the_benchmark(settings: Path, ragkit: Ragkit, flags: list[str], message: str) -> None:
    result = ragkit("bench", "--settings", settings, *flags, code=2)
    assert message in result.err
    assert result.out == ""


def test_a_missing_extra_is_reported_before_the_benchmark(
    settings: Path, ragkit: Ragkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith(("ragkit.bench.report", "ragkit.bench.plots"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = ragkit("bench", "--settings", settings, "--out", "results", code=1)
    assert result.err == "error: plots of a benchmark needs an optional dependency: pip install 'ragkit-kb[bench]'\n"
    monkeypatch.setitem(sys.modules, "duckdb", None)
    result = ragkit("bench", "compare", "results", code=1)
    assert result.err == "error: comparing benchmarks needs an optional dependency: pip install 'ragkit-kb[bench]'\n"


def test_an_interrupt_keeps_the_measurements(settings: Path) -> None:
    settings.write_text(SETTINGS.replace("rounds: 1", "rounds: 100000"))
    process = start("bench", "--settings", settings, "--out", "results", "--json", cwd=settings.parent)
    deadline = time.monotonic() + 60
    assert process.stderr is not None
    while "pgvector dropped" not in process.stderr.readline():
        assert time.monotonic() < deadline
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.splitlines()[-1] == "interrupted; completed work is kept"
    sqlite = json.loads(out)["stores"][0]
    assert (sqlite["status"], sqlite["figures"]["build_rate"] > 0) == ("interrupted", True)
    [written] = (settings.parent / "results" / "runs").iterdir()
    assert json.loads(written.read_text())["stores"][0] == sqlite


def test_without_rich_tables_are_refused_before_the_benchmark_and_json_works(
    settings: Path, ragkit: Ragkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "rich", None)
    monkeypatch.delitem(sys.modules, "ragkit.cli.measure.bench_output", raising=False)
    refused = ragkit("bench", "--settings", settings, code=1)
    assert "printing the tables of a benchmark needs an optional dependency" in refused.err
    assert "ragkit-kb[bench]" in refused.err
    assert ragkit("bench", "--settings", settings, "--json", "--stores", "sqlite").json["stores"][0]["status"] == "ok"


def test_a_comparison_has_the_colour_of_each_store_and_its_sweep_point(monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(force_terminal=True, color_system="truecolor", width=120, file=StringIO())
    monkeypatch.setattr("ragkit.cli.measure.bench_output._create_console", lambda: console)
    differences = (
        MetricDifference("mine", '{"ef_search": 16}', "f1:p50_ms", 1.0, 1234.5, "faiss"),
        MetricDifference("sqlite", "{}", "add_rate", 5.0, 6.0, "sqlite"),
    )
    print_comparison(BenchComparison("a", "b", differences, {}))
    text = console.file.getvalue() if isinstance(console.file, StringIO) else ""
    red, green, blue = bytes.fromhex(store_colour("faiss")[1:])
    assert f"\x1b[38;2;{red};{green};{blue}mmine, ef_search 16" in text
    for cell in ("latency p50, filter 1\u00a0%", "1 ms", "1,234 ms", "123,350% worse"):
        assert cell in text
    assert "sqlite" not in text  # the rate of adding says the same as its time
