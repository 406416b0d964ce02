"""Kill processes that give chunks their vectors, at random moments: python -m tests.index.killed_fills PLACE COUNT SEED

Writes {"kills": by kind, "vectors": computed by kind, "reached": kills before the end of the work, "searches": beside
stopped processes, of them "waited", "faults"}.

Each trial starts one process or two on a half-filled knowledge base, stops them at a random moment, searches beside
them, kills them, and compares what they leave with vectors that are known. The processes are forked from this one,
which has imported what they need and must start no thread. A vector of a text is drawn by its hash.
"""

from __future__ import annotations

import faulthandler
import json
import os
import random
import select
import shutil
import signal
import socket
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

if __name__ == "__main__":  # a thread of these libraries would be lost in a fork
    os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "RAGKIT_OFFLINE": "1"}

import numpy as np

from ragkit import Document
from ragkit.cli import main as ragkit_main
from ragkit.cli.commands import serve
from ragkit.embed.base import Rows, normalize_rows
from ragkit.embed.minilm import MiniLM
from ragkit.errors import KnowledgeBaseLocked
from ragkit.index import fill, on_demand
from ragkit.index.catalog.directory import open_catalog
from ragkit.index.catalog.sqlite import Catalog
from ragkit.index.kept_vectors import KeptVectors
from ragkit.knowledge_base.index_options import IndexOptions
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.server import app
from ragkit.server.state import jobs
from ragkit.store.native.vector_file import HEADER_BYTES, VectorFile

PRELOADED = serve, app
NOTES = 48
SECONDS_PER_TEXT, SECONDS_PER_SYNC = 0.001, 0.02
SEARCH_LIMIT_S = 10.0
"""A search beside a stopped process that takes longer, without the time in which it waits for a processor, waits for
that process. Alone it takes a tenth of a second."""
START_LIMIT_S, WORK_S = 20.0, 0.3
"""Until a process computes its first vector, on a busy machine; and roughly the rest of its work."""
KINDS = ("run", "search", "server", "two machines")
SEARCHABLE = IndexOptions(searchable_first=True, wait=False)
SUBJECTS = ("owl", "dome", "tea", "key", "mirror", "dewar", "lantern", "cellar", "guide", "meal", "roof", "storm")

_sync_file = VectorFile.sync
State = Mapping[bytes, bytes]
"""Text hash -> its vector."""


def vector_of(text: str) -> Rows:
    """(384,): depends on the text alone."""
    seed = int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")
    row: Rows = normalize_rows(np.random.default_rng(seed).standard_normal((1, 384)).astype(np.float32))[0]
    return row


def _embed(self: MiniLM, texts: Sequence[str]) -> tuple[Rows, int]:
    time.sleep(SECONDS_PER_TEXT * len(texts))
    return np.array([vector_of(text) for text in texts], np.float32).reshape(-1, 384), len(texts)


def _sync(self: VectorFile) -> None:
    """As on a slow disk: many kills come between the vectors and the rows that refer to them."""
    time.sleep(SECONDS_PER_SYNC)
    _sync_file(self)


def replace_model() -> None:
    """Replace the model, and take small steps, so that there are many moments between them."""
    MiniLM._embed = _embed  # type: ignore[method-assign]
    VectorFile.sync = _sync  # type: ignore[method-assign]
    fill.FILL_BATCH_SIZE, on_demand.MAX_EMBEDDED, jobs.IDLE_INTERVAL_S = 4, 3, 0.01


def note(number: int) -> str:
    """A short document; every fourth has the text of another one."""
    number -= number % 4 == 3
    first, second = SUBJECTS[number % len(SUBJECTS)], SUBJECTS[number // len(SUBJECTS)]
    return (
        f"Note {number}: the {first} of house {number} stands beside the {second}, and is oiled {number} times a year."
    )


def question(chance: random.Random) -> str:
    """A question about some of the notes."""
    return f"Where is the {chance.choice(SUBJECTS)} of house {chance.randrange(NOTES)}?"


@dataclass
class Report:
    """What the trials found."""

    kills: Counter[str] = field(default_factory=Counter)
    vectors: Counter[str] = field(default_factory=Counter)
    reached: int = 0
    searches: int = 0
    waited: int = 0
    """Searches that waited until the others went on: SQLite recovers its log, or ends with it, under a lock of all."""
    faults: list[str] = field(default_factory=list)


class Trials:
    """The knowledge bases and the trials."""

    def __init__(self, place: Path, seed: int) -> None:
        self._place, self._kb, self._template = place, place / "kb", place / "template"
        self._chance = random.Random(seed)
        self.report = Report()

    def build(self) -> None:
        """Write the searchable knowledge base, and one whose chunks have all vectors."""
        documents = [Document(note(number), {"source": f"{number}.txt"}) for number in range(NOTES)]
        for path, options in ((self._template, SEARCHABLE), (self._place / "full", IndexOptions())):
            with KnowledgeBase.open(path) as kb:
                kb.add(documents, options)
        self._expected, kept = vectors_of(self._place / "full")
        assert not kept and len(self._expected) == NOTES * 3 / 4
        with KnowledgeBase.open(self._place / "full") as kb:
            self._answers = [answers(kb, number) for number in range(4)]
        shutil.copytree(self._template, self._kb)

    def kill(self, kind: str) -> None:
        """One trial."""
        if len(vectors_of(self._kb)[0]) == len(self._expected):
            self._start_anew()
        before = {**vectors_of(self._kb)[0], **vectors_of(self._kb)[1]}
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        seed = self._chance.randrange(1 << 30)
        works: dict[str, list[Callable[[], None]]] = {
            "run": [lambda: fill_all(self._kb)],
            "search": [lambda: search_often(self._kb, seed)],
            "server": [lambda: run_server(self._kb, port)],
            "two machines": [lambda: fill_all(self._kb), lambda: search_often(self._kb, seed)],
        }
        victims = [fork(work) for work in works[kind]]
        self._wait()
        for victim in victims:
            os.kill(victim, signal.SIGSTOP)
        self._search_beside(kind, seed, victims)
        for victim in victims:
            os.kill(victim, signal.SIGKILL)
            self.report.reached += os.waitstatus_to_exitcode(os.waitpid(victim, 0)[1]) == -signal.SIGKILL
        self.report.kills[kind] += 1
        self._compare(kind, before)

    def _wait(self) -> None:
        """Wait for a random moment: of the whole work, or, often, after the first vector."""
        before, deadline = written_bytes(self._kb), time.monotonic() + START_LIMIT_S
        if self._chance.random() < 2 / 3:
            while written_bytes(self._kb) == before and time.monotonic() < deadline:
                time.sleep(0.001)
        time.sleep(self._chance.random() * WORK_S)

    def end(self) -> None:
        """Fill the last knowledge base: its results must be those of the one that was never killed."""
        with KnowledgeBase.open(self._kb) as kb:
            kb.embed_remaining()
            if [answers(kb, number) for number in range(4)] != self._answers:
                self._fault("end", "other results than those of a run that was not killed")
        self._compare("end", self._expected)

    def _start_anew(self) -> None:
        self.end()
        shutil.rmtree(self._kb)
        shutil.copytree(self._template, self._kb)

    def _search_beside(self, kind: str, seed: int, victims: Sequence[int]) -> None:
        """Search while the others are stopped with all that they have locked; if that waits, while they go on."""
        log = self._place / "reader.txt"
        reader = fork(lambda: search_once(self._kb, seed), log)
        handle, self.report.searches = os.pidfd_open(reader), self.report.searches + 1
        with closing(os.fdopen(handle)):
            if not self._ends(reader, handle):
                self.report.waited += 1
                for victim in victims:
                    os.kill(victim, signal.SIGCONT)
                if not self._ends(reader, handle):
                    os.kill(reader, signal.SIGABRT)  # faulthandler writes the stack
        code = os.waitstatus_to_exitcode(os.waitpid(reader, 0)[1])
        if code:
            lines = " / ".join(log.read_text().splitlines())[:900]
            self._fault(kind, f"a search beside a stopped process ended with {code}: {lines}")

    @staticmethod
    def _ends(reader: int, handle: int) -> bool:
        """Whether a search ends within its limit."""
        started = time.monotonic()
        while not select.select([handle], [], [], 0.2)[0]:
            if time.monotonic() - started - processor_delay(reader) > SEARCH_LIMIT_S:
                return False
        return True

    def _compare(self, kind: str, before: State) -> None:
        stored, kept = vectors_of(self._kb)
        self.report.vectors[kind] += len(stored.keys() | kept.keys()) - len(before)
        if not before.keys() <= stored.keys() | kept.keys():
            self._fault(kind, f"{len(before.keys() - stored.keys() - kept.keys())} vectors were lost")
        for name, rows in (("stored", stored), ("kept", kept)):
            wrong = [key for key, row in rows.items() if self._expected.get(key) != row]
            if wrong:
                self._fault(kind, f"{len(wrong)} {name} vectors are wrong")
        with closing(open_catalog(self._kb)) as connection:
            live, doubled = (
                connection.execute(query).fetchone()[0]
                for query in (
                    "SELECT count(*) FROM chunks WHERE live = 1",
                    "SELECT count(*) FROM (SELECT 1 FROM vectors GROUP BY embedder, text_hash HAVING count(*) > 1)",
                )
            )
        if live != NOTES or doubled:
            self._fault(kind, f"{live} chunks and {doubled} doubled vectors")
        with KnowledgeBase.open(self._kb) as kb:
            if not kb.verify().is_sound:
                self._fault(kind, "verify finds damage")

    def _fault(self, kind: str, what: str) -> None:
        self.report.faults.append(f"{kind}, kill {self.report.kills.total()}: {what}")


def written_bytes(path: Path) -> int:
    """The sizes of the files with vectors."""
    return sum(file.stat().st_size for file in path.glob("*.f32"))


def vectors_of(path: Path) -> tuple[State, State]:
    """The vectors of the catalog's live chunks, and those that searches have kept."""
    with closing(open_catalog(path)) as connection:
        row = Catalog(connection).embedder(MiniLM().fingerprint)
        assert row is not None
        rows = connection.execute(
            "SELECT DISTINCT v.text_hash, v.row FROM vectors v JOIN chunks c ON c.vector = v.row"
            " WHERE v.embedder = ? AND c.live = 1",
            (row.key,),
        ).fetchall()
        hashes = [key for (key,) in connection.execute("SELECT text_hash FROM vectors")]
    data = (path / row.file).read_bytes()[HEADER_BYTES:] if (path / row.file).exists() else b""
    matrix = np.frombuffer(data[: len(data) // 1536 * 1536], "<f4").reshape(-1, 384)
    kept = KeptVectors(path, MiniLM().fingerprint, 384).find(hashes)
    return {key: matrix[place].tobytes() for key, place in rows}, {key: row.tobytes() for key, row in kept.items()}


def answers(kb: KnowledgeBase, seed: int) -> list[tuple[str, float]]:
    """Chunks and scores of a question."""
    return [(hit.chunk.id, hit.score) for hit in kb.search(question(random.Random(seed)), 8)]


def fill_all(path: Path) -> None:
    """As `ragkit index` after it has published. Waits if another process writes."""
    with KnowledgeBase.open(path) as kb:
        while True:
            with suppress(KnowledgeBaseLocked):
                kb.embed_remaining()
                return


def search_often(path: Path, seed: int) -> None:
    """Searches that embed their candidates."""
    chance = random.Random(seed)
    with KnowledgeBase.open(path) as kb:
        for _ in range(40):
            kb.search(question(chance), 3)


def search_once(path: Path, seed: int) -> None:
    """A search, which must find the notes."""
    with KnowledgeBase.open(path) as kb:
        assert len(kb.search(question(random.Random(seed)), 3)) == 3


def run_server(path: Path, port: int) -> None:
    """A server, which embeds while it is idle."""
    ragkit_main(["--kb", str(path), "serve", "--port", str(port)])


def processor_delay(process: int) -> float:
    """Seconds in which its main thread waited for a processor (proc(5), schedstat)."""
    try:
        return int(Path(f"/proc/{process}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


def fork(work: Callable[[], None], log: Path = Path(os.devnull)) -> int:
    """Do something in another process, with its errors in `log`; it ends with 1 after an error."""
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        for number, path in ((1, Path(os.devnull)), (2, log)):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
        faulthandler.enable(2)
        work()
        code = 0
    except BaseException:  # noqa: BLE001 - its parent reads the exit code
        traceback.print_exc()
    finally:
        os._exit(code)


def main(place: str, count: str, seed: str) -> None:
    """Print the report as JSON."""
    replace_model()
    trials = Trials(Path(place), int(seed))
    trials.build()
    for number in range(int(count)):
        trials.kill(KINDS[number % len(KINDS)])
    trials.end()
    sys.stdout.write(json.dumps(vars(trials.report)))


if __name__ == "__main__":
    main(*sys.argv[1:])
