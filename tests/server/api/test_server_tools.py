"""`ragkit serve --tool`: built-in tools of the server's agent."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ragkit.agent.messages import ToolCall
from ragkit.agent.providers.scripted import ScriptedProvider
from ragkit.errors import UnknownName
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.server.app import create_app
from tests.server.parts import LOCAL, serving


def test_the_servers_agent_has_the_tools_that_are_asked_for(base: Path) -> None:
    provider = ScriptedProvider([ToolCall("calculator", {"expression": "25*47"}), "It is 1175."])
    with serving(base, provider, replace(LOCAL, tools=("calculator",))) as (_, client):
        response = client.post("/chat", json={"message": "What is 25 * 47?"})
    assert not response.is_error
    first, second = provider.requests
    assert [tool.name for tool in first.tools] == ["search_knowledge_base", "calculator"]
    assert "answer it with them alone: calculator." in first.messages[0].content
    assert "1175" in second.messages[-1].content


def test_by_default_the_agent_only_searches(base: Path) -> None:
    provider = ScriptedProvider(["hello"] * 2)
    with serving(base, provider) as (_, client):
        client.post("/chat", json={"message": "hi"})
    assert [tool.name for tool in provider.requests[0].tools] == ["search_knowledge_base"]


def test_an_unknown_tool_is_refused_at_the_start(base: Path) -> None:
    with KnowledgeBase.open(base) as kb, pytest.raises(UnknownName, match="calculater"):
        create_app(kb, base, replace(LOCAL, tools=("calculater",)))


def test_the_command_takes_the_names_of_tools(base: Path) -> None:
    command = [sys.executable, "-m", "ragkit", "serve", "--kb", str(base), "--tool", "read_file"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "'read_file' is not one of 'calculator', 'web_search'" in done.stderr
