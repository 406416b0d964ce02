"""Records and attachments in a knowledge base: indexed, filtered, added up, updated and removed."""

from __future__ import annotations

import csv
import io
import json
import math
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ragkit import KnowledgeBase
from ragkit.agent.messages import ToolCall
from ragkit.agent.providers.scripted import ScriptedProvider
from ragkit.agent.tools.base import ToolContext
from ragkit.answer.agent import RAGAgent, RAGOptions
from ragkit.answer.searchers.aggregate_tool import AggregateTool
from ragkit.errors import InvalidFilter
from ragkit.index.aggregate import aggregate_field
from ragkit.knowledge_base.filters import read_filter
from ragkit.pipeline.settings import Pipeline
from tests import reads
from tests.child_usage import MeasuredCommand

PIPELINE = """
load:
- {name: folder}
- {name: csv, records: {text: [name], title: name, metadata: [price, day, ok]}}
split: {name: recursive}
embed: {name: minilm}
store: {name: sqlite}
retrieve: {name: hybrid, top_k: 3}
"""
ROWS = 60
MAX_INDEX_MB = 768
"""Peak memory of an index run over 100,000 rows, of its largest process."""


def table(rows: int = ROWS) -> str:
    rng = random.Random(7)
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["name", "price", "day", "ok"])
    for number in range(rows):
        price = rng.choice(["", rng.randint(1, 200), round(rng.random() * 200, 2)])
        writer.writerow([f"pump number {number}", price, f"2024-{number % 12 + 1:02}-01", number % 2 == 0])
    return out.getvalue()


@pytest.fixture
def kb(tmp_path: Path) -> KnowledgeBase:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "prices.csv").write_text(table())
    (tmp_path / "p.yaml").write_text(PIPELINE)
    base = KnowledgeBase.open(tmp_path / "kb", tmp_path / "p.yaml")
    base.index(tmp_path / "docs")
    return base


def test_sums_over_filtered_records_equal_those_over_the_rows(kb: KnowledgeBase) -> None:
    rows = list(csv.DictReader(io.StringIO(table())))
    prices = [(float(row["price"]), row["day"]) for row in rows if row["price"]]
    chosen = [price for price, day in prices if price > 50 and day >= "2024-06-01"]
    found = kb.aggregate("price", {"price": {"$gt": 50}, "day": {"$gte": "2024-06-01"}})
    assert (found.documents, found.numbers) == (len(chosen), len(chosen))
    assert (found.sum, found.min, found.max) == (math.fsum(chosen), min(chosen), max(chosen))
    assert found.mean == math.fsum(chosen) / len(chosen)
    everything = kb.aggregate("price")
    assert (everything.documents, everything.numbers) == (ROWS, len(prices))
    assert kb.aggregate("day").numbers == kb.aggregate("ok").numbers == 0
    with pytest.raises(InvalidFilter, match="unknown operator"):
        kb.aggregate("price", {"price": {"$above": 5}})


def test_a_filter_on_a_field_finds_only_such_rows(kb: KnowledgeBase) -> None:
    hits = kb.search("pump number 7", 5, {"price": {"$gt": 100}})
    assert hits
    assert all(float(str(hit.chunk.metadata["price"])) > 100 for hit in hits)
    [hit] = kb.search("pump number 8", 1, {"day": "2024-09-01", "ok": True})
    assert hit.chunk.text == "pump number 8"
    assert (hit.chunk.place, hit.chunk.source.rpartition("/")[2]) == ("line 10", "10")
    assert not reads.is_stale(kb, hit.chunk.source)


def test_edited_rows_are_updated_and_gone_ones_removed(kb: KnowledgeBase, tmp_path: Path) -> None:
    path = tmp_path / "docs" / "prices.csv"
    report = kb.index(tmp_path / "docs")
    assert (report.files["unchanged"], report.chunks["added"]) == (1, 0)
    path.write_text(table(ROWS - 10))
    assert reads.is_stale(kb, f"{path}/5")
    report = kb.index(tmp_path / "docs")
    assert (report.chunks["added"], report.chunks["removed"], report.embedded) == (0, 10, 0)
    assert (report.files["added"], report.files["updated"]) == (0, 1)
    assert kb.aggregate().documents == ROWS - 10
    assert kb.verify().problems == ()
    path.write_text("only,a\nheader,row\n")
    report = kb.index(tmp_path / "docs")
    assert (report.files["failed"], report.chunks["removed"], kb.aggregate().documents) == (1, ROWS - 10, 0)
    path.write_text(table())
    report = kb.index(tmp_path / "docs")
    assert (report.chunks["added"], report.files["added"]) == (ROWS, 1)
    path.unlink()
    report = kb.index(tmp_path / "docs")
    assert (report.files["removed"], report.chunks["removed"], kb.aggregate().documents) == (1, ROWS, 0)
    assert kb.verify().problems == ()


def test_removing_the_file_removes_its_records(kb: KnowledgeBase, tmp_path: Path) -> None:
    assert kb.remove(tmp_path / "docs" / "prices.csv") == ROWS
    assert kb.aggregate().documents == 0
    assert kb.verify().problems == ()


def test_the_tool_computes_by_a_fixed_grammar(kb: KnowledgeBase) -> None:
    call = AggregateTool(kb).tool.function
    total = kb.aggregate("price", {"price": {"$gt": 100}})
    result = call(function="sum", field="price", where="price > 100", context=ToolContext())
    assert getattr(result, "content", "") == (
        f"sum of price over {total.numbers} of {total.documents} records: {total.sum}"
    )
    counted = call(function="count", where="ok == true", context=ToolContext())
    assert getattr(counted, "content", "") == "30 records"
    nothing = call(function="max", field="colour", context=ToolContext())
    assert getattr(nothing, "content", "") == (
        f"no number in the field 'colour' of {ROWS} records; fields with numbers: price, record"
    )
    nothing = call(function="count", where="colour == 7")
    assert getattr(nothing, "content", "") == "0 records; the filter names 'colour', which no document has"


def test_an_agent_over_records_has_the_tool_and_its_filter_holds(kb: KnowledgeBase) -> None:
    calls = [ToolCall("aggregate_records", {"function": "count", "where": "price > 50"})]
    agent = RAGAgent(
        kb, ScriptedProvider([calls, "There are some."]), options=RAGOptions(where=read_filter("ok == true"))
    )
    result = agent.run("How many pumps cost more than 50?")
    expected = kb.aggregate("", {"$and": [{"ok": True}, {"price": {"$gt": 50}}]}).documents
    assert 0 < expected < kb.aggregate("", {"price": {"$gt": 50}}).documents
    assert result.tool_calls[-1].content == f"{expected} records"


def test_an_agent_without_records_has_no_such_tool(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("words")
    with KnowledgeBase.open(tmp_path / "kb", Pipeline.from_yaml("embed: {name: hashing}\n")) as base:
        base.index(tmp_path / "a.md")
        assert not base.has_records
        assert len(base.agent().registry) == 1


def test_numbers_beyond_any_sum_are_not_counted() -> None:
    found = aggregate_field([{"a": 10**400}, {"a": 1e308}, {"a": math.nan}, {"a": 2}, {"a": 0.5}], "a")
    assert (found.documents, found.numbers, found.sum) == (5, 2, 2.5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_hundred_thousand_rows_are_filtered_and_added_up_as_pandas_does(tmp_path: Path, kind: str) -> None:
    rng = np.random.default_rng(3)
    count = 100_000
    frame = pd.DataFrame(
        {
            "name": [f"part {number}" for number in range(count)],
            "price": np.round(rng.gamma(2.0, 50.0, count), 2),
            "stock": rng.integers(0, 1_000, count),
            "site": rng.choice(["north", "south", "east"], count),
            "open": rng.random(count) < 0.5,
        }
    )
    frame.loc[rng.random(count) < 0.1, "price"] = np.nan
    path = tmp_path / f"parts.{kind}"
    if kind == "csv":
        frame.to_csv(path, index=False)
    else:
        rows = ({k: v for k, v in row.items() if v == v} for row in frame.to_dict("records"))  # noqa: PLR0124 - NaN
        path.write_text("\n".join(map(json.dumps, rows)))
    records = f"load: [{{name: {kind}, records: {{text: [name], metadata: [price, stock, site, open]}}}}]\n"
    pipeline = tmp_path / "ragkit.yaml"
    pipeline.write_text(f"{records}embed: {{name: hashing}}\n")
    arguments = ["index", str(path), "--pipeline", str(pipeline), "--kb", str(tmp_path / "kb"), "--json"]
    measured = MeasuredCommand([sys.executable, "-m", "ragkit", *arguments], tmp_path / "usage.json")
    report = json.loads(subprocess.run(measured.command, check=True, stdout=subprocess.PIPE).stdout)
    assert report["chunks"]["added"] == count
    assert measured.usage().peak_mb < MAX_INDEX_MB
    with KnowledgeBase.open(tmp_path / "kb") as base:
        for where, mask in (
            ("price > 100", frame.price > 100),
            ('stock >= 500 and site == "north"', (frame.stock >= 500) & (frame.site == "north")),
            ("open == true or price < 5", frame.open | (frame.price < 5)),
            ('not site in ("north", "east")', frame.site == "south"),
            ("has(price)", frame.price.notna()),
        ):
            chosen = frame[mask]
            for field in ("price", "stock"):
                found, column = base.aggregate(field, where), chosen[field].dropna()
                assert (found.documents, found.numbers) == (len(chosen), len(column)), where
                assert (found.min, found.max) == (column.min(), column.max())
                assert found.sum == math.fsum(column.tolist())
                assert found.mean == pytest.approx(column.mean(), rel=1e-12)
        assert base.search("part 777", 1, {"site": str(frame.site[777])})[0].chunk.text == "part 777"
