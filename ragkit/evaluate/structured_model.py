"""Requests JSON objects from a model and tracks their cost, for the judge and the question writer.

With a cache, repeated requests cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ragkit.agent.agent import Agent
from ragkit.agent.cache.base import Cache
from ragkit.agent.loop.config import AgentConfig
from ragkit.agent.providers.base import Provider
from ragkit.agent.result import AgentResult, partial_result
from ragkit.agent.tracing.trace import StepType
from ragkit.errors import RagkitError
from ragkit.records import JSON
from ragkit.usage.meter import MeteredCall, UsageStats

MAX_TOKENS = 2048
"""Per response: enough for about thirty statements."""


@dataclass
class StructuredModel:
    """A model with its usage so far."""

    provider: Provider
    name: str = ""
    """The model's name; empty: the provider's default."""
    cache: Cache | None = None
    on_call: Callable[[MeteredCall], None] | None = None
    """Called for each model call, to record it in a ledger."""
    usage: UsageStats = field(default_factory=UsageStats)
    """Tokens and cost so far, with the cost saved by the cache."""
    requests: int = 0
    """Requests to the service."""
    cache_hits: int = 0

    @property
    def label(self) -> str:
        """`provider:model`."""
        return f"{self.provider.name}:{self.name or self.provider.default_model}"

    def complete_json(self, instructions: str, message: str, schema: Mapping[str, JSON]) -> Mapping[str, JSON]:
        """Request one JSON object.

        Args:
            instructions: the system prompt; it is part of the cache key.
            message: the user message.
            schema: the JSON Schema of the response, an object.

        Raises:
            ProviderError, BudgetExceeded, RunError: the usage up to the error is recorded.
        """
        config = AgentConfig(
            model=self.name,
            temperature=0.0,
            max_tokens=MAX_TOKENS,
            cache=self.cache,
            response_format=schema,
            on_call=self.on_call,
            text_tool_calls=False,
        )
        agent = Agent(self.provider, config=config, instructions=instructions, name="evaluation")
        try:
            result = agent.run(message)
        except RagkitError as error:
            partial = partial_result(error)
            if partial is not None:
                self._add_usage(partial)
            raise
        self._add_usage(result)
        parsed = result.parsed
        assert isinstance(parsed, Mapping)  # noqa: S101 - the schema is an object
        return parsed

    def to_dict(self) -> dict[str, JSON]:
        """The model, the number of requests and their usage."""
        return {"model": self.label, "requests": self.requests, "known": self.cache_hits, "usage": self.usage.to_dict()}

    def _add_usage(self, result: AgentResult) -> None:
        usage = result.usage
        self.usage = self.usage + usage
        from_service = bool(usage.prompt_tokens or usage.completion_tokens or not usage.cached_tokens)
        self.requests += len(result.trace.find_spans(StepType.LLM_CALL)) if from_service else 0
        self.cache_hits += 0 if from_service else 1
