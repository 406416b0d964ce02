"""The tool `search_knowledge_base`, through which an agent reads a knowledge base."""

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
from ragkit.places import format_lines
from ragkit.records import Hit
from ragkit.store.filters.where_syntax import parse_where

TOOL_NAME = "search_knowledge_base"
SHOWN_PASSAGES_KEY = "ragkit.shown"
"""Key of the run's state with the ids of the passages shown to the model; the n-th one is cited as [n]."""
NOTHING_FOUND = "No passage was found."


@dataclass(frozen=True)
class RetrievedPassages:
    """The result of one search: the data of the tool's result."""

    query: str
    hits: tuple[Hit, ...]
    numbers: tuple[int, ...]
    """The citation number of each hit."""
    evidence: float
    """Estimated probability that the hits answer the query, in [0, 1]."""


class RAGTool:
    """The search tool over one searcher. Pass `tool` to any agent."""

    def __init__(self, searcher: Searcher, *, top_k: int = 5, score_threshold: float | None = None) -> None:
        """Hits with a score below `score_threshold` are dropped."""
        self._searcher = searcher
        self._top_k = top_k
        self._threshold = score_threshold
        self._lock = Lock()

    @property
    def tool(self) -> Tool:
        """The tool to register with an agent."""
        signature = _tool_signature()
        return Tool(TOOL_NAME, signature.summary, self._search, signature.schema, signature=signature)

    def search_knowledge_base(self, query: str, top_k: int = 0, where: str = "") -> ToolResult:
        """Call the tool directly: `content` has the numbered passages, `data` is a RetrievedPassages."""
        return self._search(query, top_k, where, context=ToolContext())

    def _search(self, query: str, top_k: int = 0, where: str = "", *, context: ToolContext) -> ToolResult:
        """Search the user's documents. Returns numbered passages; cite them as [n].

        Args:
            query: What to look for: a question or key words, in the words that the documents would use.
            top_k: How many passages; 0 for the usual number.
            where: A condition on metadata such as `format == "pdf" and year >= 2020`; empty for none.
        """
        condition = parse_where(where) if where.strip() else None
        hits = self._find(query, top_k or self._top_k, condition)
        if self._threshold is not None:
            hits = [hit for hit in hits if hit.score >= self._threshold]
        passages = RetrievedPassages(
            query, tuple(hits), self._assign_numbers(hits, context), estimate_evidence(query, hits, self._searcher)
        )
        return ToolResult(format_passages(passages), passages)

    def _find(self, query: str, top_k: int, where: Where) -> list[Hit]:
        return self._searcher.search(query, top_k, where)

    def _assign_numbers(self, hits: list[Hit], context: ToolContext) -> tuple[int, ...]:
        """The number of each hit: its earlier one, or the next free one. Calls may run concurrently."""
        with self._lock:
            shown = context.state.get(SHOWN_PASSAGES_KEY)
            ids = [str(chunk_id) for chunk_id in shown] if isinstance(shown, list) else []
            ids += [hit.chunk.id for hit in hits if hit.chunk.id not in ids]
            context.state[SHOWN_PASSAGES_KEY] = list(ids)
        return tuple(ids.index(hit.chunk.id) + 1 for hit in hits)


@cache
def _tool_signature() -> ToolSignature:
    """The tool's signature, cached because a server creates an agent for every answer."""
    return read_signature(RAGTool._search, context_type=ToolContext, hidden=("self",))


class SemanticSearchTool(RAGTool):
    """The search tool with dense retrieval only."""

    def __init__(self, searcher: MultiModeSearcher, *, top_k: int = 5, score_threshold: float | None = None) -> None:
        """`searcher` is a knowledge base; `score_threshold` is a cosine."""
        super().__init__(searcher, top_k=top_k, score_threshold=score_threshold)
        self._dense_searcher = searcher

    def _find(self, query: str, top_k: int, where: Where) -> list[Hit]:
        return self._dense_searcher.search(query, top_k, where, "dense")


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


def format_passages(passages: RetrievedPassages) -> str:
    """The passages as text for a model: number, place and content."""
    if not passages.hits:
        return NOTHING_FOUND
    directory = Path.cwd()  # called once: each call releases the GIL
    hits = zip(passages.numbers, passages.hits, strict=True)
    return "\n\n".join(_format_passage(n, hit, directory) for n, hit in hits)


def _format_passage(n: int, hit: Hit, directory: Path) -> str:
    chunk = hit.chunk
    place = chunk.place or format_lines(chunk.start_line, chunk.end_line)
    heading = f", under {' > '.join(chunk.heading)}" if chunk.heading else ""
    return f"[{n}] {display_name(chunk.source, directory)}, {place}{heading}\n{chunk.text}"
