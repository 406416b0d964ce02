"""The source `folder`: files of this machine. An index run reads them where they are, without copies."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ragkit.load.files.file_io import MB, read_bytes
from ragkit.load.files.walk import FolderOptions, FoundFile, walk_files
from ragkit.load.sources.base import SourceContext, SourceFile, SourceItem
from ragkit.load.sources.options import FolderSourceOptions


class FolderSource:
    """A folder or file; its key is the path as a `file://` URL."""

    def __init__(self, options: FolderSourceOptions) -> None:
        self.path = Path(os.path.abspath(Path(options.path).expanduser()))  # noqa: PTH100 - without following links

    @property
    def location(self) -> str:
        """The absolute path."""
        return str(self.path)

    def list(self, context: SourceContext) -> Iterator[SourceItem]:
        """Every file; see `Source.list`."""
        for entry in walk_files(self.path, FolderOptions(max_file_mb=context.max_file_mb)):
            if isinstance(entry, FoundFile):
                stat = entry.stat
                fingerprint = f"{stat.size}-{stat.mtime_ns}-{stat.inode}"
                yield SourceItem(entry.path.as_uri(), fingerprint, stat.size, path=str(entry.path))

    def fetch(self, item: SourceItem, context: SourceContext) -> SourceFile:
        """The bytes of a file; see `Source.fetch`."""
        return SourceFile(read_bytes(Path(item.path), None, int(context.max_file_mb * MB)))
