"""The tool `search_knowledge_base`, through which an agent reads a knowledge base."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from inspect import signature
from pathlib import Path
from threading import Lock
from typing import cast

from ragkit.agent.tools.base import Tool, ToolContext, ToolResult
from ragkit.agent.tools.function_schema import ToolSignature, read_signature
from ragkit.answer.base import MultiModeSearcher, Searcher, Where
from ragkit.answer.evidence import estimate_evidence
from ragkit.embed.base import EmbeddingProvider
from ragkit.errors import InvalidOption
from ragkit.index.source_ids import display_name
from ragkit.places import format_lines
from ragkit.records import Hit
from ragkit.retrieve.base import DENSE
from ragkit.store.base import Store
from ragkit.store.filters.where_syntax import parse_where

TOOL_NAME = "search_knowledge_base"
SHOWN_PASSAGES_KEY = "ragkit.shown"
"""Key of the run's state with the ids of the passages shown to the model; the n-th one is cited as [n]."""
NOTHING_FOUND = "No passage was found."
DEFAULT_TOP_K = 3
"""Passages per search, unless the caller sets another number."""
NO_CONTEXT = ToolContext()
"""The context of a call without an agent."""


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
    """The search tool over a knowledge base, over documents, or over a filled vector store.

    Pass `tool` or `search_knowledge_base` to any agent.
    """

    def __init__(
        self,
        searcher: Searcher | Store,
        embedder: EmbeddingProvider | None = None,
        *,
        top_k: int = DEFAULT_TOP_K,
        score_threshold: float | None = None,
    ) -> None:
        """Create the tool.

        Args:
            searcher: a knowledge base, a DocumentSearcher, or a vector store.
            embedder: for a vector store, the embedder of its vectors; None is minilm.
            top_k: number of passages per search, >= 1.
            score_threshold: the minimum cosine of question and passage, in [-1, 1]; None: no minimum. Passages below
                it are dropped, whatever the retriever ranks by.
        """
        if top_k < 1:
            raise InvalidOption("top_k", top_k, "an integer >= 1")
        if score_threshold is not None and not -1 <= score_threshold <= 1:
            raise InvalidOption("score_threshold", score_threshold, "a cosine between -1 and 1, or None")
        self._searcher = _to_searcher(searcher, embedder)
        self._top_k = top_k
        self._threshold = score_threshold
        self._lock = Lock()

    @property
    def tool(self) -> Tool:
        """The tool to register with an agent."""
        read = _tool_signature()
        return Tool(TOOL_NAME, read.summary, self.search_knowledge_base, read.schema, signature=read)

    def search_knowledge_base(
        self, query: str, top_k: int = 0, where: str = "", *, context: ToolContext = NO_CONTEXT
    ) -> ToolResult:
        """Search the user's documents. Returns numbered passages; cite them as [n].

        Args:
            query: What to look for: a question or key words, in the words that the documents would use.
            top_k: How many passages; 0 for the usual number.
            where: A condition on metadata such as `format == "pdf" and year >= 2020`; empty for none.
        """
        condition = parse_where(where) if where.strip() else None
        hits = self._find(query, top_k or self._top_k, condition)
        if self._threshold is not None and hits:
            cosines = _cosines(query, hits, self._searcher)
            hits = [hit for hit, cosine in zip(hits, cosines, strict=True) if cosine >= self._threshold]
        passages = RetrievedPassages(
            query, tuple(hits), self._assign_numbers(hits, context), estimate_evidence(query, hits, self._searcher)
        )
        return ToolResult(format_passages(passages), passages)

    def _find(self, query: str, top_k: int, where: Where) -> list[Hit]:
        return self._searcher.search(query, top_k, where)

    def _assign_numbers(self, hits: list[Hit], context: ToolContext) -> tuple[int, ...]:
        """The number of each hit: its earlier one, or the next free one. Calls may run concurrently."""
        if context is NO_CONTEXT:  # a call without an agent
            return tuple(range(1, len(hits) + 1))
        with self._lock:
            shown = context.state.get(SHOWN_PASSAGES_KEY)
            ids = [str(chunk_id) for chunk_id in shown] if isinstance(shown, list) else []
            ids += [hit.chunk.id for hit in hits if hit.chunk.id not in ids]
            context.state[SHOWN_PASSAGES_KEY] = list(ids)
        return tuple(ids.index(hit.chunk.id) + 1 for hit in hits)


@cache
def _tool_signature() -> ToolSignature:
    """The tool's signature, cached because a server creates an agent for every answer."""
    return read_signature(RAGTool.search_knowledge_base, context_type=ToolContext, hidden=("self",))


class SemanticSearchTool(RAGTool):
    """The search tool with dense retrieval only: passages by their cosine with the question."""

    def _find(self, query: str, top_k: int, where: Where) -> list[Hit]:
        searcher = cast("MultiModeSearcher", self._searcher)
        if "mode" not in signature(searcher.search).parameters:
            name = type(searcher).__name__
            raise InvalidOption("searcher", name, "a KnowledgeBase, a DocumentSearcher or a vector store")
        return searcher.search(query, top_k, where, "dense")


def _to_searcher(searcher: Searcher | Store, embedder: EmbeddingProvider | None) -> Searcher:
    if isinstance(searcher, Searcher):
        return searcher
    from ragkit.answer.document_searcher import DocumentSearcher  # noqa: PLC0415 - imports the splitters

    return DocumentSearcher([], searcher, embedder)


def _cosines(question: str, hits: list[Hit], searcher: Searcher) -> list[float]:
    """The cosine of the question and each hit; computed for hits that were found by their words alone."""
    missing = [hit.chunk.text for hit in hits if DENSE not in hit.scores]
    computed = iter((searcher.embed(missing) @ searcher.embed_question(question)).tolist() if missing else ())
    return [hit.scores[DENSE] if DENSE in hit.scores else next(computed) for hit in hits]


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
    context = f"\nContext: {chunk.context}" if chunk.context else ""
    return f"[{n}] {display_name(chunk.source, directory)}, {place}{heading}{context}\n{chunk.text}"
