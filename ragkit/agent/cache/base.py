"""The response cache: repeated requests get the stored answer. Off by default.

A streamed run neither reads nor writes it.
"""

from __future__ import annotations

import json
import operator
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from threading import Lock
from typing import Protocol, overload

from ragkit.agent.messages import Message, Role, canonical_json
from ragkit.agent.providers.base import Completion, ModelRequest, ModelSettings
from ragkit.agent.tools.base import Tool
from ragkit.argument_types import check_types
from ragkit.errors import InvalidOption, InvalidType
from ragkit.records import JSON
from ragkit.usage.meter import UsageStats
from ragkit.usage.tokens import Tokens


@dataclass(frozen=True, slots=True)
class CacheStats:
    """Usage counters of a cache."""

    hits: int = 0
    misses: int = 0
    evictions: int = 0
    """Entries evicted or expired."""
    size: int = 0
    """The current number of entries."""

    @property
    def total_requests(self) -> int:
        """The number of lookups."""
        return self.hits + self.misses

    @property
    def hit_rate(self) -> float:
        """Hits per lookup, 0 to 1; 0 before the first lookup."""
        return self.hits / self.total_requests if self.total_requests else 0.0


class Cache(Protocol):
    """Stores completions by key. Thread-safe.

    A cache with a method `build_key(provider, request) -> str` gets its own keys instead of those of CacheKeyBuilder.

    An attribute `blocking = False` says that it answers at once; otherwise it does not run in an event loop.
    """

    def get(self, key: str, /) -> Completion | None:
        """The unexpired completion under the key, or None. Any other value counts as None."""

    def set(self, key: str, completion: Completion, /) -> None:
        """Store a completion under the key. `message, usage = completion` unpacks it."""


def is_blocking(cache: Cache) -> bool:
    """Whether a lookup may block (network, disk), so that it must not run in an event loop."""
    return bool(getattr(cache, "blocking", True))


@check_types()
class InMemoryCache:
    """An LRU cache with a time to live.

    Args:
        max_size: entries; the least recently used one is evicted first.
        default_ttl: seconds until an entry expires; None: never.
        clock: monotonic seconds; for tests.
    """

    blocking = False

    def __init__(
        self, max_size: int = 1000, default_ttl: float | None = 300.0, *, clock: Callable[[], float] = time.monotonic
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
        """The usage counters."""
        with self._lock:
            return CacheStats(self._hits, self._misses, self._evictions, len(self._entries))

    @property
    def size(self) -> int:
        """The current number of entries."""
        return self.stats.size

    def get(self, key: str) -> Completion | None:
        """The unexpired completion under the key, or None."""
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

    def set(
        self, key: str, completion: Completion | tuple[Message, UsageStats | Tokens], ttl: float | None = None
    ) -> None:
        """Store a completion, or a pair of a message and its usage, for `ttl` seconds; None: for `default_ttl`."""
        seconds = self.default_ttl if ttl is None else ttl
        until = float("inf") if seconds is None else self._clock() + seconds
        with self._lock:
            self._entries[key] = (to_completion(completion), until)
            self._entries.move_to_end(key)
            while len(self._entries) > self.max_size:
                self._entries.popitem(last=False)
                self._evictions += 1

    def delete(self, key: str) -> bool:
        """Remove an entry. Returns whether there was one."""
        with self._lock:
            return self._entries.pop(key, None) is not None

    def clear(self) -> None:
        """Remove every entry and reset the counters."""
        with self._lock:
            self._entries.clear()
            self._hits = self._misses = self._evictions = 0


@check_types()
class CacheKeyBuilder:
    """Builds the cache key of a request."""

    @overload
    @staticmethod
    def build(provider: str, request: ModelRequest, /) -> str: ...

    @overload
    @staticmethod
    def build(
        model: str, prompt: str, messages: Sequence[Message], tools: Sequence[Tool] = (), temperature: float = 0.7
    ) -> str: ...

    @staticmethod
    def build(
        model: str,
        prompt: str | ModelRequest,
        messages: Sequence[Message] = (),
        tools: Sequence[Tool] = (),
        temperature: float = 0.7,
    ) -> str:
        """SHA-256 (64 hex digits) of everything that the answer depends on.

        Built from the name of a provider and a request, as agents do; or from the parts of a request, with the default
        values for the rest.
        """
        if isinstance(prompt, ModelRequest):
            return _hash_request(model, prompt)
        system = (Message(Role.SYSTEM, prompt),) if prompt else ()
        return _hash_request("", ModelRequest(model, (*system, *messages), tuple(tools), ModelSettings(temperature)))


def _hash_request(provider: str, request: ModelRequest) -> str:
    settings = request.settings
    tools: list[JSON] = [[tool.name, tool.description, tool.parameters] for tool in request.tools]
    key_parts: list[JSON] = [
        provider,
        request.model,
        [_key_fields(message) for message in request.messages],
        tools,
        [settings.temperature, settings.top_p, settings.max_tokens, settings.response_schema],
    ]
    return sha256(canonical_json(key_parts).encode("utf-8", "surrogatepass")).hexdigest()


def _key_fields(message: Message) -> JSON:
    """A message without call ids, which differ between runs: calls are identified by position."""
    fields = {key: value for key, value in message.to_dict().items() if key not in ("tool_call_id", "pinned", "data")}
    if message.tool_calls:
        fields["tool_calls"] = [[call.name, dict(call.arguments), call.malformed] for call in message.tool_calls]
    return fields


def to_completion(value: Completion | tuple[Message, UsageStats | Tokens]) -> Completion:
    """The completion of a pair of a message and its usage; a Completion itself. Raises InvalidType."""
    if isinstance(value, Completion):
        return value
    message, usage = value if isinstance(value, tuple) and len(value) == 2 else (None, None)
    if isinstance(usage, UsageStats):
        usage = Tokens(usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens, 0, usage.llm_cost_usd)
    if not isinstance(message, Message) or not isinstance(usage, Tokens):
        raise InvalidType("completion", value, "a Completion, or a pair of a Message and its usage")
    return Completion(message, usage)


def serialize_completion(completion: Completion | tuple[Message, UsageStats | Tokens]) -> str:
    """A completion, or a pair of a message and its usage, as JSON, for caches that store text."""
    completion = to_completion(completion)
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


def parse_completion(text: str | bytes) -> Completion | None:
    """The inverse of `serialize_completion`; None for anything else, which a shared server may hold under the key."""
    try:
        data = json.loads(text)
        message, cost = Message.from_dict(data["message"]), data["cost_usd"]
        prompt, completion, cached, written = map(operator.index, data["usage"])
        names = [data[key] for key in ("stop_reason", "model", "provider")]
    except (ValueError, LookupError, TypeError, AttributeError):
        return None
    if not all(isinstance(name, str) for name in names) or not isinstance(cost, int | float | None):
        return None
    return Completion(message, Tokens(prompt, completion, cached, written, cost), *names)
