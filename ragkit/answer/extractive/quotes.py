"""The quotes that an answer without a model consists of."""

from __future__ import annotations

from dataclasses import dataclass

from ragkit.answer.extractive.composition import AnswerPassage
from ragkit.records import Hit


@dataclass(frozen=True)
class Quote:
    """A passage of an answer and its citation number."""

    n: int
    hit: Hit
    passage: AnswerPassage


@dataclass(frozen=True)
class ExtractiveAnswer:
    """The quotes that an answer consists of."""

    quotes: tuple[Quote, ...]
    abstained: bool
    query: str = ""
    """The question as searched: completed by the previous one, its spelling corrected; '' if nothing was searched."""
    evidence: float = 0.0
    """Estimated probability that the quotes answer the question, or its best answered part, in [0, 1]."""
