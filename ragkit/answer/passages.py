"""The passages that a search of the tool `search_knowledge_base` retrieved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ragkit.records import Hit

TOOL_NAME = "search_knowledge_base"
SHOWN_PASSAGES_KEY = "ragkit.shown"
"""Key of the run's state with the ids of the passages shown to the model; the n-th one is cited as [n]."""


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
