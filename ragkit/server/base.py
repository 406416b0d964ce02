"""What several parts of the server need of a knowledge base."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.records import JSON, Chunk


class SupportsToJson(Protocol):
    """A report that serializes to JSON."""

    def to_json(self) -> dict[str, JSON]:
        """The report as JSON."""


def read_chunks(kb: KnowledgeBase, ids: Sequence[str]) -> list[Chunk | None]:
    """The chunks with these ids, None for those that the current principal cannot read; without ids nothing is read."""
    if not ids:
        return []
    with kb.session() as session:
        return [session.chunk(chunk_id) for chunk_id in ids]
