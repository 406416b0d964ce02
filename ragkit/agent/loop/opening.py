"""Tool calls that the agent makes itself before the first request of a run.

In the conversation they are calls with results like those of the model, so that events, trace, usage, policy and memory
treat them alike. How the model reads them: `merge_opening_results`.
"""

from __future__ import annotations

import secrets
from dataclasses import replace

from ragkit.agent.loop.run_state import RunState, TurnOutcome
from ragkit.agent.loop.side_effects import EffectGenerator, run_function
from ragkit.agent.loop.tool_step import run_tool_step
from ragkit.agent.messages import BY_RAGKIT, Message, Role, ToolCall
from ragkit.usage.meter import use_meter


def run_opening(run: RunState) -> EffectGenerator[TurnOutcome | None]:
    """Make the opening calls of the agent, if it has any for this input. Returns the outcome of the calls."""
    opening = run.agent.opening
    if opening is None or run.config.routing_only or run.messages[-1].role is not Role.USER:
        return None
    messages = tuple(run.messages)

    def find_calls() -> list[ToolCall]:
        with use_meter(run.meter, iteration=run.iteration):
            return [replace(call, id=f"call_{secrets.token_hex(8)}", by=BY_RAGKIT) for call in opening(messages)]

    calls = yield from run_function(find_calls, blocking=True)
    if not calls:
        return None
    message = Message(Role.ASSISTANT, "", tuple(calls), agent_name=run.agent.name)
    run.messages.append(message)
    return (yield from run_tool_step(run, message, {}))
