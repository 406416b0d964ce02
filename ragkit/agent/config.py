"""The settings of an agent. Each group of settings belongs to the part that it is about."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ragkit.agent.cache import Cache
from ragkit.agent.coherence_check import CoherenceCheck
from ragkit.agent.guardrails import Guardrails, ToolOutputScreening
from ragkit.agent.policy import Approver, ToolPolicy
from ragkit.errors import InvalidOption, ProviderError, RateLimited
from ragkit.usage.analytics import AgentAnalytics
from ragkit.usage.limits import Limits
from ragkit.usage.meter import MeteredCall
from ragkit.usage.pricing import PriceBook

if TYPE_CHECKING:
    from ragkit.agent.observers import AgentObserver
    from ragkit.agent.structured_output import ResponseFormat


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When a request that failed is sent again. The wait grows exponentially, with jitter."""

    max_attempts: int = 3
    """How often a request is sent at most; 1: never again."""
    initial_wait_s: float = 0.5
    """Upper bound of the first wait; each further one is twice as long."""
    max_wait_s: float = 30.0
    """Upper bound of every wait. A service that asks for a longer one is not asked again."""

    def __post_init__(self) -> None:
        if self.max_attempts < 1:
            raise InvalidOption("attempts of a retry", self.max_attempts, ">= 1")

    def next_wait_s(self, attempt: int, error: ProviderError) -> float | None:
        """Seconds to wait after attempt number `attempt` (from 1) failed; None: do not try again.

        A service that says how long to wait is believed. Otherwise a random part of the doubled wait is taken
        ("full jitter"), so that many clients do not come back at the same moment.

        Source: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
        """
        if not error.retryable or attempt >= self.max_attempts:
            return None
        asked = error.retry_after if isinstance(error, RateLimited) else None
        if asked is not None:
            return asked if asked <= self.max_wait_s else None
        return random.uniform(0.0, min(self.max_wait_s, self.initial_wait_s * 2 ** (attempt - 1)))


@dataclass(frozen=True)
class AgentConfig:
    """How an agent works. Every field has a default that is safe to start with."""

    model: str = ""
    """The model's name as its service knows it; empty: the provider's choice."""
    temperature: float = 0.7
    """0 to 2."""
    top_p: float = 1.0
    """0 to 1."""
    max_tokens: int = 2048
    """Tokens that one answer may have."""
    max_iterations: int = 10
    """Requests to the model in one run."""
    parallel_tool_execution: bool = True
    """Whether several tool calls of one turn run at the same time; their results keep their order."""
    request_timeout_s: float | None = 120.0
    """Seconds to wait for one answer of a model; None: as long as it takes."""
    tool_timeout_s: float | None = 60.0
    """Seconds to wait for a tool that sets no time of its own; None: as long as it takes."""
    max_tool_output_chars: int = 100_000
    """What is longer is cut off before the model sees it."""
    retry: RetryPolicy = RetryPolicy()
    limits: Limits = field(default_factory=Limits)
    """What one run may use."""
    cache: Cache | None = None
    """Answers equal requests once."""
    guardrails: Guardrails = field(default_factory=Guardrails)
    screening: ToolOutputScreening = field(default_factory=ToolOutputScreening)
    policy: ToolPolicy | None = None
    """Which tool calls are allowed; None: all."""
    approve: Approver | None = None
    """Asked about calls under review; None: the run is suspended until somebody has decided."""
    coherence: CoherenceCheck | None = None
    """Asks a model whether the calls serve the user's request; None: nobody asks."""
    response_format: ResponseFormat | None = None
    """The form of the final answer: a pydantic model or a JSON Schema."""
    routing_only: bool = False
    """Whether the run ends when the model has chosen its tools, without executing them."""
    text_tool_calls: bool = True
    """Whether TOOL_CALL in a model's text is read as a tool call."""
    hooks: Mapping[str, Callable[..., None]] = field(default_factory=dict)
    """Functions by the name of what they are called for: `{"on_tool_start": my_hook}`."""
    observers: Sequence[AgentObserver] = ()
    """Told of everything that happens."""
    analytics: AgentAnalytics | None = None
    """Counts tool calls over many runs."""
    prices: PriceBook = field(default_factory=PriceBook)
    on_call: Callable[[MeteredCall], None] | None = None
    """Told of each call that a run reports, as soon as it does: a ledger. It must not raise."""

    def __post_init__(self) -> None:
        if self.max_iterations < 1:
            raise InvalidOption("max_iterations", self.max_iterations, ">= 1")
        if not 0 <= self.temperature <= 2:
            raise InvalidOption("temperature", self.temperature, "between 0 and 2")
        if not 0 <= self.top_p <= 1:
            raise InvalidOption("top_p", self.top_p, "between 0 and 1")
