"""26 unusual directory entries: links, pipes, unreadable files, odd names, and files that change during a run."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path

from tests.hostile.case import Failed, Outcome, Skipped, Text

OUTSIDE = Skipped("link to a path outside the folder")
BROKEN_LINK = Skipped("broken link")
TOO_LARGE = Skipped("larger than 50 MB")
LONG_NAME = "n" * 251 + ".txt"
BAD_BYTES = os.fsdecode(b"caf\xff.txt")
DEEP = "d" * 200


def make_places(folder: Path, outside: Path) -> None:
    """Create the entries; `outside` gets files that must not be indexed."""
    outside.mkdir()
    (outside / "hard.txt").write_text("words of a hard link")
    os.mkfifo(folder / "pipe.txt")
    with contextlib.chdir(folder), socket.socket(socket.AF_UNIX) as server:  # socket paths are limited in length
        server.bind("socket.txt")
    links = {
        "zero.txt": "/dev/zero",
        "passwd.txt": "/etc/passwd",
        "loop": ".",
        "self.txt": "self.txt",
        "gone.txt": "no",
    }
    for name, target in links.items():
        (folder / name).symlink_to(target)
    (folder / "hard.txt").hardlink_to(outside / "hard.txt")
    (folder / "unreadable.txt").write_text("x")
    (folder / "unreadable.txt").chmod(0)
    (folder / "closed").mkdir()
    (folder / "closed/x.txt").write_text("x")
    (folder / "closed").chmod(0)
    for name in ("vanishes.txt", "grows.txt", "replaced.txt"):
        (folder / name).write_text("as it was found")
    (folder / "becomes").mkdir()
    (folder / "becomes/file.txt").write_text("as it was found")
    for name in ("new\nline.txt", BAD_BYTES, LONG_NAME, "case.txt", "CASE.txt", "n\u00e9.txt", "ne\u0301.txt", "-rf"):
        (folder / name).write_text(f"words of {os.fsencode(name)!r}")
    with contextlib.chdir(folder):
        Path("long").mkdir()
        os.chdir("long")
        for _ in range(21):
            Path(DEEP).mkdir()
            os.chdir(DEEP)
    for name, size in (("terabyte.txt", 1 << 40), ("txt-gigabyte-line.txt", 1 << 30)):
        with (folder / name).open("wb") as file:
            file.truncate(size)
    (folder / "base").mkdir()
    (folder / "base/ragkit-kb.json").write_text("{}")
    (folder / "base/notes.txt").write_text("x")


def change(path: Path) -> None:
    """Change a file after the scan and before it is read."""
    if path.name == "vanishes.txt":
        path.unlink()
    elif path.name == "grows.txt":
        path.write_text(path.read_text() + " and more")
    elif path.name == "replaced.txt":
        path.unlink()
        os.mkfifo(path)
    elif path.parent.name == "becomes":
        shutil.rmtree(path.parent)
        path.parent.write_text("a file now")


def _name_as_text(name: str) -> Text:
    return Text(f"words of {os.fsencode(name)!r}")


OUTCOMES: Mapping[str, Outcome] = {
    "pipe.txt": Skipped("a named pipe, not a regular file"),
    "socket.txt": Skipped("a socket, not a regular file"),
    "zero.txt": OUTSIDE,
    "passwd.txt": OUTSIDE,
    "loop": Skipped("link"),
    "self.txt": BROKEN_LINK,
    "gone.txt": BROKEN_LINK,
    "hard.txt": Text("words of a hard link"),
    "unreadable.txt": Failed("permission denied"),
    "closed": Skipped("folder: permission denied"),
    "vanishes.txt": Failed("does not exist"),
    "grows.txt": Text("as it was found and more"),
    "replaced.txt": Failed("a named pipe, not a regular file"),
    "becomes/file.txt": Failed("does not exist"),
    "new\nline.txt": _name_as_text("new\nline.txt"),
    "caf\\xff.txt": _name_as_text(BAD_BYTES),
    LONG_NAME: _name_as_text(LONG_NAME),
    "long": Skipped("folder: the path is too long"),
    "case.txt": _name_as_text("case.txt"),
    "CASE.txt": _name_as_text("CASE.txt"),
    "n\u00e9.txt": _name_as_text("n\u00e9.txt"),
    "ne\u0301.txt": _name_as_text("ne\u0301.txt"),
    "-rf": _name_as_text("-rf"),
    "terabyte.txt": TOO_LARGE,
    "base": Skipped("knowledge base"),
    "txt-gigabyte-line.txt": TOO_LARGE,
}
"""Name -> outcome; another device and 100,000 files have separate tests."""
EXTRA = 2
"""Additional files: two cases (upper and lower case, Unicode normalization) need two files each."""
