"""The answer to a request of OpenAI's APIs, as it comes, before it is written in the format of one of them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from fastapi import Request

from ragkit.agent.messages import ToolCall, canonical_json
from ragkit.answer.answer_events import AnswerTextDelta
from ragkit.answer.citations import CITATION_MARK
from ragkit.answer.outcome import Outcome
from ragkit.records import JSON
from ragkit.server.answering import answer_tasks
from ragkit.server.answering.client_tasks import TaskAnswer, run_client_task
from ragkit.server.answering.pending_tool_calls import assign_call_ids, serialize_run
from ragkit.server.answering.streams import HEARTBEAT_SECONDS, run_while_connected
from ragkit.server.api.dependencies import AppContext, JsonObject
from ragkit.server.api.openai.requests import ParsedRequest
from ragkit.server.http_errors import ErrorResponse

_FINISH_REASONS = {
    "length": "length",
    "max_iterations": "length",
    "loop": "length",
    "content_filter": "content_filter",
    "refusal": "content_filter",
    "approval": "tool_calls",
}
_EXTRA_KEYS = ("citations", "statements", "supported", "evidence", "confidence", "abstained", "outcome", "notices")


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete answer."""

    text: str
    finish_reason: str
    """As in chat completions."""
    usage: JsonObject
    """As in chat completions."""
    calls: tuple[ToolCall, ...] = ()
    """Calls of tools of the caller, with ids that contain that of the suspended run."""
    refusal: str | None = None
    citations: tuple[JsonObject, ...] = ()
    """The marks in `text` with their places, titles and addresses."""
    extra: JsonObject = field(default_factory=dict)
    """The keys that are not OpenAI's."""


Piece: TypeAlias = str | Reply | ErrorResponse
"""What a stream consists of: pieces of text, then a Reply or an error."""


class ReplyStream:
    """The answer to a request. Read `batches` or `complete` to the end, or call `abandon`."""

    def __init__(self, context: AppContext, parsed: ParsedRequest, base_url: str) -> None:
        self._context, self._parsed, self._base_url = context, parsed, base_url
        self._task: answer_tasks.AnswerTask | None = None
        self._ready: Reply | None = None

    @staticmethod
    async def start(request: Request, context: AppContext, parsed: ParsedRequest) -> ReplyStream:
        """Start to answer. Raises the error that prevents it."""
        stream = ReplyStream(context, parsed, str(request.base_url).rstrip("/"))
        if parsed.task is not None:
            work = run_client_task(context.runner, parsed.task, parsed.answer)
            stream._ready = _task_reply(await run_while_connected(request, work), parsed)
        else:
            stream._task = await run_while_connected(request, context.runner.start(parsed.answer))
        return stream

    @property
    def answer_id(self) -> str:
        """The id of the answer in its session; '' for one that is not stored."""
        turn = self._task.turn if self._task is not None else None
        return turn.answer_id if turn is not None else ""

    async def abandon(self) -> None:
        """Stop the answer."""
        if self._task is not None:
            await self._task.abandon()

    async def complete(self) -> Reply:
        """The whole answer. Raises RequestRejected if it failed."""
        if self._task is None:
            assert self._ready is not None  # noqa: S101 - set by `start`
            return self._ready
        completed = await answer_tasks.wait_for_answer(self._task)
        return await self._build_reply(completed, completed.answer.text)

    async def batches(self) -> AsyncIterator[list[Piece]]:
        """What is new, each time that something is; empty after some silence."""
        if self._task is None:
            reply = await self.complete()
            yield [reply.text, reply] if reply.text else [reply]
            return
        texts: list[str] = []
        while True:
            try:
                events = await self._task.events.get_batch(HEARTBEAT_SECONDS)
            except StopAsyncIteration:
                return
            pieces: list[Piece] = []
            for event in events:
                if isinstance(event, AnswerTextDelta):
                    texts.append(event.text)
                    if self._parsed.forced is None:
                        pieces.append(event.text)
                elif isinstance(event, answer_tasks.AnswerFailed):
                    pieces.append(event.error)
                elif isinstance(event, answer_tasks.TurnCompleted):
                    pieces.append(await self._build_reply(event, "".join(texts)))
            if pieces or not events:
                yield pieces

    async def _build_reply(self, completed: answer_tasks.TurnCompleted, text: str) -> Reply:
        """The reply of a finished answer, whose text may have been streamed with what the model said before it."""
        usage = completed.answer.usage
        calls = await self._pending_calls(completed)
        finish_reason = _FINISH_REASONS.get(completed.result.stop_reason, "stop")
        forced = self._parsed.forced
        if forced is not None and not calls:
            calls, text, finish_reason = (forced.parse(completed.answer.text),), "", "tool_calls"
        return Reply(
            text,
            finish_reason,
            _chat_usage(usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens, completed.message["usage"]),
            calls,
            text if completed.answer.outcome is Outcome.REFUSED else None,
            tuple(self._find_citations(completed, text)),
            {
                **{key: completed.message[key] for key in _EXTRA_KEYS},
                "answered_by": completed.message["model"],
                "trace_id": completed.trace_id,
                "session_id": completed.session["id"] if completed.session else None,
                "trace": dict(completed.trace),
            },
        )

    async def _pending_calls(self, completed: answer_tasks.TurnCompleted) -> tuple[ToolCall, ...]:
        suspended = completed.result.suspended
        if suspended is None:
            return ()
        run = await self._context.traces.save_suspended_run(serialize_run(suspended, completed.answer.evidence))
        return tuple(assign_call_ids(run, [pending.call for pending in suspended.pending]))

    def _find_citations(self, completed: answer_tasks.TurnCompleted, text: str) -> list[JsonObject]:
        citations = {c["n"]: c for c in cast("list[dict[str, JSON]]", completed.message["citations"])}
        found: list[JsonObject] = []
        for match in CITATION_MARK.finditer(text):
            place: JsonObject = {"start_index": match.start(), "end_index": match.end()}
            for number in match[1].split(","):
                citation = citations.get(int(number))
                if citation is not None:
                    found.append({"url": self._citation_url(citation), "title": str(citation["source"]), **place})
        return found

    def _citation_url(self, citation: Mapping[str, JSON]) -> str:
        """The URL of the web page, or of the document on this server."""
        source = str(citation["source"])
        if source.startswith(("http://", "https://")):
            return source
        lines = f"start_line={citation['start_line']}&end_line={citation['end_line']}"
        return f"{self._base_url}/documents/{citation['document_id']}?{lines}"


def call_arguments(call: ToolCall) -> str:
    """The arguments of a call as JSON; what the model sent if it is none."""
    return call.malformed or canonical_json(dict(call.arguments))


def encode_data(value: Mapping[str, JSON]) -> bytes:
    """A server-sent event without a name."""
    return f"data: {json.dumps(value, ensure_ascii=False, default=dict)}\n\n".encode()


def _task_reply(answer: TaskAnswer, parsed: ParsedRequest) -> Reply:
    counts = (answer.usage.get(key, 0) for key in ("prompt_tokens", "completion_tokens", "cached_tokens"))
    prompt, completion, cached = (int(cast("int", count)) for count in counts)
    usage = _chat_usage(prompt, completion, cached, dict(answer.usage))
    extra: JsonObject = {"answered_by": answer.model}
    if parsed.forced is not None:
        return Reply("", "tool_calls", usage, (parsed.forced.parse(answer.text),), extra=extra)
    return Reply(answer.text, _FINISH_REASONS.get(answer.stop_reason, "stop"), usage, extra=extra)


def _chat_usage(prompt: int, completion: int, cached: int, details: JSON) -> JsonObject:
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
        "ragkit": details,
    }
