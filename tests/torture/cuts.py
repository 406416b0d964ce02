"""Power cuts by two methods.

`unsynced`: the knowledge base is on a test file system (`unsynced_filesystem.py`) that drops unsynced data: the worst
case that a disk permits. `image`: it is on ext4 in an image file on XFS; at the cut, the image is copied atomically (a
reflink) and the copy is mounted: the effect of a real journal.

The cut comes at a random moment of a run, or up to a second after it reported success: then nothing may be missing.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.torture.bench import Bench, Operation, TrialResult, copy_tree, seeds
from tests.torture.forks import CommandResult, RunningCommand

CUT_OPERATIONS = ("update", "update", "update", "build", "rebuild", "remove")
LATE = 0.2
"""Share of the cuts that come after the run has ended."""


class UnsyncedPowerCuts:
    """Power failures on the file system that loses unsynced writes."""

    name = "power cut (unsynced lost)"

    def keys(self, bench: Bench, count: int, chance: random.Random) -> Iterator[str]:
        """A seed each."""
        return seeds(count, chance)

    def trial(self, bench: Bench, key: str) -> TrialResult:
        """Cut the power once."""
        chance = random.Random(key)
        operation, seconds = _prepare(bench, chance)
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
        server = _mount(bench, source, left, strict=strict)
        try:
            ended = _until_cut(bench, operation, seconds, (bench.kb / f".cut-{key}").mkdir, chance)
        finally:
            subprocess.run(["umount", "-l", str(bench.kb)], check=True, capture_output=True)
            server.wait(20)
        if not done.exists():
            raise RuntimeError("the test file system did not write the remaining data")
        shutil.rmtree(bench.kb)
        left.rename(bench.kb)
        return _check(bench, operation, ended)


class ImagePowerCuts:
    """Power failures on ext4, by an atomic copy of its image."""

    name = "power cut (ext4 image)"

    def keys(self, bench: Bench, count: int, chance: random.Random) -> Iterator[str]:
        """A seed each."""
        return seeds(count, chance)

    def trial(self, bench: Bench, key: str) -> TrialResult:
        """Cut the power once."""
        chance = random.Random(key)
        operation, seconds = _prepare(bench, chance)
        disk = Disk.of(bench)
        disk.fill(bench.kb)
        shutil.rmtree(bench.kb, ignore_errors=True)
        bench.kb.symlink_to(disk.kb)
        try:
            ended = _until_cut(bench, operation, seconds, disk.cut, chance)
        finally:
            bench.kb.unlink()
        disk.restore(bench.kb)
        return _check(bench, operation, ended)


class Disk:
    """An ext4 image on an XFS image; created once per bench, unmounted when its process ends."""

    def __init__(self, root: Path) -> None:
        self._outer, self._inner, self._after = root / "xfs", root / "ext4", root / "after"
        for place in (self._outer, self._inner, self._after):
            place.mkdir()
        below = root / "xfs.img"
        _create_sparse_file(below, 3 << 30)
        _run_command("mkfs.xfs", "-q", "-m", "reflink=1", str(below))
        _run_command("mount", "-o", "loop", str(below), str(self._outer))
        self._image, self._copy = self._outer / "disk.img", self._outer / "copy.img"
        _create_sparse_file(self._image, 1 << 30)
        _run_command("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1", str(self._image))
        _run_command("mount", "-o", "loop", str(self._image), str(self._inner))
        self.kb = self._inner / "kb"

    @staticmethod
    def of(bench: Bench) -> Disk:
        """The disk of this bench."""
        if not isinstance(bench.disk, Disk):
            bench.disk = Disk(bench.root)
            bench.add_cleanup(bench.disk.close)
        return bench.disk

    def fill(self, kb: Path) -> None:
        """Start with this knowledge base, completely synced."""
        shutil.rmtree(self.kb, ignore_errors=True)
        if kb.exists():
            copy_tree(kb, self.kb)
        else:
            self.kb.mkdir()
        _run_command("sync", "-f", str(self._inner))

    def cut(self) -> None:
        """Take a snapshot of the disk."""
        _run_command("cp", "--reflink=always", str(self._image), str(self._copy))

    def restore(self, kb: Path) -> None:
        """Mount the copy, which replays its journal, and fetch the knowledge base."""
        _run_command("mount", "-o", "loop", str(self._copy), str(self._after))
        try:
            copy_tree(self._after / "kb", kb)
        finally:
            _run_command("umount", str(self._after))
            self._copy.unlink()

    def close(self) -> None:
        """Unmount."""
        for place in (self._inner, self._outer):
            subprocess.run(["umount", str(place)], check=False, capture_output=True)


def _prepare(bench: Bench, chance: random.Random) -> tuple[Operation, float]:
    name = chance.choice([name for name in CUT_OPERATIONS if name in bench.subject.operations])
    span = bench.duration(name)
    bench.reset()
    operation = bench.operation(name, chance)
    # these file systems are slower than memory
    return operation, span * chance.uniform(0, 2.5)


def _until_cut(
    bench: Bench, operation: Operation, seconds: float, cut: Callable[[], object], chance: random.Random
) -> CommandResult | None:
    """Run, cut, kill. Returns the result of a run that ended before the cut."""
    victim: RunningCommand = bench.start(operation)
    if chance.random() < LATE:
        victim.has_ended(60)
        time.sleep(chance.uniform(0, 1))
    else:
        victim.has_ended(seconds)
    ended = victim.wait() if victim.has_ended(0) else None
    cut()
    victim.kill()
    victim.wait()
    return ended


def _check(bench: Bench, operation: Operation, ended: CommandResult | None) -> TrialResult:
    oracle = bench.oracle()
    if ended is not None and ended.code != 0:
        oracle.fault("closed", f"the run failed before the cut: {ended.summary()}")
    if ended is not None and ended.code == 0:
        # the run reported success
        oracle.check_state([operation.states[-1]])
        oracle.check_next_run(operation.after)
    else:
        bench.check(operation, oracle)
    return TrialResult(tuple(oracle.faults), reached=True)


def _mount(bench: Bench, source: Path, left: Path, *, strict: bool) -> RunningCommand:
    """Mount the file system that loses unsynced writes at the knowledge base."""
    mount = bench.kb

    def work() -> int:
        from tests.torture.unsynced_filesystem import serve

        serve(source, mount, left, strict=strict)
        return 0

    server = bench.commands.call(work, ["unsynced"])
    device = bench.root.stat().st_dev
    deadline = time.monotonic() + 30
    while mount.stat().st_dev == device:
        if server.has_ended(0.005) or time.monotonic() > deadline:
            raise RuntimeError(f"the test file system cannot be mounted: {server.wait().err[-600:]}")
    return server


def _create_sparse_file(path: Path, size: int) -> None:
    with path.open("wb") as stream:
        os.truncate(stream.fileno(), size)


def _run_command(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
