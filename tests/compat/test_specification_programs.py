"""Programs that the specification and users of other libraries write, as they write them."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ragkit import (
    Agent,
    AgentConfig,
    AgentRunner,
    ConversationMemory,
    Document,
    FallbackProvider,
    InMemoryCache,
    Limits,
    LocalProvider,
    Message,
    RetryPolicy,
    Role,
    ScriptedProvider,
    SearchResult,
    Tool,
    ToolCall,
    ToolContext,
    UsageStats,
    tool,
)
from ragkit.agent.tools.builtin import create_default_registry
from ragkit.compat import ConversationManager, Groqqy, Planner
from ragkit.errors import InvalidToolArguments, InvalidType, ToolRefused, ToolTimeout
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.models import OpenAI
from ragkit.pipeline.settings import Pipeline
from tests.server.parts import serving


def seen(provider: ScriptedProvider, request: int = -1) -> list[tuple[str, str]]:
    """(role, text) of the messages that a model received, without the system prompt."""
    messages = provider.requests[request].messages
    return [(message.role.value, message.content) for message in messages if message.role is not Role.SYSTEM]


# --- hooks ---


def test_hooks_get_the_arguments_that_they_name() -> None:
    calls: dict[str, object] = {}
    hooks: Mapping[str, Any] = {
        "on_agent_end": lambda response, usage: calls.update(end=(response.content, type(usage).__name__)),
        "on_iteration_start": lambda number, messages: calls.update(start=(number, [m.content for m in messages])),
        "on_llm_start": lambda messages, model: calls.update(llm=(len(messages), model)),
    }
    Agent(ScriptedProvider(["done"]), config=AgentConfig(model="m", hooks=hooks)).run("hi")
    assert calls == {"start": (1, ["hi"]), "llm": (2, "m"), "end": ("done", "AgentUsage")}
    Agent(ScriptedProvider(["done"]), config=AgentConfig(model="m", hooks={"on_llm_start": lambda model: calls.update(
        llm=model)})).run("hi")  # fmt: skip
    assert calls["llm"] == "m"


def test_the_messages_of_an_iteration_are_those_so_far() -> None:
    counts: list[tuple[int, int]] = []
    provider = ScriptedProvider([ToolCall("calculator", {"expression": "1+1"}), "2"])
    hook = lambda number, messages: counts.append((number, len(messages)))  # noqa: E731
    config = AgentConfig(hooks={"on_iteration_start": hook})
    Agent(provider, create_default_registry(None), config=config).run("1+1?")
    assert counts == [(1, 1), (2, 3)]


def test_hooks_that_are_added_later_change_no_agent() -> None:
    hooks: dict[str, Any] = {}
    observers: list[Any] = []
    agent = Agent(ScriptedProvider(["done"]), config=AgentConfig(hooks=hooks, observers=observers))
    hooks["on_agent_start"] = observers.append
    agent.run("hi")
    assert observers == []
    assert agent.config.observers == ()


# --- caches ---


def test_a_cache_takes_pairs_and_forgets_entries() -> None:
    now = [0.0]
    cache = InMemoryCache(default_ttl=600, clock=lambda: now[0])
    cache.set("short", (Message.assistant("a"), UsageStats(3, 1)), ttl=1)
    cache.set("long", (Message.assistant("b"), UsageStats()))
    found = cache.get("short")
    assert found is not None
    assert (found.message, found.usage.total) == (Message.assistant("a"), 4)
    assert (found[0], found[1]) == tuple(found)
    with pytest.raises(InvalidType, match="completion must be a Completion, or a pair of a Message and its usage"):
        cache.set("x", ("text", UsageStats()))  # type: ignore[arg-type]
    now[0] = 2.0
    assert cache.get("short") is None
    assert (cache.size, cache.stats.total_requests) == (1, 2)
    assert (cache.delete("long"), cache.delete("long"), cache.size) == (True, False, 0)


# --- providers ---


def test_a_provider_that_collects_the_parts_and_errors_of_its_own_are_handled() -> None:
    class Collects:
        def complete(self, **parts: Any) -> str:
            return f"{sorted(parts)[0]} {parts['messages'][-1].content}"

    class Fails:
        calls = 0

        def complete(self, model: str, system_prompt: str, messages: list[Message]) -> str:
            self.calls += 1
            raise ConnectionError("refused")

    failing = Fails()
    config = AgentConfig(retry=RetryPolicy(2, initial_wait_s=0.0))
    agent = Agent(FallbackProvider([failing, Collects()]), config=config)  # type: ignore[list-item]
    assert agent.run("hi").content.endswith(" hi")
    with pytest.raises(Exception, match="refused"):
        Agent(failing, config=config).run("hi")  # type: ignore[arg-type]
    assert failing.calls == 3


def test_an_object_that_is_no_provider_is_refused() -> None:
    class TakesRequests:
        def complete(self, request: object) -> str:
            return "x"

    for wrong in (Agent(LocalProvider()), TakesRequests()):
        with pytest.raises(InvalidType, match="provider must be a subclass of Provider, or an object with complete"):
            Planner(wrong)  # type: ignore[arg-type]


def test_our_providers_are_called_by_keyword() -> None:
    messages = [Message(Role.USER, "hi")]
    assert "hi" in LocalProvider().complete(model="m", system_prompt="s", messages=messages).message.content  # type: ignore[call-arg]
    with pytest.raises(InvalidType, match=r"messages must be a sequence \(each item a Message\)"):
        LocalProvider().complete(model="m", system_prompt="s", messages=[{"role": "user"}])  # type: ignore[call-arg]


def test_the_constant_of_a_model_is_its_name() -> None:
    provider = ScriptedProvider(["a", "b"])
    assert Agent(provider, model=OpenAI.GPT_4O).config.model == "gpt-4o"
    Agent(provider, config=AgentConfig(model=OpenAI.GPT_4O)).run("hi")
    assert provider.requests[0].model == "gpt-4o"


# --- agents ---


def test_an_agent_without_tools() -> None:
    assert Agent(ScriptedProvider(["hi"]), None).run("x").content == "hi"


def test_instructions_may_be_a_function_of_the_context() -> None:
    provider = ScriptedProvider(["a", "b", ToolCall("handoff_to_second"), "c"])
    second = Agent(provider, name="second", instructions=lambda context: f"Second of {context['user']}.")
    first = Agent(
        provider, name="first", instructions=lambda context: f"First of {context['user']}.", handoffs=[second]
    )
    for user in ("Ada", "Ben"):
        first.run("hi", context={"user": user})
    AgentRunner([first, second]).run("hi", context={"user": "Eve"})
    prompts = [request.messages[0].content.split("\n")[0] for request in provider.requests]
    assert prompts == ["First of Ada.", "First of Ben.", "First of Eve.", "Second of Eve."]
    with pytest.raises(InvalidType, match="what the instructions of 'agent' return must be a str"):
        Agent(provider, instructions=lambda context: None).run("hi")  # type: ignore[arg-type, return-value]


def test_an_agent_is_a_tool_of_another_one() -> None:
    @tool("Says who asks.")
    def whoami(context: ToolContext) -> str:
        return str(context.context["user"])

    inner = ScriptedProvider([ToolCall("whoami"), "It is Ada."])
    helper = Agent(inner, [whoami], name="Büro 2", description="Knows people.")
    asked = helper.as_tool()
    assert isinstance(asked, Tool)
    assert (asked.name, asked.description) == ("buro_2", "Knows people.")
    outer = Agent(ScriptedProvider([ToolCall("buro_2", {"task": "Who asks?"}), "Ada asks."]), [asked])
    result = outer.run("Who am I?", context={"user": "Ada"}, memory=ConversationMemory())
    assert (result.content, result.tool_calls[0].content) == ("Ada asks.", "It is Ada.")
    assert seen(inner, 0) == [("user", "Who asks?")]
    assert len(result.messages) == 4
    assert result.usage.by_tool["buro_2"].calls == 1


def test_results_without_calls_and_calls_without_results_are_not_sent() -> None:
    provider = ScriptedProvider(["x", "y"])
    history = [
        Message(Role.TOOL, "of a call that was cut", tool_call_id="0"),
        Message.user("a"),
        Message.assistant("both", [ToolCall("f", {}, "1"), ToolCall("g", {}, "2")]),
        Message(Role.TOOL, "one", tool_call_id="1", name="f"),
        Message(Role.TOOL, "unknown", tool_call_id="9"),
        Message.assistant("", [ToolCall("f", {}, "3")]),
    ]
    memory = ConversationMemory(messages=history)
    result = Agent(provider, memory=memory).run("b")
    sent = provider.requests[0].messages
    assert [message.role.value for message in sent] == ["system", "user", "assistant", "tool", "user"]
    assert [call.id for call in sent[2].tool_calls] == ["1"]
    assert [message.content for message in result.new_messages] == ["b", "x"]
    restored = AgentRunner([Agent(provider)]).run("c", context=result.context.data | {})
    assert restored.content == "y"


def test_a_paired_conversation_stays_as_it_is() -> None:
    provider = ScriptedProvider(["x"])
    history = [
        Message.user("a"),
        Message.assistant("", [ToolCall("f", {}, "1")]),
        Message(Role.TOOL, "one", tool_call_id="1", name="f"),
        Message.assistant("done"),
    ]
    Agent(provider).run([*history, Message.user("b")])
    assert [message.role.value for message in provider.requests[0].messages[1:]] == [
        *("user", "assistant", "tool", "assistant", "user")
    ]


def test_the_team_of_a_runner_is_fixed() -> None:
    runner = AgentRunner([Agent(LocalProvider(), name="a")])
    for name in ("team", "agents", "entry_agent"):
        with pytest.raises(AttributeError, match=f"cannot set '{name}': an AgentRunner is immutable"):
            setattr(runner, name, {})

    class Own(AgentRunner):
        def __init__(self, agents: list[Agent]) -> None:
            super().__init__(agents)
            self.label = "mine"

    assert Own([Agent(LocalProvider())]).label == "mine"


# --- conversations ---


def test_a_manager_that_stores_users_only_loses_no_answer() -> None:
    class Database(ConversationManager):
        def __init__(self) -> None:
            self.rows: list[dict[str, Any]] = []

        def add_user(self, text: str) -> None:
            self.rows.append({"role": "user", "content": text})

        def get_history(self) -> list[dict[str, Any]]:
            return list(self.rows)

    provider = ScriptedProvider([ToolCall("calculator", {"expression": "1+1"}), "two", "b", "c", "d"])
    agent = Agent(provider, create_default_registry(None))
    agent.conversation = Database()
    for text in ("1", "2", "3"):
        agent.run(text)
    roles = [role for role, _ in seen(provider)]
    assert roles == ["user", "assistant", "tool", "assistant", "user", "assistant", "user"]
    assert [text for role, text in seen(provider) if role == "assistant"][1:] == ["two", "b"]
    assert [row["content"] for row in agent.conversation.rows] == ["1", "2", "3"]  # type: ignore[union-attr]
    agent.conversation.clear()  # type: ignore[union-attr]
    agent.run("4")
    assert [text for _, text in seen(provider) if text == "two"] == []


def test_a_conversation_can_be_read() -> None:
    memory = ConversationMemory()
    memory.add_many(
        [
            Message.user("<b>Hi</b>"),
            Message.assistant("", [ToolCall("f", {"x": 1}, "1")]),
            Message(Role.TOOL, "```\ncode\n```", tool_call_id="1", name="f"),
            Message.assistant("Done."),
        ]
    )
    assert memory.to_markdown() == (
        '## User\n\n<b>Hi</b>\n\n## Assistant: calls f\n\n```\n{"x":1}\n```\n\n'
        "## Tool (f)\n\n````\n```\ncode\n```\n````\n\n## Assistant\n\nDone."
    )
    page = memory.to_html()
    assert "<h2>User</h2><p>&lt;b&gt;Hi&lt;/b&gt;</p>" in page
    assert page.count("<section>") == 4


def test_the_context_of_a_result_keeps_the_conversation_or_fails() -> None:
    result = Agent(ScriptedProvider(["a"])).run("x")
    with pytest.raises(TypeError, match="RunContext"):
        json.dumps(result.context)
    assert json.loads(result.context.to_json())["messages"][0]["content"] == "x"


# --- tools ---


def test_the_default_tools_read_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("notes.txt").write_text("the key is green", encoding="utf-8")
    assert Groqqy(provider=LocalProvider()).tools.get("read_file").execute(path="notes.txt") == "the key is green"
    assert create_default_registry().get("search_files").execute(pattern="*.txt").content == "notes.txt"  # type: ignore[attr-defined]
    with pytest.raises(Exception, match="outside the directory"):
        create_default_registry().get("read_file").execute(path="../x")


def test_errors_of_tools_are_in_the_module_of_errors() -> None:
    @tool("Add", timeout_s=0.05)
    def add(a: int) -> int:
        time.sleep(0.5 if a == 7 else 0)
        return a

    with pytest.raises(InvalidToolArguments, match="invalid arguments for add"):
        add.execute(b=1)
    result = Agent(ScriptedProvider([ToolCall("add", {"a": 7}), "done"]), [add]).run("x")
    assert isinstance(result.tool_calls[0].error, ToolTimeout)
    assert not issubclass(ToolRefused, ToolTimeout)


# --- stores ---


def test_a_result_of_a_store_is_read_like_a_hit() -> None:
    found = [SearchResult(Document("a", source="x.md"), 0.5), SearchResult(Document("b", {"source": "y.md"}), 0.4)]
    assert [(result.text, result.source, result.score) for result in found] == [("a", "x.md", 0.5), ("b", "y.md", 0.4)]


# --- limits ---


@pytest.mark.parametrize("name", ["max_tokens", "request_timeout_s", "tool_timeout_s", "max_iterations"])
@pytest.mark.parametrize("value", [0, -1, float("nan")])
def test_limits_that_are_not_positive_are_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name} must be "):
        AgentConfig(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["max_cost_usd", "max_tokens", "max_seconds", "warn_cost_usd"])
def test_negative_limits_of_a_run_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be "):
        Limits(**{name: -1})


# --- the documentation ---


def test_the_learning_path_says_the_hours_of_pages_that_exist() -> None:
    tutorial = Path(__file__).parents[2] / "docs/tutorial/index.md"
    _, _, table = tutorial.read_text(encoding="utf-8").partition("| hours | page |")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    *hours, (last, *_) = rows
    ends = [0.0]
    for when, pages, ability in hours:
        start, end = map(float, when.split(" to "))
        assert (start, bool(ability)) == (ends[-1], True)
        assert all((tutorial.parent / link).exists() for link in re.findall(r"\(([^)]+)\)", pages))
        ends.append(end)
    assert len(hours) > 3
    assert last == "then"


# --- the server ---


@pytest.mark.parametrize("path", ["/chat", "/v1/chat/completions"])
@pytest.mark.parametrize(("answer", "expected"), [("", 0.7), ("answer: {temperature: 0.2}\n", 0.2)])
def test_the_default_temperature_is_that_of_the_specification(
    path: str, answer: str, expected: float, tmp_path: Path
) -> None:
    (tmp_path / "garden.md").write_text("The hedge is cut in August.\n", encoding="utf-8")
    settings = Pipeline.from_yaml(f"embed: {{name: hashing, dimension: 64}}\n{answer}")
    with KnowledgeBase.open(tmp_path / "kb", settings) as kb:
        kb.index(tmp_path / "garden.md")
    provider = ScriptedProvider(["In August [1]."])
    body: dict[str, Any] = {"messages": [{"role": "user", "content": "When is the hedge cut?"}], "model": "ragkit"}
    with serving(tmp_path / "kb", provider) as (_, client):
        reply = client.post(path, json=body)
    assert not reply.is_error, reply.text
    assert provider.requests[-1].settings.temperature == expected
