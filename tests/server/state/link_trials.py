"""Two servers and a database whose links break at random, and what must hold afterwards."""

from __future__ import annotations

import os
import random
import statistics
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

import httpx2

from tests.server.parts import Process

HASHING = "embed: {name: hashing, dimension: 64}\n"
ROUNDS = int(os.environ.get("RAGKIT_LINK_ROUNDS", "3"))
MAX_ANSWERS = 30
"""Answers of a session; then another one begins."""
HEALTH_SECONDS = 1.0 if ROUNDS > 3 else 5.0
"""In a run of all tests, others use the processors too."""
RECOVERY_SECONDS = 30.0
CLIENT_SECONDS = 60.0


class Link(Protocol):
    """A way from a server to the database that can break."""

    fault: str

    def set_fault(self, fault: str) -> None:
        """Break it so; "": mend it."""


@dataclass
class Machine:
    """A server, its link to the database, and how long it took to answer at /health."""

    server: Process
    link: Link
    worst: float = 0.0
    slow: list[str] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)
    headers: Mapping[str, str] = field(default_factory=dict)

    def watch(self) -> None:
        """Ask for /health ten times a second until `stop`."""
        with httpx2.Client(base_url=self.server.url, timeout=CLIENT_SECONDS, headers=self.headers) as client:
            while not self.stop.is_set():
                started = time.monotonic()
                time.sleep(0.1)
                late = time.monotonic() - started - 0.1  # how long this busy machine does not run a thread
                started = time.monotonic()
                status = client.get("/health").status_code
                seconds = time.monotonic() - started
                self.worst = max(self.worst, seconds)
                if status != 200 or seconds > HEALTH_SECONDS + 5 * late:
                    self.slow.append(f"{status} after {seconds:.2f} s, with the link {self.link.fault or 'whole'}")

    def post(self, path: str, **content: object) -> httpx2.Response:
        """Send to the server."""
        url = f"{self.server.url}{path}"
        return httpx2.post(url, timeout=CLIENT_SECONDS, headers=self.headers, **content)  # type: ignore[arg-type]

    def get(self, path: str) -> httpx2.Response:
        """Read from the server."""
        return httpx2.get(f"{self.server.url}{path}", timeout=CLIENT_SECONDS, headers=self.headers)

    def upload(self, name: str, text: str) -> httpx2.Response:
        """Upload a file."""
        return self.post(f"/documents?name={name}", content=text.encode())

    def ask(self, session: str | None) -> str:
        """Ask in a session, or a new one; returns its id, or what went wrong."""
        asked = self.post(
            "/chat", json={"message": "When is the hedge cut?", **({"session_id": session} if session else {})}
        )
        return str(asked.json()["session_id"]) if asked.status_code == 200 else f"{asked.status_code} {asked.text}"

    def finds(self, question: str, text: str) -> bool:
        """Whether a hit for the question contains the text."""
        found = self.post("/v1/search", json={"query": question, "top_k": 5, "mode": "lexical"})
        return found.status_code == 200 and any(text in hit["text"] for hit in found.json()["hits"])

    def check_history(self, session: str, answers: int) -> None:
        """All answers that were acknowledged are stored."""
        history = self.get(f"/session/{session}").json()["history"]
        done = [message for message in history if message["role"] == "assistant" and message["status"] == "done"]
        assert len(done) >= answers, f"{answers} answers were acknowledged, {len(done)} are stored"


def eventually(check: Callable[[], object], seconds: float = RECOVERY_SECONDS, *, wanted: object = True) -> float:
    """Wait until `check()` gives what is wanted; how long it took."""
    started = time.monotonic()
    while True:
        try:
            found = check()
        except httpx2.HTTPError as error:
            found = error
        if found == wanted:
            return time.monotonic() - started
        assert time.monotonic() - started < seconds, f"it did not recover within {seconds:.0f} s: {found!r}"
        time.sleep(0.2)


class Trial:
    """What was acknowledged, and how long everything took to come back."""

    def __init__(self, machines: Sequence[Machine], faults: Sequence[str], rounds: int = ROUNDS) -> None:
        self.machines, self.rounds, self.choose = list(machines), rounds, random.Random(rounds)
        self.faults = self.choose.sample(faults, len(faults))
        self.answers: dict[str, int] = {}
        self.sessions = [self._begin_session(machine) for machine in machines]
        self.uploads = 0
        self.recoveries: list[float] = []

    def run(self) -> str:
        """Break the links `rounds` times; returns the figures."""
        watchers = [threading.Thread(target=machine.watch) for machine in self.machines]
        for watcher in watchers:
            watcher.start()
        try:
            for number in range(self.rounds):
                self._break_links(number)
                self._check_recovery(number)
            for session, answers in self.answers.items():
                self.machines[0].check_history(session, answers)
        finally:
            for machine in self.machines:
                machine.stop.set()
            for watcher in watchers:
                watcher.join()
        slow = [slow for machine in self.machines for slow in machine.slow]
        assert not slow, f"/health: {slow[:10]}"
        worst = max(machine.worst for machine in self.machines)
        return (
            f"{self.rounds} broken links: /health within {worst:.2f} s, each part back within"
            f" {max(self.recoveries):.1f} s (median {statistics.median(self.recoveries):.1f} s),"
            f" {sum(self.answers.values())} answers and {self.uploads} uploads acknowledged, none lost"
        )

    def _break_links(self, number: int) -> None:
        """Break one link or both for a moment, while clients ask."""
        broken = self.choose.choice([self.machines[:1], self.machines[1:], self.machines])
        for machine in broken:
            machine.link.set_fault(self.faults[number % len(self.faults)])
        deadline = time.monotonic() + self.choose.uniform(0.5, 3)
        while time.monotonic() < deadline:
            session = self.choose.choice(self.sessions)
            with suppress(httpx2.HTTPError):
                if self.choose.choice(self.machines).ask(session) == session:
                    self.answers[session] += 1
            time.sleep(0.1)
        for machine in broken:
            machine.link.set_fault("")

    def _check_recovery(self, number: int) -> None:
        """Both servers answer in all sessions, and find a document that one of them takes now."""
        name, text = f"note{number % 40}.md", f"# N\n\nHook {number} is taken.\n"
        taker = self.choose.choice(self.machines)
        self._wait(lambda: taker.upload(name, text).status_code, wanted=200)
        self.uploads += 1
        for machine in self.machines:
            self._wait(lambda m=machine: m.finds(f"Hook {number} is taken", f"Hook {number} is"))  # type: ignore[misc]
            self._wait(lambda m=machine: m.get("/ready").status_code, wanted=200)  # type: ignore[misc]
            for index, session in enumerate(self.sessions):
                self._wait(lambda m=machine, s=session: m.ask(s), wanted=session)  # type: ignore[misc]
                self.answers[session] += 1
                machine.check_history(session, self.answers[session])
                if self.answers[session] > MAX_ANSWERS:
                    self.sessions[index] = self._begin_session(machine)

    def _begin_session(self, machine: Machine) -> str:
        session = machine.ask(None)
        assert not session[0].isdigit(), session
        self.answers[session] = 1
        return session

    def _wait(self, check: Callable[[], object], wanted: object = True) -> None:
        try:
            self.recoveries.append(eventually(check, wanted=wanted))
        except AssertionError as error:
            error.add_note(f"{len(self.recoveries)} parts had recovered; links broken: {self.uploads}")
            for machine in self.machines:
                error.add_note(f"jobs: {machine.get('/jobs').text[:2000]}\nready: {machine.get('/ready').text[:500]}")
                logged = [line for line in machine.server.log.decode().splitlines() if "/health" not in line]
                error.add_note("\n".join(logged[-40:]))
            raise
