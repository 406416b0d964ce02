"""Groups of files that a process gets in one message: for a small file, a message takes as long as the work."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

from ragkit.batches import batches_by_size
from ragkit.load.files.file_io import FileStat


class FileToRead(Protocol):
    """A file whose size may be known."""

    @property
    def stat(self) -> FileStat | None:
        """Its version."""


File = TypeVar("File", bound=FileToRead)


def group_files(files: Iterable[File], max_files: int, max_bytes: int) -> Iterator[list[File]]:
    """The files in order, in groups of a limited number and total size.

    A single file can be larger, and one of unknown size is alone.
    """
    return batches_by_size(files, lambda file: file.stat.size if file.stat else max_bytes + 1, max_files, max_bytes)
