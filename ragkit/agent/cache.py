"""The response cache: equal requests are answered once. Off unless an agent is given one.

A streamed run neither reads nor writes it.
"""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from threading import Lock
from typing import Protocol

from ragkit.agent.messages import Message, canonical_json
from ragkit.agent.providers.base import Completion, ModelRequest
from ragkit.errors import InvalidOption
from ragkit.records import JSON
from ragkit.usage.tokens import Tokens


@dataclass(frozen=True, slots=True)
class CacheStats:
    """How a cache has been used."""

    hits: int = 0
    misses: int = 0
    evictions: int = 0
    """Entries dropped because there was no room, or their time was over."""
    size: int = 0
    """Entries in it now, as far as it can tell."""

    @property
    def hit_rate(self) -> float:
        """Hits per question, 0 to 1; 0 before the first question."""
        asked = self.hits + self.misses
        return self.hits / asked if asked else 0.0


class Cache(Protocol):
    """Keeps completions by key. Safe to use from many threads."""

    @property
    def blocking(self) -> bool:
        """Whether asking it may wait for something else (a network), so that an event loop must not."""

    @property
    def stats(self) -> CacheStats:
        """How it has been used."""

    def get(self, key: str) -> Completion | None:
        """What was stored under the key and is still good."""

    def set(self, key: str, completion: Completion) -> None:
        """Store a completion under the key."""

    def clear(self) -> None:
        """Drop every entry."""


class InMemoryCache:
    """Keeps the entries used last, each for a while.

    Args:
        max_size: entries; the one that was used longest ago goes first.
        default_ttl: seconds that an entry is good; None: always.
        clock: seconds, rising; for tests.
    """

    blocking = False

    def __init__(
        self,
        max_size: int = 1000,
        default_ttl: float | None = 300.0,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if max_size < 1:
            raise InvalidOption("max_size", max_size, ">= 1")
        self.max_size, self.default_ttl = max_size, default_ttl
        self._clock = clock
        self._lock = Lock()
        self._entries: OrderedDict[str, tuple[Completion, float]] = OrderedDict()
        self._hits = self._misses = self._evictions = 0

    @property
    def stats(self) -> CacheStats:
        """How it has been used."""
        with self._lock:
            return CacheStats(self._hits, self._misses, self._evictions, len(self._entries))

    def get(self, key: str) -> Completion | None:
        """What was stored under the key and is still good."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None and entry[1] > self._clock():
                self._entries.move_to_end(key)
                self._hits += 1
                return entry[0]
            if entry is not None:
                del self._entries[key]
                self._evictions += 1
            self._misses += 1
            return None

    def set(self, key: str, completion: Completion) -> None:
        """Store a completion under the key."""
        until = float("inf") if self.default_ttl is None else self._clock() + self.default_ttl
        with self._lock:
            self._entries[key] = (completion, until)
            self._entries.move_to_end(key)
            while len(self._entries) > self.max_size:
                self._entries.popitem(last=False)
                self._evictions += 1

    def clear(self) -> None:
        """Drop every entry and start counting anew."""
        with self._lock:
            self._entries.clear()
            self._hits = self._misses = self._evictions = 0


class CacheKeyBuilder:
    """Makes the key of a request."""

    @staticmethod
    def build(provider: str, request: ModelRequest) -> str:
        """SHA-256 (64 hex digits) of everything that the answer may depend on."""
        settings = request.settings
        tools: list[JSON] = [[one.name, one.description, one.parameters] for one in request.tools]
        matter: list[JSON] = [
            provider,
            request.model,
            [_key_fields(message) for message in request.messages],
            tools,
            [settings.temperature, settings.top_p, settings.max_tokens, settings.response_schema],
        ]
        return sha256(canonical_json(matter).encode("utf-8", "surrogatepass")).hexdigest()


def _key_fields(message: Message) -> JSON:
    """A message without the ids of calls, which differ from run to run: a call is known by its place."""
    found = {key: value for key, value in message.to_dict().items() if key not in ("tool_call_id", "pinned", "data")}
    if message.tool_calls:
        found["tool_calls"] = [[call.name, dict(call.arguments), call.malformed] for call in message.tool_calls]
    return found


def serialize_completion(completion: Completion) -> str:
    """A completion as JSON, for caches that keep text."""
    usage = completion.usage
    data: dict[str, JSON] = {
        "message": completion.message.to_dict(),
        "usage": [usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens, usage.cache_write_tokens],
        "cost_usd": usage.cost_usd,
        "stop_reason": completion.stop_reason,
        "model": completion.model,
        "provider": completion.provider,
    }
    return json.dumps(data, ensure_ascii=False, default=dict)


def parse_completion(text: str | bytes) -> Completion:
    """The completion that `serialize_completion` wrote."""
    data = json.loads(text)
    prompt, completion, cached, written = data["usage"]
    usage = Tokens(prompt, completion, cached, written, data["cost_usd"])
    return Completion(Message.from_dict(data["message"]), usage, data["stop_reason"], data["model"], data["provider"])
