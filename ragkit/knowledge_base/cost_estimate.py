"""Cost estimates before a run, and a budget while it embeds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragkit.embed.base import EmbeddingProvider, PricedEmbedder, TokenizingEmbedder
from ragkit.errors import BudgetExceeded, BudgetTooSmall, PriceUnknown
from ragkit.usage.meter import Meter, current_meter
from ragkit.usage.pricing import PriceBook
from ragkit.usage.tokens import Tokens, estimate_tokens

if TYPE_CHECKING:
    from ragkit.agent.agent import Agent
    from ragkit.agent.memory.memory import ConversationMemory
    from ragkit.index.report import EmbeddingEstimate

PASSAGE_TOKENS = 250
"""Tokens of one passage in the prompt: a default chunk of 200 tokens, its number and source."""
TOOL_CALL_TOKENS = 60
"""Tokens of a tool call."""
ANSWER_TOKENS = 300
"""Tokens of a cited answer."""
CALIBRATION_TOKENS = 250
"""Tokens of the sentences that calibrate the cosines of an embedder: embedded once by the first index run."""
INITIAL_TEXTS = 8
"""Texts in the first batch of a run with a budget: their cost corrects the estimate of the rest."""


def embedder_name(embedder: EmbeddingProvider) -> str:
    """`provider:model` of a priced embedder, otherwise its fingerprint."""
    return f"{embedder.provider}:{embedder.model}" if isinstance(embedder, PricedEmbedder) else embedder.fingerprint


def embedding_cost(embedder: EmbeddingProvider, tokens: int, prices: PriceBook | None = None) -> float | None:
    """Cost in USD of embedding `tokens` tokens; 0.0 for a local model, None if the price is unknown."""
    if not isinstance(embedder, PricedEmbedder):
        return None
    return (prices or PriceBook()).embedding_cost(embedder.provider, embedder.model, tokens)


def estimate_embedding_cost(embedder: EmbeddingProvider, tokens: int) -> EmbeddingEstimate:
    """The estimated cost of embedding `tokens` tokens."""
    from ragkit.index.report import EmbeddingEstimate

    cost = embedding_cost(embedder, tokens)
    return EmbeddingEstimate(embedder_name(embedder), tokens, cost, exact=isinstance(embedder, TokenizingEmbedder))


def estimate_answer_cost(
    agent: Agent, question: str, top_k: int, memory: ConversationMemory | None = None
) -> float | None:
    """Estimated cost in USD of the chat model for one answer; None if a price is unknown.

    Counts the request that answers from `top_k` passages, and one before it if the model is to call the search tool.
    """
    if not agent.provider.remote:
        return 0.0
    earlier = memory.get_history() if memory is not None else ()
    schemas = (
        json.dumps([tool.to_schema() for tool in agent.available_tools], default=dict)
        if agent.provider.native_tools
        else ""
    )
    texts = [agent.system_prompt, schemas, question, *(message.content for message in earlier)]
    prompt_tokens = sum(map(estimate_tokens, texts))
    model = agent.config.model or agent.provider.default_model
    answer_tokens = min(ANSWER_TOKENS, agent.config.max_tokens)
    requests = [Tokens(prompt_tokens + top_k * PASSAGE_TOKENS, answer_tokens)]
    if agent.opening is None:
        requests = [
            Tokens(prompt_tokens, TOOL_CALL_TOKENS),
            Tokens(prompt_tokens + TOOL_CALL_TOKENS + top_k * PASSAGE_TOKENS, answer_tokens),
        ]
    costs = [agent.config.prices.chat_cost(agent.provider.name, model, tokens) for tokens in requests]
    return None if None in costs else sum(cost or 0.0 for cost in costs)


def check_estimate(what: str, estimate: float | None, budget: float | None, *, known: bool = True) -> None:
    """Check that the budget covers the estimate.

    Args:
        what: `provider:model`, for messages.
        estimate: USD; None: the price is unknown.
        budget: remaining USD; None: no limit.
        known: refuse an unknown price.

    Raises:
        BudgetTooSmall: the estimate exceeds the budget.
        PriceUnknown: the price is unknown, and `known` is set.
    """
    if budget is None:
        return
    if estimate is None:
        if known:
            raise PriceUnknown(what, budget)
    elif estimate > budget:
        raise BudgetTooSmall(estimate, budget)


def lowest_limit(limit_usd: float | None) -> float | None:
    """The limit of an answer and of the enclosing meters; None: none."""
    meter = current_meter()
    limits = (limit_usd, meter.remaining_usd if meter is not None else None)
    return min((limit for limit in limits if limit is not None), default=None)


@dataclass(slots=True)
class Budget:
    """Admits as many texts as the remaining budget pays for."""

    meter: Meter
    """The meter of the run; its budget and those of enclosing meters apply."""
    embedder: EmbeddingProvider
    _expected_usd: float = 0.0
    _spent_before_usd: float | None = None

    def count_affordable(self, tokens: Sequence[int]) -> int:
        """How many of the next texts, with these token counts, may be embedded now: >= 1.

        The spending so far corrects the estimate if the service counted more tokens than expected.

        Raises:
            BudgetExceeded: the budget does not pay for the first text.
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
        for size in tokens:
            if cost + size * price > left:
                break
            count, cost = count + 1, cost + size * price
        if not count and tokens:
            raise BudgetExceeded("USD", self.meter.known_cost_usd, self.meter.known_cost_usd + left)
        self._expected_usd += cost / factor
        return count


def agent_model_name(agent: Agent) -> str:
    """`provider:model` of the chat model of an agent."""
    return f"{agent.provider.name}:{agent.config.model or agent.provider.default_model}"
