"""The `Searcher` protocol that answering works on, and the `Answer` that it returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ragkit.agent.trace import AgentTrace
from ragkit.records import JSON, Citation, Document, Hit
from ragkit.usage.meter import AgentUsage

Where: TypeAlias = Mapping[str, JSON] | None


@runtime_checkable
class Searcher(Protocol):
    """Retrieves passages, from a knowledge base or from documents in a vector store."""

    def search(self, question: str, top_k: int | None = None, where: Where = None) -> list[Hit]:
        """The passages relevant to a question, best first."""

    def term_weights(self, terms: Sequence[str]) -> NDArray[np.float32]:
        """Inverse document frequency of each term: (len(terms),), > 0."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embeddings of length 1: (len(texts), dimension)."""

    def embed_question(self, question: str) -> NDArray[np.float32]:
        """The embedding of a question, of length 1: (dimension,)."""

    def find_document(self, document_id: str) -> Document | None:
        """The document with this id as indexed, to verify quotes; None if its text is not stored."""

    def is_stale(self, source: str) -> bool:
        """Whether the file on disk has changed or is gone since it was indexed."""


class MultiModeSearcher(Searcher, Protocol):
    """A searcher with a choice of retrieval mode."""

    def search(
        self,
        question: str,
        top_k: int | None = None,
        where: Where = None,
        mode: Literal["dense", "lexical", "hybrid"] | None = None,
    ) -> list[Hit]:
        """The passages relevant to a question, best first."""


@runtime_checkable
class FilteringSearcher(Protocol):
    """A searcher that restricts another one. Both share one embedder, so one score calibration."""

    @property
    def inner(self) -> Searcher:
        """The unrestricted searcher."""


@dataclass(frozen=True)
class Answer:
    """An answer with its citations, usage and trace."""

    question: str
    text: str
    """Each statement is followed by the number of its citation, as [n]."""
    citations: tuple[Citation, ...]
    abstained: bool
    """The documents do not answer the question: `text` says so, and the citations are the nearest passages."""
    evidence: float
    """Estimated probability that the passages answer the question, in [0, 1]."""
    model: str
    usage: AgentUsage
    trace: AgentTrace
    trace_id: str

    def to_json(self, display: Callable[[str], str] = str) -> dict[str, JSON]:
        """The output of `ask --json`. `display` formats the names of sources."""
        return {
            "question": self.question,
            "answer": self.text,
            "abstained": self.abstained,
            "evidence": round(self.evidence, 4),
            "citations": [_citation_json(citation, display) for citation in self.citations],
            "model": self.model,
            "usage": self.usage.to_dict(),
            "trace_id": self.trace_id,
        }


def _citation_json(citation: Citation, display: Callable[[str], str]) -> dict[str, JSON]:
    return {
        "n": citation.n,
        "source": display(citation.source),
        "place": citation.place,
        "page": citation.page,
        "start_line": citation.start_line,
        "end_line": citation.end_line,
        "start": citation.start,
        "end": citation.end,
        "quote": citation.quote,
        "verified": citation.verified,
        "stale": citation.stale,
        "score": round(citation.score, 4),
        "heading": list(citation.heading),
        "chunk_id": citation.chunk_id,
    }
