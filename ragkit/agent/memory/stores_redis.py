"""Conversations in a Redis server, shared by many processes and machines."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from ragkit.agent.memory.stores import ConversationStoreError, LastSeenText, check_key
from ragkit.errors import InvalidOption, MissingExtra
from ragkit.masking import mask_secrets

try:
    import redis
except ImportError as error:
    raise MissingExtra("RedisConversationStore", extra="redis") from error

if TYPE_CHECKING:
    from redis.client import Pipeline


class RedisConversationStore:
    """One conversation in Redis, by key. A save that would overwrite one of another process fails.

    The constructor does not connect.

    Args:
        key: the key of the conversation.
        url: `redis://host:port/db`; by default REDIS_URL, else the server on localhost.
        ttl_s: seconds after the last save until the conversation expires; None: never.
        prefix: the prefix of its keys.
        timeout_s: seconds to wait for the server.
    """

    def __init__(
        self,
        key: str,
        url: str | None = None,
        *,
        ttl_s: float | None = None,
        prefix: str = "ragkit:conversation:",
        timeout_s: float = 5.0,
    ) -> None:
        if ttl_s is not None and ttl_s <= 0:
            raise InvalidOption("ttl_s", ttl_s, "> 0 or None")
        self.key, self.prefix, self.ttl_s = check_key(key), prefix, ttl_s
        self.url = url or os.environ.get("REDIS_URL") or "redis://127.0.0.1:6379/0"
        self._client = redis.Redis.from_url(self.url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s)
        self._last_seen = LastSeenText(key)

    def load(self) -> str | None:
        """The saved text; None if there is none, or it expired. Raises ConversationStoreError."""
        with self._translated_errors():
            text = _decode(self._client.get(self.prefix + self.key))
        self._last_seen.remember(text)
        return text

    def save(self, text: str) -> None:
        """Replace the saved text. Raises ConversationConflict, ConversationStoreError."""
        name = self.prefix + self.key
        milliseconds = None if self.ttl_s is None else max(1, int(self.ttl_s * 1000))

        def replace(pipeline: Pipeline) -> None:
            self._last_seen.check(_decode(pipeline.get(name)))
            pipeline.multi()
            pipeline.set(name, text.encode(), px=milliseconds)

        with self._translated_errors():
            self._client.transaction(replace, name)  # starts over if the key changes meanwhile
        self._last_seen.remember(text)

    def keys(self) -> list[str]:
        """The keys of all conversations with this prefix, sorted. Raises ConversationStoreError."""
        with self._translated_errors():
            names = cast("Iterator[bytes]", self._client.scan_iter(match=f"{_escape_pattern(self.prefix)}*"))
            return sorted(name.decode()[len(self.prefix) :] for name in names)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        try:
            yield
        except redis.RedisError as error:
            where = mask_secrets(f"no conversation at the Redis server {self.url} ({error})")
            raise ConversationStoreError(f"{where}: check that it runs, and REDIS_URL") from error


def _decode(data: object) -> str | None:
    return data.decode() if isinstance(data, bytes) else None


def _escape_pattern(text: str) -> str:
    return "".join(f"\\{letter}" if letter in "*?[]^-\\" else letter for letter in text)
