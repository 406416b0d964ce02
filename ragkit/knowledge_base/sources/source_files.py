"""The source files of a knowledge base: walk them, hash them, compare them with the catalog. Writes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from ragkit.errors import LoadError
from ragkit.index.catalog.sqlite import FILE_FILTERS_KEY
from ragkit.index.sources.added_documents import ADDED_FOLDER
from ragkit.index.sources.copies import SOURCES_FOLDER
from ragkit.index.sources.ids import is_within, source_id
from ragkit.index.sources.resolver import SourceResolver
from ragkit.index.sources.web_pages import WEB_FOLDER
from ragkit.load.files.file_io import FileStat, hash_content, read_bytes
from ragkit.load.files.walk import FolderOptions, FoundFile, SkippedPath, walk_files

if TYPE_CHECKING:
    from ragkit.index.catalog.sqlite import Catalog, FileRow
    from ragkit.index.freshness import Freshness

UPLOADS_FOLDER = "uploads"
"""Folder of a knowledge base with files that a server received: a source like any other folder."""


@dataclass(frozen=True, slots=True)
class OriginalFile:
    """The file of a document, with the content that was indexed."""

    source: str
    """The source of the file: that of its documents, or the mail or archive that holds them."""
    data: bytes
    content_hash: str


class SourceFiles:
    """The files below the sources of one knowledge base, selected by the options of its pipeline."""

    def __init__(
        self, kb: Path, folder_options: FolderOptions, copies_folder: Path | None = None, *, elsewhere: bool = False
    ) -> None:
        """`copies_folder` holds the copies of web pages and remote sources; None: the knowledge base does.

        `elsewhere`: another machine may have indexed files that this one does not have: they do not count as deleted.
        """
        self.kb = kb
        self.elsewhere = elsewhere
        self.folder_options = folder_options
        copies = copies_folder or kb.resolve()
        self.resolver = SourceResolver(copies / WEB_FOLDER, kb.resolve() / ADDED_FOLDER, copies / SOURCES_FOLDER)

    def walk(
        self, root: Path, include: Sequence[str] = (), exclude: Sequence[str] = ()
    ) -> Iterator[FoundFile | SkippedPath]:
        """The files of a source by the patterns of the pipeline and of one run.

        The knowledge base itself is skipped, except for its copies of web pages and its uploaded files. Added
        documents precede, and so replace, files of the same name; no pattern applies to them.
        """
        source = self.resolver.source_copies.root_of(root)
        if source is not None:
            yield from self.resolver.source_copies.walk(source)
            return
        yield from self._added_files(root)
        if root == self.resolver.added.folder:
            return
        options = self.folder_options
        options = replace(options, include=tuple(include) or options.include, exclude=(*options.exclude, *exclude))
        own = str(self.kb.resolve())
        is_upload = is_within(source_id(root), f"{own}/{UPLOADS_FOLDER}")
        for entry in walk_files(root, options):
            if is_upload or entry.path == root or not is_within(source_id(entry.path), own):
                yield entry

    def _added_files(self, root: Path) -> Iterator[FoundFile]:
        """The added documents whose names lie below a root; all of them below their own."""
        added, name = self.resolver.added, source_id(root)
        for path in added.paths():
            if root == added.folder or is_within(self.resolver.source_id(path), name):
                yield FoundFile(path, FileStat.from_stat(path.stat()))

    def read(self, source: str) -> bytes:
        """The content of the file of a source. Raises LoadError, OSError."""
        return self._read(self.resolver.resolve_path(source))

    def _read(self, path: Path) -> bytes:
        return read_bytes(path, None, self.folder_options.max_file_bytes)

    def hash(self, path: Path) -> str:
        """Content hash of a file."""
        return hash_content(self._read(path))

    def is_changed(self, row: FileRow) -> bool:
        """Whether an indexed file has another content than then, or cannot be read."""
        path = self.resolver.resolve_path(row.source)
        recorded = (row.size, row.mtime_ns, row.ctime_ns, row.inode)
        try:
            stat = FileStat.from_stat(path.stat())
            if (stat.size, stat.mtime_ns, stat.ctime_ns, stat.inode) == recorded:
                return False
            return stat.size != row.size or self.hash(path) != row.content_hash
        except (OSError, LoadError):
            return not self._is_elsewhere(path)

    def read_original(self, row: FileRow) -> OriginalFile | None:
        """An indexed file; None if it has another content now, or cannot be read."""
        path = self.resolver.resolve_path(row.source)
        try:
            data = self._read(path)
        except (OSError, LoadError):
            return None
        return OriginalFile(row.source, data, row.content_hash) if hash_content(data) == row.content_hash else None

    def _is_elsewhere(self, path: Path) -> bool:
        """Whether a file may be on another machine only: its folder does not exist here."""
        return self.elsewhere and not path.parent.exists()

    def _is_here(self, root: str) -> bool:
        """Whether the files of a source can be compared on this machine."""
        return not self.elsewhere or self.resolver.resolve_path(root).exists()

    def check_freshness(self, catalog: Catalog, timeout_s: float) -> Freshness:
        """Compare the folders with the catalog, with the filters of the last run; see `KnowledgeBase.freshness`."""
        from ragkit.index.freshness import check_freshness

        filters: dict[str, dict[str, list[str]]] = json.loads(catalog.get_meta(FILE_FILTERS_KEY) or "{}")
        roots = [root for root in catalog.roots() if self._is_here(root)]
        walks = (self.walk(self.resolver.resolve_path(root), **filters.get(root, {})) for root in roots)
        return check_freshness(
            chain.from_iterable(walks), roots, catalog.files(), self.hash, timeout_s, self.resolver.source_id
        )
