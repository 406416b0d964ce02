"""Parse files in worker processes, so that a malicious or damaged file cannot hang or crash an index run.

A process that dies or exceeds the timeout is replaced; only its current file fails. Results are in order.
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
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path

from ragkit.errors import InvalidOption, LoadError, LoadLimitExceeded, RagkitError
from ragkit.load.files.file_groups import group_files
from ragkit.load.files.file_io import MB
from ragkit.load.process.ipc import (
    FRAME_HEADER,
    MAX_JSON_BYTES,
    WORKING,
    InvalidFrame,
    decode_json,
    decode_result,
    encode_request,
)
from ragkit.load.process.parsing import (
    MemoryLimitExceeded,
    ParsedFile,
    ParseFailure,
    ParseLimits,
    ParseTask,
    parse_file,
)
from ragkit.load.router import LoaderRoute, Router

GROUP_FILES, GROUP_BYTES = 16, MB // 64
"""Files that a process gets in one message, and their total size; a single file can be larger."""
MAX_PENDING_PER_PROCESS = 4
"""Groups of files per process that are being parsed or wait for the caller."""

STARTUP_TIMEOUT_S = 30.0

GRACE_PERIOD_S = 5.0
"""Time after the timeout until a process that did not exit is killed."""

_STARTUP_CODE = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]); from ragkit.load.process.parse_worker import main; main()"
)
_SECRET_VARIABLE = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)


class ParserExited(Exception):
    """A parser process exited; `exit_code` as in `subprocess`, None after a timeout."""

    def __init__(self, exit_code: int | None) -> None:
        super().__init__(exit_code)
        self.exit_code = exit_code


class ParsePool:
    """Up to `jobs` parser processes; with 0, this process parses, without a timeout.

    Processes are started on demand. Use the pool as a context manager, or call `close`.
    """

    def __init__(self, jobs: int, limits: ParseLimits | None = None, routes: Sequence[LoaderRoute] = ()) -> None:
        """Raises InvalidOption for a negative number of jobs, UnknownName for an unknown loader."""
        if jobs < 0:
            raise InvalidOption("jobs", jobs, ">= 0")
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

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill all processes; files that are being parsed are cancelled. Further calls do nothing."""
        with self._lock:
            self._closed = True
            processes = list(self._processes)
        for process in processes:
            process.kill()
        if self._threads is not None:
            self._threads.shutdown(wait=True, cancel_futures=True)
        for process in processes:
            process.close()
        self._processes.clear()

    def parse(self, tasks: Iterable[ParseTask]) -> Iterator[ParsedFile | ParseFailure]:
        """The results of the tasks, in order.

        Lazy: at most `MAX_PENDING_PER_PROCESS` tasks per process are ahead of the caller.

        Raises:
            RagkitError: a process cannot be started, or the pool is closed.
        """
        if self.jobs == 0:
            for task in tasks:
                yield parse_file(task, self._router, self.limits)
            return
        waiting: deque[list[Future[ParsedFile | ParseFailure]]] = deque()
        try:
            for group in group_files(tasks, GROUP_FILES, GROUP_BYTES):
                waiting.append(self._submit(group))
                if len(waiting) >= MAX_PENDING_PER_PROCESS * self.jobs:
                    yield from (future.result() for future in waiting.popleft())
            while waiting:
                yield from (future.result() for future in waiting.popleft())
        finally:
            for future in chain.from_iterable(waiting):
                future.cancel()

    def parse_group(self, tasks: Sequence[ParseTask]) -> Iterator[ParsedFile | ParseFailure]:
        """The results of a few tasks, in order, from one process and without a thread that waits for it.

        The process gets all of them in one message: for a small file, a message takes as long as parsing. Raises as
        `parse`.
        """
        if self._closed:
            raise RagkitError("the ParsePool is closed: create a new one")
        if self.jobs == 0:
            yield from (parse_file(task, self._router, self.limits) for task in tasks)
            return
        remaining = deque(tasks)
        while remaining:
            process, reused = self._acquire_process()
            yield from self._parse_in(process, remaining, reused=reused)

    def _submit(self, tasks: Sequence[ParseTask]) -> list[Future[ParsedFile | ParseFailure]]:
        with self._lock:
            if self._closed:
                raise RagkitError("the ParsePool is closed: create a new one")
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self.jobs, thread_name_prefix="ragkit-load")
            futures: list[Future[ParsedFile | ParseFailure]] = [Future() for _ in tasks]
            group = self._threads.submit(self._run_group, tasks, futures)
        group.add_done_callback(lambda _: [future.cancel() for future in futures])  # those that have no result
        return futures

    def _run_group(self, tasks: Sequence[ParseTask], futures: Sequence[Future[ParsedFile | ParseFailure]]) -> None:
        """Run tasks in an idle process. Called in a thread, which only waits."""
        waiting = deque(futures)
        try:
            for outcome in self.parse_group(tasks):
                if not waiting[0].set_running_or_notify_cancel():
                    return  # the caller has left
                waiting.popleft().set_result(outcome)
        except BaseException as error:  # noqa: BLE001 - raised in the thread of the caller
            if waiting[0].set_running_or_notify_cancel():
                waiting[0].set_exception(error)

    def _parse_in(
        self, process: _ParserProcess, remaining: deque[ParseTask], *, reused: bool
    ) -> Iterator[ParsedFile | ParseFailure]:
        """Results of the remaining tasks, each of which is removed; all of them, unless the process exits."""
        is_idle = False
        try:
            process.send(remaining)
            while remaining:
                outcome, exits, exit_code = self._receive(process, remaining[0])
                if exits:
                    self._discard_process(process)
                if reused and _should_retry(outcome, exit_code):
                    [outcome] = self._parse_in(self._start_process(), deque([remaining[0]]), reused=False)
                remaining.popleft()
                yield outcome
                if exits:
                    return
                reused = True
            is_idle = True
        finally:
            if is_idle:
                self._idle_processes.put(process)
            else:
                self._discard_process(process)

    def _receive(self, process: _ParserProcess, task: ParseTask) -> tuple[ParsedFile | ParseFailure, bool, int]:
        """The outcome of a task, whether the process exits after it, and the exit code if it died of it (else 0)."""
        try:
            return *process.receive(task, self.limits), 0
        except ParserExited as exited:
            error = _exit_error(task.source, exited.exit_code, self.limits)
            return ParseFailure(task, error), True, exited.exit_code or 0
        except InvalidFrame:
            error = LoadError(task.source, "the parser returned an invalid result", "exclude it")
            return ParseFailure(task, error), True, 0

    def _acquire_process(self) -> tuple[_ParserProcess, bool]:
        """An idle or new process, and whether it has parsed files before."""
        try:
            return self._idle_processes.get_nowait(), True
        except queue.Empty:
            return self._start_process(), False

    def _start_process(self) -> _ParserProcess:
        with self._lock:
            if self._closed:
                raise RagkitError("the ParsePool is closed: create a new one")
            process = _ParserProcess()
            self._processes.add(process)
        try:
            process.initialize(encode_request((self.limits, self._routes, os.getpid())))
        except BaseException:
            self._discard_process(process)
            raise
        return process

    def _discard_process(self, process: _ParserProcess) -> None:
        process.close()
        with self._lock:
            self._processes.discard(process)


def _should_retry(outcome: ParsedFile | ParseFailure, exit_code: int) -> bool:
    """Whether an earlier file may have caused the failure, so that a new process may succeed."""
    if exit_code:
        return -exit_code != signal.SIGALRM
    return isinstance(outcome, ParseFailure) and isinstance(outcome.error, MemoryLimitExceeded)


def _exit_error(source: str, exit_code: int | None, limits: ParseLimits) -> LoadError:
    """The error of a process that exited without a result."""
    if exit_code is None or -exit_code == signal.SIGALRM:
        reason = f"timed out after {limits.timeout_s:g} seconds"
        return LoadLimitExceeded(source, reason, "raise max_seconds, or exclude it")
    if -exit_code == signal.SIGKILL:
        return LoadLimitExceeded(source, "the parser was killed by the system, probably out of memory", "exclude it")
    if -exit_code == signal.SIGABRT:  # C++ aborts when it runs out of memory
        reason = "the parser aborted (SIGABRT), probably out of memory"
        return LoadLimitExceeded(source, reason, "raise max_memory_mb, or exclude it")
    if exit_code < 0:
        name = signal.Signals(-exit_code).name
        return LoadError(source, f"the parser crashed ({name})", "save it again in its program, or exclude it")
    return LoadError(source, f"the parser exited without a result (exit code {exit_code})", "exclude it")


class _ParserProcess:
    """A parser process and its pipes. Not thread-safe, except for `kill`."""

    def __init__(self) -> None:
        self._stderr_file = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `stop`
        # -P: never import a json.py of the working directory
        flags = ["-P", "-B"] if sys.dont_write_bytecode else ["-P"]
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            [sys.executable, *flags, "-c", _STARTUP_CODE, json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr_file,
            env=_process_environment(),
            start_new_session=True,  # Ctrl-C on the terminal reaches the parent alone
        )
        assert self._process.stdout is not None  # noqa: S101 - a pipe
        self._reply_pipe = self._process.stdout
        self._poller = select.poll()
        self._poller.register(self._reply_pipe, select.POLLIN)
        self._received = bytearray()

    def initialize(self, setup: bytes) -> None:
        """Send the setup, and wait until the process is ready. Raises RagkitError when it cannot start."""
        try:
            self._write(setup)
            self._read_frame(time.monotonic() + STARTUP_TIMEOUT_S, 0)
        except (ParserExited, InvalidFrame) as error:
            self.kill()
            detail = self._last_error_line()
            raise RagkitError(f"the parser process cannot start ({detail}): run `ragkit doctor`") from error

    def send(self, tasks: Iterable[ParseTask]) -> None:
        """Send tasks to an idle process: it reads them all, then parses one after the other."""
        # `resolve` would follow links
        absolute = [replace(task, path=Path(os.path.abspath(task.path))) for task in tasks]  # noqa: PTH100
        with suppress(ParserExited):  # `receive` reports it
            self._write(encode_request(absolute))

    def receive(self, task: ParseTask, limits: ParseLimits) -> tuple[ParsedFile | ParseFailure, bool]:
        """The result of the next task, and whether the process exits after it. Raises ParserExited and InvalidFrame."""
        max_bytes = int(limits.max_text_mb * MB) * 4  # a character takes 4 bytes at most
        while True:
            frame, body = self._read_frame(time.monotonic() + limits.timeout_s + GRACE_PERIOD_S, max_bytes)
            head = decode_json(frame)
            if head != WORKING:  # else its time limit begins anew
                return decode_result(head, body, task)

    def kill(self) -> None:
        """Kill the process."""
        self._process.kill()

    def close(self) -> None:
        """Kill the process and close its pipes."""
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
        return next((line.strip()[:200] for line in reversed(lines) if line.strip()), "no error output")

    def _write(self, frame: bytes) -> None:
        pipe = self._process.stdin
        if pipe is None:
            raise ParserExited(self._process.wait())
        try:
            pipe.write(frame)
            pipe.flush()
        except (OSError, ValueError) as error:
            raise ParserExited(self._process.wait()) from error

    def _read_frame(self, deadline: float, max_bytes: int) -> tuple[bytes, bytes]:
        size, length = FRAME_HEADER.unpack(self._read(FRAME_HEADER.size, deadline))
        if size > MAX_JSON_BYTES or length > max_bytes:
            raise InvalidFrame("the frame is too large")
        return self._read(size, deadline), self._read(length, deadline)

    def _read(self, size: int, deadline: float) -> bytes:
        """Exactly `size` bytes. Raises ParserExited when the process exits or the deadline passes."""
        received = self._received
        while len(received) < size:
            if not self._poller.poll(max(0.0, deadline - time.monotonic()) * 1000):
                self.kill()
                self._process.wait()
                raise ParserExited(None)
            chunk = os.read(self._reply_pipe.fileno(), MB)  # most often a whole frame: one call instead of three
            if not chunk:
                raise ParserExited(self._process.wait())
            received += chunk
        wanted = bytes(received[:size])
        del received[:size]
        return wanted


def _process_environment() -> dict[str, str]:
    """Our environment without secrets; one thread for numeric libraries, because thread stacks count as memory."""
    environment = {name: value for name, value in os.environ.items() if not _SECRET_VARIABLE.search(name)}
    return {**environment, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}
