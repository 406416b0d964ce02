"""Map source ids of a knowledge base to files and back."""

from __future__ import annotations

import os
from pathlib import Path

from ragkit.index.sources.added_documents import ADDED_ROOT, AddedDocuments
from ragkit.index.sources.copies import SourceCopies
from ragkit.index.sources.ids import source_id, source_path
from ragkit.index.sources.web_pages import WebPageCopies, is_url, normalize_url


class SourceResolver:
    """Maps source ids of one knowledge base to files and back: paths, URLs, names of added documents, and keys of the
    documents of remote sources."""

    def __init__(self, web: Path, added: Path, sources: Path) -> None:
        """The folders of the copies of web pages, of added documents, and of remote sources."""
        self.web_copies = WebPageCopies(web)
        self.added = AddedDocuments(added)
        self.source_copies = SourceCopies(sources)
        self._copies = (str(web), str(added), str(sources))

    def source_id(self, path: Path) -> str:
        """The source id of a path."""
        if not str(path).startswith(self._copies):  # most files; the text is compared a hundred times faster
            return source_id(path)
        if path == self.added.folder:
            return ADDED_ROOT
        copy_name = self.web_copies.copy_url(path) or self.added.copy_url(path) or self.source_copies.copy_key(path)
        return copy_name or source_id(path)

    def resolve_path(self, name: str) -> Path:
        """The path of a source: the file itself, the copy of a web page, or the file of an added document."""
        if name == ADDED_ROOT:
            return self.added.folder
        if name in self.added:
            return self.added.copy_path(name)
        if name in self.source_copies:
            return self.source_copies.root_folder(name)
        if is_url(name):
            return self.source_copies.copy_path(name) or self.web_copies.copy_path(name)
        return source_path(name)

    def normalize(self, source: str | os.PathLike[str]) -> str:
        """The source id of a path, URL or name as the user wrote it."""
        name = str(source)
        if name == ADDED_ROOT or self.added.names_below(name) or name in self.source_copies:
            return name
        if self.source_copies.copy_path(name) is not None:
            return name
        return normalize_url(str(source)) if is_url(source) else source_id(Path(source).absolute())
