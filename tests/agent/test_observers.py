"""Observers, hooks, analytics, the audit log, OpenTelemetry."""

import asyncio
import json
import logging
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ragkit.agent.agent import Agent
from ragkit.agent.events import Event, MemoryTrimmed, ToolEnded, ToolStarted
from ragkit.agent.exporters.audit import AuditLog, PrivacyLevel, mask_json, mask_secrets
from ragkit.agent.exporters.otel import OpenTelemetryObserver
from ragkit.agent.loop.config import AgentConfig
from ragkit.agent.memory.memory import ConversationMemory
from ragkit.agent.messages import Message
from ragkit.agent.observers import OBSERVER_METHODS, AgentObserver, Hook, HookObserver, ObserverWarning
from ragkit.agent.policy import ToolPolicy
from ragkit.agent.providers.base import Completion
from ragkit.agent.providers.scripted import ScriptedProvider
from ragkit.agent.result import AgentResult
from ragkit.agent.tools.base import tool
from ragkit.errors import AuthenticationFailed, InvalidOption, UnknownName
from ragkit.usage.analytics import AgentAnalytics
from ragkit.usage.tokens import Tokens
from tests.agent.parts import AT_ONCE, add, call, fail, scripted


class RecordingObserver(AgentObserver):
    """Records which of its methods were called."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def handle(self, event: Event) -> None:
        self.seen.append(OBSERVER_METHODS[type(event)])
        super().handle(event)


@tool
def chatty() -> object:
    """Talk."""
    yield "a"


def test_every_documented_event_has_a_method() -> None:
    documented = [
        "on_agent_start",
        "on_agent_end",
        "on_iteration_start",
        "on_iteration_end",
        "on_tool_start",
        "on_tool_end",
        "on_tool_error",
        "on_tool_chunk",
        "on_llm_start",
        "on_llm_end",
        "on_error",
        "on_memory_trim",
    ]
    assert set(documented) <= set(OBSERVER_METHODS.values())
    assert all(callable(getattr(AgentObserver, name)) for name in OBSERVER_METHODS.values())
    assert {kind.__name__ for kind in OBSERVER_METHODS} == {kind.__name__ for kind in Event.__subclasses__()}


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_an_observer_receives_every_event_in_order(mode: str) -> None:
    diary = RecordingObserver()
    calls = [call("chatty", "c1"), call("fail", "c2")]
    agent, _ = scripted([calls, "ok"], [chatty, fail], AgentConfig(observers=[diary]))
    memory = ConversationMemory(max_messages=2)
    if mode == "sync":
        agent.run("x", memory=memory)
    else:
        asyncio.run(agent.arun("x", memory=memory))
    assert diary.seen == [
        "on_agent_start",
        "on_iteration_start",
        "on_llm_start",
        "on_llm_end",
        "on_tool_start",
        "on_tool_start",
        "on_tool_chunk",
        "on_tool_end",
        "on_tool_error",
        "on_iteration_end",
        "on_iteration_start",
        "on_llm_start",
        "on_llm_end",
        "on_iteration_end",
        "on_memory_trim",
        "on_agent_end",
    ]


def test_observers_receive_the_messages_that_memory_drops() -> None:
    agent, _ = scripted(["one", "two"])
    memory = ConversationMemory(max_messages=2)
    agent.run("a", memory=memory)
    [event_] = [event for event in agent.stream("b", memory=memory) if isinstance(event, MemoryTrimmed)]
    assert [message.content for message in event_.messages] == ["a", "one"]


def test_hooks_are_called_with_plain_values() -> None:
    seen: list[object] = []

    def my_hook(tool_name: str, args: dict[str, object]) -> None:
        seen.append((tool_name, args))

    hooks: dict[str, Hook] = {
        "on_tool_start": my_hook,
        "on_tool_end": lambda name, result: seen.append((name, result)),
        "on_tool_error": lambda name, error: seen.append((name, str(error))),
        "on_iteration_end": seen.append,
        "on_llm_start": lambda model, messages: seen.append((model, len(messages))),
        "on_agent_end": lambda result: seen.append(result.content),
    }
    agent, _ = scripted([[call("add", "c1", a=1, b=2), call("fail", "c2")], "ok"], config=AgentConfig(hooks=hooks))
    agent.run("x")
    assert seen == [
        ("scripted", 2),
        ("add", {"a": 1, "b": 2}),
        ("fail", {}),
        ("add", "3"),
        ("fail", "no reason"),
        1,
        ("scripted", 5),
        2,
        "ok",
    ]


def test_the_callbacks_of_the_older_api_are_aliases() -> None:
    lines: list[str] = []
    hooks = {
        "new_message": lambda *_: lines.append("sending"),
        "end_message": lambda message, _: lines.append(message.content),
    }
    agent, _ = scripted(["hello"], config=AgentConfig(hooks=hooks))
    agent.run("x")
    assert lines == ["sending", "hello"]


def test_an_unknown_hook_is_rejected() -> None:
    with pytest.raises(UnknownName, match=r"unknown hook 'on_tool_begin' \(did you mean 'on_tool_end'\?\)"):
        HookObserver({"on_tool_begin": print})


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("mode", ["run", "arun", "stream", "astream"])
def test_a_hook_that_fails_is_a_warning_and_the_others_are_called(
    mode: str, is_async: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def needs_more(one: object, two: object, three: object) -> None: ...

    async def fails(message: object) -> None:
        raise RuntimeError("broken hook")

    seen: list[str] = []
    broken = fails if is_async else needs_more
    hooks: dict[str, Hook] = {"end_message": broken, "on_llm_end": lambda message: seen.append(message.content)}
    agent, _ = scripted(["hello"], config=AgentConfig(hooks=hooks))
    with pytest.warns(ObserverWarning, match="an observer or hook failed in on_llm_end: .*Error: "):
        run_in(mode, agent)
    assert seen == ["hello"]
    assert "failed on ModelCallEnded" in caplog.text


def test_a_hook_that_fails_does_not_end_the_run_where_warnings_are_errors() -> None:
    agent, _ = scripted(["hello"], config=AgentConfig(hooks={"on_agent_end": lambda result: result.nothing}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert agent.run("x").content == "hello"


def test_a_hook_gets_as_many_arguments_as_it_has_parameters() -> None:
    seen: list[object] = []

    class Counter:
        def __call__(self, name: str, result: str, duration: float) -> None:
            seen.append((name, result, duration >= 0))

        def ended(self, name: str, error: Exception, args: dict[str, object]) -> None:
            seen.append((name, str(error), args))

    hooks: dict[str, Hook] = {
        "on_tool_start": seen.append,
        "on_tool_end": Counter(),
        "on_tool_error": Counter().ended,
        "on_iteration_start": lambda: seen.append("turn"),
        "on_iteration_end": lambda number, outcome: seen.append((number, outcome)),
        "on_agent_start": lambda *args: seen.append(len(args)),
    }
    calls = [call("add", "c1", a=1, b=2), call("fail", "c2", reason="why")]
    agent, _ = scripted([calls, "ok"], config=AgentConfig(hooks=hooks))
    agent.run("x")
    assert seen == [
        1,
        "turn",
        "add",
        "fail",
        ("add", "3", True),
        ("fail", "why", {"reason": "why"}),
        (1, "run_again"),
        "turn",
        (2, "final_answer"),
    ]


@pytest.mark.parametrize("mode", ["run", "arun", "stream", "astream"])
def test_async_observers_and_hooks_are_awaited_before_the_run_goes_on(mode: str) -> None:
    seen: list[str] = []

    class Slow(AgentObserver):
        async def on_tool_start(self, event: ToolStarted) -> None:
            await asyncio.sleep(0.01)
            seen.append(f"start {event.call.name}")

        async def on_tool_end(self, event: ToolEnded) -> None:
            await asyncio.sleep(0.01)
            seen.append(f"end {event.content}")

    async def ended(result: AgentResult) -> None:
        await asyncio.sleep(0.01)
        seen.append(result.content)

    @tool
    def work() -> str:
        """Work."""
        seen.append("work")
        return "3"

    config = AgentConfig(observers=[Slow()], hooks={"on_agent_end": ended})
    agent = Agent(ScriptedProvider([call("work"), "done"]), [work], config=config)
    run_in(mode, agent)
    assert seen == ["start work", "work", "end 3", "done"]


def test_async_hooks_of_synchronous_runs_share_one_loop() -> None:
    loops: list[asyncio.AbstractEventLoop] = []

    async def remember() -> None:
        loops.append(asyncio.get_running_loop())

    agent, _ = scripted(["a", "b"], config=AgentConfig(hooks={"on_agent_end": remember}))
    agent.run("x")
    agent.run("y")
    assert len(loops) == 2 and loops[0] is loops[1]


def test_an_async_hook_of_a_synchronous_run_may_start_another_such_run() -> None:
    seen: list[str] = []

    async def inner_ended(result: AgentResult) -> None:
        seen.append(f"inner {result.content}")

    async def outer_ended(result: AgentResult) -> None:
        inner, _ = scripted(["b"], config=AgentConfig(hooks={"on_agent_end": inner_ended}))
        inner.run("y")
        seen.append(f"outer {result.content}")

    agent, _ = scripted(["a"], config=AgentConfig(hooks={"on_agent_end": outer_ended}))
    agent.run("x")
    assert seen == ["inner b", "outer a"]


def run_in(mode: str, agent: Agent) -> None:
    """Run the agent to its end, synchronously or not, streamed or not."""

    async def arun() -> None:
        if mode == "arun":
            await agent.arun("x")
        else:
            _ = [event async for event in agent.astream("x")]

    if mode == "run":
        agent.run("x")
    elif mode == "stream":
        _ = list(agent.stream("x"))
    else:
        asyncio.run(arun())


def test_debug_logging_reports_answers_calls_and_results(caplog: pytest.LogCaptureFixture) -> None:
    agent, _ = scripted([[call("add", a=1, b=2), call("fail", "c2")], "three"])
    with caplog.at_level(logging.DEBUG, "ragkit.agent"):
        agent.run("x")
    lines = [record.getMessage() for record in caplog.records]
    assert [line.split(" ", 2)[1] for line in lines] == ["think", "act", "act", "observe", "observe", "think"]
    assert lines[1].endswith("act add {'a': 1, 'b': 2}")
    assert lines[3].endswith("observe add: 3")


@pytest.mark.parametrize(("value", "shown"), [("debug", True), ("", False)])
def test_an_environment_variable_enables_debug_logging(value: str, shown: bool) -> None:
    code = "from ragkit.agent.bot import Bot; Bot().chat('hello')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "RAGKIT_LOG": value},
    )
    assert ("think [local provider, no model] hello" in done.stderr) is shown


def test_analytics_count_the_tools_of_many_runs() -> None:
    analytics = AgentAnalytics()
    agent, _ = scripted(
        [[call("add", a=1, b=2), call("fail", "c2")], "ok"] * 3, config=AgentConfig(analytics=analytics)
    )
    for _ in range(3):
        agent.run("x")
    counts = {tool.tool: (tool.calls, tool.failures, dict(tool.errors)) for tool in analytics.tools()}
    assert counts == {"add": (3, 0, {}), "fail": (3, 3, {"ValueError": 3})}


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("key sk-abcdefghijklmnop1234 here", "key [secret] here"),
        ("Authorization: Bearer abcdef123456789", "Authorization: [secret]"),
        ("api_key=abcdef123", "api_key=[secret]"),
        ('"password": "hunter22"', '"password": "[secret]"'),
        ("postgres://me:pass@host/db", "postgres://[secret]@host/db"),
        ("AKIAABCDEFGHIJKLMNOP", "[secret]"),
        ("gsk_" + "a" * 24, "[secret]"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.sflKxw", "[secret]"),
        ("-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY----- tail", "[secret] tail"),
        ("a token of thanks, secretly", "a token of thanks, secretly"),
    ],
)
def test_secrets_are_masked_and_words_are_not(text: str, masked: str) -> None:
    if '"password"' in text:
        assert mask_json(json.loads("{" + text + "}")) == {"password": "[secret]"}
    else:
        assert mask_secrets(text) == masked


def test_values_under_secret_keys_are_masked_completely() -> None:
    data = {"user": "anna", "api_key": "x", "access_token": 3, "deep": [{"Password": "y"}], "tokens": 5, "secret": ""}
    assert mask_json(data) == {  # type: ignore[arg-type]
        "user": "anna",
        "api_key": "[secret]",
        "access_token": "[secret]",
        "deep": [{"Password": "[secret]"}],
        "tokens": "[secret]",
        "secret": "",
    }


def run_with_audit(tmp_path: Path, privacy: PrivacyLevel) -> tuple[list[dict[str, object]], str]:
    @tool
    def fetch(url: str, api_key: str) -> str:
        """Fetch."""
        return "mail a@b.org with sk-abcdefghijklmnop1234"

    path = tmp_path / "deep" / "audit.jsonl"
    tool_call = call("fetch", url="http://x", api_key="topsecret")
    config = AgentConfig(observers=[AuditLog(path, privacy=privacy)], policy=ToolPolicy())
    agent, _ = scripted([[tool_call, call("fail", "c2")], "done, a@b.org"], [fetch, fail], config)
    agent.run("I am c@d.org")
    text = path.read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()], text


def test_the_audit_log_has_a_line_for_every_event(tmp_path: Path) -> None:
    lines, text = run_with_audit(tmp_path, "masked")
    assert [line["event"] for line in lines] == [
        "agent_start",
        "iteration_start",
        "llm_start",
        "llm_end",
        "policy",
        "policy",
        "tool_start",
        "tool_start",
        "tool_end",
        "tool_error",
        "iteration_end",
        "iteration_start",
        "llm_start",
        "llm_end",
        "iteration_end",
        "agent_end",
    ]
    assert len({line["run_id"] for line in lines}) == 1
    assert lines[0]["input"] == ["I am [email]"]
    assert lines[8]["arguments"] == {"url": "http://x", "api_key": "[secret]"}
    assert lines[8]["result"] == "mail [email] with [secret]"
    assert (lines[9]["error"], lines[9]["result"]) == ("ValueError", "Error executing fail: no reason")
    assert (lines[-1]["output"], lines[-1]["stop_reason"]) == ("done, [email]", "stop")
    assert "topsecret" not in text


def test_privacy_full_masks_only_secrets(tmp_path: Path) -> None:
    lines, text = run_with_audit(tmp_path, "full")
    assert (lines[0]["input"], lines[8]["result"]) == (["I am c@d.org"], "mail a@b.org with [secret]")
    assert "topsecret" not in text


def test_hashed_texts_can_be_compared_but_not_read(tmp_path: Path) -> None:
    lines, text = run_with_audit(tmp_path, "hashed")
    assert str(lines[0]["input"]).startswith("['12 characters, ")
    assert not any(word in text for word in ("c@d.org", "topsecret", "http://x", "done,"))


def test_privacy_none_writes_events_without_texts(tmp_path: Path) -> None:
    lines, text = run_with_audit(tmp_path, "none")
    assert (lines[0]["input"], lines[8]["result"], lines[-1]["output"]) == ([None], None, None)
    assert not any(word in text for word in ("c@d.org", "topsecret", "http://x", "done,"))


def test_an_unknown_privacy_level_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="privacy must be one of full, masked, hashed, none"):
        AuditLog(tmp_path / "a", privacy="some")  # type: ignore[arg-type]


def test_a_failed_run_is_in_the_audit_log_with_its_secrets_masked(tmp_path: Path) -> None:
    config = AgentConfig(observers=[AuditLog(tmp_path / "a.jsonl")], retry=AT_ONCE)
    agent, _ = scripted([AuthenticationFailed("p", "wrong key sk-abcdefghijklmnop1234")], config=config)
    with pytest.raises(AuthenticationFailed, match="wrong key"):
        agent.run("x")
    last = json.loads((tmp_path / "a.jsonl").read_text("utf-8").splitlines()[-1])
    assert (last["event"], last["error"]) == ("error", "p: wrong key [secret]")


def exported(agent: Agent, exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    agent.run("x")
    return {span.name: span for span in exporter.get_finished_spans()}


def otel() -> tuple[AgentConfig, InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return AgentConfig(observers=[OpenTelemetryObserver(provider)], retry=AT_ONCE), exporter


def test_opentelemetry_gets_the_trace_with_the_names_of_the_conventions() -> None:
    config, exporter = otel()
    turn = Completion(Message.assistant("", [call("add", a=1, b=2), call("fail", "c2")]), Tokens(30, 4, cost_usd=0.5))
    agent = Agent(ScriptedProvider([turn, "ok"], model="m1"), [add, fail], config=config, name="math")
    spans = exported(agent, exporter)
    run, step, sum_span, failed = (
        spans[n] for n in ("invoke_agent math", "tool_execution", "execute_tool add", "execute_tool fail")
    )
    assert run.parent is None
    assert sum_span.parent is not None
    assert (sum_span.parent.span_id, step.context.trace_id) == (step.context.span_id, run.context.trace_id)
    assert run.attributes is not None
    assert run.attributes["gen_ai.operation.name"] == "invoke_agent"
    assert run.attributes["gen_ai.agent.name"] == "math"
    assert run.attributes["gen_ai.usage.input_tokens"] > 30  # type: ignore[operator]
    assert run.attributes["ragkit.cost_usd"] == 0.5
    chat = next(span for span in exporter.get_finished_spans() if span.name == "chat m1")
    assert chat.attributes is not None
    assert (chat.attributes["gen_ai.request.model"], chat.attributes["gen_ai.usage.input_tokens"]) == ("m1", 30)
    assert (chat.attributes["gen_ai.usage.output_tokens"], chat.kind.name) == (4, "CLIENT")
    assert sum_span.attributes is not None
    assert (sum_span.attributes["gen_ai.tool.name"], sum_span.attributes["gen_ai.tool.call.id"]) == ("add", "c1")
    assert failed.status.status_code.name == "ERROR"
    assert run.start_time is not None
    assert run.end_time is not None
    assert run.start_time <= (sum_span.start_time or 0) <= (sum_span.end_time or 0) <= run.end_time


def test_opentelemetry_does_not_get_reasoning() -> None:
    config, exporter = otel()
    spans = exported(Agent(ScriptedProvider(["<think>secret</think>ok"], model="m1"), config=config), exporter)
    assert "ragkit.reasoning" not in (spans["chat m1"].attributes or {})
    assert "ragkit.cost_usd" in (spans["chat m1"].attributes or {})


def test_opentelemetry_gets_failed_runs_too() -> None:
    config, exporter = otel()
    agent, _ = scripted([AuthenticationFailed("p", "wrong key")], config=config)
    with pytest.raises(AuthenticationFailed, match="wrong key"):
        agent.run("x")
    [run] = [span for span in exporter.get_finished_spans() if span.parent is None]
    assert (run.status.status_code.name, run.status.description) == ("ERROR", "p: wrong key")
    assert run.attributes is not None
    assert run.attributes["error.type"] == "AuthenticationFailed"


def test_an_event_without_an_overridden_method_is_ignored() -> None:
    AgentObserver().handle(ToolStarted("r", 1, call("add")))


def test_the_hook_of_the_end_may_take_the_usage() -> None:
    seen: list[tuple[object, object]] = []
    config = AgentConfig(
        hooks={"on_agent_end": lambda result, usage: seen.append((result.response, usage.total_tokens))}
    )
    result = Agent(ScriptedProvider(["hi"]), config=config).run("x")
    assert seen == [("hi", result.usage.total_tokens)]
