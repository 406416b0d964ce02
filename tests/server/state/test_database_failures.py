"""A database that is read-only, silent or taken over: what holds, and what goes on without a restart."""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, TypeVar

import psycopg
import pytest

from ragkit.cli.commands.serve import create_application
from ragkit.errors import DatabaseFailed
from ragkit.index.access import stores
from ragkit.index.access.rules import AccessSettings, User
from ragkit.index.access.stores import AccessTable
from ragkit.index.access.tokens import create_token
from ragkit.index.catalog.database_url import DatabaseUrl
from ragkit.index.catalog.postgres import PostgresCatalog
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.settings import Pipeline
from ragkit.server.http_errors import RequestRejected
from ragkit.server.rate_limit import RequestRates
from ragkit.server.settings import Retention
from ragkit.server.state.database import StateDatabase
from ragkit.server.state.job_store import JobRequest, JobStore
from ragkit.server.state.postgres import PostgresState
from ragkit.server.state.rights_filter import RightsFilter
from ragkit.server.state.sessions import SessionStore
from tests.server.conftest import HASHING
from tests.server.parts import LOCAL, Served
from tests.servers.link_proxy import LinkProxy

T = TypeVar("T")
ANN = AccessSettings().with_user(User("ann"))


def wait(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


@pytest.fixture
def url(database_url: str) -> DatabaseUrl:
    return DatabaseUrl.parse(database_url)


@pytest.fixture
def link(url: DatabaseUrl) -> Iterator[LinkProxy]:
    host = str(psycopg.conninfo.conninfo_to_dict(url.dsn)["host"])
    with LinkProxy(Path(host) / ".s.PGSQL.5432") as proxy:
        yield proxy


def through(link: LinkProxy, url: DatabaseUrl, options: str = "") -> DatabaseUrl:
    address = f"postgresql://postgres@127.0.0.1:{link.port}/postgres?schema={url.schema}&lease=3{options}"
    return DatabaseUrl.parse(address)


def eventually(check: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("table", ["jobs", "server_state"])
def test_a_server_starts_while_a_lock_of_a_vanished_machine_is_held(
    table: str, url: DatabaseUrl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGKIT_CACHE", str(tmp_path))
    (tmp_path / "garden.md").write_text("The hedge is cut in August.\n")
    with KnowledgeBase.open(url.address, Pipeline.from_yaml(HASHING)) as kb:
        kb.index(tmp_path / "garden.md")
    with KnowledgeBase.open(f"{url.address}&statement_timeout=1") as kb:
        Served(kb, LOCAL, create_application({"": kb}, LOCAL)).stop()  # creates the tables of the state
        with psycopg.connect(url.dsn) as vanished:
            vanished.execute(f"LOCK TABLE {url.schema}.{table} IN ACCESS EXCLUSIVE MODE".encode())
            release = threading.Timer(3, vanished.rollback)
            release.start()
            served = Served(kb, LOCAL, create_application({"": kb}, LOCAL))
            with served.client() as client:
                assert client.get("/ready").status_code == 200
            served.stop()
            release.join()


def test_a_state_that_was_read_only_is_written_again_without_a_restart(url: DatabaseUrl) -> None:
    role = f"r{secrets.token_hex(4)}"
    with psycopg.connect(url.dsn, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {role} LOGIN SUPERUSER".encode())
        place = DatabaseUrl.parse(url.address.replace("postgres:@", f"{role}:@"))
        state = StateDatabase(place)
        sessions = SessionStore(state, Retention(), RightsFilter(None))
        wait(sessions.start())
        admin.execute(f"ALTER ROLE {role} SET default_transaction_read_only = on".encode())
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", (role,))
        for _ in range(2):
            with pytest.raises(DatabaseFailed, match=r"read-only transaction.*target_session_attrs=read-write"):
                wait(sessions.start())
            with pytest.raises(DatabaseFailed, match="read-only transaction"):
                wait(state.check_writable())
        admin.execute(f"ALTER ROLE {role} RESET default_transaction_read_only".encode())
        wait(sessions.start())
        wait(state.check_writable())
        state.close()
        admin.execute(f"DROP OWNED BY {role} CASCADE".encode())
        admin.execute(f"DROP ROLE {role}".encode())


def test_a_worker_that_was_taken_for_dead_finishes_nothing(url: DatabaseUrl) -> None:
    vanished, other = StateDatabase(url), StateDatabase(url)
    jobs = [JobStore(state, Retention()) for state in (vanished, other)]
    sessions = [SessionStore(state, Retention(), RightsFilter(None)) for state in (vanished, other)]
    wait(jobs[0].open())
    job = wait(jobs[0].submit(JobRequest("index", index=("https://example.org/",)))).id
    assert wait(jobs[0].claim()) is not None
    assert wait(jobs[1].claim()) is None
    turn = wait(sessions[0].add_question(None, "Who?", "trace"))
    assert isinstance(vanished._backend, PostgresState)
    vanished._backend._stop.set()  # it does not report any more, and its connections stay
    eventually(lambda: wait(jobs[1].claim()) is not None)
    assert wait(sessions[1].get(turn.session_id))["history"][1]["status"] == "interrupted"  # type: ignore[index, call-overload]
    assert wait(jobs[0].update(job, {"progress": None}))  # it must stop
    wait(jobs[0].finish(job, "failed", {}))
    assert wait(jobs[1].get(job)).status == "running"
    message, _ = wait(sessions[0].finish_answer(turn, "done", "late", {}))
    assert (message["status"], message["content"]) == ("interrupted", "")
    assert not wait(jobs[1].update(job, {"progress": None}))
    for state in (vanished, other):
        state.close()


def test_an_answer_whose_end_could_not_be_stored_does_not_keep_its_session(url: DatabaseUrl, link: LinkProxy) -> None:
    state = StateDatabase(through(link, url))
    sessions = SessionStore(state, Retention(), RightsFilter(None))
    turn = wait(sessions.add_question(None, "Who?", "trace"))
    link.set_fault("cut")
    with pytest.raises(DatabaseFailed, match="start the database"):
        wait(sessions.finish_answer(turn, "done", "text", {}))
    sessions.give_up("trace")
    link.set_fault("")
    assert wait(sessions.add_question(turn.session_id, "And?", "trace2")).session_id == turn.session_id
    state.close()


def test_another_server_goes_on_with_a_session_whose_answer_could_not_be_stored(
    url: DatabaseUrl, link: LinkProxy
) -> None:
    state, other = StateDatabase(through(link, url)), StateDatabase(url)
    sessions, others = (SessionStore(one, Retention(), RightsFilter(None)) for one in (state, other))
    turn = wait(sessions.add_question(None, "Who?", "trace"))
    link.set_fault("cut")
    with pytest.raises(DatabaseFailed, match="start the database"):
        wait(sessions.finish_answer(turn, "done", "text", {}))
    sessions.give_up("trace")
    with pytest.raises(RequestRejected, match="another answer is running"):
        wait(others.add_question(turn.session_id, "And?", "trace2"))
    link.set_fault("")

    def goes_on() -> bool:  # nothing more is asked of the server that gave up
        with suppress(RequestRejected):
            return wait(others.add_question(turn.session_id, "And?", "trace2")).session_id == turn.session_id
        return False

    eventually(goes_on)
    state.close()
    other.close()


@pytest.mark.parametrize("fault", ["stall", "cut"])
def test_rights_are_in_memory_and_end_when_the_database_is_silent(
    url: DatabaseUrl, link: LinkProxy, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "MAX_SILENCE_SECONDS", 2.0)
    table, admin = AccessTable(through(link, url, "&statement_timeout=1")), AccessTable(url)
    with closing(table), closing(admin):
        table.follow()
        assert table.read() == AccessSettings()
        admin.update(lambda _: ANN)
        changed = time.monotonic()
        eventually(lambda: table.read() == ANN)
        assert time.monotonic() - changed < 1 + 1  # and what this machine is late
        link.set_fault(fault)
        silent, slowest = time.monotonic(), 0.0
        with pytest.raises(DatabaseFailed):
            while time.monotonic() - silent < 10:
                started = time.thread_time()
                assert table.read() == ANN
                slowest = max(slowest, time.thread_time() - started)
                time.sleep(0.01)
        assert slowest < 0.1
        link.set_fault("")
        eventually(lambda: _may_read(table))
        admin.update(lambda _: AccessSettings())
        eventually(lambda: table.read() == AccessSettings())
        link.set_fault(fault)
        time.sleep(3)
        assert table.read() == AccessSettings()  # without users and rules there is nothing to hide


def _may_read(table: AccessTable) -> bool:
    try:
        return table.read() == ANN
    except DatabaseFailed:
        return False


@pytest.mark.parametrize("fault", ["stall", "cut"])
def test_users_search_the_copy_while_the_database_is_silent(
    url: DatabaseUrl, link: LinkProxy, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGKIT_CACHE", str(tmp_path))
    (tmp_path / "garden.md").write_text("The hedge is cut in August.\n")
    token, stored = create_token()
    with KnowledgeBase.open(url.address, Pipeline.from_yaml(HASHING)) as kb:
        kb.index(tmp_path / "garden.md")
        kb.location.access.update(lambda settings: settings.with_user(User("ann", (), "reader", (stored,))))
    with KnowledgeBase.open(through(link, url).address) as kb:
        served = Served(kb, LOCAL, create_application({"": kb}, LOCAL))
        with served.client(headers={"authorization": f"Bearer {token}"}) as ann:
            for broken in ("", fault, fault):
                if broken:
                    link.set_fault(broken)
                started = time.monotonic()
                assert ann.get("/health").status_code == 200
                assert time.monotonic() - started < 1 + 4  # and what this machine is late
                found = ann.post("/v1/search", json={"query": "When is the hedge cut?"})
                assert [hit["text"] for hit in found.json()["hits"]] == ["The hedge is cut in August."]
                assert time.monotonic() - started < 8, "it waits for no answer of the database"
                eventually(lambda: ann.get("/ready").status_code == (503 if broken else 200))  # noqa: B023
            link.set_fault("")
            eventually(lambda: ann.get("/ready").status_code == 200)
        served.stop()


def test_requests_are_counted_while_the_database_is_cut(url: DatabaseUrl, link: LinkProxy) -> None:
    state, rates = StateDatabase(through(link, url)), RequestRates()

    async def count() -> list[bool]:
        return [await rates.take(state, "ann", 5) > 0 for _ in range(8)]

    link.set_fault("cut")
    assert wait(count()) == [False] * 5 + [True] * 3
    link.set_fault("")
    state.close()


def test_a_statement_that_is_not_answered_ends(url: DatabaseUrl, link: LinkProxy) -> None:
    with closing(PostgresCatalog(through(link, url, "&statement_timeout=1"))) as database:
        database.create()
        link.set_fault("stall answers")
        started = time.monotonic()
        with pytest.raises(DatabaseFailed, match="no answer for 3 s"):
            database.state()
        assert time.monotonic() - started < 20
        link.set_fault("")
        assert database.state() is not None


def test_a_long_statement_is_not_taken_for_a_dead_connection(url: DatabaseUrl, link: LinkProxy) -> None:
    with closing(PostgresCatalog(through(link, url, "&statement_timeout=1"))) as database:
        with pytest.raises(DatabaseFailed, match="statement timeout"):
            database.run(lambda c: c.execute("SELECT pg_sleep(8)"))
        assert database.run(lambda c: c.execute("SELECT 1 FROM pg_sleep(8)").fetchone(), is_long=True) == (1,)


def test_a_publication_that_a_dead_machine_began_does_not_hold_the_next_writer(url: DatabaseUrl) -> None:
    with closing(PostgresCatalog(url)) as dead, closing(PostgresCatalog(url)) as other:
        dead.create()
        lease = dead.acquire_lease()
        lock = dead._lock_number()
        with pytest.raises(DatabaseFailed, match="terminat"), dead._transaction() as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (lock,))  # as `publish` begins
            taken = other.acquire_lease()  # after the time of a lease
            other.create()  # needs the lock
            assert taken.token == lease.token + 1
            connection.execute("SELECT 1")
