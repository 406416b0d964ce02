"""Detects that a run repeats a tool call without a new result."""

from __future__ import annotations

from collections.abc import Sequence

from ragkit.agent.loop.tool_execution import RepeatedCall
from ragkit.agent.messages import ToolCall
from ragkit.agent.result import ToolOutcome
from ragkit.errors import InvalidToolArguments


def count_repeats(outcomes: Sequence[ToolOutcome], call: ToolCall) -> int:
    """How often in a row, up to the last time, the same call (name and arguments) had the same result."""
    name, arguments, malformed = call.name, call.arguments, call.malformed
    times, last = 0, ""
    for outcome in reversed(outcomes):
        earlier = outcome.call
        if earlier.name != name or earlier.arguments != arguments or earlier.malformed != malformed:
            continue
        if isinstance(outcome.error, RepeatedCall):
            continue  # it was not executed
        if times and outcome.content != last:
            break
        times, last = times + 1, outcome.content
    return times


def without_repeats(calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
    """The calls without those that an earlier one of the same message repeats.

    Models of .5 billion parameters write one call up to nine times, and its tool may do something.
    """
    kept: list[ToolCall] = []
    for call in calls:
        same = (call.name, call.arguments, call.malformed)
        if all((other.name, other.arguments, other.malformed) != same for other in kept):
            kept.append(call)
    return tuple(kept)


def adds_nothing(outcomes: Sequence[ToolOutcome], call: ToolCall) -> bool:
    """Whether the same call (name and arguments) was made, and its last result has not to be asked for again.

    A result without an error, or the refusal of its arguments; after another error it may succeed.
    """
    same = (one for one in reversed(outcomes) if one.call.name == call.name and one.call.arguments == call.arguments)
    last = next(same, None)
    if last is None:
        return False
    return isinstance(last.error, InvalidToolArguments) or (last.error is None and not call.malformed)
