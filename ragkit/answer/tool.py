"""`search_knowledge_base`: the one tool through which an agent reads a knowledge base."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Literal, Protocol

from ragkit.agent.tools.base import Tool, ToolContext, ToolResult
from ragkit.agent.tools.function_schema import ToolSignature, read_signature
from ragkit.answer.base import Searcher, Where
from ragkit.answer.evidence import estimate_evidence
from ragkit.index.source_ids import display_name
from ragkit.records import Hit
from ragkit.store.filters.where_syntax import parse_where

TOOL_NAME = "search_knowledge_base"
SHOWN_PASSAGES_KEY = "ragkit.shown"
"""Where a run's state keeps the ids of the passages that the model was shown: the n-th of them is [n]."""
NOTHING_FOUND = "No passage was found."


@dataclass(frozen=True)
class RetrievedPassages:
    """What one search gave: the object behind the tool's text."""

    query: str
    hits: tuple[Hit, ...]
    numbers: tuple[int, ...]
    """The number that each hit was shown under."""
    evidence: float
    """How likely it is that they hold an answer, in [0, 1]."""


class RAGTool:
    """The tool over one searcher. Hand `tool` to any agent."""

    def __init__(self, searcher: Searcher, *, top_k: int = 5, score_threshold: float | None = None) -> None:
        """`score_threshold` leaves out hits whose score is below it."""
        self._searcher = searcher
        self._top_k = top_k
        self._threshold = score_threshold
        self._lock = Lock()

    @property
    def tool(self) -> Tool:
        """The tool, as an agent takes it."""
        told = _tool_signature()
        return Tool(TOOL_NAME, told.summary, self._search, told.schema, signature=told)

    def search_knowledge_base(self, query: str, top_k: int = 0, where: str = "") -> ToolResult:
        """The tool called by hand: numbered passages as text, and the Outcome behind it as `data`."""
        return self._search(query, top_k, where, context=ToolContext())

    def _search(self, query: str, top_k: int = 0, where: str = "", *, context: ToolContext) -> ToolResult:
        """Search the user's documents. Returns numbered passages; cite them as [n].

        Args:
            query: What to look for: a question or key words, in the words that the documents would use.
            top_k: How many passages; 0 for the usual number.
            where: A condition on metadata such as `format == "pdf" and year >= 2020`; empty for none.
        """
        condition = parse_where(where) if where.strip() else None
        hits = self._searcher.search(query, top_k or self._top_k, condition)
        if self._threshold is not None:
            hits = [hit for hit in hits if hit.score >= self._threshold]
        outcome = RetrievedPassages(
            query, tuple(hits), self._assign_numbers(hits, context), estimate_evidence(query, hits, self._searcher)
        )
        return ToolResult(format_passages(outcome), outcome)

    def _assign_numbers(self, hits: list[Hit], context: ToolContext) -> tuple[int, ...]:
        """The number of each hit: the one that it had before, or the next free one. Calls may run side by side."""
        with self._lock:
            known = context.state.get(SHOWN_PASSAGES_KEY)
            ids = [str(one) for one in known] if isinstance(known, list) else []
            ids += [hit.chunk.id for hit in hits if hit.chunk.id not in ids]
            context.state[SHOWN_PASSAGES_KEY] = list(ids)
        return tuple(ids.index(hit.chunk.id) + 1 for hit in hits)


@cache
def _tool_signature() -> ToolSignature:
    """What the tool takes. Read once: a server makes an agent for every answer."""
    return read_signature(RAGTool._search, context_type=ToolContext, hidden=("self",))


class SemanticSearchTool(RAGTool):
    """The tool for searching by meaning alone: exact words count for nothing more than what they mean."""

    def __init__(self, searcher: MultiModeSearcher, *, top_k: int = 5, score_threshold: float | None = None) -> None:
        """`searcher` is a knowledge base; `score_threshold` is a cosine here."""
        super().__init__(_DenseSearcher(searcher), top_k=top_k, score_threshold=score_threshold)


class MultiModeSearcher(Searcher, Protocol):
    """A searcher that can be told how to search."""

    def search(
        self,
        question: str,
        top_k: int | None = None,
        where: Where = None,
        mode: Literal["dense", "lexical", "hybrid"] | None = None,
    ) -> list[Hit]:
        """The passages that speak of a question, best first."""


class _DenseSearcher:
    """A searcher held to one mode."""

    def __init__(self, searcher: MultiModeSearcher) -> None:
        self._searcher = searcher
        self.term_weights = searcher.term_weights
        self.embed = searcher.embed
        self.embed_question = searcher.embed_question
        self.document = searcher.document
        self.is_stale = searcher.is_stale

    def search(self, question: str, top_k: int | None = None, where: Where = None) -> list[Hit]:
        return self._searcher.search(question, top_k, where, "dense")


def format_passages(outcome: RetrievedPassages) -> str:
    """The passages as a model reads them: number, place and text."""
    if not outcome.hits:
        return NOTHING_FOUND
    here = Path.cwd()  # asked once: it lets other threads go first each time
    return "\n\n".join(_format_passage(n, hit, here) for n, hit in zip(outcome.numbers, outcome.hits, strict=True))


def _format_passage(n: int, hit: Hit, here: Path) -> str:
    chunk = hit.chunk
    place = f"page {chunk.page}" if chunk.page is not None else f"lines {chunk.start_line}-{chunk.end_line}"
    heading = f", under {' > '.join(chunk.heading)}" if chunk.heading else ""
    return f"[{n}] {display_name(chunk.source, here)}, {place}{heading}\n{chunk.text}"
