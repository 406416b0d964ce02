"""Parser processes of a command under test, forked before the command starts.

`ragkit.load.process.parse_pool` starts each as a new Python, which takes longer than all else that a command on a small
folder does. Here they are forked while the process of the command has one thread; then they do what those of a user do:
the same loop over the same pipes, with the same limits, in a session of their own. More of them start as usual.
"""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import traceback
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

MAX_ADDRESS_SPACE = 900 << 20
"""A parser stops after each file above half of `max_memory_mb`, and an import of a store may be larger than that."""


class ForkedParser:
    """A parser process that waits for its setup; what `parse_pool` uses of a `Popen`."""

    stdin: io.BufferedWriter
    stdout: io.BufferedReader

    def __init__(self, siblings: list[ForkedParser]) -> None:
        requests, replies = os.pipe(), os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            inherited = [stream.fileno() for sibling in siblings for stream in (sibling.stdin, sibling.stdout)]
            for handle in (*inherited, requests[1], replies[0]):
                os.close(handle)  # else the parser would never see that the command is gone
            _parse(requests[0], replies[1])
        os.close(requests[0])
        os.close(replies[1])
        self.stdin = io.BufferedWriter(io.FileIO(requests[1], "wb"))
        self.stdout = io.BufferedReader(io.FileIO(replies[0], "rb"))
        self._code: int | None = None

    def kill(self) -> None:
        """Kill the process, unless it has been waited for."""
        if self._code is None:
            with suppress(ProcessLookupError):  # as `Popen`: Ctrl-C may have come while it was waited for
                os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        """Wait for the end; returns the exit code."""
        if self._code is None:
            try:
                self._code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            except ChildProcessError:
                self._code = 0  # as `Popen`, likewise
        return self._code


def _parse(requests: int, replies: int) -> None:
    """Run a parser in this process until its exit."""
    code = 1
    try:
        os.setsid()
        devnull = os.open(os.devnull, os.O_RDWR)
        for source, target in ((requests, 0), (replies, 1), (devnull, 2)):
            os.dup2(source, target)
        for handle in (requests, replies, devnull):
            os.close(handle)
        from ragkit.load.process.parse_worker import main

        main()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def prepare_parsers() -> None:
    """Fork parsers for the pool of this process, one for each processor. Call it while there is one thread."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
    if pages * os.sysconf("SC_PAGE_SIZE") > MAX_ADDRESS_SPACE:
        return
    parse_pool: Any = import_module("ragkit.load.process.parse_pool")

    sys.stdout.flush()
    sys.stderr.flush()
    ready: list[ForkedParser] = []
    for _ in range(min(2, os.cpu_count() or 1)):
        ready.append(ForkedParser(ready))
    ready.reverse()

    def popen(*arguments: Any, **options: Any) -> Any:
        return ready.pop() if ready else subprocess.Popen(*arguments, **options)

    parse_pool.subprocess = SimpleNamespace(Popen=popen, PIPE=subprocess.PIPE)
