"""The users of the knowledge base during `soak.py`: a library process that keeps it open, and clients of the server.

Every question is recorded as an `Asked`: its start time, its duration, and the marks in the answer.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from urllib.parse import quote

from soak_folder import MARK

from ragkit import KnowledgeBase

ROOT = Path(__file__).resolve().parents[1]
SEARCH_SECONDS = 1.0
"""Mean time between two searches of a thread."""
ASK_SECONDS = 3.0
UPLOAD_SECONDS = 15.0
JOB_SECONDS = 120.0
"""A job must end within this time; it waits while an index run holds the lock."""
TURNS = 8
"""Turns of a session."""
ABORT_EVERY = 5
"""One of this many streamed completions is aborted."""


@dataclass(frozen=True)
class Asked:
    """One question."""

    started_at: float
    """`time.monotonic`, which all processes of a machine share."""
    who: str
    ms: float
    marks: tuple[str, ...]
    unverified: int = 0
    """Citations whose quote is not in the indexed text; expected only during an index run."""


@dataclass
class Seen:
    """The observations of some threads since the last drain."""

    asked: list[Asked] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def drain(self) -> Seen:
        """Remove and return all observations."""
        drained = Seen(self.asked, self.errors, self.wrong)
        self.asked, self.errors, self.wrong = [], [], []
        return drained


class Load:
    """Threads that each repeat one task with pauses until `stop`."""

    def __init__(self, seed: str) -> None:
        self.seen = Seen()
        self.stopping = threading.Event()
        self._seed = seed
        self._threads: list[threading.Thread] = []
        lines = (ROOT / "data" / "questions.jsonl").read_text("utf-8").splitlines()
        self.questions = [json.loads(line)["question"] for line in lines]

    def start(self, name: str, pause: float, work: Callable[[random.Random], None]) -> None:
        """Start a thread that runs `work` about every `pause` seconds and records its exceptions."""
        rng = random.Random(f"{self._seed}-{name}")

        def run() -> None:
            while not self.stopping.wait(pause * (0.5 + rng.random())):
                try:
                    work(rng)
                except Exception as error:  # noqa: BLE001 - every failure is recorded
                    self.seen.errors.append(f"{name}: {type(error).__name__}: {error}")

        self._threads.append(threading.Thread(target=run, name=name, daemon=True))
        self._threads[-1].start()

    def stop(self) -> None:
        """Stop all threads and wait for them."""
        self.stopping.set()
        for thread in self._threads:
            thread.join(60)

    def note(self, who: str, started_at: float, text: str, unverified: int = 0) -> None:
        """Record a question and the marks of its answer."""
        ms = (time.monotonic() - started_at) * 1000
        self.seen.asked.append(Asked(started_at, who, round(ms, 2), tuple(sorted(set(MARK.findall(text)))), unverified))


# library process


def library(directory: Path, seed: str) -> None:
    """Keep a knowledge base open, search and ask in threads; answer lines of JSON on stdin."""
    load = Load(f"library-{seed}")
    with KnowledgeBase.open(directory) as kb:

        def search(rng: random.Random) -> None:
            started_at = time.monotonic()
            hits = kb.search(rng.choice(load.questions))
            load.note("library search", started_at, " ".join(hit.chunk.text for hit in hits))

        def ask(rng: random.Random) -> None:
            started_at = time.monotonic()
            answer = kb.ask(rng.choice(load.questions))
            text = " ".join([answer.text, *(citation.quote for citation in answer.citations)])
            load.note("library ask", started_at, text, sum(not citation.verified for citation in answer.citations))

        for n in range(2):
            load.start(f"search {n}", SEARCH_SECONDS * 2, search)
        load.start("ask", ASK_SECONDS, ask)
        for line in sys.stdin:
            query = json.loads(line)
            if query is None:
                print(json.dumps(asdict(load.seen.drain())), flush=True)
            else:
                hits = [(hit.chunk.source, hit.chunk.text) for hit in kb.search(query, top_k=5)]
                print(json.dumps(hits), flush=True)
        load.stop()


class Library:
    """The parent's handle of the library process."""

    def __init__(self, kb: Path, seed: int) -> None:
        command = [sys.executable, str(Path(__file__).with_name("soak.py")), "--library", str(kb), "--seed", str(seed)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def find(self, query: str) -> list[tuple[str, str]]:
        """(source, text) of the best hits."""
        return [(source, text) for source, text in self._request(query)]

    def drain(self) -> Seen:
        """Remove and return the observations of its threads."""
        reply = self._request(None)
        asked = [Asked(**{**row, "marks": tuple(row["marks"])}) for row in reply["asked"]]
        return Seen(asked, reply["errors"], reply["wrong"])

    def stop(self) -> int:
        """End the process and return its exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(90)

    def _request(self, query: str | None):  # type: ignore[no-untyped-def]
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(query) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


# server clients


class Clients(Load):
    """Clients of the server: one searches, one uses sessions, one uses OpenAI's API and aborts some answers.

    One uploads files, waits for the jobs that index them, and deletes them again.
    """

    def __init__(self, port: int, seed: int) -> None:
        super().__init__(f"clients-{seed}")
        self._port = port
        self._completions = 0
        self.left = 0
        """Number of aborted answers."""
        self.sessions = 0
        """Number of completed sessions."""
        self.jobs = 0
        """Number of jobs that were done."""
        self._uploads = 0
        self._session = ""
        self._turn = 0

    def begin(self) -> None:
        """Start all clients."""
        self.start("searcher", SEARCH_SECONDS, self._search)
        self.start("talker", ASK_SECONDS, self._talk)
        self.start("completer", ASK_SECONDS, self._complete)
        self.start("uploader", UPLOAD_SECONDS, self._upload)

    def find(self, query: str) -> list[tuple[str, str]]:
        """(source, text) of the best hits."""
        return [(hit["source"], hit["text"]) for hit in self._ask("/v1/search", {"query": query, "top_k": 5})["hits"]]

    def running(self) -> int:
        """Number of answers that are still running in the server."""
        return sum(trace["status"] == "running" for trace in self._ask("/traces?limit=100")["traces"])

    def _search(self, rng: random.Random) -> None:
        started_at = time.monotonic()
        hits = self._ask("/v1/search", {"query": rng.choice(self.questions)})["hits"]
        self.note("server search", started_at, " ".join(hit["text"] for hit in hits))
        if not hits:
            self.seen.wrong.append("a search through the server returned no hits")

    def _talk(self, rng: random.Random) -> None:
        """Run one turn of a session; the first turn starts it, the last one ends it and checks its history."""
        if not self._session:
            self._session, self._turn = self._ask("/session/start", {})["id"], 0
        body = {"message": rng.choice(self.questions), "session_id": self._session, "stream": True}
        started_at, stream = time.monotonic(), ""
        for line in self._lines("/chat", body):
            stream += line
        self.note("server chat", started_at, stream)
        if "event: done" not in stream:
            self.seen.errors.append(f"a chat did not end: {stream[-300:]!r}")
        self._turn += 1
        if self._turn == TURNS:
            session, self._session = self._session, ""
            self._ask("/session/end", {"session_id": session})
            history = self._ask(f"/session/{session}")["history"]
            self.sessions += 1
            if [message["status"] for message in history] != ["done"] * 2 * TURNS:
                self.seen.wrong.append(f"a session of {TURNS} turns has {len(history)} messages, or unfinished ones")

    def _complete(self, rng: random.Random) -> None:
        self._completions += 1
        aborts = self._completions % ABORT_EVERY == 0
        message = {"role": "user", "content": rng.choice(self.questions)}
        started_at, stream = time.monotonic(), ""
        for line in self._lines("/v1/chat/completions", {"model": "ragkit", "messages": [message], "stream": True}):
            stream += line
            if aborts and line.startswith("data:"):
                self.left += 1
                return
        self.note("server completion", started_at, stream)
        if "data: [DONE]" not in stream:
            self.seen.errors.append(f"a completion did not end: {stream[-300:]!r}")

    def _upload(self, rng: random.Random) -> None:
        """Upload a file, find it when its job is done, delete it, and find it no more."""
        self._uploads += 1
        word = f"upload{self._uploads}x{rng.randrange(10**6)}"
        text = "\n\n".join(f"{word} of part {part}: {rng.choice(self.questions)}" for part in range(3))
        job = self._ask(f"/documents?name=uploads-{self._uploads}.md", f"# Upload\n\n{text}\n".encode())["job"]
        self._wait_for(job["id"])
        found = [hit for hit in self._ask("/v1/search", {"query": word, "top_k": 5})["hits"] if word in hit["text"]]
        if not found:
            self.seen.wrong.append(f"an upload is not found when its job is done: {word}")
            return
        document = quote(found[0]["document_id"], safe="")
        self._wait_for(self._ask(f"/documents/{document}", method="DELETE")["id"])
        if any(word in text for _, text in self.find(word)):
            self.seen.wrong.append(f"an upload is found after its removal: {word}")

    def _wait_for(self, job: str) -> None:
        """Wait until a job is done. Raises HTTPException if it ends otherwise, or takes too long."""
        deadline = time.monotonic() + JOB_SECONDS
        while (state := self._ask(f"/jobs/{job}"))["status"] != "done":
            if state["ended"] is not None or time.monotonic() > deadline:
                raise HTTPException(f"a job is {state['status']}: {state['error']}")
            time.sleep(0.1)
        if state["failures"]:
            raise HTTPException(f"a job has failures: {state['failures']}")
        self.jobs += 1

    def _ask(self, path: str, body: object = None, method: str = ""):  # type: ignore[no-untyped-def]
        return json.loads("".join(self._lines(path, body, method)))

    def _lines(self, path: str, body: object, method: str = "") -> Iterator[str]:
        """Yield the lines of an answer as they arrive; closing the generator aborts it. A body of bytes is a file."""
        connection = HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            data = body if body is None or isinstance(body, bytes) else json.dumps(body)
            kind = "application/octet-stream" if isinstance(data, bytes) else "application/json"
            connection.request(method or ("GET" if data is None else "POST"), path, data, {"content-type": kind})
            answer: HTTPResponse = connection.getresponse()
            if answer.status != 200:
                raise HTTPException(f"{path} returned {answer.status}: {answer.read()[:300]!r}")
            for line in answer:
                yield line.decode()
        finally:
            connection.close()
