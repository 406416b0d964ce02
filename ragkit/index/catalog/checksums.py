"""Checksums of the files of a knowledge base, to detect corruption before a search returns wrong results.

SQLite detects few flipped bits, a raw matrix detects none. An index run ends by writing the size and CRC-32 of every
file to the checksum file; opening the knowledge base compares them. During a write session there is no checksum file;
`row_checks` verifies single rows instead.
"""

from __future__ import annotations

import fcntl
import json
import os
import zlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragkit.store.sqlite_files import open_shared_handle

CHECKSUM_FILE = "seal.json"
_BLOCK_BYTES = 1 << 18
"""Bytes read at a time: they stay in the cache of the processor until their checksum is computed."""


@dataclass(frozen=True)
class FileChange:
    """A file that differs from its recorded size or checksum."""

    file: str
    reason: str


def write_file_durably(path: Path, data: bytes) -> None:
    """Replace a file atomically: after a power failure it has either the old content or the new content.

    Processes that replace the same file at once do so one after another.
    """
    temporary = path.with_name(path.name + ".new")
    handle = _open_locked(temporary)
    try:
        os.ftruncate(handle, 0)
        with os.fdopen(handle, "wb", closefd=False) as stream:
            stream.write(data)
        os.fsync(handle)
        temporary.rename(path)
    finally:
        os.close(handle)
    fsync_directory(path.parent)


def _open_locked(path: Path) -> int:
    """Open a temporary file for writing. Waits while another process writes it, which then renames or leaves it."""
    while True:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            with suppress(FileNotFoundError):
                if os.path.samestat(path.stat(), os.fstat(handle)):
                    return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def fsync_directory(path: Path) -> None:
    """Flush a directory, so that renames and new files in it survive a power failure."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_checksums(directory: Path, names: Iterable[str]) -> None:
    """Record size and checksum of the files. The caller holds the writer lock and has flushed everything."""
    files = {name: {"size": (directory / name).stat().st_size, "crc": _file_crc32(directory / name)} for name in names}
    write_checked_json(directory / CHECKSUM_FILE, "files", files)


def delete_checksums(directory: Path) -> None:
    """Delete the checksum file. Called before anything is changed."""
    (directory / CHECKSUM_FILE).unlink(missing_ok=True)
    fsync_directory(directory)


def read_checksums(directory: Path) -> dict[str, dict[str, int]] | None:
    """Recorded size and checksum by file name; None if the checksum file is missing or damaged."""
    files: dict[str, dict[str, int]] | None = read_checked_json(directory / CHECKSUM_FILE, "files")
    return files


def find_changed_files(directory: Path) -> list[FileChange]:
    """The files that differ from their recorded checksums; empty if there is no checksum file."""
    changes = []
    for name, recorded in (read_checksums(directory) or {}).items():
        path = directory / name
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            changes.append(FileChange(name, "is missing"))
            continue
        if size != recorded["size"]:
            changes.append(FileChange(name, f"has {size} bytes, expected {recorded['size']}"))
        elif _file_crc32(path) != recorded["crc"]:
            changes.append(FileChange(name, "has a checksum mismatch"))
    return changes


def write_checked_json(path: Path, key: str, body: object) -> None:
    """Write `body` as JSON text under `key`, together with its CRC-32."""
    text = json.dumps(body, sort_keys=True)
    write_file_durably(path, json.dumps({key: text, "crc": zlib.crc32(text.encode())}).encode())


def read_checked_json(path: Path, key: str) -> Any:
    """What `write_checked_json` wrote; None if the file is missing or damaged."""
    try:
        outer = json.loads(path.read_bytes())
        text = outer[key]
        return json.loads(text) if zlib.crc32(text.encode()) == outer["crc"] else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _file_crc32(path: Path) -> int:
    crc = offset = 0
    block = memoryview(bytearray(_BLOCK_BYTES))  # one for all reads: new memory costs as much as the checksum
    with open_shared_handle(path) as handle:
        while size := os.preadv(handle, [block], offset):
            crc, offset = zlib.crc32(block[:size], crc), offset + size
    return crc
