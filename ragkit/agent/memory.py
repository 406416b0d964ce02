"""The memory of a conversation: its messages, within limits, in one JSON format.

A tool call and its results are kept or dropped together.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from threading import Lock
from typing import Protocol

from ragkit.agent.messages import Message, Role, canonical_json, json_objects
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
        self._locked = False
        self._waiters: deque[Future[None]] = deque()

    def acquire(self) -> Future[None]:
        """A future that is done when the lock is granted. The caller must call `release` once."""
        turn: Future[None] = Future()
        with self._lock:
            if self._locked:
                self._waiters.append(turn)
            else:
                self._locked = True
                turn.set_result(None)
        return turn

    def release(self, turn: Future[None]) -> None:
        """Release the lock; or stop waiting for it if it was not granted yet."""
        if turn.cancel():
            return
        with self._lock:
            while self._waiters:
                following = self._waiters.popleft()
                if following.set_running_or_notify_cancel():
                    following.set_result(None)
                    return
            self._locked = False


class ConversationMemory:
    """The messages of one conversation. Thread-safe.

    Args:
        max_messages: the oldest messages beyond it are dropped; None: no limit.
        max_tokens: the oldest messages beyond it are dropped, by estimate; None: no limit.
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
        self.run_lock = FifoLock()
        """Runs that share this memory take turns."""
        self._lock = Lock()
        self._store = store
        saved = store.load() if store else None
        self._messages = _parse_conversation(saved) if saved else list(messages)

    @property
    def is_persistent(self) -> bool:
        """Whether adding a message writes to a file or database."""
        return self._store is not None

    def get_history(self) -> list[Message]:
        """Every message, the oldest first."""
        with self._lock:
            return list(self._messages)

    def add(self, message: Message) -> list[Message]:
        """Add a message. Returns the messages dropped to stay within the limits."""
        return self.add_many([message])

    def add_many(self, messages: Sequence[Message]) -> list[Message]:
        """Add messages that belong together. Returns the messages dropped to stay within the limits."""
        with self._lock:
            kept, dropped = self._prune([*self._messages, *messages])
            self._replace_messages(kept)
        return dropped

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
        """Remove all messages, pinned ones included."""
        with self._lock:
            self._replace_messages([])

    reset = clear

    def fork(self) -> ConversationMemory:
        """An independent copy, in memory only."""
        return ConversationMemory(self.max_messages, self.max_tokens, messages=self.get_history())

    def count_tokens(self) -> int:
        """Estimated tokens of all messages."""
        return sum(map(estimate_message_tokens, self.get_history()))

    def to_json(self) -> str:
        """The conversation as JSON; any later version can read it."""
        return serialize_messages(self.get_history())

    @staticmethod
    def from_json(text: str, *, max_messages: int | None = None, max_tokens: int | None = None) -> ConversationMemory:
        """Parse a conversation. Raises InvalidOption for any other text or a later version."""
        return ConversationMemory(max_messages, max_tokens, messages=_parse_conversation(text))

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[Message]:
        return iter(self.get_history())

    def _replace_messages(self, messages: list[Message]) -> None:
        if self._store is not None:
            self._store.save(serialize_messages(messages))
        self._messages = messages

    def _prune(self, messages: list[Message]) -> tuple[list[Message], list[Message]]:
        count, size = len(messages), sum(map(estimate_message_tokens, messages)) if self.max_tokens else 0
        dropped: list[Message] = []
        units = list(_group_tool_calls(messages))
        kept = list(units)
        for unit in units[:-1]:  # the newest message is never dropped
            over = (self.max_messages and count > self.max_messages) or (self.max_tokens and size > self.max_tokens)
            if not over:
                break
            if any(message.pinned for message in unit):
                continue
            kept.remove(unit)
            dropped += unit
            count -= len(unit)
            size -= sum(map(estimate_message_tokens, unit)) if self.max_tokens else 0
        return [message for unit in kept for message in unit], dropped


def estimate_message_tokens(message: Message) -> int:
    """Estimated tokens of a message, with its tool calls and 4 for its frame."""
    calls = sum(estimate_tokens(call.name + canonical_json(dict(call.arguments))) for call in message.tool_calls)
    return estimate_tokens(message.content) + calls + 4


def serialize_messages(messages: Sequence[Message]) -> str:
    """Messages in the JSON format of conversations."""
    data = {"format": FORMAT, "version": VERSION, "messages": [message.to_dict() for message in messages]}
    return json.dumps(data, ensure_ascii=False)


def parse_messages(data: JSON) -> list[Message]:
    """The inverse of `serialize_messages`, for JSON that has been parsed. Raises InvalidOption."""
    if not isinstance(data, Mapping) or data.get("format") != FORMAT:
        raise InvalidOption("a saved conversation", shorten(str(data), 60), f"a JSON object with format {FORMAT!r}")
    version = data.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise InvalidOption("the version of a saved conversation", version, f"<= {VERSION}")
    return [Message.from_dict(item) for item in json_objects(data.get("messages"))]


def _parse_conversation(text: str) -> list[Message]:
    try:
        return parse_messages(json.loads(text))
    except json.JSONDecodeError as error:
        raise InvalidOption("a saved conversation", shorten(text, 60), "JSON") from error


def _group_tool_calls(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """Messages that must not be separated: a tool call with its results, anything else alone."""
    unit: list[Message] = []
    for message in messages:
        if unit and message.role is not Role.TOOL:
            yield unit
            unit = []
        unit.append(message)
    if unit:
        yield unit
