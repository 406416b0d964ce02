"""Kills around a knowledge base in PostgreSQL: writers, workers, readers, sessions of the database, and its server.

Four writers index one folder again and again while its files change, two workers embed for them, and eight readers
look at everything they can see. One of them after another is killed and started anew on the copy that it left, as on a
machine that lost its power. What must never be: a chunk that is lost or there twice, a document of which only some
chunks or two versions are seen, a document that goes back to an earlier version, and a text that is sent to the
embedding service although the database has its vector. `python -m tests.torture.database --kills 200` prints the
counts.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from pathlib import Path
from threading import Lock

import psycopg

from ragkit.errors import DatabaseFailed, KnowledgeBaseLocked, NotAKnowledgeBase
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from tests import reads
from tests.servers.postgres import Postgres
from tests.wire_embed.dialects import EmbeddingRequest
from tests.wire_embed.server import Fault, WireServer

WRITERS, WORKERS, READERS = 4, 2, 8
DOCUMENTS, PARTS = 60, 5
VICTIMS = {"writer": 8, "worker": 4, "reader": 4, "Ctrl-C": 4, "session": 2, "backend": 1, "server": 1}
"""What is killed, and how often. `Ctrl-C`: a writer, worker or reader is interrupted, and must end by itself.
`session`: the database ends a connection. `backend`: kill -9, after which the database drops all connections and
recovers. `server`: it stops at once, and is started a moment later."""
INTERRUPT_SECONDS = 60
"""A process that Ctrl-C has not ended by then hangs: connecting may take ten, the last renewal of a lease ten more."""
INTERRUPTED = 0, 130, -signal.SIGINT
"""Its exit codes: a worker stops as it is told, the command line says that it was interrupted, Python passes it on."""
WAIT_SECONDS = 0.2, 2.5
"""Between two kills."""
SPLIT = "split: {name: recursive, chunk_size: 60, chunk_overlap: 0}\n"
EMBED = "embed: {name: openai, model: text-embedding-3-small, dimensions: 48, batch_size: 16, concurrency: 1}\n"

WRITER = """
import sys, time
from contextlib import suppress
from pathlib import Path
from tests.torture.database import EXPECTED
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
with suppress(KeyboardInterrupt):
    while True:
        try:
            with KnowledgeBase.open(sys.argv[1], sys.argv[2]) as kb:
                while True:
                    report = kb.index(Path(sys.argv[3]))
                    assert not report.files["failed"], report
                    time.sleep(0.05)
        except EXPECTED:
            time.sleep(0.2)
"""

READER = """
import sys, time
from contextlib import suppress
from tests.torture.database import EXPECTED, find_faults
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
versions = {}
with suppress(KeyboardInterrupt):
    while True:
        try:
            with KnowledgeBase.open(sys.argv[1], sys.argv[2]) as kb:
                while True:
                    kb.location.refresh()
                    for fault in find_faults(kb, versions):
                        print(fault, flush=True)
                    kb.search("which hook holds the key", mode="lexical")
                    time.sleep(0.3)
        except EXPECTED:
            time.sleep(0.2)
"""

EXPECTED = (DatabaseFailed, KnowledgeBaseLocked, NotAKnowledgeBase)
"""What a program is told while the database is away, another one writes, or nothing was published yet."""


@dataclass
class Counts:
    """What was done, and what came of it."""

    kills: dict[str, int] = field(default_factory=dict)
    generations: int = 0
    texts_embedded: int = 0
    texts_answered_in_vain: int = 0
    """Texts that were sent again because who had asked was killed before the answer was stored."""
    lost: int = 0
    doubled: int = 0
    half_seen: int = 0
    went_back: int = 0
    paid_twice: int = 0
    hung: int = 0
    other: list[str] = field(default_factory=list)
    """Errors that nobody expects, and problems that `verify` finds."""
    log: list[str] = field(default_factory=list)
    """What was killed or interrupted, and which known texts were embedded, with the second.

    A seed does not repeat the moments.
    """

    @property
    def faults(self) -> int:
        """Their number."""
        return (
            self.lost + self.doubled + self.half_seen + self.went_back + self.paid_twice + self.hung + len(self.other)
        )


def write_document(folder: Path, number: int, version: int) -> None:
    """Write a version of a document at once: a writer reads the one before or this one."""
    parts = [
        f"Note {number}, version {version}, part {part}: hook {number * 7 + part} holds the key of door {version}, and"
        " whoever takes it signs the list on the wall, names the day and the hour, and brings it back before the"
        " evening bell.\n"
        for part in range(PARTS)
    ]
    new = folder.parent / f"new-{number}"
    new.write_text("\n".join(parts))
    new.rename(folder / f"n{number}.md")


def find_faults(kb: KnowledgeBase, versions: dict[str, int]) -> list[str]:
    """The faults of what a reader sees; `versions`: those of each document that it saw last."""
    with kb.session() as session, session.snapshot() as snapshot:
        chunks = snapshot.chunks(snapshot.arrays.chunk_keys.tolist())
    faults = [f"doubled: {name}" for name, count in Counter(chunk.id for chunk in chunks).items() if count > 1]
    texts: dict[str, list[str]] = {}
    for chunk in chunks:
        texts.setdefault(chunk.source, []).append(chunk.text)
    for source, found in texts.items():
        seen = {tuple(text.split(":")[0].split(", ")[1:]) for text in found}
        numbers = {int(version.removeprefix("version ")) for version, _ in seen}
        if len(numbers) != 1 or len(seen) != PARTS or len(found) != PARTS:
            faults.append(f"half_seen: {source} {sorted(seen)}")
        elif max(numbers) < versions.get(source, 0):
            faults.append(f"went_back: {source} from {versions[source]} to {max(numbers)}")
        versions[source] = max(numbers)
    return faults


class Service:
    """An embedding service of 20 ms, which looks whether the database already has the vector of a text."""

    def __init__(self, dsn: str, schema: str, log: Callable[[str], None]) -> None:
        self.paid_twice = 0
        self._log = log
        self._dsn, self._schema, self._lock = dsn, schema, Lock()
        self._connection: psycopg.Connection | None = None
        self.server = WireServer("openai", self._look)

    def _look(self, number: int, request: EmbeddingRequest) -> Fault:
        texts = [text for text in request.texts if "version" in text]
        hashes = [blake2b(text.encode(), digest_size=16).digest() for text in texts]
        query = f"SELECT count(*) FROM {self._schema}.vectors WHERE text_hash = ANY(%s)"
        with self._lock, suppress(psycopg.Error):
            try:
                self._connection = self._connection or psycopg.connect(self._dsn, autocommit=True)
                row = self._connection.execute(query, (hashes,)).fetchone()
                if row and row[0]:
                    self.paid_twice += row[0]
                    self._log(f"{row[0]} of {len(texts)} texts have vectors: {texts[0]!r} to {texts[-1]!r}")
            except psycopg.OperationalError:
                self.close()
                self._connection = None
        return Fault("slow", seconds=0.02)

    def close(self) -> None:
        """Close the connection to the database."""
        if self._connection is not None:
            self._connection.close()

    def texts(self) -> Counter[str]:
        """How often each text of a document was answered."""
        return Counter({text: times for (_, text), times in self.server.answered.items() if "version" in text})


class Crowd:
    """The processes. Each has a copy of the knowledge base of its own, as if on its own machine."""

    def __init__(self, place: Path, address: str) -> None:
        self._place, self._address = place, address
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.outputs: dict[str, Path] = {}
        for kind, count in (("writer", WRITERS), ("worker", WORKERS), ("reader", READERS)):
            for number in range(count):
                self._start(f"{kind}-{number}")

    def _start(self, name: str) -> None:
        pipeline, folder = self._place / "pipeline.yaml", self._place / "docs"
        if name.startswith("worker"):
            command = ["-m", "ragkit", "worker", "--kb", self._address, "--pipeline", str(pipeline), "--json"]
        else:
            code = WRITER if name.startswith("writer") else READER
            command = ["-c", code, self._address, str(pipeline), str(folder)]
        output = self.outputs.setdefault(name, self._place / f"{name}.txt")
        environment = {**os.environ, "RAGKIT_CACHE": str(self._place / f"cache-{name}")}
        with output.open("ab") as out:
            self._processes[name] = subprocess.Popen(
                [sys.executable, *command], env=environment, stdout=out, stderr=subprocess.STDOUT
            )

    def kill(self, name: str) -> None:
        """Kill a process and start it anew."""
        self._processes[name].kill()
        self._processes[name].wait()
        self._start(name)

    def interrupt(self, name: str, counts: Counts) -> None:
        """Send Ctrl-C to a process, count how it ends if that is a fault, and start it anew."""
        process = self._processes[name]
        process.send_signal(signal.SIGINT)
        try:
            if process.wait(INTERRUPT_SECONDS) not in INTERRUPTED:
                counts.other += self._unexpected_end(name)
        except subprocess.TimeoutExpired:
            counts.hung += 1
            process.kill()
            process.wait()
        self._start(name)

    def names(self, kind: str = "") -> list[str]:
        """The processes of a kind, or all."""
        return [name for name in self._processes if name.startswith(kind)]

    def restart_ended(self) -> list[str]:
        """Start processes that ended by themselves; returns how they ended, unless that is expected."""
        ended = [name for name, process in self._processes.items() if process.poll() is not None]
        ends = [end for name in ended for end in self._unexpected_end(name)]
        for name in ended:
            self._start(name)
        return ends

    def _unexpected_end(self, name: str) -> list[str]:
        """How a process ended, unless it is a worker that found no database."""
        line = self.outputs[name].read_text().strip().rpartition("\n")[2]
        return [] if "start the database" in line else [f"{name} ended: {line}"]

    def stop(self) -> None:
        """Kill all of them."""
        for process in self._processes.values():
            process.kill()
            process.wait()


def run_trial(place: Path, kills: int, seed: int) -> Counts:
    """Kill so many times, then let a last run end, and compare with a knowledge base in a directory."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background of a shell, Ctrl-C would be ignored
    chance = random.Random(seed)
    folder = place / "docs"
    folder.mkdir()
    (place / "pipeline.yaml").write_text(EMBED + SPLIT)
    versions = dict.fromkeys(range(DOCUMENTS), 1)
    for number, version in versions.items():
        write_document(folder, number, version)
    server = Postgres()
    server.start()
    schema = "kills"
    address = f"{server.dsn}&schema={schema}&lease=1&wait=30"
    counts, killed = Counts(), Counter[str]()
    started_at = time.monotonic()

    def log(line: str) -> None:
        counts.log.append(f"{time.monotonic() - started_at:.2f} s: {line}")

    service = Service(server.dsn, schema, log)
    try:
        with service.server.running():
            os.environ.update(service.server.environment)
            crowd = Crowd(place, address)
            try:
                while sum(killed.values()) < kills:
                    time.sleep(chance.uniform(*WAIT_SECONDS))
                    for number in chance.sample(sorted(versions), 4):
                        versions[number] += 1
                        write_document(folder, number, versions[number])
                    counts.other += crowd.restart_ended()
                    victim = chance.choices(list(VICTIMS), list(VICTIMS.values()))[0]
                    log(victim)
                    if kill(victim, chance, crowd, server, counts):
                        killed[victim] += 1
            finally:
                crowd.stop()
            log("last run")
            check_end(place, address, service, counts)
    finally:
        service.close()
        server.stop()
    counts.kills = dict(killed)
    for name, output in crowd.outputs.items():
        count_faults(name, output.read_text(), counts)
    return counts


def kill(victim: str, chance: random.Random, crowd: Crowd, server: Postgres, counts: Counts) -> bool:
    """Kill or interrupt something; False if there is nothing to kill."""
    if victim == "server":
        server.crash()
        time.sleep(chance.uniform(0, 1))
        server.recover()
    elif victim in ("session", "backend"):
        query = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            pids = [row[0] for row in connection.execute(query).fetchall()]
            if not pids:
                return False
            if victim == "session":
                connection.execute("SELECT pg_terminate_backend(%s)", (chance.choice(pids),))
                return True
        with suppress(ProcessLookupError):
            os.kill(chance.choice(pids), signal.SIGKILL)
        server.wait_until_ready()
    elif victim == "Ctrl-C":
        crowd.interrupt(chance.choice(crowd.names()), counts)
    else:
        crowd.kill(chance.choice(crowd.names(victim)))
    return True


def check_end(place: Path, address: str, service: Service, counts: Counts) -> None:
    """After a last run by another machine, the database has what a directory has."""
    os.environ["RAGKIT_CACHE"] = str(place / "cache-end")
    pipeline = place / "pipeline.yaml"
    with KnowledgeBase.open(address, pipeline) as shared, KnowledgeBase.open(place / "kb", pipeline) as own:
        shared.index(place / "docs")
        texts = service.texts()
        counts.texts_embedded, counts.texts_answered_in_vain = len(texts), texts.total() - len(texts)
        counts.paid_twice = service.paid_twice
        own.index(place / "docs")  # which asks for everything once more
        if service.paid_twice == counts.paid_twice:
            counts.other.append("the service does not notice a text whose vector the database has")
        found, wanted = (Counter(chunk.id for chunk in reads.chunks(kb)) for kb in (shared, own))
        counts.lost = (wanted - found).total()
        counts.doubled = (found - wanted).total()
        counts.other += [str(problem) for problem in shared.verify().problems]
        with shared.session() as session, session.snapshot() as snapshot:
            counts.generations = snapshot.arrays.generation


def count_faults(name: str, output: str, counts: Counts) -> None:
    """Count what a process wrote: the faults that a reader saw, and errors, but not the lines of their tracebacks."""
    for line in output.splitlines():
        kind = line.partition(":")[0]
        if kind in ("doubled", "half_seen", "went_back"):
            setattr(counts, kind, getattr(counts, kind) + 1)
        elif ("Error" in kind and not line.startswith(" ")) or line.startswith("ragkit"):
            counts.other.append(f"{name}: {line}")


def main() -> int:
    """Run one trial and print its counts as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        counts = run_trial(Path(place), options.kills, options.seed)
    print(json.dumps(asdict(counts), indent=1))
    return 1 if counts.faults else 0


if __name__ == "__main__":
    sys.exit(main())
