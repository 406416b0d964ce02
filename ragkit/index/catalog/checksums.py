"""A digest of every file of a knowledge base at rest, so that an altered file is an error and not an answer.

SQLite notices few flipped bits by itself, and plain matrices notice none. When a run ends, the sizes and
block checksums of its files are written beside them; whoever opens the knowledge base compares.
While a writer is at work there is no seal, and checksums of single rows have to do.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ragkit.store.sqlite_files import open_shared_handle

CHECKSUM_FILE = "seal.json"
_BLOCK_BYTES = 1 << 22
"""Bytes read at a time."""


@dataclass(frozen=True)
class FileChange:
    """A file that is not what it was when the knowledge base was sealed."""

    file: str
    reason: str


def write_file_durably(path: Path, data: bytes) -> None:
    """Replace a file so that after a power cut it is the old one or the new one, whole."""
    temporary = path.with_name(path.name + ".new")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "wb", closefd=False) as stream:
            stream.write(data)
        os.fsync(handle)
    finally:
        os.close(handle)
    temporary.rename(path)
    fsync_directory(path.parent)


def fsync_directory(path: Path) -> None:
    """Make renames and new names in a directory survive a power cut."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_checksums(directory: Path, names: Iterable[str]) -> None:
    """Record the files as they are now. The caller holds the writer's lock and has flushed everything."""
    files = {name: {"size": (directory / name).stat().st_size, "crc": _file_crc32(directory / name)} for name in names}
    body = json.dumps(files, sort_keys=True)
    write_file_durably(
        directory / CHECKSUM_FILE, json.dumps({"files": body, "crc": zlib.crc32(body.encode())}).encode()
    )


def delete_checksums(directory: Path) -> None:
    """Take the seal away before anything is changed."""
    (directory / CHECKSUM_FILE).unlink(missing_ok=True)
    fsync_directory(directory)


def read_checksums(directory: Path) -> dict[str, dict[str, int]] | None:
    """What the seal says, by file name, or None when there is none or it is itself damaged."""
    try:
        outer = json.loads((directory / CHECKSUM_FILE).read_bytes())
        if zlib.crc32(outer["files"].encode()) != outer["crc"]:
            return None
        files: dict[str, dict[str, int]] = json.loads(outer["files"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return files


def find_changed_files(directory: Path) -> list[FileChange]:
    """The files that are not as they were sealed; empty when all are, and when there is no seal."""
    faults = []
    for name, was in (read_checksums(directory) or {}).items():
        path = directory / name
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            faults.append(FileChange(name, "is missing"))
            continue
        if size != was["size"]:
            faults.append(FileChange(name, f"has {size} bytes where {was['size']} were written"))
        elif _file_crc32(path) != was["crc"]:
            faults.append(FileChange(name, "is not what was written (its checksum differs)"))
    return faults


def _file_crc32(path: Path) -> int:
    crc = at = 0
    with open_shared_handle(path) as handle:
        while block := os.pread(handle, _BLOCK_BYTES, at):
            crc, at = zlib.crc32(block, crc), at + len(block)
    return crc
