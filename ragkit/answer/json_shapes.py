"""Serializes hits and answers to JSON, with source names shortened for display."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast

from ragkit.index.sources.ids import display_name
from ragkit.records import JSON, Hit
from ragkit.retrieve.base import Explanation

if TYPE_CHECKING:  # a search needs no answers
    from ragkit.answer.base import Answer
    from ragkit.load.pages.rectangles import Rectangle


class RectangleFinder(Protocol):
    """Finds a citation on the pages of its file: `KnowledgeBase`."""

    def rectangles(self, source: str, start: int, end: int) -> list[Rectangle]:
        """The rectangles of a part of a document."""


def answer_json(answer: Answer, finder: RectangleFinder | None = None) -> dict[str, JSON]:
    """The output of `ask --json`, with source names shortened for display.

    Without a `finder`, the rectangles of all citations are null: they are read from the files.
    """
    data = answer.to_json(display_name)
    if finder is not None:
        for citation, fields in zip(answer.citations, cast("list[dict[str, JSON]]", data["citations"]), strict=True):
            found = finder.rectangles(citation.source, citation.start, citation.end)
            fields["rectangles"] = [rectangle.to_json() for rectangle in found]
    return data


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
        "also_in": [display_name(source) for source in hit.also_in],
    }


def explanation_json(explanation: Explanation, explain: bool) -> dict[str, JSON]:
    """A hit of `search --json`; with `explain`, also its ranks and what each retriever contributed to its score."""
    tree = hit_json(explanation.hit)
    if explain:
        tree["explain"] = {"ranks": dict(explanation.ranks), "shares": dict(explanation.contributions)}
    return tree
