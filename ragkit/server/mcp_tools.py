"""What MCP clients may call: the tools over one knowledge base, without the protocol around them.

Everything comes out of the catalog. A client names documents by what the knowledge base itself listed: no path is
ever opened, joined or resolved because a client sent it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, TypeVar
from urllib.parse import parse_qsl, urlsplit

from pydantic import Field

from ragkit import __version__
from ragkit.agent.background_tasks import THREAD_POOL
from ragkit.agent.cancellation import Cancellation
from ragkit.agent.events import RunEnded
from ragkit.agent.result import AgentResult
from ragkit.agent.tools.base import Tool, ToolResult
from ragkit.agent.tools.function_schema import ToolSchema
from ragkit.answer.agent import RAGAgent
from ragkit.answer.base import Answer
from ragkit.answer.json_shapes import answer_json, hit_json
from ragkit.answer.tool import TOOL_NAME, RAGTool, RetrievedPassages
from ragkit.errors import BudgetExceeded, InvalidOption, RunError
from ragkit.index.reader import DocumentSummary
from ragkit.index.source_ids import display_name
from ragkit.records import JSON, Citation, Document
from ragkit.server.base import ServedKnowledgeBase, SupportsToJson
from ragkit.server.concurrency import ConcurrencyLimiter
from ragkit.server.database import decode_cursor, encode_cursor
from ragkit.server.http_errors import invalid_request
from ragkit.server.mcp_schemas import (
    AnswerSchema,
    DocumentLinesSchema,
    DocumentListSchema,
    IndexReportSchema,
    KnowledgeBaseStatusSchema,
    SearchResultSchema,
    output_schema,
)
from ragkit.server.settings import ServerLimits
from ragkit.usage.meter import use_meter

DOCUMENT_URI_PREFIX = "ragkit://document/"
"""What the address of a document as an MCP resource begins with; its id follows."""
MAX_PAGE_SIZE = 100
"""The most documents of one page of a list."""
MAX_TEXT_CHARS = 40_000
"""The most characters of a document that one call gives: what a model can read at once."""
MAX_QUOTE_CHARS = 300
"""Characters of a quote that stand in the text of an answer; the structured result has the whole of it."""

T = TypeVar("T")
QuestionText = Annotated[str, Field(min_length=1, max_length=8_000)]
DocumentName = Annotated[str, Field(min_length=1, max_length=8_000)]
LineNumber = Annotated[int, Field(ge=1)]


@dataclass(frozen=True)
class McpToolSpec:
    """A tool, and what a client is told of it besides name, description and parameters."""

    tool: Tool
    title: str
    output_schema: ToolSchema
    """JSON Schema of the structured result."""
    read_only: bool = True
    """It changes nothing."""


@dataclass(frozen=True)
class McpAskOptions:
    """How `ask` answers."""

    model: str | None = None
    """`provider:model`; None: as the pipeline says."""
    max_cost_usd: float | None = None
    """US dollars that one answer may cost; None: as the pipeline says."""


@dataclass(frozen=True)
class DocumentPage:
    """Some documents of a list, and where it goes on."""

    documents: Sequence[DocumentSummary]
    next_cursor: str | None
    """The cursor of the next page; None on the last one."""


@dataclass(frozen=True)
class DocumentLines:
    """Some lines of a document, counted from 1."""

    document: Document
    text: str
    first_line: int
    last_line: int
    line_count: int
    """How many the document has."""

    @property
    def next_line(self) -> int | None:
        """The line behind the window; None at the end of the document."""
        return self.last_line + 1 if self.last_line < self.line_count else None


class McpTools:
    """The tools over one knowledge base. Safe to use from many threads."""

    def __init__(
        self,
        kb: ServedKnowledgeBase,
        answering: McpAskOptions | None = None,
        index: Callable[[], SupportsToJson] | None = None,
        limits: ServerLimits | None = None,
    ) -> None:
        """`index` brings the knowledge base in line with its sources; None: clients can only read."""
        self._limits = limits or ServerLimits()
        self._kb = kb
        self._ask_options = answering or McpAskOptions()
        self._run_index = index
        self._limiter = ConcurrencyLimiter(self._limits)
        self._search_tool = RAGTool(kb, top_k=kb.top_k)

    @property
    def specs(self) -> list[McpToolSpec]:
        """The tools, in the order in which a client is shown them."""
        found = [
            McpToolSpec(
                Tool.from_function(self.search, name=TOOL_NAME),
                "Search the documents",
                output_schema(SearchResultSchema),
            ),
            McpToolSpec(Tool.from_function(self.ask), "Ask the documents", output_schema(AnswerSchema)),
            McpToolSpec(Tool.from_function(self.get_document), "Read a document", output_schema(DocumentLinesSchema)),
            McpToolSpec(
                Tool.from_function(self.list_documents), "List the documents", output_schema(DocumentListSchema)
            ),
            McpToolSpec(
                Tool.from_function(self.status), "State of the knowledge base", output_schema(KnowledgeBaseStatusSchema)
            ),
        ]
        if self._run_index is not None:
            found.append(
                McpToolSpec(
                    Tool.from_function(self.index),
                    "Update the index",
                    output_schema(IndexReportSchema),
                    read_only=False,
                )
            )
        return found

    def search(self, query: QuestionText, top_k: Annotated[int, Field(ge=0, le=50)] = 0, where: str = "") -> ToolResult:
        """Search the user's documents for passages. Returns numbered passages with their places, best first.

        Args:
            query: What to look for: a question or key words, in the words that the documents would use.
            top_k: How many passages; 0 for the usual number.
            where: A condition on metadata such as `format == "pdf" and year >= 2020`; empty for none.
        """
        meter = self._kb.create_meter("search")
        with use_meter(meter):
            found = self._search_tool.search_knowledge_base(query, top_k, where)
        outcome = found.data
        assert isinstance(outcome, RetrievedPassages)  # noqa: S101 - a RAGTool's own
        hits: list[JSON] = [{**hit_json(hit), "document_id": hit.chunk.document_id} for hit in outcome.hits]
        data: dict[str, JSON] = {
            "question": query, "evidence": round(outcome.evidence, 4), "hits": hits, "usage": meter.usage().to_dict(),
        }  # fmt: skip
        return replace(found, data=data)

    async def ask(self, question: QuestionText) -> ToolResult:
        """Answer a question from the user's documents, with numbered citations that were checked against the text.

        It says so when the documents do not hold an answer. It may take some seconds and use a paid model; to read
        passages yourself, use search_knowledge_base.

        Args:
            question: The question, in plain words.
        """
        seconds = self._limits.answer_seconds
        switch = Cancellation()
        await self._limiter.acquire()
        try:
            async with asyncio.timeout(seconds):
                agent = await _run_in_thread(lambda: self._create_agent(question))
                result = await _run_streaming(agent, question, switch)
                return await _run_in_thread(lambda: self._answer_result(agent.build_answer(question, result)))
        except TimeoutError:
            raise BudgetExceeded("seconds", seconds, seconds) from None
        finally:
            self._limiter.release()
            switch.cancel()

    def get_document(
        self, document: DocumentName, start_line: LineNumber = 1, end_line: LineNumber | None = None
    ) -> ToolResult:
        """Read the text of a document, whole or some lines of it. A long one comes in parts.

        Args:
            document: The id or the source of a document, as list_documents and passages give it.
            start_line: The first line, counted from 1.
            end_line: The last line; the end of the document when it is left out.
        """
        window = self._select_lines(self._find_document(document), start_line, end_line)
        found = window.document
        source = display_name(found.source)
        rest = f"; it goes on with start_line={window.next_line}" if window.next_line else ""
        data: dict[str, JSON] = {
            "id": found.id, "source": source, "title": found.title, "format": found.format, "text": window.text,
            "first_line": window.first_line, "last_line": window.last_line, "lines": window.line_count, "next_line": window.next_line,
            "stale": self._kb.is_stale(found.source),
        }  # fmt: skip
        head = f"{source}, lines {window.first_line}-{window.last_line} of {window.line_count}{rest}"
        return ToolResult(f"{head}\n\n{window.text}", data)

    def list_documents(
        self, query: str = "", cursor: str = "", limit: Annotated[int, Field(ge=1, le=MAX_PAGE_SIZE)] = 50
    ) -> ToolResult:
        """List the documents of the knowledge base, by source.

        Args:
            query: Only those that have this in their source or title; empty for all.
            cursor: `next` of the page before; empty for the first page.
            limit: How many on a page.
        """
        page = self.list_page(cursor, limit, query)
        documents: list[JSON] = [
            {"id": row.id, "source": display_name(row.source), "title": row.title, "chunks": row.chunks,
             "characters": row.characters, "format": row.format}
            for row in page.documents
        ]  # fmt: skip
        lines = [f"{row.id}  {display_name(row.source)}  {row.title}".rstrip() for row in page.documents]
        more = [f"more with cursor={page.next_cursor}"] if page.next_cursor else []
        text = "\n".join([*lines, *more]) or "There are no documents."
        return ToolResult(text, {"documents": documents, "next": page.next_cursor})

    def status(self) -> ToolResult:
        """Say what is in the knowledge base: documents, chunks, where they come from, what has changed since."""
        found = {**self._kb.status().to_json(), "version": __version__}
        sources = found["sources"]
        named = ", ".join(map(str, sources)) if isinstance(sources, list | tuple) else ""
        text = (
            f"{found['documents']} documents in {found['chunks']} chunks, from {named or 'nothing'}; "
            f"{found['stale']} changed since they were indexed, {found['failed']} could not be read"
        )
        return ToolResult(text, found)

    def index(self) -> ToolResult:
        """Bring the knowledge base in line with its own sources: read what is new or changed, drop what is gone.

        It may take minutes. No other folder can be named.
        """
        if self._run_index is None:
            raise InvalidOption("index", "not allowed", "a server that was started with --allow-index")
        report = self._run_index().to_json()
        files = report["files"]
        counts = ", ".join(f"{count} {what}" for what, count in files.items()) if isinstance(files, dict) else ""
        return ToolResult(f"files: {counts}; {report['embedded']} texts embedded in {report['seconds']} s", report)

    # documents, for tools and resources

    def list_page(self, cursor: str = "", limit: int = MAX_PAGE_SIZE, query: str = "") -> DocumentPage:
        """A page of the list of documents. Raises RequestRejected for a cursor that no page gave."""
        after = str(decode_cursor(cursor, str)[0]) if cursor else ""
        rows = self._kb.document_rows(after, limit + 1, query)
        return DocumentPage(rows[:limit], encode_cursor(rows[limit - 1].source) if len(rows) > limit else None)

    def read_resource(self, uri: str) -> str:
        """The text behind the address of a document, whole or the lines that it names.

        Raises RequestRejected when there is none, or when it is longer than one call may give.
        """
        parts = urlsplit(uri)
        if not uri.startswith(DOCUMENT_URI_PREFIX):
            raise invalid_request(
                f"the address {uri[:80]!r} is none of this server's: {DOCUMENT_URI_PREFIX}ID is wanted"
            )
        document = self._kb.find_document(parts.path.removeprefix("/"))
        if document is None:
            raise invalid_request(f"no document has the address {uri[:120]!r}: resources/list names them", status=404)
        lines = dict(parse_qsl(parts.query))
        window = self._select_lines(
            document, _parse_line_number(lines, "start_line") or 1, _parse_line_number(lines, "end_line")
        )
        if window.next_line and "end_line" not in lines:
            raise invalid_request(
                f"{display_name(document.source)} is longer than {MAX_TEXT_CHARS:,} characters: read it in parts, the first is "
                f"{DOCUMENT_URI_PREFIX}{document.id}?start_line={window.first_line}&end_line={window.last_line}"
            )
        return window.text

    def _find_document(self, name: str) -> Document:
        """A document by its id, its source, or its source as lists show it. Names are compared, never opened."""
        below = f"{str(Path.cwd()).rstrip('/')}/{name}"
        found = self._kb.find_document(name) or self._kb.document(name) or self._kb.document(below)
        if found is None:
            raise invalid_request(
                f"no document has the id or source {name[:120]!r}: list_documents names them", status=404
            )
        return found

    def _select_lines(self, document: Document, start: int, end: int | None) -> DocumentLines:
        """The lines from `start` to `end` of a document, as many of them as one call may give."""
        lines = document.text.split("\n")  # as citations count them
        if start > len(lines):
            raise invalid_request(f"start_line is {start}, and {display_name(document.source)} has {len(lines)} lines")
        if end is not None and end < start:
            raise invalid_request(f"end_line is {end}: at least start_line, {start}, is wanted")
        last, room = start - 1, MAX_TEXT_CHARS
        while last < min(end or len(lines), len(lines)) and len(lines[last]) < room:
            room -= len(lines[last]) + 1
            last += 1
        last = max(last, start)  # of a line that is longer than a window its beginning is given
        return DocumentLines(document, "\n".join(lines[start - 1 : last])[:MAX_TEXT_CHARS], start, last, len(lines))

    def _create_agent(self, question: str) -> RAGAgent:
        """The agent for one answer. Raises what stands in the way of it."""
        model, usd = self._ask_options.model, self._ask_options.max_cost_usd
        agent = self._kb.agent(model, usd)
        own, allowed = agent.config.limits.max_cost_usd, self._limits.answer_usd
        if usd is None and own is not None and allowed is not None and own > allowed:
            agent = self._kb.agent(model, allowed)
        self._kb.require_ready()
        self._kb.check_budget(agent, question, known=self._ask_options.max_cost_usd is not None)
        return agent

    def _answer_result(self, answer: Answer) -> ToolResult:
        found = answer_json(answer)
        ids = {citation.chunk_id: self._document_id(citation) for citation in answer.citations}
        citations = found["citations"]
        assert isinstance(citations, list)  # noqa: S101 - `answer_json` made it
        found["citations"] = [{**one, "document_id": ids[one["chunk_id"]]} for one in citations]
        lines = [answer.text, "", *map(_format_citation, answer.citations), f"evidence {answer.evidence:.2f}"]
        return ToolResult("\n".join(lines), found)

    def _document_id(self, citation: Citation) -> str:
        chunk = self._kb.chunk(citation.chunk_id)
        return chunk.document_id if chunk else ""


async def _run_streaming(agent: RAGAgent, question: str, cancel: Cancellation) -> AgentResult:
    """The result of a run. Streamed: a service whose stream is cut stops writing, and stops charging."""
    async with aclosing(agent.astream(question, cancel=cancel)) as events:
        async for event in events:
            if isinstance(event, RunEnded):
                return event.result
    raise RunError("the run ended without a result")


async def _run_in_thread(work: Callable[[], T]) -> T:
    return await asyncio.wrap_future(THREAD_POOL.submit(work))


def _format_citation(citation: Citation) -> str:
    lines = f"{citation.start_line}-{citation.end_line}"
    place = f"page {citation.page}" if citation.page is not None else f"lines {lines}"
    doubt = "" if citation.verified else " (not verified)"
    stale = " (the file has changed since)" if citation.stale else ""
    quote = " ".join(citation.quote.split())
    words = quote if len(quote) <= MAX_QUOTE_CHARS else quote[: MAX_QUOTE_CHARS - 3] + "..."
    return f'[{citation.n}] {display_name(citation.source)}, {place}{doubt}{stale}: "{words}"'


def _parse_line_number(lines: dict[str, str], name: str) -> int | None:
    value = lines.get(name)
    if value is None:
        return None
    if not value.isascii() or not value.isdigit() or not 0 < len(value) < 10 or int(value) < 1:
        raise invalid_request(f"{name} is {value[:20]!r}: a number of at least 1 is wanted")
    return int(value)
