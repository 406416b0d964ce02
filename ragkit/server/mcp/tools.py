"""The tools that MCP clients can call on one knowledge base. The protocol is in `mcp`.

All data comes from the catalog: clients name documents by id or source, and no path from a client is ever opened.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated
from urllib.parse import parse_qsl, urlsplit

from pydantic import Field

from ragkit import __version__
from ragkit.agent.events import RunEnded
from ragkit.agent.messages import Message
from ragkit.agent.result import AgentResult
from ragkit.agent.runtime.cancellation import Cancellation
from ragkit.agent.tools.base import Tool, ToolResult
from ragkit.agent.tools.function_schema import ToolSchema
from ragkit.answer.agent import RAGAgent
from ragkit.answer.base import Answer, format_confidence
from ragkit.answer.document_tools import DocumentTools, select_part
from ragkit.answer.extractive.whole.look_up import find_document
from ragkit.answer.json_shapes import answer_json, hit_json
from ragkit.answer.passages import TOOL_NAME, RetrievedPassages
from ragkit.answer.searchers.aggregate_tool import TOOL_NAME as AGGREGATE_NAME
from ragkit.answer.searchers.aggregate_tool import AggregateFunction, AggregateTool
from ragkit.answer.tool import RAGTool
from ragkit.answer.verdicts import NOT_SUPPORTED, PARTLY_SUPPORTED
from ragkit.errors import BudgetExceeded, RagkitError, RunError
from ragkit.index.aggregate import FieldAggregate
from ragkit.index.snapshot.documents import DocumentSummary
from ragkit.index.sources.ids import display_name
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.knowledge_base.session import Session
from ragkit.records import JSON, Citation, Document
from ragkit.server.answering.answer_cache import AnswerCache
from ragkit.server.answering.request_options import RequestOptions
from ragkit.server.api.schemas.answers import AggregateSchema, AnswerSchema, SearchResultSchema, output_schema
from ragkit.server.api.schemas.documents import DocumentLinesSchema, DocumentListSchema, FoundTextSchema, OutlineSchema
from ragkit.server.api.schemas.status import IndexReportSchema, StatusResultSchema
from ragkit.server.base import SupportsToJson, read_chunks
from ragkit.server.concurrency import ConcurrencyLimiter, run_in_thread
from ragkit.server.http_errors import invalid_request
from ragkit.server.principals import may_edit
from ragkit.server.settings import ServerLimits
from ragkit.server.state.database import decode_cursor, encode_cursor, new_id
from ragkit.server.state.rights_filter import RightsFilter, hit_origins
from ragkit.usage.meter import use_meter

DOCUMENT_URI_PREFIX = "ragkit://document/"
"""Prefix of the URI of a document resource, followed by its id."""
MAX_PAGE_SIZE = 100
"""Maximum documents per page."""
MAX_TEXT_CHARS = 40_000
"""Maximum characters of a document per call, so that they fit the context window of a model."""
MAX_QUOTE_CHARS = 300
"""Maximum characters of a quote in the text of an answer; the structured result has the full quote."""

QuestionText = Annotated[str, Field(min_length=1, max_length=8_000)]
DocumentName = Annotated[str, Field(min_length=1, max_length=8_000)]
LineNumber = Annotated[int, Field(ge=1)]


@dataclass(frozen=True)
class McpToolSpec:
    """A tool with its title, output schema and annotations."""

    tool: Tool
    title: str
    output_schema: ToolSchema
    """JSON Schema of the structured result."""
    read_only: bool = True
    """The tool does not modify the knowledge base."""
    listed: bool = True
    """Clients are told of it; else it is there for those that knew it."""


@dataclass(frozen=True)
class McpAskOptions:
    """Model and cost limit of `ask`."""

    model: str | None = None
    """`provider:model`; None: that of the pipeline."""
    max_cost_usd: float | None = None
    """Maximum cost of one answer in US dollars; None: that of the pipeline."""


@dataclass(frozen=True)
class DocumentPage:
    """One page of the list of documents."""

    documents: Sequence[DocumentSummary]
    next_cursor: str | None
    """Cursor of the next page; None on the last page."""


@dataclass(frozen=True)
class DocumentLines:
    """A range of lines of a document, counted from 1."""

    document: Document
    text: str
    first_line: int
    last_line: int
    line_count: int
    """Number of lines of the document."""

    @property
    def next_line(self) -> int | None:
        """The line after the range; None at the end of the document."""
        return self.last_line + 1 if self.last_line < self.line_count else None


class McpTools:
    """The tools over one knowledge base. Safe to use from many threads."""

    def __init__(
        self,
        kb: KnowledgeBase,
        ask_options: McpAskOptions | None = None,
        index: Callable[[], SupportsToJson] | None = None,
        limits: ServerLimits | None = None,
    ) -> None:
        """`index` updates the index from its sources; None: clients can only read."""
        self._limits = limits or ServerLimits()
        self._kb = kb
        self._ask_options = ask_options or McpAskOptions()
        self._run_index = index
        self._limiter = ConcurrencyLimiter(self._limits)
        self._cache = AnswerCache(self._limits.cached_answers)
        self._search_tool = RAGTool(kb, top_k=kb.components.top_k)
        self._aggregate_tool = AggregateTool(kb)
        self._document_tools = DocumentTools(kb)

    @property
    def specs(self) -> list[McpToolSpec]:
        """The tools, in the order in which clients list them."""

        def spec(call: Callable[..., object], title: str, result: type, name: str = "") -> McpToolSpec:
            tool, schema = Tool.from_function(call, name=name), output_schema(result)
            return McpToolSpec(tool, title, schema, read_only=call != self.index)

        specs = [
            spec(self.search, "Search the documents", SearchResultSchema, TOOL_NAME),
            spec(self.ask, "Ask the documents", AnswerSchema),
            spec(self.list_documents, "List the documents", DocumentListSchema),
            spec(self._document_tools.outline, "Show the outline of a document", OutlineSchema),
            spec(self.read_document, "Read a document", DocumentLinesSchema),
            spec(self._document_tools.find_text, "Find exact text", FoundTextSchema),
            spec(self.status, "State of the knowledge base", StatusResultSchema),
        ]
        if self._kb.has_records:
            specs.append(spec(self.aggregate, "Compute over records", AggregateSchema, AGGREGATE_NAME))
        if self._run_index is not None:
            specs.append(spec(self.index, "Update the index", IndexReportSchema))
        old = spec(self.get_document, "Read lines of a document", DocumentLinesSchema)
        return [*specs, replace(old, listed=False)]

    def search(self, query: QuestionText, top_k: Annotated[int, Field(ge=0, le=50)] = 0, where: str = "") -> ToolResult:
        """Search the user's documents for passages. Returns numbered passages with their locations, best first.

        Args:
            query: A question or keywords, in the vocabulary of the documents.
            top_k: Number of passages; 0 for the default.
            where: A condition on metadata such as `format == "pdf" and year >= 2020`; empty for none.
        """
        meter = self._kb.location.create_meter("search", self._kb.pipeline.name)
        with use_meter(meter):
            result = self._search_tool.search_knowledge_base(query, top_k, where)
        retrieved = result.data
        assert isinstance(retrieved, RetrievedPassages)  # noqa: S101 - RAGTool returns it
        hits: list[JSON] = [{**hit_json(hit), "document_id": hit.chunk.document_id} for hit in retrieved.hits]
        data: dict[str, JSON] = {
            "question": query, "evidence": round(retrieved.evidence or 0.0, 4),
            "hits": hits, "usage": meter.usage().to_dict(),
        }  # fmt: skip
        return replace(result, data=data)

    def aggregate(self, function: AggregateFunction, field: str = "", where: str = "") -> ToolResult:
        """Count records (rows of tables), or compute the sum, minimum, maximum or mean of a numeric field over them.

        Args:
            function: What to compute.
            field: The field, such as `price`; empty for `count`.
            where: A condition on metadata such as `price > 100 and year >= 2020`; empty for all records.
        """
        result = self._aggregate_tool.aggregate_records(function, field, where)
        assert isinstance(result.data, FieldAggregate)  # noqa: S101 - AggregateTool returns it
        return replace(result, data=result.data.to_json())

    async def ask(self, question: QuestionText) -> ToolResult:
        """Answer a question from the user's documents, with numbered citations that are verified against the text.

        Says so if the documents do not contain an answer. May take some seconds and use a paid model; to read
        passages yourself, use search_knowledge_base.

        Args:
            question: The question in natural language.
        """
        seconds = self._limits.answer_seconds
        cancellation = Cancellation()
        try:
            async with self._limiter.slot(), asyncio.timeout(seconds):
                agent = await run_in_thread(lambda: self._create_agent(question))
                async with agent.asession() as over_one_state:
                    answer, result = await self._answer(over_one_state, question, cancellation)
                return await run_in_thread(lambda: self._answer_result(answer, result))
        except TimeoutError:
            raise BudgetExceeded("seconds", seconds, seconds) from None
        finally:
            cancellation.cancel()

    def read_document(self, source: DocumentName, section: str = "", pages: str = "", lines: str = "") -> ToolResult:
        """Read the text of a document, or of a part of it. A long text is returned in parts.

        Args:
            source: The id, source, file name or title of a document.
            section: A heading of its outline.
            pages: Pages such as `3` or `3-5`.
            lines: Lines such as `120-200`, or `120-` for the rest.
        """
        with self._kb.session() as session:
            document = session.find_document(source) or session.document(find_document(session, source))
            stale = document is None or session.is_stale(document.source)
        if document is None:
            raise _unknown_document(source)
        start, end = select_part(document, section, pages, lines)
        first = document.text.count("\n", 0, start) + 1
        return self._read_lines(document, first, first + document.text.count("\n", start, max(start, end - 1)), stale)

    def get_document(
        self, document: DocumentName, start_line: LineNumber = 1, end_line: LineNumber | None = None
    ) -> ToolResult:
        """Read the text of a document, or some of its lines; `read_document` knows sections and pages too.

        Args:
            document: The id or source of a document, as returned by list_documents and search_knowledge_base.
            start_line: The first line, counted from 1.
            end_line: The last line; default: the end of the document.
        """
        with self._kb.session() as session:
            content = _find_document(session, document)
            stale = session.is_stale(content.source)
        return self._read_lines(content, start_line, end_line, stale)

    def _read_lines(self, content: Document, first: int, last: int | None, stale: bool) -> ToolResult:
        window = self._select_lines(content, first, last)
        source = display_name(content.source)
        rest = f"; continue with line {window.next_line}" if window.next_line else ""
        data: dict[str, JSON] = {
            "id": content.id, "source": source, "title": content.title, "format": content.format, "text": window.text,
            "first_line": window.first_line, "last_line": window.last_line, "lines": window.line_count,
            "next_line": window.next_line, "stale": stale,
        }  # fmt: skip
        head = f"{source}, lines {window.first_line}-{window.last_line} of {window.line_count}{rest}"
        return ToolResult(f"{head}\n\n{window.text}", data)

    def list_documents(
        self, query: str = "", cursor: str = "", limit: Annotated[int, Field(ge=1, le=MAX_PAGE_SIZE)] = 50
    ) -> ToolResult:
        """List the documents of the knowledge base by source.

        Args:
            query: Text in the source or title; empty for all documents.
            cursor: `next` of the previous page; empty for the first page.
            limit: Documents per page.
        """
        page = self.list_page(cursor, limit, query)
        documents: list[JSON] = [
            {"id": row.id, "source": display_name(row.source), "title": row.title, "chunks": row.chunks,
             "characters": row.characters, "format": row.format}
            for row in page.documents
        ]  # fmt: skip
        lines = [f"{row.id}  {display_name(row.source)}  {row.title}".rstrip() for row in page.documents]
        more = [f"more: cursor={page.next_cursor}"] if page.next_cursor else []
        text = "\n".join([*lines, *more]) or "No documents."
        return ToolResult(text, {"documents": documents, "next": page.next_cursor})

    def status(self) -> ToolResult:
        """Show documents, chunks, sources, and files that changed since they were indexed."""
        status = {**self._kb.status().to_json(), "version": __version__}
        sources = status["sources"]
        names = ", ".join(map(str, sources)) if isinstance(sources, list | tuple) else ""
        text = (
            f"{status['documents']} documents in {status['chunks']} chunks, sources: {names or 'none'}; "
            f"{status['stale']} changed since they were indexed, {status['failed']} could not be read"
        )
        return ToolResult(text, status)

    def index(self) -> ToolResult:
        """Update the index from its sources: add new files, update changed ones, remove deleted ones.

        May take minutes. Other folders cannot be indexed.
        """
        if self._run_index is None:
            raise RagkitError("index is not allowed: start the server with --allow-index")
        if not may_edit(without=True):
            raise RagkitError("index takes the role editor: ask an owner of the knowledge base")
        report = self._run_index().to_json()
        files = report["files"]
        counts = ", ".join(f"{count} {change}" for change, count in files.items()) if isinstance(files, dict) else ""
        return ToolResult(f"files: {counts}; {report['embedded']} texts embedded in {report['seconds']} s", report)

    # documents, for tools and resources

    def list_page(self, cursor: str = "", limit: int = MAX_PAGE_SIZE, query: str = "") -> DocumentPage:
        """A page of the list of documents. Raises RequestRejected for an invalid cursor."""
        after = str(decode_cursor(cursor, str)[0]) if cursor else ""
        with self._kb.session() as session:
            rows = session.list_documents(after, limit + 1, query)
        return DocumentPage(rows[:limit], encode_cursor(rows[limit - 1].source) if len(rows) > limit else None)

    def read_resource(self, uri: str) -> str:
        """The text of a document, or the lines that the URI names.

        Raises RequestRejected if there is no such document, or its text is too long for one call.
        """
        parts = urlsplit(uri)
        if not uri.startswith(DOCUMENT_URI_PREFIX):
            raise invalid_request(f"the URI must be {DOCUMENT_URI_PREFIX}ID (got {uri[:80]!r})")
        with self._kb.session() as session:
            document = session.find_document(parts.path.removeprefix("/"))
        if document is None:
            raise invalid_request(f"unknown document {uri[:120]!r}: resources/list lists all documents", status=404)
        lines = dict(parse_qsl(parts.query))
        start, end = (_parse_line_number(lines, name) for name in ("start_line", "end_line"))
        window = self._select_lines(document, start or 1, end)
        if window.next_line and "end_line" not in lines:
            raise invalid_request(
                f"{display_name(document.source)} has more than {MAX_TEXT_CHARS:,} characters: read it in parts, first "
                f"{DOCUMENT_URI_PREFIX}{document.id}?start_line={window.first_line}&end_line={window.last_line}"
            )
        return window.text

    def _select_lines(self, document: Document, start: int, end: int | None) -> DocumentLines:
        """The lines from `start` to `end`, up to MAX_TEXT_CHARS characters."""
        lines = document.text.split("\n")  # as citations count them
        if start > len(lines):
            limit = f"{len(lines)}, the lines of {display_name(document.source)}"
            raise invalid_request(f"start_line must be <= {limit} (got {start})")
        if end is not None and end < start:
            raise invalid_request(f"end_line must be >= start_line, {start} (got {end})")
        last, room = start - 1, MAX_TEXT_CHARS
        while last < min(end or len(lines), len(lines)) and len(lines[last]) < room:
            room -= len(lines[last]) + 1
            last += 1
        last = max(last, start)  # a single line that is too long is truncated
        return DocumentLines(document, "\n".join(lines[start - 1 : last])[:MAX_TEXT_CHARS], start, last, len(lines))

    def _create_agent(self, question: str) -> RAGAgent:
        """The agent for one answer. Raises KnowledgeBaseError, BudgetTooSmall."""
        model, usd = self._ask_options.model, self._ask_options.max_cost_usd
        agent = self._kb.agent(model, usd)
        own, allowed = agent.config.limits.max_cost_usd, self._limits.answer_usd
        if usd is None and own is not None and allowed is not None and own > allowed:
            agent = self._kb.agent(model, allowed)
        with self._kb.session() as session:
            session.require_ready()
            session.check_budget(agent, question, known=self._ask_options.max_cost_usd is not None)
        return agent

    async def _answer(self, agent: RAGAgent, question: str, cancellation: Cancellation) -> tuple[Answer, AgentResult]:
        """The answer: the same as before if nothing has changed since."""
        asked = [Message.user(question)]
        key = await run_in_thread(lambda: self._cache.key(agent, RequestOptions(), asked, {}))
        cached = self._cache.find(key)
        if cached is not None:
            return await run_in_thread(lambda: cached.again(new_id("trace"), agent.searcher))
        result = await _run_streaming(agent, question, cancellation)
        answer = await run_in_thread(lambda: agent.build_answer(question, result))
        self._cache.keep(key, answer, result, ())
        return answer, result

    def _answer_result(self, answer: Answer, result: AgentResult) -> ToolResult:
        """The result of `ask`. Raises RequestRejected if the client may not read a passage of the run any more."""
        searches = (call.data for call in result.tool_calls if isinstance(call.data, RetrievedPassages))
        RightsFilter(self._kb).require(hit_origins(hit for search in searches for hit in search.hits))
        data = answer_json(answer)
        cited = [citation.chunk_id for citation in answer.citations]
        chunks = zip(cited, read_chunks(self._kb, cited), strict=True)
        ids = {chunk_id: chunk.document_id if chunk is not None else "" for chunk_id, chunk in chunks}
        citations = data["citations"]
        assert isinstance(citations, list)  # noqa: S101 - `answer_json` returns it
        data["citations"] = [{**citation, "document_id": ids[citation["chunk_id"]]} for citation in citations]
        notes = [f"note: {notice}" for notice in answer.notices]
        sources = [*map(_format_citation, answer.citations), *_format_unsupported(answer)]
        lines = [answer.text, "", *sources, *notes, format_confidence(answer)]
        return ToolResult("\n".join(lines), data)


def _find_document(session: Session, name: str) -> Document:
    """A document by its id, its source, or its displayed source. Names are compared, never opened."""
    below = f"{str(Path.cwd()).rstrip('/')}/{name}"
    document = session.find_document(name) or session.document(name) or session.document(below)
    if document is None:
        raise _unknown_document(name)
    return document


def _unknown_document(name: str) -> RagkitError:
    return invalid_request(f"unknown document {name[:120]!r}: list_documents lists all documents", status=404)


async def _run_streaming(agent: RAGAgent, question: str, cancel: Cancellation) -> AgentResult:
    """The result of a run. Streaming lets a cancelled run stop the provider, and its costs, at once."""
    async with aclosing(agent.astream(question, cancel=cancel, retry_after_text=True)) as events:
        async for event in events:
            if isinstance(event, RunEnded):
                return event.result
    raise RunError("the run ended without a result")


def _format_unsupported(answer: Answer) -> list[str]:
    return [f"not supported: {statement.text} ({statement.reason})" for statement in answer.unsupported]


def _format_citation(citation: Citation) -> str:
    is_weak = citation.support == NOT_SUPPORTED or citation.support.startswith(PARTLY_SUPPORTED)
    unverified = "" if citation.verified else " (not verified)"
    unverified = f" ({citation.support})" if citation.verified and is_weak else unverified
    stale = " (the file has changed)" if citation.stale else ""
    quote = " ".join(citation.quote.split())
    excerpt = quote if len(quote) <= MAX_QUOTE_CHARS else quote[: MAX_QUOTE_CHARS - 3] + "..."
    return f'[{citation.n}] {display_name(citation.source)}, {citation.place}{unverified}{stale}: "{excerpt}"'


def _parse_line_number(lines: dict[str, str], name: str) -> int | None:
    value = lines.get(name)
    if value is None:
        return None
    if not value.isascii() or not value.isdigit() or not 0 < len(value) < 10 or int(value) < 1:
        raise invalid_request(f"{name} must be a number >= 1 (got {value[:20]!r})")
    return int(value)
