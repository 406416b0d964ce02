"""What a knowledge base holds, for `ragkit status` and the server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from ragkit.errors import RagkitError
from ragkit.index.catalog.sqlite import Catalog, FileRow
from ragkit.index.sources.ids import display_name
from ragkit.knowledge_base.stored_settings import read_build_fingerprint
from ragkit.knowledge_base.unknown_language import describe_unknown_language
from ragkit.records import JSON

if TYPE_CHECKING:
    from pathlib import Path

    from ragkit.index.catalog.postgres_replicas import DatabaseStatus
    from ragkit.index.reader import CatalogSnapshot
    from ragkit.index.report import FileFailure
    from ragkit.knowledge_base.location import Location
    from ragkit.knowledge_base.sources.source_files import SourceFiles
    from ragkit.pipeline.assemble import PipelineComponents

MAX_LISTED_FAILURES = 100
"""Files that could not be indexed, in a status."""


@dataclass(frozen=True)
class KnowledgeBaseStatus:
    """What a knowledge base holds."""

    kb: str
    pipeline: str
    generation: int
    files: int
    failed: int
    documents: int
    chunks: int
    embedded: int
    """Chunks that have a vector; searches embed the others when a question needs them."""
    vectors: int
    bytes: int
    """Size on disk."""
    sources: tuple[str, ...]
    """The sources that were passed to `index`."""
    settings: Mapping[str, JSON]
    stale: int
    """Indexed files that have changed or were deleted since."""
    store: str
    """The registered name of the vector store."""
    failures: tuple[FileFailure, ...]
    """The first files that could not be indexed, sorted by source; `failed` counts all of them."""
    language_note: str = ""
    """If most of the text is in a language that the embedder was not trained on: that, and what to do."""
    database: DatabaseStatus | None = None
    """Of a knowledge base in a database that can be reached."""

    def to_json(self) -> dict[str, JSON]:
        """The shape of `status --json`, with display names of sources."""
        failures: list[JSON] = [
            {**asdict(failure), "source": display_name(failure.source)} for failure in self.failures
        ]
        return {**asdict(self), "sources": [display_name(source) for source in self.sources], "failures": failures}


def find_failures(snapshot: CatalogSnapshot) -> list[FileRow]:
    """The files that an index run reports, sorted by source; what is wrong with `access` is shown to owners only."""
    rows = Catalog(snapshot.connection).files().values()
    return [row for row in rows if row.has_failure and (row.status == "failed" or not snapshot.is_restricted)]


def read_status(
    snapshot: CatalogSnapshot, location: Location, components: PipelineComponents, source_files: SourceFiles
) -> KnowledgeBaseStatus:
    """The status of a knowledge base, as the snapshot sees it; compares indexed files with the disk.

    For a principal, without the sizes and processes, which are not those of what may be read.
    """
    from ragkit.index.report import FileFailure

    pipeline = components.pipeline
    catalog, path, is_restricted = Catalog(snapshot.connection), location.path, snapshot.is_restricted
    files = catalog.files().values()
    failed = [FileFailure(row.source, row.reason, row.hint) for row in find_failures(snapshot)]
    chunks = len(snapshot.arrays.chunk_keys)
    return KnowledgeBaseStatus(
        kb=str(location),
        pipeline=pipeline.name,
        generation=catalog.generation(),
        files=sum(row.status == "indexed" for row in files),
        failed=sum(row.status == "failed" for row in files),
        documents=sum(1 for _ in snapshot.documents.select()),
        chunks=chunks,
        embedded=snapshot.count_embedded(),
        vectors=chunks if is_restricted else snapshot.count_vectors(),
        bytes=0 if is_restricted else sum(map(_size_on_disk, path.rglob("*"))),
        sources=tuple(catalog.roots()),
        settings=asdict(read_build_fingerprint(catalog, path)),
        stale=sum(row.status == "indexed" and source_files.is_changed(row) for row in files),
        store=pipeline.store.name,
        failures=tuple(failed[:MAX_LISTED_FAILURES]),
        language_note=_language_note(snapshot, components),
        database=None if is_restricted else location.status(),
    )


def _size_on_disk(path: Path) -> int:
    """The bytes that a file takes on the disk, without the gaps of a sparse one; 0 for a folder."""
    if not path.is_file():
        return 0
    state = path.stat()
    return min(state.st_size, state.st_blocks * 512) if hasattr(state, "st_blocks") else state.st_size


def _language_note(snapshot: CatalogSnapshot, components: PipelineComponents) -> str:
    try:
        embedder = components.embedder
    except RagkitError:  # a status needs neither its package nor its key
        return ""
    return describe_unknown_language(snapshot.connection, snapshot.arrays.chunk_keys.tolist(), embedder)
