"""Tasks that chat programs give a model beside the conversation: titles, tags, follow-up questions, search queries.

They come as one message that holds instructions and the conversation, and no person has written it. It is recognized by
this shape, not by the words of one version: Open WebUI puts the conversation into `<chat_history>` and shows the JSON
that it wants; LibreChat writes the lines `User:` and `AI:` below a request for a title.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ragkit.agent.agent import Agent
from ragkit.agent.messages import Message, Role
from ragkit.agent.runtime.cancellation import Cancellation
from ragkit.answer.extractive.small_talk import reply_to_small_talk
from ragkit.lexical.stopwords import STOP_WORDS
from ragkit.records import JSON
from ragkit.server.answering.answer_tasks import AnswerRequest, AnswerRunner
from ragkit.server.answering.request_options import answers_without_model, create_agent
from ragkit.server.answering.stop_sequences import cut_text
from ragkit.server.concurrency import run_in_thread

MAX_TITLE_WORDS = 8
MAX_TITLE_CHARS = 60
_HISTORY_START, _HISTORY_END = "<chat_history>", "</chat_history>"
_RESULT_KEY = re.compile(r'"(title|tags|follow_ups|queries|prompt|text)"\s*:')
"""The key of the JSON that the instructions show."""
_WANTS_TITLE = re.compile(
    r"\b(?:generate|provide|create|write|suggest|give|make|return|summari[sz]e|analy[sz]e)\b[^?]{0,300}\btitles?\b",
    re.IGNORECASE | re.DOTALL,
)
_USER = r"^\W{0,4}(?:user|human)\W{0,2}:"
_ASSISTANT = r"^\W{0,4}(?:ai|assistant|response)\W{0,2}:"
_USER_LINE = re.compile(_USER, re.IGNORECASE | re.MULTILINE)
_ASSISTANT_LINE = re.compile(_ASSISTANT, re.IGNORECASE | re.MULTILINE)
_ANY_LINE = re.compile(f"({_USER}|{_ASSISTANT})", re.IGNORECASE | re.MULTILINE)
_SENTENCE_END = re.compile(r"(?<=[.?!。？！])\s|\n")
_MARKUP = re.compile(r"[\"'`*_#<>\[\]{}]+")


@dataclass(frozen=True, slots=True)
class ClientTask:
    """A task of a chat program."""

    result: str
    """What it wants: `title`, `tags`, `follow_ups`, `queries`, `prompt` (of an image) or `text` (to complete)."""
    is_json: bool
    """Whether it wants a JSON object with the key `result`, not the bare text."""
    questions: tuple[str, ...]
    """The user's messages in the conversation."""


@dataclass(frozen=True, slots=True)
class TaskAnswer:
    """The answer to a task."""

    text: str
    model: str
    usage: Mapping[str, JSON]
    """As USAGE in the JSON output of the command line."""
    stop_reason: str = "stop"


def find_client_task(messages: Sequence[Message]) -> ClientTask | None:
    """The task that a request is, if it is one: a single message without an answer yet."""
    others = [message for message in messages if message.role is not Role.SYSTEM]
    if len(others) != 1 or others[0].role is not Role.USER or others[0].images:
        return None
    text = others[0].content
    before, start, rest = text.partition(_HISTORY_START)
    history, end, after = rest.rpartition(_HISTORY_END)
    if start and end:
        instructions = before + after
        key = _RESULT_KEY.search(instructions)
        if key is not None:
            return ClientTask(key[1], True, _read_questions(history))
        return ClientTask("title", False, _read_questions(history)) if _WANTS_TITLE.search(instructions) else None
    first, answer = _USER_LINE.search(text), _ASSISTANT_LINE.search(text)
    if first is None or answer is None or answer.start() < first.start():
        return None
    system = "\n".join(message.content for message in messages if message.role is Role.SYSTEM)
    if _WANTS_TITLE.search(f"{system}\n{text[: first.start()]}"):
        return ClientTask("title", False, _read_questions(text[first.start() :]))
    return None


async def run_client_task(runner: AnswerRunner, task: ClientTask, request: AnswerRequest) -> TaskAnswer:
    """The answer to a task: by the model, without a search, or without a model from the conversation alone.

    Nothing of it is stored: no person has asked. Raises the errors of an agent's run.
    """
    options, cancellation = replace(request.options, tools=(), needs_model=""), Cancellation()

    def run() -> TaskAnswer:
        base = create_agent(runner.kb, options, request.question, runner.limits)
        if answers_without_model(base):
            return TaskAnswer(_answer_without_model(task, options.response_schema), base.provider.name, {})
        agent = Agent(base.provider, (), config=base.config, name="task", instructions=options.instructions)
        result = agent.run(request.question, cancel=cancellation)
        model = options.model or base.provider.name
        return TaskAnswer(cut_text(result.content, options.stop), model, result.usage.to_dict(), result.stop_reason)

    try:
        async with runner.limiter.slot():
            answer = await run_in_thread(run)
    finally:
        cancellation.cancel()
    if answer.usage:
        runner.metrics.count_usage(dict(answer.usage), answer.model, runner.name)
    return answer


def _read_questions(transcript: str) -> tuple[str, ...]:
    """The user's messages of a conversation as text."""
    _, *parts = _ANY_LINE.split(transcript)
    texts = [text.strip() for mark, text in zip(parts[::2], parts[1::2], strict=True) if _USER_LINE.match(mark)]
    return tuple(text for text in texts if text)


def _answer_without_model(task: ClientTask, schema: Mapping[str, JSON] | None) -> str:
    asked = [text for text in task.questions if reply_to_small_talk(text) is None] or list(task.questions) or [""]
    results: dict[str, JSON] = {
        "title": _make_title(asked[0]),
        "tags": ["General"],
        "follow_ups": [],
        "queries": [asked[-1]] if asked[-1] else [],
        "prompt": asked[-1],
        "text": "",
    }
    result = results[task.result]
    properties = schema.get("properties") if schema is not None else None
    if isinstance(properties, Mapping):
        return json.dumps({key: result if key == task.result else "" for key in properties}, ensure_ascii=False)
    return json.dumps({task.result: result}, ensure_ascii=False) if task.is_json else str(result)


def _make_title(question: str) -> str:
    """The first words of a question, without punctuation around them."""
    sentence = _SENTENCE_END.split(_MARKUP.sub(" ", question).strip(), maxsplit=1)[0]
    words, title = sentence.split(), ""
    for word in words[:MAX_TITLE_WORDS]:
        if title and len(title) + 1 + len(word) > MAX_TITLE_CHARS:
            break
        title = f"{title} {word}".strip()
    is_cut = len(title.split()) < len(words) or len(title) > MAX_TITLE_CHARS
    title = title[:MAX_TITLE_CHARS].strip(" .,:;?!¿¡。？！")
    while is_cut and title.rpartition(" ")[2].lower() in STOP_WORDS and " " in title:
        title = title.rpartition(" ")[0]
    return f"{title[:1].upper()}{title[1:]}{'…' if is_cut else ''}" if title else "New chat"
