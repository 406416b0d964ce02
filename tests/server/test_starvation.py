"""One client cannot starve the others: connections, queues, sessions and the log are bounded by client."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from statistics import median

import httpx2
import pytest

from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.server.concurrency import PRINCIPAL, ConcurrencyLimiter
from ragkit.server.connections import client_name
from ragkit.server.http_errors import RequestRejected
from ragkit.server.logs import JsonFormatter, RateLimit
from ragkit.server.settings import Retention, ServerLimits, ServerSettings
from ragkit.server.state.database import StateDatabase
from ragkit.server.state.rights_filter import RightsFilter
from ragkit.server.state.sessions import SessionStore
from tests.server.api.test_limits import wait_until
from tests.server.parts import SECONDS, Process, Served, StepProvider, limited, process, serving

TOKENS = ("the-token-of-one-client", "the-token-of-another")
TRICKLING = 300
"""Connections in the short test; the slow one opens 2,000."""


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


_TRICKLE = """
import os, resource, select, socket, sys
os.nice(19)  # its work must not take the processors from the server
host, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
sockets = []
for _ in range(count):
    sock = socket.create_connection((host, port), timeout=60)
    sock.sendall(b"GET /health HTTP/1.1\\r\\nhost: localhost\\r\\n")
    sockets.append(sock)
print("connected", flush=True)
while not select.select([sys.stdin], [], [], 0.2)[0]:
    for sock in sockets:
        try:
            sock.sendall(b"x-slow: 1\\r\\n")
        except OSError:
            continue
"""
"""Sends the headers of requests slowly, one line at a time, and never ends them."""


@contextmanager
def trickling(address: tuple[str, int], count: int) -> Iterator[None]:
    """Many such connections, from another process: a client with many connections would delay its own requests."""
    command = [sys.executable, "-c", _TRICKLE, *map(str, address), str(count)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as client:
        try:
            assert client.stdout is not None
            assert client.stdout.readline() == b"connected\n"
            yield
        finally:
            client.kill()


def _connect(address: tuple[str, int]) -> socket.socket:
    """A connection that has sent a part of its headers."""
    sock = socket.create_connection(address, timeout=SECONDS)
    sock.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\n")
    return sock


def is_closed(sock: socket.socket) -> bool:
    """Whether the server has closed a connection."""
    sock.setblocking(False)
    try:
        return sock.recv(1000) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def health_seconds(url: str) -> float:
    started = time.monotonic()
    connection = HTTPConnection(url.removeprefix("http://"), timeout=SECONDS)
    connection.request("GET", "/health")
    assert connection.getresponse().status == 200
    connection.close()
    return time.monotonic() - started


def assert_health_is_fast(server: Process, count: int) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    health_seconds(server.url)
    with trickling((host, int(port)), count):
        health_seconds(server.url)  # waits until the server has accepted the connections before it, which came at once
        seconds = []
        for _ in range(20):
            seconds.append(health_seconds(server.url))
            time.sleep(0.05)
        assert median(seconds) < 0.2, seconds  # of a starved server, all are slow; of a busy machine, one may be
    log = server.stopped()
    assert len(log) < 1_000_000
    for line in log.splitlines():
        if not line.startswith("serving"):
            json.loads(line)


def test_trickling_connections_leave_health_fast_and_the_log_short(base: Path) -> None:
    with process(base) as server:
        assert_health_is_fast(server, TRICKLING)


@pytest.mark.slow
def test_two_thousand_trickling_connections_leave_health_fast_with_1024_files(base: Path) -> None:
    with process(base, max_files=1024) as server:
        assert_health_is_fast(server, 2000)


def test_headers_that_take_too_long_close_the_connection(base: Path) -> None:
    with serving(base, settings=limited(header_seconds=0.5)) as (served, _), ExitStack() as stack:
        sockets = [stack.enter_context(_connect(served.address)) for _ in range(3)]
        wait_until(lambda: all(map(is_closed, sockets)))


def test_a_hung_client_leaves_room_for_the_answers_of_others(base: Path) -> None:
    provider = StepProvider(["word"])
    settings = ServerSettings(port=0, tokens=TOKENS)
    statuses: list[int] = []

    def ask(token: str) -> None:
        connection = HTTPConnection(served.url.removeprefix("http://"), timeout=SECONDS)
        headers = {**bearer(token), "content-type": "application/json"}
        connection.request("POST", "/chat", b'{"message": "When?"}', headers)
        statuses.append(connection.getresponse().status)
        connection.close()

    with serving(base, provider, settings) as (served, _):
        hung = [threading.Thread(target=ask, args=(TOKENS[0],)) for _ in range(20)]
        for thread in hung:
            thread.start()
        limiter = served.app.state.service.runner.limiter
        wait_until(lambda: limiter.running + limiter.waiting == 20)
        other = threading.Thread(target=ask, args=(TOKENS[1],))
        other.start()
        started = time.monotonic()
        wait_until(lambda: limiter.running == 9)
        assert (limiter.waiting, time.monotonic() - started < 3) == (12, True)
        provider.steps.release(100)
        for thread in [*hung, other]:
            thread.join(SECONDS)
    assert statuses == [200] * 21


def test_the_queue_is_served_in_turns() -> None:
    served: list[str] = []
    limiter = ConcurrencyLimiter(ServerLimits(max_running=1, max_waiting=20))

    async def work(principal: str) -> None:
        PRINCIPAL.set(principal)
        async with limiter.slot():
            served.append(principal)
            await asyncio.sleep(0)

    async def main() -> None:
        await asyncio.gather(*(work(name) for name in ("a", "a", "a", "a", "b", "c")))

    asyncio.run(main())
    assert served == ["a", "a", "b", "c", "a", "a"]
    assert (limiter.running, limiter.waiting) == (0, 0)


def test_one_client_cannot_fill_the_queue() -> None:
    limiter = ConcurrencyLimiter(ServerLimits(max_running=1, max_waiting=4, max_wait_seconds=0.05))

    async def ask(principal: str) -> str:
        PRINCIPAL.set(principal)
        try:
            async with limiter.slot():
                await asyncio.sleep(1)
        except RequestRejected as error:
            return str(error)
        return "served"

    async def main() -> list[str]:
        running = asyncio.create_task(ask("a"))
        await asyncio.sleep(0)
        outcomes = await asyncio.gather(*(ask("a") for _ in range(4)), ask("b"))
        running.cancel()
        return list(outcomes)

    full, late = "the queue is full: retry later", "timed out in the queue: retry later"
    assert asyncio.run(main()) == [late, late, full, full, late]


def flood_embeddings(served: Served, stop: threading.Event) -> None:
    texts = [f"the hedge of garden {n} is cut in August, the lawn is mown on Fridays" for n in range(100)]
    while not stop.is_set():
        with served.client(headers=bearer(TOKENS[0])) as client:
            client.post("/v1/embeddings", json={"input": texts})


@pytest.mark.slow
def test_searches_and_health_are_fast_beside_forty_floods_of_embeddings(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "garden.md").write_text("The hedge is cut in August.\n")
    with KnowledgeBase.open(tmp_path / "minilm") as kb:  # the embedder that ships, which computes
        kb.index(docs)
    stop = threading.Event()
    with serving(tmp_path / "minilm", settings=ServerSettings(port=0, tokens=TOKENS)) as (served, _):
        threads = [threading.Thread(target=flood_embeddings, args=(served, stop)) for _ in range(40)]
        for thread in threads:
            thread.start()
        wait_until(lambda: served.app.state.service.embedding_limiter.waiting >= 30)
        seconds, health = [], []
        with served.client(headers=bearer(TOKENS[1])) as client:
            for n in range(10):
                started = time.monotonic()
                assert client.post("/v1/search", json={"query": f"hedge {n}"}).status_code == 200
                seconds.append(time.monotonic() - started)
                health.append(health_seconds(served.url))
        stop.set()
        for thread in threads:
            thread.join(SECONDS)
    assert median(seconds) < 1, seconds
    assert median(health) < 1, health


def assert_conversations_stay(directory: Path, count: int, retention: Retention) -> None:
    async def main() -> None:
        state = StateDatabase(directory)
        sessions = SessionStore(state, retention, RightsFilter(None))
        asked = [(await sessions.add_question(None, "When?", f"trace{n}")).session_id for n in range(100)]
        for _ in range(count):
            await sessions.start()
        fresh = str((await sessions.start())["id"])
        for _ in range(int(retention.max_sessions * 0.1) - 1):
            await sessions.start()
        assert [(await sessions.get(session))["message_count"] for session in asked] == [2] * 100
        assert (await sessions.add_question(fresh, "When?", "trace")).session_id == fresh
        state.close()

    asyncio.run(main())


@pytest.mark.slow
def test_ten_thousand_empty_sessions_push_out_no_conversation(tmp_path: Path) -> None:
    assert_conversations_stay(tmp_path, 10_000, Retention())


def test_empty_sessions_push_out_no_conversation_of_a_full_server(tmp_path: Path) -> None:
    assert_conversations_stay(tmp_path, 2_000, Retention(max_sessions=100))


def test_a_stopping_server_with_workers_refuses_new_connections(base: Path) -> None:
    from tests.server.test_processes import SLOW, asking_openai

    options = ("--workers", "2", "--shutdown-timeout", "20")
    with asking_openai(base, SLOW, options=options) as (server, _), server.client() as client:
        host, port = server.url.removeprefix("http://").split(":")
        with client.stream("POST", "/chat", json={"message": "When?", "stream": True}) as stream:
            next(stream.iter_lines())
            server.process.send_signal(signal.SIGTERM)
            deadline = time.monotonic() + 15
            refused = False
            while not refused and time.monotonic() < deadline:
                try:
                    with socket.create_connection((host, int(port)), timeout=SECONDS) as sock:
                        sock.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
                        while sock.recv(1000):
                            pass
                except ConnectionError:
                    refused = True
            assert refused
            assert server.process.poll() is None, "the answer is still running"
        server.kill()  # it would go on with the answer until the end of the grace


SURROGATE = r'"a \ud800 b"'


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/chat", '{"message": %s}'),
        ("/chat", '{"messages": [{"role": "user", "content": %s}]}'),
        ("/v1/search", '{"query": %s}'),
        ("/v1/search", '{"query": "x", "where": {%s: 1}}'),
        ("/v1/embeddings", '{"input": [%s]}'),
        ("/v1/chat/completions", '{"messages": [{"role": "user", "content": %s}]}'),
        ("/session/start", '{"title": %s}'),
        ("/session/end", '{"session_id": %s}'),
    ],
)
def test_lone_surrogates_are_invalid_everywhere(base: Path, path: str, body: str) -> None:
    with serving(base) as (_, client):
        response = client.post(path, content=body % SURROGATE, headers={"content-type": "application/json"})
    assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_request")


def test_the_log_of_repeated_messages_is_bounded_and_counts_what_it_drops(capsys: pytest.CaptureFixture[str]) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    handler.addFilter(RateLimit())
    logger = logging.Logger("test")
    logger.addHandler(handler)
    minute = 60.0 * (time.time() // 60)
    for n, created in [*((n, minute) for n in range(5000)), (5000, minute + 60)]:
        record = logger.makeRecord("test", logging.ERROR, "", 0, "it failed: %s", (n,), None, extra={"client": "::1"})
        record.created = created
        logger.handle(record)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["message"] for line in lines] == [f"it failed: {n}" for n in (*range(20), 5000)]
    assert lines[-1]["dropped"] == 4980


def test_invalid_requests_and_huge_paths_are_logged_with_the_address_of_the_client(base: Path) -> None:
    with process(base) as server:
        host, port = server.url.removeprefix("http://").split(":")
        for _ in range(100):
            with socket.create_connection((host, int(port)), timeout=SECONDS) as sock:
                sock.sendall(b"NONSENSE\r\n\r\n")
                while sock.recv(1000):
                    pass
        httpx2.get(f"{server.url}/{'x' * 20_000}", timeout=SECONDS)
        lines = [json.loads(line) for line in server.stopped().splitlines() if line.startswith("{")]
    invalid = [line for line in lines if "Invalid HTTP request" in line["message"]]
    assert {line["client"] for line in invalid} == {"127.0.0.1"}
    assert len(invalid) in (20, 40)  # in each minute
    assert max(len(line.get("path", "")) for line in lines) == 300


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::1", "::1"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("", ""),
    ],
)
def test_clients_are_counted_by_address_and_by_network_of_ipv6(host: str, name: str) -> None:
    assert client_name(host) == name


def test_connections_of_one_client_replace_their_own(base: Path) -> None:
    with (
        serving(base, settings=limited(max_connections_per_client=5, header_seconds=60)) as (served, _),
        ExitStack() as stack,
    ):
        sockets = [stack.enter_context(_connect(served.address)) for _ in range(8)]
        wait_until(lambda: all(map(is_closed, sockets[:3])))
        assert not any(map(is_closed, sockets[4:]))
