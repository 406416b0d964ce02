"""What every retriever keeps: a question in, ranked hits out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ragkit.records import JSON, Hit


class Retriever(Protocol):
    """Finds the chunks that speak of a question."""

    def retrieve(self, question: str, top_k: int, where: Mapping[str, JSON] | None = None) -> list[Hit]:
        """The best `top_k` hits among the chunks that `where` lets through, best first, ranks from 1."""
