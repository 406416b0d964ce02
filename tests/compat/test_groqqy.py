"""Groqqy, and the sketches of its future: teams, plans, memories."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragkit import Agent, RunError, ScriptedProvider, ToolCall, ToolRegistry
from ragkit.compat import AgentTeam, Groqqy, MemoryManager, Planner
from ragkit.errors import AuthenticationFailed, InvalidOption


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI", "ANTHROPIC", "GEMINI", "GOOGLE", "GROQ"):
        monkeypatch.delenv(f"{name}_API_KEY", raising=False)
    monkeypatch.delenv("RAGKIT_MOCK_JSON", raising=False)


def test_a_message_without_a_key_says_that_the_key_is_missing() -> None:
    for bot in (Groqqy(), Groqqy("llama-3.3-70b-versatile", ToolRegistry(), "Be brief.", 20)):
        with pytest.raises(AuthenticationFailed, match="no API key: set GROQ_API_KEY, or pass api_key"):
            bot.chat("hi")


def test_groqqy_uses_groq_as_soon_as_it_has_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.setenv("GROQ_API_KEY", "gsk_test")
    assert Groqqy().provider.name == "groq"
    monkeypatch.delenv("GROQ_API_KEY")
    assert Groqqy().provider.name == "openai"
    with pytest.raises(AuthenticationFailed, match="GROQ_API_KEY"):
        Groqqy("llama-3.3-70b-versatile").chat("hi")


def test_the_agents_of_a_team_hand_over_to_each_other() -> None:
    writer = Agent(ScriptedProvider([ToolCall("handoff_to_editor", {}), "never"]), name="writer")
    editor = Agent(ScriptedProvider(["edited"]), name="editor")
    team = AgentTeam([writer, editor])
    assert [agent.registry.list_names() for agent in team.agents] == [["handoff_to_editor"], ["handoff_to_writer"]]
    result = team.collaborate("a report")
    assert (result.content, result.agent_name) == ("edited", "editor")


def test_a_plan_that_is_no_list_of_steps_is_an_error() -> None:
    assert Planner(ScriptedProvider(['{"steps": ["a", "b"]}'])).create_plan("go") == ["a", "b"]
    with pytest.raises(RunError, match="does not match response_format"):
        Planner(ScriptedProvider(["no plan"] * 5)).create_plan("go")


def test_memories_persist_and_the_nearest_come_first(tmp_path: Path) -> None:
    memory = MemoryManager(tmp_path / "memory.db")
    for key, value in {"name": "Ada", "city": "Oslo", "pets": ["a dog", "a cat"]}.items():
        memory.store(key, value)
    memory.store("city", "Bergen")
    memory.close()
    reopened = MemoryManager(tmp_path / "memory.db")
    assert reopened.recall("Which animals live with the user?", 1) == {"pets": ["a dog", "a cat"]}
    assert reopened.recall("In which town does the user live?", 1) == {"city": "Bergen"}
    assert len(reopened.recall("anything")) == 3
    with pytest.raises(InvalidOption, match=r"top_k must be >= 1 \(got 0\)"):
        reopened.recall("anything", 0)
    reopened.close()


def test_an_empty_memory_recalls_nothing() -> None:
    memory = MemoryManager()
    assert memory.recall("anything") == {}
    memory.close()
