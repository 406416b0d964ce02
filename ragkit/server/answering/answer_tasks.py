"""Answer tasks: each runs the agent, emits events and stores the result.

Knows no HTTP: the caller reads events from a channel and abandons the task when its client disconnects.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TypeAlias, cast

from ragkit.agent.events import Event, ModelCallStarted, Retrying, RunEnded, ToolEnded
from ragkit.agent.loop.config import AgentConfig
from ragkit.agent.memory.memory import ConversationMemory
from ragkit.agent.messages import Message, Role
from ragkit.agent.observers import AgentObserver
from ragkit.agent.result import AgentResult, SuspendedRun, partial_result
from ragkit.agent.runtime.cancellation import Cancellation
from ragkit.agent.tools.base import Tool
from ragkit.answer.agent import RAGAgent
from ragkit.answer.answer_events import (
    AnswerCitation,
    AnswerEvent,
    AnswerTextDelta,
    AnswerTextReset,
    AnswerToolFinished,
    CitationStream,
    tool_event,
    unsent_citations,
)
from ragkit.answer.base import Answer
from ragkit.answer.document_tools import DOCUMENT_TOOLS
from ragkit.answer.json_shapes import answer_json
from ragkit.answer.passages import SHOWN_PASSAGES_KEY, RetrievedPassages
from ragkit.answer.searchers.aggregate_tool import TOOL_NAME as AGGREGATE_NAME
from ragkit.errors import BudgetExceeded, RagkitError, RunCancelled, UnsupportedAnswer
from ragkit.index.sources.ids import display_name
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.records import JSON, Citation
from ragkit.server.answering.answer_cache import AnswerCache
from ragkit.server.answering.answer_log import log_answer
from ragkit.server.answering.request_options import RequestOptions, create_agent
from ragkit.server.answering.stop_sequences import StopSequences, cut_answer
from ragkit.server.answering.streams import Channel
from ragkit.server.base import read_chunks
from ragkit.server.concurrency import ConcurrencyLimiter, run_in_thread
from ragkit.server.http_errors import ErrorResponse, RequestRejected, service_unavailable, to_error_response
from ragkit.server.metrics import Metrics
from ragkit.server.settings import ServerLimits
from ragkit.server.state.database import format_time, new_id
from ragkit.server.state.rights_filter import ORIGINS_KEY, SHOWN_KEY, Origin, hit_origins, unique_origins
from ragkit.server.state.sessions import EMPTY_DETAIL, SessionStore, SessionTurn, strip_citation_marks
from ragkit.server.state.trace_record import trace_record
from ragkit.server.state.traces import TraceStore, spans_json

LOG = logging.getLogger("ragkit.server")
SAVE_INTERVAL_S = 0.5
"""Seconds between two saves of the text of a running answer."""
RIGHTS_INTERVAL_S = 0.25
"""Seconds between two looks at whether the asker may still read what a running answer is drawn from."""


@dataclass(frozen=True, slots=True)
class AnswerRequest:
    """A question, with the context and options to answer it."""

    question: str
    """The last user message; empty when a suspended run is resumed with tool results."""
    input: tuple[Message, ...] | SuspendedRun
    """The input of the agent."""
    session_id: str | None = None
    in_session: bool = False
    """Whether the turn is stored in a session: in `session_id`, or in a new one if that is None."""
    sent: tuple[Message, ...] = ()
    """The messages before the question that the client sent for the session."""
    options: RequestOptions = field(default_factory=RequestOptions)
    can_reset_text: bool = True
    """Whether the client can drop text that it has received, when a request to the model is sent again."""
    replace: str | None = None
    """The trace of an earlier answer in the session: deleted, with its question and all after it."""


@dataclass(frozen=True, slots=True)
class AnswerStarted:
    """The first event."""

    session_id: str | None
    trace_id: str
    model: str


@dataclass(frozen=True, slots=True)
class TurnCompleted:
    """The answer is complete. The last event of a successful task."""

    answer: Answer
    result: AgentResult
    message: Mapping[str, JSON]
    """As `schemas.MessageSchema`."""
    session: Mapping[str, JSON] | None
    """As `schemas.SessionSchema`."""
    trace: Mapping[str, JSON]
    """As `schemas.TraceDetailSchema`."""

    @property
    def trace_id(self) -> str:
        """The id of the trace."""
        return str(self.trace["id"])


@dataclass(frozen=True, slots=True)
class AnswerFailed:
    """The last event of a failed task."""

    error: ErrorResponse
    trace_id: str
    session_id: str | None


ServerEvent: TypeAlias = AnswerStarted | TurnCompleted | AnswerFailed
TaskEvent: TypeAlias = AnswerEvent | ServerEvent


@dataclass(frozen=True)
class AnswerRunner:
    """Starts answer tasks, and holds what they share."""

    kb: KnowledgeBase
    sessions: SessionStore
    traces: TraceStore
    limiter: ConcurrencyLimiter
    metrics: Metrics
    limits: ServerLimits
    tools: tuple[Tool, ...] = ()
    """Tools of the server's agent beside the search."""
    name: str = ""
    """Of the knowledge base, for metrics."""
    observers: tuple[AgentObserver, ...] = ()
    """Of every answer."""
    cache: AnswerCache = field(default_factory=lambda: AnswerCache(0))
    """The answers that were given before."""
    active: set[AnswerTask] = field(default_factory=set)
    stop_tasks: list[asyncio.Future[None]] = field(default_factory=list)

    async def start(self, request: AnswerRequest) -> AnswerTask:
        """Start an answer as soon as a slot is free. Raises the error that prevents the start.

        Cancelling the caller cancels the answer.
        """
        task = AnswerTask(self, request)
        try:
            error = await asyncio.shield(task.started)
        except asyncio.CancelledError:
            await task.abandon()
            raise
        if error is not None:
            raise error
        return task

    async def stop(self, seconds: float) -> None:
        """Reject new answers, wait up to `seconds` for the running ones, then cancel them."""
        self.limiter.close()
        if self.active:
            await asyncio.wait([active.task for active in self.active], timeout=seconds)
        for active in list(self.active):
            active.stop()

    async def stop_answer(self, trace: str) -> None:
        """Stop the answer with this trace, if this process works on it, and wait until that is stored."""
        for active in [active for active in self.active if active.trace_id == trace]:
            active.stop()
            await asyncio.wait([active.task], timeout=self.limits.shutdown_seconds)

    def schedule_stop(self, seconds: float) -> None:
        """Run `stop` in the background."""
        self.stop_tasks.append(asyncio.ensure_future(self.stop(seconds)))

    async def wait_until_idle(self) -> None:
        """Wait until no answer is running."""
        if self.active:
            await asyncio.wait([active.task for active in self.active])


class AnswerTask:
    """One running answer. Read `events` to the end, or call `abandon`."""

    def __init__(self, runner: AnswerRunner, request: AnswerRequest) -> None:
        self.events: Channel[TaskEvent] = Channel()
        self.trace_id = new_id("trace")
        self.started: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        """Resolves to None when the answer has started, or to the error that prevented it."""
        self.turn: SessionTurn | None = None
        self._runner = runner
        self._model = ""
        self._request = request
        self._cancellation = Cancellation()
        self._principal: str | None = None
        """Whose slot the answer holds; None: it waits for one."""
        self._text_parts: list[str] = []
        self._stop = StopSequences(request.options.stop)
        self._citations = CitationStream(cites=False)
        self._calls_with_text: set[int] = set()
        self._model_call = 0
        self._saved_at = time.monotonic()
        self._started_at = time.monotonic()
        self._result: AgentResult | None = None
        self._origins: list[Origin] = []
        """The documents that the answer is drawn from, so far."""
        self._lost_rights: ErrorResponse | None = None
        runner.active.add(self)
        self.task = asyncio.create_task(self._run())

    async def abandon(self) -> None:
        """Stop the answer and discard its events."""
        self.stop()
        await self.events.abandon()

    def stop(self) -> None:
        """Cancel the answer; the reader of the events receives AnswerFailed."""
        self._cancellation.cancel()
        if self._principal is None:
            self.task.cancel()

    async def _watch_rights(self) -> None:
        """End the answer, for its reader at once, when the asker loses the right to what it is drawn from."""
        try:
            while True:
                await asyncio.sleep(RIGHTS_INTERVAL_S)
                await self._check_rights()
        except RagkitError as error:  # one that cannot be checked ends too
            self._lost_rights = to_error_response(error)
            session = self.turn.session_id if self.turn else None
            await self.events.end_with(AnswerFailed(self._lost_rights, self.trace_id, session))
            self._cancellation.cancel()

    async def _check_rights(self) -> None:
        """Raises RequestRejected if the asker may not read what the answer is drawn from."""
        origins = list(self._origins)
        await run_in_thread(lambda: self._runner.sessions.rights.require(origins))

    async def _run(self) -> None:
        runner = self._runner
        watch: asyncio.Task[None] | None = None
        try:
            self._principal = await runner.limiter.acquire()
            agent = await self._start()
            watch = asyncio.create_task(self._watch_rights())
            self.started.set_result(None)
            await self._run_agent(agent)
        except asyncio.CancelledError:
            if not self.started.done():
                self.started.set_result(service_unavailable("the answer was cancelled before it started"))
        except Exception as error:  # boundary: a server request
            if self.turn is not None or not isinstance(error, RequestRejected):  # else nothing was stored
                runner.sessions.give_up(self.trace_id)
            if self.started.done():
                LOG.exception("an answer could not be stored")
                failed = to_error_response(error)
                await self.events.put(AnswerFailed(failed, self.trace_id, self.turn.session_id if self.turn else None))
            else:
                self.started.set_result(error)
                await self._record_start_failure(error)
        finally:
            if watch is not None:
                watch.cancel()
            if self._principal is not None:
                runner.limiter.release(self._principal)
            runner.active.discard(self)
            await self.events.close()

    async def _start(self) -> RAGAgent:
        runner, request = self._runner, self._request
        agent = await asyncio.to_thread(
            create_agent, runner.kb, request.options, request.question, runner.limits, runner.tools, runner.observers
        )
        self._started_at = time.monotonic()
        if request.in_session:
            self.turn = await runner.sessions.add_question(
                request.session_id,
                request.question,
                self.trace_id,
                [(m.role.value, m.content) for m in request.sent],
                request.replace,
            )
        if self.turn is not None:
            self._origins.extend(self.turn.origins)
        elif isinstance(request.input, SuspendedRun):
            self._origins.extend(await run_in_thread(lambda: self._suspended_origins(request.input)))
        session = self.turn.session_id if self.turn else None
        model = request.options.model or agent.provider.name
        self._model = model
        await runner.traces.start(self.trace_id, session, model, request.question)
        await self.events.put(AnswerStarted(session, self.trace_id, model))
        return agent

    async def _record_start_failure(self, error: Exception) -> None:
        if self.turn is not None:
            detail = {"error": to_error_response(error).to_json()["error"], ORIGINS_KEY: []}
            await self._runner.sessions.finish_answer(self.turn, "error", "", detail)

    async def _run_agent(self, agent: RAGAgent) -> None:
        try:
            async with agent.asession() as over_one_state:
                answer, result = await self._answer(over_one_state)
                await self._check_rights()
        except Exception as error:  # noqa: BLE001 - boundary: a server request; `_fail` logs it
            await self._fail(error, agent.config)
        else:
            await self._complete(answer, result, agent)

    async def _answer(self, agent: RAGAgent) -> tuple[Answer, AgentResult]:
        """The answer, which emits events: the same as before if nothing has changed since."""
        request, cache = self._request, self._runner.cache
        key = ""
        if not isinstance(request.input, SuspendedRun):
            messages = [*self._history(), *request.input[-1:]] if self.turn is not None else request.input
            key = await run_in_thread(lambda: cache.key(agent, request.options, messages, self._tool_state()))
        cached = cache.find(key) if request.replace is None else None
        if cached is not None:
            self._origins = unique_origins([*self._origins, *cached.origins])
            answer, result = await run_in_thread(lambda: cached.again(self.trace_id, agent.searcher))
            await self._emit_text(answer.text, agent)
        else:
            answer, result = await self._answer_anew(agent)
            cache.keep(key, answer, result, self._origins)
        if agent.strict and result.suspended is None and answer.unsupported_reasons:
            self._text_parts.clear()
            raise UnsupportedAnswer(answer.unsupported_reasons)
        return answer, result

    def _history(self) -> list[Message]:
        """The earlier turns of the session, as the asker may read them now."""
        return [Message(Role(role), text) for role, text in self.turn.history] if self.turn is not None else []

    async def _answer_anew(self, agent: RAGAgent) -> tuple[Answer, AgentResult]:
        """Run the agent, which emits events, and build its answer."""
        asked = self._request.input
        earlier = asked.messages if isinstance(asked, SuspendedRun) else asked[:-1]
        text, self._citations = await asyncio.to_thread(
            agent.open_streams, self._request.question, earlier, self._tool_state()
        )
        async with aclosing(self._agent_events(agent)) as events:
            async for event in events:
                await self._emit_text(self._stop.feed(text.add(event)), agent)
                if isinstance(event, ModelCallStarted | RunEnded):
                    await self._emit_text(self._stop.restart(), agent)
                self._citations.add(event)
                await self._handle_event(event)
        result = self._result
        if result is None:
            raise RagkitError("the run ended without a result")
        answer = await asyncio.to_thread(agent.build_answer, self._request.question, result)
        return cut_answer(answer, self._request.options.stop), result

    def _agent_events(self, agent: RAGAgent) -> AsyncGenerator[Event, None]:
        agent_input, memory = self._request.input, None
        if self.turn is None and not isinstance(agent_input, SuspendedRun):
            agent_input = tuple(map(_without_citation_marks, agent_input))
        if self.turn is not None and not isinstance(agent_input, SuspendedRun):
            memory = ConversationMemory()
            memory.record_turn(self._history(), self._tool_state())
        cancel, can_reset = self._cancellation, self._request.can_reset_text
        return agent.astream_events(agent_input, memory=memory, cancel=cancel, retry_after_text=can_reset)

    def _tool_state(self) -> dict[str, JSON]:
        """The state of tools after the earlier turns of the session."""
        return {SHOWN_PASSAGES_KEY: list(self.turn.shown)} if self.turn is not None and self.turn.shown else {}

    async def _handle_event(self, event: Event) -> None:
        if isinstance(event, ModelCallStarted):
            self._model_call += 1
        elif (of_tool := tool_event(event)) is not None:
            if isinstance(event, ToolEnded):
                await self._add_origins(event)
            if isinstance(of_tool, AnswerToolFinished):
                self._log_tool(of_tool)
            await self.events.put(of_tool)
        elif isinstance(event, Retrying) and event.discard_text:
            self._text_parts.clear()
            self._stop.restart()
            await self.events.put(AnswerTextReset())
        elif isinstance(event, RunEnded):
            self._result = event.result

    async def _add_origins(self, event: ToolEnded) -> None:
        added: list[Origin] = []
        over_all = event.call.name in _OVER_ALL
        if isinstance(event.data, RetrievedPassages):
            added += hit_origins(event.data.hits)
            over_all = event.data.over_all
        if over_all:
            added.append(("", "", await run_in_thread(self._runner.sessions.rights.rights)))
        self._origins = unique_origins([*self._origins, *added])

    def _suspended_origins(self, run: object) -> list[Origin]:
        shown = run.state.get(SHOWN_PASSAGES_KEY) if isinstance(run, SuspendedRun) else None
        return self._runner.sessions.rights.chunk_origins(map(str, shown if isinstance(shown, list) else ()))

    def _log_tool(self, event: AnswerToolFinished) -> None:
        name, seconds = event.call.name, round(event.seconds, 4)  # never the arguments: they hold the question
        extra = {"tool": name, "ok": event.ok, "seconds": seconds, "trace": self.trace_id}
        LOG.info("tool %s %s", name, "returned" if event.ok else "failed", extra=extra)

    async def _emit_text(self, text: str, agent: RAGAgent) -> None:
        """Send text, and its citations; with `strict` only once the answer is known to be supported."""
        if not text:
            return
        if not self._text_parts:
            self._runner.metrics.first_text_seconds.observe(time.monotonic() - self._started_at)
        if self._text_parts and self._model_call not in self._calls_with_text:
            text = f"\n\n{text}"  # text before and after a tool call are separate paragraphs
        self._calls_with_text.add(self._model_call)
        self._text_parts.append(text)
        if agent.strict:
            return
        await self.events.put(AnswerTextDelta(text))
        if self._citations.feed(text):
            for citation in await asyncio.to_thread(self._resolve_citations, agent):
                await self.events.put(AnswerCitation(citation))
        if self.turn is not None and time.monotonic() - self._saved_at > SAVE_INTERVAL_S:
            self._saved_at = time.monotonic()
            if not await self._runner.sessions.update_answer(self.turn, "".join(self._text_parts), self._origins):
                self.stop()  # through another server

    def _resolve_citations(self, agent: RAGAgent) -> list[Citation]:
        with agent.searcher.session() as searcher:
            return self._citations.resolve(searcher)

    async def _complete(self, answer: Answer, result: AgentResult, agent: RAGAgent) -> None:
        if agent.strict and self._text_parts:
            await self.events.put(AnswerTextDelta("".join(self._text_parts)))
        for citation in unsent_citations(answer, self._citations.sent):
            await self.events.put(AnswerCitation(citation))
        runner, data = self._runner, answer_json(answer)
        citations = await asyncio.to_thread(self._add_document_ids, data["citations"])
        detail: dict[str, JSON] = {key: data[key] for key in _DETAIL_KEYS}
        detail["citations"] = citations
        origins = unique_origins(self._origins)
        record = {**trace_record(result, agent.config), ORIGINS_KEY: origins}
        finished = {"model": answer.model, "usage": data["usage"], "spans": spans_json(result.trace), "record": record}
        trace = await runner.traces.finish(self.trace_id, "done", finished)
        log_answer(self.trace_id, [citation.source for citation in answer.citations])
        message: Mapping[str, JSON] = {
            "id": new_id("msg"),
            "role": "assistant",
            "content": answer.text,
            "created": format_time(time.time()),
            "status": "done",
            "trace_id": self.trace_id,
            **EMPTY_DETAIL,
            **detail,
        }
        session = None
        if self.turn is not None:
            stored = {**detail, SHOWN_KEY: _shown_ids(result, self.turn.shown, answer), ORIGINS_KEY: origins}
            message, session = await runner.sessions.finish_answer(self.turn, "done", answer.text, stored)
        self._count_metrics("done", answer.usage.to_dict())
        await self.events.put(TurnCompleted(answer, result, message, session, trace))

    async def _fail(self, error: Exception, config: AgentConfig) -> None:
        runner, partial = self._runner, partial_result(error)
        response = self._lost_rights or to_error_response(error)
        cancelled = isinstance(error, RunCancelled) and self._lost_rights is None
        status = "cancelled" if cancelled else "error"
        if not cancelled:
            known = isinstance(error, RagkitError | BudgetExceeded)
            trace = {"trace": self.trace_id}
            LOG.warning("an answer failed: %s", error, exc_info=None if known else error, extra=trace)
        usage: dict[str, JSON] = partial.usage.to_dict() if partial else {}
        origins = unique_origins(self._origins)
        finished: dict[str, JSON] = {"usage": usage}
        if partial is not None:
            record = {**trace_record(partial, config), ORIGINS_KEY: origins}
            finished |= {"spans": spans_json(partial.trace), "record": record}
        await runner.traces.finish(self.trace_id, status, finished, response.message)
        if self.turn is not None:
            detail: dict[str, JSON] = {
                "usage": usage or None, "error": response.to_json()["error"], ORIGINS_KEY: origins
            }  # fmt: skip
            if partial is not None:
                detail[SHOWN_KEY] = _shown_ids(partial, self.turn.shown)
            if cancelled:  # the text that stays names them
                sent: list[JSON] = [citation.to_json(display_name) for citation in self._citations.sent]
                detail["citations"] = await asyncio.to_thread(self._add_document_ids, sent)
            await runner.sessions.finish_answer(self.turn, status, "".join(self._text_parts), detail)
        self._count_metrics(status, usage)
        await self.events.put(AnswerFailed(response, self.trace_id, self.turn.session_id if self.turn else None))

    def _count_metrics(self, status: str, usage: dict[str, JSON]) -> None:
        metrics, name = self._runner.metrics, self._runner.name
        metrics.count_answer(status, time.monotonic() - self._started_at, self._model, name)
        metrics.count_usage(usage, self._model, name)

    def _add_document_ids(self, citations: JSON) -> list[JSON]:
        with_ids: list[JSON] = []
        cited = cast("list[dict[str, JSON]]", citations)
        chunks = read_chunks(self._runner.kb, [str(citation["chunk_id"]) for citation in cited])
        for citation, chunk in zip(cited, chunks, strict=True):
            with_ids.append({**citation, "document_id": chunk.document_id if chunk is not None else None})
        return with_ids


_OVER_ALL = frozenset({AGGREGATE_NAME, *DOCUMENT_TOOLS})
"""The tools whose results are of many documents."""
_DETAIL_KEYS = (
    "searched_for",
    "statements",
    "supported",
    "evidence",
    "confidence",
    "abstained",
    "outcome",
    "notices",
    "model",
    "usage",
)


async def wait_for_answer(task: AnswerTask) -> TurnCompleted:
    """Wait until an answer is complete; cancelling the caller cancels it. Raises RequestRejected if it failed."""
    try:
        while True:
            event = await task.events.get()
            if isinstance(event, TurnCompleted):
                return event
            if isinstance(event, AnswerFailed):
                raise RequestRejected(event.error)
    except StopAsyncIteration:
        raise RequestRejected(to_error_response(RagkitError("an answer ended without a result"))) from None
    except asyncio.CancelledError:
        await task.abandon()
        raise


def _without_citation_marks(message: Message) -> Message:
    """A message of a client: the passages that its earlier answers cite are not known."""
    text = strip_citation_marks(message.role.value, message.content)
    return message if text == message.content else replace(message, content=text)


def _shown_ids(result: AgentResult, before: Sequence[str], answer: Answer | None = None) -> list[JSON]:
    """The ids of the chunks that the session has shown, by citation number: `before` and those of this turn."""
    shown = result.state.get(SHOWN_PASSAGES_KEY)
    ids: list[JSON] = list(shown if isinstance(shown, list) else before)
    for citation in answer.citations if answer is not None else ():
        ids += [""] * (citation.n - len(ids))
        ids[citation.n - 1] = ids[citation.n - 1] or citation.chunk_id  # quotes without a model have their own numbers
    return ids
