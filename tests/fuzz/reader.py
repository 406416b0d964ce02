"""Numbers, choices and texts from bytes; when the bytes end, everything is 0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")
WORDS = ("Pump", "valve", "12", "3.50", "-", "", "Total", "a", "of the", "€ 1,200", "2024-05-01", "....", "word.", "٣")


class Reader:
    """Reads values from the beginning of the bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        """Bytes that were not read."""
        return len(self._data) - self._at

    def bytes(self, count: int) -> bytes:
        """The next bytes, fewer at the end."""
        part = self._data[self._at : self._at + count]
        self._at += len(part)
        return part

    def number(self, limit: int) -> int:
        """0 to limit - 1; two bytes if one does not suffice."""
        return int.from_bytes(self.bytes(1 if limit <= 256 else 2)) % limit

    def choice(self, items: Sequence[Item]) -> Item:
        """One of the items."""
        return items[self.number(len(items))]

    def place(self, limit: float) -> float:
        """A coordinate: mostly from 0 to `limit`, sometimes beyond."""
        return (self.number(1 << 16) / (1 << 15) - 0.5) * limit

    def word(self) -> str:
        """A word of few, or of any letters."""
        kind = self.number(20)
        return WORDS[kind] if kind < len(WORDS) else self.bytes(kind - 10).decode("utf-8", "replace").replace("\0", "?")

    def text(self) -> str:
        """Text up to the next NUL."""
        end = self._data.find(b"\0", self._at)
        part = self.bytes((len(self._data) if end < 0 else end) - self._at)
        self.bytes(1)
        return part.decode("utf-8", "replace")
