"""Answers leave no objects in memory. The test counts objects, since the size of the process also depends on the
allocator."""

from __future__ import annotations

import gc
import os
import socket
import sqlite3
import subprocess
import sys
from asyncio import Future, Handle, Task, TimerHandle
from collections import Counter
from contextvars import Context
from pathlib import Path
from threading import Thread, Timer

import httpx2

from ragkit.agent.messages import Role, ToolCall
from ragkit.agent.providers.base import ModelRequest
from ragkit.agent.providers.scripted import FunctionProvider
from ragkit.server.malloc_trim import ARENA_MAX_ENV
from tests.server.api.test_disconnects import request
from tests.server.api.test_limits import wait_until
from tests.server.parts import SEARCH, SECONDS, Served, serving

ROUNDS = 20
TYPES = (Task, Future, Handle, Context, Thread, Timer, sqlite3.Connection)
"""Modules that keep references to objects."""


def answer(request: ModelRequest) -> str | ToolCall:
    """A search, and then a cited answer."""
    return "It is cut in August [1]." if request.messages[-1].role is Role.TOOL else SEARCH


def send_all_kinds_of_requests(served: Served, client: httpx2.Client) -> None:
    """Answers of all kinds: stored or not, streamed or not, rejected, and abandoned."""
    body = {"message": "When is the hedge cut?", "stream": True}
    assert "event: done" in client.post("/chat", json=body).text
    session = client.post("/chat", json={"message": "When is the hedge cut?"}).json()["session_id"]
    assert client.post("/chat", json={**body, "session_id": session}).status_code == 200
    assert client.post("/chat", json={**body, "session_id": "ses_none"}).status_code == 404
    completion_body = {"model": "ragkit", "messages": [{"role": "user", "content": "When is the hedge cut?"}]}
    assert client.post("/v1/chat/completions", json={**completion_body, "stream": True}).text.endswith(
        "data: [DONE]\n\n"
    )
    assert client.post("/v1/search", json={"query": "the hedge"}).json()["hits"]
    with socket.create_connection(served.address, timeout=SECONDS) as sock:
        sock.sendall(request("/chat", body))
        assert sock.recv(100)


def count_objects() -> Counter[str]:
    """Number of objects per type."""
    gc.collect()
    objects = gc.get_objects()
    # asyncio keeps a cancelled timer until it is due, or until there are a hundred
    timed = {id(item._context) for item in objects if type(item) is TimerHandle}  # type: ignore[attr-defined]
    kinds = (type(item) for item in objects if id(item) not in timed)
    return Counter(kind.__qualname__ for kind in kinds if kind in TYPES or str(kind.__module__).startswith("ragkit."))


def count_growth(before: Counter[str]) -> dict[str, int]:
    """Types with at least one more object per round."""
    return {kind: more for kind, more in (count_objects() - before).items() if more >= ROUNDS // 2}


def test_answers_leak_no_objects(base: Path) -> None:
    with serving(base, FunctionProvider(answer)) as (served, client):
        send_all_kinds_of_requests(served, client)
        wait_until(lambda: "ragkit_answers_running 0.0" in client.get("/metrics").text)
        before = count_objects()
        for _ in range(ROUNDS):
            send_all_kinds_of_requests(served, client)
        wait_until(lambda: "ragkit_answers_running 0.0" in client.get("/metrics").text)
        wait_until(lambda: not count_growth(before))


def test_free_memory_is_returned_and_threads_share_arenas() -> None:
    script = """
import ctypes, os, threading
from ragkit.server.malloc_trim import limit_arenas, trim_heap

def size():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6

limit_arenas()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
blocks = [libc.malloc(1000) for _ in range(100_000)]
for block in blocks:
    ctypes.memset(block, 1, 1000)
for block in blocks[:-1]:
    libc.free(block)  # the last one keeps the heap from shrinking by itself
full = size()
print(os.environ["MALLOC_ARENA_MAX"], trim_heap(), full - size() > 60)
"""
    environment = {name: value for name, value in os.environ.items() if name != ARENA_MAX_ENV}
    process = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment
    )
    assert process.stdout.split() == ["2", "True", "True"]
    code = (
        "from ragkit.server.malloc_trim import limit_arenas; limit_arenas(); "
        f"import os; print(os.environ[{ARENA_MAX_ENV!r}])"
    )
    environment[ARENA_MAX_ENV] = "7"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert process.stdout == "7\n"
