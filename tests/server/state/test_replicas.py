"""Two servers on one database, with directories of their own, are one service behind a proxy."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx2
import pytest

from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.settings import Pipeline
from tests.server.parts import SECONDS, Process, events, process
from tests.server.test_processes import ASK, POLLS, SLOW, wait_for_stored_text
from tests.wire.dialects import DIALECTS
from tests.wire.server import WireServer

HASHING = "embed: {name: hashing, dimension: 64}\n"
FACTS = {"hedge": "May", "roses": "March", "lawn": "June", "filter": "Monday"}


@pytest.fixture
def shared(database_url: str, tmp_path: Path) -> str:
    """A knowledge base in PostgreSQL with one document for each fact."""
    folder = tmp_path / "house"
    folder.mkdir()
    for name, month in FACTS.items():
        (folder / f"{name}.md").write_text(f"# The {name}\n\nThe {name} is looked after in the month of {month}.\n")
    with KnowledgeBase.open(database_url, Pipeline.from_yaml(HASHING)) as kb:
        kb.index(folder)
    return database_url


def replica(stack: ExitStack, place: Path, address: str, *options: str, **environment: str) -> Process:
    """A server with a directory and a cache of its own."""
    place.mkdir(exist_ok=True)
    env = {"RAGKIT_CACHE": str(place / "cache"), **environment}
    return stack.enter_context(process(place / "kb", *options, env=env, place=address))


@contextmanager
def proxy(servers: list[str]) -> Iterator[str]:
    """Forwards requests in turn; to the next server where one cannot be reached, 502 where it ends within an answer."""
    turns = itertools.count()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            start, status, content = next(turns), 502, b"{}"
            for number in range(len(servers)):
                url = servers[(start + number) % len(servers)] + self.path
                headers = {"content-type": self.headers.get("content-type", "application/json")}
                try:
                    with httpx2.Client(timeout=SECONDS) as client:
                        answer = client.request(self.command, url, content=body, headers=headers)
                    status, content = answer.status_code, answer.content
                except httpx2.ConnectError:
                    continue
                except httpx2.TransportError:
                    pass
                break
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *arguments: object) -> None:
            """Log nothing."""

    class Server(ThreadingHTTPServer):
        request_queue_size = 128  # with the default of 5, connections of 50 sessions at once can be reset

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def converse(url: str, number: int, half: threading.Barrier) -> tuple[str, list[str], int]:
    """Ask about each fact in one session; returns its id, the ids of the answers received, and how many were lost."""
    answers, lost, session = list[str](), 0, None
    names = list(FACTS)
    with httpx2.Client(base_url=url, timeout=SECONDS) as client:
        for turn in range(len(names)):
            if turn == 2:
                half.wait(4 * SECONDS)
            name = names[(number + turn) % len(names)]
            body = {"message": f"When is the {name} looked after?", "session_id": session}
            response = client.post("/chat", json={key: value for key, value in body.items() if value})
            if response.status_code == 502:
                lost += 1
                continue
            assert response.status_code == 200, response.text
            answer = response.json()
            session = answer["session_id"]
            assert FACTS[name] in answer["message"]["content"]
            answers.append(answer["message"]["id"])
    assert session is not None
    return session, answers, lost


@pytest.mark.parametrize("sessions", [12, pytest.param(50, marks=pytest.mark.slow)])
def test_sessions_go_on_while_one_of_two_servers_is_killed_and_started_again(
    shared: str, tmp_path: Path, sessions: int
) -> None:
    half = threading.Barrier(sessions + 1)
    with ExitStack() as stack, ThreadPoolExecutor(sessions) as pool:
        first, second = (replica(stack, tmp_path / name, shared) for name in ("first", "second"))
        urls = [first.url, second.url]
        url = stack.enter_context(proxy(urls))
        running = [pool.submit(converse, url, number, half) for number in range(sessions)]
        half.wait(4 * SECONDS)
        first.kill()
        urls[0] = replica(stack, tmp_path / "first", shared).url
        results = [one.result() for one in running]
        assert len({session for session, _, _ in results}) == sessions
        assert sum(len(answers) for _, answers, _ in results) + sum(lost for _, _, lost in results) == 4 * sessions
        with httpx2.Client(base_url=second.url, timeout=SECONDS) as client:
            for session, answers, lost in results:
                history = client.get(f"/session/{session}").json()["history"]
                replies = [message for message in history if message["role"] == "assistant"]
                done = [message["id"] for message in replies if message["status"] == "done"]
                assert set(answers) <= set(done)
                assert len(replies) <= len(answers) + lost
                assert {message["status"] for message in replies} <= {"done", "interrupted"}


def test_the_running_answer_of_a_killed_server_reads_interrupted_on_the_other(shared: str, tmp_path: Path) -> None:
    with ExitStack() as stack, WireServer(DIALECTS["openai"], [POLLS, SLOW]) as wire:
        model = {"OPENAI_API_KEY": "test-key", "OPENAI_BASE_URL": f"{wire.url}/v1"}
        first = replica(stack, tmp_path / "first", shared, "--model", "openai:gpt-4o-mini", **model)
        second = replica(stack, tmp_path / "second", shared)
        client, other = (stack.enter_context(server.client()) for server in (first, second))
        with client.stream("POST", "/chat", json=ASK) as stream:
            received = events(stream)
            session = wait_for_stored_text(other, received)
            assert other.get(f"/session/{session}").json()["history"][1]["status"] == "running"
            first.kill()
        deadline = time.monotonic() + SECONDS
        while (answer := other.get(f"/session/{session}").json()["history"][1])["status"] == "running":
            assert time.monotonic() < deadline  # after the time of a lease
            time.sleep(0.1)
        assert answer["status"] == "interrupted"
        assert answer["content"]
        body = {"message": "When is the hedge looked after?", "session_id": session}
        assert other.post("/chat", json=body).json()["message"]["status"] == "done"


def test_the_status_names_the_database_and_the_servers_on_it(shared: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        servers = [replica(stack, tmp_path / name, shared) for name in ("first", "second")]
        pids = {server.process.pid for server in servers}
        with servers[0].client() as client:
            known = set[int]()
            deadline = time.monotonic() + SECONDS
            while not pids <= known and time.monotonic() < deadline:
                database = client.get("/status").json()["database"]
                known = {one["pid"] for one in database["replicas"] if one["kind"] == "server"}
        assert pids <= known
        assert database["generations_behind"] == 0
