"""The other end of a store's process: starts it, asks it, watches its memory, and ends it."""

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
"""Libraries that share out one search among several threads are told not to."""
POLL_SECONDS = 0.02
"""Between two looks at the memory."""


class StoreProcessFailed(Exception):  # a signal inside this package, never seen by a caller
    """The process of a store ended with an error; `missing` where what it needs is not here."""

    def __init__(self, reason: str, missing: bool = False) -> None:
        super().__init__(reason, missing)
        self.reason, self.is_missing = reason, missing

    def __str__(self) -> str:
        return self.reason


class StoreTimeout(StoreProcessFailed):
    """A store took longer than it may."""


class StoreProcess:
    """A process with one store. `folder` is for its files alone."""

    def __init__(self, job: BenchJob, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "job.json"
        path.write_text(json.dumps(asdict(job)))
        self._stderr_path = folder / "said.txt"
        with self._stderr_path.open("wb") as said:
            self._process = subprocess.Popen(  # noqa: S603 - this very program
                [sys.executable, "-m", "ragkit.bench.worker", str(path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                env={**os.environ, **SINGLE_THREAD_ENV},
                start_new_session=True,  # an interrupt is for us to deal with, and reaches it when we end it
            )
        self._buffer = b""
        self.pid = self._process.pid
        self.memory = MemoryMonitor(self.pid)

    def request(self, what: str, seconds: float, **arguments: JSON) -> dict[str, JSON]:
        """Have it do something. Raises StoreProcessFailed with its reason, or StoreTimeout after so many seconds."""
        assert self._process.stdin is not None  # noqa: S101 - it was started with pipes
        with suppress(BrokenPipeError):  # it has ended: reading tells why
            self._process.stdin.write(json.dumps({"do": what, "with": arguments}).encode() + b"\n")
            self._process.stdin.flush()
        answer: dict[str, JSON] = json.loads(self._read_line(time.monotonic() + seconds))
        return answer

    def _read_line(self, deadline: float) -> bytes:
        assert self._process.stdout is not None  # noqa: S101 - as above
        pipe = self._process.stdout.fileno()
        while b"\n" not in self._buffer:
            ready = select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]
            if not ready:
                raise StoreTimeout("reached its time limit")
            piece = os.read(pipe, 1 << 16)
            if not piece:
                raise self._exit_error()
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _exit_error(self) -> StoreProcessFailed:
        code = self._process.wait()
        if code < 0:
            return StoreProcessFailed(f"its process was ended by {signal.Signals(-code).name}")
        lines = self._stderr_path.read_text("utf-8", "replace").strip().splitlines() or ["its process ended"]
        last = next((line for line in reversed(lines) if ": " in line and not line.startswith(" ")), lines[-1])
        kind, _, reason = last.partition(": ")
        if not kind.startswith("ragkit.errors."):
            return StoreProcessFailed(last)
        return StoreProcessFailed(reason, missing=kind.rpartition(".")[2] in {"MissingExtra", "UnknownName"})

    def terminate(self) -> None:
        """End it, however it is. Ending twice is fine."""
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
    """The most memory that a process had at once, by looking often. Knows nothing where there is no /proc."""

    def __init__(self, process: int) -> None:
        self._status_path = Path(f"/proc/{process}/status")
        self._stopped = threading.Event()
        self.peak_bytes = self.current_bytes()
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()

    def current_bytes(self) -> int:
        """Resident bytes, mapped files included; 0 where nobody knows."""
        with suppress(OSError, ValueError):
            for line in self._status_path.read_text().splitlines():
                if line.startswith("VmRSS:"):
                    return int(line.split()[1]) * 1024
        return 0

    def reset_peak(self) -> int:
        """Forget the peak; returns what there is now."""
        self.peak_bytes = self.current_bytes()
        return self.peak_bytes

    def stop(self) -> None:
        """Look no more."""
        self._stopped.set()
        self._thread.join()

    def _poll(self) -> None:
        while not self._stopped.wait(POLL_SECONDS):
            self.peak_bytes = max(self.peak_bytes, self.current_bytes())


def folder_bytes(folder: Path) -> int:
    """What the files of a folder take on the disk."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


def drop_page_cache(folder: Path) -> None:
    """Have the system forget what it holds of these files in memory, where it can be asked to."""
    for path in folder.rglob("*") if hasattr(os, "posix_fadvise") else ():
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
