"""Hand-written hits, answers and systems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ragkit.evaluate.run import EvaluatedSystem
from ragkit.records import Chunk, Citation, Hit
from ragkit.usage.meter import AgentUsage


def hit(source: str, score: float = 1.0, text: str = "text") -> Hit:
    """A hit in a file."""
    return Hit(Chunk(f"{source}-{score}", source, source, text, 0, len(text), 3, 4), score)


def citation(source: str, *, verified: bool = True, stale: bool = False) -> Citation:
    """A citation of a file."""
    return Citation(1, source, "quote", 0, 5, 3, 3, None, (), "c", 0.5, verified, stale)


@dataclass(frozen=True)
class FakeAnswer:
    """An answer."""

    text: str
    citations: Sequence[Citation] = ()
    abstained: bool = False
    evidence: float = 0.5
    usage: AgentUsage = field(default_factory=AgentUsage)


def system(hits: Mapping[str, Sequence[str]], answers: Mapping[str, FakeAnswer] | None = None) -> EvaluatedSystem:
    """A system that returns fixed hits and answers for each question."""

    def search(question: str, top_k: int) -> list[Hit]:
        return [hit(source, 1 / place) for place, source in enumerate(hits[question][:top_k], start=1)]

    return EvaluatedSystem(search, None if answers is None else answers.__getitem__)
