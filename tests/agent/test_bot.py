"""The bot, and the components that work without an agent."""

import asyncio
import json
import logging

import pytest

from ragkit.agent.agent import Agent
from ragkit.agent.bot import Bot, default_provider
from ragkit.agent.messages import Message, ToolCall
from ragkit.agent.providers.base import Completion
from ragkit.agent.providers.scripted import LocalProvider, ScriptedProvider
from ragkit.agent.tools.base import tool
from ragkit.agent.tools.registry import ToolRegistry
from ragkit.compat.components import ConversationManager, CostTracker, Groqqy, ToolExecutor
from ragkit.errors import InvalidOption
from ragkit.records import JSON
from ragkit.usage.tokens import Tokens
from tests.agent.parts import add, call, fail, request_messages, scripted


def test_a_bot_works_with_its_defaults() -> None:
    bot = Bot()
    assert bot.chat("message") == ("[local provider, no model] message", 0.0)
    assert (type(bot.provider), bot.tools.list_names(), bot.agent.name) == (LocalProvider, ["calculator"], "bot")


def test_the_cost_of_a_turn_excludes_earlier_turns() -> None:
    turns = [
        Completion(Message.assistant(text), Tokens(1, 1, cost_usd=cost)) for text, cost in [("a", 0.5), ("b", 0.25)]
    ]
    bot = Bot(provider=ScriptedProvider(turns))
    assert [bot.chat("x"), bot.chat("y")] == [("a", 0.5), ("b", 0.25)]


def test_an_unknown_cost_is_none() -> None:
    turn = Completion(Message.assistant("a"), Tokens(1, 1), model="m", provider="nobody")
    assert Bot(provider=ScriptedProvider([turn])).chat("x") == ("a", None)


def test_a_bot_remembers_until_it_is_reset() -> None:
    provider = ScriptedProvider(["hello Anna", "Anna", "who?"])
    bot = Bot(provider=provider)
    bot.chat("I am Anna")
    bot.chat("Who am I?")
    assert len(request_messages(provider)) == 3
    bot.reset()
    assert bot.last_result is None
    bot.chat("Who am I?")
    assert request_messages(provider) == [("user", "Who am I?")]


def test_a_bot_accepts_a_model_tools_an_instruction_and_a_limit() -> None:
    registry = ToolRegistry([add])
    provider = ScriptedProvider([call("add", a=1, b=2), "never"])
    bot = Groqqy("llama-3.3-70b", registry, "Be brief.", 1, provider=provider)
    assert bot.chat("1 + 2?") == ("[Max iterations reached]", 0.0)
    [request] = provider.requests
    assert (request.model, request.tools, request.messages[0].content.split("\n")[0]) == (
        "llama-3.3-70b",
        (add,),
        "Be brief.",
    )
    assert bot.last_result is not None
    assert bot.last_result.tool_calls_made == 1


def test_the_chunks_of_an_answer_are_yielded_as_they_arrive() -> None:
    bot = Bot(provider=ScriptedProvider(["one two three"]))
    assert list(bot.chat_stream("x")) == ["one ", "two ", "three"]
    assert bot.last_result is not None
    assert bot.last_result.content == "one two three"


def test_a_script_in_the_environment_answers_for_a_bot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGKIT_MOCK_JSON", '["scripted hello"]')
    assert Bot().chat("x")[0] == "scripted hello"
    monkeypatch.delenv("RAGKIT_MOCK_JSON")
    assert type(default_provider()) is LocalProvider


def test_the_conversation_manager_writes_the_format_of_openai() -> None:
    manager = ConversationManager()
    manager.add_user("Hello")
    manager.add_assistant("Hi there!")
    manager.add_tool_calls("adding", [call("add", a=1)])
    manager.add_tool_result("c1", "3")
    assert (len(manager), manager.get_history()) == (
        4,
        [
            {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": "Hi there!"},
            {
                "role": "assistant",
                "content": "adding",
                "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a":1}'}}],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "3"},
        ],
    )
    manager.reset()
    assert len(manager) == 0


@tool
async def later(x: int) -> str:
    """Later."""
    return f"later {x}"


def openai_call(name: str, arguments: object) -> dict[str, object]:
    return {"id": "c9", "type": "function", "function": {"name": name, "arguments": arguments}}


def test_a_stream_that_was_not_read_to_its_end_does_not_block_the_bot() -> None:
    bot = Bot(provider=ScriptedProvider(["one two", "three four", "five"]))
    first = bot.chat_stream("a")
    assert next(first) == "one "
    second = bot.chat_stream("b")
    assert next(second).startswith("three")
    assert list(first) == []
    assert bot.chat("c")[0] == "five"
    assert [message.content for message in bot.memory.get_history()] == ["c", "five"]


class DatabaseConversation(ConversationManager):
    """Keeps the messages in a list outside."""

    def __init__(self, rows: list[dict[str, JSON]]) -> None:
        self.rows = rows

    def add_user(self, text: str) -> None:
        self.rows.append({"role": "user", "content": text})

    def add_assistant(self, text: str) -> None:
        self.rows.append({"role": "assistant", "content": text})

    def get_history(self) -> list[dict[str, JSON]]:
        return self.rows


@pytest.mark.parametrize("is_async", [False, True])
def test_a_conversation_manager_is_a_memory_of_an_agent(is_async: bool) -> None:
    rows: list[dict[str, JSON]] = []
    for manager in (ConversationManager(), DatabaseConversation(rows)):
        agent, provider = scripted(["hello anna", "anna"])
        agent.conversation = manager
        for text in ("I am anna", "who am I?"):
            asyncio.run(agent.arun(text)) if is_async else agent.run(text)
        sent = [("user", "I am anna"), ("assistant", "hello anna"), ("user", "who am I?")]
        assert request_messages(provider) == sent
        assert [entry["content"] for entry in manager.get_history()] == ["I am anna", "hello anna", "who am I?", "anna"]
    assert len(rows) == 4


def test_a_conversation_manager_keeps_tool_calls_and_results() -> None:
    agent, _ = scripted([call("add", "c1", a=1, b=2), "three"])
    agent.conversation = manager = ConversationManager()
    agent.run("1 + 2?")
    assert [entry["role"] for entry in manager.get_history()] == ["user", "assistant", "tool", "assistant"]
    messages = manager.load_messages()
    assert (messages[1].tool_calls[0].name, messages[2].tool_call_id, messages[2].content) == ("add", "c1", "3")
    agent.reset()
    assert (len(manager), bool(manager)) == (0, True)


def test_an_agent_is_immutable_but_for_its_conversation() -> None:
    agent, _ = scripted(["hi"])
    for name in ("foo", "name", "tools", "memory"):
        with pytest.raises(AttributeError, match=f"cannot set '{name}': an agent is immutable"):
            setattr(agent, name, 1)
    with pytest.raises(InvalidOption, match=r"conversation must be a ConversationMemory .* \(got 'list'\)"):
        agent.conversation = []  # type: ignore[assignment]

    class Planner(Agent):
        """An agent with state of its own."""

    planner = Planner(ScriptedProvider(["hi"]))
    planner.plan = ["first"]  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="cannot set 'provider'"):
        planner.provider = ScriptedProvider([])  # type: ignore[misc]


def test_the_executor_gives_text_and_never_raises(caplog: pytest.LogCaptureFixture) -> None:
    executor = ToolExecutor(ToolRegistry([add, fail, later]))
    with caplog.at_level(logging.INFO, "ragkit.agent"):
        assert executor.execute(call("add", a=1, b=2)) == "3"
        assert executor.execute(openai_call("add", json.dumps({"a": 1, "b": 2}))) == "3"  # type: ignore[arg-type]
        assert executor.execute({"name": "later", "arguments": {"x": 1}}) == "later 1"
        assert executor.execute(call("fail", reason="oops")) == "Error executing fail: oops"
        assert executor.execute(call("ad")).startswith("Error executing ad: unknown tool 'ad'")
        assert executor.execute(call("add", a="x")).startswith("Error executing add: invalid arguments for add")
    assert "Executing tool name='add' args={'a': 1, 'b': 2}" in caplog.text
    assert "Tool failed name='fail'" in caplog.text


@pytest.mark.parametrize("arguments", ["{{{broken", "[1]", "null", 7, ["a"]])
def test_the_executor_runs_no_tool_on_unreadable_arguments(arguments: object) -> None:
    wiped: list[str] = []

    def wipe(path: str = "/everything") -> str:
        """Delete files."""
        wiped.append(path)
        return f"wiped {path}"

    executor = ToolExecutor(ToolRegistry([wipe]))
    [(call_id, result)] = executor.execute_all([openai_call("wipe", arguments)])  # type: ignore[list-item]
    assert (call_id, wiped) == ("c9", [])
    assert result.startswith("Error executing wipe: no JSON object can be read from ")


@pytest.mark.parametrize("broken", [None, "add", 3, []])
def test_the_executor_never_raises(broken: object) -> None:
    executor = ToolExecutor(ToolRegistry([add]))
    expected = "Error executing tool: a tool call must be a ToolCall or a mapping (got "
    assert executor.execute(broken).startswith(expected)  # type: ignore[arg-type]
    assert executor.execute({}).startswith("Error executing : unknown tool ''")
    assert executor.execute_all([broken])[0][0] == ""  # type: ignore[list-item]


def test_the_executor_keeps_the_order_and_the_ids() -> None:
    executor = ToolExecutor(ToolRegistry([add, fail]))
    assert executor.execute_all(
        [call("add", "a", a=1, b=2), call("fail", "b"), ToolCall("add", {"a": 3, "b": 4}, "c")]
    ) == [("a", "3"), ("b", "Error executing fail: no reason"), ("c", "7")]


def test_the_tracker_adds_costs_up() -> None:
    tracker = CostTracker()
    tracker.add(0.25, metadata={"iteration": 1, "model": "llama-3.1"})
    tracker.add(0.5, {"iteration": 2})
    tracker.add(0.125)
    assert tracker.get_total() == 0.875
    assert [(entry.cost, entry.metadata) for entry in tracker.get_entries()] == [
        (0.25, {"iteration": 1, "model": "llama-3.1"}),
        (0.5, {"iteration": 2}),
        (0.125, {}),
    ]
    tracker.reset()
    assert (tracker.get_total(), tracker.get_entries()) == (0, [])
