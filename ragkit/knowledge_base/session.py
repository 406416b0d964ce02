"""A session: one state of a knowledge base for one task, with everything that reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from threading import Condition
from typing import TYPE_CHECKING

from ragkit.embed.base import embed_query, embed_texts
from ragkit.errors import KnowledgeBaseError, LoadError
from ragkit.index.access.restricted_reader import ReadableBm25Index
from ragkit.index.aggregate import FieldAggregate
from ragkit.index.catalog.sqlite import Catalog, FileRow
from ragkit.index.on_demand import OnDemandVectors
from ragkit.index.reader import CatalogSnapshot
from ragkit.knowledge_base.filters import Where, filter_notes, filter_source, read_filter
from ragkit.knowledge_base.read_side import ReadSide
from ragkit.knowledge_base.sources.source_files import OriginalFile
from ragkit.knowledge_base.status import KnowledgeBaseStatus, find_failures, read_status
from ragkit.knowledge_base.stored_settings import read_calibration
from ragkit.lexical.bm25_index import Bm25Index
from ragkit.records import JSON
from ragkit.usage.tokens import estimate_tokens

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ragkit.answer.agent import RAGAgent
    from ragkit.answer.score_calibration import ScoreCalibration
    from ragkit.answer.searchers.text_search import FoundText, TextPattern
    from ragkit.index.freshness import Freshness
    from ragkit.index.snapshot.documents import DocumentSummary
    from ragkit.load.pages.rectangles import Rectangle
    from ragkit.records import Chunk, Document, Hit, SearchMode
    from ragkit.retrieve.base import Explanation, Retriever


class Session:
    """Searches, finds, quotes and verifies in one generation of a knowledge base: a `Searcher`.

    Runs of the index, deletions and copies meanwhile change nothing here. Safe for several threads.
    """

    def __init__(self, snapshot: CatalogSnapshot, read_side: ReadSide) -> None:
        """`snapshot` stays open until `close`."""
        self._snapshot = snapshot
        self._parts = read_side
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
    def snapshot(self) -> Iterator[CatalogSnapshot]:
        """What is read, for parts that need the catalog or the vectors. Raises KnowledgeBaseError after the end."""
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
        with self.snapshot() as snapshot:
            return snapshot.identity

    def require_ready(self) -> None:
        """Check that a search can run.

        Raises:
            NotAKnowledgeBase: nothing was indexed.
            SettingsMismatch: the vectors are of another model.
        """
        with self.snapshot() as snapshot:
            self._parts.check(snapshot)

    # searching

    def search(
        self, question: str, top_k: int | None = None, where: Where = None, mode: SearchMode | None = None
    ) -> list[Hit]:
        """The chunks that match a question, best first; see `KnowledgeBase.search`."""
        with self._parts.record_calls("search"), self.snapshot() as snapshot:
            self._parts.check(snapshot)
            retriever = self._create_retriever(snapshot, mode)
            return retriever.retrieve(question, top_k, read_filter(where))

    def explain(
        self, question: str, top_k: int | None = None, where: Where = None, mode: SearchMode | None = None
    ) -> list[Explanation]:
        """Like `search`, each hit with the reasons for its rank."""
        with self._parts.record_calls("search"), self.snapshot() as snapshot:
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
        with self.snapshot() as snapshot:
            of_source = filter_source(snapshot, source, self._parts.source_files.resolver.normalize(source))
        return {"$and": [condition, of_source]} if condition else of_source

    def filter_notes(self, where: Where) -> list[str]:
        """One line for each field of a filter that no document has, or for a filter that matches no document."""
        with self.snapshot() as snapshot:
            return filter_notes(snapshot, read_filter(where))

    def term_weights(self, terms: Sequence[str]) -> NDArray[np.float32]:
        """Inverse document frequency of each term: (len(terms),)."""
        with self.snapshot() as snapshot:
            return Bm25Index(snapshot.connection).idf(terms)

    def missing_terms(self, terms: Sequence[str]) -> list[str]:
        """Those of the terms of the lexical index that no chunk contains."""
        with self.snapshot() as snapshot:
            return _term_index(snapshot).missing_terms(terms)

    def find_terms(self, prefixes: Sequence[str]) -> dict[str, int]:
        """The terms that begin with one of the prefixes, each with the number of chunks that contain it."""
        with self.snapshot() as snapshot:
            return _term_index(snapshot).find_terms(prefixes)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors of texts: (len(texts), dimension)."""
        return embed_texts(self._parts.components.embedder, texts)

    def embed_question(self, question: str) -> NDArray[np.float32]:
        """Unit vector of a question: (dimension,)."""
        components = self._parts.components
        searched = components.question_vectors.get(question)
        return embed_query(components.embedder, question) if searched is None else searched

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
        with self.snapshot() as snapshot:
            return read_calibration(Catalog(snapshot.connection), self._parts.components.embedder.fingerprint)

    # documents

    def documents(self, where: Where = None) -> list[tuple[str, str, int]]:
        """(source, title, number of chunks) of every document that matches a filter, sorted by source."""
        with self.snapshot() as snapshot:
            return list(snapshot.documents.select(read_filter(where)))

    def find_text(self, pattern: TextPattern, where: Where = None) -> FoundText:
        """The documents that contain a text or match a regular expression, of those that match a filter: all of them.

        Raises InvalidFilter for an invalid filter.
        """
        from ragkit.answer.searchers.text_search import search_texts

        with self.snapshot() as snapshot:
            return search_texts(pattern, snapshot.documents.iter_texts(read_filter(where)))

    def heads(self, where: Where = None) -> list[Document]:
        """The documents that match a filter, by source, with their metadata and the beginning of their text alone."""
        with self.snapshot() as snapshot:
            return list(snapshot.documents.iter_heads(read_filter(where)))

    def chunks_between(self, source: str, start: int, end: int) -> list[Chunk]:
        """The chunks of a source that overlap [start:end] of its text, in order."""
        with self.snapshot() as snapshot:
            return snapshot.documents.chunks_between(source, start, end)

    def central_chunks(self, source: str, count: int) -> list[Chunk]:
        """The chunks of a source that together say most of it, by their vectors, the most central first."""
        with self.snapshot() as snapshot:
            return snapshot.central_chunks(source, count)

    def texts(self) -> list[Document]:
        """Every document whose text is stored, sorted by source."""
        found = (self.document(source) for source, _, _ in self.documents())
        return [document for document in found if document is not None]

    def list_documents(self, after: str = "", limit: int = 50, text: str = "") -> list[DocumentSummary]:
        """The next `limit` documents after the source `after`; `text` filters by source and title."""
        with self.snapshot() as snapshot:
            return snapshot.documents.list_after(after, limit, text)

    def chunks(self) -> Iterator[Chunk]:
        """Every chunk, sorted by source and offset; they are read while the session lasts."""
        chunks = self._snapshot.iter_chunks()
        while True:
            with self.snapshot():
                chunk = next(chunks, None)
            if chunk is None:
                return
            yield chunk

    def document(self, source: str) -> Document | None:
        """The document of a source, with the indexed text, or None."""
        with self.snapshot() as snapshot:
            return snapshot.documents.find(source)

    def find_document(self, document_id: str) -> Document | None:
        """The document with this id, with the indexed text, or None."""
        with self.snapshot() as snapshot:
            return snapshot.documents.find_by_id(document_id)

    def chunk(self, chunk_id: str) -> Chunk | None:
        """The chunk with this id, or None."""
        with self.snapshot() as snapshot:
            return snapshot.find_chunk(chunk_id)

    def first_chunk(self, document_id: str) -> Chunk | None:
        """The chunk at the beginning of a document, or None."""
        with self.snapshot() as snapshot:
            return snapshot.documents.first_chunk(document_id)

    def describe_contents(self, where: Where = None) -> str:
        """What documents match a filter, and which fields filters know, in a few lines for a model.

        Raises InvalidFilter for an invalid filter.
        """
        from ragkit.knowledge_base.contents import describe_contents

        condition, known = read_filter(where), self._parts.contents
        key = f"{self.generation} {condition!r}"
        with self.snapshot() as snapshot:
            if snapshot.is_restricted:  # what one principal may read is not told to others
                return describe_contents(snapshot, condition)
            described = known.get(key)
            if described is None:
                described = describe_contents(snapshot, condition)
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
        with self.snapshot() as snapshot:
            return snapshot.documents.aggregate(field, read_filter(where))

    def is_stale(self, source: str) -> bool:
        """Whether the file has changed since it was indexed, or was deleted."""
        row = self.file_row(source)
        return row is None or not (_is_untouched(row) or not self._parts.source_files.is_changed(row))

    def file_row(self, source: str) -> FileRow | None:
        """The indexing state of the file of a document; None if it is not indexed."""
        with self.snapshot() as snapshot:
            catalog = Catalog(snapshot.connection)
            row = catalog.file(source)
            return catalog.file(row.reason) if row is not None and row.status == "part" else row

    def original(self, source: str) -> OriginalFile | None:
        """The file that a document was read from, as it was indexed.

        None if it has changed since, was deleted, is on another machine, or holds documents that the principal may not
        read. Of a part of a file, such as an attachment of a mail, it is the whole file.
        """
        row = self.file_row(source)
        if row is None:
            return None
        with self.snapshot() as snapshot:
            if snapshot.shares_hidden_content(row.source):
                return None
        return self._parts.source_files.read_original(row)

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
                return document_rectangles(self._parts.source_files.read(source), document, start, end)
        return []

    # state and cost

    def status(self) -> KnowledgeBaseStatus:
        """What the knowledge base holds."""
        parts = self._parts
        with self.snapshot() as snapshot:
            return read_status(snapshot, parts.location, parts.components, parts.source_files)

    def failures(self) -> list[FileRow]:
        """The files that could not be indexed, or whose `access` was not understood, sorted by source."""
        with self.snapshot() as snapshot:
            return find_failures(snapshot)

    def freshness(self, timeout_s: float | None = None) -> Freshness:
        """Whether the sources have changed since the last index run.

        Compares file times, and contents only where times do not tell. After `timeout_s` seconds (None: the default)
        the result is marked as incomplete.
        """
        from ragkit.index.freshness import CHECK_TIMEOUT_S

        timeout_s = CHECK_TIMEOUT_S if timeout_s is None else timeout_s
        with self.snapshot() as snapshot:
            freshness = self._parts.source_files.check_freshness(Catalog(snapshot.connection), timeout_s)
            store = self._parts.components.pipeline.store.name if snapshot.has_outdated_store else ""
        return replace(freshness, outdated_store=store)

    def estimate_cost(self, agent: RAGAgent, question: str) -> float | None:
        """Estimated cost of one answer of `agent` in USD; None if a price is unknown."""
        from ragkit.knowledge_base.cost_estimate import estimate_answer_cost

        chat = estimate_answer_cost(agent, question, self._parts.components.top_k, agent.memory)
        search = self.estimate_search_cost(question)
        return None if chat is None or search is None else chat + search

    def estimate_search_cost(self, question: str) -> float | None:
        """Estimated cost of embedding a question in USD; None if the price is unknown."""
        from ragkit.knowledge_base.cost_estimate import CALIBRATION_TOKENS, embedding_cost

        calibration = CALIBRATION_TOKENS if self.stored_calibration() is None else 0
        return embedding_cost(self._parts.components.embedder, estimate_tokens(question) + calibration)

    def check_budget(self, agent: RAGAgent, question: str, *, known: bool = False) -> None:
        """Check the estimated cost of an answer against the limits of the agent and of the enclosing meters.

        Args:
            agent: from `KnowledgeBase.agent` or `chat`.
            question: the question that it will be asked.
            known: also refuse if a price is unknown.

        Raises:
            BudgetTooSmall: the estimate exceeds a limit.
            PriceUnknown: a price is unknown, and `known` is set.
        """
        from ragkit.knowledge_base.cost_estimate import agent_model_name, check_estimate, lowest_limit

        budget = lowest_limit(agent.config.limits.max_cost_usd)
        if budget is not None:
            check_estimate(agent_model_name(agent), self.estimate_cost(agent, question), budget, known=known)


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
