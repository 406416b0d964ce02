"""Hits and answers as JSON, with the contract's keys and with names of sources as a person reads them."""

from __future__ import annotations

from ragkit.answer.base import Answer
from ragkit.index.source_ids import display_name
from ragkit.records import JSON, Hit
from ragkit.retrieve.base import Explanation


def answer_json(answer: Answer) -> dict[str, JSON]:
    """The contract's `ask --json`, with names of sources as a person reads them."""
    found = answer.to_json()
    citations = found["citations"]
    assert isinstance(citations, list)  # noqa: S101 - `to_json` made it
    return {**found, "citations": [{**one, "source": display_name(str(one["source"]))} for one in citations]}


def hit_json(hit: Hit) -> dict[str, JSON]:
    """A hit of `search --json`."""
    chunk = hit.chunk
    return {
        "rank": hit.rank,
        "chunk_id": chunk.id,
        "source": display_name(chunk.source),
        "text": chunk.text,
        "score": round(hit.score, 6),
        "scores": {
            "dense": _rounded_score(hit, "dense"),
            "lexical": _rounded_score(hit, "lexical"),
            "rerank": _rounded_score(hit, "rerank"),
        },
        "start": chunk.start,
        "end": chunk.end,
        "start_line": chunk.start_line,
        "end_line": chunk.end_line,
        "page": chunk.page,
        "heading": list(chunk.heading),
        "metadata": dict(chunk.metadata),
    }


def explanation_json(one: Explanation, explain: bool) -> dict[str, JSON]:
    """A hit of `search --json`; with `explain` also why it stands where it stands."""
    found = hit_json(one.hit)
    return {**found, "explain": {"ranks": dict(one.ranks), "shares": dict(one.contributions)}} if explain else found


def _rounded_score(hit: Hit, name: str) -> float | None:
    return round(hit.scores[name], 6) if name in hit.scores else None
