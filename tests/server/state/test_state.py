"""The stores of a server keep their promises in a directory and in PostgreSQL."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest

from ragkit.index.catalog.database_url import DatabaseUrl
from ragkit.index.catalog.postgres_tables import PostgresTables
from ragkit.records import JSON
from ragkit.server.http_errors import RequestRejected
from ragkit.server.rate_limit import RequestRates
from ragkit.server.settings import Retention
from ragkit.server.state.database import StateDatabase
from ragkit.server.state.job_store import MAX_ATTEMPTS, JobRequest, JobStore
from ragkit.server.state.rights_filter import RightsFilter
from ragkit.server.state.sessions import SessionStore
from ragkit.server.state.shares import ShareStore
from ragkit.server.state.traces import TraceStore
from ragkit.usage.ledger import FILE_NAME, Ledger, create_tables
from ragkit.usage.meter import MeteredCall, UsageStats

EVERYTHING = RightsFilter(None)
T = TypeVar("T")
Open = Callable[[], StateDatabase]
INDEX = JobRequest("index", index=("docs",))


def wait(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


@pytest.fixture(params=["directory", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | DatabaseUrl:
    """Where the state is."""
    if request.param == "directory":
        return tmp_path
    return DatabaseUrl.parse(request.getfixturevalue("database_url"))


@pytest.fixture
def server(place: Path | DatabaseUrl) -> Iterator[Open]:
    """Opens the state as one more server does."""
    opened: list[StateDatabase] = []

    def open_one() -> StateDatabase:
        opened.append(StateDatabase(place))
        return opened[-1]

    yield open_one
    for state in opened:
        state.close()


def test_a_session_of_one_server_goes_on_on_another(server: Open) -> None:
    one, other = (SessionStore(server(), Retention(), EVERYTHING) for _ in range(2))
    turn = wait(one.add_question(None, "Who?\0 100 % of ?", "tr1"))
    with pytest.raises(RequestRejected, match="another answer is running in this session"):
        wait(other.add_question(turn.session_id, "And?", "tr2"))
    wait(one.finish_answer(turn, "done", "Nobody [1].", {"model": "m", "shown": ["c1"]}))
    again = wait(other.add_question(turn.session_id, "And?", "tr2"))
    assert (len(again.history), again.history[1], again.shown) == (2, ("assistant", "Nobody [1]."), ("c1",))
    wait(other.finish_answer(again, "done", "You.", {}))
    rated = wait(one.rate(again.answer_id, {"rating": "up"}))
    assert rated["feedback"] == {"rating": "up"}
    found, following = wait(one.list(None, 1, "NOBODY"))
    assert (len(found), following) == (1, None)
    assert wait(one.list(None, 1, "no such text")) == ([], None)


def test_labels_and_notes_of_one_server_are_found_on_another(server: Open) -> None:
    one, other = (SessionStore(server(), Retention(), EVERYTHING) for _ in range(2))
    first = wait(one.add_question(None, "When?", "tr1")).session_id
    second = str(wait(one.start("Empty"))["id"])
    labels = ["  two   words ", 'ä % ? " ,', "", "two words"]
    changed = wait(other.change(first, labels=labels, note=" See 100 % of it?\n"))
    assert (changed["labels"], changed["note"]) == (["two words", 'ä % ? " ,'], "See 100 % of it?")
    assert wait(one.change(second, title="Full", labels=["two words"]))["title"] == "Full"
    assert wait(other.labels()) == [{"label": "two words", "sessions": 2}, {"label": 'ä % ? " ,', "sessions": 1}]

    def found(query: str = "", label: str = "") -> list[str]:
        return [row["id"] for row in wait(other.list(None, 10, query, label))[0]]  # type: ignore[call-overload, index, misc]

    assert found(label='ä % ? " ,') == [first] and found(label="two words") == [second, first]
    assert found(label="two") == found(label='two words", "ä') == found(label=", ") == []
    assert found("100 % OF") == [first] and found("full", "two words") == [second]
    assert wait(one.change(first, note=""))["labels"] == ["two words", 'ä % ? " ,']
    assert wait(one.change(first, labels=[]))["note"] == "" and found(label='ä % ? " ,') == []


def test_running_answers_of_a_dead_server_read_interrupted_and_those_of_a_live_one_do_not(server: Open) -> None:
    dying, living = server(), server()
    stores = [
        (SessionStore(state, Retention(), EVERYTHING), TraceStore(state, Retention(), EVERYTHING))
        for state in (dying, living)
    ]
    turns = []
    for number, (sessions, traces) in enumerate(stores):
        turns.append(wait(sessions.add_question(None, "Who?", f"tr{number}")))
        wait(traces.start(f"tr{number}", turns[-1].session_id, "m", "Who?"))
    wait(stores[0][0].update_answer(turns[0], "Half an", []))
    dying.close()  # without a word about its answers, as the kernel does for a killed process
    sessions, traces = stores[1]
    answers: list[Any] = [wait(sessions.get(turn.session_id)) for turn in turns]
    last = [answer["history"][-1] for answer in answers]
    assert [(row["status"], row["content"]) for row in last] == [("interrupted", "Half an"), ("running", "")]
    assert [wait(traces.get(f"tr{number}"))["status"] for number in range(2)] == ["interrupted", "running"]


def test_an_answer_of_another_server_is_stopped_and_its_server_notices(server: Open) -> None:
    one, other = (SessionStore(server(), Retention(), EVERYTHING) for _ in range(2))
    turn = wait(one.add_question(None, "Who?", "tr1"))
    assert wait(one.update_answer(turn, "Half an", [])) is True
    assert wait(one.stop(turn.session_id))[0] == "tr1"  # which it stops itself
    assert wait(other.stop(turn.session_id))[0] == ""
    assert wait(one.update_answer(turn, "Half an answer", [])) is False
    wait(one.finish_answer(turn, "done", "Half an answer of many words.", {}))
    stored: Any = wait(other.get(turn.session_id))
    last = stored["history"][-1]
    assert (last["status"], last["content"]) == ("cancelled", "Half an")
    wait(other.add_question(turn.session_id, "And?", "tr2"))


def test_answers_given_up_share_one_timer_which_ends_with_the_state(server: Open) -> None:
    state = server()
    before = set(threading.enumerate())
    for number in range(20):
        state.give_up(f"trace{number}")
    [timer] = set(threading.enumerate()) - before
    state.close()
    timer.join(10)
    assert not timer.is_alive()


def test_a_mark_that_is_due_while_the_state_closes_is_dropped(server: Open) -> None:
    state = server()
    hold = threading.Event()
    state._executor.submit(hold.wait)
    with ThreadPoolExecutor(2) as pool:
        work = []
        for function in (state.close, lambda: state._mark_given_up(1.0)):  # in this order in the queue of the state
            work.append(pool.submit(function))
            deadline = time.monotonic() + 10
            while state._executor._work_queue.qsize() < len(work) and time.monotonic() < deadline:
                time.sleep(0.01)
        assert state._executor._work_queue.qsize() == 2
        hold.set()
        for one in work:
            one.result(10)


def test_surplus_sessions_and_traces_are_deleted_and_their_texts_leave_the_traces(server: Open) -> None:
    state, keep = server(), Retention(max_sessions=3, max_traces=4)
    sessions, traces = SessionStore(state, keep, EVERYTHING), TraceStore(state, keep, EVERYTHING)
    for number in range(6):
        turn = wait(sessions.add_question(None, f"question {number}", f"tr{number}"))
        wait(traces.start(f"tr{number}", turn.session_id, "m", f"question {number}"))
        record: dict[str, JSON] = {"turns": ["secret"], "tool_calls": [], "config": {"a": 1}, "total_tokens": 3}
        wait(traces.finish(f"tr{number}", "done", {"record": record}))
        wait(sessions.finish_answer(turn, "done", "Yes.", {}))
    wait(sessions.delete_expired())
    wait(traces.delete_expired())
    rows, following = wait(traces.list(None, 3, None))
    assert [row["question"] for row in rows] == ["question 5", "question 4", "question 3"]  # type: ignore[index,call-overload]
    last, _ = wait(traces.list(following, 3, None))
    assert [row["question"] for row in last] == [""]  # type: ignore[index,call-overload]
    kept = wait(traces.get("tr2"))
    assert (kept["turns"], kept["config"]) == ([], {"a": 1})


def test_a_link_of_one_server_works_on_another_until_it_is_revoked(server: Open) -> None:
    one, other = server(), server()
    session = str(wait(SessionStore(one, Retention(), EVERYTHING).start("talk"))["id"])
    shares = [ShareStore(state, Retention()) for state in (one, other)]
    for store in shares:
        wait(store.open())
    link = wait(shares[0].share(session))
    assert wait(shares[1].share(session)) == link
    assert wait(shares[1].find_session(str(link["share_id"]))) == session
    wait(shares[1].revoke(session))
    with pytest.raises(RequestRejected, match="link not found"):
        wait(shares[0].find_session(str(link["share_id"])))


def test_one_job_runs_at_a_time_and_that_of_a_dead_server_is_taken_over(server: Open) -> None:
    states = [server() for _ in range(MAX_ATTEMPTS + 1)]
    stores = [JobStore(state, Retention()) for state in states]
    for store in stores:
        wait(store.open())
    job = wait(stores[0].submit(INDEX)).id
    assert wait(stores[1].submit(INDEX)).id == job
    for number in range(MAX_ATTEMPTS):
        claimed = wait(stores[number].claim())
        assert claimed is not None
        assert (claimed.id, claimed.attempts) == (job, number + 1)
        assert wait(stores[number + 1].claim()) is None
        states[number].close()
    failed = wait(stores[-1].get(job))
    assert (failed.status, failed.state["error"]) == (
        "failed",
        {"message": "the server stopped 3 times while this job ran", "code": "interrupted"},
    )
    assert wait(stores[-1].resume(job, 1.0)).status == "queued"
    assert wait(stores[-1].cancel(job)).status == "cancelled"
    assert [one.id for one in wait(stores[-1].list(None, 5))[0]] == [job]


def test_a_job_with_files_of_a_machine_waits_for_a_server_there(server: Open) -> None:
    here, there = (JobStore(server(), Retention(), place) for place in ("here", "there"))
    wait(here.open())
    job = wait(here.submit(INDEX)).id
    page = wait(here.submit(JobRequest("index", index=("https://example.org/",)))).id
    for store, expected in ((there, page), (here, job)):
        claimed = wait(store.claim())
        assert claimed is not None and claimed.id == expected
        wait(store.finish(claimed.id, "done", {}))
    assert wait(there.claim()) is None
    assert wait(there.get(job)).status == "done"


def test_the_rate_limit_of_a_database_holds_over_all_servers(database_url: str) -> None:
    states = [StateDatabase(DatabaseUrl.parse(database_url)) for _ in range(2)]
    started = time.monotonic()
    waits = [wait(RequestRates().take(states[number % 2], "client", 6)) for number in range(10)]
    refilled = int((time.monotonic() - started) / 10)  # one in ten seconds
    assert 6 <= sum(not seconds for seconds in waits) <= 6 + refilled
    assert wait(RequestRates().take(states[0], "other", 6)) == 0
    for state in states:
        state.close()


def test_ledgers_of_one_place_have_the_same_sums(place: Path | DatabaseUrl, tmp_path: Path) -> None:
    def open_ledger() -> Ledger:
        if isinstance(place, Path):
            return Ledger(tmp_path / FILE_NAME)
        return Ledger(PostgresTables(place, "ledger", create_tables, serial=False))

    ledgers = [open_ledger(), open_ledger()]
    for number, ledger in enumerate(ledgers):
        write = ledger.call_recorder("ask", "default")
        stats = UsageStats(prompt_tokens=10, completion_tokens=2, llm_cost_usd=0.5 if number else None)
        for _ in range(3):
            write(MeteredCall("chat", "openai", "gpt", stats, "", 1, 1_763_683_200.0 + 86_399 * number))
    for ledger in ledgers:
        total = ledger.total_spending()
        assert (total.calls, total.runs, total.prompt_tokens, total.known_cost_usd) == (6, 2, 60, 1.5)
        assert total.total_cost_usd is None
        assert [(row.name, row.calls) for row in ledger.spending_by("day")] == [("2025-11-21", 6)]
        assert [(row.name, row.calls) for row in ledger.spending_by("model")] == [("openai:gpt", 6)]
        ledger.close()
