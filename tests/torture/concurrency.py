"""Concurrency: two to eight writers on one knowledge base, and readers during writes.

A writer completes, or fails with a one-line lock error. A reader finds every file, all in the same edition: each chunk
names its edition, so that one search is checked alone. Half of the readers reopen the knowledge base for each search.
"""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Iterator
from functools import partial

from tests.torture.bench import Bench, TrialResult, seeds
from tests.torture.folder import FILES, edition_files, write_files
from tests.torture.forks import RunningCommand
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

    def trial(self, bench: Bench, key: str) -> TrialResult:
        """Run several writers."""
        chance = random.Random(key)
        bench.reset()
        after = bench.subject.folder.change(bench.files, chance)
        listed = bench.fresh_builds.listing(after)
        oracle = bench.oracle()
        running: list[RunningCommand] = []
        for _ in range(chance.randint(2, 8)):
            running.append(bench.commands.start(*bench.subject.index, *bench.kb_options))
            time.sleep(chance.choice([0, 0, 0.02, 0.1]))
        victim = chance.choice(running) if chance.random() < 0.3 else None
        if victim is not None and not victim.has_ended(chance.uniform(0, 0.3)):
            victim.kill()
        for item in running:
            result = item.wait()
            if result.code == -9 and item is victim:
                continue
            oracle.check_output(result)
            if result.code != 0 and "is locked by" not in result.err:
                oracle.fault("closed", result.summary())
        oracle.check_state([bench.listing, listed])
        oracle.check_next_run(listed)
        return TrialResult(tuple(oracle.faults))


class Readers:
    """Readers while writers index several editions."""

    def __init__(self, name: str, readers: int, seconds: float, writers: int = 1, pause: float = 0.0) -> None:
        """`pause`: seconds between two searches of a reader, which leave processor time to the writers."""
        self.name = name
        self.seconds = seconds
        self._readers, self._writers, self._pause = readers, writers, pause

    def keys(self, bench: Bench, count: int, chance: random.Random) -> Iterator[str]:
        """A seed each."""
        return seeds(count, chance)

    def trial(self, bench: Bench, key: str) -> TrialResult:
        """Run the writers and the readers."""
        chance = random.Random(key)
        bench.reset()
        oracle = bench.oracle()
        stop = bench.root / "stop"
        stop.unlink(missing_ok=True)
        readers = [
            bench.commands.call(partial(_read, bench, self._pause, stay=number % 2 == 0), [f"reader {number}"])
            for number in range(self._readers)
        ]
        numbers = [0]
        deadline = time.monotonic() + self.seconds
        while len(numbers) <= ROUNDS or time.monotonic() < deadline:
            numbers.append(chance.randrange(1, 10**6))
            write_files(bench.docs, edition_files(numbers[-1]))
            self._write(bench, oracle)
        stop.touch()
        for reader in readers:
            _check_reader(oracle, reader, numbers)
        oracle.check_next_run(bench.fresh_builds.listing(edition_files(numbers[-1])))
        return TrialResult(tuple(oracle.faults))

    def _write(self, bench: Bench, oracle: Oracle) -> None:
        """Index an edition. Of several writers one completes, and the others complete or are told that it is locked."""
        running = [bench.commands.start(*bench.subject.index, *bench.kb_options) for _ in range(self._writers)]
        results = [command.wait() for command in running]
        for result in results:
            oracle.check_output(result)
            if result.code != 0 and (self._writers == 1 or "is locked by" not in result.err):
                oracle.fault("closed", result.summary())
        if all(result.code != 0 for result in results):
            oracle.fault("closed", "no writer completed")


def _check_reader(oracle: Oracle, reader: RunningCommand, numbers: list[int]) -> None:
    """Check a reader's output: lines of `editions files`, or an error."""
    result = reader.wait()
    if result.code is None:
        oracle.fault("hung", result.summary())
        return
    if result.code != 0:
        oracle.fault("closed", result.summary())
    for line in result.out.splitlines():
        seen, _, files = line.partition(" ")
        if seen == "error":
            oracle.fault("closed", f"a reader failed: {files}")
        elif "," in seen or int(seen or -1) not in numbers:
            oracle.fault("wrong", f"one search saw the editions {seen or 'none'}")
        elif int(files) != FILES:
            oracle.fault("empty", f"one search saw {files} of {FILES} files")


def _read(bench: Bench, pause: float, *, stay: bool) -> int:
    """Search until stopped; prints one line per search. Runs in a separate process."""
    from ragkit import KnowledgeBase
    from ragkit.errors import RagkitError

    kb = KnowledgeBase.open("kb", "kb.yaml")
    while not (bench.root / "stop").exists():
        time.sleep(pause)
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
