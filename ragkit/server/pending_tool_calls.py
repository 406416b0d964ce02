"""Runs that wait for the results of a caller's own tools: how they are kept, and how they go on.

The caller gets ids of calls that lead back to the run, and that nobody can guess.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ragkit.agent.messages import Message, Role, ToolCall
from ragkit.agent.result import SuspendedRun
from ragkit.answer.tool import SHOWN_PASSAGES_KEY, TOOL_NAME, RetrievedPassages
from ragkit.records import Hit
from ragkit.server.base import ServedKnowledgeBase
from ragkit.server.http_errors import invalid_request
from ragkit.usage.meter import AgentUsage

_CALL_ID_PREFIX = "call_"


def serialize_run(suspended: SuspendedRun, evidence: float) -> str:
    """A suspended run as text; `revive` reads it."""
    return json.dumps({"run": suspended.to_json(), "evidence": evidence})


def assign_call_ids(run: str, calls: Sequence[ToolCall]) -> list[ToolCall]:
    """The calls as the caller gets them, for a run that is kept under the id `run`."""
    return [replace(call, id=f"{_CALL_ID_PREFIX}{run}_{at}") for at, call in enumerate(calls)]


def find_run_id(ids: Mapping[str, str]) -> str | None:
    """The id of the run that ids of calls lead to; None: they are not ours."""
    runs = {one.removeprefix(_CALL_ID_PREFIX).rpartition("_")[0] for one in ids if one.startswith(_CALL_ID_PREFIX)}
    return runs.pop() if len(runs) == 1 else None


async def resume_run(kept: str, results: Mapping[str, str], kb: ServedKnowledgeBase) -> SuspendedRun:
    """The run as it goes on: with the results of the caller's tools in the place of calls that wait.

    Calls of other tools in the same turn were not executed; they are left out, and the model may make them again.

    Raises:
        RequestRejected: a call has no result.
    """
    data = json.loads(kept)
    suspended = SuspendedRun.from_json(data["run"])
    by_place = {one.rpartition("_")[2]: text for one, text in results.items()}
    calls = [one.call for one in suspended.pending]
    missing = [call.name for at, call in enumerate(calls) if str(at) not in by_place]
    if missing:
        raise invalid_request(f"the results of {', '.join(missing)} are missing", "messages", "missing_tool_results")
    asked = replace(suspended.messages[-1], tool_calls=tuple(calls))
    given = [
        Message(Role.TOOL, by_place[str(at)], tool_call_id=call.id, name=call.name) for at, call in enumerate(calls)
    ]
    before = await asyncio.to_thread(_restore_hits, suspended, float(data["evidence"]), kb)
    # what was used before has been told of already
    return replace(suspended, messages=(*before, asked, *given), pending=(), decisions={}, usage=AgentUsage())


def _restore_hits(suspended: SuspendedRun, evidence: float, kb: ServedKnowledgeBase) -> list[Message]:
    """The messages before the last one; the last search among them has the passages that were shown, to be cited."""
    messages = list(suspended.messages[:-1])
    known = suspended.state.get(SHOWN_PASSAGES_KEY)
    found = [(n, kb.chunk(str(one))) for n, one in enumerate(known if isinstance(known, list) else [], 1)]
    hits = {n: Hit(chunk, 0.0) for n, chunk in found if chunk is not None}
    for at in range(len(messages) - 1, -1, -1):
        if messages[at].name == TOOL_NAME and hits:
            outcome = RetrievedPassages("", tuple(hits.values()), tuple(hits), evidence)
            messages[at] = replace(messages[at], data=outcome)
            break
    return messages
