"""Convert file paths to source ids and back.

A source id is UTF-8 text, for SQLite and JSON; a path may contain any byte except NUL.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from ragkit.masking import mask_passwords

_ESCAPED_BYTE = re.compile(r"\\x([0-9a-f]{2})")


def source_id(path: Path) -> str:
    r"""The path as text; bytes that are not valid UTF-8 become \xHH."""
    name = str(path)
    return name if name.isascii() else os.fsencode(name).decode("utf-8", "backslashreplace")


def source_path(name: str) -> Path:
    r"""The path of a source id. A name with a literal \xHH is used unchanged if that path exists."""
    path = Path(name)
    if not _ESCAPED_BYTE.search(name) or path.exists():
        return path
    raw = _ESCAPED_BYTE.sub(lambda match: chr(0xDC00 + int(match[1], 16)), name)
    return Path(raw)


def is_within(name: str, root: str) -> bool:
    """Whether a source is `root` or lies below it. No source lies below a URL."""
    return name == root or ("://" not in root and name.startswith(root.rstrip("/") + "/"))


def display_name(name: str, base: Path | None = None) -> str:
    """The name to display, with passwords masked: relative to `base` (default: the working directory) if below it."""
    root = str(base or os.getcwd())  # noqa: PTH109 - fast: called for every passage
    shown = name[len(root.rstrip("/")) + 1 :] if is_within(name, root) and name != root else name
    return mask_passwords(shown) if "@" in shown else shown
