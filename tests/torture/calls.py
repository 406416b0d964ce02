"""Every system call by which a command writes to the disk: killed at it, or told that the disk is full or broken.

`strace` counts the calls of an undisturbed run first. Then the same run is done once for each of them: killed before
the call, or with the call failing once (EIO, ENOSPC) or from there on (ENOSPC+: a disk that stays full).
"""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from ragkit.index.rebuild import REBUILD_FOLDER
from tests.torture.bench import Bench, Operation, Outcome
from tests.torture.forks import Running
from tests.torture.oracle import Oracle

SYNCS = ("fsync", "fdatasync", "msync", "sync_file_range")
WRITES = ("write", "pwrite64", "writev", "pwritev", "pwritev2", "copy_file_range", "sendfile", "ftruncate", "fallocate")
NAMES = ("rename", "renameat", "renameat2", "unlink", "unlinkat", "link", "linkat", "mkdir", "mkdirat", "rmdir")
CREATES = ("openat",)
CALLS = (*SYNCS, *WRITES, *NAMES, *CREATES)
BREAKS = ("KILL", "EIO", "ENOSPC", "ENOSPC+")
BROKEN = ("update", "build", "repair", "rebuild", "remove")
FEW = 20
_LINE = re.compile(r"^(\d+)\s+(\w+)\((.*)$")


class Calls:
    """Every disk-writing system call of five commands; `breaks` says what happens at them."""

    def __init__(self, name: str, breaks: Sequence[str]) -> None:
        self.name = name
        self._breaks = breaks
        self._points: dict[tuple[str, str], list[str]] = {}

    def keys(self, bench: Bench, count: int, chance: random.Random) -> Iterator[str]:
        """`update.pwrite64.17.KILL`: command, call, which one of that name in its thread, what happens."""
        # a few trials are of one or two commands: to count the calls of one takes as long as a trial
        names = BROKEN if count > FEW else chance.sample(BROKEN, 1 + count // FEW)
        points = [point for name in names for point in self._points_of(bench, name)]
        found = [f"{point}.{how}" for point in points for how in self._breaks if _makes_sense(point, how)]
        chance.shuffle(found)
        yield from found[:count]

    def trial(self, bench: Bench, key: str) -> Outcome:
        """Run the command with one failing system call."""
        name, call, number, how = key.split(".")
        operation = _ready(bench, name)
        victim = bench.start(operation, held=True)
        after = f"{number}+" if how.endswith("+") else number
        what = "signal=KILL" if how == "KILL" else f"error={how.rstrip('+')}"
        log = _traced(bench, victim, ["-e", f"trace={call}", "-e", f"inject={call}:{what}:when={after}"])
        said = victim.wait()
        text = log()
        reached = said.code == -9 if how == "KILL" else _touches(_injected(text), bench.kb)
        oracle = bench.oracle()
        if not reached:
            # it came too late, or met another thread at something else than the knowledge base
            return Outcome(reached=False)
        if how != "KILL":
            if (call, how) != ("write", "ENOSPC+"):  # which takes from it the words, too
                oracle.manners(said)
            if said.code == 0 and call in SYNCS and _matters(text, bench.kb):
                oracle.fault("wrong", f"said done though {call} had failed: {_injected(text)}")
        self._judge(bench, operation, said.code, oracle)
        return Outcome(tuple(oracle.faults), reached)

    def _judge(self, bench: Bench, operation: Operation, code: int | None, oracle: Oracle) -> None:
        if code == 0 and operation.name in {"update", "build"}:
            oracle.whole([operation.after])
            oracle.mended(operation.after)
        else:
            bench.judge(operation, oracle)

    def _points_of(self, bench: Bench, name: str) -> list[str]:
        if (bench.store, name) not in self._points:
            operation = _ready(bench, name)
            victim = bench.start(operation, held=True)
            log = _traced(bench, victim, ["-e", f"trace={','.join(CALLS)}"])
            said = victim.wait()
            if said.code != 0:
                raise RuntimeError(f"{said.short()} under strace")
            self._points[bench.store, name] = [f"{name}.{point}" for point in _numbered(log(), bench.kb)]
        return self._points[bench.store, name]


def _ready(bench: Bench, name: str) -> Operation:
    """A fixed change, so that system calls occur in the same order."""
    bench.begin()
    return bench.operation(name, random.Random(7))


def _makes_sense(point: str, how: str) -> bool:
    """Calls that fail on a full disk."""
    call = point.split(".")[1]
    return not how.startswith("ENOSPC") or call in {*WRITES, *CREATES, "mkdir", "mkdirat", "rename", "fdatasync"}


def _numbered(log: str, kb: Path) -> list[str]:
    """The calls that touch the knowledge base: `pwrite64.17`, counted as strace counts them, by thread and call."""
    count: Counter[tuple[str, str]] = Counter()
    found: dict[str, None] = {}
    for line in log.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        thread, call, rest = match.groups()
        count[thread, call] += 1
        if _touches(rest, kb) and (call not in CREATES or "O_CREAT" in rest):
            found[f"{call}.{count[thread, call]}"] = None
    return list(found)


def _touches(call: str, kb: Path) -> bool:
    return f"{kb}/" in call or f"{kb}>" in call or f'{kb}"' in call or '"kb/' in call or '"kb"' in call


class _Log:
    """The output of strace, complete after its exit."""

    def __init__(self, tracer: subprocess.Popen[bytes], path: Path) -> None:
        self._tracer, self._path = tracer, path

    def __call__(self) -> str:
        self._tracer.wait(30)
        text = self._path.read_text(errors="replace")
        self._path.unlink()
        return text


def _traced(bench: Bench, victim: Running, options: Sequence[str]) -> _Log:
    """Have strace watch a command that is held back, then let it begin."""
    path = bench.commands.scratch / f"strace-{victim.pid}"
    strace = shutil.which("strace")
    if strace is None:
        raise RuntimeError("strace is not installed (Debian: apt-get install strace)")
    tracer = subprocess.Popen(
        [strace, "-f", "-qq", "-y", "-s", "64", "-o", str(path), *options, "-p", str(victim.pid)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    status = Path(f"/proc/{victim.pid}/status")
    until = time.monotonic() + 30
    while "TracerPid:\t0\n" in status.read_text():
        if tracer.poll() is not None or time.monotonic() > until:
            said = tracer.stderr.read().decode() if tracer.stderr else ""
            victim.kill()
            raise RuntimeError(f"strace cannot watch a process here: {said}")
        time.sleep(0.001)
    victim.release()
    return _Log(tracer, path)


def _injected(log: str) -> str:
    return next((line for line in log.splitlines() if "(INJECTED)" in line), "")


def _matters(log: str, kb: Path) -> bool:
    """Whether the file that could not be synced must be: SQLite goes on when a directory cannot, and a vector store's
    own files are synced again, by us, before they are trusted."""
    line = _injected(log)
    return f"{kb}/" in line and f"{kb}/{REBUILD_FOLDER}>" not in line and "/store-" not in line
