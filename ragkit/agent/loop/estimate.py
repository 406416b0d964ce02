"""Estimate what a run may use before it starts. Nothing is sent."""

from __future__ import annotations

from dataclasses import dataclass

from ragkit.agent.loop.config import AgentConfig
from ragkit.agent.loop.request_tokens import count_request_tokens
from ragkit.agent.providers.base import ModelRequest, Provider
from ragkit.agent.providers.fallback import FallbackProvider
from ragkit.usage.summary import format_usd
from ragkit.usage.tokens import Tokens


@dataclass(frozen=True, slots=True)
class RunEstimate:
    """What a run may use. Tool results, images and retries are not counted: they are not known beforehand."""

    prompt_tokens: int
    """Of the first request: system prompt, tools, earlier messages and the input; estimated without a tokenizer."""
    completion_tokens: int
    """Of one answer at most: `max_tokens`."""
    max_iterations: int
    cost_usd: float | None
    """Of one request with the longest answer, in US dollars; None: the price is unknown."""
    max_cost_usd: float | None
    """Of `max_iterations` requests with the longest answers, each of which is part of the next prompt."""

    @property
    def tokens(self) -> int:
        """Of one request with the longest answer."""
        return self.prompt_tokens + self.completion_tokens

    @property
    def max_tokens(self) -> int:
        """Of `max_iterations` requests with the longest answers."""
        count = self.max_iterations
        return count * self.tokens + self.completion_tokens * (count * (count - 1) // 2)

    def __str__(self) -> str:
        return (
            f"one request: up to {self.tokens:,} tokens ({self.prompt_tokens:,} in), {format_usd(self.cost_usd)}; "
            f"{self.max_iterations}: up to {self.max_tokens:,} tokens, {format_usd(self.max_cost_usd)}"
        )


def estimate_run(provider: Provider, config: AgentConfig, request: ModelRequest) -> RunEstimate:
    """The estimate for a first request. The price is that of the first provider of a fallback chain."""
    while isinstance(provider, FallbackProvider):
        provider = provider.providers[0]
    prompt, answer = count_request_tokens(request, native_tools=provider.native_tools), config.max_tokens
    costs = [
        config.prices.chat_cost(provider.name, request.model, Tokens(prompt + turn * answer, answer))
        for turn in range(config.max_iterations)
    ]
    known = [cost for cost in costs if cost is not None]
    total = sum(known) if len(known) == len(costs) else None
    return RunEstimate(prompt, answer, config.max_iterations, costs[0], total)
