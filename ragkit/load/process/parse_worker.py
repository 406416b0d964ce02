"""The parser process: reads groups of tasks from standard input and writes a result for each to standard output.

Started by `parse_pool` only. It sets its own resource limits, so that they hold when the parent does not respond.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from pathlib import Path
from typing import BinaryIO

from ragkit.errors import LoadError, LoadLimitExceeded
from ragkit.load.files.file_io import MB
from ragkit.load.process.ipc import WORKING, encode_frame, encode_result, read_request
from ragkit.load.process.parser_state import reduce_gc, set_time_limit_restart
from ragkit.load.process.parsing import ParseFailure, ParseLimits, ParseTask, memory_limit_error, parse_file
from ragkit.load.router import Router

MAX_OUTPUT_FILE_BYTES = 64 * MB
"""The largest file that this process may write."""

PR_SET_PDEATHSIG = 1
STATM_PATH = Path("/proc/self/statm")
"""Starts with the size of the address space, which is what is limited; `ru_maxrss` starts with the parent's peak."""


def main() -> None:
    """Process tasks until the parent closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # output of a parser must not mix with the frames
    setup = read_request(requests)
    if setup is None:
        return
    limits, routes, parent = setup
    exit_with_parent(parent)
    _set_resource_limits(limits)
    reduce_gc()
    router = Router(routes)
    _send(replies, encode_frame({"ready": True}))
    while (tasks := read_request(requests)) is not None:
        for task in tasks:
            if _process_task(replies, task, router, limits):
                return


def _process_task(replies: BinaryIO, task: ParseTask, router: Router, limits: ParseLimits) -> bool:
    """Parse one file and send the result. True when this process is too large for another file."""

    def restart() -> None:
        signal.setitimer(signal.ITIMER_REAL, limits.timeout_s)  # its signal ends the process, even inside C code
        _send(replies, encode_frame(WORKING))

    signal.setitimer(signal.ITIMER_REAL, limits.timeout_s)
    set_time_limit_restart(restart)
    try:
        outcome = parse_file(task, router, limits)
        limited = isinstance(outcome, ParseFailure) and isinstance(outcome.error, LoadLimitExceeded)
        last = limited or _exceeds_memory(limits)
        frame = encode_result(outcome, last=last)
    except MemoryError:
        failure = ParseFailure(task, memory_limit_error(task.source, limits))
        last, frame = True, encode_result(failure, last=True)
    except (TypeError, ValueError, RecursionError) as error:
        reason = f"the loader returned metadata that is not JSON ({error})"
        failure = ParseFailure(task, LoadError(task.source, reason, "report it to the author of the loader"))
        last, frame = False, encode_result(failure, last=False)
    signal.setitimer(signal.ITIMER_REAL, 0)
    _send(replies, frame)
    return last


def _exceeds_memory(limits: ParseLimits) -> bool:
    """Whether the memory in use leaves too little for the next file."""
    try:
        pages = int(STATM_PATH.read_text("ascii").split()[0])
    except OSError:
        return False  # not Linux: a process that runs out of memory exits, and the file is retried in a new one
    return pages * resource.getpagesize() > limits.max_memory_mb * MB / 2


def exit_with_parent(parent: int) -> None:
    """Exit when the parent process exits: at once on Linux, elsewhere after the current file (closed pipe)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(0)  # the parent exited before the call


def _set_resource_limits(limits: ParseLimits) -> None:
    for limit, value in (
        (resource.RLIMIT_AS, limits.max_memory_mb * MB),
        (resource.RLIMIT_FSIZE, MAX_OUTPUT_FILE_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(limit)
        soft = value if hard == resource.RLIM_INFINITY else min(value, hard)
        try:
            resource.setrlimit(limit, (soft, soft))
        except (OSError, ValueError):
            continue  # not supported on this system; the timeout still applies


def _send(replies: BinaryIO, frame: bytes) -> None:
    replies.write(frame)
    replies.flush()
