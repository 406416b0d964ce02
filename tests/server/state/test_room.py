"""Each user has room for conversations, which nobody else's conversations take; full disks and states lose nothing."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ragkit.index.catalog.database_url import DatabaseUrl
from ragkit.server.http_errors import RequestRejected
from ragkit.server.principals import CURRENT, Principal
from ragkit.server.settings import Retention
from ragkit.server.state.database import StateDatabase
from ragkit.server.state.rights_filter import RightsFilter
from ragkit.server.state.sessions import SessionStore
from ragkit.server.state.traces import TraceStore


class Disk(NamedTuple):
    """What `shutil.disk_usage` returns."""

    total: int
    used: int
    free: int


@pytest.fixture(params=["directory", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | DatabaseUrl:
    """Where the state is."""
    if request.param == "directory":
        return tmp_path
    return DatabaseUrl.parse(request.getfixturevalue("database_url"))


@contextmanager
def stores(place: Path | DatabaseUrl, retention: Retention) -> Iterator[tuple[SessionStore, TraceStore]]:
    state, rights = StateDatabase(place), RightsFilter(None)
    yield SessionStore(state, retention, rights), TraceStore(state, retention, rights)
    state.close()


async def ask(kept: tuple[SessionStore, TraceStore], user: str, question: str, answer: str = "Yes.") -> str:
    """A conversation of a user; the id of its session."""
    sessions, traces = kept
    CURRENT.set(Principal(f"user:{user}@", "reader", "", None, f"user:{user}"))
    trace = f"trace {user} {question}"
    turn = await sessions.add_question(None, question, trace)
    await traces.start(trace, turn.session_id, "m", question)
    record: dict[str, Any] = {"turns": [answer], "tool_calls": [], "config": {}, "total_tokens": 1, "origins": []}
    await traces.finish(trace, "done", {"record": record})
    await sessions.finish_answer(turn, "done", answer, {"origins": []})
    return turn.session_id


async def titles(kept: tuple[SessionStore, TraceStore], user: str) -> list[str]:
    CURRENT.set(Principal(f"user:{user}@", "reader", "", None, f"user:{user}"))
    rows: Any = (await kept[0].list(None, 200))[0]
    return [row["title"] for row in reversed(rows)]


def test_the_newest_conversations_of_one_user_push_out_that_users_oldest_and_no_others(
    place: Path | DatabaseUrl,
) -> None:
    async def main() -> None:
        with stores(place, Retention(max_sessions=10, max_traces=12)) as kept:
            for number in range(8):
                await ask(kept, "alice", f"alice {number}")
            for number in range(30):
                await ask(kept, "mallory", f"mallory {number}")
            await kept[0].delete_expired()
            await kept[1].delete_expired()
            assert await titles(kept, "alice") == [f"alice {number}" for number in range(8)]
            assert await titles(kept, "mallory") == [f"mallory {number}" for number in range(20, 30)]
            traces: Any = (await kept[1].list(None, 200, None))[0]
            assert len(traces) == 12 and sum(bool(trace["question"]) for trace in traces) == 10
            assert (await kept[1].get("trace mallory mallory 19"))["turns"] == [], "the texts leave with the session"
            CURRENT.set(Principal("user:alice@", "reader", "", None, "user:alice"))
            assert len((await kept[1].list(None, 200, None))[0]) == 8

    asyncio.run(main())


def test_the_bytes_of_one_user_are_limited_and_the_oldest_conversations_go_first(place: Path | DatabaseUrl) -> None:
    async def main() -> None:
        with stores(place, Retention(max_bytes=100_000)) as kept:
            await ask(kept, "alice", "alice 0", "a" * 5000)
            for number in range(40):
                await ask(kept, "mallory", f"mallory {number}", "m" * 5000)
            left = await titles(kept, "mallory")
            assert left == [f"mallory {number}" for number in range(40 - len(left), 40)]
            assert 6 <= len(left) <= 10, "about ten thousand bytes each, with the trace"
            assert await titles(kept, "alice") == ["alice 0"]

    asyncio.run(main())


def test_a_full_state_takes_no_question_and_loses_nothing(place: Path | DatabaseUrl) -> None:
    async def main() -> None:
        with stores(place, Retention(max_total_bytes=50_000)) as kept:
            with pytest.raises(RequestRejected, match="it takes no more until some are deleted") as refused:
                for number in range(20):
                    await ask(kept, "alice", f"alice {number}", "a" * 5000)
            assert refused.value.response.status == 507
            stored = await titles(kept, "alice")
            assert stored == [f"alice {number}" for number in range(len(stored))] and len(stored) > 2
            with pytest.raises(RequestRejected):
                await ask(kept, "bob", "bob")
            assert await titles(kept, "alice") == stored

    asyncio.run(main())


def test_a_disk_that_is_almost_full_takes_no_question_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        with stores(tmp_path, Retention()) as kept:
            session = await ask(kept, "alice", "alice")
            monkeypatch.setattr(shutil, "disk_usage", lambda _: Disk(10**9, 10**9 - 10**7, 10**7))
            with pytest.raises(RequestRejected, match="the disk of the server is full") as refused:
                await ask(kept, "alice", "more")
            assert refused.value.response.status == 507
            assert (await kept[0].get(session))["message_count"] == 2

    asyncio.run(main())


def test_a_file_that_cannot_grow_is_reported_as_a_full_disk(tmp_path: Path) -> None:
    async def main() -> None:
        with stores(tmp_path, Retention()) as kept:
            session = await ask(kept, "alice", "alice")

            def fill(connection: Any) -> None:
                pages = connection.execute("PRAGMA page_count").fetchone()[0]
                connection.execute(f"PRAGMA max_page_count = {pages}")

            await kept[0]._state.run(fill)
            with pytest.raises(RequestRejected, match="the disk of the server is full"):
                await ask(kept, "alice", "x" * 100_000)
            assert (await kept[0].get(session))["message_count"] == 2

    asyncio.run(main())
    with sqlite3.connect(tmp_path / "server.sqlite") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
