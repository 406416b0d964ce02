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

from ragkit.agent.cancel import Cancellation
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
from ragkit.agent.workers import aiterate
from ragkit.answer.agent import RAGAgent
from ragkit.answer.base import Answer
from ragkit.answer.shapes import answer_json
from ragkit.answer.tool import Outcome
from ragkit.errors import BudgetExceeded, Cancelled, RagkitError
from ragkit.records import JSON
from ragkit.server.base import ServedKnowledgeBase
from ragkit.server.faults import Fault, Refused, fault_of, overloaded
from ragkit.server.history import without_marks
from ragkit.server.metrics import Metrics
from ragkit.server.running import Turns
from ragkit.server.sessions import NO_DETAIL, Sessions, Turn
from ragkit.server.settings import Limits
from ragkit.server.state import iso, new_id
from ragkit.server.streams import Channel
from ragkit.server.traces import Traces, spans_json
from ragkit.server.wishes import Wishes, agent_for

LOG = logging.getLogger("ragkit.server")
WRITE_SECONDS = 0.5
"""How often the text of an answer that is being made is written down."""
SUMMARY_CHARS = 200


@dataclass(frozen=True, slots=True)
class Ask:
    """What somebody wants to know."""

    question: str
    """The user's last words; empty when a run goes on with the results of the caller's tools."""
    given: tuple[Message, ...] | SuspendedRun
    """What the agent is given."""
    session: str | None = None
    kept: bool = False
    """Whether it belongs to a session: to `session`, or to a new one."""
    title: str = ""
    """Of a new session."""
    wishes: Wishes = field(default_factory=Wishes)


@dataclass(frozen=True, slots=True)
class Began:
    """The first event."""

    session: str | None
    trace: str
    model: str


@dataclass(frozen=True, slots=True)
class ToolBegan:
    """A tool is about to be executed."""

    call: ToolCall


@dataclass(frozen=True, slots=True)
class ToolDone:
    """A tool has given its result, or failed."""

    call: ToolCall
    ok: bool
    summary: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Said:
    """A piece of text."""

    text: str


@dataclass(frozen=True, slots=True)
class Unsaid:
    """The text so far does not count: the model begins again."""


@dataclass(frozen=True, slots=True)
class Over:
    """The answer is there. The last event of one that did not fail."""

    answer: Answer
    result: AgentResult
    message: Mapping[str, JSON]
    """The shape MESSAGE."""
    session: Mapping[str, JSON] | None
    """The shape SESSION."""
    trace: str


@dataclass(frozen=True, slots=True)
class Broke:
    """There will be no answer. The last event of one that failed."""

    fault: Fault
    trace: str
    session: str | None


AnswerEvent: TypeAlias = Began | ToolBegan | ToolDone | Said | Unsaid | Over | Broke


@dataclass(frozen=True)
class Workshop:
    """What every answer is made with."""

    kb: ServedKnowledgeBase
    sessions: Sessions
    traces: Traces
    turns: Turns
    metrics: Metrics
    limits: Limits
    under_way: set[Answering] = field(default_factory=set)
    stopping: list[asyncio.Future[None]] = field(default_factory=list)

    async def start(self, ask: Ask) -> Answering:
        """Begin an answer, when it is its turn. Raises what keeps it from beginning.

        When the caller is cancelled meanwhile, so is the answer.
        """
        answering = Answering(self, ask)
        try:
            error = await asyncio.shield(answering.begun)
        except asyncio.CancelledError:
            await answering.leave()
            raise
        if error is not None:
            raise error
        return answering

    async def stop(self, seconds: float) -> None:
        """Let answers end within so many seconds, then stop them. New ones are refused from now on."""
        self.turns.close()
        if self.under_way:
            await asyncio.wait([one.task for one in self.under_way], timeout=seconds)
        for one in list(self.under_way):
            one.stop()

    def begin_stop(self, seconds: float) -> None:
        """The same, without waiting for it."""
        self.stopping.append(asyncio.ensure_future(self.stop(seconds)))

    async def ended(self) -> None:
        """Wait until no answer is being made."""
        if self.under_way:
            await asyncio.wait([one.task for one in self.under_way])


class Answering:
    """One answer being made. Read `events` to their end, or call `leave`."""

    def __init__(self, shop: Workshop, ask: Ask) -> None:
        self.events: Channel[AnswerEvent] = Channel()
        self.trace = new_id("trc")
        self.begun: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        """Done when it has begun: with the reason, where it has not."""
        self.turn: Turn | None = None
        self._shop = shop
        self._ask = ask
        self._cancel = Cancellation()
        self._entered = False
        self._text: list[str] = []
        self._iterations_with_text: set[int] = set()
        self._iteration = 0
        self._written = time.monotonic()
        self._started = time.monotonic()
        self._result: AgentResult | None = None
        shop.under_way.add(self)
        self.task = asyncio.create_task(self._work())

    async def leave(self) -> None:
        """Nobody wants it any more: stop working on it."""
        self.stop()
        await self.events.leave()

    def stop(self) -> None:
        """Stop working on it; who reads the events is told."""
        self._cancel.cancel()
        if not self._entered:
            self.task.cancel()

    async def _work(self) -> None:
        shop = self._shop
        try:
            await shop.turns.enter()
            self._entered = True
            agent = await self._begin()
            self.begun.set_result(None)
            await self._answer(agent)
        except asyncio.CancelledError:
            if not self.begun.done():
                self.begun.set_result(overloaded("the answer was stopped before it began"))
        except Exception as error:  # a border: a server request
            if self.begun.done():
                LOG.exception("an answer could not be written down")
            else:
                self.begun.set_result(error)
                await self._never_began(error)
        finally:
            if self._entered:
                shop.turns.leave()
            shop.under_way.discard(self)
            await self.events.end()

    async def _begin(self) -> RAGAgent:
        shop, ask = self._shop, self._ask
        agent = await asyncio.to_thread(agent_for, shop.kb, ask.wishes, ask.question, shop.limits)
        self._started = time.monotonic()
        if ask.kept:
            self.turn = await shop.sessions.ask(ask.session, ask.question, self.trace, title=ask.title)
        session = self.turn.session if self.turn else None
        model = ask.wishes.model or agent.provider.name
        await shop.traces.begin(self.trace, session, model, ask.question)
        await self.events.put(Began(session, self.trace, model))
        return agent

    async def _never_began(self, error: Exception) -> None:
        if self.turn is not None:
            detail = {"error": fault_of(error).to_json()["error"]}
            await self._shop.sessions.finish(self.turn, "error", "", detail)

    async def _answer(self, agent: RAGAgent) -> None:
        try:
            async with aclosing(self._events(agent)) as events:
                async for event in events:
                    await self._see(event)
            if self._result is None:
                raise RagkitError("the run ended without a result")
            answer = await asyncio.to_thread(agent.answer_of, self._ask.question, self._result)
        except Exception as error:  # noqa: BLE001 - a border: a server request; `_fail` writes the log
            await self._fail(error)
        else:
            await self._succeed(answer, self._result)

    def _events(self, agent: RAGAgent) -> AsyncGenerator[Event, None]:
        given, memory = self._ask.given, None
        if self.turn is not None and not isinstance(given, SuspendedRun):
            earlier = [Message(Role(role), without_marks(role, text)) for role, text in self.turn.history]
            memory = ConversationMemory(messages=earlier)
        if agent.provider.waits:
            return agent.astream(given, memory=memory, cancel=self._cancel)
        # who answers at once computes, and must not do so in the loop that serves everybody
        pieces = aiterate(lambda: agent.stream(given, memory=memory, cancel=self._cancel))
        return cast("AsyncGenerator[Event, None]", pieces)

    async def _see(self, event: Event) -> None:
        if isinstance(event, ModelCallStarted):
            self._iteration = event.iteration
        elif isinstance(event, TextChunk):
            await self._say(event.text)
        elif isinstance(event, ToolStarted):
            await self.events.put(ToolBegan(event.call))
        elif isinstance(event, ToolEnded):
            await self.events.put(ToolDone(event.call, True, _summary(event), event.seconds))
        elif isinstance(event, ToolFailed):
            await self.events.put(ToolDone(event.call, False, event.content[:SUMMARY_CHARS], event.seconds))
        elif isinstance(event, Retrying) and event.discard_text:
            self._text.clear()
            await self.events.put(Unsaid())
        elif isinstance(event, RunEnded):
            self._result = event.result

    async def _say(self, text: str) -> None:
        if not self._text:
            self._shop.metrics.first_text_seconds.observe(time.monotonic() - self._started)
        if self._text and self._iteration not in self._iterations_with_text:
            text = f"\n\n{text}"  # what was said before a tool was called is a paragraph of its own
        self._iterations_with_text.add(self._iteration)
        self._text.append(text)
        await self.events.put(Said(text))
        if self.turn is not None and time.monotonic() - self._written > WRITE_SECONDS:
            self._written = time.monotonic()
            await self._shop.sessions.write(self.turn, "".join(self._text))

    async def _succeed(self, answer: Answer, result: AgentResult) -> None:
        shop, found = self._shop, answer_json(answer)
        citations = await asyncio.to_thread(self._with_documents, found["citations"])
        detail: dict[str, JSON] = {
            **{key: found[key] for key in ("evidence", "abstained", "model", "usage")},
            "citations": citations,
        }
        trace = {"model": answer.model, "usage": found["usage"], "spans": spans_json(result.trace)}
        await shop.traces.finish(self.trace, "done", trace)
        message: Mapping[str, JSON] = {
            "id": new_id("msg"),
            "role": "assistant",
            "content": answer.text,
            "created": iso(time.time()),
            "status": "done",
            "trace_id": self.trace,
            **NO_DETAIL,
            **detail,
        }
        session = None
        if self.turn is not None:
            message, session = await shop.sessions.finish(self.turn, "done", answer.text, detail)
        self._count("done", answer.usage.to_dict())
        await self.events.put(Over(answer, result, message, session, self.trace))

    async def _fail(self, error: Exception) -> None:
        shop, fault, partial = self._shop, fault_of(error), partial_result(error)
        cancelled = isinstance(error, Cancelled)
        status = "cancelled" if cancelled else "error"
        if not cancelled:
            known = isinstance(error, RagkitError | BudgetExceeded)
            LOG.warning("an answer failed: %s", error, exc_info=None if known else error, extra={"trace": self.trace})
        usage: dict[str, JSON] = partial.usage.to_dict() if partial else {}
        spans = spans_json(partial.trace) if partial else []
        await shop.traces.finish(self.trace, status, {"usage": usage, "spans": spans}, fault.message)
        if self.turn is not None:
            detail: dict[str, JSON] = {"usage": usage or None, "error": fault.to_json()["error"]}
            await shop.sessions.finish(self.turn, status, "".join(self._text), detail)
        self._count(status, usage)
        await self.events.put(Broke(fault, self.trace, self.turn.session if self.turn else None))

    def _count(self, status: str, usage: dict[str, JSON]) -> None:
        metrics = self._shop.metrics
        metrics.answers.labels(status).inc()
        metrics.answer_seconds.observe(time.monotonic() - self._started)
        metrics.used(usage)

    def _with_documents(self, citations: JSON) -> list[JSON]:
        found: list[JSON] = []
        for one in cast("list[dict[str, JSON]]", citations):
            chunk = self._shop.kb.chunk(str(one["chunk_id"]))
            found.append({**one, "document_id": chunk.document_id if chunk is not None else None})
        return found


async def finished(answering: Answering) -> Over:
    """Wait for the end of an answer. Raises Refused when there is none; when the caller is cancelled, it stops."""
    try:
        while True:
            event = await answering.events.get()
            if isinstance(event, Over):
                return event
            if isinstance(event, Broke):
                raise Refused(event.fault)
    except StopAsyncIteration:
        raise Refused(fault_of(RagkitError("an answer ended without a word"))) from None
    except asyncio.CancelledError:
        await answering.leave()
        raise


def _summary(event: ToolEnded) -> str:
    if isinstance(event.data, Outcome):
        count = len(event.data.hits)
        return f"{count} passage{'' if count == 1 else 's'}, evidence {event.data.evidence:.2f}"
    return event.content[:SUMMARY_CHARS]
