"""Analytics of tools, and their exports."""

import csv
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pytest

from ragkit.errors import InvalidOption
from ragkit.usage.analytics import MAX_PARAMETER_VALUES, AgentAnalytics


def used() -> AgentAnalytics:
    analytics = AgentAnalytics()
    analytics.record_tool("search", {"q": "a", "k": 3}, 1.0)
    analytics.record_tool("search", {"q": "a"}, 3.0, chunks=2)
    analytics.record_tool("search", {"q": "b"}, 5.0, error="ValueError")
    analytics.record_tool("add", {}, 0.5)
    return analytics


def test_calls_success_timing_and_parameters_are_counted() -> None:
    found = used().tool("search")
    assert found is not None
    assert (found.calls, found.successes, found.failures) == (3, 2, 1)
    assert found.success_rate == pytest.approx(2 / 3)
    assert (found.total_seconds, found.mean_seconds, found.median_seconds, found.max_seconds) == (9.0, 3.0, 3.0, 5.0)
    assert (found.streamed_calls, found.chunks) == (1, 2)
    assert found.parameters == {"q": {'"a"': 2, '"b"': 1}, "k": {"3": 1}}
    assert found.errors == {"ValueError": 1}


def test_tools_come_by_name_and_unknown_ones_not_at_all() -> None:
    assert [one.tool for one in used().tools()] == ["add", "search"]
    assert used().tool("nope") is None


def test_values_of_parameters_are_left_out_on_request() -> None:
    analytics = AgentAnalytics(keep_values=False)
    analytics.record_tool("search", {"q": "private"}, 1.0)
    assert analytics.tools()[0].parameters == {}


def test_many_different_values_do_not_grow_without_end() -> None:
    analytics = AgentAnalytics()
    for number in range(MAX_PARAMETER_VALUES + 25):
        analytics.record_tool("t", {"n": number}, 0.1)
    values = analytics.tools()[0].parameters["n"]
    assert (len(values), values["(others)"]) == (MAX_PARAMETER_VALUES + 1, 25)


def test_reset_forgets() -> None:
    analytics = used()
    analytics.reset()
    assert analytics.tools() == []


def test_threads_lose_nothing() -> None:
    analytics = AgentAnalytics()
    with ThreadPoolExecutor(8) as pool:
        for _ in range(500):
            pool.submit(analytics.record_tool, "t", {}, 0.001)
    assert analytics.tools()[0].calls == 500


def test_the_json_export_holds_every_tool(tmp_path: Path) -> None:
    used().export_json(tmp_path / "a.json")
    data = json.loads((tmp_path / "a.json").read_text("utf-8"))
    assert data == json.loads(json.dumps(used().to_dict()))
    assert [one["tool"] for one in data["tools"]] == ["add", "search"]


def test_the_csv_export_has_one_row_per_tool(tmp_path: Path) -> None:
    used().export_csv(tmp_path / "a.csv")
    with (tmp_path / "a.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["tool"], row["calls"], row["failures"]) for row in rows] == [("add", "1", "0"), ("search", "3", "1")]
    assert json.loads(rows[1]["parameters"]) == {"q": {'"a"': 2, '"b"': 1}, "k": {"3": 1}}


def test_the_duckdb_export_is_a_table_that_is_written_anew(tmp_path: Path) -> None:
    used().export_duckdb(tmp_path / "a.duckdb")
    used().export_duckdb(tmp_path / "a.duckdb")
    with duckdb.connect(str(tmp_path / "a.duckdb")) as connection:
        rows = connection.execute("SELECT tool, calls, max_seconds FROM tool_analytics ORDER BY tool").fetchall()
    assert rows == [("add", 1, 0.5), ("search", 3, 5.0)]


def test_a_table_name_that_is_no_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="table must be a name of letters, digits and '_'"):
        used().export_duckdb(tmp_path / "a.duckdb", "x; DROP TABLE y")
