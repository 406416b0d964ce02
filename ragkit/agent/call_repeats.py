"""Detects that a run repeats a tool call without a new result."""

from __future__ import annotations

from ragkit.agent.messages import ToolCall, canonical_json
from ragkit.agent.result import ToolOutcome
from ragkit.agent.tool_execution import ToolRefused


class RepeatedCall(ToolRefused):
    """A call was not executed, because the same call had the same result before. Part of a tool's result."""


class CallRepeats:
    """Counts how often the calls of a run, by name and arguments, had the same result in a row."""

    def __init__(self) -> None:
        self._results: dict[tuple[str, str], tuple[str, int]] = {}

    def count(self, call: ToolCall) -> int:
        """How often the call has had its last result."""
        return self._results[key][1] if (key := _key(call)) in self._results else 0

    def record(self, outcome: ToolOutcome) -> None:
        """Count the result of a call. A result that differs from the last one starts a new count."""
        if not isinstance(outcome.error, RepeatedCall):
            text, times = self._results.get(_key(outcome.call), ("", 0))
            self._results[_key(outcome.call)] = (outcome.content, times + 1 if text == outcome.content else 1)


def _key(call: ToolCall) -> tuple[str, str]:
    return call.name, call.malformed or canonical_json(call.arguments)
