"""The documents that a program added to a knowledge base, one file each in its directory.

From then on each is a file like any other, except that its source id is the name that the program gave it: no index
run over folders removes it, and a damaged index is rebuilt from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ragkit.errors import InvalidOption
from ragkit.index.catalog.checksums import write_file_durably
from ragkit.index.sources.web_pages import WebPageCopies
from ragkit.load.process.saved_document import SAVED_DOCUMENT_SUFFIX, dump_document
from ragkit.records import Document
from ragkit.split.places import resolve_place

ADDED_FOLDER = "documents"
"""Folder of the documents in a knowledge base."""
ADDED_ROOT = "kb.add"
"""The source id of all of them together."""


class AddedDocuments(WebPageCopies):
    """The files of the added documents, in one folder. A name may contain any characters."""

    def copy_path(self, url: str) -> Path:
        """The path of the document of this source, whether it exists or not."""
        base = self._base_path(url)
        return base.with_name(f"{base.name}={SAVED_DOCUMENT_SUFFIX}")

    def __contains__(self, source: object) -> bool:
        return isinstance(source, str) and "\0" not in source and self.copy_path(source).is_file()

    def paths(self) -> Iterator[Path]:
        """The files of all documents, sorted."""
        yield from sorted(self.folder.rglob(f"*{SAVED_DOCUMENT_SUFFIX}"))

    def names_below(self, source: str) -> list[str]:
        """The names of all documents of a source: its own, and those of its parts (`manual.pdf#page=3`)."""
        names = (self.copy_url(path) or "" for path in self.paths())
        return [name for name in names if name == source or name.startswith(f"{source}#")]

    def write(self, documents: Sequence[Document]) -> None:
        """Write documents with names as sources. Unchanged ones stay as they are."""
        for document in documents:
            path = self.copy_path(document.source)
            try:
                data = dump_document(document)
            except (TypeError, ValueError) as error:
                expected = f"JSON values ({error})"
                raise InvalidOption(f"the metadata of {document.source!r}", document.metadata, expected) from error
            if path.is_file() and path.read_bytes() == data:
                continue
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_file_durably(path, data)
            path.chmod(0o600)


def name_documents(documents: Sequence[Document]) -> list[Document]:
    """The documents with their names as sources.

    A name is the source (also from the metadata), or else the id. Several documents of one source are its parts: they
    are named by their pages (`manual.pdf#page=3`), and else numbered (`manual.pdf#2`).
    """
    placed = [resolve_place(document) for document in documents]
    sources = [document.source or document.id for document in placed]
    shared = Counter(sources)
    used: set[str] = set()
    named: list[Document] = []
    for number, (source, document) in enumerate(zip(sources, placed, strict=True), start=1):
        page = document.page_at(0)
        name = source if shared[source] == 1 else f"{source}#page={page}" if page else f"{source}#{number}"
        name = name if name not in used else f"{name}#{number}"
        used.add(name)
        named.append(replace(document, source=name))
    return named
