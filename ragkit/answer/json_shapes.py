"""Serializes hits and answers to JSON, with source names shortened for display."""

from __future__ import annotations

from ragkit.answer.base import Answer
from ragkit.index.source_ids import display_name
from ragkit.records import JSON, Hit
from ragkit.retrieve.base import Explanation


def answer_json(answer: Answer) -> dict[str, JSON]:
    """The output of `ask --json`, with source names shortened for display."""
    return answer.to_json(display_name)


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
            name: round(hit.scores[name], 6) if name in hit.scores else None for name in ("dense", "lexical", "rerank")
        },
        "start": chunk.start,
        "end": chunk.end,
        "place": chunk.place,
        "start_line": chunk.start_line,
        "end_line": chunk.end_line,
        "page": chunk.page,
        "heading": list(chunk.heading),
        "metadata": dict(chunk.metadata),
        "context": chunk.context,
    }


def explanation_json(explanation: Explanation, explain: bool) -> dict[str, JSON]:
    """A hit of `search --json`; with `explain`, also its ranks and what each retriever contributed to its score."""
    tree = hit_json(explanation.hit)
    if explain:
        tree["explain"] = {"ranks": dict(explanation.ranks), "shares": dict(explanation.contributions)}
    return tree
