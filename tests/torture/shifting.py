"""Source files that change, grow, disappear or are replaced while an index run reads them.

During the run, a file that is replaced in one step (a rename) must be listed in one of its versions, whole. After it,
when the folder has come to rest, one run must bring everything to what a fresh build makes.
"""

from __future__ import annotations

import json
import os
import random
import re
import time
from collections.abc import Iterator

from tests.torture.bench import Bench, Outcome, seeds
from tests.torture.folder import Files, edition, text_of, write_files
from tests.torture.forks import Running
from tests.torture.oracle import Oracle

FIRST = 1_000_000
"""Editions from here on are those of the changes during the run."""
_PARAGRAPH = re.compile(r"Canary \S+ (edition\d+) ")
"""The beginning of a paragraph; a file that was cut may end before the number of its edition does."""


class Shifting:
    """A folder that changes during a run."""

    name = "files that change while read"

    def keys(self, bench: Bench, count: int, chance: random.Random) -> Iterator[str]:
        """A seed each."""
        return seeds(count, chance)

    def trial(self, bench: Bench, key: str) -> Outcome:
        """One run over it."""
        chance = random.Random(key)
        bench.begin()
        write_files(bench.docs, edition(chance.randrange(1, 1000)))
        oracle = bench.oracle()
        victim = bench.commands.start("index", "docs", "-q", *bench.place)
        _disturb(bench, victim, chance)
        said = victim.wait()
        if said.code is None:
            oracle.fault("hung", said.short())
        elif "Traceback" in said.err or said.code not in {0, 7}:
            oracle.fault("unclear" if "Traceback" in said.err else "closed", said.short())
        _one_version_each(oracle)
        files = {path.name: path.read_text() for path in sorted(bench.docs.iterdir())}
        stats = {path.name: path.stat() for path in bench.docs.iterdir()}
        oracle.mended(_fresh(bench, files))
        if stats != {path.name: path.stat() for path in bench.docs.iterdir()}:
            raise RuntimeError("the folder changed under the check")
        return Outcome(tuple(oracle.faults))


def _fresh(bench: Bench, files: Files) -> tuple[str, ...]:
    return bench.fresh.listed(files)


def _disturb(bench: Bench, victim: Running, chance: random.Random) -> None:
    """Change files as fast as possible until the run ends; each change is atomic."""
    number = FIRST
    names = sorted(path.name for path in bench.docs.iterdir())
    while not victim.ended(0):
        number += 1
        name = chance.choice(names)
        path, new = bench.docs / name, bench.root / "new.txt"
        way = chance.choice(["replaced", "replaced", "gone", "longer", "cut"])
        if way == "replaced":
            new.write_text(text_of(name, number))
            before = path.stat() if path.exists() and chance.random() < 0.5 else None
            if before is not None:  # as a copy that keeps times does
                os.utime(new, ns=(before.st_atime_ns, before.st_mtime_ns))
            new.rename(path)
        elif way == "gone":
            path.unlink(missing_ok=True)
        elif path.exists():
            with path.open("r+") as stream:
                stream.seek(0, os.SEEK_END)
                if way == "longer":
                    stream.write(f"A later line of edition{number}.\n")
                else:
                    stream.truncate(stream.tell() // 2)
        time.sleep(chance.choice([0, 0, 0.001, 0.005]))


def _one_version_each(oracle: Oracle) -> None:
    """No document mixes the paragraphs of two versions of its file."""
    listed = oracle.run("list", "--chunks", "--json")
    if listed.code != 0:
        oracle.fault("closed", listed.short())
        return
    seen: dict[str, set[str]] = {}
    for row in map(json.loads, listed.out.splitlines()):
        for line in row["text"].splitlines():
            if found := _PARAGRAPH.match(line):
                seen.setdefault(row["source"], set()).add(found[1])
    for source, editions in seen.items():
        if len(editions) > 1:
            oracle.fault("wrong", f"{source} is listed with {sorted(editions)} in one document")
