"""Load on a server of this machine: many sessions at once, with and without clients that behave badly.

    python benchmarks/serve_load.py --sessions 50 --seconds 60
    python benchmarks/serve_load.py --sessions 50 --seconds 60 --pause 4 --bad bytes unread
    python benchmarks/serve_load.py --sessions 10 --seconds 5 --embed hashing --json

The server is `ragkit serve`'s own application in a process of its own, over `data/sample`. What stands in for the
model answers at once: it searches, and then says the user's message again with a citation. Each session asks by turns
a streamed question with its secret in it and a plain search. Every answer, and at the end every session's history, is
held against the secret: its own must be there, and no other one.

The run has four slices: plain, beset, plain, beset. In the beset ones there are also, five of each kind: clients that
send a body a byte a second, clients that ask for large documents and never read, and clients that leave in mid-answer.
Times are those of the client, in milliseconds; `first token` is the first piece of the answer's text. Memory is the
resident size of the server, once a second; its slope is fitted to the samples of the second half of the run, for the
two slices of it with one slope but each at its own height, since besetting clients take room while they are there.
Without --pause the sessions ask as fast as they are answered: the server is then busy all the time, and the time to
the first token is the length of its queue. With it the figures are those of a server that has room.
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

from ragkit.agent.memory import ConversationMemory
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
"""Clients of each bad kind."""
TURNS = 10
"""After so many a session is left, and a new one begun. What an answer takes grows with what was said before it, so
that memory is steady only once sessions are as long as they get: within seconds, not within the whole run."""
PADDING = "and this goes on for a while " * 20


# the server's side


class EchoingBase(KnowledgeBase):
    """A knowledge base with a model that answers at once."""

    def agent(
        self, model: str | None = None, max_cost_usd: float | None = None, memory: ConversationMemory | None = None
    ) -> RAGAgent:
        """The agent."""
        return RAGAgent(self, FunctionProvider(_echo), super().agent("local").config, memory=memory)


def _echo(request: ModelRequest) -> str | ToolCall:
    """A search; after it, what the user said last."""
    said = next(one.content for one in reversed(request.messages) if one.role is Role.USER)
    if request.messages[-1].role is Role.TOOL:
        return f"You said: {said} [1]"
    return ToolCall("search_knowledge_base", {"query": said.partition(": ")[2] or said}, "call_1")


def serve(directory: Path) -> None:
    """Serve until a signal comes; the address goes to stdout."""
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
    """The knowledge base over the sample, and a document that fills every buffer on its way."""
    large = directory / "large.txt"
    large.write_text("A bottle of beer stands on the wall.\n" * 6_000)  # equal chunks are embedded once
    with KnowledgeBase.open(directory / "kb", Pipeline.from_yaml(f"embed: {{name: {embed}}}\n")) as kb:
        kb.index(ROOT / "data" / "sample")
        kb.index(large)


# the clients' side


@dataclass
class Reply:
    """What came back."""

    status: int
    body: bytes


class Wire:
    """One connection that speaks HTTP/1.1, kept open. Small, so that the load costs the server more than us."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def request(self, method: str, path: str, body: object = None) -> Reply:
        """Ask, and wait for the whole answer."""
        status, pieces = await self._ask(method, path, body)
        return Reply(status, b"".join([piece async for piece in pieces]))

    async def events(self, path: str, body: object) -> AsyncIterator[tuple[str, dict[str, object]]]:
        """Ask for a stream of events, and give each as it comes."""
        status, pieces = await self._ask("POST", path, body)
        rest = b""
        async for piece in pieces:
            *whole, rest = (rest + piece).split(b"\n\n")
            for one in whole:
                found = re.fullmatch(rb"event: (\w+)\ndata: (.*)", one, re.DOTALL)
                if found:
                    yield found[1].decode(), json.loads(found[2])
        if status != 200:
            yield "error", {"status": status, "said": rest.decode()[:300]}

    def close(self) -> None:
        """Leave at once, whatever is on its way."""
        if self._streams:
            self._streams[1].transport.abort()
            self._streams = None

    async def _ask(self, method: str, path: str, body: object) -> tuple[int, AsyncIterator[bytes]]:
        data = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
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
    """What was seen."""

    began: float = field(default_factory=time.monotonic)
    seconds: float = 0.0
    times: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    """(what, kind of slice) -> milliseconds."""
    errors: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    """Messages in a session that they do not belong to, or that lack what they should have."""
    answers: int = 0
    searches: int = 0
    checked: int = 0
    """Messages of histories that were held against their session's secret."""
    bad: dict[str, int] = field(default_factory=dict)
    """What the bad clients did, by kind."""
    memory: list[tuple[float, float]] = field(default_factory=list)
    """(seconds since the start, MB)."""

    @property
    def slice(self) -> str:
        """The kind of slice that it is now."""
        share = (time.monotonic() - self.began) / self.seconds
        return SLICES[min(int(share * len(SLICES)), len(SLICES) - 1)]

    @property
    def over(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() >= self.began + self.seconds

    def took(self, what: str, kind: str, began: float) -> None:
        """Book a time, under the slice that it began in."""
        self.times.setdefault((what, kind), []).append((time.perf_counter() - began) * 1000)


class Session:
    """One client that asks and searches by turns."""

    def __init__(self, port: int, figures: Figures, questions: list[str], seed: str, pause: float) -> None:
        self._wire, self._figures, self._questions = Wire(port), figures, questions
        self._chance = random.Random(seed)
        self._pause = pause
        self._kept: list[tuple[str, str, int]] = []
        """(session, its secret, turns)."""

    async def run(self) -> None:
        """Until the time is up."""
        while not self._figures.over:
            begun = await self._wire.request("POST", "/session/start", {})
            session = json.loads(begun.body)["id"]
            secret, turn = f"secret-{secrets.token_hex(6)}", 0
            while turn < TURNS and not self._figures.over:
                turn += await self._ask(session, secret, turn)
                await asyncio.sleep(self._pause * self._chance.random())
                await self._search()
                await asyncio.sleep(self._pause * self._chance.random())
            self._kept.append((session, secret, turn))

    async def _ask(self, session: str, secret: str, turn: int) -> int:
        """A streamed question; returns how many turns the session has more."""
        message = f"{secret} turn {turn}: {self._chance.choice(self._questions)}"
        kind, began, first, done = self._figures.slice, time.perf_counter(), True, ""
        body = {"message": message, "session_id": session, "stream": True}
        said = ""
        async for name, data in self._wire.events("/chat", body):
            if name == "text":
                if first:
                    self._figures.took("first token", kind, began)
                first = False
                said += str(data["delta"])
            elif name == "error":
                self._figures.errors.append(f"chat: {data}")
            elif name == "done":
                done = json.dumps(data["message"])
        if not done:
            return 0
        self._figures.took("whole answer", kind, began)
        self._figures.answers += 1
        self._check(said, secret, f"You said: {message} [1]")
        self._check(done, secret, f"turn {turn}: ")
        return 1

    async def _search(self) -> None:
        kind, began = self._figures.slice, time.perf_counter()
        reply = await self._wire.request("POST", "/v1/search", {"query": self._chance.choice(self._questions)})
        self._figures.took("search", kind, began)
        self._figures.searches += 1
        if reply.status != 200 or not json.loads(reply.body)["hits"]:
            self._figures.errors.append(f"search: {reply.status} {reply.body[:200]!r}")

    async def read_back(self) -> None:
        """Hold the history of every session that this client had against its secret."""
        self._wire.close()  # while the others read theirs, the server lets go of connections that are silent
        for session, secret, turns in self._kept:
            history = json.loads((await self._wire.request("GET", f"/session/{session}")).body)["history"]
            if len(history) != 2 * turns:
                self._figures.wrong.append(f"{session} has {len(history)} messages after {turns} turns")
            for n, message in enumerate(history):
                self._check(json.dumps(message), secret, f"turn {n // 2}: ")
                self._figures.checked += 1
        self._wire.close()

    def _check(self, text: str, secret: str, wanted: str) -> None:
        if wanted not in text or set(SECRET.findall(text)) != {secret}:
            self._figures.wrong.append(f"{secret} got {text[:200]!r}, wanted {wanted!r}")


async def byte_by_byte(port: int, figures: Figures) -> None:
    """Sends a body a byte a second, until it is turned away; and again."""
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
    """Asks for large documents and takes nothing of them, until it is let go."""
    listed = await Wire(port).request("GET", "/documents?q=large.txt")
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
    """Asks, leaves with the first words of the answer, and comes again."""
    wire = Wire(port)
    async for name, _ in wire.events("/chat", {"message": f"leaving: {PADDING}", "stream": True}):
        if name == "text":
            figures.bad["left in mid-answer"] = figures.bad.get("left in mid-answer", 0) + 1
            break
    wire.close()


KINDS = {"bytes": byte_by_byte, "unread": never_read, "leave": leave}


async def beset(port: int, figures: Figures, kinds: list[str]) -> None:
    """Keep the bad clients at it in the slices that have them."""
    running: list[asyncio.Task[None]] = []

    async def again(kind: object) -> None:
        while True:
            with suppress(OSError, asyncio.IncompleteReadError):
                await kind(port, figures)  # type: ignore[operator]
            await asyncio.sleep(0.5)

    try:
        while not figures.over:
            if figures.slice == "beset" and not running:
                running = [asyncio.create_task(again(KINDS[kind])) for kind in kinds * BAD]
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
    """The whole run."""
    lines = (ROOT / "data" / "questions.jsonl").read_text("utf-8").splitlines()
    questions = [json.loads(line)["question"] for line in lines]
    await Wire(port).request("POST", "/v1/search", {"query": questions[0]})  # the model is loaded by the first search
    figures = Figures(seconds=arguments.seconds)
    sessions = [
        Session(port, figures, questions, f"{arguments.seed}-{n}", arguments.pause) for n in range(arguments.sessions)
    ]
    await asyncio.gather(
        watch(pid, figures), beset(port, figures, arguments.bad), *(session.run() for session in sessions)
    )
    for session in sessions:
        await session.read_back()
    return figures


# what is told


def summary(figures: Figures, arguments: argparse.Namespace, cpu: float) -> dict[str, object]:
    """The figures as JSON."""
    times = {
        f"{what}, {kind}": {
            "n": len(found),
            "p50_ms": round(float(np.percentile(found, 50)), 2),
            "p99_ms": round(float(np.percentile(found, 99)), 2),
        }
        for (what, kind), found in sorted(figures.times.items())
    }
    slope = _slope(figures)
    packages = ("fastapi", "uvicorn", "starlette", "numpy")
    return {
        "sessions": arguments.sessions, "seconds": arguments.seconds,
        "pause": arguments.pause, "bad": arguments.bad, "seed": arguments.seed, "embed": arguments.embed,
        "answers": figures.answers, "searches": figures.searches, "errors": len(figures.errors),
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
    """MB a minute; None for a run that is too short."""
    late = np.array([(at / 60, size, at > figures.seconds * 3 / 4) for at, size in figures.memory
                     if at > figures.seconds / 2])  # fmt: skip
    if len(late) < 6:
        return None
    return float(np.linalg.lstsq(np.column_stack([late[:, 0], late[:, 2], 1 - late[:, 2]]), late[:, 1])[0][0])


def table(found: dict[str, object]) -> None:
    """The figures for people."""
    print(f"{'':24}{'n':>8}{'p50 ms':>10}{'p99 ms':>10}")
    times = found["times"]
    assert isinstance(times, dict)
    for name, one in times.items():
        print(f"{name:24}{one['n']:8}{one['p50_ms']:10.1f}{one['p99_ms']:10.1f}")
    for key in ("answers", "searches", "errors", "wrong", "history_checked", "bad_clients", "server_cpu_s", "memory_mb",
                "examples", "versions", "machine"):  # fmt: skip
        print(f"{key:16}{found[key]}")


def main() -> int:
    """Run it; 1 when there was an error, or a message in a wrong session."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--pause", type=float, default=0.0, help="Longest pause of a session before it goes on, in s.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--embed", default="minilm", help="The embedder: minilm (the shipped one) or hashing.")
    parser.add_argument("--bad", nargs="+", choices=KINDS, default=list(KINDS), help="The kinds of bad clients.")
    parser.add_argument("--json", action="store_true", help="Only the JSON.")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve)
        return 0
    with tempfile.TemporaryDirectory() as place:
        build(Path(place), arguments.embed)
        command = [sys.executable, __file__, "--serve", str(Path(place) / "kb")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            port = int(server.stdout.readline().rpartition(":")[2])
            try:
                figures = asyncio.run(load(port, server.pid, arguments))
                times = psutil.Process(server.pid).cpu_times()
            finally:
                server.send_signal(signal.SIGTERM)
                code = server.wait(60)
    found = summary(figures, arguments, times.user + times.system)
    if not arguments.json:
        table(found)
    print(json.dumps(found))
    return int(bool(figures.errors or figures.wrong or code))


if __name__ == "__main__":
    sys.exit(main())
