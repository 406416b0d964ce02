"""The events of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragkit.agent.messages import Message, ToolCall
from ragkit.agent.providers.base import ModelRequest
from ragkit.usage.meter import UsageStats

if TYPE_CHECKING:
    from ragkit.agent.result import AgentResult


@dataclass(frozen=True, slots=True)
class Event:
    """Base class of events."""

    run_id: str


@dataclass(frozen=True, slots=True)
class RunStarted(Event):
    """A run starts."""

    agent_name: str
    messages: tuple[Message, ...]
    """The input messages, before guardrails and memory."""


@dataclass(frozen=True, slots=True)
class IterationStarted(Event):
    """A turn of the loop starts."""

    iteration: int
    """Counted from 1."""
    agent_name: str
    messages: tuple[Message, ...] = ()
    """The conversation so far; in the first turn without what a memory holds."""


@dataclass(frozen=True, slots=True)
class ModelCallStarted(Event):
    """A request is sent to a model."""

    iteration: int
    provider: str
    model: str
    request: ModelRequest


@dataclass(frozen=True, slots=True)
class TextChunk(Event):
    """A chunk of the answer's text, in a streamed run."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningChunk(Event):
    """A chunk of the model's reasoning, in a streamed run. With output guardrails, reasoning is not streamed."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallChunk(Event):
    """A chunk of a tool call as the model writes it, in a streamed run."""

    index: int
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Retrying(Event):
    """A request failed with a retryable error; it is sent again after a delay."""

    iteration: int
    attempt: int
    """The failed attempt, counted from 1."""
    delay_s: float
    error: Exception
    discard_text: bool
    """Whether text chunks of the failed attempt must be discarded. Its reasoning chunks are void in any case."""


@dataclass(frozen=True, slots=True)
class ProviderFallback(Event):
    """A fallback chain skipped providers that failed."""

    errors: tuple[str, ...]
    provider: str
    """The provider that answered."""


@dataclass(frozen=True, slots=True)
class ModelCallEnded(Event):
    """A model answered, or the response cache."""

    iteration: int
    provider: str
    model: str
    message: Message
    usage: UsageStats
    cached: bool
    stop_reason: str
    seconds: float


@dataclass(frozen=True, slots=True)
class GuardrailTriggered(Event):
    """A guardrail blocked, rewrote or flagged a text."""

    place: str
    """`input`, `output`, `tool_arguments` or `tool_results`."""
    guardrail: str
    action: str
    reason: str


@dataclass(frozen=True, slots=True)
class PolicyDecided(Event):
    """The policy decided about a tool call."""

    call: ToolCall
    decision: str
    """`allow`, `review` or `deny`."""
    reason: str


@dataclass(frozen=True, slots=True)
class ApprovalNeeded(Event):
    """The run is suspended until the user approves or rejects this call."""

    call: ToolCall
    reason: str


@dataclass(frozen=True, slots=True)
class ToolStarted(Event):
    """A tool is about to be executed."""

    iteration: int
    call: ToolCall


@dataclass(frozen=True, slots=True)
class ToolChunk(Event):
    """A chunk of a tool's output, before the tool ends."""

    call: ToolCall
    text: str


@dataclass(frozen=True, slots=True)
class ToolEnded(Event):
    """A tool returned a result."""

    iteration: int
    call: ToolCall
    content: str
    """The text for the model."""
    data: object
    seconds: float
    attempts: int
    """How often the function was called; 0 for a kept result of an equal call."""
    chunks: int


@dataclass(frozen=True, slots=True)
class ToolFailed(Event):
    """A tool call was rejected, raised or timed out. The run continues."""

    iteration: int
    call: ToolCall
    error: Exception
    content: str
    """The text for the model."""
    seconds: float


@dataclass(frozen=True, slots=True)
class LoopDetected(Event):
    """The model repeats a tool call that had the same result before. It is not executed."""

    iteration: int
    call: ToolCall
    times: int
    """How often the call had the same result."""


@dataclass(frozen=True, slots=True)
class LastAnswerRequested(Event):
    """The model is asked once more, without tools, to answer from what it has."""

    reason: str
    """`max_iterations` or `loop`."""


@dataclass(frozen=True, slots=True)
class HandedOff(Event):
    """Another agent takes over."""

    source: str
    target: str
    reason: str


@dataclass(frozen=True, slots=True)
class MemoryTrimmed(Event):
    """Memory exceeded its limits and dropped its oldest messages."""

    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class BudgetWarning(Event):
    """A limit of the run is nearly reached, or a threshold of `Limits`. Once for each, before BudgetExceeded."""

    unit: str
    spent: float
    limit: float


@dataclass(frozen=True, slots=True)
class IterationEnded(Event):
    """A turn of the loop ended."""

    iteration: int
    outcome: str
    """`final_answer`, `run_again`, `hand_off` or `stopped`."""


@dataclass(frozen=True, slots=True)
class RunEnded(Event):
    """The run ended: the last event of a successful run."""

    result: AgentResult


@dataclass(frozen=True, slots=True)
class RunFailed(Event):
    """The run failed with an error, which is raised to the caller: the last event of a failed run."""

    error: BaseException
