"""What is tortured: a knowledge base on each store, and on sqlite one of every format and one of every source."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass

import ragkit.load
from tests.torture import sources
from tests.torture.folder import EXCLUDE_DRAFT, Folder, TextFolder
from tests.torture.formats import SETTINGS, FormatsFolder

STORES = ("sqlite", "faiss", "duckdb", "qdrant", "milvus", "chroma", "lancedb")
FORMATS, SOURCES = "sqlite, every format", "sqlite, every source"
DATABASE = "postgresql"
"""A knowledge base in a database, whose trials have a program of their own: `tests.torture.database`."""
ALL_OPERATIONS = ("update", "build", "rebuild", "remove", "clear", "repair")


@dataclass(frozen=True)
class Subject:
    """A folder and the settings of its knowledge base."""

    store: str
    folder: Folder
    settings: str = ""
    """More settings than the embedder and the store."""
    index: tuple[str, ...] = ("index", "docs", "-q")
    operations: tuple[str, ...] = ALL_OPERATIONS
    imports: tuple[str, ...] = ()
    """Modules that its commands need."""


def _loaders() -> tuple[str, ...]:
    """The modules of all loaders that are installed; the OCR engine is loaded by who reads a page."""
    left_out = ("sources.", "unstructured", *(f"pages.ocr.{name}" for name in ("engine", "image", "preprocess")))
    names = [module.name for module in pkgutil.walk_packages(ragkit.load.__path__, "ragkit.load.")]
    return tuple(name for name in names if not name.removeprefix("ragkit.load.").startswith(left_out))


SUBJECTS: Mapping[str, Subject] = {
    **{store: Subject(store, TextFolder(), index=("index", "docs", *EXCLUDE_DRAFT, "-q")) for store in STORES},
    FORMATS: Subject("sqlite", FormatsFolder(), SETTINGS, imports=_loaders()),
    SOURCES: Subject(
        "sqlite",
        sources.SourcesFolder(),
        index=("index", "--accept-deletions", "-q"),
        # a file that `rm` removed is still listed by its source, and the next run brings it again
        operations=("update", "build", "rebuild", "clear", "repair"),
        imports=(
            *(f"ragkit.load.sources.{name}" for name in ("crawl", "feed", "fsspec", "git", "imap", "maildir", "s3")),
            *(f"ragkit.load.sources.{name}" for name in ("sitemap", "sql", "web", "webdav")),
            *("ragkit.load.html.html", "ragkit.load.text.markdown", "ragkit.load.mail.eml"),
            "fsspec.implementations.local",
        ),
    ),
}
"""Name, as in the table -> subject."""
