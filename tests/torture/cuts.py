"""Power cuts by two methods.

`forgetful`: the knowledge base lies on a file system of ours (`forgetful.py`) that drops what was never synced: the
harshest reading of what a disk may do. `image`: it lies on a real ext4 in an image file on XFS; at the cut the image is
copied in one moment (a reflink), and the copy is mounted: what a real journal makes of it.

The cut comes at a random moment of a run, or up to a second after it said that it was done: then all of it must be
there.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.torture.bench import Bench, Operation, Outcome, copy_tree, seeds
from tests.torture.forks import Running, Said

CUT_OPERATIONS = ("update", "update", "update", "build", "rebuild", "remove")
LATE = 0.2
"""Share of the cuts that come after the run has ended."""


class Forgetting:
    """Power failures on the file system that loses unsynced writes."""

    name = "power cut (unsynced lost)"

    def keys(self, bench: Bench, count: int, chance: random.Random) -> Iterator[str]:
        """A seed each."""
        return seeds(count, chance)

    def trial(self, bench: Bench, key: str) -> Outcome:
        """One cut."""
        chance = random.Random(key)
        operation, seconds = _ready(bench, chance)
        left = bench.root / "left"
        shutil.rmtree(left, ignore_errors=True)
        done = bench.root / "left.done"
        done.unlink(missing_ok=True)
        source = bench.root / "under"
        shutil.rmtree(source, ignore_errors=True)
        if bench.kb.exists():
            bench.kb.rename(source)
        bench.kb.mkdir(mode=0o700)
        strict = chance.random() < 0.5
        server = _serving(bench, source, left, strict=strict)
        try:
            ended = _until_cut(bench, operation, seconds, (bench.kb / f".cut-{key}").mkdir, chance)
        finally:
            subprocess.run(["umount", "-l", str(bench.kb)], check=True, capture_output=True)
            server.wait(20)
        if not done.exists():
            raise RuntimeError("the file system that forgets did not write what was left")
        shutil.rmtree(bench.kb)
        left.rename(bench.kb)
        return _judged(bench, operation, ended)


class Imaging:
    """Cuts on a real ext4, whose image is copied in one moment."""

    name = "power cut (ext4 image)"

    def keys(self, bench: Bench, count: int, chance: random.Random) -> Iterator[str]:
        """A seed each."""
        return seeds(count, chance)

    def trial(self, bench: Bench, key: str) -> Outcome:
        """One cut."""
        chance = random.Random(key)
        operation, seconds = _ready(bench, chance)
        disk = Disk.of(bench)
        disk.fill(bench.kb)
        shutil.rmtree(bench.kb, ignore_errors=True)
        bench.kb.symlink_to(disk.kb)
        try:
            ended = _until_cut(bench, operation, seconds, disk.cut, chance)
        finally:
            bench.kb.unlink()
        disk.restore(bench.kb)
        return _judged(bench, operation, ended)


class Disk:
    """An ext4 in an image on an XFS in an image; made once for a workplace, and unmounted when its process ends."""

    def __init__(self, root: Path) -> None:
        self._outer, self._inner, self._after = root / "xfs", root / "ext4", root / "after"
        for place in (self._outer, self._inner, self._after):
            place.mkdir()
        below = root / "xfs.img"
        _sparse(below, 3 << 30)
        _do("mkfs.xfs", "-q", "-m", "reflink=1", str(below))
        _do("mount", "-o", "loop", str(below), str(self._outer))
        self._image, self._copy = self._outer / "disk.img", self._outer / "copy.img"
        _sparse(self._image, 1 << 30)
        _do("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1", str(self._image))
        _do("mount", "-o", "loop", str(self._image), str(self._inner))
        self.kb = self._inner / "kb"

    @staticmethod
    def of(bench: Bench) -> Disk:
        """The disk of this workplace."""
        if not isinstance(bench.disk, Disk):
            bench.disk = Disk(bench.root)
            bench.at_end(bench.disk.close)
        return bench.disk

    def fill(self, kb: Path) -> None:
        """Start with this knowledge base, completely synced."""
        shutil.rmtree(self.kb, ignore_errors=True)
        if kb.exists():
            copy_tree(kb, self.kb)
        else:
            self.kb.mkdir()
        _do("sync", "-f", str(self._inner))

    def cut(self) -> None:
        """Take a snapshot of the disk."""
        _do("cp", "--reflink=always", str(self._image), str(self._copy))

    def restore(self, kb: Path) -> None:
        """Mount the copy, which replays its journal, and fetch the knowledge base."""
        _do("mount", "-o", "loop", str(self._copy), str(self._after))
        try:
            copy_tree(self._after / "kb", kb)
        finally:
            _do("umount", str(self._after))
            self._copy.unlink()

    def close(self) -> None:
        """Unmount."""
        for place in (self._inner, self._outer):
            subprocess.run(["umount", str(place)], check=False, capture_output=True)


def _ready(bench: Bench, chance: random.Random) -> tuple[Operation, float]:
    name = chance.choice(CUT_OPERATIONS)
    span = bench.span(name)
    bench.begin()
    operation = bench.operation(name, chance)
    # a file system in Python, or one in two images, is slower than memory
    return operation, span * chance.uniform(0, 2.5)


def _until_cut(
    bench: Bench, operation: Operation, seconds: float, cut: Callable[[], object], chance: random.Random
) -> Said | None:
    """Run, cut, kill; returns the output of a run that ended before the cut."""
    victim: Running = bench.start(operation)
    if chance.random() < LATE:
        victim.ended(60)
        time.sleep(chance.uniform(0, 1))
    else:
        victim.ended(seconds)
    ended = victim.wait() if victim.ended(0) else None
    cut()
    victim.kill()
    victim.wait()
    return ended


def _judged(bench: Bench, operation: Operation, ended: Said | None) -> Outcome:
    oracle = bench.oracle()
    if ended is not None and ended.code != 0:
        oracle.fault("closed", f"the run that was to be cut failed: {ended.short()}")
    if ended is not None and ended.code == 0:
        # the run reported success
        oracle.whole([operation.states[-1]])
        oracle.mended(operation.after)
    else:
        bench.judge(operation, oracle)
    return Outcome(tuple(oracle.faults), reached=True)


def _serving(bench: Bench, source: Path, left: Path, *, strict: bool) -> Running:
    """Mount the file system that loses unsynced writes at the knowledge base."""
    mount = bench.kb

    def work() -> int:
        from tests.torture.forgetful import serve

        serve(source, mount, left, strict=strict)
        return 0

    server = bench.commands.call(work, ["forgetful"])
    device = bench.root.stat().st_dev
    until = time.monotonic() + 30
    while mount.stat().st_dev == device:
        if server.ended(0.005) or time.monotonic() > until:
            raise RuntimeError(f"the file system that forgets cannot be mounted: {server.wait().err[-600:]}")
    return server


def _sparse(path: Path, size: int) -> None:
    with path.open("wb") as stream:
        os.truncate(stream.fileno(), size)


def _do(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
