"""Load test of a local server: many concurrent sessions, with and without misbehaving clients.

    python benchmarks/serve_load.py --sessions 50 --seconds 60
    python benchmarks/serve_load.py --sessions 50 --seconds 60 --pause 4 --bad bytes unread
    python benchmarks/serve_load.py --sessions 10 --seconds 5 --embed hashing --json

The server is the application of `ragkit serve` in a separate process, over `data/sample`. A fake model answers at
once: it searches, then echoes the user's message with a citation. Each session alternates between a streamed question
that contains its secret and a plain search; `--uploads N` adds clients that upload notes, wait for their jobs, find
and delete them. Every answer, and at the end every session's history, must contain the
session's own secret and no other.

The run has four slices: plain, beset, plain, beset. The beset slices add five clients of each bad kind: clients that
send a body at one byte per second, clients that request large documents and never read, and clients that disconnect in
mid-answer. Times are measured at the client, in milliseconds; `first token` is the first piece of the answer's text.
Memory is the resident size of the server, sampled once a second; its slope is fitted to the second half of the run,
with one slope and a separate offset for each of the two slices, because bad clients use memory while connected.
Without --pause the sessions ask as fast as possible: the server is always busy, and the time to the first token is the
length of its queue. With --pause the figures are those of a server with spare capacity.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import numpy as np
import psutil

from ragkit.agent.memory.memory import ConversationMemory
from ragkit.agent.messages import Role, ToolCall
from ragkit.agent.providers.base import ModelRequest
from ragkit.agent.providers.scripted import FunctionProvider
from ragkit.answer.agent import RAGAgent
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.settings import Pipeline

ROOT = Path(__file__).resolve().parents[1]
SECRET = re.compile(r"secret-[0-9a-f]{12}")
SLICES = ("plain", "beset", "plain", "beset")
BAD = 5
"""Number of clients of each bad kind."""
TURNS = 10
"""Turns per session. Memory grows with the length of a session, so short sessions make it steady within seconds."""
PADDING = "and this goes on for a while " * 20


# server


class EchoingBase(KnowledgeBase):
    """A knowledge base with a fake model that answers at once."""

    def agent(
        self, model: str | None = None, max_cost_usd: float | None = None, memory: ConversationMemory | None = None
    ) -> RAGAgent:
        """The agent with the fake model."""
        return RAGAgent(self, FunctionProvider(_echo), super().agent("local").config, memory=memory)


def _echo(request: ModelRequest) -> str | ToolCall:
    """Call the search tool; then echo the last user message."""
    text = next(message.content for message in reversed(request.messages) if message.role is Role.USER)
    if request.messages[-1].role is Role.TOOL:
        return f"You said: {text} [1]"
    return ToolCall("search_knowledge_base", {"query": text.partition(": ")[2] or text}, "call_1")


def serve(directory: Path) -> None:
    """Serve until a signal arrives; print the address to stdout."""
    from ragkit.server.app import create_app
    from ragkit.server.logs import log_to_stderr
    from ragkit.server.serve import create_socket, run, socket_url
    from ragkit.server.settings import ServerSettings

    settings = ServerSettings(port=0)
    with EchoingBase.open(directory) as kb:
        sock = create_socket(settings)
        log_to_stderr("WARNING")
        print(socket_url(sock), flush=True)
        run(create_app(kb, directory, settings), settings, sock)


def build(directory: Path, embed: str) -> None:
    """Index the sample and a document that is larger than every network buffer."""
    large = directory / "large.txt"
    large.write_text("A bottle of beer stands on the wall.\n" * 6_000)  # equal chunks are embedded only once
    with KnowledgeBase.open(directory / "kb", Pipeline.from_yaml(f"embed: {{name: {embed}}}\n")) as kb:
        kb.index(ROOT / "data" / "sample")
        kb.index(large)


# clients


@dataclass
class Reply:
    """A response."""

    status: int
    body: bytes


class Connection:
    """A persistent HTTP/1.1 connection. Minimal, so that the client uses little CPU time."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def request(self, method: str, path: str, body: object = None) -> Reply:
        """Send a request and read the whole response."""
        status, pieces = await self._ask(method, path, body)
        return Reply(status, b"".join([piece async for piece in pieces]))

    async def events(self, path: str, body: object) -> AsyncIterator[tuple[str, dict[str, object]]]:
        """Send a request and yield the server-sent events as they arrive."""
        status, pieces = await self._ask("POST", path, body)
        rest = b""
        async for piece in pieces:
            *events, rest = (rest + piece).split(b"\n\n")
            for event in events:
                match = re.fullmatch(rb"event: (\w+)\ndata: (.*)", event, re.DOTALL)
                if match:
                    yield match[1].decode(), json.loads(match[2])
        if status != 200:
            yield "error", {"status": status, "body": rest.decode()[:300]}

    def close(self) -> None:
        """Abort the connection."""
        if self._streams:
            self._streams[1].transport.abort()
            self._streams = None

    async def _ask(self, method: str, path: str, body: object) -> tuple[int, AsyncIterator[bytes]]:
        kind = "application/octet-stream" if isinstance(body, bytes) else "application/json"
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: {kind}\r\n"
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        writer.write(f"{head}content-length: {len(data)}\r\n\r\n".encode() + data)
        answer = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = re.search(r"content-length: (\d+)", answer)
        pieces = self._sized(reader, int(length[1])) if length else self._chunked(reader)
        if "connection: close" in answer:
            self._streams = None
        return int(answer.split(" ", 2)[1]), pieces

    @staticmethod
    async def _sized(reader: asyncio.StreamReader, size: int) -> AsyncIterator[bytes]:
        yield await reader.readexactly(size)

    @staticmethod
    async def _chunked(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
        while size := int(await reader.readuntil(b"\r\n"), 16):
            yield (await reader.readexactly(size + 2))[:-2]
        await reader.readexactly(2)


@dataclass
class Figures:
    """The measurements of the run."""

    began: float = field(default_factory=time.monotonic)
    seconds: float = 0.0
    times: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    """(operation, kind of slice) -> milliseconds."""
    errors: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    """Messages in the wrong session, or without the expected text."""
    answers: int = 0
    searches: int = 0
    uploads: int = 0
    """Notes that were uploaded, indexed by a job and found."""
    checked: int = 0
    """Number of history messages that were checked for their session's secret."""
    bad: dict[str, int] = field(default_factory=dict)
    """Counts of what the bad clients did."""
    memory: list[tuple[float, float]] = field(default_factory=list)
    """(seconds since the start, MB)."""

    @property
    def slice(self) -> str:
        """The kind of the current slice."""
        share = (time.monotonic() - self.began) / self.seconds
        return SLICES[min(int(share * len(SLICES)), len(SLICES) - 1)]

    @property
    def over(self) -> bool:
        """Whether the run is over."""
        return time.monotonic() >= self.began + self.seconds

    def record_time(self, what: str, kind: str, began: float) -> None:
        """Record a time under the slice in which it began."""
        self.times.setdefault((what, kind), []).append((time.perf_counter() - began) * 1000)


class Session:
    """One client that alternates between questions and searches."""

    def __init__(self, port: int, figures: Figures, questions: list[str], seed: str, pause: float) -> None:
        self._connection, self._figures, self._questions = Connection(port), figures, questions
        self._rng = random.Random(seed)
        self._pause = pause
        self._sessions: list[tuple[str, str, int]] = []
        """(session id, secret, number of turns)."""

    async def run(self) -> None:
        """Run sessions until the run is over."""
        while not self._figures.over:
            response = await self._connection.request("POST", "/session/start", {})
            session = json.loads(response.body)["id"]
            secret, turn = f"secret-{secrets.token_hex(6)}", 0
            while turn < TURNS and not self._figures.over:
                turn += await self._ask(session, secret, turn)
                await asyncio.sleep(self._pause * self._rng.random())
                await self._search()
                await asyncio.sleep(self._pause * self._rng.random())
            self._sessions.append((session, secret, turn))

    async def _ask(self, session: str, secret: str, turn: int) -> int:
        """Ask a streamed question; return the number of turns added to the session (0 or 1)."""
        message = f"{secret} turn {turn}: {self._rng.choice(self._questions)}"
        kind, began, first, done = self._figures.slice, time.perf_counter(), True, ""
        body = {"message": message, "session_id": session, "stream": True}
        text = ""
        async for name, data in self._connection.events("/chat", body):
            if name == "text":
                if first:
                    self._figures.record_time("first token", kind, began)
                first = False
                text += str(data["delta"])
            elif name == "error":
                self._figures.errors.append(f"chat: {data}")
            elif name == "done":
                done = json.dumps(data["message"])
        if not done:
            return 0
        self._figures.record_time("whole answer", kind, began)
        self._figures.answers += 1
        self._check(text, secret, f"You said: {message} [1]")
        self._check(done, secret, f"turn {turn}: ")
        return 1

    async def _search(self) -> None:
        kind, began = self._figures.slice, time.perf_counter()
        reply = await self._connection.request("POST", "/v1/search", {"query": self._rng.choice(self._questions)})
        self._figures.record_time("search", kind, began)
        self._figures.searches += 1
        if reply.status != 200 or not json.loads(reply.body)["hits"]:
            self._figures.errors.append(f"search: {reply.status} {reply.body[:200]!r}")

    async def read_back(self) -> None:
        """Check the history of every session of this client for its secret."""
        self._connection.close()  # the server may have closed the idle connection
        for session, secret, turns in self._sessions:
            history = json.loads((await self._connection.request("GET", f"/session/{session}")).body)["history"]
            if len(history) != 2 * turns:
                self._figures.wrong.append(f"{session} has {len(history)} messages after {turns} turns")
            for n, message in enumerate(history):
                self._check(json.dumps(message), secret, f"turn {n // 2}: ")
                self._figures.checked += 1
        self._connection.close()

    def _check(self, text: str, secret: str, expected: str) -> None:
        if expected not in text or set(SECRET.findall(text)) != {secret}:
            self._figures.wrong.append(f"{secret} got {text[:200]!r}, expected {expected!r}")


class Uploader:
    """One client that uploads notes, waits for their jobs, finds them, and deletes every second one."""

    def __init__(self, port: int, figures: Figures, name: str) -> None:
        self._connection, self._figures, self._name = Connection(port), figures, name

    async def run(self) -> None:
        """Upload until the run is over."""
        number = 0
        while not self._figures.over:
            number += 1
            kind, began, mark = self._figures.slice, time.perf_counter(), _mark()
            text = f"# Note {number}\n\nThe {mark} stands in the note {number} of {self._name}.\n".encode()
            job = await self._job("POST", f"/documents?name={self._name}/{number}.md", text)
            hits = await self._find(mark)
            if len(hits) != 1:
                self._figures.wrong.append(f"{mark} was found {len(hits)} times after the job {job}")
                continue
            self._figures.record_time("upload to search", kind, began)
            self._figures.uploads += 1
            if number % 2:
                await self._job("DELETE", f"/documents/{hits[0]['document_id']}", None)
                if await self._find(mark):
                    self._figures.wrong.append(f"{mark} was found after its document was deleted")
        self._connection.close()

    async def _job(self, method: str, path: str, body: bytes | None) -> str:
        """Send a request that starts a job, and wait for its end."""
        reply = await self._connection.request(method, path, body)
        answer = json.loads(reply.body)
        job = answer.get("job", answer)
        while reply.status == 200 and not job.get("ended"):
            await asyncio.sleep(0.1)
            reply = await self._connection.request("GET", f"/jobs/{job['id']}")
            job = json.loads(reply.body)
        if reply.status != 200 or job["status"] != "done":
            self._figures.errors.append(f"upload: {reply.status} {reply.body[:300]!r}")
        return str(job.get("id"))

    async def _find(self, mark: str) -> list[dict[str, object]]:
        reply = await self._connection.request("POST", "/v1/search", {"query": mark, "mode": "lexical", "top_k": 3})
        found: list[dict[str, object]] = json.loads(reply.body).get("hits", [])
        return [hit for hit in found if mark in str(hit["text"])]


def _mark() -> str:
    """A word that no document has, and that no stemmer changes."""
    return "".join(secrets.choice("bcdfghjklmnpqrtvwxz") for _ in range(14))


async def byte_by_byte(port: int, figures: Figures) -> None:
    """Send a body at one byte per second until the server rejects it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        b"POST /chat HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: 5000\r\n\r\n"
    )
    try:
        while not reader.at_eof():
            writer.write(b"[")
            await writer.drain()
            with suppress(TimeoutError):
                async with asyncio.timeout(1):
                    if b" 408 " in await reader.read(1000):
                        figures.bad["bytes: turned away"] = figures.bad.get("bytes: turned away", 0) + 1
    finally:
        writer.transport.abort()


async def never_read(port: int, figures: Figures) -> None:
    """Request large documents and never read the responses."""
    listed = await Connection(port).request("GET", "/documents?q=large.txt")
    path = f"/documents/{json.loads(listed.body)['documents'][0]['id']}"
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.setblocking(False)
    loop = asyncio.get_running_loop()
    try:
        await loop.sock_connect(sock, ("127.0.0.1", port))
        await loop.sock_sendall(sock, f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode() * 50)
        figures.bad["never read: asked"] = figures.bad.get("never read: asked", 0) + 50
        while True:
            await asyncio.sleep(1)
    finally:
        sock.close()


async def leave(port: int, figures: Figures) -> None:
    """Ask a question and disconnect at the first words of the answer."""
    connection = Connection(port)
    async for name, _ in connection.events("/chat", {"message": f"leaving: {PADDING}", "stream": True}):
        if name == "text":
            figures.bad["left in mid-answer"] = figures.bad.get("left in mid-answer", 0) + 1
            break
    connection.close()


KINDS = {"bytes": byte_by_byte, "unread": never_read, "leave": leave}


async def beset(port: int, figures: Figures, kinds: list[str]) -> None:
    """Run the bad clients during the beset slices."""
    running: list[asyncio.Task[None]] = []

    async def repeat(kind: object) -> None:
        while True:
            with suppress(OSError, asyncio.IncompleteReadError):
                await kind(port, figures)  # type: ignore[operator]
            await asyncio.sleep(0.5)

    try:
        while not figures.over:
            if figures.slice == "beset" and not running:
                running = [asyncio.create_task(repeat(KINDS[kind])) for kind in kinds * BAD]
            elif figures.slice == "plain" and running:
                for task in running:
                    task.cancel()
                running = []
            await asyncio.sleep(0.05)
    finally:
        for task in running:
            task.cancel()


async def watch(pid: int, figures: Figures) -> None:
    """Sample the server's memory."""
    process = psutil.Process(pid)
    while not figures.over:
        figures.memory.append((time.monotonic() - figures.began, process.memory_info().rss / 1e6))
        await asyncio.sleep(min(1.0, figures.seconds / 20))


async def load(port: int, pid: int, arguments: argparse.Namespace) -> Figures:
    """Run all clients, then check the histories."""
    lines = (ROOT / "data" / "questions.jsonl").read_text("utf-8").splitlines()
    questions = [json.loads(line)["question"] for line in lines]
    await Connection(port).request("POST", "/v1/search", {"query": questions[0]})  # load the embedding model
    figures = Figures(seconds=arguments.seconds)
    sessions = [
        Session(port, figures, questions, f"{arguments.seed}-{n}", arguments.pause) for n in range(arguments.sessions)
    ]
    await asyncio.gather(
        watch(pid, figures),
        beset(port, figures, arguments.bad),
        *(session.run() for session in sessions),
        *(Uploader(port, figures, f"client-{n}").run() for n in range(arguments.uploads)),
    )
    for session in sessions:
        await session.read_back()
    return figures


# report


def summary(figures: Figures, arguments: argparse.Namespace, cpu: float) -> dict[str, object]:
    """The figures as JSON."""
    times = {
        f"{what}, {kind}": {
            "n": len(values),
            "p50_ms": round(float(np.percentile(values, 50)), 2),
            "p99_ms": round(float(np.percentile(values, 99)), 2),
        }
        for (what, kind), values in sorted(figures.times.items())
    }
    slope = _slope(figures)
    packages = ("fastapi", "uvicorn", "starlette", "numpy")
    return {
        "sessions": arguments.sessions, "seconds": arguments.seconds,
        "pause": arguments.pause, "bad": arguments.bad, "seed": arguments.seed, "embed": arguments.embed,
        "answers": figures.answers, "searches": figures.searches, "uploads": figures.uploads,
        "errors": len(figures.errors),
        "wrong": len(figures.wrong), "history_checked": figures.checked, "times": times, "bad_clients": figures.bad,
        "server_cpu_s": round(cpu, 2),
        "memory_mb": {"first": round(figures.memory[0][1], 1), "last": round(figures.memory[-1][1], 1),
                      "most": round(max(size for _, size in figures.memory), 1),
                      "slope_mb_per_minute": None if slope is None else round(slope, 2),
                      "samples": [round(size) for _, size in figures.memory[:: max(1, len(figures.memory) // 20)]]},
        "examples": [*figures.errors[:3], *figures.wrong[:3]],
        "versions": {"python": platform.python_version(), **{name: version(name) for name in packages}},
        "machine": f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
    }  # fmt: skip


def _slope(figures: Figures) -> float | None:
    """Memory slope in MB per minute; None if the run is too short."""
    samples = np.array([(at / 60, size, at > figures.seconds * 3 / 4) for at, size in figures.memory
                     if at > figures.seconds / 2])  # fmt: skip
    if len(samples) < 6:
        return None
    return float(
        np.linalg.lstsq(np.column_stack([samples[:, 0], samples[:, 2], 1 - samples[:, 2]]), samples[:, 1])[0][0]
    )


def table(report: dict[str, object]) -> None:
    """Print the figures as a table."""
    print(f"{'':24}{'n':>8}{'p50 ms':>10}{'p99 ms':>10}")
    times = report["times"]
    assert isinstance(times, dict)
    for name, row in times.items():
        print(f"{name:24}{row['n']:8}{row['p50_ms']:10.1f}{row['p99_ms']:10.1f}")
    for key in ("answers", "searches", "uploads", "errors", "wrong", "history_checked", "bad_clients", "server_cpu_s",
                "memory_mb", "examples", "versions", "machine"):  # fmt: skip
        print(f"{key:16}{report[key]}")


def main() -> int:
    """Run the load test; return 1 after an error or a message in the wrong session."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument(
        "--pause", type=float, default=0.0, help="Longest pause between two requests of a session, in s."
    )
    parser.add_argument("--uploads", type=int, default=0, help="Clients that upload, index, find and delete notes.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--embed", default="minilm", help="The embedder: minilm (the shipped one) or hashing.")
    parser.add_argument("--bad", nargs="+", choices=KINDS, default=list(KINDS), help="Kinds of bad clients.")
    parser.add_argument("--json", action="store_true", help="Print only the JSON report.")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve)
        return 0
    with tempfile.TemporaryDirectory() as directory:
        build(Path(directory), arguments.embed)
        command = [sys.executable, __file__, "--serve", str(Path(directory) / "kb")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            port = int(server.stdout.readline().rpartition(":")[2])
            try:
                figures = asyncio.run(load(port, server.pid, arguments))
                times = psutil.Process(server.pid).cpu_times()
            finally:
                server.send_signal(signal.SIGTERM)
                code = server.wait(60)
    report = summary(figures, arguments, times.user + times.system)
    if not arguments.json:
        table(report)
    print(json.dumps(report))
    return int(bool(figures.errors or figures.wrong or code))


if __name__ == "__main__":
    sys.exit(main())
