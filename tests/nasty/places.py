"""26 things that a folder may hold beside honest files, and files that change while a run looks at them."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path

from tests.nasty.case import Failed, Outcome, Skipped, Text

OUT = Skipped("link to a path outside the folder")
NOWHERE = Skipped("broken link")
TOO_LARGE = Skipped("larger than 50 MB")
LONG_NAME = "n" * 251 + ".txt"
BAD_BYTES = os.fsdecode(b"caf\xff.txt")
DEEP = "d" * 200


def make_places(folder: Path, outside: Path) -> None:
    """Fill a folder; `outside` gets what must stay out."""
    outside.mkdir()
    (outside / "hard.txt").write_text("words of a hard link")
    os.mkfifo(folder / "pipe.txt")
    with contextlib.chdir(folder), socket.socket(socket.AF_UNIX) as server:  # the path of a socket must be short
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
    """What happens to a file right after it was found: the run has seen it, and has not yet read it."""
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


def _own(name: str) -> Text:
    return Text(f"words of {os.fsencode(name)!r}")


OUTCOMES: Mapping[str, Outcome] = {
    "pipe.txt": Skipped("a named pipe, not a regular file"),
    "socket.txt": Skipped("a socket, not a regular file"),
    "zero.txt": OUT,
    "passwd.txt": OUT,
    "loop": Skipped("link"),
    "self.txt": NOWHERE,
    "gone.txt": NOWHERE,
    "hard.txt": Text("words of a hard link"),
    "unreadable.txt": Failed("permission denied"),
    "closed": Skipped("folder: permission denied"),
    "vanishes.txt": Failed("does not exist"),
    "grows.txt": Text("as it was found and more"),
    "replaced.txt": Failed("a named pipe, not a regular file"),
    "becomes/file.txt": Failed("does not exist"),
    "new\nline.txt": _own("new\nline.txt"),
    "caf\\xff.txt": _own(BAD_BYTES),
    LONG_NAME: _own(LONG_NAME),
    "long": Skipped("folder: the path is too long"),
    "case.txt": _own("case.txt"),
    "CASE.txt": _own("CASE.txt"),
    "n\u00e9.txt": _own("n\u00e9.txt"),
    "ne\u0301.txt": _own("ne\u0301.txt"),
    "-rf": _own("-rf"),
    "terabyte.txt": TOO_LARGE,
    "base": Skipped("knowledge base"),
    "txt-gigabyte-line.txt": TOO_LARGE,
}
"""Name -> what becomes of it. The other device and the 100,000 files have runs of their own."""
EXTRA = 2
"""Files above beyond one for each case: two names that differ in case, or in their form, take two."""
