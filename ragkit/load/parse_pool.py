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

from ragkit.errors import InvalidOption, LoadError, LoadLimitExceeded, RagkitError
from ragkit.load.file_io import MB
from ragkit.load.ipc import (
    FRAME_HEADER,
    MAX_JSON_BYTES,
    InvalidFrame,
    decode_json,
    decode_result,
    encode_setup,
    encode_task,
)
from ragkit.load.parsing import ParsedFile, ParseFailure, ParseLimits, ParseTask, parse_file
from ragkit.load.router import LoaderRoute, Router

MAX_PENDING_PER_PROCESS = 4
"""Files in work or waiting for the caller, for each process."""

STARTUP_TIMEOUT_S = 30.0
"""A process that is not ready by then is broken."""

GRACE_PERIOD_S = 5.0
"""Beyond its limit of time, after which a process that did not end itself is ended."""

_STARTUP_CODE = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]); from ragkit.load.parse_worker import main; main()"
)
_SECRET_VARIABLE = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)


class ParserExited(Exception):
    """A parsing process is no more; `code` as `subprocess` gives it, None when it had to be ended for time."""

    def __init__(self, code: int | None) -> None:
        super().__init__(code)
        self.exit_code = code


class ParsePool:
    """Up to `jobs` processes that parse files side by side; with 0, this process parses and limits no time.

    No process is started before the first task. Use it as a context manager, or call `close`.
    """

    def __init__(self, jobs: int, limits: ParseLimits | None = None, routes: Sequence[LoaderRoute] = ()) -> None:
        """Raises InvalidOption for a negative number of jobs, UnknownName for a route to no loader."""
        if jobs < 0:
            raise InvalidOption("jobs", jobs, "0 or more processes")
        self.jobs = jobs
        self.limits = limits or ParseLimits()
        self._routes = tuple(routes)
        self._router = Router(self._routes)
        self._threads: ThreadPoolExecutor | None = None
        self._idle_processes: queue.LifoQueue[_ParserProcess] = queue.LifoQueue()
        self._processes: set[_ParserProcess] = set()
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
            children = list(self._processes)
        for child in children:
            child.kill()
        if self._threads is not None:
            self._threads.shutdown(wait=True, cancel_futures=True)
        for child in children:
            child.close()
        self._processes.clear()

    def parse(self, tasks: Iterable[ParseTask]) -> Iterator[ParsedFile | ParseFailure]:
        """What becomes of each task, in their order.

        Tasks are taken as results are: at most `LOOK_AHEAD` for each process are ahead of the caller.

        Raises:
            RagkitError: a process cannot be started at all, or the pool was closed.
        """
        if self.jobs == 0:
            for task in tasks:
                yield parse_file(task, self._router, self.limits)
            return
        waiting: deque[Future[ParsedFile | ParseFailure]] = deque()
        try:
            for task in tasks:
                waiting.append(self._submit(task))
                if len(waiting) >= MAX_PENDING_PER_PROCESS * self.jobs:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()

    def _submit(self, task: ParseTask) -> Future[ParsedFile | ParseFailure]:
        with self._lock:
            if self._closed:
                raise RagkitError("the parsing pool was closed: make a new one")
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self.jobs, thread_name_prefix="ragkit-load")
            return self._threads.submit(self._run_task, task)

    def _run_task(self, task: ParseTask) -> ParsedFile | ParseFailure:
        """One task in a process that is free. Runs in a thread of its own, which only waits."""
        child, used = self._acquire_process()
        try:
            outcome, code = self._parse_in(child, task)
            if used and _should_retry(outcome, code):
                outcome, _ = self._parse_in(self._start_process(), task)
        except InvalidFrame:
            return ParseFailure(task, LoadError(task.source, "its parser gave a broken answer", "leave it out"))
        return outcome

    def _parse_in(self, child: _ParserProcess, task: ParseTask) -> tuple[ParsedFile | ParseFailure, int]:
        """The outcome of a task, and the exit code of a process that died of it (else 0)."""
        try:
            outcome, last = child.parse(task, self.limits)
        except ParserExited as end:
            self._discard_process(child)
            return ParseFailure(task, _exit_error(task.source, end.exit_code, self.limits)), end.exit_code or 0
        except BaseException:
            self._discard_process(child)
            raise
        if last:
            self._discard_process(child)
        else:
            self._idle_processes.put(child)
        return outcome, 0

    def _acquire_process(self) -> tuple[_ParserProcess, bool]:
        """A process that is free, and whether it has parsed files before."""
        try:
            return self._idle_processes.get_nowait(), True
        except queue.Empty:
            return self._start_process(), False

    def _start_process(self) -> _ParserProcess:
        with self._lock:
            if self._closed:
                raise RagkitError("the parsing pool was closed: make a new one")
            child = _ParserProcess()
            self._processes.add(child)
        try:
            child.initialize(encode_setup(self.limits, self._routes, os.getpid()))
        except BaseException:
            self._discard_process(child)
            raise
        return child

    def _discard_process(self, child: _ParserProcess) -> None:
        child.close()
        with self._lock:
            self._processes.discard(child)


def _should_retry(outcome: ParsedFile | ParseFailure, code: int) -> bool:
    """Whether an earlier file may have done it: then the file is worth a fresh process."""
    if code:
        return -code != signal.SIGALRM
    return (
        isinstance(outcome, ParseFailure)
        and isinstance(outcome.error, LoadLimitExceeded)
        and "memory" in outcome.error.reason
    )


def _exit_error(source: str, code: int | None, limits: ParseLimits) -> LoadError:
    """Why a process ended, in words for the reader of a report."""
    if code is None or -code == signal.SIGALRM:
        return LoadLimitExceeded(
            source, f"took longer than {limits.timeout_s:g} seconds", "raise max_seconds, or leave it out"
        )
    if -code == signal.SIGKILL:
        return LoadLimitExceeded(source, "its parser was ended by the system, most likely for memory", "leave it out")
    if -code == signal.SIGABRT:  # what C++ does when it is refused memory
        reason = "its parser gave up (SIGABRT), most likely for want of memory"
        return LoadLimitExceeded(source, reason, "raise max_memory_mb, or leave it out")
    if code < 0:
        name = signal.Signals(-code).name
        return LoadError(source, f"crashed its parser ({name})", "save it again in its program, or leave it out")
    return LoadError(source, f"its parser ended without an answer (exit code {code})", "leave it out")


class _ParserProcess:
    """A process, and the two pipes to it. Used by one thread at a time; `kill` may be called from any."""

    def __init__(self) -> None:
        self._stderr_file = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `stop`
        flags = ["-P", *(["-B"] if sys.dont_write_bytecode else [])]  # -P: a json.py in this folder is not ours
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            [sys.executable, *flags, "-c", _STARTUP_CODE, json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr_file,
            env=_process_environment(),
            start_new_session=True,  # Ctrl-C on the terminal reaches the parent alone
        )

    def initialize(self, first: bytes) -> None:
        """Tell it what to do, and wait until it is ready. Raises RagkitError when it cannot start."""
        try:
            self._write(first)
            self._read_frame(time.monotonic() + STARTUP_TIMEOUT_S, 0)
        except (ParserExited, InvalidFrame) as error:
            self.kill()
            said = self._last_error_line()
            raise RagkitError(f"the parsing process cannot start ({said}): run `ragkit doctor`") from error

    def parse(self, task: ParseTask, limits: ParseLimits) -> tuple[ParsedFile | ParseFailure, bool]:
        """The outcome of a task, and whether the process has ended itself. Raises Ended and Nonsense."""
        self._write(encode_task(task))
        most = int(limits.max_text_mb * MB) * 4  # a character takes 4 bytes at most
        head, body = self._read_frame(time.monotonic() + limits.timeout_s + GRACE_PERIOD_S, most)
        return decode_result(decode_json(head), body, task)

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    def close(self) -> None:
        """End it and let go of everything that it held."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._stderr_file):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue

    def _last_error_line(self) -> str:
        self._stderr_file.seek(0)
        lines = self._stderr_file.read(100_000).decode("utf-8", "replace").split("\n")
        return next((line.strip()[:200] for line in reversed(lines) if line.strip()), "it said nothing")

    def _write(self, packed: bytes) -> None:
        pipe = self._process.stdin
        if pipe is None:
            raise ParserExited(self._process.wait())
        try:
            pipe.write(packed)
            pipe.flush()
        except (OSError, ValueError) as error:
            raise ParserExited(self._process.wait()) from error

    def _read_frame(self, deadline: float, most: int) -> tuple[bytes, bytes]:
        size, length = FRAME_HEADER.unpack(self._read(FRAME_HEADER.size, deadline))
        if size > MAX_JSON_BYTES or length > most:
            raise InvalidFrame("an answer beyond the limits")
        return self._read(size, deadline), self._read(length, deadline)

    def _read(self, size: int, deadline: float) -> bytes:
        """Exactly `size` bytes. Raises Ended when the process dies or the time is up."""
        pipe = self._process.stdout
        if pipe is None:
            raise ParserExited(self._process.wait())
        waiter = select.poll()
        waiter.register(pipe, select.POLLIN)
        pieces = bytearray()
        while len(pieces) < size:
            if not waiter.poll(max(0.0, deadline - time.monotonic()) * 1000):
                self.kill()
                self._process.wait()
                raise ParserExited(None)
            piece = os.read(pipe.fileno(), min(size - len(pieces), MB))
            if not piece:
                raise ParserExited(self._process.wait())
            pieces += piece
        return bytes(pieces)


def _process_environment() -> dict[str, str]:
    """Ours without keys and passwords; one thread for number crunching, whose stacks count as memory."""
    kept = {name: value for name, value in os.environ.items() if not _SECRET_VARIABLE.search(name)}
    return {**kept, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}
