"""Starts the worker process of a store, sends it requests, monitors its memory and terminates it."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from ragkit.bench.measure import BenchJob
from ragkit.records import JSON

SINGLE_THREAD_ENV = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "RAYON_NUM_THREADS"), "1"
)
"""Limits libraries that split one search among several threads to one thread."""
POLL_SECONDS = 0.02
"""Interval of the memory samples."""


class StoreProcessFailed(Exception):  # internal to this package, never raised to a caller
    """The process of a store ended with an error; `is_missing` if a package or the store itself is missing."""

    def __init__(self, reason: str, missing: bool = False) -> None:
        super().__init__(reason, missing)
        self.reason, self.is_missing = reason, missing

    def __str__(self) -> str:
        return self.reason


class StoreTimeout(StoreProcessFailed):
    """A store exceeded its time limit."""


class StoreProcess:
    """The worker process of one store, with a directory of its own."""

    def __init__(self, job: BenchJob, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "job.json"
        path.write_text(json.dumps(asdict(job)))
        self._stderr_path = folder / "stderr.txt"
        with self._stderr_path.open("wb") as stderr:
            self._process = subprocess.Popen(  # noqa: S603 - runs this package
                [sys.executable, "-m", "ragkit.bench.worker", str(path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env={**os.environ, **SINGLE_THREAD_ENV},
                start_new_session=True,  # Ctrl-C reaches only the parent, which terminates the worker
            )
        self._buffer = b""
        self.pid = self._process.pid
        self.memory = MemoryMonitor(self.pid)

    def request(self, method: str, seconds: float, **arguments: JSON) -> dict[str, JSON]:
        """Call a method of the worker's StoreBench.

        Raises:
            StoreProcessFailed: the worker ended with an error.
            StoreTimeout: there was no response within `seconds`.
        """
        assert self._process.stdin is not None  # noqa: S101 - it was started with pipes
        with suppress(BrokenPipeError):  # the worker has ended; reading the response reports why
            self._process.stdin.write(json.dumps({"do": method, "with": arguments}).encode() + b"\n")
            self._process.stdin.flush()
        response: dict[str, JSON] = json.loads(self._read_line(time.monotonic() + seconds))
        return response

    def _read_line(self, deadline: float) -> bytes:
        assert self._process.stdout is not None  # noqa: S101 - as above
        pipe = self._process.stdout.fileno()
        while b"\n" not in self._buffer:
            ready = select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]
            if not ready:
                raise StoreTimeout("time limit exceeded")
            piece = os.read(pipe, 1 << 16)
            if not piece:
                raise self._exit_error()
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _exit_error(self) -> StoreProcessFailed:
        code = self._process.wait()
        if code < 0:
            return StoreProcessFailed(f"worker process was killed by {signal.Signals(-code).name}")
        lines = self._stderr_path.read_text("utf-8", "replace").strip().splitlines() or ["worker process exited"]
        last = next((line for line in reversed(lines) if ": " in line and not line.startswith(" ")), lines[-1])
        kind, _, reason = last.partition(": ")
        if not kind.startswith("ragkit.errors."):
            return StoreProcessFailed(last)
        return StoreProcessFailed(reason, missing=kind.rpartition(".")[2] in {"MissingExtra", "UnknownName"})

    def terminate(self) -> None:
        """Kill the process. Safe to call twice."""
        self.memory.stop()
        if self._process.poll() is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()


class MemoryMonitor:
    """Samples the peak memory of a process. Reports 0 on systems without /proc."""

    def __init__(self, process: int) -> None:
        self._status_path = Path(f"/proc/{process}/status")
        self._stopped = threading.Event()
        self.peak_bytes = self.current_bytes()
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()

    def current_bytes(self) -> int:
        """Resident memory in bytes, including mapped files; 0 if unknown."""
        with suppress(OSError, ValueError):
            for line in self._status_path.read_text().splitlines():
                if line.startswith("VmRSS:"):
                    return int(line.split()[1]) * 1024
        return 0

    def reset_peak(self) -> int:
        """Reset the peak and return the current memory in bytes."""
        self.peak_bytes = self.current_bytes()
        return self.peak_bytes

    def stop(self) -> None:
        """Stop sampling."""
        self._stopped.set()
        self._thread.join()

    def _poll(self) -> None:
        while not self._stopped.wait(POLL_SECONDS):
            self.peak_bytes = max(self.peak_bytes, self.current_bytes())


def folder_bytes(folder: Path) -> int:
    """Disk usage of the files in a directory, in bytes."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


def drop_page_cache(folder: Path) -> None:
    """Evict the files of a directory from the page cache, on systems with posix_fadvise."""
    for path in folder.rglob("*") if hasattr(os, "posix_fadvise") else ():
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
