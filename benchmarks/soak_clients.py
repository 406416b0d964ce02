"""Who uses the knowledge base during `soak.py`: a library process that keeps it open, and clients of the server.

Everything that is asked leaves an `Asked`: when it began, how long it took, and which marks the answer had.
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

from soak_folder import MARK

from ragkit import KnowledgeBase

ROOT = Path(__file__).resolve().parents[1]
SEARCH_SECONDS = 1.0
"""From one search of a thread to its next, on average."""
ASK_SECONDS = 3.0
TURNS = 8
"""Of a session."""
LEAVES_EVERY = 5
"""Of so many streamed completions one is left in mid-answer."""


@dataclass(frozen=True)
class Asked:
    """One question."""

    began: float
    """Of `time.monotonic`, which all processes of a machine share."""
    who: str
    ms: float
    marks: tuple[str, ...]
    unverified: int = 0
    """Citations whose quote is not in the indexed text; a run that ends while the answer is made may do that."""


@dataclass
class Seen:
    """What some threads have seen since it was last drained."""

    asked: list[Asked] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def drain(self) -> Seen:
        """All of it, taken out."""
        taken = Seen(self.asked, self.errors, self.wrong)
        self.asked, self.errors, self.wrong = [], [], []
        return taken


class Load:
    """Threads that each do one thing again and again, with pauses, until they are told to stop."""

    def __init__(self, seed: str) -> None:
        self.seen = Seen()
        self.stopping = threading.Event()
        self._seed = seed
        self._threads: list[threading.Thread] = []
        lines = (ROOT / "data" / "questions.jsonl").read_text("utf-8").splitlines()
        self.questions = [json.loads(line)["question"] for line in lines]

    def start(self, name: str, pause: float, work: Callable[[random.Random], None]) -> None:
        """A thread that does `work` about every `pause` seconds. What it raises is an error, and no end."""
        chance = random.Random(f"{self._seed}-{name}")

        def run() -> None:
            while not self.stopping.wait(pause * (0.5 + chance.random())):
                try:
                    work(chance)
                except Exception as error:  # noqa: BLE001 - whatever it is, it is counted
                    self.seen.errors.append(f"{name}: {type(error).__name__}: {error}")

        self._threads.append(threading.Thread(target=run, name=name, daemon=True))
        self._threads[-1].start()

    def stop(self) -> None:
        """Let every thread come to its end."""
        self.stopping.set()
        for thread in self._threads:
            thread.join(60)

    def note(self, who: str, began: float, text: str, unverified: int = 0) -> None:
        """Keep what a question gave."""
        ms = (time.monotonic() - began) * 1000
        self.seen.asked.append(Asked(began, who, round(ms, 2), tuple(sorted(set(MARK.findall(text)))), unverified))


# the library


def library(directory: Path, seed: str) -> None:
    """Keep a knowledge base open, search and ask in threads; obey lines of JSON on stdin."""
    load = Load(f"library-{seed}")
    with KnowledgeBase.open(directory) as kb:

        def search(chance: random.Random) -> None:
            began = time.monotonic()
            hits = kb.search(chance.choice(load.questions))
            load.note("library search", began, " ".join(hit.chunk.text for hit in hits))

        def ask(chance: random.Random) -> None:
            began = time.monotonic()
            answer = kb.ask(chance.choice(load.questions))
            text = " ".join([answer.text, *(one.quote for one in answer.citations)])
            load.note("library ask", began, text, sum(not one.verified for one in answer.citations))

        for n in range(2):
            load.start(f"search {n}", SEARCH_SECONDS * 2, search)
        load.start("ask", ASK_SECONDS, ask)
        for line in sys.stdin:
            query = json.loads(line)
            if query is None:
                print(json.dumps(asdict(load.seen.drain())), flush=True)
            else:
                found = [(hit.chunk.source, hit.chunk.text) for hit in kb.search(query, top_k=5)]
                print(json.dumps(found), flush=True)
        load.stop()


class Library:
    """The library process, seen from outside."""

    def __init__(self, kb: Path, seed: int) -> None:
        command = [sys.executable, str(Path(__file__).with_name("soak.py")), "--library", str(kb), "--seed", str(seed)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def find(self, query: str) -> list[tuple[str, str]]:
        """(source, text) of the best hits."""
        return [(source, text) for source, text in self._say(query)]

    def drain(self) -> Seen:
        """What its threads saw."""
        found = self._say(None)
        asked = [Asked(**{**one, "marks": tuple(one["marks"])}) for one in found["asked"]]
        return Seen(asked, found["errors"], found["wrong"])

    def stop(self) -> int:
        """Ends it; returns its exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(90)

    def _say(self, query: str | None):  # type: ignore[no-untyped-def]
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(query) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


# the server's clients


class Clients(Load):
    """Those of the server: one searches, one has sessions, one uses OpenAI's API and leaves in mid-answer at times."""

    def __init__(self, port: int, seed: int) -> None:
        super().__init__(f"clients-{seed}")
        self._port = port
        self._completions = 0
        self.left = 0
        """Answers that were left in the middle."""
        self.sessions = 0
        """Sessions that were begun, used and ended."""
        self._session = ""
        self._turn = 0

    def begin(self) -> None:
        """Start them."""
        self.start("searcher", SEARCH_SECONDS, self._search)
        self.start("talker", ASK_SECONDS, self._talk)
        self.start("completer", ASK_SECONDS, self._complete)

    def find(self, query: str) -> list[tuple[str, str]]:
        """(source, text) of the best hits."""
        return [(hit["source"], hit["text"]) for hit in self._ask("/v1/search", {"query": query, "top_k": 5})["hits"]]

    def running(self) -> int:
        """Answers that the server says it is still working on."""
        return sum(trace["status"] == "running" for trace in self._ask("/traces?limit=100")["traces"])

    def _search(self, chance: random.Random) -> None:
        began = time.monotonic()
        hits = self._ask("/v1/search", {"query": chance.choice(self.questions)})["hits"]
        self.note("server search", began, " ".join(hit["text"] for hit in hits))
        if not hits:
            self.seen.wrong.append("a search over the server found nothing")

    def _talk(self, chance: random.Random) -> None:
        """One turn of a session; the first begins it, the last ends it and reads it back."""
        if not self._session:
            self._session, self._turn = self._ask("/session/start", {})["id"], 0
        body = {"message": chance.choice(self.questions), "session_id": self._session, "stream": True}
        began, whole = time.monotonic(), ""
        for line in self._lines("/chat", body):
            whole += line
        self.note("server chat", began, whole)
        if "event: done" not in whole:
            self.seen.errors.append(f"a chat did not end: {whole[-300:]!r}")
        self._turn += 1
        if self._turn == TURNS:
            session, self._session = self._session, ""
            self._ask("/session/end", {"session_id": session})
            history = self._ask(f"/session/{session}")["history"]
            self.sessions += 1
            if [one["status"] for one in history] != ["done"] * 2 * TURNS:
                self.seen.wrong.append(f"a session of {TURNS} turns has {len(history)} messages, or unfinished ones")

    def _complete(self, chance: random.Random) -> None:
        self._completions += 1
        leaves = self._completions % LEAVES_EVERY == 0
        said = {"role": "user", "content": chance.choice(self.questions)}
        began, whole = time.monotonic(), ""
        for line in self._lines("/v1/chat/completions", {"model": "ragkit", "messages": [said], "stream": True}):
            whole += line
            if leaves and line.startswith("data:"):
                self.left += 1
                return
        self.note("server completion", began, whole)
        if "data: [DONE]" not in whole:
            self.seen.errors.append(f"a completion did not end: {whole[-300:]!r}")

    def _ask(self, path: str, body: object = None):  # type: ignore[no-untyped-def]
        return json.loads("".join(self._lines(path, body)))

    def _lines(self, path: str, body: object) -> Iterator[str]:
        """The lines of an answer as they come. A generator that is closed leaves the connection in mid-answer."""
        connection = HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            data = None if body is None else json.dumps(body)
            connection.request("GET" if data is None else "POST", path, data, {"content-type": "application/json"})
            answer: HTTPResponse = connection.getresponse()
            if answer.status != 200:
                raise HTTPException(f"{path} gave {answer.status}: {answer.read()[:300]!r}")
            for line in answer:
                yield line.decode()
        finally:
            connection.close()
