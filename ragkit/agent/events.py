"""What happens during a run, one event each, in the order in which it happens."""

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
    """Something that happened in a run."""

    run_id: str


@dataclass(frozen=True, slots=True)
class RunStarted(Event):
    """A run begins."""

    agent_name: str
    messages: tuple[Message, ...]
    """What was handed to the run, before guardrails and memory."""


@dataclass(frozen=True, slots=True)
class IterationStarted(Event):
    """A turn of the loop begins."""

    iteration: int
    """Counted from 1."""
    agent_name: str


@dataclass(frozen=True, slots=True)
class ModelCallStarted(Event):
    """A request goes to a model."""

    iteration: int
    provider: str
    model: str
    request: ModelRequest


@dataclass(frozen=True, slots=True)
class TextChunk(Event):
    """A piece of the answer's text, in a streamed run."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallChunk(Event):
    """A piece of a tool call as the model writes it, in a streamed run."""

    index: int
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Retrying(Event):
    """A request failed in a way that may pass; it is sent again after a wait."""

    iteration: int
    attempt: int
    """Which attempt failed, counted from 1."""
    delay_s: float
    error: Exception
    discard_text: bool
    """Pieces of text were already sent on: whoever shows them starts over."""


@dataclass(frozen=True, slots=True)
class ProviderFallback(Event):
    """A fallback chain passed over providers that failed."""

    errors: tuple[str, ...]
    provider: str
    """Who answered."""


@dataclass(frozen=True, slots=True)
class ModelCallEnded(Event):
    """A model has answered, or the response cache in its place."""

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
    """A guardrail blocked, rewrote or warned."""

    place: str
    """`input`, `output`, `tool_arguments` or `tool_results`."""
    guardrail: str
    action: str
    reason: str


@dataclass(frozen=True, slots=True)
class PolicyDecided(Event):
    """The policy has judged a tool call."""

    call: ToolCall
    decision: str
    """`allow`, `review` or `deny`."""
    reason: str


@dataclass(frozen=True, slots=True)
class ApprovalNeeded(Event):
    """The run stops here until a person has decided about this call."""

    call: ToolCall
    reason: str


@dataclass(frozen=True, slots=True)
class ToolStarted(Event):
    """A tool is about to be executed."""

    iteration: int
    call: ToolCall


@dataclass(frozen=True, slots=True)
class ToolChunk(Event):
    """A piece of a tool's output, before the tool is done."""

    call: ToolCall
    text: str


@dataclass(frozen=True, slots=True)
class ToolEnded(Event):
    """A tool has given its result."""

    iteration: int
    call: ToolCall
    content: str
    """What the model will see."""
    data: object
    seconds: float
    attempts: int
    chunks: int


@dataclass(frozen=True, slots=True)
class ToolFailed(Event):
    """A tool was not executed, raised, or did not answer in time. The run goes on."""

    iteration: int
    call: ToolCall
    error: Exception
    content: str
    """What the model will see."""
    seconds: float


@dataclass(frozen=True, slots=True)
class HandedOff(Event):
    """Another agent takes over."""

    source: str
    target: str
    reason: str


@dataclass(frozen=True, slots=True)
class MemoryTrimmed(Event):
    """Memory was over its limits and dropped its oldest messages."""

    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class BudgetWarning(Event):
    """A limit of the run is nearly reached. Said once for each limit."""

    unit: str
    spent: float
    limit: float


@dataclass(frozen=True, slots=True)
class IterationEnded(Event):
    """A turn of the loop is over."""

    iteration: int
    outcome: str
    """`final_answer`, `run_again`, `hand_off` or `stopped`."""


@dataclass(frozen=True, slots=True)
class RunEnded(Event):
    """The run is over. The last event of a run that did not fail."""

    result: AgentResult


@dataclass(frozen=True, slots=True)
class RunFailed(Event):
    """The run ends with an error, which the caller gets. The last event of a run that failed."""

    error: BaseException
