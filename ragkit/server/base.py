"""The protocol of a knowledge base that the server can serve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ragkit.agent.memory.memory import ConversationMemory
from ragkit.answer.agent import RAGAgent
from ragkit.answer.base import Searchable
from ragkit.index.aggregate import FieldAggregate
from ragkit.index.catalog.database_url import DatabaseUrl
from ragkit.index.reader import CatalogReader, DocumentSummary
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.knowledge_base.sources.source_files import OriginalFile
from ragkit.records import JSON, Chunk, Document, Hit, SearchMode, Where
from ragkit.retrieve.base import Explanation
from ragkit.usage.meter import Meter


class SupportsToJson(Protocol):
    """A report that serializes to JSON."""

    def to_json(self) -> dict[str, JSON]:
        """The report as JSON."""


class ServedKnowledgeBase(Searchable, Protocol):
    """A knowledge base as the server uses it. `KnowledgeBase` implements it."""

    @property
    def path(self) -> Path:
        """Its directory; that of the local copy for one in a database."""

    @property
    def database(self) -> DatabaseUrl | None:
        """The address of one in a database, where servers keep their state; None for a directory."""

    @property
    def top_k(self) -> int:
        """Default number of hits of a search."""

    @property
    def embedder_name(self) -> str:
        """`provider:model` of the embedder, or its fingerprint."""

    def search(
        self, question: str, top_k: int | None = None, where: Where = None, mode: SearchMode | None = None
    ) -> list[Hit]:
        """The hits for a question, best first."""

    def explain(
        self, question: str, top_k: int | None = None, where: Where = None, mode: SearchMode | None = None
    ) -> list[Explanation]:
        """The hits for a question, each with its scores and ranks per retriever."""

    @property
    def has_records(self) -> bool:
        """Whether some documents are rows of tables."""

    def aggregate(self, field: str = "", where: Where = None) -> FieldAggregate:
        """The numbers in a field of the documents that a filter selects."""

    def create_filter(self, where: Where = None, source: str = "") -> Mapping[str, JSON] | None:
        """A filter for the documents of a file, folder or URL that match another filter. Raises InvalidFilter."""

    def filter_notes(self, where: Where) -> list[str]:
        """What a filter cannot match."""

    def agent(
        self, model: str | None = None, max_cost_usd: float | None = None, memory: ConversationMemory | None = None
    ) -> RAGAgent:
        """The agent that answers questions. Raises UnknownName, MissingExtra, AuthenticationFailed."""

    def check_budget(self, agent: RAGAgent, question: str, *, known: bool = False) -> None:
        """Raises BudgetTooSmall if the estimated cost of an answer exceeds the budget."""

    def open_writer(self) -> KnowledgeBase:
        """A second instance, which can write while this one is searched."""

    @property
    def reader(self) -> CatalogReader:
        """The open read side."""

    @property
    def max_file_bytes(self) -> int:
        """Files larger than this are not indexed."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors of texts: (len(texts), dimension)."""

    def rerank(self, question: str, texts: Sequence[str]) -> tuple[str, NDArray[np.float64]]:
        """The relevance of texts for a question, higher is better: (len(texts),); and what has measured it."""

    def create_meter(self, verb: str) -> Meter:
        """A meter that records its calls in the ledger."""

    def require_ready(self) -> None:
        """Raises KnowledgeBaseError if it cannot be searched."""

    def status(self) -> SupportsToJson:
        """Counts of documents and chunks, sources and settings."""

    def document_rows(self, after: str = "", limit: int = 50, text: str = "") -> Sequence[DocumentSummary]:
        """Up to `limit` documents after the source `after`, by source; `text` filters by source and title."""

    def document(self, source: str) -> Document | None:
        """The document of a source, with the indexed text, or None."""

    def find_document(self, document_id: str) -> Document | None:
        """The document with this id, with its indexed text; None if there is none."""

    def is_stale(self, source: str) -> bool:
        """Whether the file on disk has changed or is gone since it was indexed."""

    def original(self, source: str) -> OriginalFile | None:
        """The file that a document was read from, as it was indexed; None if it is not the same any more."""

    def chunk(self, chunk_id: str) -> Chunk | None:
        """The chunk with this id; None if there is none."""
