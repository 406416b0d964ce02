"""The tool `search_knowledge_base`, through which an agent reads a knowledge base."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from threading import Lock

from ragkit.agent.tools.base import Tool, ToolContext, ToolResult
from ragkit.agent.tools.function_schema import ToolSignature, read_signature
from ragkit.answer.base import Searchable, Searcher, both_filters
from ragkit.answer.extractive.evidence import estimate_evidence
from ragkit.answer.extractive.whole import answer_whole, limit_to_named
from ragkit.answer.outcome import NOT_FOUND_MARK
from ragkit.answer.passage_text import EXTRACTS_BUDGET, choose_extracts, format_blocks, format_extracts
from ragkit.answer.passages import SHOWN_PASSAGES_KEY, TOOL_NAME, RetrievedPassages, within_budget
from ragkit.argument_types import check_types
from ragkit.embed.base import EmbeddingProvider
from ragkit.errors import InvalidOption
from ragkit.records import Hit, Where
from ragkit.retrieve.base import DENSE
from ragkit.store.base import Store
from ragkit.store.filters.where_syntax import parse_where

NOTHING_FOUND = "No passage was found."
NO_EXTRACTS = f"{NOTHING_FOUND} The answer is: {NOT_FOUND_MARK}"
"""A small model repeats it."""
DEFAULT_TOP_K = 3
"""Passages per search, unless the caller sets another number."""
MAX_TOP_K = 20
"""Passages per search that a model may ask for."""
DEFAULT_PASSAGES_BUDGET = 4000
"""Tokens of the passages of one search."""
FAR_EVIDENCE = 0.3
"""No extracts are shown of passages with less evidence: small models answer from anything that they are shown. Of the
answerable questions of two English sets 1 of 172 is below it, of a German one 2 of 22."""
_LOCK = Lock()
NO_CONTEXT = ToolContext()
"""The context of a call without an agent."""


@check_types()
class RAGTool:
    """The search tool over a knowledge base, over documents, or over a filled vector store.

    Pass `tool` or `search_knowledge_base` to any agent.
    """

    def __init__(  # noqa: PLR0913 - the options of a tool, by keyword
        self,
        documents: Searchable | Store,
        embedder: EmbeddingProvider | None = None,
        *,
        top_k: int = DEFAULT_TOP_K,
        max_top_k: int = MAX_TOP_K,
        where: Where = None,
        score_threshold: float | None = None,
        passages_budget: int = DEFAULT_PASSAGES_BUDGET,
        contents: str = "",
        keeps_numbers: bool = True,
        estimates_evidence: bool = True,
        extracts: bool = False,
    ) -> None:
        """Create the tool.

        Args:
            documents: a knowledge base, a DocumentSearcher, or a vector store.
            embedder: for a vector store, the embedder of its vectors; None is minilm.
            top_k: number of passages per search, >= 1.
            max_top_k: passages per search that a model may ask for, unless `top_k` is larger.
            where: a metadata filter that applies to every search, whatever a model asks for.
            passages_budget: tokens of the passages that one search shows, by estimate, >= 1; the best ones are shown,
                at least one.
            contents: what the documents are, for the model; see `KnowledgeBase.describe_contents`.
            keeps_numbers: whether a passage keeps its number in the conversation; if not, each search counts from 1.
            estimates_evidence: whether a search estimates the probability that its passages answer the query.
            extracts: whether a search shows of its passages only the sentences and rows that are closest to the query,
                and nothing if they probably do not answer it.
            score_threshold: the minimum cosine of question and passage, in [-1, 1]; None: no minimum. Passages below
                it are dropped, whatever the retriever ranks by.
        """
        if top_k < 1:
            raise InvalidOption("top_k", top_k, "an integer >= 1")
        if score_threshold is not None and not -1 <= score_threshold <= 1:
            raise InvalidOption("score_threshold", score_threshold, "a cosine between -1 and 1, or None")
        if passages_budget < 1:
            raise InvalidOption("passages_budget", passages_budget, "an integer >= 1 (tokens)")
        self._documents = _to_searchable(documents, embedder)
        self._top_k = top_k
        self._max_top_k = max(max_top_k, top_k)
        self._where = where
        self._threshold = score_threshold
        self._budget = passages_budget
        self._contents = contents
        self._keeps_numbers = keeps_numbers
        self._estimates_evidence = estimates_evidence
        self._extracts = extracts

    @property
    def tool(self) -> Tool:
        """The tool to register with an agent."""
        read = _tool_signature()
        summary = f"{read.summary}\n{self._contents}" if self._contents else read.summary
        return Tool(TOOL_NAME, summary, self.search_knowledge_base, read.schema, signature=read)

    def search_knowledge_base(
        self, query: str, top_k: int = 0, where: str = "", *, context: ToolContext = NO_CONTEXT
    ) -> ToolResult:
        """Search the user's documents, again with other words if needed. Returns numbered passages: cite [n].

        Args:
            query: What to look for, in words of the documents, without "it" or "that".
            top_k: Number of passages; 0: as usual.
            where: As `format == "pdf" and year >= 2020`.
        """
        condition = both_filters(self._where, parse_where(where) if where.strip() else None)
        wanted = min(top_k, self._max_top_k) if top_k > 0 else self._top_k
        with self._documents.session() as searcher:
            whole = answer_whole(query, searcher, condition)
            limited = condition if whole else limit_to_named(query, searcher, condition)
            hits = whole.hits if whole else self._find(searcher, query, wanted, limited)
            if self._threshold is not None and hits and whole is None:
                cosines = _cosines(query, hits, searcher)
                hits = [hit for hit, cosine in zip(hits, cosines, strict=True) if cosine >= self._threshold]
            shown = within_budget(hits, self._budget)
            over_all = whole is not None and (whole.over_all or len(shown) < len(hits))
            left_out = len(hits) - len(shown)
            evidence = estimate_evidence(query, shown, searcher) if self._estimates_evidence else None
            evidence = whole.quoted.evidence if whole and self._estimates_evidence else evidence
            before = shown_ids(context)
            as_extracts = self._extracts and whole is None
            if as_extracts:
                is_far = evidence is not None and evidence < FAR_EVIDENCE
                extracts = [] if is_far else choose_extracts(query, shown, searcher, min(EXTRACTS_BUDGET, self._budget))
                shown = [extract.hit for extract in extracts]
                numbers = self._assign_numbers(shown, context)
                blocks = format_extracts(extracts, numbers, searcher, query)
            else:
                numbers = self._assign_numbers(shown, context)
                blocks = format_blocks(shown, numbers, searcher, query)
        passages = RetrievedPassages(
            query, tuple(shown), numbers, evidence, len(before), blocks, over_all, are_extracts=as_extracts
        )
        if whole:
            of_chunks = {hit.chunk.id: n for hit, n in zip(shown, numbers, strict=True)}
            return ToolResult(whole.tool_text(of_chunks, list(blocks.values())), passages)
        return ToolResult(_format_result(passages, left_out), passages)

    def _find(self, searcher: Searcher, query: str, top_k: int, where: Where) -> list[Hit]:
        return searcher.search(query, top_k, where)

    def _assign_numbers(self, hits: list[Hit], context: ToolContext) -> tuple[int, ...]:
        """The number of each hit; see `assign_numbers`."""
        if context is NO_CONTEXT or not self._keeps_numbers:
            return tuple(range(1, len(hits) + 1))
        return assign_numbers(hits, context)


def assign_numbers(hits: Sequence[Hit], context: ToolContext) -> tuple[int, ...]:
    """The number of each hit in a conversation: its earlier one, or the next free one. Calls may run concurrently."""
    with _LOCK:
        ids = shown_ids(context)
        ids += dict.fromkeys(hit.chunk.id for hit in hits if hit.chunk.id not in ids)
        context.state[SHOWN_PASSAGES_KEY] = list(ids)
    return tuple(ids.index(hit.chunk.id) + 1 for hit in hits)


def shown_ids(context: ToolContext) -> list[str]:
    """The ids of the passages that the conversation has shown, by number."""
    shown = context.state.get(SHOWN_PASSAGES_KEY)
    return [str(chunk_id) for chunk_id in shown] if isinstance(shown, list) else []


@cache
def _tool_signature() -> ToolSignature:
    """The tool's signature, cached because a server creates an agent for every answer."""
    return read_signature(RAGTool.search_knowledge_base, context_type=ToolContext, hidden=("self",))


@check_types()
class SemanticSearchTool(RAGTool):
    """The search tool with dense retrieval only: passages by their cosine with the question."""

    def _find(self, searcher: Searcher, query: str, top_k: int, where: Where) -> list[Hit]:
        return searcher.search(query, top_k, where, "dense")


def _to_searchable(documents: Searchable | Store, embedder: EmbeddingProvider | None) -> Searchable:
    if isinstance(documents, Searchable):
        return documents
    from ragkit.answer.searchers.document_searcher import DocumentSearcher  # noqa: PLC0415 - imports the splitters

    return DocumentSearcher([], documents, embedder)


def _cosines(question: str, hits: list[Hit], searcher: Searcher) -> list[float]:
    """The cosine of the question and each hit; computed for hits that were found by their words alone."""
    missing = [hit.chunk.text for hit in hits if DENSE not in hit.scores]
    computed = iter((searcher.embed(missing) @ searcher.embed_question(question)).tolist() if missing else ())
    return [hit.scores[DENSE] if DENSE in hit.scores else next(computed) for hit in hits]


def _format_result(passages: RetrievedPassages, left_out: int) -> str:
    """The result of a search as text for a model."""
    if not passages.hits:
        return NO_EXTRACTS if passages.are_extracts else NOTHING_FOUND
    note = [f"({left_out} more left out: the passages of one search are limited.)"] if left_out else []
    return "\n\n".join([*passages.blocks.values(), *note])
