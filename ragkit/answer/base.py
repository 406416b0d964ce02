"""What answering needs of whatever holds the passages, and what it gives back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ragkit.agent.trace import AgentTrace
from ragkit.records import JSON, Citation, Document, Hit
from ragkit.usage.meter import AgentUsage

Where: TypeAlias = Mapping[str, JSON] | None


class Searcher(Protocol):
    """Finds passages: a knowledge base, or documents in a vector store."""

    def search(self, question: str, top_k: int | None = None, where: Where = None) -> list[Hit]:
        """The passages that speak of a question, best first."""

    def term_weights(self, terms: Sequence[str]) -> NDArray[np.float32]:
        """How rare each term is among the passages: (len(terms),), above 0; the rarer, the higher."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit rows of sentences: (len(texts), dimension)."""

    def embed_question(self, question: str) -> NDArray[np.float32]:
        """The unit row of a question: (dimension,)."""

    def document(self, source: str) -> Document | None:
        """The document of a source as it was indexed, to hold quotes against; None when its text is not kept."""

    def is_stale(self, source: str) -> bool:
        """Whether the file on disk is not the one that was indexed."""


@runtime_checkable
class FilteringSearcher(Protocol):
    """A searcher that shows a part of another one. What is measured of the embedder is measured of `whole`, once."""

    @property
    def inner(self) -> Searcher:
        """The searcher behind it."""


@dataclass(frozen=True)
class Answer:
    """An answer and everything that it leans on."""

    question: str
    text: str
    """With the number of a citation behind each statement, as [n]."""
    citations: tuple[Citation, ...]
    abstained: bool
    """The documents do not say: `text` tells so, and the citations are the nearest passages."""
    evidence: float
    """How likely it is that the passages hold an answer, in [0, 1]."""
    model: str
    usage: AgentUsage
    trace: AgentTrace
    trace_id: str

    def to_json(self) -> dict[str, JSON]:
        """The contract's shape of `ask --json`."""
        return {
            "question": self.question,
            "answer": self.text,
            "abstained": self.abstained,
            "evidence": round(self.evidence, 4),
            "citations": [citation_json(citation) for citation in self.citations],
            "model": self.model,
            "usage": self.usage.to_dict(),
            "trace_id": self.trace_id,
        }


def citation_json(citation: Citation) -> dict[str, JSON]:
    """A citation with the keys of the contract."""
    return {
        "n": citation.n,
        "source": citation.source,
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
