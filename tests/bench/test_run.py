"""A benchmark run: one process per store, and failures of stores."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragkit.bench.datasets import Dataset, generate_dataset
from ragkit.bench.machine import describe_machine
from ragkit.bench.metric_names import METRIC_NAMES
from ragkit.bench.results import BenchResult, StoreResult
from ragkit.bench.run import BenchRun, BenchStep, StoreDropped, format_sweep_point
from ragkit.bench.settings import BenchEntry, BenchSettings, available_cores
from tests.bench.conftest import SMALL, settings_of


def by_label(outcome: BenchResult) -> dict[str, StoreResult]:
    return {line.entry.label: line for line in outcome.stores}


def test_every_store_answers_exactly_under_every_condition(ran: tuple[BenchResult, list[object]]) -> None:
    for line in ran[0].stores:
        figures = line.medians()
        assert line.status == "ok"
        recalls = {name: value for name, value in figures.items() if "recall" in name}
        quarter = {} if line.entry.label == "floor" else {"recall_quarter": 1.0}
        expected = {"recall": 1.0, "f50:recall": 1.0, "f1:recall": 1.0, "recall_after": 1.0, **quarter}
        assert recalls == expected, line.entry.label


def test_each_metric_is_measured(ran: tuple[BenchResult, list[object]]) -> None:
    figures = by_label(ran[0])["sqlite"].medians()
    searching = {"recall", "p50_ms", "p95_ms", "p99_ms", "qps_1", "cpu_ms", "asked"}
    filtered = {f"{condition}:{name}" for condition in ("f50", "f1") for name in searching}
    assert {name.rpartition(":")[2] for name in figures} <= set(METRIC_NAMES)
    unheld = {"dollars", "read_ms", "read_gb_s"}
    unheld |= set() if Path("/proc/self/status").exists() else {"build_memory", "query_memory", "raw_bytes"}
    assert set(figures) == (set(METRIC_NAMES) | filtered) - unheld
    assert figures["p50_ms"] <= figures["p95_ms"] <= figures["p99_ms"]
    assert figures["build_rate"] == pytest.approx(600 / figures["build_s"])
    assert figures["open_ms"] <= figures["cold_ms"]
    assert figures["asked"] == 20
    assert figures["disk_bytes"] > 600 * 16 * 4
    assert figures["delete_rate"] == pytest.approx(6 / figures["delete_ms"] * 1e3)


def test_a_quarter_of_the_rows_is_measured_beside_all(ran: tuple[BenchResult, list[object]]) -> None:
    outcome = ran[0]
    assert outcome.data["small_rows"] == 150
    for label in ("sqlite", "memory"):
        figures = by_label(outcome)[label].medians()
        assert figures["recall_quarter"] == 1.0  # against the exact results of these rows alone
        assert 0 < figures["p50_ms_quarter"] < 50
        assert figures["p50_ms_beside_quarter"] > 0
    assert "p50_ms_quarter" not in by_label(outcome)["floor"].medians()


def test_a_quarter_of_few_rows_is_not_measured(tmp_path: Path) -> None:
    lines, _ = bench(tmp_path, [{"name": "sqlite"}])
    assert lines["sqlite"].status == "ok"
    assert "p50_ms_quarter" not in lines["sqlite"].medians()


def test_the_reference_measures_the_read_time(ran: tuple[BenchResult, list[object]]) -> None:
    figures = by_label(ran[0])["floor"].medians()
    first = {item.name: item.value for item in by_label(ran[0])["floor"].measurements if item.round == 0}
    assert first["read_gb_s"] == pytest.approx(600 * 16 * 4 / first["read_ms"] * 1e3 / 1e9)
    assert "disk_bytes" not in figures
    assert "open_ms" not in figures


def test_each_round_is_recorded_and_the_first_store_alternates(ran: tuple[BenchResult, list[object]]) -> None:
    outcome, events = ran
    line = by_label(outcome)["memory"]
    assert [item.round for item in line.measurements if item.name == "p50_ms"] == [0, 1]
    assert [(item.condition, item.round, len(item.ms)) for item in line.latencies] == [
        ("all", 0, 20), ("f50", 0, 20), ("f1", 0, 20), ("all", 1, 20), ("f50", 1, 20), ("f1", 1, 20),
    ]  # fmt: skip
    queries = [item.label for item in events if isinstance(item, BenchStep) and item.action == "querying"]
    assert queries == ["sqlite", "memory", "floor", "memory", "floor", "sqlite"]


def test_steps_are_counted_to_the_last(ran: tuple[BenchResult, list[object]]) -> None:
    steps = [item for item in ran[1] if isinstance(item, BenchStep)]
    assert [item.number for item in steps] == sorted(item.number for item in steps)
    assert steps[-1].number <= steps[-1].total


def test_the_result_describes_the_machine(ran: tuple[BenchResult, list[object]]) -> None:
    tree = ran[0].to_json()
    machine, data, settings = tree["machine"], tree["data"], tree["settings"]
    assert isinstance(machine, dict)
    assert isinstance(data, dict)
    assert isinstance(settings, dict)
    assert machine["cores"] == len(available_cores())
    assert (data["rows"], data["dimension"], data["queries"]) == (600, 16, 20)
    assert "store" not in data  # the rows are of no knowledge base
    assert (settings["rounds"], settings["threads"], settings["seed"], settings["shares"]) == (2, 2, 1, [0.5, 0.01])


def bench(
    folder: Path, stores: list[dict[str, Any]], **more: object
) -> tuple[dict[str, StoreResult], list[StoreDropped]]:
    events: list[object] = []
    entries = tuple(BenchEntry(**store) for store in stores)  # a file with such mistakes is not read at all
    settings = replace(settings_of({**SMALL, "rounds": 1, "shares": [], **more}), stores=entries)
    data = generate_dataset(folder / "data", 300, 8, queries=20)
    outcome = BenchRun(settings, data, events.append).run()
    return by_label(outcome), [item for item in events if isinstance(item, StoreDropped)]


def test_a_missing_or_failed_store_is_a_row_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_DSN", raising=False)
    lines, dropped = bench(
        tmp_path,
        [
            {"name": "memory"},
            {"name": "nowhere"},
            {"name": "sqlite", "options": {"pathh": 3}},
            {"name": "pgvector", "options": {"dsn": "${NO_SUCH_DSN}"}},
            {"name": "memory", "label": "narrow", "options": {"dimension": 5}},
        ],
    )
    assert {label: line.status for label, line in lines.items()} == {
        "memory": "ok", "nowhere": "missing", "sqlite": "failed", "pgvector": "missing", "narrow": "failed",
    }  # fmt: skip
    assert lines["nowhere"].reason.startswith("unknown store 'nowhere'; available: ")
    assert lines["sqlite"].reason.startswith("pathh must be an option of the store 'sqlite' (did you mean 'path'?)")
    assert "dsn must be an environment variable that is set (got '${NO_SUCH_DSN}')" in lines["pgvector"].reason
    assert lines["narrow"].reason.startswith("embedding dimension mismatch: the store has 5, got 8")
    assert [item.label for item in dropped] == ["nowhere", "sqlite", "pgvector", "narrow"]
    assert lines["memory"].medians()["recall_after"] == 1.0


def test_a_missing_package_is_reported_with_its_install_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "psycopg.py").write_text("raise ModuleNotFoundError('No module named psycopg', name='psycopg')\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    lines, _ = bench(tmp_path, [{"name": "pgvector", "options": {"dsn": "host=nowhere"}}])
    assert lines["pgvector"].status == "missing"
    assert lines["pgvector"].reason.endswith("needs an optional dependency: pip install 'ragkit-kb[pgvector]'")


def test_a_store_that_times_out_keeps_its_measurements(tmp_path: Path) -> None:
    lines, [dropped] = bench(tmp_path, [{"name": "sqlite"}], store_seconds=0.01)
    assert (lines["sqlite"].status, dropped.reason) == ("time limit", "exceeded 0.01 s")
    lines, none = bench(tmp_path / "again", [{"name": "memory", "label": "in time"}], store_seconds=60)
    assert (lines["in time"].status, none) == ("ok", [])


def test_a_process_that_is_killed_is_a_row_too_and_the_others_go_on(tmp_path: Path) -> None:
    settings = settings_of({**SMALL, "rounds": 1, "shares": []})
    killed: list[int] = []

    def tell(event: object) -> None:
        if isinstance(event, BenchStep) and event.action == "querying" and event.label == "memory":
            player = next(item for item in run._store_runs if item.result.entry.label == "memory")
            assert player.process is not None
            killed.append(player.process.pid)
            os.kill(killed[0], signal.SIGKILL)

    run = BenchRun(settings, generate_dataset(tmp_path / "data", 300, 8, queries=20), tell)
    lines = by_label(run.run())
    assert lines["memory"].reason == "worker process was killed by SIGKILL"
    assert lines["memory"].medians()["build_rate"] > 0
    assert (lines["sqlite"].status, lines["floor"].status) == ("ok", "ok")


def test_an_interrupt_ends_every_process_and_keeps_the_measurements(
    data: Dataset, small_settings: BenchSettings
) -> None:
    pids: list[int] = []

    def tell(event: object) -> None:
        if isinstance(event, BenchStep) and event.action == "querying" and event.label == "memory":
            pids.extend(item.process.pid for item in run._store_runs if item.process)
            os.kill(os.getpid(), signal.SIGINT)

    run = BenchRun(small_settings, data, tell)
    with pytest.raises(KeyboardInterrupt):
        run.run()
    assert len(pids) == 3
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    lines = by_label(run.result)
    assert {line.status for line in lines.values()} == {"interrupted"}
    assert lines["sqlite"].medians()["recall"] == 1.0
    assert "recall" not in lines["floor"].medians()


def test_a_sweep_gives_a_curve(tmp_path: Path) -> None:
    lines, _ = bench(tmp_path, [{"name": "sqlite", "sweep": {"busy_seconds": [1.0, 2.0]}}])
    points = [(setting, figures["recall"]) for setting, figures in lines["sqlite"].curve_points()]
    assert points == [({}, 1.0), ({"busy_seconds": 1.0}, 1.0), ({"busy_seconds": 2.0}, 1.0)]


def test_a_store_without_persistence_has_no_curve_and_a_reason(tmp_path: Path) -> None:
    lines, _ = bench(tmp_path, [{"name": "memory", "sweep": {"dimension": [8]}}])
    assert lines["memory"].status == "ok"
    assert lines["memory"].reason == "sweep skipped: the store is not persistent"
    assert [setting for setting, _ in lines["memory"].curve_points()] == [{}]


def test_a_missing_store_is_reported_once_despite_a_sweep(tmp_path: Path) -> None:
    lines, _ = bench(tmp_path, [{"name": "nowhere", "sweep": {"ef": [8, 32]}}, {"name": "memory"}])
    assert lines["nowhere"].status == "missing"
    assert lines["nowhere"].reason.startswith("unknown store 'nowhere'")


def test_prices_come_from_the_settings(tmp_path: Path) -> None:
    lines, _ = bench(
        tmp_path,
        [
            {"name": "memory", "label": "rented", "dollars_per_hour": 3.6},
            {"name": "memory", "label": "by the query", "dollars_per_million_queries": 16},
            {"name": "memory", "label": "unknown"},
        ],
    )
    rented = lines["rented"].medians()
    assert rented["dollars"] == pytest.approx(0.001 / rented["qps_1"] * 1e6)
    assert lines["by the query"].medians()["dollars"] == 16
    assert "dollars" not in lines["unknown"].medians()


def test_a_point_of_a_curve_is_named_by_its_options() -> None:
    assert format_sweep_point({"ef_search": 64, "m": 8}) == "ef_search 64, m 8"


def test_the_machine_is_described_by_its_processor_and_versions() -> None:
    result = describe_machine()
    assert result["cpu"]
    assert isinstance(result["versions"], dict)
    assert set(result["versions"]) == {"ragkit", "numpy", "simsimd"}
