"""Answers being made: a task for each, that runs the agent, tells what happens, and writes down how it ended.

Knows no HTTP: who asked reads events from a channel, and says when nobody reads them any more.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from ragkit.agent.background_tasks import iterate_in_thread
from ragkit.agent.cancellation import Cancellation
from ragkit.agent.events import (
    Event,
    ModelCallStarted,
    Retrying,
    RunEnded,
    TextChunk,
    ToolEnded,
    ToolFailed,
    ToolStarted,
)
from ragkit.agent.memory import ConversationMemory
from ragkit.agent.messages import Message, Role, ToolCall
from ragkit.agent.result import AgentResult, SuspendedRun, partial_result
from ragkit.answer.agent import RAGAgent
from ragkit.answer.base import Answer
from ragkit.answer.json_shapes import answer_json
from ragkit.answer.tool import RetrievedPassages
from ragkit.errors import BudgetExceeded, RagkitError, RunCancelled
from ragkit.records import JSON
from ragkit.server.base import ServedKnowledgeBase
from ragkit.server.citation_marks import strip_citation_marks
from ragkit.server.concurrency import ConcurrencyLimiter
from ragkit.server.database import format_time, new_id
from ragkit.server.http_errors import ErrorResponse, RequestRejected, service_unavailable, to_error_response
from ragkit.server.metrics import Metrics
from ragkit.server.request_options import RequestOptions, create_agent
from ragkit.server.sessions import EMPTY_DETAIL, SessionStore, SessionTurn
from ragkit.server.settings import ServerLimits
from ragkit.server.streams import Channel
from ragkit.server.traces import TraceStore, spans_json

LOG = logging.getLogger("ragkit.server")
SAVE_INTERVAL_S = 0.5
"""How often the text of an answer that is being made is written down."""
MAX_SUMMARY_CHARS = 200


@dataclass(frozen=True, slots=True)
class AnswerRequest:
    """What somebody wants to know."""

    question: str
    """The user's last words; empty when a run goes on with the results of the caller's tools."""
    input: tuple[Message, ...] | SuspendedRun
    """What the agent is given."""
    session_id: str | None = None
    in_session: bool = False
    """Whether it belongs to a session: to `session`, or to a new one."""
    title: str = ""
    """Of a new session."""
    options: RequestOptions = field(default_factory=RequestOptions)


@dataclass(frozen=True, slots=True)
class AnswerStarted:
    """The first event."""

    session_id: str | None
    trace_id: str
    model: str


@dataclass(frozen=True, slots=True)
class AnswerToolStarted:
    """A tool is about to be executed."""

    call: ToolCall


@dataclass(frozen=True, slots=True)
class AnswerToolFinished:
    """A tool has given its result, or failed."""

    call: ToolCall
    ok: bool
    summary: str
    seconds: float


@dataclass(frozen=True, slots=True)
class AnswerTextDelta:
    """A piece of text."""

    text: str


@dataclass(frozen=True, slots=True)
class AnswerTextReset:
    """The text so far does not count: the model begins again."""


@dataclass(frozen=True, slots=True)
class AnswerCompleted:
    """The answer is there. The last event of one that did not fail."""

    answer: Answer
    result: AgentResult
    message: Mapping[str, JSON]
    """The shape MESSAGE."""
    session: Mapping[str, JSON] | None
    """The shape SESSION."""
    trace_id: str


@dataclass(frozen=True, slots=True)
class AnswerFailed:
    """There will be no answer. The last event of one that failed."""

    error: ErrorResponse
    trace_id: str
    session_id: str | None


AnswerEvent: TypeAlias = (
    AnswerStarted
    | AnswerToolStarted
    | AnswerToolFinished
    | AnswerTextDelta
    | AnswerTextReset
    | AnswerCompleted
    | AnswerFailed
)


@dataclass(frozen=True)
class AnswerRunner:
    """What every answer is made with."""

    kb: ServedKnowledgeBase
    sessions: SessionStore
    traces: TraceStore
    limiter: ConcurrencyLimiter
    metrics: Metrics
    limits: ServerLimits
    active: set[AnswerTask] = field(default_factory=set)
    stop_tasks: list[asyncio.Future[None]] = field(default_factory=list)

    async def start(self, ask: AnswerRequest) -> AnswerTask:
        """Begin an answer, when it is its turn. Raises what keeps it from beginning.

        When the caller is cancelled meanwhile, so is the answer.
        """
        answering = AnswerTask(self, ask)
        try:
            error = await asyncio.shield(answering.started)
        except asyncio.CancelledError:
            await answering.abandon()
            raise
        if error is not None:
            raise error
        return answering

    async def stop(self, seconds: float) -> None:
        """Let answers end within so many seconds, then stop them. New ones are refused from now on."""
        self.limiter.close()
        if self.active:
            await asyncio.wait([one.task for one in self.active], timeout=seconds)
        for one in list(self.active):
            one.stop()

    def schedule_stop(self, seconds: float) -> None:
        """The same, without waiting for it."""
        self.stop_tasks.append(asyncio.ensure_future(self.stop(seconds)))

    async def wait_until_idle(self) -> None:
        """Wait until no answer is being made."""
        if self.active:
            await asyncio.wait([one.task for one in self.active])


class AnswerTask:
    """One answer being made. Read `events` to their end, or call `leave`."""

    def __init__(self, shop: AnswerRunner, ask: AnswerRequest) -> None:
        self.events: Channel[AnswerEvent] = Channel()
        self.trace_id = new_id("trc")
        self.started: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        """Done when it has begun: with the reason, where it has not."""
        self.turn: SessionTurn | None = None
        self._runner = shop
        self._request = ask
        self._cancellation = Cancellation()
        self._has_slot = False
        self._text_parts: list[str] = []
        self._iterations_with_text: set[int] = set()
        self._iteration = 0
        self._saved_at = time.monotonic()
        self._started_at = time.monotonic()
        self._result: AgentResult | None = None
        shop.active.add(self)
        self.task = asyncio.create_task(self._run())

    async def abandon(self) -> None:
        """Nobody wants it any more: stop working on it."""
        self.stop()
        await self.events.abandon()

    def stop(self) -> None:
        """Stop working on it; who reads the events is told."""
        self._cancellation.cancel()
        if not self._has_slot:
            self.task.cancel()

    async def _run(self) -> None:
        shop = self._runner
        try:
            await shop.limiter.acquire()
            self._has_slot = True
            agent = await self._start()
            self.started.set_result(None)
            await self._run_agent(agent)
        except asyncio.CancelledError:
            if not self.started.done():
                self.started.set_result(service_unavailable("the answer was stopped before it began"))
        except Exception as error:  # a border: a server request
            if self.started.done():
                LOG.exception("an answer could not be written down")
            else:
                self.started.set_result(error)
                await self._record_start_failure(error)
        finally:
            if self._has_slot:
                shop.limiter.release()
            shop.active.discard(self)
            await self.events.close()

    async def _start(self) -> RAGAgent:
        shop, ask = self._runner, self._request
        agent = await asyncio.to_thread(create_agent, shop.kb, ask.options, ask.question, shop.limits)
        self._started_at = time.monotonic()
        if ask.in_session:
            self.turn = await shop.sessions.add_question(ask.session_id, ask.question, self.trace_id, title=ask.title)
        session = self.turn.session_id if self.turn else None
        model = ask.options.model or agent.provider.name
        await shop.traces.start(self.trace_id, session, model, ask.question)
        await self.events.put(AnswerStarted(session, self.trace_id, model))
        return agent

    async def _record_start_failure(self, error: Exception) -> None:
        if self.turn is not None:
            detail = {"error": to_error_response(error).to_json()["error"]}
            await self._runner.sessions.finish_answer(self.turn, "error", "", detail)

    async def _run_agent(self, agent: RAGAgent) -> None:
        try:
            async with aclosing(self._agent_events(agent)) as events:
                async for event in events:
                    await self._handle_event(event)
            if self._result is None:
                raise RagkitError("the run ended without a result")
            answer = await asyncio.to_thread(agent.build_answer, self._request.question, self._result)
        except Exception as error:  # noqa: BLE001 - a border: a server request; `_fail` writes the log
            await self._fail(error)
        else:
            await self._complete(answer, self._result)

    def _agent_events(self, agent: RAGAgent) -> AsyncGenerator[Event, None]:
        given, memory = self._request.input, None
        if self.turn is not None and not isinstance(given, SuspendedRun):
            earlier = [Message(Role(role), strip_citation_marks(role, text)) for role, text in self.turn.history]
            memory = ConversationMemory(messages=earlier)
        if agent.provider.blocking:
            return agent.astream(given, memory=memory, cancel=self._cancellation)
        # who answers at once computes, and must not do so in the loop that serves everybody
        pieces = iterate_in_thread(lambda: agent.stream(given, memory=memory, cancel=self._cancellation))
        return cast("AsyncGenerator[Event, None]", pieces)

    async def _handle_event(self, event: Event) -> None:
        if isinstance(event, ModelCallStarted):
            self._iteration = event.iteration
        elif isinstance(event, TextChunk):
            await self._emit_text(event.text)
        elif isinstance(event, ToolStarted):
            await self.events.put(AnswerToolStarted(event.call))
        elif isinstance(event, ToolEnded):
            await self.events.put(AnswerToolFinished(event.call, True, _summarize_tool_result(event), event.seconds))
        elif isinstance(event, ToolFailed):
            await self.events.put(
                AnswerToolFinished(event.call, False, event.content[:MAX_SUMMARY_CHARS], event.seconds)
            )
        elif isinstance(event, Retrying) and event.discard_text:
            self._text_parts.clear()
            await self.events.put(AnswerTextReset())
        elif isinstance(event, RunEnded):
            self._result = event.result

    async def _emit_text(self, text: str) -> None:
        if not self._text_parts:
            self._runner.metrics.first_text_seconds.observe(time.monotonic() - self._started_at)
        if self._text_parts and self._iteration not in self._iterations_with_text:
            text = f"\n\n{text}"  # what was said before a tool was called is a paragraph of its own
        self._iterations_with_text.add(self._iteration)
        self._text_parts.append(text)
        await self.events.put(AnswerTextDelta(text))
        if self.turn is not None and time.monotonic() - self._saved_at > SAVE_INTERVAL_S:
            self._saved_at = time.monotonic()
            await self._runner.sessions.update_answer(self.turn, "".join(self._text_parts))

    async def _complete(self, answer: Answer, result: AgentResult) -> None:
        shop, found = self._runner, answer_json(answer)
        citations = await asyncio.to_thread(self._add_document_ids, found["citations"])
        detail: dict[str, JSON] = {
            **{key: found[key] for key in ("evidence", "abstained", "model", "usage")},
            "citations": citations,
        }
        trace = {"model": answer.model, "usage": found["usage"], "spans": spans_json(result.trace)}
        await shop.traces.finish(self.trace_id, "done", trace)
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
            message, session = await shop.sessions.finish_answer(self.turn, "done", answer.text, detail)
        self._count_metrics("done", answer.usage.to_dict())
        await self.events.put(AnswerCompleted(answer, result, message, session, self.trace_id))

    async def _fail(self, error: Exception) -> None:
        shop, fault, partial = self._runner, to_error_response(error), partial_result(error)
        cancelled = isinstance(error, RunCancelled)
        status = "cancelled" if cancelled else "error"
        if not cancelled:
            known = isinstance(error, RagkitError | BudgetExceeded)
            LOG.warning(
                "an answer failed: %s", error, exc_info=None if known else error, extra={"trace": self.trace_id}
            )
        usage: dict[str, JSON] = partial.usage.to_dict() if partial else {}
        spans = spans_json(partial.trace) if partial else []
        await shop.traces.finish(self.trace_id, status, {"usage": usage, "spans": spans}, fault.message)
        if self.turn is not None:
            detail: dict[str, JSON] = {"usage": usage or None, "error": fault.to_json()["error"]}
            await shop.sessions.finish_answer(self.turn, status, "".join(self._text_parts), detail)
        self._count_metrics(status, usage)
        await self.events.put(AnswerFailed(fault, self.trace_id, self.turn.session_id if self.turn else None))

    def _count_metrics(self, status: str, usage: dict[str, JSON]) -> None:
        metrics = self._runner.metrics
        metrics.answers.labels(status).inc()
        metrics.answer_seconds.observe(time.monotonic() - self._started_at)
        metrics.count_usage(usage)

    def _add_document_ids(self, citations: JSON) -> list[JSON]:
        found: list[JSON] = []
        for one in cast("list[dict[str, JSON]]", citations):
            chunk = self._runner.kb.chunk(str(one["chunk_id"]))
            found.append({**one, "document_id": chunk.document_id if chunk is not None else None})
        return found


async def wait_for_answer(answering: AnswerTask) -> AnswerCompleted:
    """Wait for the end of an answer. Raises RequestRejected when there is none; when the caller is cancelled, it stops."""
    try:
        while True:
            event = await answering.events.get()
            if isinstance(event, AnswerCompleted):
                return event
            if isinstance(event, AnswerFailed):
                raise RequestRejected(event.error)
    except StopAsyncIteration:
        raise RequestRejected(to_error_response(RagkitError("an answer ended without a word"))) from None
    except asyncio.CancelledError:
        await answering.abandon()
        raise


def _summarize_tool_result(event: ToolEnded) -> str:
    if isinstance(event.data, RetrievedPassages):
        count = len(event.data.hits)
        return f"{count} passage{'' if count == 1 else 's'}, evidence {event.data.evidence:.2f}"
    return event.content[:MAX_SUMMARY_CHARS]
