"""Concurrency: two to eight writers on one knowledge base, and readers during writes.

A writer does its work, or says in one line that another is at work. A reader finds every file in one edition, the same
for all of them: each chunk names its edition, so that what is compared was read in one search. Half of the readers are
new commands each time, the others one open knowledge base.
"""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Iterator
from functools import partial

from tests.torture.bench import Bench, Outcome, seeds
from tests.torture.folder import FILES, changed, edition, write_files
from tests.torture.forks import Running
from tests.torture.oracle import Oracle

ROUNDS = 5
"""Editions written while readers search."""
_EDITION = re.compile(r"edition(\d+)")


class Writers:
    """Two to eight concurrent index runs; occasionally one is killed."""

    name = "2 to 8 writers"

    def keys(self, bench: Bench, count: int, chance: random.Random) -> Iterator[str]:
        """A seed each."""
        return seeds(count, chance)

    def trial(self, bench: Bench, key: str) -> Outcome:
        """One crowd."""
        chance = random.Random(key)
        bench.begin()
        after = changed(bench.files, chance)
        listed = bench.fresh.listed(after)
        oracle = bench.oracle()
        running = []
        for _ in range(chance.randint(2, 8)):
            running.append(bench.commands.start("index", "docs", "-q", *bench.place))
            time.sleep(chance.choice([0, 0, 0.02, 0.1]))
        victim = chance.choice(running) if chance.random() < 0.3 else None
        if victim is not None and not victim.ended(chance.uniform(0, 0.3)):
            victim.kill()
        for one in running:
            said = one.wait()
            if said.code == -9 and one is victim:
                continue
            oracle.manners(said)
            if said.code != 0 and "is locked by" not in said.err:
                oracle.fault("closed", said.short())
        oracle.whole([bench.listed, listed])
        oracle.mended(listed)
        return Outcome(tuple(oracle.faults))


class Readers:
    """Readers while a writer indexes several editions: five of them, or for a number of seconds."""

    def __init__(self, name: str, readers: int, seconds: float) -> None:
        self.name = name
        self._readers, self._seconds = readers, seconds

    def keys(self, bench: Bench, count: int, chance: random.Random) -> Iterator[str]:
        """A seed each."""
        return seeds(count, chance)

    def trial(self, bench: Bench, key: str) -> Outcome:
        """One writer."""
        chance = random.Random(key)
        bench.begin()
        oracle = bench.oracle()
        stop = bench.root / "stop"
        stop.unlink(missing_ok=True)
        readers = [
            bench.commands.call(partial(_read, bench, stay=number % 2 == 0), [f"reader {number}"])
            for number in range(self._readers)
        ]
        numbers = [0]
        until = time.monotonic() + self._seconds
        while len(numbers) <= ROUNDS or time.monotonic() < until:
            numbers.append(chance.randrange(1, 10**6))
            write_files(bench.docs, edition(numbers[-1]))
            said = oracle.run("index", "docs", "-q")
            if said.code != 0:
                oracle.fault("closed", said.short())
        stop.touch()
        for reader in readers:
            _heard(oracle, reader, numbers)
        oracle.mended(bench.fresh.listed(edition(numbers[-1])))
        return Outcome(tuple(oracle.faults))


def _heard(oracle: Oracle, reader: Running, numbers: list[int]) -> None:
    """Check a reader's output: lines of `editions files`, or an error."""
    said = reader.wait()
    if said.code is None:
        oracle.fault("hung", said.short())
        return
    if said.code != 0:
        oracle.fault("closed", said.short())
    for line in said.out.splitlines():
        seen, _, files = line.partition(" ")
        if seen == "error":
            oracle.fault("closed", f"a reader was told: {files}")
        elif "," in seen or int(seen or -1) not in numbers:
            oracle.fault("wrong", f"one search saw the editions {seen or 'none'}")
        elif int(files) != FILES:
            oracle.fault("empty", f"one search saw {files} of {FILES} files")


def _read(bench: Bench, *, stay: bool) -> int:
    """Search until stopped; prints one line per search. Runs in a separate process."""
    from ragkit import KnowledgeBase
    from ragkit.errors import RagkitError

    kb = KnowledgeBase.open("kb", "kb.yaml")
    while not (bench.root / "stop").exists():
        if not stay:
            kb.close()
            kb = KnowledgeBase.open("kb", "kb.yaml")
        try:
            texts = [hit.chunk.text for hit in kb.search("canary part", 500, mode="dense")]
        except RagkitError as error:
            os.write(1, f"error {error}\n".encode())
            continue
        seen = {number for text in texts for number in _EDITION.findall(text)}
        files = {text.split()[1] for text in texts if text.startswith("Canary")}
        os.write(1, f"{','.join(sorted(seen))} {len(files)}\n".encode())
    kb.close()
    return 0
