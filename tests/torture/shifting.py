"""Source files that change, grow, disappear or are replaced while an index run reads them.

A file that is replaced atomically (by a rename) during the run must be listed completely in one of its versions. After
the changes, one run must give the result of a fresh build.
"""

from __future__ import annotations

import json
import os
import random
import re
import time
from collections.abc import Iterator

from tests.torture.bench import Bench, TrialResult, seeds
from tests.torture.folder import Files, edition_files, text_of, write_files
from tests.torture.forks import RunningCommand
from tests.torture.oracle import Oracle

FIRST = 1_000_000
"""The first edition of changes during the run."""
_PARAGRAPH = re.compile(r"Canary \S+ (edition\d+) ")
"""The start of a paragraph; a truncated file may end within the number of its edition."""


class ChangingFiles:
    """A folder that changes during a run."""

    name = "files that change while read"

    def keys(self, bench: Bench, count: int, chance: random.Random) -> Iterator[str]:
        """A seed each."""
        return seeds(count, chance)

    def trial(self, bench: Bench, key: str) -> TrialResult:
        """Run `index` during changes."""
        chance = random.Random(key)
        bench.reset()
        write_files(bench.docs, edition_files(chance.randrange(1, 1000)))
        oracle = bench.oracle()
        victim = bench.commands.start("index", "docs", "-q", *bench.kb_options)
        _change_files(bench, victim, chance)
        result = victim.wait()
        if result.code is None:
            oracle.fault("hung", result.summary())
        elif "Traceback" in result.err or result.code not in {0, 7}:
            oracle.fault("unclear" if "Traceback" in result.err else "closed", result.summary())
        _check_versions(oracle)
        files = {path.name: path.read_bytes() for path in sorted(bench.docs.iterdir())}
        stats = {path.name: path.stat() for path in bench.docs.iterdir()}
        oracle.check_next_run(_fresh(bench, files))
        if stats != {path.name: path.stat() for path in bench.docs.iterdir()}:
            raise RuntimeError("the folder changed during the check")
        return TrialResult(tuple(oracle.faults))


def _fresh(bench: Bench, files: Files) -> tuple[str, ...]:
    return bench.fresh_builds.listing(files)


def _change_files(bench: Bench, victim: RunningCommand, chance: random.Random) -> None:
    """Change files as fast as possible until the run ends; each change is atomic."""
    number = FIRST
    names = sorted(path.name for path in bench.docs.iterdir())
    while not victim.has_ended(0):
        number += 1
        name = chance.choice(names)
        path, new = bench.docs / name, bench.root / "new.txt"
        way = chance.choice(["replaced", "replaced", "gone", "longer", "cut"])
        if way == "replaced":
            new.write_text(text_of(name, number))
            before = path.stat() if path.exists() and chance.random() < 0.5 else None
            if before is not None:  # like a copy that preserves times
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


def _check_versions(oracle: Oracle) -> None:
    """No document mixes the paragraphs of two versions of its file."""
    listed = oracle.run("list", "--chunks", "--json")
    if listed.code != 0:
        oracle.fault("closed", listed.summary())
        return
    seen: dict[str, set[str]] = {}
    for row in map(json.loads, listed.out.splitlines()):
        for line in row["text"].splitlines():
            if result := _PARAGRAPH.match(line):
                seen.setdefault(row["source"], set()).add(result[1])
    for source, editions in seen.items():
        if len(editions) > 1:
            oracle.fault("wrong", f"{source} is listed with {sorted(editions)} in one document")
