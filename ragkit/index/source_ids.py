"""How a file's path becomes the name of a source, and back.

A name is UTF-8 text, since it goes into SQLite and JSON; a path on disk may hold any byte but NUL.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

_ESCAPED_BYTE = re.compile(r"\\x([0-9a-f]{2})")


def source_id(path: Path) -> str:
    r"""The path as text; a byte that is not UTF-8 is written as \xHH."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def source_path(name: str) -> Path:
    r"""The path that `source_id` was given. A name that holds a literal \xHH is taken as it stands if it exists."""
    path = Path(name)
    if not _ESCAPED_BYTE.search(name) or path.exists():
        return path
    raw = _ESCAPED_BYTE.sub(lambda match: chr(0xDC00 + int(match[1], 16)), name)
    return Path(raw)


def is_within(name: str, root: str) -> bool:
    """Whether a source is `root` itself or lies below it. Below a URL lies nothing: a page is no folder."""
    return name == root or ("://" not in root and name.startswith(root.rstrip("/") + "/"))


def display_name(name: str, base: Path | None = None) -> str:
    """The name as a person wants to read it: relative to `base` (the working directory) when it lies below."""
    root = str(base or os.getcwd())  # noqa: PTH109 - a server does this for every passage
    return name[len(root.rstrip("/")) + 1 :] if is_within(name, root) and name != root else name
