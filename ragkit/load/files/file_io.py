"""Read one file safely: regular files only, no links, no partial writes.

Folders are in `walk`, formats in `detect`.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from ragkit.errors import LoadError, LoadLimitExceeded

MB = 1024 * 1024

_RETRY_HINT = "retry when no other process writes to it"


@dataclass(frozen=True, slots=True)
class FileStat:
    """Identifies a version of a file without reading it."""

    size: int
    """In bytes."""
    mtime_ns: int
    ctime_ns: int
    inode: int

    @classmethod
    def from_stat(cls, result: os.stat_result) -> FileStat:
        """From the result of `os.stat`."""
        return cls(result.st_size, result.st_mtime_ns, result.st_ctime_ns, result.st_ino)


class FileChanged(LoadError):
    """A file that changed while it was being read. A retry may succeed."""


def describe_file_type(mode: int) -> str:
    """The type of a file that is not a regular file, in words."""
    descriptions = (
        (stat.S_ISFIFO, "a named pipe"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a device"),
        (stat.S_ISBLK, "a device"),
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISLNK, "a symbolic link"),
    )
    return next((text for is_kind, text in descriptions if is_kind(mode)), "not a regular file")


def read_bytes(path: Path | bytes, expected: FileStat | None, max_bytes: int) -> bytes:
    """The bytes of a regular file. See `read_bytes_with_stat`."""
    return read_bytes_with_stat(path, expected, max_bytes)[0]


def read_bytes_with_stat(path: Path | bytes, expected: FileStat | None, max_bytes: int) -> tuple[bytes, FileStat]:
    """The bytes of a regular file, and its version.

    Never blocks on a pipe or a device.

    Args:
        path: the file; a symbolic link as its last component is rejected.
        expected: the version to read; None: any.
        max_bytes: a larger file is rejected.

    Raises:
        FileChanged: size or mtime differ from `expected`, or changed while the file was being read.
        LoadLimitExceeded: the file is larger than `max_bytes`.
        LoadError: the file does not exist, is not readable or is not a regular file.
    """
    source = os.fsdecode(path)
    fd = _open(path, source)
    try:
        before = os.fstat(fd)
        if not stat.S_ISREG(before.st_mode):
            raise LoadError(source, f"{describe_file_type(before.st_mode)}, not a regular file", "exclude it")
        if expected is not None and (before.st_size, before.st_mtime_ns) != (expected.size, expected.mtime_ns):
            raise FileChanged(source, "changed since the folder was scanned", _RETRY_HINT)
        if before.st_size > max_bytes:
            raise LoadLimitExceeded(source, f"larger than {max_bytes / MB:g} MB", "raise max_file_mb")
        data = _read(fd, before.st_size, source)
        after = os.fstat(fd)
    finally:
        os.close(fd)
    if len(data) != before.st_size or (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
        raise FileChanged(source, "changed while it was being read", _RETRY_HINT)
    return data, FileStat.from_stat(before)


def _open(path: Path | bytes, source: str) -> int:
    # O_NONBLOCK: opening a pipe without a writer does not block
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY
    try:
        return os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise LoadError(source, "a symbolic link, not a regular file", "use the path of its target") from error
        raise LoadError(source, describe_os_error(error), "check the file and its permissions") from error
    except ValueError as error:  # a NUL in the path
        raise LoadError(source, "invalid file name", "rename it") from error


def _read(fd: int, size: int, source: str) -> bytes:
    """Up to `size` + 1 bytes: the additional byte shows that the file has grown."""
    try:
        with os.fdopen(fd, "rb", closefd=False) as file:
            return file.read(size + 1)
    except OSError as error:
        raise LoadError(source, describe_os_error(error), "check the disk or the network share") from error


def describe_os_error(error: OSError) -> str:
    """The reason of an OSError, without the path."""
    descriptions = {
        errno.EACCES: "permission denied",
        errno.EPERM: "permission denied",
        errno.ENOENT: "does not exist",
        errno.ENOTDIR: "does not exist",
        errno.ENXIO: "a socket, not a regular file",
        errno.ENAMETOOLONG: "the path is too long",
        errno.ELOOP: "the path contains a loop of symbolic links",
        errno.EIO: "disk I/O error",
    }
    description = descriptions.get(error.errno or 0)
    return description or f"cannot be read ({(error.strerror or type(error).__name__).lower()})"


def hash_content(data: bytes) -> str:
    """blake2b of a file's bytes, 32 hex digits."""
    return blake2b(data, digest_size=16).hexdigest()
