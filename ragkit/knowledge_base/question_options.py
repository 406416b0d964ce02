"""How one question is answered: the keywords that `ask`, `aask`, `stream` and `astream` share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragkit.knowledge_base.filters import Where

if TYPE_CHECKING:  # an answer without a model loads no agent
    from ragkit.agent.providers.base import Provider


@dataclass(frozen=True, slots=True)
class QuestionOptions:
    """How a question is answered. None: the setting of the pipeline."""

    where: Where = None
    """A metadata filter that applies to every search."""
    source: str = ""
    """Search only the documents of this file, folder, URL or name."""
    top_k: int | None = None
    """Number of passages per search, >= 1."""
    model: str | Provider | None = None
    """`provider:model`, or a provider of the program."""
    max_cost_usd: float | None = None
    """Cost limit of the answer."""
