"""Run `ragkit ...` in a separate process that can be killed, without repeated imports.

The process is forked from this one, which has imported the command line and the package of the store. Therefore this
process must never start a thread.
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
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from ragkit.cli import command_module
from ragkit.embed import EMBEDDERS
from ragkit.load import LOADERS
from ragkit.load.sources import SOURCES
from ragkit.split import SPLITTERS
from ragkit.store import STORES
from tests.torture.parsers import prepare_parsers

VERBS = ("index", "list", "search", "verify", "remove", "clear", "status")
PRELOADED = {
    "sqlite": ("ragkit.store.backends.sqlite",),
    "faiss": ("ragkit.store.backends.faiss",),
    "chroma": ("ragkit.store.backends.chroma", "chromadb.api.rust", "chromadb.telemetry.product.posthog"),
    "duckdb": ("ragkit.store.backends.duckdb",),
    "qdrant": ("ragkit.store.backends.qdrant", "ragkit.store.backends.qdrant_embedded"),
    "lancedb": ("ragkit.store.backends.lancedb", "pyarrow.dataset"),
    "milvus": (
        *("ragkit.store.backends.milvus", "milvus_lite.adapter.grpc.server", "milvus_lite.search.indexed_filter"),
        *("grpc.experimental", "pyarrow.dataset", "pyarrow.pandas_compat", "scipy.sparse"),
    ),
}
"""Modules to import before the fork, by store. Only local stores."""
USED = (
    *("email.parser", "encodings.utf_32_le", "encodings.utf_8_sig", "http.client", "numpy.ma", "numpy.random", "ssl"),
    *("subprocess", "ragkit.store.options"),
    *("ragkit.answer.score_calibration", "ragkit.embed.embedding_job", "ragkit.embed.hashing", "ragkit.index.build"),
    *("ragkit.index.catalog.compaction", "ragkit.index.context_writer", "ragkit.index.plan", "ragkit.index.rebuild"),
    *("ragkit.index.freshness", "ragkit.index.verify", "ragkit.load.sources.folder", "ragkit.retrieve.dense"),
    *(f"ragkit.retrieve.{name}" for name in ("context", "deduplication", "explanations", "grouping", "stages")),
    *(f"ragkit.retrieve.{name}" for name in ("query_expansion", "rerank")),
    *("ragkit.index.sources.sync", "ragkit.knowledge_base.cost_estimate", "ragkit.knowledge_base.indexing"),
    *("ragkit.load.shared.encoding", "ragkit.load.files.fetch"),
    *("ragkit.load.process.parse_pool", "ragkit.load.process.parse_worker"),
    *("ragkit.load.router", "ragkit.load.sources.options", "ragkit.load.text.text", "ragkit.pipeline.run.local"),
    *("ragkit.retrieve.hybrid", "ragkit.split.chunks", "ragkit.split.recursive", "ragkit.usage.ledger"),
)
"""What the commands import when they need it."""
PARSING = ("index", "verify")
"""Commands that parse files."""
LIMIT = 90.0
"""Seconds after which a command counts as hung; an uninterrupted one takes less than two."""


def preload(store: str, more: Iterable[str] = ()) -> None:
    """Import the modules of the commands and `more`, and cache the installed entry points."""
    import importlib.metadata

    importlib.metadata.entry_points = lru_cache(importlib.metadata.entry_points)  # type: ignore[assignment]
    if store == "lancedb":
        _import_lancedb()
    for name in (*map(command_module, VERBS), *USED, *PRELOADED[store], *more):
        import_module(name)
    for registry in (LOADERS, SPLITTERS, EMBEDDERS, STORES, SOURCES):
        registry.names()  # looks for plugins
    if others := _other_threads():
        raise RuntimeError(f"an import started threads, which a fork would not have: {others}")
    gc.collect()
    gc.freeze()  # prevents copies of the memory of imported modules


def _import_lancedb() -> None:
    """Import LanceDB without the thread that it starts: it starts another one in each forked process."""
    start = threading.Thread.start
    threading.Thread.start = lambda self: None  # type: ignore[method-assign]
    try:
        import_module("ragkit.store.backends.lancedb")  # sets LANCEDB_LOG before it imports LanceDB
    finally:
        threading.Thread.start = start  # type: ignore[method-assign]
    warnings.filterwarnings("ignore", "lancedb fork support is experimental", RuntimeWarning)


def _other_threads() -> list[str]:
    """The threads of this process besides the main one. That of pyarrow's allocator knows of forks."""
    tasks = [path for path in Path("/proc/self/task").iterdir() if path.name != str(os.getpid())]
    names = [(path / "comm").read_text().strip() for path in tasks]
    return [name for name in names if name != "jemalloc_bg_thd"]


@dataclass(frozen=True)
class CommandResult:
    """Output and exit status of a command."""

    arguments: tuple[str, ...]
    code: int | None
    """Exit code; minus the number of the signal that killed it; None if it hung."""
    out: str
    err: str
    seconds: float

    @property
    def json(self) -> dict[str, Any]:
        """Standard output as one JSON object."""
        results: dict[str, Any] = json.loads(self.out)
        return results

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Standard output as JSON objects, one per line."""
        return [json.loads(line) for line in self.out.splitlines()]

    def summary(self) -> str:
        """One line for error messages."""
        return f"`ragkit {' '.join(self.arguments)}` ended with {self.code}: {' / '.join(self.err.splitlines())[-600:]}"


@dataclass
class RunningCommand:
    """A running command."""

    arguments: tuple[str, ...]
    pid: int
    started_at: float
    out: Path
    err: Path
    release_fd: int | None = None
    """A byte written here releases a held command."""
    _result: CommandResult | None = field(default=None, repr=False)

    def release(self) -> None:
        """Release a held command."""
        if self.release_fd is not None:
            os.write(self.release_fd, b"1")
            os.close(self.release_fd)
            self.release_fd = None

    def interrupt(self) -> None:
        """Interrupt the process as Ctrl-C does."""
        if self._result is None:
            os.kill(self.pid, signal.SIGINT)

    def kill(self) -> None:
        """Kill the process group."""
        if self._result is None:
            os.killpg(self.pid, signal.SIGKILL)

    def has_ended(self, seconds: float) -> bool:
        """Wait up to `seconds`. Returns whether the command has ended."""
        if self._result is not None:
            return True
        handle = os.pidfd_open(self.pid)
        try:
            ready, _, _ = select.select([handle], [], [], max(0.0, seconds))
        finally:
            os.close(handle)
        return bool(ready)

    def _ends_in_time(self, limit: float) -> bool:
        """Whether it ends within `limit` seconds, not counting time in which it waited for a processor."""
        while not self.has_ended(limit / 10):
            delay = self._delay()
            if time.monotonic() - self.started_at - delay > limit:
                return False
        return True

    def _delay(self) -> float:
        """Seconds in which its main thread waited for a processor (proc(5), schedstat)."""
        try:
            return int(Path(f"/proc/{self.pid}/schedstat").read_text().split()[1]) / 1e9
        except (OSError, IndexError):
            return 0.0

    def wait(self, limit: float = LIMIT) -> CommandResult:
        """Wait for the end. A command that takes longer than `limit` is killed."""
        if self._result is not None:
            return self._result
        hung = not self._ends_in_time(limit)
        if hung:
            os.kill(self.pid, signal.SIGABRT)  # faulthandler prints the stack
            self.has_ended(5)
            self.kill()
        _, status = os.waitpid(self.pid, 0)
        seconds = time.monotonic() - self.started_at
        code = None if hung else os.waitstatus_to_exitcode(status)
        # a command killed at once has created neither
        out, err = (path.read_text(errors="replace") if path.exists() else "" for path in (self.out, self.err))
        for path in (self.out, self.err):
            path.unlink(missing_ok=True)
        self._result = CommandResult(self.arguments, code, out, err, seconds)
        return self._result


class Commands:
    """Starts commands in one working directory, in an environment without settings of the user."""

    def __init__(self, directory: Path, scratch: Path) -> None:
        self.directory = directory
        self.scratch = scratch
        self._number = 0
        stored = {name: value for name, value in os.environ.items() if not name.startswith("RAGKIT_")}
        self.environment: dict[str, str] = {
            **stored,
            "XDG_CONFIG_HOME": str(scratch / "no-config"),
            "RAGKIT_OFFLINE": "1",
            "NO_COLOR": "1",
        }

    def start(
        self, *arguments: str, held: bool = False, interruptible: bool = False, env: Mapping[str, str] | None = None
    ) -> RunningCommand:
        """Start `ragkit ...`; with `held`, it waits for `release` first; with `interruptible`, Ctrl-C ends it."""
        if not interruptible:
            return self.call(lambda: _ragkit(arguments), arguments, held=held, env=env)
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            return self.call(lambda: _interruptible(arguments), arguments, held=held, env=env)
        finally:
            signal.signal(signal.SIGINT, before)

    def run(self, *arguments: str, limit: float = LIMIT) -> CommandResult:
        """Run `ragkit ...` to its end."""
        return self.start(*arguments).wait(limit)

    def run_counted(self, *arguments: str) -> tuple[CommandResult, int]:
        """Run `ragkit ...` to its end. Returns its result and the number of texts of documents that it embedded."""
        note = self.scratch / "embedded"
        note.unlink(missing_ok=True)
        result = self.call(lambda: _count_embedded(arguments, note), arguments).wait()
        return result, sum(map(int, note.read_text().split())) if note.exists() else 0

    def run_each(self, *commands: Sequence[str], limit: float = LIMIT) -> list[CommandResult]:
        """Run several commands in one process, one after the other, without shared state.

        If the process hangs or dies, the result belongs to the current command; later ones are left out.
        """
        self._number += 1
        base = self.scratch / f"{os.getpid()}-{self._number}"

        def work() -> int:
            for number, arguments in enumerate(commands):
                for handle, name in ((1, "out"), (2, "err")):
                    _redirect(handle, base.with_suffix(f".{number}.{name}"))
                started_at = time.monotonic()
                code = _ragkit(arguments)
                sys.stdout.flush()
                sys.stderr.flush()
                base.with_suffix(f".{number}.end").write_text(f"{code} {time.monotonic() - started_at}")
            return 0

        whole = self.call(work, ["..."]).wait(limit)
        results: list[CommandResult] = []
        for number, arguments in enumerate(commands):
            result, ended = _read_result(base.with_suffix(f".{number}"), arguments, whole)
            results.append(result)
            if not ended:
                break
        return results

    def call(
        self,
        work: Callable[[], int],
        arguments: Sequence[str],
        *,
        held: bool = False,
        env: Mapping[str, str] | None = None,
    ) -> RunningCommand:
        """Run a function in a separate process; it returns the exit code."""
        self._number += 1
        out, err = (self.scratch / f"{os.getpid()}-{self._number}.{name}" for name in ("out", "err"))
        reading, writing = os.pipe() if held else (None, None)
        sys.stdout.flush()
        sys.stderr.flush()
        started_at = time.monotonic()
        pid = os.fork()
        if pid == 0:
            self._run_child(work, arguments, (out, err), reading, {**self.environment, **(env or {})})
        os.setpgid(pid, pid)
        if reading is not None:
            os.close(reading)
        return RunningCommand(tuple(arguments), pid, started_at, out, err, writing)

    def _run_child(
        self,
        work: Callable[[], int],
        arguments: Sequence[str],
        outputs: tuple[Path, Path],
        gate: int | None,
        environment: Mapping[str, str],
    ) -> None:
        """Run in the forked process until its exit."""
        code = 70
        try:
            os.setpgid(0, 0)
            for number, path in enumerate(outputs, 1):
                _redirect(number, path)
            faulthandler.enable(2)
            os.chdir(self.directory)
            os.environ.clear()
            os.environ.update(environment)
            if arguments[0] in PARSING:
                prepare_parsers()
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


def _count_embedded(arguments: Sequence[str], note: Path) -> int:
    """Run a command that writes down how many texts it embeds."""
    from ragkit.answer.score_calibration import CALIBRATION_TEXTS
    from ragkit.embed.base import PROBE_TEXT
    from ragkit.embed.hashing import HashingEmbedder

    embed = HashingEmbedder.embed_texts

    def counting(self: HashingEmbedder, texts: list[str]) -> object:
        others = {PROBE_TEXT, *CALIBRATION_TEXTS}
        with note.open("a") as stream:
            stream.write(f"{sum(text not in others for text in texts)}\n")
        return embed(self, texts)

    HashingEmbedder.embed_texts = counting  # type: ignore[assignment, method-assign]
    return _ragkit(arguments)


def _redirect(number: int, path: Path) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(handle, number)
    os.close(handle)


def _read_result(base: Path, arguments: Sequence[str], whole: CommandResult) -> tuple[CommandResult, bool]:
    """The result of one of several commands, and whether it completed."""
    texts = {}
    for name in ("out", "err", "end"):
        path = Path(f"{base}.{name}")
        texts[name] = path.read_text(errors="replace") if path.exists() else ""
        path.unlink(missing_ok=True)
    if not texts["end"]:
        return CommandResult(tuple(arguments), whole.code, texts["out"], texts["err"] + whole.err, whole.seconds), False
    code, seconds = texts["end"].split()
    return CommandResult(tuple(arguments), int(code), texts["out"], texts["err"], float(seconds)), True


def _interruptible(arguments: Sequence[str]) -> int:
    """Run a command that Ctrl-C interrupts. The start and the end of the process are not interrupted."""
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        return _ragkit(arguments)
    except KeyboardInterrupt:
        return 130
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _ragkit(arguments: Sequence[str]) -> int:
    from ragkit.cli import main

    try:
        main(list(arguments))
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0
