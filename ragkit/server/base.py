"""What a server needs of a knowledge base."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias

from ragkit.agent.memory import ConversationMemory
from ragkit.answer.agent import RAGAgent
from ragkit.answer.base import Searcher, Where
from ragkit.index.reader import DocumentSummary
from ragkit.records import JSON, Chunk, Document, Hit
from ragkit.retrieve.base import Explanation
from ragkit.usage.meter import Meter

SearchMode: TypeAlias = Literal["dense", "lexical", "hybrid"]


class SupportsToJson(Protocol):
    """A report."""

    def to_json(self) -> dict[str, JSON]:
        """The report as JSON."""


class ServedKnowledgeBase(Searcher, Protocol):
    """A knowledge base as it is served. `ragkit.knowledge_base.knowledge_base.KnowledgeBase` keeps it."""

    @property
    def top_k(self) -> int:
        """How many hits a search gives when nobody says."""

    @property
    def embedder_name(self) -> str:
        """`provider:model` of the embedder, or its fingerprint."""

    def search(
        self, question: str, top_k: int | None = None, where: Where = None, mode: SearchMode | None = None
    ) -> list[Hit]:
        """The passages that speak of a question, best first."""

    def explain(
        self, question: str, top_k: int | None = None, where: Where = None, mode: SearchMode | None = None
    ) -> list[Explanation]:
        """The same, each hit with the reasons for its place."""

    def agent(
        self, model: str | None = None, max_cost_usd: float | None = None, memory: ConversationMemory | None = None
    ) -> RAGAgent:
        """The agent that answers. Raises UnknownName, MissingExtra, AuthenticationFailed."""

    def check_budget(self, agent: RAGAgent, question: str, *, known: bool = False) -> None:
        """Raises BudgetTooSmall when an answer is likely to cost more than it may."""

    def create_meter(self, verb: str) -> Meter:
        """A meter whose calls are written to the ledger."""

    def require_ready(self) -> None:
        """Raises KnowledgeBaseError when it cannot be searched."""

    def status(self) -> SupportsToJson:
        """What is in it."""

    def document_rows(self, after: str = "", limit: int = 50, text: str = "") -> Sequence[DocumentSummary]:
        """The next `limit` documents behind the source `after`; with `text` those that have it in source or title."""

    def find_document(self, document_id: str) -> Document | None:
        """The document with this id, with the text that was indexed."""

    def chunk(self, chunk_id: str) -> Chunk | None:
        """The chunk with this id."""
