"""Record the first session of the README in a real terminal, as an asciinema file (asciicast v2).

`python scripts/record_session.py docs/assets/session.cast` runs the commands below in a folder of its own, and writes
what they print with its times; typing and reading are given fixed times, and pauses of the machine are cut, so that
the recording takes at most 90 seconds. Play it with `asciinema play docs/assets/session.cast`.
"""

from __future__ import annotations

import json
import os
import pty
import re
import sys
import tempfile
import time
from pathlib import Path

COLUMNS, ROWS = 100, 30
TYPING_S = 0.04
"""Seconds for each character that is typed."""
READING_S = 3.0
"""Seconds after each command."""
MAX_PAUSE_S = 1.0
"""Longer silence of a command is cut to this."""
LIMIT_S = 90.0
COMMANDS = (
    "ragkit init --sample",
    "ragkit index sample",
    'ragkit ask "How long does a full dewar stay cold?"',
    'ragkit ask "On which shelf are the fuses for the heater of the rain sensor?"',
    'ragkit ask "What is the salary of the Director?"',
    'ragkit search "opening hours of the visitor centre" -k 2',
    "ragkit index sample",
    "ragkit status",
)


def run(command: str, folder: str) -> list[tuple[float, str]]:
    """What a command prints in a terminal: seconds since its start, and text. Raises SystemExit if it fails."""
    environment = {**os.environ, "COLUMNS": str(COLUMNS), "LINES": str(ROWS), "TERM": "xterm-256color"}
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(folder)
        os.execvpe("sh", ["sh", "-c", f"stty cols {COLUMNS} rows {ROWS}; {command}"], environment)
    start, printed = time.monotonic(), bytearray()
    events = []
    while True:
        try:
            data = os.read(terminal, 65536)
        except OSError:  # Linux: the other side is closed
            data = b""
        if not data:
            break
        printed += data
        try:
            text = printed.decode()
        except UnicodeDecodeError:  # the rest of a character follows
            continue
        printed.clear()
        events.append((time.monotonic() - start, text))
    if code := os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]):
        raise SystemExit(f"{command!r} failed with {code}: {''.join(text for _, text in events)}")
    return events


def record() -> list[tuple[float, str]]:
    """The whole session: seconds since its start, and text."""
    now, events = 0.5, []
    with tempfile.TemporaryDirectory() as folder:
        for command in COMMANDS:
            events.append((now, "\x1b[1m$ "))
            for character in command:
                now += TYPING_S
                events.append((now, character))
            events.append((now, "\x1b[0m\r\n"))
            before = 0.0
            for seconds, text in run(command, folder):
                now += min(seconds - before, MAX_PAUSE_S)
                before = seconds
                events.append((now, re.sub(re.escape(folder), "~", text)))
            now += READING_S
    if now > LIMIT_S:
        raise SystemExit(f"the session takes {now:.0f} s; at most {LIMIT_S:.0f} s are wanted")
    return [*events, (now, "")]


def main() -> None:
    """Write the recording to the file of the first argument."""
    header = {"version": 2, "width": COLUMNS, "height": ROWS, "title": "ragkit: index, ask, search"}
    lines = [json.dumps(header), *(json.dumps([round(at, 3), "o", text], ensure_ascii=False) for at, text in record())]
    Path(sys.argv[1]).write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
