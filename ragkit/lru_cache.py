"""A bounded cache for threads. Imports nothing of ragkit."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """Values of a total size of at most `capacity`; the least recently used one is evicted first. Thread-safe."""

    def __init__(self, capacity: int, size_of: Callable[[V], int] = lambda _: 1) -> None:
        """`capacity` >= 1, in the unit of `size_of`: the number of values by default."""
        self._capacity, self._size_of = capacity, size_of
        self._entries: OrderedDict[K, V] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """The value of a key, or None."""
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
            return self._entries.get(key)

    def set(self, key: K, value: V) -> None:
        """Store a value, and evict others as necessary; a value above the capacity is not stored."""
        with self._lock:
            if key in self._entries:
                self._size -= self._size_of(self._entries.pop(key))
            if self._size_of(value) > self._capacity:
                return
            self._entries[key] = value
            self._size += self._size_of(value)
            while self._size > self._capacity:
                self._size -= self._size_of(self._entries.popitem(last=False)[1])
