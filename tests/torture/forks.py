"""Run `ragkit ...` in a process of its own that can be killed, without paying for the imports each time.

The process is forked from this one, which has imported the command line and the store's package; from there on it is
the command: its own memory, files, threads and exit code. This one must therefore never start a thread itself.
"""

from __future__ import annotations

import atexit
import faulthandler
import gc
import json
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

VERBS = ("index", "list", "search", "verify", "rm", "clear", "status")
PRELOADED = {
    "sqlite": ("ragkit.store.backends.sqlite",),
    "faiss": ("ragkit.store.backends.faiss_",),
    "chroma": ("ragkit.store.backends.chroma",),
    "duckdb": ("ragkit.store.backends.duckdb_",),
    "qdrant": ("ragkit.store.backends.qdrant",),
    # it starts a thread when it is imported, which would not survive the fork: only what it needs is
    "lancedb": ("pyarrow", "pyarrow.dataset", "pydantic", "lance_namespace", "urllib3", "tqdm"),
    "milvus": ("ragkit.store.backends.milvus",),
}
"""What is imported before the commands are forked, by store: these are the stores that lie on this disk."""
LIMIT = 90.0
"""Seconds after which a command counts as hung; an undisturbed one takes less than two."""


def preload(store: str) -> None:
    """Import what the commands use, and look up once what is installed."""
    import importlib.metadata

    importlib.metadata.entry_points = lru_cache(importlib.metadata.entry_points)  # type: ignore[assignment]
    for name in VERBS:
        import_module(f"ragkit.cli.{name}_")
    for name in (
        "ragkit.embed.hashing",
        "ragkit.split.recursive",
        "ragkit.retrieve.hybrid",
        "numpy.ma",
        *PRELOADED[store],
    ):
        try:
            import_module(name)
        except ModuleNotFoundError as error:
            if not str(error.name).startswith("ragkit"):
                raise
    gc.collect()
    gc.freeze()  # or every command would copy the memory of all that is imported


@dataclass(frozen=True)
class Said:
    """Output and exit status of a command."""

    arguments: tuple[str, ...]
    code: int | None
    """Exit code; minus the signal's number when it was killed; None when it hung."""
    out: str
    err: str
    seconds: float

    @property
    def json(self) -> dict[str, Any]:
        """Its standard output as one JSON object."""
        found: dict[str, Any] = json.loads(self.out)
        return found

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Its standard output as JSON objects, one a line."""
        return [json.loads(line) for line in self.out.splitlines()]

    def short(self) -> str:
        """One line for a report."""
        return f"`ragkit {' '.join(self.arguments)}` ended with {self.code}: {' / '.join(self.err.splitlines())[-600:]}"


@dataclass
class Running:
    """A command under way."""

    arguments: tuple[str, ...]
    pid: int
    began: float
    out: Path
    err: Path
    gate: int | None = None
    """Where a byte lets a command begin that was started held back."""
    _said: Said | None = field(default=None, repr=False)

    def release(self) -> None:
        """Let it begin."""
        if self.gate is not None:
            os.write(self.gate, b"1")
            os.close(self.gate)
            self.gate = None

    def kill(self) -> None:
        """SIGKILL, to it and to all that it started."""
        if self._said is None:
            os.killpg(self.pid, signal.SIGKILL)

    def ended(self, seconds: float) -> bool:
        """Whether it ends within the timeout."""
        if self._said is not None:
            return True
        handle = os.pidfd_open(self.pid)
        try:
            ready, _, _ = select.select([handle], [], [], max(0.0, seconds))
        finally:
            os.close(handle)
        return bool(ready)

    def _ends_in_time(self, limit: float) -> bool:
        """Whether it ends before it had `limit` seconds for itself: time in which others had the processor is its own
        to add."""
        while not self.ended(limit / 10):
            delay = self._waited()
            if time.monotonic() - self.began - delay > limit:
                return False
        return True

    def _waited(self) -> float:
        """Seconds that its main thread was ready and another process had the processor (proc(5), schedstat)."""
        try:
            return int(Path(f"/proc/{self.pid}/schedstat").read_text().split()[1]) / 1e9
        except (OSError, IndexError):
            return 0.0

    def wait(self, limit: float = LIMIT) -> Said:
        """How it ended; it is killed when it takes longer than `limit`."""
        if self._said is not None:
            return self._said
        hung = not self._ends_in_time(limit)
        if hung:
            os.kill(self.pid, signal.SIGABRT)  # faulthandler prints the stack
            self.ended(5)
            self.kill()
        _, status = os.waitpid(self.pid, 0)
        seconds = time.monotonic() - self.began
        code = None if hung else os.waitstatus_to_exitcode(status)
        # one that is killed at once has made neither
        out, err = (path.read_text(errors="replace") if path.exists() else "" for path in (self.out, self.err))
        for path in (self.out, self.err):
            path.unlink(missing_ok=True)
        self._said = Said(self.arguments, code, out, err, seconds)
        return self._said


class Commands:
    """Starts commands in one working directory, with an environment that has no settings from outside."""

    def __init__(self, directory: Path, scratch: Path) -> None:
        self.directory = directory
        self.scratch = scratch
        self._number = 0
        kept = {name: value for name, value in os.environ.items() if not name.startswith("RAGKIT_")}
        self.environment: dict[str, str] = {
            **kept,
            "XDG_CONFIG_HOME": str(scratch / "no-config"),
            "RAGKIT_OFFLINE": "1",
            "NO_COLOR": "1",
        }

    def start(self, *arguments: str, held: bool = False, env: Mapping[str, str] | None = None) -> Running:
        """Start `ragkit ...`; with `held`, it waits for `release` before it does anything."""
        return self.call(lambda: _ragkit(arguments), arguments, held=held, env=env)

    def run(self, *arguments: str, limit: float = LIMIT) -> Said:
        """Run `ragkit ...` to its end."""
        return self.start(*arguments).wait(limit)

    def run_each(self, *commands: Sequence[str], limit: float = LIMIT) -> list[Said]:
        """Run several commands in one process, one after the other; each opens everything anew.

        When the process hangs or dies, so did the command that it was at; those behind it are left out.
        """
        self._number += 1
        base = self.scratch / f"{os.getpid()}-{self._number}"

        def work() -> int:
            for number, arguments in enumerate(commands):
                for handle, name in ((1, "out"), (2, "err")):
                    _redirect(handle, base.with_suffix(f".{number}.{name}"))
                began = time.monotonic()
                code = _ragkit(arguments)
                sys.stdout.flush()
                sys.stderr.flush()
                base.with_suffix(f".{number}.end").write_text(f"{code} {time.monotonic() - began}")
            return 0

        whole = self.call(work, ["..."]).wait(limit)
        found: list[Said] = []
        for number, arguments in enumerate(commands):
            said, ended = _part(base.with_suffix(f".{number}"), arguments, whole)
            found.append(said)
            if not ended:
                break
        return found

    def call(
        self,
        work: Callable[[], int],
        arguments: Sequence[str],
        *,
        held: bool = False,
        env: Mapping[str, str] | None = None,
    ) -> Running:
        """Run a function in a process of its own; what it returns is the exit code."""
        self._number += 1
        out, err = (self.scratch / f"{os.getpid()}-{self._number}.{name}" for name in ("out", "err"))
        reading, writing = os.pipe() if held else (None, None)
        sys.stdout.flush()
        sys.stderr.flush()
        began = time.monotonic()
        pid = os.fork()
        if pid == 0:
            self._become(work, out, err, reading, {**self.environment, **(env or {})})
        os.setpgid(pid, pid)
        if reading is not None:
            os.close(reading)
        return Running(tuple(arguments), pid, began, out, err, writing)

    def _become(
        self, work: Callable[[], int], out: Path, err: Path, gate: int | None, environment: Mapping[str, str]
    ) -> None:
        """Run in the forked process until its exit."""
        code = 70
        try:
            os.setpgid(0, 0)
            for number, path in ((1, out), (2, err)):
                _redirect(number, path)
            faulthandler.enable(2)
            os.chdir(self.directory)
            os.environ.clear()
            os.environ.update(environment)
            if gate is not None:
                os.read(gate, 1)
                os.close(gate)
            code = work()
            sys.stdout.flush()
            sys.stderr.flush()
            atexit._run_exitfuncs()
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            code = 1
        finally:
            os._exit(code)


def _redirect(number: int, path: Path) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(handle, number)
    os.close(handle)


def _part(base: Path, arguments: Sequence[str], whole: Said) -> tuple[Said, bool]:
    """What one of several commands said, and whether it came to its end."""
    texts = {}
    for name in ("out", "err", "end"):
        path = Path(f"{base}.{name}")
        texts[name] = path.read_text(errors="replace") if path.exists() else ""
        path.unlink(missing_ok=True)
    if not texts["end"]:
        return Said(tuple(arguments), whole.code, texts["out"], texts["err"] + whole.err, whole.seconds), False
    code, seconds = texts["end"].split()
    return Said(tuple(arguments), int(code), texts["out"], texts["err"], float(seconds)), True


def _ragkit(arguments: Sequence[str]) -> int:
    from ragkit.cli import main

    try:
        main(list(arguments))
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0
