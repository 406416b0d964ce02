"""The `Searcher` that answering works on, and the `Answer` that it returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ragkit.agent.tracing.trace import AgentTrace
from ragkit.answer.confidence import describe
from ragkit.answer.outcome import NOTICES, Outcome, describe_unknown_citations
from ragkit.answer.score_calibration import ScoreCalibration
from ragkit.records import JSON, Chunk, Citation, Document, Hit, SearchMode, Where
from ragkit.usage.meter import AgentUsage

EXTRACTIVE = "extractive"
"""`Answer.model` of an answer without a model."""


class Searcher(Protocol):
    """Reads one state of the documents, for one task: what it searches, quotes and verifies fits together.

    A `Session` of a knowledge base, or documents in a vector store.
    """

    def session(self) -> AbstractContextManager[Searcher]:
        """Itself."""

    def search(
        self, question: str, top_k: int | None = None, where: Where = None, mode: SearchMode | None = None
    ) -> list[Hit]:
        """The passages relevant to a question, best first. `mode` None: the usual one."""

    def term_weights(self, terms: Sequence[str]) -> NDArray[np.float32]:
        """Inverse document frequency of each term: (len(terms),), > 0."""

    def missing_terms(self, terms: Sequence[str]) -> list[str]:
        """Those of the terms that no chunk contains."""

    def find_terms(self, prefixes: Sequence[str]) -> dict[str, int]:
        """The terms that begin with one of the prefixes, each with the number of chunks that contain it."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embeddings of length 1: (len(texts), dimension)."""

    def embed_question(self, question: str) -> NDArray[np.float32]:
        """The embedding of a question, of length 1: (dimension,)."""

    def calibration(self) -> ScoreCalibration:
        """The score calibration of the embedder."""

    def find_document(self, document_id: str) -> Document | None:
        """The document with this id as indexed, to verify quotes; None if its text is not stored."""

    def chunk(self, chunk_id: str) -> Chunk | None:
        """The chunk with this id; None if there is none."""

    def first_chunk(self, document_id: str) -> Chunk | None:
        """The chunk at the beginning of a document, with its title page; None if there is none."""

    def is_stale(self, source: str) -> bool:
        """Whether the file on disk has changed or is gone since it was indexed."""

    def describe_contents(self, where: Where = None) -> str:
        """What documents match a filter, and which fields filters know, in a few lines for a model; '' if unknown."""


@runtime_checkable
class Searchable(Protocol):
    """Opens sessions: a knowledge base; a `Searcher` is its own session."""

    def search(
        self, question: str, top_k: int | None = None, where: Where = None, mode: SearchMode | None = None
    ) -> list[Hit]:
        """The passages relevant to a question, best first, as the documents are now."""

    def session(self) -> AbstractContextManager[Searcher]:
        """One state of the documents, as it is now, until the end of the block."""


def both_filters(first: Where, second: Where) -> Where:
    """The filter of the documents that match both."""
    return {"$and": [first, second]} if first and second else first or second


class Support(StrEnum):
    """Whether the cited passages say what a statement says."""

    SUPPORTED = "supported"
    PARTLY = "partly"
    """They say a part of it, or something near to it."""
    NOT_FOUND = "not_found"
    """They do not say it, or say otherwise."""
    NO_CITATION = "no_citation"
    """It names no passage that was shown."""


@dataclass(frozen=True)
class Statement:
    """A statement of an answer, held against the passages that it cites."""

    text: str
    """Without citation marks and Markdown."""
    citations: tuple[int, ...]
    """The numbers of the passages that it cites."""
    support: Support
    checks: tuple[str, ...] = ()
    """What was found in the passages, such as "numbers match"."""
    reason: str = ""
    """What is wrong, in plain words; empty if it is supported."""
    found_in: int | None = None
    """The number of another passage that supports it."""
    found_at: str = ""
    """The source of that passage."""


@dataclass(frozen=True)
class Answer:
    """An answer with its citations, usage and trace."""

    question: str
    text: str
    """Each statement is followed by the number of its citation, as [n]."""
    citations: tuple[Citation, ...]
    abstained: bool
    """`text` says that the documents do not answer the question; the citations are the nearest passages."""
    evidence: float
    """Without a model, the estimated probability that the answer is right; with one, that the passages hold an answer.
    In [0, 1]."""
    model: str
    usage: AgentUsage
    trace: AgentTrace
    trace_id: str
    searched_for: str = ""
    """The question as ragkit searched it, if it was completed or corrected; '' if it was searched as asked."""
    outcome: Outcome = Outcome.ANSWERED
    notices: tuple[str, ...] = ()
    """What a reader must be told, one line each: that the answer is cut off, cites nothing, or was refused."""
    unknown_citations: tuple[int, ...] = ()
    """Citation numbers that were never shown to the model, and were taken out of `text`."""
    statements: tuple[Statement, ...] = ()
    """What the text claims, in order; a quoted answer has one for each quote."""

    @property
    def supported(self) -> float | None:
        """The share of the statements that are supported, in [0, 1]; partly counts half. None without statements."""
        if not self.statements:
            return None
        shares = {Support.SUPPORTED: 1.0, Support.PARTLY: 0.5}
        return sum(shares.get(statement.support, 0.0) for statement in self.statements) / len(self.statements)

    @property
    def confidence(self) -> str | None:
        """`evidence` in words for an answer without a model, "likely" or "uncertain"; None for any other."""
        is_estimated = self.model == EXTRACTIVE and self.outcome is Outcome.ANSWERED and self.evidence > 0
        return describe(self.evidence) if is_estimated else None

    @property
    def unsupported(self) -> tuple[Statement, ...]:
        """The statements that the cited passages do not support, and those without a citation."""
        return tuple(s for s in self.statements if s.support in (Support.NOT_FOUND, Support.NO_CITATION))

    @property
    def unsupported_reasons(self) -> list[str]:
        """Why the documents do not support this answer, one line each; empty if they do. `--strict` fails on them."""
        reasons = []
        if self.outcome is Outcome.NOT_IN_DOCUMENTS:
            reasons.append("the documents hold no answer")
        elif self.outcome is Outcome.PASSAGES:
            reasons.append("the documents hold no direct answer")
        elif self.outcome is not Outcome.ANSWERED:
            reasons.append(self.notices[0] if self.notices else NOTICES[self.outcome])
        if self.unknown_citations:
            reasons.append(describe_unknown_citations(self.unknown_citations))
        if self.unsupported:
            reasons.append(f"{len(self.unsupported)} of {len(self.statements)} statements are not supported")
        return reasons

    def to_json(self, display: Callable[[str], str] = str) -> dict[str, JSON]:
        """The output of `ask --json`. `display` formats the names of sources."""
        return {
            "question": self.question,
            "searched_for": self.searched_for,
            "answer": self.text,
            "abstained": self.abstained,
            "outcome": self.outcome.value,
            "notices": list(self.notices),
            "unknown_citations": list(self.unknown_citations),
            "unsupported_reasons": list(self.unsupported_reasons),
            "evidence": round(self.evidence, 4),
            "confidence": self.confidence,
            "supported": None if self.supported is None else round(self.supported, 4),
            "statements": [_statement_json(statement, display) for statement in self.statements],
            "citations": [citation.to_json(display) for citation in self.citations],
            "model": self.model,
            "usage": self.usage.to_dict(),
            "trace_id": self.trace_id,
        }


def format_confidence(answer: Answer) -> str:
    """The word and the number for how likely an answer is right, or for the evidence that a model had."""
    value = f"{answer.evidence:.2f}"
    return f"evidence {value}" if answer.confidence is None else f"{answer.confidence} ({value})"


def _statement_json(statement: Statement, display: Callable[[str], str]) -> dict[str, JSON]:
    return {
        "text": statement.text,
        "citations": list(statement.citations),
        "support": statement.support.value,
        "checks": list(statement.checks),
        "reason": statement.reason,
        "found_in": statement.found_in,
        "found_at": display(statement.found_at) if statement.found_at else None,
    }
