"""Reading one file safely: never a pipe or device, never a link, never half of a change.

Knows nothing of folders (`walk`) and formats (`choose`).
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from ragkit.errors import LoadError, LoadLimitExceeded

MB = 1024 * 1024
READ_SIZE = 4 * MB

_RETRY_HINT = "run again once nothing writes to it"


@dataclass(frozen=True, slots=True)
class FileStat:
    """What tells one state of a file from another without reading it."""

    size: int
    """In bytes."""
    mtime_ns: int
    ctime_ns: int
    inode: int

    @classmethod
    def from_stat(cls, found: os.stat_result) -> FileStat:
        """The four values of what `os.stat` returned."""
        return cls(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


class FileChanged(LoadError):
    """A file that was written to between two looks at it. Reading it again may succeed."""


def describe_file_type(mode: int) -> str:
    """What a file that is no regular file is, in words."""
    kinds = (
        (stat.S_ISFIFO, "a named pipe"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a device"),
        (stat.S_ISBLK, "a device"),
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISLNK, "a link"),
    )
    return next((words for is_kind, words in kinds if is_kind(mode)), "not a regular file")


def read_bytes(path: Path | bytes, expected: FileStat | None, max_bytes: int) -> bytes:
    """The bytes of a regular file. See `read_bytes_with_stat`."""
    return read_bytes_with_stat(path, expected, max_bytes)[0]


def read_bytes_with_stat(path: Path | bytes, expected: FileStat | None, max_bytes: int) -> tuple[bytes, FileStat]:
    """The bytes of a regular file, and the state in which they were read.

    A pipe or device is never opened for longer than it takes to see what it is, and never waited for.

    Args:
        path: the file; a link in its last part is refused.
        expected: the state in which it was found; None: any.
        max_bytes: a larger file is refused.

    Raises:
        FileChanged: its size or time of change is not as expected, or changed while it was read.
        LoadLimitExceeded: it is larger than `max_bytes`.
        LoadError: it is not there, not readable, or no regular file.
    """
    source = os.fsdecode(path)
    handle = _open(path, source)
    try:
        before = os.fstat(handle)
        if not stat.S_ISREG(before.st_mode):
            raise LoadError(source, f"{describe_file_type(before.st_mode)}, not a regular file", "leave it out")
        if expected is not None and (before.st_size, before.st_mtime_ns) != (expected.size, expected.mtime_ns):
            raise FileChanged(source, "changed after it was found", _RETRY_HINT)
        if before.st_size > max_bytes:
            raise LoadLimitExceeded(source, f"larger than {max_bytes / MB:g} MB", "raise max_file_mb")
        data = _read(handle, before.st_size, source)
        after = os.fstat(handle)
    finally:
        os.close(handle)
    if len(data) != before.st_size or (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
        raise FileChanged(source, "changed while it was read", _RETRY_HINT)
    return data, FileStat.from_stat(before)


def _open(path: Path | bytes, source: str) -> int:
    # O_NONBLOCK: a pipe that nobody writes to opens at once, instead of never
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY
    try:
        return os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise LoadError(source, "a link, not a regular file", "name the file that it leads to") from error
        raise LoadError(source, describe_os_error(error), "look at the file and its permissions") from error
    except ValueError as error:  # a NUL in the path
        raise LoadError(source, "no file can have this name") from error


def _read(handle: int, size: int, source: str) -> bytes:
    """Up to `size` + 1 bytes: the one beyond shows that the file has grown."""
    pieces: list[bytes] = []
    left = size + 1
    try:
        while left > 0 and (piece := os.read(handle, min(left, READ_SIZE))):
            pieces.append(piece)
            left -= len(piece)
    except OSError as error:
        raise LoadError(source, describe_os_error(error), "look at the disk or network that it lies on") from error
    return b"".join(pieces)


def describe_os_error(error: OSError) -> str:
    """Why the system refused, in plain words and without the path."""
    words = {
        errno.EACCES: "not readable (permission denied)",
        errno.EPERM: "not readable (permission denied)",
        errno.ENOENT: "not there",
        errno.ENOTDIR: "not there",
        errno.ENXIO: "a socket, not a regular file",
        errno.ENAMETOOLONG: "its path is too long for this system",
        errno.ELOOP: "its path holds a loop of links",
        errno.EIO: "not readable (the disk reports an error)",
    }
    known = words.get(error.errno or 0)
    return known or f"not readable ({(error.strerror or type(error).__name__).lower()})"
