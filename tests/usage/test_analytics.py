"""Tool analytics and their exports."""

import csv
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ragkit.usage.analytics import MAX_PARAMETER_VALUES, AgentAnalytics


def sample_analytics() -> AgentAnalytics:
    analytics = AgentAnalytics()
    analytics.record_tool("search", {"q": "a", "k": 3}, 1.0)
    analytics.record_tool("search", {"q": "a"}, 3.0, chunks=2)
    analytics.record_tool("search", {"q": "b"}, 5.0, error="ValueError")
    analytics.record_tool("add", {}, 0.5)
    return analytics


def test_calls_success_timing_and_parameters_are_counted() -> None:
    stats = sample_analytics().tool("search")
    assert stats is not None
    assert (stats.calls, stats.successes, stats.failures) == (3, 2, 1)
    assert stats.success_rate == pytest.approx(2 / 3)
    assert (stats.total_seconds, stats.mean_seconds, stats.median_seconds, stats.max_seconds) == (9.0, 3.0, 3.0, 5.0)
    assert (stats.streamed_calls, stats.chunks) == (1, 2)
    assert stats.parameters == {"q": {'"a"': 2, '"b"': 1}, "k": {"3": 1}}
    assert stats.errors == {"ValueError": 1}


def test_tools_are_sorted_by_name_and_unknown_ones_are_none() -> None:
    assert [stats.tool for stats in sample_analytics().tools()] == ["add", "search"]
    assert sample_analytics().tool("nope") is None


def test_parameter_values_can_be_omitted() -> None:
    analytics = AgentAnalytics(keep_values=False)
    analytics.record_tool("search", {"q": "private"}, 1.0)
    assert analytics.tools()[0].parameters == {}


def test_the_number_of_stored_parameter_values_is_limited() -> None:
    analytics = AgentAnalytics()
    for number in range(MAX_PARAMETER_VALUES + 25):
        analytics.record_tool("t", {"n": number}, 0.1)
    values = analytics.tools()[0].parameters["n"]
    assert (len(values), values["(others)"]) == (MAX_PARAMETER_VALUES + 1, 25)


def test_reset_clears_all_counts() -> None:
    analytics = sample_analytics()
    analytics.reset()
    assert analytics.tools() == []


def test_calls_of_all_threads_are_counted() -> None:
    analytics = AgentAnalytics()
    with ThreadPoolExecutor(8) as pool:
        for _ in range(500):
            pool.submit(analytics.record_tool, "t", {}, 0.001)
    assert analytics.tools()[0].calls == 500


def test_the_json_export_has_every_tool(tmp_path: Path) -> None:
    sample_analytics().export_json(tmp_path / "a.json")
    data = json.loads((tmp_path / "a.json").read_text("utf-8"))
    assert data == json.loads(json.dumps(sample_analytics().to_dict()))
    assert [stats["tool"] for stats in data["tools"]] == ["add", "search"]


def test_the_csv_export_has_one_row_per_tool(tmp_path: Path) -> None:
    sample_analytics().export_csv(tmp_path / "a.csv")
    with (tmp_path / "a.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["tool"], row["calls"], row["failures"]) for row in rows] == [("add", "1", "0"), ("search", "3", "1")]
    assert json.loads(rows[1]["parameters"]) == {"q": {'"a"': 2, '"b"': 1}, "k": {"3": 1}}
