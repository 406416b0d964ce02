"""Suspends runs for tools of the caller and resumes them with the results.

The caller gets tool call ids that contain the id of the run and cannot be guessed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ragkit.agent.messages import Message, Role, ToolCall
from ragkit.agent.result import SuspendedRun
from ragkit.answer.passages import SHOWN_PASSAGES_KEY, TOOL_NAME, RetrievedPassages
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.records import Hit
from ragkit.server.base import read_chunks
from ragkit.server.http_errors import invalid_request
from ragkit.usage.meter import AgentUsage

_CALL_ID_PREFIX = "call_"


def serialize_run(suspended: SuspendedRun, evidence: float) -> str:
    """A suspended run as text, for `resume_run`."""
    return json.dumps({"run": suspended.to_json(), "evidence": evidence})


def assign_call_ids(run: str, calls: Sequence[ToolCall]) -> list[ToolCall]:
    """The calls with ids for the caller. `run` is the id of the stored run."""
    return [replace(call, id=f"{_CALL_ID_PREFIX}{run}_{index}") for index, call in enumerate(calls)]


def find_run_id(ids: Mapping[str, str]) -> str | None:
    """The id of the run of these tool call ids; None if they are of no run, or of several."""
    runs = {i.removeprefix(_CALL_ID_PREFIX).rpartition("_")[0] for i in ids if i.startswith(_CALL_ID_PREFIX)}
    return runs.pop() if len(runs) == 1 else None


async def resume_run(serialized: str, results: Mapping[str, str], kb: KnowledgeBase) -> SuspendedRun | None:
    """The run to continue, with `results` by tool call id; None if the caller may not read all its passages any more.

    Calls of other tools in the same turn were not executed; they are dropped, and the model may repeat them.

    Raises:
        RequestRejected: a call has no result.
    """
    data = json.loads(serialized)
    suspended = SuspendedRun.from_json(data["run"])
    by_index = {call_id.rpartition("_")[2]: text for call_id, text in results.items()}
    calls = [pending.call for pending in suspended.pending]
    missing = [call.name for index, call in enumerate(calls) if str(index) not in by_index]
    if missing:
        raise invalid_request(f"missing tool results: {', '.join(missing)}", "messages", "missing_tool_results")
    calling = replace(suspended.messages[-1], tool_calls=tuple(calls))
    tool_messages = [
        Message(Role.TOOL, by_index[str(index)], tool_call_id=call.id, name=call.name)
        for index, call in enumerate(calls)
    ]
    before = await asyncio.to_thread(_restore_hits, suspended, float(data["evidence"]), kb)
    if before is None:
        return None
    # the usage so far was reported when the run was suspended
    return replace(suspended, messages=(*before, calling, *tool_messages), pending=(), decisions={}, usage=AgentUsage())


def _restore_hits(suspended: SuspendedRun, evidence: float, kb: KnowledgeBase) -> list[Message] | None:
    """The messages before the last one, with the retrieved passages restored in the last search, for citations.

    None if a passage cannot be read.
    """
    messages = list(suspended.messages[:-1])
    shown = suspended.state.get(SHOWN_PASSAGES_KEY)
    ids = [str(chunk_id) for chunk_id in shown] if isinstance(shown, list) else []
    numbers = [n for n, chunk_id in enumerate(ids, 1) if chunk_id]
    chunks = dict(zip(numbers, read_chunks(kb, [ids[n - 1] for n in numbers]), strict=True))
    hits = {n: Hit(chunk, 0.0) for n, chunk in chunks.items() if chunk is not None}
    if len(hits) < len(chunks):
        return None
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].name == TOOL_NAME and hits:
            retrieved = RetrievedPassages("", tuple(hits.values()), tuple(hits), evidence)
            messages[index] = replace(messages[index], data=retrieved)
            break
    return messages
