"""What a command uses, for tests.

A process begins with the peak memory of the process that started it, which Linux keeps over `exec`, and a process of
tests can be large. So a small process starts the command.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

_STARTER = """
import json, resource, subprocess, sys
code = subprocess.call(sys.argv[2:])
used = resource.getrusage(resource.RUSAGE_CHILDREN)
with open(sys.argv[1], "w") as file:
    json.dump([used.ru_maxrss / 1024, used.ru_utime + used.ru_stime], file)
sys.exit(code)
"""


@dataclass(frozen=True)
class Usage:
    """Of a command and the processes that it waited for."""

    peak_mb: float
    """Of the largest process."""
    cpu_seconds: float


class MeasuredCommand:
    """A command whose usage is written to a file when it ends; it inherits everything from its starter."""

    def __init__(self, command: list[str], file: Path) -> None:
        self.command = [sys.executable, "-S", "-c", _STARTER, str(file), *command]
        self._file = file

    def usage(self) -> Usage:
        """After its end."""
        return Usage(*json.loads(self._file.read_text()))
