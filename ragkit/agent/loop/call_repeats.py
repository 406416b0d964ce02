"""Detects that a run repeats a tool call without a new result."""

from __future__ import annotations

from collections.abc import Sequence

from ragkit.agent.loop.tool_execution import RepeatedCall
from ragkit.agent.messages import ToolCall
from ragkit.agent.result import ToolOutcome


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


def has_succeeded(outcomes: Sequence[ToolOutcome], call: ToolCall) -> bool:
    """Whether the same call (name and arguments) was executed, the last time without an error."""
    same = (one for one in reversed(outcomes) if one.call.name == call.name and one.call.arguments == call.arguments)
    last = next(same, None)
    return last is not None and last.error is None and not call.malformed
