"""Detects that a run repeats a tool call without a new result."""

from __future__ import annotations

from ragkit.agent.messages import ToolCall, canonical_json
from ragkit.agent.result import ToolOutcome


class CallRepeats:
    """Counts how often the calls of a run, by name and arguments, had the same result in a row."""

    def __init__(self) -> None:
        self._results: dict[tuple[str, str], tuple[str, int]] = {}

    def count(self, call: ToolCall) -> int:
        """How often the call has had its last result."""
        return self._results.get(_key(call), ("", 0))[1]

    def record(self, outcome: ToolOutcome) -> None:
        """Count the result of a call. A result that differs from the last one starts a new count."""
        key = _key(outcome.call)
        text, times = self._results.get(key, ("", 0))
        self._results[key] = (outcome.content, times + 1 if text == outcome.content else 1)


def _key(call: ToolCall) -> tuple[str, str]:
    return call.name, call.malformed or canonical_json(call.arguments)
