"""Server processes: kills, stops, workers, and the output of the command line."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import socket
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn

from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.server.app import create_app
from ragkit.server.logs import log_to_stderr
from ragkit.server.serve import create_socket, run
from tests.server.api.test_limits import wait_until
from tests.server.parts import LOCAL, SECONDS, Process, events, process
from tests.wire.dialects import DIALECTS
from tests.wire.server import Fault, ToolCallTurn, Turn, WireServer

TOKEN = "a-token-of-some-length"
WORDS = [f"word{n} " for n in range(3000)]
POLLS = Turn(calls=[ToolCallTurn("search_knowledge_base", {"query": "hedge"})], prompt_tokens=9, completion_tokens=9)
ASK = {"message": "When?", "stream": True}
SLOW = Fault(turn=Turn(WORDS), pause_s=0.02)


@contextmanager
def asking_openai(
    base: Path, *script: Turn | Fault, options: tuple[str, ...] = ()
) -> Iterator[tuple[Process, WireServer]]:
    """A server with a provider that has OpenAI's API."""
    with WireServer(DIALECTS["openai"], script) as wire:
        env = {"OPENAI_API_KEY": "test-key", "OPENAI_BASE_URL": f"{wire.url}/v1"}
        with process(base, "--model", "openai:gpt-4o-mini", *options, env=env) as server:
            yield server, wire


def wait_for_stored_text(client: httpx2.Client, received: Iterator[tuple[str, dict[str, Any]]]) -> str:
    """Read a stream until part of the answer is stored in the session. Returns the id of the session."""
    session = next(received)[1]["session_id"]
    for name, _ in received:
        if name == "text" and client.get(f"/session/{session}").json()["history"][1]["content"]:
            break
    return str(session)


def test_a_server_killed_during_an_answer_leaves_session_and_trace_intact(base: Path) -> None:
    with (
        asking_openai(base, POLLS, SLOW) as (server, _),
        server.client() as client,
        server.client() as other,
        client.stream("POST", "/chat", json=ASK) as stream,
    ):
        received = events(stream)
        session = wait_for_stored_text(other, received)
        server.kill()
    with process(base) as again, again.client() as client:
        question, answer = client.get(f"/session/{session}").json()["history"]
        assert (question["content"], question["status"]) == ("When?", "done")
        assert answer["status"] == "interrupted"
        assert answer["content"]
        assert "".join(WORDS).startswith(answer["content"])
        trace = client.get(f"/traces/{answer['trace_id']}").json()
        assert (trace["status"], trace["error"]) == ("interrupted", "the server was stopped")
        assert trace["ended"] is not None
        result = client.post("/chat", json={"message": "When is the hedge cut?", "session_id": session}).json()
        assert result["message"]["status"] == "done"
    with closing(sqlite3.connect(base / "server.sqlite")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_workers_share_sessions_and_metrics_and_detect_a_killed_worker(base: Path) -> None:
    options = ("--workers", "2", "--max-running", "4")
    with asking_openai(base, SLOW, options=options) as (server, _):
        created = {_request_on_new_connection(server, "POST", "/session/start")["id"] for _ in range(5)}
        wait_until(lambda: _list_sessions(server) == created and len(_pids(server)) == 2)
        assert 'ragkit_requests_total{route="/session/start",status="200"} 5.0' in _text(server, "/metrics")
        with server.client() as client, server.client() as other, client.stream("POST", "/chat", json=ASK) as stream:
            received = events(stream)
            session = wait_for_stored_text(other, received)
            assert _state(server, session) == "running"
            for pid in _pids(server):
                os.kill(pid, signal.SIGKILL)
        wait_until(lambda: _state(server, session) == "interrupted")


def _list_sessions(server: Process) -> set[str]:
    return {item["id"] for item in _request_on_new_connection(server, "GET", "/sessions")["sessions"]}


def _pids(server: Process) -> set[int]:
    lines = [json.loads(line) for line in server.log.decode().splitlines() if line.startswith("{")]
    return {int(line["pid"]) for line in lines if line["logger"] == "ragkit.server.request"}


def _request_on_new_connection(server: Process, method: str, path: str) -> dict[str, Any]:
    """A request over a new connection, for any worker; retried if the worker was killed."""
    for _ in range(20):
        try:
            with server.client() as client:
                results: dict[str, Any] = client.request(method, path).json()
                return results
        except httpx2.TransportError:
            continue
    raise AssertionError("no worker responds")


def _text(server: Process, path: str) -> str:
    with server.client() as client:
        return client.get(path).text


def _state(server: Process, session: str) -> str:
    return str(_request_on_new_connection(server, "GET", f"/session/{session}")["history"][1]["status"])


@pytest.mark.parametrize(
    ("number", "workers"),
    [
        (signal.SIGTERM, "2"),
        (signal.SIGHUP, "1"),
        pytest.param(signal.SIGTERM, "1", marks=pytest.mark.slow),
        pytest.param(signal.SIGHUP, "2", marks=pytest.mark.slow),
    ],
)
def test_a_stopping_server_finishes_running_answers(number: signal.Signals, workers: str, base: Path) -> None:
    short = Fault(turn=Turn(WORDS[:100]), pause_s=0.01)
    with asking_openai(base, short, options=("--workers", workers)) as (server, _), server.client() as client:
        with client.stream("POST", "/chat", json=ASK) as stream:
            received = events(stream)
            assert next(received)[0] == "start"
            if number == signal.SIGHUP:  # a closed terminal sends it to all processes
                os.killpg(server.process.pid, number)
            else:
                server.process.send_signal(number)
            name, data = list(received)[-1]
        assert (name, data["message"]["content"]) == ("done", "".join(WORDS[:100]))
        log = server.stopped()
    assert server.process.returncode == 0
    assert "Traceback" not in log


@pytest.mark.parametrize("workers", ["1", pytest.param("2", marks=pytest.mark.slow)])
def test_a_server_under_nohup_outlives_its_terminal(workers: str, base: Path) -> None:
    handler = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with process(base, "--workers", workers) as server, server.client() as client:
            signal.signal(signal.SIGHUP, handler)
            assert client.get("/health").status_code == 200
            os.killpg(server.process.pid, signal.SIGHUP)
            time.sleep(1)
            assert client.post("/chat", json={"message": "When is the hedge cut?"}).status_code == 200
            assert server.process.poll() is None
    finally:
        signal.signal(signal.SIGHUP, handler)


def test_repeated_stop_signals_change_nothing(base: Path) -> None:
    with process(base) as server:
        httpx2.get(f"{server.url}/health", timeout=SECONDS)
        end = time.monotonic() + SECONDS
        while server.process.poll() is None and time.monotonic() < end:
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.001)
    assert server.process.returncode == 0


@pytest.mark.timeout(240)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_before_uvicorn_handles_signals_stops_the_server(
    number: signal.Signals, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = uvicorn.Server.run

    def run_after_signal(server: uvicorn.Server, sockets: list[socket.socket]) -> None:
        signal.raise_signal(number)
        original(server, sockets)

    monkeypatch.setattr(uvicorn.Server, "run", run_after_signal)
    handler = signal.getsignal(number)
    with KnowledgeBase.open(base) as kb:
        run(create_app(kb, base, LOCAL), LOCAL, create_socket(LOCAL))
    assert signal.getsignal(number) == handler


def test_answers_that_exceed_the_shutdown_time_are_cancelled(base: Path) -> None:
    with asking_openai(base, SLOW, options=("--shutdown-timeout", "0.2")) as (server, wire), server.client() as client:
        with client.stream("POST", "/chat", json=ASK) as stream:
            received = events(stream)
            session = next(received)[1]["session_id"]
            assert [next(received)[0] for _ in range(3)] == ["tool", "tool_result", "text"]
            server.process.send_signal(signal.SIGTERM)
            name, data = list(received)[-1]
        assert (name, data["error"]["code"]) == ("error", "cancelled")
        assert wire.hung_up.wait(SECONDS)
        server.stopped()
    assert server.process.returncode == 0
    with closing(sqlite3.connect(base / "server.sqlite")) as connection:
        rows = connection.execute("SELECT status FROM messages WHERE session = ? ORDER BY key", (session,))
        assert [row[0] for row in rows] == ["done", "cancelled"]
    assert list((base / "server.workers").iterdir()) == []


def test_other_addresses_require_the_token_of_the_environment(base: Path) -> None:
    with process(base, "--host", "0.0.0.0", env={"RAGKIT_SERVER_TOKEN": TOKEN}) as server:
        url = re.sub(r"//[^:]+", "//127.0.0.1", server.url)
        assert httpx2.get(f"{url}/health", timeout=SECONDS).status_code == 200
        assert httpx2.get(f"{url}/sessions", timeout=SECONDS).status_code == 401
        headers = {"authorization": f"Bearer {TOKEN}"}
        assert httpx2.get(f"{url}/sessions", headers=headers, timeout=SECONDS).status_code == 200
        log = server.stopped()
    assert TOKEN not in log
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    assert [item["status"] for item in lines if item["logger"] == "ragkit.server.request"] == [200, 401, 200]
    assert all(item["request_id"].startswith("req_") for item in lines if item["logger"] == "ragkit.server.request")


def test_the_log_has_the_address_of_each_client(base: Path) -> None:
    with process(base) as server:
        httpx2.get(f"{server.url}/health", timeout=SECONDS)
        lines = [json.loads(line) for line in server.stopped().splitlines() if line.startswith("{")]
    assert [item["client"] for item in lines if item["logger"] == "ragkit.server.request"] == ["127.0.0.1"]


def test_errors_of_asyncio_are_logged_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    names = ("ragkit", "uvicorn", "asyncio")
    before = [(logger, logger.handlers[:], logger.level, logger.propagate) for logger in map(logging.getLogger, names)]
    try:
        log_to_stderr()
        logging.getLogger("asyncio").error("socket.accept() out of system resource")
        logging.getLogger("asyncio").warning("socket.send() raised exception.")
    finally:
        for logger, handlers, level, propagate in before:
            logger.handlers, logger.propagate = handlers, propagate
            logger.setLevel(level)
    [line] = capsys.readouterr().err.splitlines()
    assert json.loads(line)["message"] == "socket.accept() out of system resource"


REFUSED = [
    (("--host", "0.0.0.0"), {}, "RAGKIT_SERVER_TOKEN"),
    (("--model", "opnai:x"), {}, "unknown provider 'opnai'"),
    (("--allow-origin", "*"), {}, "a list of https://host"),
    ((), {"RAGKIT_SERVER_TOKEN": "short"}, "at least 16"),
]


@pytest.mark.parametrize(("options", "env", "says"), REFUSED, ids=[item[2] for item in REFUSED])
def test_invalid_options_fail_before_the_server_listens(
    base: Path, options: tuple[str, ...], env: dict[str, str], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from click.testing import CliRunner

    from ragkit.cli import cli
    from ragkit.errors import RagkitError

    for name, value in env.items():
        monkeypatch.setenv(name, value)
    result = CliRunner().invoke(cli, ["serve", "--kb", str(base), "--port", "0", *options])
    assert isinstance(result.exception, RagkitError)
    assert says in str(result.exception)
