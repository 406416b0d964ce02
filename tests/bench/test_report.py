"""Reports: tables, plots, the HTML page, result files and comparisons."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from io import BytesIO
from itertools import pairwise
from pathlib import Path

import duckdb
import matplotlib.image
import numpy as np
import pytest
from matplotlib.figure import Figure

from ragkit.bench.compare import MetricDifference, check_comparable, compare_runs, find_regressions, higher_is_better
from ragkit.bench.html_report import render_bench_report
from ragkit.bench.plots import pareto_front, recall_position, render_plots, spread_labels
from ragkit.bench.report import write_report
from ragkit.bench.results import BenchBaseline, BenchResult, Measurement, StoreResult, read_baseline, to_saved_results
from ragkit.bench.settings import BenchEntry
from ragkit.bench.styles import store_colour
from ragkit.bench.tables import build_tables, describe_conditions, format_number, incomplete_stores, read_lower_bound
from ragkit.errors import InvalidOption
from tests.bench.conftest import line_of, outcome_of


def curve_line() -> StoreResult:
    line = line_of("graph", 0.5, 0.97)
    line.entry = BenchEntry("faiss", "graph", {}, {"ef": (8, 32)})
    for ef, recall, p50 in ((8, 0.9, 0.2), (32, 0.99, 1.0)):
        result = {"recall": recall, "p50_ms": p50, "qps_1": 1e3 / p50}
        line.measurements += [Measurement({"ef": ef}, name, value) for name, value in result.items()]
    return line


def floor_line() -> StoreResult:
    line = line_of("numpy brute force", 2.0, read_ms=0.4, read_gb_s=20.0)
    line.entry = BenchEntry("numpy", "numpy brute force")
    return line


def full() -> BenchResult:
    gone = StoreResult(BenchEntry("nowhere", "gone"), "missing", "is <not> here")
    return outcome_of(line_of("slow", 30.0), floor_line(), line_of("quick", 0.1), curve_line(), gone)


def test_the_median_of_the_rounds_is_what_counts() -> None:
    line = StoreResult(BenchEntry("memory"))
    line.measurements = [Measurement({}, "p50_ms", value, n) for n, value in enumerate((9.0, 1.0, 2.0))]
    assert line.medians() == {"p50_ms": 2.0}
    assert line.medians({"ef": 3}) == {}


def test_the_bound_is_the_best_round_of_reading() -> None:
    line = floor_line()
    line.measurements += [Measurement({}, "read_ms", 0.3, 1), Measurement({}, "read_gb_s", 26.0, 1)]
    assert read_lower_bound(outcome_of(line)) == (0.3, 26.0)


def test_tables_are_sorted_by_latency_with_the_references_last() -> None:
    searching, filtered, keeping = build_tables(full())
    assert [row[0] for row in searching.rows] == ["quick", "graph", "slow", "numpy brute force"]
    assert searching.reference_rows == 1
    assert searching.rows[0][:4] == ("quick", "1.0000", "0.1", "0.2")
    assert filtered.columns == ("store", "50\u00a0%: p50 ms", "recall", "1\u00a0%: p50 ms", "recall")
    assert filtered.rows[2] == ("slow", "30.0", "1.0000", "30.0", "0.9000")
    # a column without values is omitted
    assert keeping.columns == ("store", "build rows/s", "disk / rows")
    assert keeping.rows[0] == ("quick", "100", "2")


def test_a_benchmark_that_measured_nothing_has_no_tables_and_no_pictures() -> None:
    nothing = outcome_of(StoreResult(BenchEntry("memory"), "failed", "no luck"))
    assert (build_tables(nothing), render_plots(nothing)) == ([], {})
    assert incomplete_stores(nothing) == [("memory", "failed", "no luck")]


def test_the_notes_contain_the_conditions() -> None:
    assert describe_conditions(full()) == [
        "some rows, 20 queries; top 10; medians of 2 rounds, stores queried in turn",
        "a processor, 2 cores, 4.0 GB, an OS, Python 3.11.7",
        "one thread on one core, except q/s with 2 threads; servers of stores are not limited",
        "lower bound for exact search over float32 rows on one thread: 0.4 ms, the time to read all rows once"
        " (20.0 GB/s)",
    ]


@pytest.mark.parametrize(
    ("value", "text"), [(0.12345, "0.123"), (1.5, "1.5"), (12.34, "12.3"), (123.4, "123"), (1234.5, "1,234"), (0, "0")]
)
def test_numbers_have_the_digits_that_count(value: float, text: str) -> None:
    assert format_number(value) == text


def test_the_pareto_front_has_no_dominated_points() -> None:
    points = [(0.9, 100.0), (0.95, 120.0), (0.99, 50.0), (0.98, 40.0), (1.0, 10.0)]
    assert pareto_front(points) == [(0.95, 120.0), (0.99, 50.0), (1.0, 10.0)]


def test_labels_are_moved_apart_and_kept_in_order() -> None:
    moved = spread_labels([50.0, 50.0, 51.0, 10.0], 10.0, 0.0, 100.0)
    order = sorted(moved)
    assert all(b - a >= 9.99 for a, b in pairwise(order))
    assert moved[3] == pytest.approx(10.0, abs=10)
    assert moved[0] < moved[1] < moved[2]
    at_the_edge = spread_labels([99.0, 100.0], 10.0, 0.0, 100.0)
    assert max(at_the_edge) <= 100.01


def test_the_chart_is_drawn_and_not_blank() -> None:
    result = render_plots(full())
    assert set(result) == {"recall-qps"}
    for raw in result.values():
        image = matplotlib.image.imread(BytesIO(raw))
        assert image.shape[1] > 1200
        assert 0.01 < float(np.mean(image[..., :3].min(axis=2) < 0.9)) < 0.5


def drawn(outcome: BenchResult, monkeypatch: pytest.MonkeyPatch) -> dict[str, Figure]:
    """The charts of a result before they become PNG files."""
    figures: list[Figure] = []

    def keep(figure: Figure) -> bytes:
        figures.append(figure)
        return b""

    monkeypatch.setattr("ragkit.bench.plots._to_png", keep)
    return dict(zip(render_plots(outcome), figures, strict=True))


def test_the_recall_axis_has_room_where_recalls_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    [axes] = drawn(full(), monkeypatch)["recall-qps"].axes
    assert axes.get_xlabel() == "recall@10"
    low, high = axes.get_xlim()
    assert (low < 0.9, high > 1) == (True, True)
    places = [float(axes.transAxes.inverted().transform(axes.transData.transform((x, 1)))[0]) for x in (0.9, 0.99, 1.0)]
    # on a linear axis the step from 0.99 to 1 would have a tenth of the room
    assert 0.02 < places[0] < 0.1
    assert 0.4 < places[1] < 0.6
    assert 0.9 < places[2] < 1
    assert recall_position([0.5, 0.9, 0.99, 1.0]).tolist() == sorted(recall_position([0.5, 0.9, 0.99, 1.0]).tolist())


def test_a_small_difference_of_recall_does_not_fill_the_axis(monkeypatch: pytest.MonkeyPatch) -> None:
    [axes] = drawn(outcome_of(line_of("a", recall=0.998), line_of("b")), monkeypatch)["recall-qps"].axes
    assert axes.get_xlabel() == "recall@10"
    assert axes.get_xlim()[0] < 0.99


def test_without_a_difference_there_is_no_recall_axis(monkeypatch: pytest.MonkeyPatch) -> None:
    [axes] = drawn(outcome_of(line_of("slow", 30.0), line_of("quick", 0.1)), monkeypatch)["recall-qps"].axes
    assert axes.get_xlabel() == "queries per second at the median latency"
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "linear")
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["slow", "quick"]
    assert [float(np.asarray(line.get_xdata())[0]) for line in axes.get_lines()] == pytest.approx([1e3 / 30, 1e4])


def test_the_speed_is_that_of_the_median_query(monkeypatch: pytest.MonkeyPatch) -> None:
    line = line_of("a", 2.0, qps_1=7.0)  # a few very slow queries
    [axes] = drawn(outcome_of(line), monkeypatch)["recall-qps"].axes
    assert [float(np.asarray(mark.get_xdata())[0]) for mark in axes.get_lines()] == [500.0]


def test_a_store_has_its_colour_in_every_run(monkeypatch: pytest.MonkeyPatch) -> None:
    for others in ([], [line_of("quick"), line_of("other", 3.0)]):
        for figure in drawn(outcome_of(*others, curve_line()), monkeypatch).values():
            colours = {str(part.get_color()) for axes in figure.axes for part in axes.get_lines()}
            assert store_colour("faiss") in colours


def test_the_html_page_is_self_contained() -> None:
    text = render_bench_report(full(), {"latency": b"png"})
    assert "src='data:image/png;base64,cG5n'" in text
    assert f"<td style='color:{store_colour('memory')}'>quick</td><td>1.0000</td>" in text
    assert "<h2>Verdict</h2>" not in text  # no store of this result keeps its rows
    assert "is &lt;not&gt; here" in text
    assert re.findall(r"(?:src|href)='(?!data:)[^']*'|https?://|<script|@import|url\(", text) == []


def test_results_accumulate_in_a_directory(tmp_path: Path) -> None:
    first = full()
    second = replace(first, run_id="20260102T000000-0000")
    write_report(tmp_path, first)
    assert write_report(tmp_path, second) == tmp_path / "report.html"
    names = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert names == [
        "figures/20260101T000000-0000.parquet", "figures/20260102T000000-0000.parquet",
        "queries/20260101T000000-0000.parquet", "queries/20260102T000000-0000.parquet",
        "recall-qps.png", "report.html", "runs/20260101T000000-0000.json", "runs/20260102T000000-0000.json",
    ]  # fmt: skip
    rows = duckdb.execute(
        f"SELECT run, value FROM read_parquet('{tmp_path}/figures/*.parquet')"
        " WHERE label = 'graph' AND figure = 'recall' AND setting = '{\"ef\": 8}' ORDER BY run"
    ).fetchall()
    assert rows == [(first.run_id, 0.9), (second.run_id, 0.9)]
    queries = duckdb.execute(f"SELECT count(*), max(ms) FROM read_parquet('{tmp_path}/queries/*.parquet')").fetchall()
    assert queries == [(16, 30.0)]
    tree = json.loads((tmp_path / "runs" / f"{first.run_id}.json").read_text())
    assert tree["verdict"] is None
    assert [item["setting"] for item in tree["stores"][3]["curve"]] == [{}, {"ef": 8}, {"ef": 32}]
    assert tree["stores"][4] == {
        "label": "gone", "store": "nowhere", "status": "missing", "reason": "is <not> here", "versions": {},
        "options": {}, "figures": {}, "curve": [],
    }  # fmt: skip


def test_a_secret_is_not_written(tmp_path: Path) -> None:
    line = line_of("cloud")
    line.entry = BenchEntry("pinecone", "cloud", {"api_key": "hush", "dsn": "hush", "token": "hush", "namespace": "n"})
    report = write_report(tmp_path, outcome_of(line))
    assert "hush" not in report.read_text()
    text = (tmp_path / "runs" / "20260101T000000-0000.json").read_text()
    assert "hush" not in text
    assert json.loads(text)["stores"][0]["options"] == {"namespace": "n"}


def test_two_results_are_compared_metric_by_metric(tmp_path: Path) -> None:
    before = outcome_of(line_of("same"), line_of("moved", 2.0), line_of("only before"))
    after = replace(
        outcome_of(line_of("same"), line_of("moved", 1.0), line_of("only after")), run_id="20260102T000000-0"
    )
    write_report(tmp_path / "a", before)
    write_report(tmp_path / "b", after)
    result = compare_runs(tmp_path / "a", tmp_path / "b")
    changed = {
        (item.label, item.metric): item.relative_change
        for item in result.differences
        if abs(item.relative_change) > 1e-9
    }
    assert changed == {
        ("moved", figure): pytest.approx(0.5)
        for figure in ("p50_ms", "p95_ms", "p99_ms", "cpu_ms", "f50:p50_ms", "f1:p50_ms")
    } | {("moved", "qps_1"): pytest.approx(1.0), ("moved", "qps_n"): pytest.approx(1.0)}
    assert result.only_in == {before.run_id: ("only before",), after.run_id: ("only after",)}
    # the last two runs of a directory and two single files give the same comparison
    write_report(tmp_path / "a", after)
    assert compare_runs(tmp_path / "a").differences == result.differences
    runs = tmp_path / "a" / "runs"
    assert compare_runs(runs / f"{before.run_id}.json", runs / f"{after.run_id}.json").differences == result.differences


def test_there_must_be_results_to_compare(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="must be a directory with a result of `ragkit bench --out`"):
        compare_runs(tmp_path, tmp_path)
    write_report(tmp_path, full())
    with pytest.raises(InvalidOption, match="a directory with two results"):
        compare_runs(tmp_path)
    with pytest.raises(InvalidOption, match=r"must be a file DIR/runs/RUN\.json of `ragkit bench --out`"):
        compare_runs(tmp_path / "x.json", tmp_path)


def test_better_is_higher_for_rates_and_lower_for_times() -> None:
    assert [higher_is_better(name) for name in ("recall", "f1:recall", "qps_n", "p50_ms", "disk_bytes")] == [
        True, True, True, False, False,
    ]  # fmt: skip
    assert MetricDifference("a", "{}", "p50_ms", 2.0, 3.0).relative_change == -0.5
    assert MetricDifference("a", "{}", "qps_1", 2.0, 3.0).relative_change == 0.5
    assert MetricDifference("a", "{}", "disk_bytes", 0.0, 3.0).relative_change == 0.0


def regressions_of(*now: StoreResult, tolerance: float = 0.15) -> list[str]:
    """The regressions of these stores against a baseline of `a` (1 ms) and `b`, which failed."""
    before = outcome_of(line_of("a"), StoreResult(BenchEntry("memory", "b"), "failed", "broke"))
    baseline = BenchBaseline(before.run_id, "a processor", "f00", 10, 2, to_saved_results(before))
    return find_regressions(baseline, to_saved_results(outcome_of(*now)), tolerance)


def test_a_change_within_the_tolerance_is_not_a_regression() -> None:
    assert regressions_of(line_of("a", 1.1)) == []
    assert regressions_of(line_of("a", 0.2), line_of("new", 90.0)) == []


def test_a_regression_is_reported_with_both_values() -> None:
    assert regressions_of(line_of("a", 1.2)) == [
        "a: latency p50 1 ms -> 1.2 ms (20% worse)",
        "a: queries, all threads 2,000/s -> 1,667/s (17% worse)",
        "a: latency p50, filter 50\u00a0% 1 ms -> 1.2 ms (20% worse)",
        "a: latency p50, filter 1\u00a0% 1 ms -> 1.2 ms (20% worse)",
    ]
    assert regressions_of(line_of("a", 1.2), tolerance=0.25) == []


def test_a_recall_may_fall_by_a_hundredth_only() -> None:
    assert regressions_of(line_of("a", recall=0.991)) == []
    assert regressions_of(line_of("a", recall=0.98)) == ["a: recall 1.0000 -> 0.9800 (2% worse)"]


def test_a_store_that_no_longer_runs_is_a_regression() -> None:
    assert regressions_of() == ["a: not measured (was ok)"]
    assert regressions_of(StoreResult(BenchEntry("memory", "a"), "time limit", "slow")) == ["a: time limit (was ok)"]


def test_a_baseline_is_read_back(tmp_path: Path) -> None:
    write_report(tmp_path, full())
    baseline = read_baseline(tmp_path / "runs" / "20260101T000000-0000.json")
    assert (baseline.cpu, baseline.data_fingerprint, baseline.top_k, baseline.threads) == ("a processor", "f00", 10, 2)
    assert baseline.stores == to_saved_results(full())
    check_comparable(baseline, "f00", 10, 2)
    with pytest.raises(InvalidOption, match=r"fingerprint of the baseline must be 'ba2', as in this run \(got 'f00'\)"):
        check_comparable(baseline, "ba2", 10, 2)
    with pytest.raises(InvalidOption, match=r"top_k of the baseline must be 5, as in this run \(got 10\)"):
        check_comparable(baseline, "f00", 5, 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "a result file of `ragkit bench`"),
        ("{}", "a result file of `ragkit bench`"),
        ('{"format": 9}', "a result of format 1"),
    ],
)
def test_a_file_of_another_format_is_not_a_baseline(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(InvalidOption, match=message):
        read_baseline(tmp_path / "x.json")
