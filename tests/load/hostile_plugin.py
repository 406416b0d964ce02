"""A plugin with a loader that misbehaves like a parser of malicious files; the file's content selects how.

The tests install it as `hostile` beside ragkit, so that worker processes find it as they find any plugin.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping

from ragkit.records import Document, Heading


def _spin() -> None:
    while True:
        pass


def _sleep_in_c() -> None:
    ctypes.CDLL(None).sleep(60)


def _crash() -> None:
    ctypes.string_at(0)


def _exhaust_memory() -> None:
    blocks = []
    while True:
        blocks.append(bytes(50_000_000))  # untouched memory: the limit is reached quickly


def _recurse() -> None:
    _recurse()


def _chatter() -> None:
    sys.stdout.write("noise " * 1000)
    os.write(1, b"more noise")
    sys.stdout.flush()


def _divide() -> None:
    raise ZeroDivisionError("by a hostile file")


LEAKED_BLOCKS: list[bytes] = []


def _grow() -> None:
    LEAKED_BLOCKS.append(bytes(330_000_000))


BEHAVIORS: Mapping[str, Callable[[], None]] = {
    "chatter": _chatter,
    "crash": _crash,
    "divide": _divide,
    "exhaust memory": _exhaust_memory,
    "exit": lambda: os._exit(3),
    "grow": _grow,
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "nothing": lambda: None,
    "recurse": _recurse,
    "sleep": lambda: time.sleep(60),
    "sleep in c": _sleep_in_c,
    "spin": _spin,
}


class HostileLoader:
    """Runs the behavior that the file names, then returns a Document with the process id."""

    version = "7"

    def load(self, data: bytes, source: str) -> Document:
        """Run the behavior that `data` names."""
        words = data.decode()
        if words.startswith("long "):
            return Document(text="x" * int(words[5:]))
        if words == "nonsense":
            return Document(text="x", headings=(Heading(99, 1, "beyond the end"),))
        BEHAVIORS[words]()
        return Document(text=f"{words} by {os.getpid()}", source=source)
