"""What a trace tells beside its spans: messages, calls, settings; as text, JSON and HTML."""

from __future__ import annotations

import json
import re
from datetime import datetime

import pytest

from ragkit.agent.agent import Agent
from ragkit.agent.loop.config import AgentConfig
from ragkit.agent.memory.memory import ConversationMemory
from ragkit.agent.messages import Message, ToolCall
from ragkit.agent.policy import ToolPolicy
from ragkit.agent.providers.base import Completion
from ragkit.agent.providers.scripted import ScriptedProvider, ScriptedTurn
from ragkit.agent.result import AgentResult, SuspendedRun, partial_result
from ragkit.agent.tools.base import tool
from ragkit.agent.tracing.trace import MAX_RESULT_CHARS, AgentTrace, StepType
from ragkit.errors import AuthenticationFailed, RateLimited
from ragkit.records import JSON
from ragkit.usage.tokens import Tokens
from tests.agent.parts import AT_ONCE, add, call, fail, scripted


@tool
def search(query: str) -> str:
    """Search."""
    return f"<b>{query}</b> " * 100


def priced(text: str, *calls: ToolCall) -> Completion:
    """An answer of a model with a known price."""
    return Completion(Message.assistant(text, calls), Tokens(1200, 30), model="gpt-4.1-mini", provider="openai")


def full_run() -> AgentResult:
    """A run with a retry, calls, a failure, an id that is used twice, and hostile texts."""
    script: list[ScriptedTurn] = [
        RateLimited("p", "slow down"),
        priced("", call("search", "c1", query="<script>alert(1)</script>"), call("fail", "c2")),
        priced("", call("search", "c1", query="again " * 40)),
        priced("done <i>"),
    ]
    config = AgentConfig(retry=AT_ONCE, temperature=0.1, max_tokens=99)
    memory = ConversationMemory(messages=[Message.user("earlier"), Message.assistant("yes")])
    return Agent(ScriptedProvider(script), [search, fail, add], config=config, memory=memory).run("hello <u>")


def test_a_trace_has_the_messages_calls_and_settings_of_its_run() -> None:
    result = full_run()
    trace = result.trace
    assert trace.trace_id == trace.id == result.run_id
    assert trace.config == {"model": "scripted", "max_tokens": 99, "temperature": 0.1, "top_p": 1.0}
    assert trace.total_tokens == 3690
    assert trace.total_cost_usd == pytest.approx(3 * 0.000528)
    assert [(turn["role"], str(turn["content"])[:12]) for turn in trace.turns] == [
        ("user", "hello <u>"),
        ("assistant", ""),
        ("tool", "<b><script>a"),
        ("tool", "Error execut"),
        ("assistant", ""),
        ("tool", "<b>again aga"),
        ("assistant", "done <i>"),
    ]
    assert trace.turns[1]["tool_calls"] == [message.to_dict() for message in result.messages[3].tool_calls]
    assert [turn.get("tool_call_id") for turn in trace.turns] == [None, None, "c1", "c2", None, "c1", None]
    calls = trace.tool_calls
    assert [(item["name"], item["arguments"], item.get("error")) for item in calls] == [
        ("search", {"query": "<script>alert(1)</script>"}, None),
        ("fail", {}, "no reason"),
        ("search", {"query": "again " * 40}, None),
    ]
    texts = [outcome.content for outcome in result.tool_calls]
    assert [item["full_result_length"] for item in calls] == [len(text) for text in texts]
    assert [item["result"] for item in calls] == [
        f"{texts[0][:MAX_RESULT_CHARS]}…",
        texts[1],
        f"{texts[2][:MAX_RESULT_CHARS]}…",
    ]


def test_times_lie_within_the_run_and_never_go_back() -> None:
    trace = full_run().trace
    times = [datetime.fromisoformat(str(turn["timestamp"])).timestamp() for turn in trace.turns]
    calls = [datetime.fromisoformat(str(item["timestamp"])).timestamp() for item in trace.tool_calls]
    assert times == sorted(times) and calls == sorted(calls)
    assert trace.started_at - 0.002 <= min(times) <= min(calls) and max(times) <= trace.completed_at + 0.002
    assert trace.completed_at == trace.started_at + trace.seconds
    durations = [float(str(item["duration_ms"])) for item in trace.tool_calls]
    assert all(0 <= duration <= trace.seconds * 1000 for duration in durations)


def test_a_failed_run_has_the_messages_until_then() -> None:
    agent, _ = scripted([call("add", a=1, b=2), AuthenticationFailed("p", "wrong key")])
    with pytest.raises(AuthenticationFailed) as caught:
        agent.run("x")
    partial = partial_result(caught.value)
    assert partial is not None
    assert [turn["role"] for turn in partial.trace.turns] == ["user", "assistant", "tool"]
    assert "error AuthenticationFailed" in str(partial.trace)


def test_a_resumed_run_has_the_messages_of_both_parts() -> None:
    config = AgentConfig(policy=ToolPolicy(review=["add"]))
    agent, _ = scripted([call("add", a=1, b=2), "3"], config=config)
    first = agent.run("x")
    assert [turn["role"] for turn in first.trace.turns] == ["user", "assistant"]
    assert first.suspended is not None
    second = agent.run(SuspendedRun.from_json(first.suspended.approve().to_json()))
    assert [turn["role"] for turn in second.trace.turns] == ["user", "assistant", "tool", "assistant"]
    times = [str(turn["timestamp"]) for turn in second.trace.turns]
    assert times == sorted(times)


def test_a_trace_prints_as_a_tree() -> None:
    printed = re.sub(r"(<1|\d+) ms", "N ms", str(full_run().trace))
    # a step without attributes is a line only if it took a millisecond, as any may on a busy machine
    slow_step = re.compile(r"─ (?!iteration|tool_execution)\w+  N ms$")
    assert [line for line in printed.splitlines() if not slow_step.search(line)] == [
        "agent  N ms, 3,690 tokens, $0.001584",
        "├─ iteration 1  N ms",
        "│  ├─ memory  N ms  messages=2",
        "│  ├─ llm_call scripted  N ms  1,200 tokens in, 30 out, $0.000528",
        "│  │  └─ retry RateLimited  attempt=1  failed: p: slow down",
        "│  └─ tool_execution  N ms",
        '│     ├─ tool search(query="<script>alert(1)</script>")  N ms  '
        "-> <b><script>alert(1)</script></b> <b><script>alert(1)</script></b> <b><script>...",
        "│     └─ tool fail()  N ms  failed: no reason",
        "├─ iteration 2  N ms",
        "│  ├─ llm_call scripted  N ms  1,200 tokens in, 30 out, $0.000528",
        "│  └─ tool_execution  N ms",
        '│     └─ tool search(query="again again again again again again again again again again again agai...)  N ms  '
        "-> <b>again again again again again again again again again again again again ag...",
        "└─ iteration 3  N ms",
        "   └─ llm_call scripted  N ms  1,200 tokens in, 30 out, $0.000528",
    ]


def test_an_unknown_price_is_printed_as_unknown() -> None:
    answer = Completion(Message.assistant("hi"), Tokens(10, 2), model="nobody-knows", provider="openai")
    agent, _ = scripted([answer])
    assert str(agent.run("x").trace).splitlines()[0].endswith("12 tokens, price unknown")


def test_json_html_and_a_restored_trace_tell_the_same() -> None:
    trace = full_run().trace
    restored = AgentTrace.from_dict(json.loads(trace.to_json()))
    assert json.loads(trace.to_json()) == json.loads(json.dumps(trace.to_dict()))
    assert restored.to_dict() == trace.to_dict()
    assert (str(restored), restored.to_html()) == (str(trace), trace.to_html())


def test_a_trace_of_an_earlier_version_is_read() -> None:
    old: dict[str, JSON] = {"id": "r1", "started_at": 1.5, "root": {"type": "run", "name": "agent", "ended": 2.0}}
    trace = AgentTrace.from_dict(old)
    assert (trace.id, trace.completed_at, trace.turns, trace.tool_calls, trace.config) == ("r1", 3.5, [], [], {})
    assert str(trace) == "agent  2.00 s, 0 tokens, price unknown"
    assert trace.root.type is StepType.RUN


def test_the_page_is_self_contained_and_escapes_everything() -> None:
    page = full_run().trace.to_html()
    assert page.startswith("<!doctype html>")
    assert "<script" not in page and "<b>" not in page and "<u>" not in page and "<i>" not in page
    assert not re.search(r"(src|href)=|url\(|@import", page)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page and "done &lt;i&gt;" in page
