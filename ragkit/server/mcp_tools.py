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
from ragkit.agent.cancel import Cancellation
from ragkit.agent.events import RunEnded
from ragkit.agent.result import AgentResult
from ragkit.agent.tools.base import Tool, ToolResult
from ragkit.agent.tools.schema import Schema
from ragkit.agent.workers import WORKERS
from ragkit.answer.agent import RAGAgent
from ragkit.answer.base import Answer
from ragkit.answer.shapes import answer_json, hit_json
from ragkit.answer.tool import TOOL_NAME, Outcome, RAGTool
from ragkit.errors import BudgetExceeded, InvalidOption, RunError
from ragkit.index.names import shown
from ragkit.index.reader import DocumentRow
from ragkit.records import JSON, Citation, Document
from ragkit.server.base import SaysJson, ServedKnowledgeBase
from ragkit.server.faults import refuse
from ragkit.server.mcp_shapes import Answered, DocumentList, DocumentText, Found, IndexShape, StatusShape, schema_of
from ragkit.server.running import Turns
from ragkit.server.settings import Limits
from ragkit.server.state import read_cursor, write_cursor
from ragkit.usage.meter import metered

SCHEME = "ragkit://document/"
"""What the address of a document as an MCP resource begins with; its id follows."""
PAGE = 100
"""The most documents of one page of a list."""
WINDOW = 40_000
"""The most characters of a document that one call gives: what a model can read at once."""
QUOTE = 300
"""Characters of a quote that stand in the text of an answer; the structured result has the whole of it."""

T = TypeVar("T")
Question = Annotated[str, Field(min_length=1, max_length=8_000)]
Name = Annotated[str, Field(min_length=1, max_length=8_000)]
Line = Annotated[int, Field(ge=1)]


@dataclass(frozen=True)
class Offer:
    """A tool, and what a client is told of it besides name, description and parameters."""

    tool: Tool
    title: str
    output: Schema
    """JSON Schema of the structured result."""
    read_only: bool = True
    """It changes nothing."""


@dataclass(frozen=True)
class Answering:
    """How `ask` answers."""

    model: str | None = None
    """`provider:model`; None: as the pipeline says."""
    max_cost_usd: float | None = None
    """US dollars that one answer may cost; None: as the pipeline says."""


@dataclass(frozen=True)
class Page:
    """Some documents of a list, and where it goes on."""

    documents: Sequence[DocumentRow]
    next: str | None
    """The cursor of the next page; None on the last one."""


@dataclass(frozen=True)
class Window:
    """Some lines of a document, counted from 1."""

    document: Document
    text: str
    first: int
    last: int
    lines: int
    """How many the document has."""

    @property
    def next(self) -> int | None:
        """The line behind the window; None at the end of the document."""
        return self.last + 1 if self.last < self.lines else None


class Desk:
    """The tools over one knowledge base. Safe to use from many threads."""

    def __init__(
        self,
        kb: ServedKnowledgeBase,
        answering: Answering | None = None,
        index: Callable[[], SaysJson] | None = None,
        limits: Limits | None = None,
    ) -> None:
        """`index` brings the knowledge base in line with its sources; None: clients can only read."""
        self._limits = limits or Limits()
        self._kb = kb
        self._answering = answering or Answering()
        self._index = index
        self._turns = Turns(self._limits)
        self._search = RAGTool(kb, top_k=kb.top_k)

    @property
    def offers(self) -> list[Offer]:
        """The tools, in the order in which a client is shown them."""
        found = [
            Offer(Tool.from_function(self.search, name=TOOL_NAME), "Search the documents", schema_of(Found)),
            Offer(Tool.from_function(self.ask), "Ask the documents", schema_of(Answered)),
            Offer(Tool.from_function(self.get_document), "Read a document", schema_of(DocumentText)),
            Offer(Tool.from_function(self.list_documents), "List the documents", schema_of(DocumentList)),
            Offer(Tool.from_function(self.status), "State of the knowledge base", schema_of(StatusShape)),
        ]
        if self._index is not None:
            found.append(
                Offer(Tool.from_function(self.index), "Update the index", schema_of(IndexShape), read_only=False)
            )
        return found

    def search(self, query: Question, top_k: Annotated[int, Field(ge=0, le=50)] = 0, where: str = "") -> ToolResult:
        """Search the user's documents for passages. Returns numbered passages with their places, best first.

        Args:
            query: What to look for: a question or key words, in the words that the documents would use.
            top_k: How many passages; 0 for the usual number.
            where: A condition on metadata such as `format == "pdf" and year >= 2020`; empty for none.
        """
        meter = self._kb.meter("search")
        with metered(meter):
            found = self._search.search_knowledge_base(query, top_k, where)
        outcome = found.data
        assert isinstance(outcome, Outcome)  # noqa: S101 - a RAGTool's own
        hits: list[JSON] = [{**hit_json(hit), "document_id": hit.chunk.document_id} for hit in outcome.hits]
        data: dict[str, JSON] = {
            "question": query, "evidence": round(outcome.evidence, 4), "hits": hits, "usage": meter.usage().to_dict(),
        }  # fmt: skip
        return replace(found, data=data)

    async def ask(self, question: Question) -> ToolResult:
        """Answer a question from the user's documents, with numbered citations that were checked against the text.

        It says so when the documents do not hold an answer. It may take some seconds and use a paid model; to read
        passages yourself, use search_knowledge_base.

        Args:
            question: The question, in plain words.
        """
        seconds = self._limits.answer_seconds
        switch = Cancellation()
        await self._turns.enter()
        try:
            async with asyncio.timeout(seconds):
                agent = await _in_thread(lambda: self._agent(question))
                result = await _streamed(agent, question, switch)
                return await _in_thread(lambda: self._answered(agent.answer_of(question, result)))
        except TimeoutError:
            raise BudgetExceeded("seconds", seconds, seconds) from None
        finally:
            self._turns.leave()
            switch.cancel()

    def get_document(self, document: Name, start_line: Line = 1, end_line: Line | None = None) -> ToolResult:
        """Read the text of a document, whole or some lines of it. A long one comes in parts.

        Args:
            document: The id or the source of a document, as list_documents and passages give it.
            start_line: The first line, counted from 1.
            end_line: The last line; the end of the document when it is left out.
        """
        window = self._window(self._find(document), start_line, end_line)
        found = window.document
        source = shown(found.source)
        rest = f"; it goes on with start_line={window.next}" if window.next else ""
        data: dict[str, JSON] = {
            "id": found.id, "source": source, "title": found.title, "format": found.format, "text": window.text,
            "first_line": window.first, "last_line": window.last, "lines": window.lines, "next_line": window.next,
            "stale": self._kb.is_stale(found.source),
        }  # fmt: skip
        head = f"{source}, lines {window.first}-{window.last} of {window.lines}{rest}"
        return ToolResult(f"{head}\n\n{window.text}", data)

    def list_documents(
        self, query: str = "", cursor: str = "", limit: Annotated[int, Field(ge=1, le=PAGE)] = 50
    ) -> ToolResult:
        """List the documents of the knowledge base, by source.

        Args:
            query: Only those that have this in their source or title; empty for all.
            cursor: `next` of the page before; empty for the first page.
            limit: How many on a page.
        """
        page = self.page(cursor, limit, query)
        documents: list[JSON] = [
            {"id": row.id, "source": shown(row.source), "title": row.title, "chunks": row.chunks,
             "characters": row.characters, "format": row.format}
            for row in page.documents
        ]  # fmt: skip
        lines = [f"{row.id}  {shown(row.source)}  {row.title}".rstrip() for row in page.documents]
        more = [f"more with cursor={page.next}"] if page.next else []
        text = "\n".join([*lines, *more]) or "There are no documents."
        return ToolResult(text, {"documents": documents, "next": page.next})

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
        if self._index is None:
            raise InvalidOption("index", "not allowed", "a server that was started with --allow-index")
        report = self._index().to_json()
        files = report["files"]
        counts = ", ".join(f"{count} {what}" for what, count in files.items()) if isinstance(files, dict) else ""
        return ToolResult(f"files: {counts}; {report['embedded']} texts embedded in {report['seconds']} s", report)

    # documents, for tools and resources

    def page(self, cursor: str = "", limit: int = PAGE, query: str = "") -> Page:
        """A page of the list of documents. Raises Refused for a cursor that no page gave."""
        after = str(read_cursor(cursor, str)[0]) if cursor else ""
        rows = self._kb.document_rows(after, limit + 1, query)
        return Page(rows[:limit], write_cursor(rows[limit - 1].source) if len(rows) > limit else None)

    def read(self, uri: str) -> str:
        """The text behind the address of a document, whole or the lines that it names.

        Raises Refused when there is none, or when it is longer than one call may give.
        """
        parts = urlsplit(uri)
        if not uri.startswith(SCHEME):
            raise refuse(f"the address {uri[:80]!r} is none of this server's: {SCHEME}ID is wanted")
        document = self._kb.find_document(parts.path.removeprefix("/"))
        if document is None:
            raise refuse(f"no document has the address {uri[:120]!r}: resources/list names them", status=404)
        lines = dict(parse_qsl(parts.query))
        window = self._window(document, _line(lines, "start_line") or 1, _line(lines, "end_line"))
        if window.next and "end_line" not in lines:
            raise refuse(
                f"{shown(document.source)} is longer than {WINDOW:,} characters: read it in parts, the first is "
                f"{SCHEME}{document.id}?start_line={window.first}&end_line={window.last}"
            )
        return window.text

    def _find(self, name: str) -> Document:
        """A document by its id, its source, or its source as lists show it. Names are compared, never opened."""
        below = f"{str(Path.cwd()).rstrip('/')}/{name}"
        found = self._kb.find_document(name) or self._kb.document(name) or self._kb.document(below)
        if found is None:
            raise refuse(f"no document has the id or source {name[:120]!r}: list_documents names them", status=404)
        return found

    def _window(self, document: Document, start: int, end: int | None) -> Window:
        """The lines from `start` to `end` of a document, as many of them as one call may give."""
        lines = document.text.split("\n")  # as citations count them
        if start > len(lines):
            raise refuse(f"start_line is {start}, and {shown(document.source)} has {len(lines)} lines")
        if end is not None and end < start:
            raise refuse(f"end_line is {end}: at least start_line, {start}, is wanted")
        last, room = start - 1, WINDOW
        while last < min(end or len(lines), len(lines)) and len(lines[last]) < room:
            room -= len(lines[last]) + 1
            last += 1
        last = max(last, start)  # of a line that is longer than a window its beginning is given
        return Window(document, "\n".join(lines[start - 1 : last])[:WINDOW], start, last, len(lines))

    def _agent(self, question: str) -> RAGAgent:
        """The agent for one answer. Raises what stands in the way of it."""
        model, usd = self._answering.model, self._answering.max_cost_usd
        agent = self._kb.agent(model, usd)
        own, allowed = agent.config.limits.max_cost_usd, self._limits.answer_usd
        if usd is None and own is not None and allowed is not None and own > allowed:
            agent = self._kb.agent(model, allowed)
        self._kb.ready()
        self._kb.afford(agent, question, known=self._answering.max_cost_usd is not None)
        return agent

    def _answered(self, answer: Answer) -> ToolResult:
        found = answer_json(answer)
        ids = {citation.chunk_id: self._document_id(citation) for citation in answer.citations}
        citations = found["citations"]
        assert isinstance(citations, list)  # noqa: S101 - `answer_json` made it
        found["citations"] = [{**one, "document_id": ids[one["chunk_id"]]} for one in citations]
        lines = [answer.text, "", *map(_cited, answer.citations), f"evidence {answer.evidence:.2f}"]
        return ToolResult("\n".join(lines), found)

    def _document_id(self, citation: Citation) -> str:
        chunk = self._kb.chunk(citation.chunk_id)
        return chunk.document_id if chunk else ""


async def _streamed(agent: RAGAgent, question: str, cancel: Cancellation) -> AgentResult:
    """The result of a run. Streamed: a service whose stream is cut stops writing, and stops charging."""
    async with aclosing(agent.astream(question, cancel=cancel)) as events:
        async for event in events:
            if isinstance(event, RunEnded):
                return event.result
    raise RunError("the run ended without a result")


async def _in_thread(work: Callable[[], T]) -> T:
    return await asyncio.wrap_future(WORKERS.submit(work))


def _cited(citation: Citation) -> str:
    lines = f"{citation.start_line}-{citation.end_line}"
    place = f"page {citation.page}" if citation.page is not None else f"lines {lines}"
    doubt = "" if citation.verified else " (not verified)"
    stale = " (the file has changed since)" if citation.stale else ""
    quote = " ".join(citation.quote.split())
    words = quote if len(quote) <= QUOTE else quote[: QUOTE - 3] + "..."
    return f'[{citation.n}] {shown(citation.source)}, {place}{doubt}{stale}: "{words}"'


def _line(lines: dict[str, str], name: str) -> int | None:
    value = lines.get(name)
    if value is None:
        return None
    if not value.isascii() or not value.isdigit() or not 0 < len(value) < 10 or int(value) < 1:
        raise refuse(f"{name} is {value[:20]!r}: a number of at least 1 is wanted")
    return int(value)
