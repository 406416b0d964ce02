"""A model that is asked for one JSON object at a time, with what it costs counted apart.

Judging and writing questions go through here. Where there is a cache, nothing is asked twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ragkit.agent.agent import Agent
from ragkit.agent.cache import Cache
from ragkit.agent.config import AgentConfig
from ragkit.agent.providers.base import Provider
from ragkit.agent.result import partial_result
from ragkit.errors import RagkitError
from ragkit.records import JSON
from ragkit.usage.meter import MeteredCall, UsageStats

MAX_TOKENS = 2048
"""Of one answer: a long answer has some thirty statements."""


@dataclass
class StructuredModel:
    """Who is asked, and what was spent so far."""

    provider: Provider
    name: str = ""
    """The model's name as its service knows it; empty: the provider's choice."""
    cache: Cache | None = None
    on_call: Callable[[MeteredCall], None] | None = None
    """Told of each call: a ledger."""
    usage: UsageStats = field(default_factory=UsageStats)
    """What was spent, and what the cache saved."""
    requests: int = 0
    """Requests that went to the service."""
    cache_hits: int = 0
    """Questions that the cache answered."""

    @property
    def label(self) -> str:
        """`provider:model`."""
        return f"{self.provider.name}:{self.name or self.provider.default_model}"

    def complete_json(self, instructions: str, message: str, form: Mapping[str, JSON]) -> Mapping[str, JSON]:
        """One answer of the given form.

        Args:
            instructions: the system prompt, its version included: another one is another question to the cache.
            message: what is asked.
            form: the JSON Schema of the answer, an object.

        Raises:
            ProviderError, BudgetExceeded, RunError: what was spent until then is counted.
        """
        config = AgentConfig(
            model=self.name,
            temperature=0.0,
            max_tokens=MAX_TOKENS,
            max_iterations=2,
            cache=self.cache,
            response_format=form,
            on_call=self.on_call,
            text_tool_calls=False,
        )
        agent = Agent(self.provider, config=config, instructions=instructions, name="evaluation")
        try:
            result = agent.run(message)
        except RagkitError as error:
            partial = partial_result(error)
            if partial is not None:
                self._add_usage(partial.usage, partial.iterations)
            raise
        self._add_usage(result.usage, result.iterations)
        parsed = result.parsed
        assert isinstance(parsed, Mapping)  # noqa: S101 - the form is an object's
        return parsed

    def to_dict(self) -> dict[str, JSON]:
        """Who was asked, how often, and what it cost."""
        return {"model": self.label, "requests": self.requests, "known": self.cache_hits, "usage": self.usage.to_dict()}

    def _add_usage(self, usage: UsageStats, iterations: int) -> None:
        before = self.usage
        self.usage = before + usage
        from_service = bool(usage.prompt_tokens or usage.completion_tokens or not usage.cached_tokens)
        self.requests += iterations if from_service else 0
        self.cache_hits += 0 if from_service else 1
