"""The process that parses: takes tasks on its standard input, answers on its standard output, one at a time.

Started by `workers` only. It bounds itself, so that the limits hold even when its parent looks away.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from pathlib import Path

from ragkit.errors import LoadError, LoadLimitExceeded
from ragkit.load.file_io import MB
from ragkit.load.ipc import FRAME_HEADER, decode_json, decode_setup, decode_task, encode_frame, encode_result
from ragkit.load.parsing import ParseFailure, ParseLimits, ParseTask, parse_file
from ragkit.load.router import Router
from ragkit.records import JSON

MAX_OUTPUT_FILE_BYTES = 64 * MB
"""The largest file that this process may write."""

PR_SET_PDEATHSIG = 1
STATM_PATH = Path("/proc/self/statm")
"""Begins with the size of the address space, which is what is limited; `ru_maxrss` begins with the parent's peak."""


def main() -> None:
    """Parse what is asked for until the parent closes its end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
    requests, replies = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)  # what a parser prints must not get between the frames
    head = _read_frame(requests)
    if head is None:
        return
    limits, routes, parent = decode_setup(head)
    exit_with_parent(parent)
    _set_resource_limits(limits)
    router = Router(routes)
    _write_all(replies, encode_frame({"ready": True}))
    while (head := _read_frame(requests)) is not None:
        path, source, status = decode_task(head)
        last = _process_task(replies, ParseTask(Path(os.fsdecode(path)), source, status), router, limits)
        if last:
            return


def _process_task(replies: int, task: ParseTask, router: Router, limits: ParseLimits) -> bool:
    """Parse one file and send what became of it. True when this process has grown too large for another."""
    signal.setitimer(signal.ITIMER_REAL, limits.timeout_s)  # its signal ends the process, even inside C code
    try:
        outcome = parse_file(task, router, limits)
        last = _exceeds_memory(limits) or (
            isinstance(outcome, ParseFailure) and isinstance(outcome.error, LoadLimitExceeded)
        )
        packed = encode_result(outcome, last=last)
    except MemoryError:
        limit = LoadLimitExceeded(
            task.source, f"needs more than {limits.max_memory_mb} MB of memory", "raise max_memory_mb"
        )
        last, packed = True, encode_result(ParseFailure(task, limit), last=True)
    except (TypeError, ValueError, RecursionError) as error:
        fault = LoadError(task.source, f"its metadata is not what JSON can hold ({error})", "report it to its loader")
        last, packed = False, encode_result(ParseFailure(task, fault), last=False)
    signal.setitimer(signal.ITIMER_REAL, 0)
    _write_all(replies, packed)
    return last


def _exceeds_memory(limits: ParseLimits) -> bool:
    """Whether what is still held leaves too little memory for the next file."""
    try:
        pages = int(STATM_PATH.read_text("ascii").split()[0])
    except OSError:
        return False  # no Linux: a file too many ends the process, and is tried again in a fresh one
    return pages * resource.getpagesize() > limits.max_memory_mb * MB / 2


def exit_with_parent(parent: int) -> None:
    """Ask the system to end this process with its parent; elsewhere the closed pipe does, after the file at hand."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(0)  # it was gone before we could ask


def _set_resource_limits(limits: ParseLimits) -> None:
    for what, most in (
        (resource.RLIMIT_AS, limits.max_memory_mb * MB),
        (resource.RLIMIT_FSIZE, MAX_OUTPUT_FILE_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(what)
        wanted = most if hard == resource.RLIM_INFINITY else min(most, hard)
        try:
            resource.setrlimit(what, (wanted, wanted))
        except (OSError, ValueError):
            continue  # a system without this limit still has the limit of time


def _read_frame(handle: int) -> dict[str, JSON] | None:
    """The next frame's JSON; None once the parent has closed its end."""
    lengths = _read_exactly(handle, FRAME_HEADER.size)
    if lengths is None:
        return None
    size, _ = FRAME_HEADER.unpack(lengths)
    packed = _read_exactly(handle, size)
    return None if packed is None else dict(decode_json(packed))


def _read_exactly(handle: int, size: int) -> bytes | None:
    pieces = b""
    while len(pieces) < size:
        piece = os.read(handle, size - len(pieces))
        if not piece:
            return None
        pieces += piece
    return pieces


def _write_all(handle: int, packed: bytes) -> None:
    view = memoryview(packed)
    while view:
        view = view[os.write(handle, view) :]
