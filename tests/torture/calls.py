"""Failures at every system call by which a command writes to the disk: a kill, a full disk or an I/O error.

`strace` first counts the calls of an uninterrupted run. Then the run is repeated for each call: killed before the call,
or the call fails once (EIO, ENOSPC) or from then on (ENOSPC+: the disk stays full).
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

from ragkit.cli import EXIT_PARTIAL_FAILURE
from ragkit.index.rebuild import REBUILD_FOLDER
from tests.torture.bench import Bench, Operation, TrialResult
from tests.torture.forks import RunningCommand
from tests.torture.oracle import Oracle

SYNCS = ("fsync", "fdatasync", "msync", "sync_file_range")
WRITES = ("write", "pwrite64", "writev", "pwritev", "pwritev2", "copy_file_range", "sendfile", "ftruncate", "fallocate")
NAMES = ("rename", "renameat", "renameat2", "unlink", "unlinkat", "link", "linkat", "mkdir", "mkdirat", "rmdir")
CREATES = ("openat",)
CALLS = (*SYNCS, *WRITES, *NAMES, *CREATES)
FAILURES = ("KILL", "EIO", "ENOSPC", "ENOSPC+")
COMMANDS = ("update", "build", "repair", "rebuild", "remove")
FEW = 20
"""Up to so many trials are of one or two commands."""
_LINE = re.compile(r"^(\d+)\s+(\w+)\((.*)$")
_SYNCED = re.compile(r"\(\d+<(.*)>\)")
"""The file or directory of a sync."""


class SystemCalls:
    """Every disk-writing system call of five commands; `breaks` are the injected failures."""

    def __init__(self, name: str, breaks: Sequence[str]) -> None:
        self.name = name
        self._breaks = breaks
        self._points: dict[tuple[str, str], list[str]] = {}

    def keys(self, bench: Bench, count: int, chance: random.Random) -> Iterator[str]:
        """`update.pwrite64.17.KILL`: command, call, its number in the thread, failure."""
        # few trials use one or two commands: counting the calls of a command takes as long as a trial
        possible = [name for name in COMMANDS if name in bench.subject.operations]
        names = possible if count > FEW else chance.sample(possible, 1 + count // FEW)
        points = [point for name in names for point in self._points_of(bench, name)]
        results = [f"{point}.{how}" for point in points for how in self._breaks if _is_possible(point, how)]
        chance.shuffle(results)
        yield from results[:count]

    def trial(self, bench: Bench, key: str) -> TrialResult:
        """Run the command with one failing system call."""
        name, call, number, how = key.split(".")
        operation = _prepare(bench, name)
        victim = bench.start(operation, held=True)
        after = f"{number}+" if how.endswith("+") else number
        what = "signal=KILL" if how == "KILL" else f"error={how.rstrip('+')}"
        log = _start_trace(bench, victim, ["-e", f"trace={call},execve", "-e", f"inject={call}:{what}:when={after}"])
        result = victim.wait()
        text = log()
        if how == "KILL":
            reached = result.code == -9 and not _killed_programs(text)
        else:
            reached = _touches(_injected_line(text), bench.kb) and not _hit_signalling(text)
            # strace injects into parser processes too: a file that one of them could not read is reported
            reached = reached and not (result.code == EXIT_PARTIAL_FAILURE and _hit_others(text, bench.kb))
        oracle = bench.oracle()
        if not reached:
            # the failure came too late, or did not affect the knowledge base
            return TrialResult(reached=False)
        if how != "KILL":
            if (call, how) != ("write", "ENOSPC+"):  # the command cannot print its error either
                oracle.check_output(result)
            if result.code == 0 and call in SYNCS and _must_be_synced(text, bench.kb):
                oracle.fault("wrong", f"reported success although {call} failed: {_injected_line(text)}")
        self._check(bench, operation, result.code, oracle)
        return TrialResult(tuple(oracle.faults), reached)

    def _check(self, bench: Bench, operation: Operation, code: int | None, oracle: Oracle) -> None:
        if code == 0 and operation.name in {"update", "build"}:
            oracle.check_state([operation.after])
            oracle.check_next_run(operation.after)
        else:
            bench.check(operation, oracle)

    def _points_of(self, bench: Bench, name: str) -> list[str]:
        if (bench.name, name) not in self._points:
            operation = _prepare(bench, name)
            victim = bench.start(operation, held=True)
            log = _start_trace(bench, victim, ["-e", f"trace={','.join(CALLS)}"])
            result = victim.wait()
            if result.code != 0:
                raise RuntimeError(f"{result.summary()} under strace")
            self._points[bench.name, name] = [f"{name}.{point}" for point in _list_calls(log(), bench.kb)]
        return self._points[bench.name, name]


def _prepare(bench: Bench, name: str) -> Operation:
    """Use a fixed change, so that system calls occur in the same order."""
    bench.reset()
    return bench.operation(name, random.Random(7))


def _is_possible(point: str, how: str) -> bool:
    """Whether this failure can occur at this call."""
    call = point.split(".")[1]
    return not how.startswith("ENOSPC") or call in {*WRITES, *CREATES, "mkdir", "mkdirat", "rename", "fdatasync"}


def _list_calls(log: str, kb: Path) -> list[str]:
    """The calls that touch the knowledge base: `pwrite64.17`, counted as strace counts them, by thread and call."""
    count: Counter[tuple[str, str]] = Counter()
    results: dict[str, None] = {}
    for line in log.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        thread, call, rest = match.groups()
        count[thread, call] += 1
        if _touches(rest, kb) and (call not in CREATES or "O_CREAT" in rest):
            results[f"{call}.{count[thread, call]}"] = None
    return list(results)


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
        self._path.with_suffix(".err").unlink()
        return text


def _start_trace(bench: Bench, victim: RunningCommand, options: Sequence[str]) -> _Log:
    """Attach strace to a held command, then release it."""
    path = bench.commands.scratch / f"strace-{victim.pid}"
    strace = shutil.which("strace")
    if strace is None:
        raise RuntimeError("strace is not installed (Debian: apt-get install strace)")
    warnings = path.with_suffix(".err")  # not a pipe: strace waits when it is full, and with it the traced command
    with warnings.open("wb") as stderr:
        tracer = subprocess.Popen(
            [strace, "-f", "-qq", "-y", "-s", "64", "-o", str(path), *options, "-p", str(victim.pid)],
            stdout=subprocess.DEVNULL,
            stderr=stderr,
        )
    status = Path(f"/proc/{victim.pid}/status")
    deadline = time.monotonic() + 30
    while "TracerPid:\t0\n" in status.read_text():
        if tracer.poll() is not None or time.monotonic() > deadline:
            result = warnings.read_text(errors="replace")
            victim.kill()
            raise RuntimeError(f"strace cannot attach to a process: {result}")
        time.sleep(0.001)
    victim.release()
    return _Log(tracer, path)


def _injected_line(log: str) -> str:
    return next((line for line in log.splitlines() if "(INJECTED)" in line), "")


def _killed_programs(log: str) -> set[str]:
    """The programs started by the command that were killed too, such as parser processes: strace injects into
    every process. A file whose parser process is always killed is recorded as failed, so its document is missing."""
    started = {line.split()[0] for line in log.splitlines() if " execve(" in line}
    return started & {line.split()[0] for line in log.splitlines() if line.endswith("+++ killed by SIGKILL +++")}


def _hit_signalling(log: str) -> bool:
    """Whether a write that wakes another thread failed, which no disk can cause: the thread would sleep for ever."""
    return any("<anon_inode:[eventfd]>" in line for line in log.splitlines() if "(INJECTED)" in line)


def _hit_others(log: str, kb: Path) -> bool:
    """Whether a call failed that is not on the knowledge base."""
    return any("(INJECTED)" in line and not _touches(line, kb) for line in log.splitlines())


def _must_be_synced(log: str, kb: Path) -> bool:
    """Whether the failed sync was required: SQLite tolerates failed syncs of directories, for which it calls fdatasync
    (ragkit calls fsync), and ragkit syncs the files of vector stores again before they are used."""
    line = _injected_line(log)
    if "fdatasync(" in line and (match := _SYNCED.search(line)) and Path(match[1]).is_dir():
        return False
    return f"{kb}/" in line and f"{kb}/{REBUILD_FOLDER}>" not in line and "/store-" not in line
