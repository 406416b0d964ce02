"""Clients that disconnect, send slowly or never read: their work is cancelled, and other clients are not blocked."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest

from ragkit.server.serve import create_socket
from tests.server.api.test_limits import wait_until
from tests.server.parts import LOCAL, SECONDS, Served, StepProvider, events, limited, process, serving
from tests.wire.dialects import DIALECTS
from tests.wire.server import Fault, Turn, WireServer

WORDS = [f"word{n} " for n in range(2000)]


def connect_socket(served: Served) -> socket.socket:
    return socket.create_connection(served.address, timeout=SECONDS)


def request(path: str, body: dict[str, object]) -> bytes:
    raw = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(raw)}\r\n"
    )
    return f"{head}\r\n".encode() + raw


def last_message_status(client: httpx2.Client, session: str) -> str:
    return str(client.get(f"/session/{session}").json()["history"][-1]["status"])


@pytest.mark.parametrize("streamed", [True, False])
def test_a_disconnect_cancels_the_answer(base: Path, streamed: bool) -> None:
    provider = StepProvider(WORDS, steps=1)
    with serving(base, provider) as (served, client):
        session = client.post("/session/start").json()["id"]
        with connect_socket(served) as sock:
            sock.sendall(request("/chat", {"message": "When?", "session_id": session, "stream": streamed}))
            assert provider.request_received.wait(SECONDS)
        assert provider.closed.wait(SECONDS)
        assert len(provider.emitted_words) <= 1
        wait_until(lambda: last_message_status(client, session) == "cancelled")
        [trace] = client.get("/traces").json()["traces"]
        assert trace["status"] == "cancelled"
        wait_until(lambda: "ragkit_answers_running 0.0" in client.get("/metrics").text)


def test_a_client_that_disconnects_while_queued_leaves_the_queue(base: Path) -> None:
    provider = StepProvider(["word"])
    with serving(base, provider, limited(max_running=1)) as (served, client):
        with served.client() as first, first.stream("POST", "/chat", json={"message": "a", "stream": True}) as stream:
            received = events(stream)
            assert next(received)[0] == "start"
            with connect_socket(served) as sock:
                sock.sendall(request("/chat", {"message": "b"}))
                wait_until(lambda: "ragkit_answers_waiting 1.0" in client.get("/metrics").text)
            wait_until(lambda: "ragkit_answers_waiting 0.0" in client.get("/metrics").text)
            provider.steps.release()
            assert list(received)[-1][0] == "done"
        assert len(client.get("/sessions").json()["sessions"]) == 1


def test_a_disconnect_closes_the_connection_to_the_provider(base: Path) -> None:
    slow = Fault(turn=Turn(WORDS), pause_s=0.01)
    with WireServer(DIALECTS["openai"], [slow]) as wire:
        env = {"OPENAI_API_KEY": "test-key", "OPENAI_BASE_URL": f"{wire.url}/v1", "RAGKIT_OFFLINE": ""}
        with process(base, "--model", "openai:gpt-4o-mini", env=env) as server, server.client() as client:
            with client.stream("POST", "/chat", json={"message": "When?", "stream": True}) as stream:
                for name, _ in events(stream):
                    if name == "text":
                        break
            assert wire.hung_up.wait(SECONDS)
        assert len(wire.seen) == 1


def test_slow_senders_are_disconnected_and_block_no_others(base: Path) -> None:
    head = request("/chat", {"message": "When?"})[:-10]
    with serving(base, settings=limited(body_seconds=6.0)) as (served, client), ExitStack() as stack:
        client.get("/health")
        before = threading.active_count()
        slow = [stack.enter_context(connect_socket(served)) for _ in range(40)]
        for sock in slow:
            sock.sendall(head)
        for _ in range(5):
            assert client.post("/v1/search", json={"query": "hedge"}).status_code == 200
            for sock in slow:
                sock.sendall(b" ")
        assert threading.active_count() - before < 20, "each slow client must not have a thread"
        for sock in slow:
            assert sock.recv(64).startswith(b"HTTP/1.1 408 ")
        assert client.get("/health").status_code == 200


def test_a_client_that_never_reads_is_disconnected_and_blocks_no_others(base: Path) -> None:
    provider = StepProvider(["x" * 50_000] * 400, steps=1600)
    with serving(base, provider, limited(send_seconds=1.0)) as (served, client):
        before = threading.active_count()
        with ExitStack() as stack:
            for _ in range(4):
                sock = stack.enter_context(connect_socket(served))
                sock.sendall(request("/v1/chat/completions", {
                    "messages": [{"role": "user", "content": "When?"}], "stream": True
                }))  # fmt: skip
            assert provider.request_received.wait(SECONDS)
            for _ in range(5):
                assert client.post("/v1/search", json={"query": "hedge"}).status_code == 200
            assert threading.active_count() - before < 10
            # an answer that was complete before the disconnect is done, the others are cancelled
            wait_until(lambda: all(_ended(client)) and len(_ended(client)) == 4)


def _ended(client: httpx2.Client) -> list[bool]:
    return [item["status"] in {"cancelled", "done"} for item in client.get("/traces").json()["traces"]]


def test_no_response_waits_for_an_acknowledgement() -> None:
    """Nagle's algorithm is off: a response in two parts on an open connection would take 40 ms."""

    async def accepted_option() -> int:
        loop = asyncio.get_running_loop()
        accepted = loop.create_future()

        class Connection(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                sock = transport.get_extra_info("socket")
                accepted.set_result(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

        listening = create_socket(LOCAL)
        async with await loop.create_server(Connection, sock=listening):
            with socket.create_connection(listening.getsockname()[:2], timeout=SECONDS):
                return await asyncio.wait_for(accepted, SECONDS)

    assert asyncio.run(accepted_option())
