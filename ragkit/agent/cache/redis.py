"""The response cache in a Redis server, shared by many processes."""

from __future__ import annotations

import os
from threading import Lock
from typing import TYPE_CHECKING, cast

from ragkit.agent.cache.base import CacheStats, parse_completion, serialize_completion
from ragkit.agent.messages import Message
from ragkit.agent.providers.base import Completion
from ragkit.argument_types import check_types
from ragkit.errors import MissingExtra, RagkitError
from ragkit.masking import mask_secrets
from ragkit.usage.meter import UsageStats
from ragkit.usage.tokens import Tokens

try:
    import redis
except ImportError as error:
    raise MissingExtra("RedisCache", extra="redis") from error

if TYPE_CHECKING:
    from collections.abc import Iterator


class CacheUnreachable(RagkitError):
    """The Redis server is unreachable or rejects the request."""


@check_types()
class RedisCache:
    """Stores completions in Redis, which expires them.

    Reads and writes ignore a failing server: the model is called instead. The constructor does not connect; `ping`
    checks the connection.

    Args:
        url: `redis://host:port/db`; by default REDIS_URL, else the server on localhost.
        default_ttl: seconds until an entry expires; None: until the server evicts it.
        prefix: the prefix of its keys.
        timeout_s: seconds to wait for the server.
    """

    blocking = True

    def __init__(
        self,
        url: str | None = None,
        *,
        default_ttl: float | None = 300.0,
        prefix: str = "ragkit:cache:",
        timeout_s: float = 2.0,
    ) -> None:
        self.url = url or os.environ.get("REDIS_URL") or "redis://127.0.0.1:6379/0"
        self.default_ttl, self.prefix = default_ttl, prefix
        self._client = redis.Redis.from_url(self.url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s)
        self._lock = Lock()
        self._hits = self._misses = 0

    @property
    def stats(self) -> CacheStats:
        """Hits and misses of this client; entries of all clients, without expired ones."""
        try:
            size = sum(1 for _ in self._keys())
        except redis.RedisError:
            size = 0
        return CacheStats(self._hits, self._misses, 0, size)

    def ping(self) -> None:
        """Check the connection. Raises CacheUnreachable."""
        try:
            self._client.ping()
        except redis.RedisError as error:
            where = mask_secrets(f"no Redis at {self.url} ({error})")
            raise CacheUnreachable(f"{where}: start it, or set REDIS_URL") from error

    def get(self, key: str) -> Completion | None:
        """The unexpired completion under the key, or None."""
        try:
            data = cast("bytes | None", self._client.get(self.prefix + key))
        except redis.RedisError:  # also a key that holds a list or a hash
            data = None
        completion = parse_completion(data) if data is not None else None
        with self._lock:
            self._hits += completion is not None
            self._misses += completion is None
        return completion

    def set(
        self, key: str, completion: Completion | tuple[Message, UsageStats | Tokens], ttl: float | None = None
    ) -> None:
        """Store a completion, or a pair of a message and its usage, for `ttl` seconds; None: for `default_ttl`."""
        seconds = self.default_ttl if ttl is None else ttl
        milliseconds = None if seconds is None else max(1, int(seconds * 1000))
        try:
            self._client.set(self.prefix + key, serialize_completion(completion).encode(), px=milliseconds)
        except redis.RedisError:
            return  # a failed write only costs a cache miss

    def delete(self, key: str) -> bool:
        """Remove an entry. Returns whether there was one; False also if the server does not answer."""
        try:
            return bool(self._client.delete(self.prefix + key))
        except redis.RedisError:
            return False

    def clear(self) -> None:
        """Remove every entry with this prefix. Raises CacheUnreachable."""
        try:
            for key in self._keys():
                self._client.delete(key)
        except redis.RedisError as error:
            raise CacheUnreachable(f"no Redis at {self.url} ({error}): start it, or set REDIS_URL") from error
        with self._lock:
            self._hits = self._misses = 0

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _keys(self) -> Iterator[bytes]:
        return cast("Iterator[bytes]", self._client.scan_iter(match=f"{self.prefix}*"))
