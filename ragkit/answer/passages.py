"""The passages that a search of the tool `search_knowledge_base` retrieved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ragkit.records import Hit
from ragkit.usage.tokens import estimate_tokens

TOOL_NAME = "search_knowledge_base"
SHOWN_PASSAGES_KEY = "ragkit.shown"
"""Key of the run's state with the ids of the passages shown to the model; the n-th one is cited as [n]."""

_PLACE_TOKENS = 40
"""Tokens of the number and the place of a passage."""


@dataclass(frozen=True)
class RetrievedPassages:
    """The result of one search: the data of the tool's result."""

    query: str
    hits: tuple[Hit, ...]
    numbers: tuple[int, ...]
    """The citation number of each hit."""
    evidence: float | None
    """Estimated probability that the hits answer the query, in [0, 1]; None if it was not estimated."""
    numbers_before: int = 0
    """The last citation number of the conversation before the search."""
    blocks: Mapping[int, str] = field(default_factory=dict)
    """The text of each hit as the model sees it, by citation number, in the order of the result."""
    over_all: bool = False
    """Whether the result also counts or names documents of which no hit is."""
    are_extracts: bool = False
    """Whether the texts are what is closest to the query: other queries show other texts of the same hit."""


def within_budget(hits: list[Hit], budget: int) -> list[Hit]:
    """The best hits whose texts have at most `budget` tokens; at least one, if there is any."""
    size = 0
    for index, hit in enumerate(hits):
        size += estimate_tokens(hit.chunk.text) + _PLACE_TOKENS
        if size > budget and index:
            return hits[:index]
    return hits
