"""Kept results of tools that declare a ToolCache."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeAlias

from ragkit.agent.messages import ToolCall, canonical_json
from ragkit.agent.result import ToolOutcome
from ragkit.agent.tools.base import KeptResults, Tool

if TYPE_CHECKING:
    from ragkit.agent.loop.run_state import RunState

Kept: TypeAlias = "tuple[KeptResults, str]"


def find_kept_result(run: RunState, tool: Tool, call: ToolCall) -> ToolOutcome | None:
    """The kept result of an equal call; None if there is none."""
    place = _find_place(run, tool, call)
    entry = place[0].get(place[1]) if place is not None else None
    if entry is None or entry.until <= time.monotonic():
        return None
    return ToolOutcome(call, entry.content, entry.data, cached=True)


def keep_result(run: RunState, tool: Tool, outcome: ToolOutcome) -> None:
    """Keep the result of a call that succeeded by itself, without a fallback."""
    place = _find_place(run, tool, outcome.call) if outcome.error is None and not outcome.fallback else None
    if place is not None:
        place[0].add(place[1], outcome.content, outcome.data)


def _find_place(run: RunState, tool: Tool, call: ToolCall) -> Kept | None:
    """Where the result of a call is kept, and its key."""
    if tool.cache is None or tool.kept_results is None:
        return None
    key = dict(call.arguments)
    try:
        text = canonical_json([key, run.context, run.state] if tool.takes_context else [key])
    except (TypeError, ValueError):  # the caller's data is not JSON
        return None
    if not tool.cache.per_run:
        return tool.kept_results, text
    return run.kept_results.setdefault(id(tool), KeptResults(tool.cache)), text
