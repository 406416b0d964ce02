"""What a run is likely to cost, and whether it may go on: estimates before it, a purse while it embeds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragkit.embed.base import EmbeddingProvider, PricedEmbedder, TokenizingEmbedder
from ragkit.errors import BudgetExceeded, BudgetTooSmall, PriceUnknown
from ragkit.index.report import EmbeddingEstimate
from ragkit.usage.meter import Meter
from ragkit.usage.pricing import PriceBook
from ragkit.usage.tokens import Tokens, estimate_tokens

if TYPE_CHECKING:
    from ragkit.agent.agent import Agent
    from ragkit.agent.memory import ConversationMemory

PASSAGE_TOKENS = 250
"""Tokens of one passage as a model reads it, with its number and place: the default chunk of 200 tokens and a rest."""
TOOL_CALL_TOKENS = 60
"""Tokens of a model's call of a tool."""
ANSWER_TOKENS = 300
"""Tokens of a cited answer."""
CALIBRATION_TOKENS = 250
"""Tokens of the sentences that tell what an embedder's cosines mean: embedded once by each process that answers."""
INITIAL_TEXTS = 8
"""Texts that a run with a budget embeds first: what they cost tells how good the estimate of the others is."""


def embedder_name(embedder: EmbeddingProvider) -> str:
    """`provider:model` of an embedder, or its fingerprint when it does not say who charges for it."""
    return f"{embedder.provider}:{embedder.model}" if isinstance(embedder, PricedEmbedder) else embedder.fingerprint


def embedding_cost(embedder: EmbeddingProvider, tokens: int, prices: PriceBook | None = None) -> float | None:
    """US dollars for embedding so many tokens; 0.0 for a local model, None when the price is unknown."""
    if not isinstance(embedder, PricedEmbedder):
        return None
    return (prices or PriceBook()).embedding_cost(embedder.provider, embedder.model, tokens)


def estimate_embedding_cost(embedder: EmbeddingProvider, tokens: int) -> EmbeddingEstimate:
    """What embedding so many tokens is likely to cost."""
    cost = embedding_cost(embedder, tokens)
    return EmbeddingEstimate(embedder_name(embedder), tokens, cost, exact=isinstance(embedder, TokenizingEmbedder))


def estimate_answer_cost(
    agent: Agent, question: str, top_k: int, memory: ConversationMemory | None = None
) -> float | None:
    """US dollars that the model is likely to cost for one answer; None: a price is unknown.

    Counted are two requests: one that searches once, one that answers from `top_k` passages.
    """
    if not agent.provider.remote:
        return 0.0
    earlier = memory.get_history() if memory is not None else ()
    schemas = (
        json.dumps([tool.to_schema() for tool in agent.available_tools], default=dict)
        if agent.provider.native_tools
        else ""
    )
    said = [agent.system_prompt, schemas, question, *(message.content for message in earlier)]
    sent = sum(map(estimate_tokens, said))
    model = agent.config.model or agent.provider.default_model
    requests = (
        Tokens(sent, TOOL_CALL_TOKENS),
        Tokens(sent + TOOL_CALL_TOKENS + top_k * PASSAGE_TOKENS, min(ANSWER_TOKENS, agent.config.max_tokens)),
    )
    costs = [agent.config.prices.chat_cost(agent.provider.name, model, tokens) for tokens in requests]
    return None if None in costs else sum(cost or 0.0 for cost in costs)


def check_estimate(what: str, estimate: float | None, budget: float | None, *, known: bool = True) -> None:
    """Does the budget cover the estimate?

    Args:
        what: who charges: `provider:model`.
        estimate: US dollars; None: the price is unknown.
        budget: US dollars that are left; None: no limit.
        known: whether an unknown price is refused: where somebody asked for this very budget.

    Raises:
        BudgetTooSmall: it does not.
        PriceUnknown: nobody can say.
    """
    if budget is None:
        return
    if estimate is None:
        if known:
            raise PriceUnknown(what, budget)
    elif estimate > budget:
        raise BudgetTooSmall(estimate, budget)


@dataclass(slots=True)
class Budget:
    """Lets through as many texts as what is left of a budget pays for."""

    meter: Meter
    """The meter of the run; its budget, and those around it, hold."""
    embedder: EmbeddingProvider
    _expected_usd: float = 0.0
    _spent_before_usd: float | None = None

    def count_affordable(self, tokens: Sequence[int]) -> int:
        """How many of the next texts, of so many tokens each, may be embedded now: at least one.

        What was spent so far corrects the estimate, when the service counted more tokens than were expected.

        Raises:
            BudgetExceeded: not even the first one.
        """
        self.meter.check_budget()
        left = self.meter.remaining_usd
        if left is None:
            return len(tokens)
        price = (embedding_cost(self.embedder, 1_000_000) or 0.0) / 1e6
        if self._spent_before_usd is None:
            self._spent_before_usd = self.meter.known_cost_usd
            tokens = tokens[:INITIAL_TEXTS] if price else tokens
        spent = self.meter.known_cost_usd - self._spent_before_usd
        factor = max(1.0, spent / self._expected_usd) if self._expected_usd else 1.0
        price *= factor
        count, cost = 0, 0.0
        for one in tokens:
            if cost + one * price > left:
                break
            count, cost = count + 1, cost + one * price
        if not count and tokens:
            raise BudgetExceeded("USD", self.meter.known_cost_usd, self.meter.known_cost_usd + left)
        self._expected_usd += cost / factor
        return count


def agent_model_name(agent: Agent) -> str:
    """`provider:model` of who answers."""
    return f"{agent.provider.name}:{agent.config.model or agent.provider.default_model}"
