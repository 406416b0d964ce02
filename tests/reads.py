"""What tests read of a knowledge base: each call in a session of its own."""

from __future__ import annotations

from ragkit.answer.agent import RAGAgent
from ragkit.index.catalog.sqlite import FileRow
from ragkit.index.freshness import Freshness
from ragkit.index.snapshot.documents import DocumentSummary
from ragkit.knowledge_base.filters import Where
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.records import Chunk, Document
from ragkit.retrieve.base import Explanation


def documents(kb: KnowledgeBase) -> list[tuple[str, str, int]]:
    """(source, title, number of chunks) of every document."""
    with kb.session() as session:
        return session.documents()


def list_documents(kb: KnowledgeBase, after: str = "", limit: int = 50, text: str = "") -> list[DocumentSummary]:
    """The next documents after a source."""
    with kb.session() as session:
        return session.list_documents(after, limit, text)


def chunks(kb: KnowledgeBase) -> list[Chunk]:
    """Every chunk."""
    with kb.session() as session:
        return list(session.chunks())


def document(kb: KnowledgeBase, source: str) -> Document | None:
    """The document of a source."""
    with kb.session() as session:
        return session.document(source)


def find_document(kb: KnowledgeBase, document_id: str) -> Document | None:
    """The document with an id."""
    with kb.session() as session:
        return session.find_document(document_id)


def chunk(kb: KnowledgeBase, chunk_id: str) -> Chunk | None:
    """The chunk with an id."""
    with kb.session() as session:
        return session.chunk(chunk_id)


def failures(kb: KnowledgeBase) -> list[FileRow]:
    """The files that could not be indexed."""
    with kb.session() as session:
        return session.failures()


def freshness(kb: KnowledgeBase, timeout_s: float | None = None) -> Freshness:
    """Whether the sources have changed."""
    with kb.session() as session:
        return session.freshness(timeout_s)


def is_stale(kb: KnowledgeBase, source: str) -> bool:
    """Whether a file has changed."""
    with kb.session() as session:
        return session.is_stale(source)


def filter_notes(kb: KnowledgeBase, where: Where) -> list[str]:
    """What a filter cannot match."""
    with kb.session() as session:
        return session.filter_notes(where)


def explain(kb: KnowledgeBase, question: str, top_k: int | None = None) -> list[Explanation]:
    """The hits for a question with their reasons."""
    with kb.session() as session:
        return session.explain(question, top_k)


def estimate_cost(kb: KnowledgeBase, agent: RAGAgent, question: str) -> float | None:
    """The estimated cost of an answer."""
    with kb.session() as session:
        return session.estimate_cost(agent, question)
