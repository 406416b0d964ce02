"""Files that a verb writes."""

from __future__ import annotations

from pathlib import Path

from ragkit.errors import RagkitError


def write_file(path: Path, content: str | bytes) -> None:
    """Write a file, and the folders above it where they are missing. Raises RagkitError when that cannot be."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    except OSError as error:
        raise RagkitError(f"{path} cannot be written: {error.strerror}") from error
