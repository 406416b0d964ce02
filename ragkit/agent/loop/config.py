"""The settings of an agent."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from ragkit.agent.cache.base import Cache
from ragkit.agent.guardrails import Guardrails, ToolOutputScreening
from ragkit.agent.loop.coherence_check import CoherenceCheck
from ragkit.agent.policy import Approver, ToolPolicy
from ragkit.argument_types import check_types
from ragkit.errors import InvalidOption, InvalidType, ProviderError, RateLimited
from ragkit.usage.limits import Limits
from ragkit.usage.meter import MeteredCall
from ragkit.usage.pricing import PriceBook

if TYPE_CHECKING:
    from ragkit.agent.loop.context_window import ContextWindow
    from ragkit.agent.loop.structured_output import ResponseFormat
    from ragkit.agent.observers import AgentObserver
    from ragkit.usage.analytics import AgentAnalytics


@check_types()
@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Retries of failed requests: exponential backoff with jitter."""

    max_attempts: int = 3
    """Maximum number of attempts; 1: no retry."""
    initial_wait_s: float = 0.5
    """Upper bound of the first delay; it doubles with each attempt."""
    max_wait_s: float = 30.0
    """Upper bound of every delay. If a service asks for a longer one, the request fails."""

    def __post_init__(self) -> None:
        if self.max_attempts < 1:
            raise InvalidOption("max_attempts", self.max_attempts, ">= 1")

    def next_wait_s(self, attempt: int, error: ProviderError) -> float | None:
        """Seconds to wait after the failure of attempt number `attempt` (from 1); None: do not retry.

        The delay that the service asks for, else a random part of the doubled delay ("full jitter"), so that
        many clients do not retry at the same moment.

        Source: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
        """
        if not error.retryable or attempt >= self.max_attempts:
            return None
        retry_after_s = error.retry_after if isinstance(error, RateLimited) else None
        if retry_after_s is not None:
            return retry_after_s if retry_after_s <= self.max_wait_s else None
        return random.uniform(0.0, min(self.max_wait_s, self.initial_wait_s * 2 ** (attempt - 1)))


@check_types()
@dataclass(frozen=True)
class AgentConfig:
    """The settings of an agent. Every field has a safe default."""

    model: str = ""
    """The model name; empty: the provider's default."""
    temperature: float = 0.7
    """0 to 2."""
    top_p: float = 1.0
    """0 to 1."""
    max_tokens: int = 2048
    """Maximum tokens of one answer."""
    max_iterations: int = 10
    """Maximum number of turns in one run: requests to the model, repairs and a last answer not counted."""
    on_max_iterations: Literal["stop", "answer"] = "stop"
    """What follows the last iteration: `stop` ends the run with the text `[Max iterations reached]`; `answer` asks the
    model once more, without tools, to answer from what it has. The stop reason is `max_iterations` in both cases."""
    max_repeated_calls: int | None = 3
    """How often a tool call with the same arguments may have the same result in one run; after that it is a loop.
    None: no limit."""
    on_loop: Literal["auto", "tell", "answer", "raise"] = "auto"
    """What follows a loop. The call is not executed: `tell` tells the model so, `answer` asks it for a last answer
    without tools (stop reason `loop`), `raise` ends the run with ToolCallLoop. `auto`: `tell`; but a model that writes
    its calls into its text (`Provider.writes_calls`) is asked for a last answer as soon as it repeats a call that
    succeeded, or says nothing of use after one."""
    parallel_tool_execution: bool = True
    """Whether the tool calls of one turn run concurrently; results keep their order."""
    request_timeout_s: float | None = 120.0
    """Timeout of a request to the model, in seconds; None: no timeout."""
    tool_timeout_s: float | None = 60.0
    """Timeout of a tool without its own, in seconds; None: no timeout."""
    max_tool_output_chars: int = 100_000
    """Longer tool results are paged: the model gets the first page, and a tool `read_tool_result` for the others."""
    context_window: ContextWindow | None = None
    """Keeps prompts within the window of the model: shortens the conversation that the model sees, and sends a prompt
    that its service finds too long again. None: prompts hold every message, and such an error ends the run."""
    retry: RetryPolicy = RetryPolicy()
    limits: Limits = field(default_factory=Limits)
    """The limits of one run: cost, tokens, time."""
    cache: Cache | None = None
    """The response cache."""
    guardrails: Guardrails = field(default_factory=Guardrails)
    screening: ToolOutputScreening = field(default_factory=ToolOutputScreening)
    policy: ToolPolicy | None = None
    """Decides which tool calls are allowed; None: all."""
    approve: Approver | None = None
    """Approves or rejects calls under review; None: the run is suspended until they are decided."""
    coherence: CoherenceCheck | None = None
    """Asks a model whether the calls serve the user's request; None: no check."""
    response_format: ResponseFormat | None = None
    """The schema of the final answer: a pydantic model or a JSON Schema."""
    max_repairs: int = 1
    """How often the model may be asked in one run to correct an answer that does not match `response_format`. Repairs
    are no iterations; they cost tokens."""
    routing_only: bool = False
    """Whether the run ends after the model's tool calls, without executing them."""
    text_tool_calls: bool = True
    """Whether TOOL_CALL in the model's text is parsed as a tool call."""
    starts_with_reasoning: bool = False
    """Whether the model's chat template opens the reasoning, so that answers have only the closing `</think>`.
    Then a stream shows its text after that tag, or at the end if there is none."""
    hooks: Mapping[str, Callable[..., object]] = field(default_factory=dict)
    """Functions, also asynchronous ones, by event: `{"on_tool_start": my_hook}`."""
    observers: Sequence[AgentObserver] = ()
    """Receive every event."""
    analytics: AgentAnalytics | None = None
    """Counts tool calls over many runs."""
    prices: PriceBook = field(default_factory=PriceBook)
    on_call: Callable[[MeteredCall], None] | None = None
    """Called with each metered call at once, for a ledger. It must not raise."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "model", str(self.model))  # a ModelInfo is a text, too
        object.__setattr__(self, "hooks", dict(self.hooks))  # what the caller adds later changes no agent
        object.__setattr__(self, "observers", tuple(self.observers))
        form = self.response_format
        if form is not None and not isinstance(form, Mapping) and not hasattr(form, "model_json_schema"):
            raise InvalidType("response_format", form, "a pydantic model, a JSON Schema or None")
        if self.max_iterations < 1:
            raise InvalidOption("max_iterations", self.max_iterations, ">= 1")
        if self.max_tool_output_chars < 1:
            raise InvalidOption("max_tool_output_chars", self.max_tool_output_chars, ">= 1")
        if self.max_repeated_calls is not None and self.max_repeated_calls < 1:
            raise InvalidOption("max_repeated_calls", self.max_repeated_calls, ">= 1 or None")
        if self.max_repairs < 0:
            raise InvalidOption("max_repairs", self.max_repairs, ">= 0")
        _check_choice("on_max_iterations", self.on_max_iterations, ("stop", "answer"))
        _check_choice("on_loop", self.on_loop, ("auto", "tell", "answer", "raise"))
        if self.max_tokens < 1:
            raise InvalidOption("max_tokens", self.max_tokens, ">= 1")
        for name in ("request_timeout_s", "tool_timeout_s"):
            seconds = getattr(self, name)
            if seconds is not None and not seconds > 0:
                raise InvalidOption(name, seconds, "> 0 or None")
        if not 0 <= self.temperature <= 2:
            raise InvalidOption("temperature", self.temperature, "between 0 and 2")
        if not 0 <= self.top_p <= 1:
            raise InvalidOption("top_p", self.top_p, "between 0 and 1")


def _check_choice(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InvalidOption(name, value, f"one of {', '.join(allowed)}")
