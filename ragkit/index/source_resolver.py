"""Map source ids of a knowledge base to files and back."""

from __future__ import annotations

import os
from pathlib import Path

from ragkit.index.added_documents import ADDED_ROOT, AddedDocuments
from ragkit.index.source_ids import source_id, source_path
from ragkit.index.web_pages import WebPageCopies, is_url, normalize_url


class SourceResolver:
    """Maps source ids of one knowledge base (paths, URLs, names of added documents) to files and back."""

    def __init__(self, web: Path, added: Path) -> None:
        """The folders of the copies of web pages and of added documents."""
        self.web_copies = WebPageCopies(web)
        self.added = AddedDocuments(added)

    def source_id(self, path: Path) -> str:
        """The source id of a path."""
        if path == self.added.folder:
            return ADDED_ROOT
        return self.web_copies.copy_url(path) or self.added.copy_url(path) or source_id(path)

    def resolve_path(self, name: str) -> Path:
        """The path of a source: the file itself, the copy of a web page, or the file of an added document."""
        if name == ADDED_ROOT:
            return self.added.folder
        if name in self.added:
            return self.added.copy_path(name)
        return self.web_copies.copy_path(name) if is_url(name) else source_path(name)

    def normalize(self, source: str | os.PathLike[str]) -> str:
        """The source id of a path, URL or name as the user wrote it."""
        name = str(source)
        if name == ADDED_ROOT or self.added.names_below(name):
            return name
        return normalize_url(str(source)) if is_url(source) else source_id(Path(source).absolute())
