"""The memory of a conversation: its messages, within limits, in one JSON format.

A tool call and its results are kept or dropped together.
"""

from __future__ import annotations

import copy
import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from threading import Lock
from typing import Protocol

from ragkit.agent.memory.reading import to_html, to_markdown
from ragkit.agent.messages import Message, Role, canonical_json, json_objects
from ragkit.argument_types import check_types
from ragkit.errors import InvalidOption, shorten
from ragkit.records import JSON
from ragkit.usage.tokens import estimate_tokens

FORMAT = "ragkit.conversation"
VERSION = 1


class ConversationStore(Protocol):
    """Stores the JSON of a conversation."""

    def load(self) -> str | None:
        """The JSON saved last; None if there is none."""

    def save(self, text: str) -> None:
        """Replace the saved text atomically."""


class FifoLock:
    """A lock that is granted in the order of requests. Waiting blocks no thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._granted: Future[None] | None = None
        self._waiters: deque[tuple[Future[None], object]] = deque()
        self.holder: object = None
        """The owner that was passed to `acquire`, while it holds the lock."""

    def acquire(self, owner: object = None) -> Future[None]:
        """A future that is done when the lock is granted. The caller must call `release` once."""
        turn: Future[None] = Future()
        with self._lock:
            if self._granted is not None:
                self._waiters.append((turn, owner))
            else:
                self._granted, self.holder = turn, owner
                turn.set_result(None)
        return turn

    def release(self, turn: Future[None]) -> None:
        """Release the lock; or stop waiting for it if it was not granted yet. No-op if it was released before."""
        if turn.cancel():
            return
        with self._lock:
            if turn is not self._granted:
                return
            while self._waiters:
                following, owner = self._waiters.popleft()
                if following.set_running_or_notify_cancel():
                    self._granted, self.holder = following, owner
                    following.set_result(None)
                    return
            self._granted, self.holder = None, None


class RunMemory(Protocol):
    """What a run needs of a memory; `ConversationMemory` is one."""

    @property
    def run_lock(self) -> FifoLock:
        """Runs that share the memory take turns."""

    @property
    def is_persistent(self) -> bool:
        """Whether `record_turn` writes to a file or database."""

    @property
    def tool_state(self) -> Mapping[str, JSON]:
        """The state of tools after the last turn."""

    def load_messages(self) -> list[Message]:
        """The earlier messages, the oldest first."""

    def record_turn(self, messages: Sequence[Message], tool_state: Mapping[str, JSON]) -> list[Message]:
        """Add the messages of a turn and replace the state of tools. Returns the dropped messages."""

    def clear(self) -> None:
        """Remove everything."""


@check_types()
class ConversationMemory:
    """The messages of one conversation. Thread-safe.

    Args:
        max_messages: the oldest messages beyond it are dropped; None: no limit. The last user message and the newest
            message always stay.
        max_tokens: the same for tokens, by estimate.
        store: loaded at once and saved on each change; None: in memory only.
        messages: the initial messages.
    """

    def __init__(
        self,
        max_messages: int | None = None,
        max_tokens: int | None = None,
        *,
        store: ConversationStore | None = None,
        messages: Iterable[Message] = (),
    ) -> None:
        for name, value in (("max_messages", max_messages), ("max_tokens", max_tokens)):
            if value is not None and value < 1:
                raise InvalidOption(name, value, ">= 1 or None")
        self.max_messages, self.max_tokens = max_messages, max_tokens
        self._run_lock = FifoLock()
        self._lock = Lock()
        self._store = store
        self._messages = list(messages)
        self._fields: dict[str, JSON] = {}
        saved = store.load() if store else None
        if saved:
            self._messages, self._fields = _parse_conversation(saved)

    @property
    def run_lock(self) -> FifoLock:
        """Runs that share this memory take turns."""
        return self._run_lock

    @property
    def is_persistent(self) -> bool:
        """Whether adding a message writes to a file or database."""
        return self._store is not None

    @property
    def tool_state(self) -> dict[str, JSON]:
        """A copy of the state of tools, `ToolContext.state`, after the last turn."""
        state = self._fields.get("state")
        return copy.deepcopy(dict(state)) if isinstance(state, Mapping) else {}

    def get_history(self) -> list[Message]:
        """Every message, the oldest first."""
        with self._lock:
            return list(self._messages)

    def load_messages(self) -> list[Message]:
        """As `get_history`: what a run starts with."""
        return self.get_history()

    def get_recent(self, n: int) -> list[Message]:
        """The last `n` messages, the oldest first; `n` >= 0."""
        if n < 0:
            raise InvalidOption("n", n, ">= 0")
        return self.get_history()[-n:] if n else []

    def add(self, message: Message) -> list[Message]:
        """Add a message. Returns the messages dropped to stay within the limits."""
        return self.add_many([message])

    def add_many(self, messages: Sequence[Message]) -> list[Message]:
        """Add messages that belong together. Returns the messages dropped to stay within the limits."""
        with self._lock:
            kept, dropped = self._prune([*self._messages, *messages])
            self._replace_messages(kept)
        return dropped

    def record_turn(self, messages: Sequence[Message], tool_state: Mapping[str, JSON]) -> list[Message]:
        """Add the messages of a turn and replace the state of tools. Returns the dropped messages."""
        if tool_state or "state" in self._fields:
            self._fields = {**self._fields, "state": copy.deepcopy(dict(tool_state))}
        return self.add_many(messages)

    def add_user(self, text: str) -> None:
        """Add a user message."""
        self.add(Message.user(text))

    def add_assistant(self, text: str) -> None:
        """Add an assistant message."""
        self.add(Message.assistant(text))

    def pin(self, index: int) -> None:
        """Never drop this message and the messages that belong to it."""
        with self._lock:
            changed = list(self._messages)
            changed[index] = replace(changed[index], pinned=True)
            self._replace_messages(changed)

    def clear(self) -> None:
        """Remove all messages, pinned ones included, and the state of tools."""
        with self._lock:
            self._fields = {}
            self._replace_messages([])

    reset = clear

    def fork(self) -> ConversationMemory:
        """An independent copy, in memory only."""
        copied = ConversationMemory(self.max_messages, self.max_tokens, messages=self.get_history())
        copied._fields = copy.deepcopy(self._fields)
        return copied

    def count_tokens(self) -> int:
        """Estimated tokens of all messages."""
        return sum(map(estimate_message_tokens, self.get_history()))

    def to_json(self) -> str:
        """The conversation as JSON; any later version can read it."""
        return _serialize_conversation(self.get_history(), self._fields)

    def to_markdown(self) -> str:
        """The conversation to read, in Markdown: a heading for each message, tool calls and results as code."""
        return to_markdown(self.get_history())

    def to_html(self) -> str:
        """The conversation to read, as a page: all text is escaped."""
        return to_html(self.get_history())

    def to_dict(self) -> dict[str, JSON]:
        """For logs: `max_messages`, `max_tokens`, `message_count`, and `messages` as JSON objects."""
        messages = self.get_history()
        return {
            "max_messages": self.max_messages,
            "max_tokens": self.max_tokens,
            "message_count": len(messages),
            "messages": [message.to_dict() for message in messages],
        }

    @staticmethod
    def from_json(text: str, *, max_messages: int | None = None, max_tokens: int | None = None) -> ConversationMemory:
        """Parse a conversation. Raises InvalidOption for any other text or a later version."""
        messages, fields = _parse_conversation(text)
        memory = ConversationMemory(max_messages, max_tokens, messages=messages)
        memory._fields = fields
        return memory

    def __repr__(self) -> str:
        limits = f"max_messages={self.max_messages}, max_tokens={self.max_tokens}"
        return f"{type(self).__name__}({limits}, messages={len(self)})"

    def __len__(self) -> int:
        return len(self._messages)

    def __bool__(self) -> bool:
        """True, also without messages: `if memory:` asks whether there is a memory."""
        return True

    def __iter__(self) -> Iterator[Message]:
        return iter(self.get_history())

    def _replace_messages(self, messages: list[Message]) -> None:
        if self._store is not None:
            self._store.save(_serialize_conversation(messages, self._fields))
        self._messages = messages

    def _prune(self, messages: list[Message]) -> tuple[list[Message], list[Message]]:
        count, size = len(messages), sum(map(estimate_message_tokens, messages)) if self.max_tokens else 0
        dropped: list[Message] = []
        units = list(group_tool_calls(messages))
        kept = list(units)
        # services reject a conversation that does not begin with a user message: the last one stays, too
        last_question = next((unit for unit in reversed(units) if unit[0].role is Role.USER), None)
        for unit in units[:-1]:  # the newest message is never dropped
            over = (self.max_messages and count > self.max_messages) or (self.max_tokens and size > self.max_tokens)
            if not over:
                break
            if unit is last_question or any(message.pinned for message in unit):
                continue
            kept = [other for other in kept if other is not unit]
            dropped += unit
            count -= len(unit)
            size -= sum(map(estimate_message_tokens, unit)) if self.max_tokens else 0
        if dropped:
            dropped += _drop_leading_answers(kept)
        return [message for unit in kept for message in unit], dropped


def estimate_message_tokens(message: Message) -> int:
    """Estimated tokens of a message, with its tool calls and 4 for its frame."""
    calls = sum(estimate_tokens(call.name + canonical_json(dict(call.arguments))) for call in message.tool_calls)
    return estimate_tokens(message.content) + calls + 4


def to_conversation_json(messages: Sequence[Message]) -> dict[str, JSON]:
    """Messages as a JSON object in the format of conversations."""
    return {"format": FORMAT, "version": VERSION, "messages": [message.to_dict() for message in messages]}


def parse_messages(data: JSON) -> list[Message]:
    """The inverse of `to_conversation_json`. Raises InvalidOption."""
    if not isinstance(data, Mapping) or data.get("format") != FORMAT:
        raise InvalidOption("a saved conversation", shorten(str(data), 60), f"a JSON object with format {FORMAT!r}")
    version = data.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise InvalidOption("the version of a saved conversation", version, f"<= {VERSION}")
    return [Message.from_dict(item) for item in json_objects(data.get("messages"))]


def _serialize_conversation(messages: Sequence[Message], fields: Mapping[str, JSON]) -> str:
    return json.dumps({**to_conversation_json(messages), **fields}, ensure_ascii=False)


def _parse_conversation(text: str) -> tuple[list[Message], dict[str, JSON]]:
    """The messages, and the other fields of a `ConversationState`, which are kept."""
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidOption("a saved conversation", shorten(text, 60), "JSON") from error
    messages = parse_messages(data)
    return messages, {key: value for key, value in data.items() if key not in ("format", "version", "messages")}


def _drop_leading_answers(units: list[list[Message]]) -> list[Message]:
    """Remove what precedes the first user message, except system and pinned messages, if there is a user message."""
    first = next((index for index, unit in enumerate(units) if unit[0].role is Role.USER), 0)
    answers = (Role.ASSISTANT, Role.TOOL)
    leading = [unit for unit in units[:first] if unit[0].role in answers and not any(m.pinned for m in unit)]
    units[:] = [unit for unit in units if not any(unit is other for other in leading)]
    return [message for unit in leading for message in unit]


def drop_unpaired_calls(messages: Sequence[Message]) -> list[Message]:
    """The messages without results that follow no call, and without calls that no result follows: services refuse both.

    A restored conversation may have them, where it was cut or a program ended in the middle of a turn.
    """
    kept: list[Message] = []
    for first, *results in group_tool_calls(messages):
        if first.role is Role.TOOL:
            continue
        ids = {call.id for call in first.tool_calls}
        paired = [result for result in results if result.tool_call_id in ids]
        answered = {result.tool_call_id for result in paired}
        if answered != ids:
            calls = tuple(call for call in first.tool_calls if call.id in answered)
            if not calls and not first.content:
                continue
            first = replace(first, tool_calls=calls)  # noqa: PLW2901
        kept += [first, *paired]
    return kept


def group_tool_calls(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """Messages that must not be separated: a tool call with its results, anything else alone."""
    unit: list[Message] = []
    for message in messages:
        if unit and message.role is not Role.TOOL:
            yield unit
            unit = []
        unit.append(message)
    if unit:
        yield unit
