"""Two servers and a database, and every link between them breaks in every way.

RAGKIT_LINK_ROUNDS=300 breaks so many.
"""

from __future__ import annotations

import os
import random
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import psycopg
import pytest

from ragkit.index.catalog.database_url import DatabaseUrl
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.settings import Pipeline
from tests.server.parts import Process, process
from tests.servers.link_proxy import FAULTS, LinkProxy

HASHING = "embed: {name: hashing, dimension: 64}\n"
ROUNDS = int(os.environ.get("RAGKIT_LINK_ROUNDS", "3"))
MAX_ANSWERS = 30
"""Answers of a session; then another one begins."""
HEALTH_SECONDS = 1.0 if ROUNDS > 3 else 5.0
"""In a run of all tests, others use the processors too."""
RECOVERY_SECONDS = 30.0
CLIENT_SECONDS = 60.0


@dataclass
class Machine:
    """A server, its link to the database, and how long it took to answer at /health."""

    server: Process
    link: LinkProxy
    worst: float = 0.0
    slow: list[str] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def watch(self) -> None:
        with httpx2.Client(base_url=self.server.url, timeout=CLIENT_SECONDS) as client:
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
        return httpx2.post(f"{self.server.url}{path}", timeout=CLIENT_SECONDS, **content)  # type: ignore[arg-type]

    def get(self, path: str) -> httpx2.Response:
        return httpx2.get(f"{self.server.url}{path}", timeout=CLIENT_SECONDS)

    def upload(self, name: str, text: str) -> httpx2.Response:
        return self.post(f"/documents?name={name}", content=text.encode())


@pytest.fixture
def machines(tmp_path: Path, database_url: str) -> Iterator[list[Machine]]:
    """Two servers on one database, each over a link of its own."""
    url = DatabaseUrl.parse(database_url)
    (tmp_path / "a.md").write_text("# Hedge\n\nThe hedge is cut in August.\n")
    with KnowledgeBase.open(database_url, Pipeline.from_yaml(HASHING)) as kb:
        kb.index(tmp_path / "a.md")
    host = str(psycopg.conninfo.conninfo_to_dict(url.dsn)["host"])
    with ExitStack() as stack:
        found = []
        for name in ("one", "two"):
            link = stack.enter_context(LinkProxy(Path(host) / ".s.PGSQL.5432"))
            place = f"postgresql://postgres@127.0.0.1:{link.port}/postgres?schema={url.schema}&lease=6"
            place += "&statement_timeout=5"
            env = {"RAGKIT_CACHE": str(tmp_path / name)}
            found.append(Machine(stack.enter_context(process(tmp_path / name, place=place, env=env)), link))
        yield found
        for machine in found:
            machine.link.set_fault("")


def eventually(check: Callable[[], bool], seconds: float = RECOVERY_SECONDS) -> float:
    """Wait until `check()` is true; how long it took."""
    started = time.monotonic()
    while True:
        with suppress(httpx2.HTTPError):
            if check():
                return time.monotonic() - started
        assert time.monotonic() - started < seconds, "it did not recover"
        time.sleep(0.2)


def test_a_machine_that_vanishes_frees_its_jobs_and_sessions(machines: list[Machine], tmp_path: Path) -> None:
    one, two = machines
    session = one.post("/chat", json={"message": "When is the hedge cut?"}).json()["session_id"]
    assert one.upload("n.md", "# Pump\n\nThe pump runs on oil.\n").status_code == 200
    one.link.set_fault("stall")  # no packet leaves it, and none reaches it
    asking = threading.Thread(target=_ask, args=(one, session))
    asking.start()
    assert two.upload("m.md", "# Saw\n\nThe saw hangs on a nail.\n").status_code == 200
    eventually(lambda: _finds(two, "Where does the saw hang?", "nail"))
    eventually(lambda: _ask(two, session) == session)
    one.link.set_fault("")
    eventually(lambda: _finds(one, "Where does the saw hang?", "nail"))
    eventually(lambda: _finds(two, "What does the pump run on?", "oil"), 60)
    asking.join()


@pytest.mark.timeout(60 * ROUNDS + 240)
def test_everything_recovers_from_every_broken_link(
    machines: list[Machine], record_property: Callable[[str, object], None]
) -> None:
    trial = Trial(machines)
    watchers = [threading.Thread(target=machine.watch) for machine in machines]
    for watcher in watchers:
        watcher.start()
    try:
        for number in range(ROUNDS):
            trial.break_links(number)
            trial.check_recovery(number)
        for session, answers in trial.answers.items():
            _check_history(machines[0], session, answers)
    finally:
        for machine in machines:
            machine.stop.set()
        for watcher in watchers:
            watcher.join()
    worst = max(machine.worst for machine in machines)
    record_property(
        "figures",
        f"{ROUNDS} broken links: /health within {worst:.2f} s, each part back within {max(trial.recoveries):.1f} s"
        f" (median {statistics.median(trial.recoveries):.1f} s), {sum(trial.answers.values())} answers and"
        f" {trial.uploads} uploads acknowledged, none lost",
    )
    assert not [slow for machine in machines for slow in machine.slow]


class Trial:
    """What was acknowledged, and how long everything took to come back."""

    def __init__(self, machines: list[Machine]) -> None:
        self.machines, self.choose = machines, random.Random(ROUNDS)
        self.faults = self.choose.sample(FAULTS, len(FAULTS))
        self.sessions = [_ask(machine, None) for machine in machines]
        self.answers: dict[str, int] = dict.fromkeys(self.sessions, 1)
        self.uploads = 0
        self.recoveries: list[float] = []

    def break_links(self, number: int) -> None:
        """Break one link or both for a moment, while clients ask."""
        broken = self.choose.choice([self.machines[:1], self.machines[1:], self.machines])
        for machine in broken:
            machine.link.set_fault(self.faults[number % len(FAULTS)])
        deadline = time.monotonic() + self.choose.uniform(0.5, 3)
        while time.monotonic() < deadline:
            session = self.choose.choice(self.sessions)
            with suppress(httpx2.HTTPError):
                if _ask(self.choose.choice(self.machines), session) == session:
                    self.answers[session] += 1
            time.sleep(0.1)
        for machine in broken:
            machine.link.set_fault("")

    def check_recovery(self, number: int) -> None:
        """Both servers answer in all sessions, and find a document that one of them takes now."""
        name, text = f"note{number % 40}.md", f"# N\n\nHook {number} is taken.\n"
        taker = self.choose.choice(self.machines)
        self._wait(lambda: taker.upload(name, text).status_code == 200)
        self.uploads += 1
        for machine in self.machines:
            self._wait(lambda m=machine: _finds(m, f"Hook {number} is taken", f"Hook {number} is"))  # type: ignore[misc]
            self._wait(lambda m=machine: m.get("/ready").status_code == 200)  # type: ignore[misc]
            for index, session in enumerate(self.sessions):
                self._wait(lambda m=machine, s=session: _ask(m, s) == s)  # type: ignore[misc]
                self.answers[session] += 1
                _check_history(machine, session, self.answers[session])
                if self.answers[session] > MAX_ANSWERS:
                    self.sessions[index] = _ask(machine, None)
                    self.answers[self.sessions[index]] = 1

    def _wait(self, check: Callable[[], bool]) -> None:
        self.recoveries.append(eventually(check))


def _ask(machine: Machine, session: str | None) -> str:
    asked = machine.post(
        "/chat", json={"message": "When is the hedge cut?", **({"session_id": session} if session else {})}
    )
    return str(asked.json()["session_id"]) if asked.status_code == 200 else f"{asked.status_code} {asked.text}"


def _finds(machine: Machine, question: str, text: str) -> bool:
    found = machine.post("/v1/search", json={"query": question, "top_k": 5, "mode": "lexical"})
    return found.status_code == 200 and any(text in hit["text"] for hit in found.json()["hits"])


def _check_history(machine: Machine, session: str, answers: int) -> None:
    history = machine.get(f"/session/{session}").json()["history"]
    done = [message for message in history if message["role"] == "assistant" and message["status"] == "done"]
    assert len(done) >= answers, f"{answers} answers were acknowledged, {len(done)} are stored"
