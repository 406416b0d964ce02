"""The ledger: stored calls, sums by group and period, concurrent writers, and damage."""

from __future__ import annotations

import logging
import os
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ragkit.errors import InvalidOption, KnowledgeBaseDamaged
from ragkit.usage import ledger as ledger_module
from ragkit.usage.ledger import Ledger, Period, Spending
from ragkit.usage.meter import Meter, MeteredCall, UsageStats, record_embedding, use_meter

DAY = datetime(2026, 11, 20, 23, 30, tzinfo=UTC).timestamp()
HOUR = 3600.0


def chat(cost: float | None, *, tool: str = "", model: str = "gpt-4o", at: float = DAY) -> MeteredCall:
    """A chat call with ten input and two output tokens."""
    return MeteredCall("chat", "openai", model, UsageStats(10, 2, llm_cost_usd=cost), tool, 1, at)


def embedding(cost: float | None, *, tool: str = "", at: float = DAY) -> MeteredCall:
    """An embedding call of five tokens."""
    stats = UsageStats(embedding_tokens=5, embedding_cost_usd=cost)
    return MeteredCall("embedding", "openai", "text-embedding-3-small", stats, tool, 1, at)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """Two runs: an index run of one call, and an answer of three calls an hour later, on the next day."""
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.call_recorder("index", "default")(embedding(0.25))
    answer = ledger.call_recorder("ask", "handbook")
    answer(chat(1.0, at=DAY + HOUR))
    answer(embedding(0.5, tool="search", at=DAY + HOUR))
    answer(chat(2.0, at=DAY + HOUR))
    ledger.close()
    return ledger


def test_the_total_includes_all_recorded_calls(ledger: Ledger) -> None:
    total = ledger.total_spending()
    assert total == Spending("", 2, 4, 20, 4, 10, 0, 3.0, 0.75, 0.0, 3.75)
    assert total.to_dict()["total_cost_usd"] == 3.75


@pytest.mark.parametrize(
    ("group", "rows"),
    [
        ("day", [("2026-11-20", 0.25), ("2026-11-21", 3.5)]),
        ("model", [("openai:gpt-4o", 3.0), ("openai:text-embedding-3-small", 0.75)]),
        ("tool", [("", 3.25), ("search", 0.5)]),
        ("pipeline", [("handbook", 3.5), ("default", 0.25)]),
        ("command", [("ask", 3.5), ("index", 0.25)]),
    ],
)
def test_spending_is_grouped_by(ledger: Ledger, group: str, rows: list[tuple[str, float]]) -> None:
    assert [(row.name, row.total_cost_usd) for row in ledger.spending_by(group)] == rows


def test_an_unknown_group_is_rejected(ledger: Ledger) -> None:
    with pytest.raises(InvalidOption, match=r"group must be one of day, model.* \(got 'hour'\)"):
        ledger.spending_by("hour")


def test_an_unknown_price_makes_its_sums_unknown_and_the_known_cost_is_reported(ledger: Ledger) -> None:
    ledger.call_recorder("ask", "default")(chat(None, model="unknown-model"))
    total = ledger.total_spending()
    assert (total.llm_cost_usd, total.embedding_cost_usd, total.total_cost_usd) == (None, 0.75, None)
    assert total.known_cost_usd == 3.75
    costs = {row.name: row.total_cost_usd for row in ledger.spending_by("model")}
    assert costs["openai:unknown-model"] is None
    assert costs["openai:gpt-4o"] == 3.0
    ledger.close()


def test_a_period_includes_its_start_and_excludes_its_end(ledger: Ledger) -> None:
    day = Period.parse("2026-11-20", "2026-11-20")
    assert (ledger.total_spending(day).calls, ledger.total_spending(day).total_cost_usd) == (1, 0.25)
    assert ledger.total_spending(Period.parse("2026-11-21", None)).calls == 3
    assert ledger.total_spending(Period.parse(None, "2026-11-21T00:30")).calls == 1
    assert ledger.total_spending(Period.parse(None, "2026-11-21T00:30:01")).calls == 4
    assert ledger.total_spending(Period.parse("2027-01-01", None)) == Spending()
    now = datetime(2026, 11, 28, tzinfo=UTC)
    assert ledger.total_spending(Period.parse("7d", None, now)).calls == 3
    assert ledger.spending_by("day", Period.parse("7d", None, now))[0].name == "2026-11-21"


@pytest.mark.parametrize("text", ["yesterday", "d", "7w", "2026-13-01", "99999999999d"])
def test_an_invalid_time_is_rejected(text: str) -> None:
    with pytest.raises(InvalidOption, match="a date like 2026-11-20, a time like 2026-11-20T14:30, or days back"):
        Period.parse(text, None)


def test_calls_without_usage_are_not_stored(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.call_recorder("ask", "p")(MeteredCall("chat", "extractive", "extractive", UsageStats()))
    assert not (tmp_path / "ledger.sqlite").exists()
    assert (ledger.total_spending(), ledger.spending_by("day")) == (Spending(), [])


def test_rows_of_all_threads_are_stored(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    write = ledger.call_recorder("ask", "p")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: write(chat(0.5)), range(400)))
    ledger.close()
    assert (ledger.total_spending().calls, ledger.total_spending().runs, ledger.total_spending().llm_cost_usd) == (
        400,
        1,
        200.0,
    )


SCRIPT = """
import os, sys
from pathlib import Path
from ragkit.usage.ledger import Ledger
from ragkit.usage.meter import MeteredCall, UsageStats
write = Ledger(Path(sys.argv[1])).call_recorder("ask", "p")
for number in range(50):
    write(MeteredCall("chat", "openai", "gpt-4o", UsageStats(1, 1, llm_cost_usd=0.5), at=float(number)))
os._exit(9)  # like kill -9: nothing is closed
"""


def test_rows_written_by_a_killed_process_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    processes = [subprocess.Popen([sys.executable, "-c", SCRIPT, str(path)], env=os.environ) for _ in range(3)]
    assert [process.wait() for process in processes] == [9, 9, 9]
    assert (Ledger(path).total_spending().calls, Ledger(path).total_spending().runs) == (150, 3)


def test_a_failed_write_is_logged_with_the_lost_call_and_not_raised(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write = Ledger(tmp_path / "missing" / "ledger.sqlite").call_recorder("ask", "p")
    with caplog.at_level(logging.WARNING, "ragkit.ledger"):
        write(embedding(0.0))
        assert caplog.messages == []  # free calls are not logged
        write(chat(0.5))
    assert "ask gpt-4o, USD 0.5" in caplog.text


def test_an_invalid_ledger_file_is_reported_as_damaged(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    path.write_bytes(b"this is no database" * 100)
    with pytest.raises(KnowledgeBaseDamaged, match="is not a valid ledger"):
        Ledger(path).total_spending()


def test_a_meter_writes_each_call_to_the_ledger_at_once(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    with use_meter(Meter(on_call=ledger.call_recorder("search", "p"))):
        record_embedding("text-embedding-3-small", 1_000_000, None, provider="openai")
        assert ledger.total_spending().embedding_cost_usd == pytest.approx(0.02)
    ledger.close()


def test_calls_without_cost_do_not_wait_for_a_lock_that_calls_with_cost_wait_for(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(ledger.place, Path)
    record, before = ledger.call_recorder("search", "default"), ledger.total_spending()
    with closing(sqlite3.connect(ledger.place, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        monkeypatch.setattr(ledger_module, "BUSY_TIMEOUT_S", 3600.0)
        record(embedding(0.0))
        with ThreadPoolExecutor() as pool:
            paid = pool.submit(record, embedding(0.5))
            other.execute("ROLLBACK")
            paid.result(60)
    after = ledger.total_spending()
    assert (after.calls, after.known_cost_usd) == (before.calls + 1, before.known_cost_usd + 0.5)
