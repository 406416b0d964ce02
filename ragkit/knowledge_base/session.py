"""A session: one state of a knowledge base for one task, with everything that reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Condition
from typing import TYPE_CHECKING

from ragkit.errors import KnowledgeBaseError, LoadError
from ragkit.index.access.restricted_reader import ReadableBm25Index
from ragkit.index.aggregate import FieldAggregate
from ragkit.index.catalog.sqlite import Catalog, FileRow
from ragkit.index.on_demand import OnDemandVectors
from ragkit.index.reader import CatalogSnapshot
from ragkit.knowledge_base.filters import Where, filter_notes, filter_source, read_filter
from ragkit.knowledge_base.sources.source_files import SourceFiles
from ragkit.knowledge_base.stored_settings import read_calibration
from ragkit.lexical.bm25_index import Bm25Index
from ragkit.lru_cache import LruCache
from ragkit.pipeline.assemble import PipelineComponents
from ragkit.records import JSON

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ragkit.answer.score_calibration import ScoreCalibration
    from ragkit.load.pages.rectangles import Rectangle
    from ragkit.records import Chunk, Document, Hit, SearchMode
    from ragkit.retrieve.base import Explanation, Retriever


@dataclass(frozen=True, slots=True)
class SessionParts:
    """What the sessions of a knowledge base share."""

    components: PipelineComponents
    source_files: Callable[[], SourceFiles]
    check: Callable[[CatalogSnapshot], None]
    """Checks that a snapshot can be searched; raises KnowledgeBaseError."""
    record_calls: Callable[[str], AbstractContextManager[object]]
    """Records the calls of a block in the ledger, under a verb."""
    contents: LruCache[str, str] | None
    """Descriptions of the contents by generation and filter; None: they are not shared with other principals."""


class Session:
    """Searches, finds, quotes and verifies in one generation of a knowledge base: a `Searcher`.

    Runs of the index, deletions and copies meanwhile change nothing here. Safe for several threads.
    """

    def __init__(self, snapshot: CatalogSnapshot, parts: SessionParts) -> None:
        """`snapshot` stays open until `close`."""
        self._snapshot = snapshot
        self._parts = parts
        self._idle = Condition()
        self._readers = 0
        self._is_closed = False

    def close(self) -> None:
        """Wait for the reads that other threads have begun, and refuse further ones."""
        with self._idle:
            self._is_closed = True
            self._idle.wait_for(lambda: not self._readers)

    def session(self) -> AbstractContextManager[Session]:
        """Itself: a part of a task reads what the task reads."""
        return nullcontext(self)

    @contextmanager
    def _reading(self) -> Iterator[CatalogSnapshot]:
        with self._idle:
            if self._is_closed:
                raise KnowledgeBaseError("the session of the knowledge base has ended")
            self._readers += 1
        try:
            yield self._snapshot
        finally:
            with self._idle:
                self._readers -= 1
                self._idle.notify_all()

    @property
    def generation(self) -> int:
        """The generation that it reads: each index run that changes something publishes a new one."""
        return self._snapshot.arrays.generation

    @property
    def identity(self) -> str:
        """The same for two sessions only if they have the same documents, of which the same may be read."""
        with self._reading() as snapshot:
            return snapshot.identity

    def require_ready(self) -> None:
        """Check that a search can run.

        Raises:
            NotAKnowledgeBase: nothing was indexed.
            SettingsMismatch: the vectors are of another model.
        """
        with self._reading() as snapshot:
            self._parts.check(snapshot)

    # searching

    def search(
        self, question: str, top_k: int | None = None, where: Where = None, mode: SearchMode | None = None
    ) -> list[Hit]:
        """The chunks that match a question, best first; see `KnowledgeBase.search`."""
        with self._parts.record_calls("search"), self._reading() as snapshot:
            self._parts.check(snapshot)
            retriever = self._create_retriever(snapshot, mode)
            return retriever.retrieve(question, top_k, read_filter(where))

    def explain(
        self, question: str, top_k: int | None = None, where: Where = None, mode: SearchMode | None = None
    ) -> list[Explanation]:
        """Like `search`, each hit with the reasons for its rank."""
        with self._parts.record_calls("search"), self._reading() as snapshot:
            self._parts.check(snapshot)
            retriever = self._create_retriever(snapshot, mode)
            return retriever.explain(question, top_k, read_filter(where))

    def _create_retriever(self, snapshot: CatalogSnapshot, mode: SearchMode | None) -> Retriever:
        """The retriever of one search, which embeds what has no vector yet."""
        components = self._parts.components
        if snapshot.arrays.static is not None:
            snapshot = snapshot.embedding_on_demand(
                OnDemandVectors(
                    snapshot.kept_vectors, components.embedder, components.static_embedder, components.embedding_texts
                )
            )
        return components.create_retriever(snapshot, mode)

    def create_filter(self, where: Where = None, source: str = "") -> Mapping[str, JSON] | None:
        """A filter from text or a mapping, and for the documents of one source: a file, folder, URL or name.

        Raises:
            InvalidFilter: `where` is not a filter, or no document has this source.
        """
        condition = read_filter(where)
        if not source:
            return condition
        with self._reading() as snapshot:
            of_source = filter_source(snapshot, source, self._parts.source_files().resolver.normalize(source))
        return {"$and": [condition, of_source]} if condition else of_source

    def filter_notes(self, where: Where) -> list[str]:
        """One line for each field of a filter that no document has, or for a filter that matches no document."""
        with self._reading() as snapshot:
            return filter_notes(snapshot, read_filter(where))

    def term_weights(self, terms: Sequence[str]) -> NDArray[np.float32]:
        """Inverse document frequency of each term: (len(terms),)."""
        with self._reading() as snapshot:
            return Bm25Index(snapshot.connection).idf(terms)

    def missing_terms(self, terms: Sequence[str]) -> list[str]:
        """Those of the terms of the lexical index that no chunk contains."""
        with self._reading() as snapshot:
            return _term_index(snapshot).missing_terms(terms)

    def find_terms(self, prefixes: Sequence[str]) -> dict[str, int]:
        """The terms that begin with one of the prefixes, each with the number of chunks that contain it."""
        with self._reading() as snapshot:
            return _term_index(snapshot).find_terms(prefixes)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors of texts: (len(texts), dimension)."""
        return self._parts.components.embedder.embed_texts(texts)

    def embed_question(self, question: str) -> NDArray[np.float32]:
        """Unit vector of a question: (dimension,)."""
        components = self._parts.components
        searched = components.question_vectors.get(question)
        return components.embedder.embed_query(question) if searched is None else searched

    def calibration(self) -> ScoreCalibration:
        """The score calibration of the embedder: that of the index run, or measured once, which embeds a few texts."""
        from ragkit.answer.score_calibration import measure_calibration

        components = self._parts.components
        with components.calibration_lock:
            if components.calibration is None:
                stored = self.stored_calibration()
                components.calibration = stored or measure_calibration(components.embedder.embed_texts)
            return components.calibration

    def stored_calibration(self) -> ScoreCalibration | None:
        """The score calibration of the embedder, measured by `index`; None if the budget did not allow it."""
        with self._reading() as snapshot:
            return read_calibration(Catalog(snapshot.connection), self._parts.components.embedder.fingerprint)

    # documents

    def document(self, source: str) -> Document | None:
        """The document of a source, with the indexed text, or None."""
        with self._reading() as snapshot:
            return snapshot.document(source)

    def find_document(self, document_id: str) -> Document | None:
        """The document with this id, with the indexed text, or None."""
        with self._reading() as snapshot:
            return snapshot.find_document(document_id)

    def chunk(self, chunk_id: str) -> Chunk | None:
        """The chunk with this id, or None."""
        with self._reading() as snapshot:
            return snapshot.find_chunk(chunk_id)

    def first_chunk(self, document_id: str) -> Chunk | None:
        """The chunk at the beginning of a document, or None."""
        with self._reading() as snapshot:
            return snapshot.first_chunk(document_id)

    def describe_contents(self, where: Where = None) -> str:
        """What documents match a filter, and which fields filters know, in a few lines for a model.

        Raises InvalidFilter for an invalid filter.
        """
        from ragkit.knowledge_base.contents import describe_contents

        condition, known = read_filter(where), self._parts.contents
        key = f"{self.generation} {condition!r}"
        described = known.get(key) if known is not None else None
        if described is None:
            with self._reading() as snapshot:
                described = describe_contents(snapshot, condition)
            if known is not None:
                known.set(key, described)
        return described

    @property
    def has_records(self) -> bool:
        """Whether the pipeline loads rows as documents of their own; then agents have the tool `aggregate_records`."""
        return self._parts.components.has_records

    def aggregate(self, field: str = "", where: Where = None) -> FieldAggregate:
        """Count the documents that a filter selects, and add up the numbers in one of their metadata fields.

        Raises InvalidFilter for an invalid filter.
        """
        with self._reading() as snapshot:
            return snapshot.aggregate(field, read_filter(where))

    def is_stale(self, source: str) -> bool:
        """Whether the file has changed since it was indexed, or was deleted."""
        row = self.file_row(source)
        return row is None or not (_is_untouched(row) or not self._parts.source_files().is_changed(row))

    def file_row(self, source: str) -> FileRow | None:
        """The indexing state of the file of a document; None if it is not indexed."""
        with self._reading() as snapshot:
            catalog = Catalog(snapshot.connection)
            row = catalog.file(source)
            return catalog.file(row.reason) if row is not None and row.status == "part" else row

    def rectangles(self, source: str, start: int, end: int) -> list[Rectangle]:
        """Where `document(source).text[start:end]` stands on the pages of a PDF file, for example of a citation.

        Read from the file when asked for. Empty for other formats, for files in archives and mails, and for files that
        have changed since they were indexed.
        """
        document = self.document(source)
        if document is None or document.format != "pdf":
            return []
        from ragkit.load.pages.rectangles import document_rectangles

        with suppress(OSError, LoadError):
            if not self.is_stale(source):
                return document_rectangles(self._parts.source_files().read(source), document, start, end)
        return []


def _is_untouched(row: FileRow) -> bool:
    """Whether an indexed file is where it was, with the same times; other sources are compared by `SourceFiles`."""
    try:
        stat = Path(row.source).stat() if row.source.startswith("/") else None
    except OSError:
        return False
    recorded = (row.size, row.mtime_ns, row.ctime_ns, row.inode)
    return stat is not None and (stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino) == recorded


def _term_index(snapshot: CatalogSnapshot) -> Bm25Index:
    return (ReadableBm25Index if snapshot.is_restricted else Bm25Index)(snapshot.connection)
