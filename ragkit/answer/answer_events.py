"""The events of an answer while it streams: the same in Python and, as server-sent events, from `POST /chat`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from ragkit.agent.events import Event, ModelCallStarted, Retrying, RunEnded, ToolEnded, ToolFailed, ToolStarted
from ragkit.agent.messages import Message, ToolCall
from ragkit.agent.result import AgentResult
from ragkit.answer.base import Answer, Searcher
from ragkit.answer.citations import ends_with_words, parse_citation_numbers, resolve_citations
from ragkit.answer.passages import RetrievedPassages
from ragkit.records import JSON, Citation, Hit

if TYPE_CHECKING:
    from ragkit.answer.answer_text import AnswerStream

MAX_SUMMARY_CHARS = 200
"""Characters of a tool's result in its event."""
Display: TypeAlias = Callable[[str], str]
"""Formats the name of a source."""


@dataclass(frozen=True, slots=True)
class AnswerEvent:
    """Base class of what happens while an answer streams."""

    name: ClassVar[str]
    """Of the server-sent event."""

    def to_json(self, display: Display = str) -> dict[str, JSON]:
        """The data of the server-sent event. `display` formats the names of sources."""
        raise NotImplementedError

    def to_sse(self, display: Display = str) -> str:
        """The server-sent event, with the empty line that ends it."""
        return encode_sse(self.name, self.to_json(display))


@dataclass(frozen=True, slots=True)
class AnswerToolStarted(AnswerEvent):
    """A tool call starts, such as a search of the documents."""

    name: ClassVar[str] = "tool"
    call: ToolCall

    def to_json(self, display: Display = str) -> dict[str, JSON]:
        """`id`, `name`, `arguments`."""
        return {"id": self.call.id, "name": self.call.name, "arguments": dict(self.call.arguments)}


@dataclass(frozen=True, slots=True)
class AnswerToolFinished(AnswerEvent):
    """A tool call returned or failed."""

    name: ClassVar[str] = "tool_result"
    call: ToolCall
    ok: bool
    summary: str
    """The number of passages, or the beginning of the result."""
    seconds: float

    def to_json(self, display: Display = str) -> dict[str, JSON]:
        """`id`, `name`, `ok`, `summary`, `seconds`."""
        result: dict[str, JSON] = {"id": self.call.id, "name": self.call.name, "ok": self.ok, "summary": self.summary}
        return {**result, "seconds": round(self.seconds, 4)}


@dataclass(frozen=True, slots=True)
class AnswerTextDelta(AnswerEvent):
    """Text to append to the answer. Links that stand in no passage are taken out."""

    name: ClassVar[str] = "text"
    text: str

    def to_json(self, display: Display = str) -> dict[str, JSON]:
        """`delta`."""
        return {"delta": self.text}


@dataclass(frozen=True, slots=True)
class AnswerTextReset(AnswerEvent):
    """Discard the text and citations received so far: the model starts over, or sent no answer and another follows."""

    name: ClassVar[str] = "discard"

    def to_json(self, display: Display = str) -> dict[str, JSON]:
        """Empty."""
        return {}


@dataclass(frozen=True, slots=True)
class AnswerCitation(AnswerEvent):
    """A citation of the text so far, resolved. It replaces an earlier one of the same number.

    Its `support` is checked at the end: the citations of the whole answer are in `AnswerCompleted`.
    """

    name: ClassVar[str] = "citation"
    citation: Citation

    def to_json(self, display: Display = str) -> dict[str, JSON]:
        """As in `Answer.to_json`."""
        return self.citation.to_json(display)


@dataclass(frozen=True, slots=True)
class AnswerCompleted(AnswerEvent):
    """The answer is complete: the last event."""

    name: ClassVar[str] = "done"
    answer: Answer
    """With all citations, statements and usage. Its text is that after the last tool call."""

    def to_json(self, display: Display = str) -> dict[str, JSON]:
        """`message`, with the text as `content`, and `trace_id`."""
        data = self.answer.to_json(display)
        message: dict[str, JSON] = {"role": "assistant", "content": self.answer.text, "status": "done"}
        message |= {key: value for key, value in data.items() if key not in ("question", "answer")}
        return {"message": message, "trace_id": self.answer.trace_id}


def encode_sse(name: str, data: Mapping[str, JSON]) -> str:
    """A server-sent event."""
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False, default=dict)}\n\n"


def unsent_citations(answer: Answer, sent: Sequence[Citation]) -> list[Citation]:
    """The citations of an answer that were not sent, or were sent with another place."""
    places = {citation.n: (citation.start, citation.end) for citation in sent}
    return [c for c in answer.citations if places.get(c.n) != (c.start, c.end)]


def last_events(answer: Answer, sent: Sequence[Citation] = ()) -> list[AnswerEvent]:
    """The citations of an answer that were not sent yet, and the answer."""
    return [*map(AnswerCitation, unsent_citations(answer, sent)), AnswerCompleted(answer)]


def tool_event(event: Event) -> AnswerEvent | None:
    """The event for the start or the end of a tool call; None for other events."""
    if isinstance(event, ToolStarted):
        return AnswerToolStarted(event.call)
    if isinstance(event, ToolEnded):
        return AnswerToolFinished(event.call, True, _summarize(event), event.seconds)
    if isinstance(event, ToolFailed):
        return AnswerToolFinished(event.call, False, event.content[:MAX_SUMMARY_CHARS], event.seconds)
    return None


def _summarize(event: ToolEnded) -> str:
    if isinstance(event.data, RetrievedPassages):
        count = len(event.data.hits)
        evidence = "" if event.data.evidence is None else f", evidence {event.data.evidence:.2f}"
        return f"{count} passage{'' if count == 1 else 's'}{evidence}"
    return event.content[:MAX_SUMMARY_CHARS]


class CitationStream:
    """The citations of a model's answer while its text streams.

    Args:
        earlier: messages of the conversation whose passages the model may cite.
        cites: whether the text has citations: not data for a program, nor quotes, whose numbers are their own.
    """

    def __init__(self, earlier: Sequence[Message] = (), *, cites: bool = True) -> None:
        self.sent: list[Citation] = []
        """The citations so far."""
        self._shown: dict[int, Hit] = {}
        self._cites, self._text = cites, ""
        self._numbers: set[int] = set()
        self._new: list[int] = []
        for message in earlier:
            self._add_passages(message.data)

    def add(self, event: Event) -> None:
        """Note the passages that a search shows to the model, and where its text begins anew."""
        if isinstance(event, ToolEnded):
            self._add_passages(event.data)
        elif isinstance(event, ModelCallStarted):
            self._text = ""
        elif isinstance(event, Retrying) and event.discard_text:
            self._text = ""
            self._numbers.clear()
            self._new.clear()
            self.sent.clear()

    def feed(self, text: str) -> bool:
        """Add text as it is shown. Whether there is a citation to `resolve`."""
        self._text += text
        if self._cites and "]" in text:
            found = [n for n in parse_citation_numbers(self._text) if n in self._shown and n not in self._numbers]
            self._numbers.update(found)
            self._new += found
        return bool(self._new)

    def resolve(self, searcher: Searcher) -> list[Citation]:
        """The citations that the text has for the first time. Reads their documents."""
        passages = {n: self._shown[n] for n in self._new}
        self._new.clear()
        found = resolve_citations(self._text, passages, searcher)
        self.sent += found
        return found

    def shows(self, text: str) -> bool:
        """Whether what was streamed is a text, but for numbers: another one stands in place of no answer."""
        return not self._cites or ends_with_words(self._text, text)

    def _add_passages(self, data: object) -> None:
        if isinstance(data, RetrievedPassages):
            self._shown.update(zip(data.numbers, data.hits, strict=True))


class AnswerTranslator:
    """Translates the events of a run to those of its answer, without I/O but in `resolve`.

    Args:
        text: the text to show.
        citations: those of the text.
    """

    def __init__(self, text: AnswerStream, citations: CitationStream) -> None:
        self._text, self._citations = text, citations
        self._has_text = self._is_new_part = False
        self._has_citations = False
        self.result: AgentResult | None = None
        """Of the run, once it has ended."""

    def add(self, event: Event) -> Iterator[AnswerEvent]:
        """The events that need no document."""
        shown = self._text.add(event)
        if shown and self._has_text and self._is_new_part:
            shown = f"\n\n{shown}"  # text before and after a tool call are separate paragraphs
        if shown:
            self._has_text, self._is_new_part = True, False
            self._has_citations = self._citations.feed(shown)
            yield AnswerTextDelta(shown)
        self._citations.add(event)
        if isinstance(event, ModelCallStarted):
            self._is_new_part = True
        elif isinstance(event, Retrying) and event.discard_text:
            self._has_text = self._has_citations = False
            yield AnswerTextReset()
        elif isinstance(event, RunEnded):
            self.result = event.result
        elif (of_tool := tool_event(event)) is not None:
            yield of_tool

    @property
    def needs_documents(self) -> bool:
        """Whether `resolve` has something to do."""
        return self._has_citations or self.result is not None

    def resolve(self, searcher: Searcher, build_answer: Callable[[AgentResult], Answer]) -> list[AnswerEvent]:
        """The citations that are new in the text, and, after the run, the answer."""
        events: list[AnswerEvent] = []
        if self._has_citations:
            self._has_citations = False
            events += [AnswerCitation(citation) for citation in self._citations.resolve(searcher)]
        if self.result is not None:
            answer = build_answer(self.result)
            if not self._citations.shows(answer.text):
                self._citations.sent.clear()
                events += [AnswerTextReset(), AnswerTextDelta(answer.text)]
            events += last_events(answer, self._citations.sent)
        return events
