"""Parsing in worker processes, so that no file can hang, crash or fill the run.

A process that dies, or takes too long, costs the one file it was at and is replaced. Order is kept.
"""

from __future__ import annotations

import json
import os
import queue
import re
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

from ragkit.errors import InvalidOption, LoadError, LoadLimit, RagkitError
from ragkit.load.files import MB
from ragkit.load.parse import Failed, Parsed, ParseLimits, Task, parse_file
from ragkit.load.route import Route, Router
from ragkit.load.wire import LENGTHS, MAX_JSON, Nonsense, head_of, hello, read_outcome, task_frame

LOOK_AHEAD = 4
"""Files in work or waiting for the caller, for each process."""

START_SECONDS = 30.0
"""A process that is not ready by then is broken."""

GRACE_SECONDS = 5.0
"""Beyond its limit of time, after which a process that did not end itself is ended."""

_BOOT = "import sys, json; sys.path[:] = json.loads(sys.argv[1]); from ragkit.load.worker import main; main()"
_PRIVATE = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)


class Ended(Exception):
    """A parsing process is no more; `code` as `subprocess` gives it, None when it had to be ended for time."""

    def __init__(self, code: int | None) -> None:
        super().__init__(code)
        self.code = code


class ParsePool:
    """Up to `jobs` processes that parse files side by side; with 0, this process parses and limits no time.

    No process is started before the first task. Use it as a context manager, or call `close`.
    """

    def __init__(self, jobs: int, limits: ParseLimits | None = None, routes: Sequence[Route] = ()) -> None:
        """Raises InvalidOption for a negative number of jobs, UnknownName for a route to no loader."""
        if jobs < 0:
            raise InvalidOption("jobs", jobs, "0 or more processes")
        self.jobs = jobs
        self.limits = limits or ParseLimits()
        self._routes = tuple(routes)
        self._router = Router(self._routes)
        self._threads: ThreadPoolExecutor | None = None
        self._idle: queue.LifoQueue[_Child] = queue.LifoQueue()
        self._children: set[_Child] = set()
        self._lock = threading.Lock()
        self._closed = False

    def __enter__(self) -> ParsePool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End every process at once; files in work are given up. Further calls do nothing."""
        with self._lock:
            self._closed = True
            children = list(self._children)
        for child in children:
            child.kill()
        if self._threads is not None:
            self._threads.shutdown(wait=True, cancel_futures=True)
        for child in children:
            child.stop()
        self._children.clear()

    def parse(self, tasks: Iterable[Task]) -> Iterator[Parsed | Failed]:
        """What becomes of each task, in their order.

        Tasks are taken as results are: at most `LOOK_AHEAD` for each process are ahead of the caller.

        Raises:
            RagkitError: a process cannot be started at all, or the pool was closed.
        """
        if self.jobs == 0:
            for task in tasks:
                yield parse_file(task, self._router, self.limits)
            return
        waiting: deque[Future[Parsed | Failed]] = deque()
        try:
            for task in tasks:
                waiting.append(self._submit(task))
                if len(waiting) >= LOOK_AHEAD * self.jobs:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()

    def _submit(self, task: Task) -> Future[Parsed | Failed]:
        with self._lock:
            if self._closed:
                raise RagkitError("the parsing pool was closed: make a new one")
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self.jobs, thread_name_prefix="ragkit-load")
            return self._threads.submit(self._run, task)

    def _run(self, task: Task) -> Parsed | Failed:
        """One task in a process that is free. Runs in a thread of its own, which only waits."""
        child, used = self._child()
        try:
            outcome, code = self._ask(child, task)
            if used and _may_be_innocent(outcome, code):
                outcome, _ = self._ask(self._new_child(), task)
        except Nonsense:
            return Failed(task, LoadError(task.source, "its parser gave a broken answer", "leave it out"))
        return outcome

    def _ask(self, child: _Child, task: Task) -> tuple[Parsed | Failed, int]:
        """The outcome of a task, and the exit code of a process that died of it (else 0)."""
        try:
            outcome, last = child.ask(task, self.limits)
        except Ended as end:
            self._drop(child)
            return Failed(task, _death(task.source, end.code, self.limits)), end.code or 0
        except BaseException:
            self._drop(child)
            raise
        if last:
            self._drop(child)
        else:
            self._idle.put(child)
        return outcome, 0

    def _child(self) -> tuple[_Child, bool]:
        """A process that is free, and whether it has parsed files before."""
        try:
            return self._idle.get_nowait(), True
        except queue.Empty:
            return self._new_child(), False

    def _new_child(self) -> _Child:
        with self._lock:
            if self._closed:
                raise RagkitError("the parsing pool was closed: make a new one")
            child = _Child()
            self._children.add(child)
        try:
            child.greet(hello(self.limits, self._routes, os.getpid()))
        except BaseException:
            self._drop(child)
            raise
        return child

    def _drop(self, child: _Child) -> None:
        child.stop()
        with self._lock:
            self._children.discard(child)


def _may_be_innocent(outcome: Parsed | Failed, code: int) -> bool:
    """Whether an earlier file may have done it: then the file is worth a fresh process."""
    if code:
        return -code != signal.SIGALRM
    return isinstance(outcome, Failed) and isinstance(outcome.error, LoadLimit) and "memory" in outcome.error.reason


def _death(source: str, code: int | None, limits: ParseLimits) -> LoadError:
    """Why a process ended, in words for the reader of a report."""
    if code is None or -code == signal.SIGALRM:
        return LoadLimit(source, f"took longer than {limits.seconds:g} seconds", "raise max_seconds, or leave it out")
    if -code == signal.SIGKILL:
        return LoadLimit(source, "its parser was ended by the system, most likely for memory", "leave it out")
    if -code == signal.SIGABRT:  # what C++ does when it is refused memory
        reason = "its parser gave up (SIGABRT), most likely for want of memory"
        return LoadLimit(source, reason, "raise max_memory_mb, or leave it out")
    if code < 0:
        name = signal.Signals(-code).name
        return LoadError(source, f"crashed its parser ({name})", "save it again in its program, or leave it out")
    return LoadError(source, f"its parser ended without an answer (exit code {code})", "leave it out")


class _Child:
    """A process, and the two pipes to it. Used by one thread at a time; `kill` may be called from any."""

    def __init__(self) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `stop`
        flags = ["-P", *(["-B"] if sys.dont_write_bytecode else [])]  # -P: a json.py in this folder is not ours
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            [sys.executable, *flags, "-c", _BOOT, json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=_environment(),
            start_new_session=True,  # Ctrl-C on the terminal reaches the parent alone
        )

    def greet(self, first: bytes) -> None:
        """Tell it what to do, and wait until it is ready. Raises RagkitError when it cannot start."""
        try:
            self._write(first)
            self._frame(time.monotonic() + START_SECONDS, 0)
        except (Ended, Nonsense) as error:
            self.kill()
            said = self._said()
            raise RagkitError(f"the parsing process cannot start ({said}): run `ragkit doctor`") from error

    def ask(self, task: Task, limits: ParseLimits) -> tuple[Parsed | Failed, bool]:
        """The outcome of a task, and whether the process has ended itself. Raises Ended and Nonsense."""
        self._write(task_frame(task))
        most = int(limits.text_mb * MB) * 4  # a character takes 4 bytes at most
        head, body = self._frame(time.monotonic() + limits.seconds + GRACE_SECONDS, most)
        return read_outcome(head_of(head), body, task)

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    def stop(self) -> None:
        """End it and let go of everything that it held."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._errors):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue

    def _said(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read(100_000).decode("utf-8", "replace").split("\n")
        return next((line.strip()[:200] for line in reversed(lines) if line.strip()), "it said nothing")

    def _write(self, packed: bytes) -> None:
        pipe = self._process.stdin
        if pipe is None:
            raise Ended(self._process.wait())
        try:
            pipe.write(packed)
            pipe.flush()
        except (OSError, ValueError) as error:
            raise Ended(self._process.wait()) from error

    def _frame(self, deadline: float, most: int) -> tuple[bytes, bytes]:
        size, length = LENGTHS.unpack(self._read(LENGTHS.size, deadline))
        if size > MAX_JSON or length > most:
            raise Nonsense("an answer beyond the limits")
        return self._read(size, deadline), self._read(length, deadline)

    def _read(self, size: int, deadline: float) -> bytes:
        """Exactly `size` bytes. Raises Ended when the process dies or the time is up."""
        pipe = self._process.stdout
        if pipe is None:
            raise Ended(self._process.wait())
        waiter = select.poll()
        waiter.register(pipe, select.POLLIN)
        pieces = bytearray()
        while len(pieces) < size:
            if not waiter.poll(max(0.0, deadline - time.monotonic()) * 1000):
                self.kill()
                self._process.wait()
                raise Ended(None)
            piece = os.read(pipe.fileno(), min(size - len(pieces), MB))
            if not piece:
                raise Ended(self._process.wait())
            pieces += piece
        return bytes(pieces)


def _environment() -> dict[str, str]:
    """Ours without keys and passwords; one thread for number crunching, whose stacks count as memory."""
    kept = {name: value for name, value in os.environ.items() if not _PRIVATE.search(name)}
    return {**kept, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}
