"""One request to the model answers a question that one search answers, on every service and at every entry point."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from ragkit.agent.memory.memory import ConversationMemory
from ragkit.agent.providers.scripted import ScriptedProvider
from ragkit.answer.agent import RAGAgent, RAGOptions
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.server.mcp.tools import McpTools
from tests.server.parts import KnowledgeBaseWithProvider
from tests.server.parts import serving as serving_kb
from tests.wire.parts import SERVICES, serving
from tests.wire.server import Fault, Turn

QUESTION = "When is the hedge cut?"
PASSAGE = "The hedge is cut in August."
ANSWER = Turn(("The hedge is cut ", "in August [1]."), prompt_tokens=300, completion_tokens=8)


@pytest.mark.parametrize("service", SERVICES)
def test_one_request_has_the_passages_and_the_question(service: str, base: Path) -> None:
    with KnowledgeBase.open(base) as kb, serving(service, ANSWER) as (provider, server):
        answer = RAGAgent(kb, provider, options=RAGOptions(passages="whole")).ask(QUESTION)
    [request] = server.seen
    body = json.dumps(request.body)
    assert PASSAGE in body
    assert body.index(PASSAGE) < body.index(QUESTION)
    assert "search_knowledge_base" in body.partition('"tools"')[2] + body.partition('"config"')[2]
    assert [(c.n, c.by) for c in answer.citations] == [(1, "model")]
    assert answer.usage.by_tool["search_knowledge_base"].calls == 1
    assert len(answer.usage.iterations) == 1


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_that_knows_no_tools_is_asked_without_them_from_then_on(service: str, base: Path) -> None:
    refusal = Fault(400, "this model does not support tools", "invalid_request_error")
    with KnowledgeBase.open(base) as kb, serving(service, refusal, ANSWER, ANSWER) as (provider, server):
        agent = RAGAgent(kb, provider, options=RAGOptions(passages="whole"))
        assert agent.ask(QUESTION).text == agent.ask(QUESTION).text == "The hedge is cut in August [1]."
    assert [bool(request.body.get("tools")) for request in server.seen] == [True, False, False]


@pytest.mark.parametrize("service", ["openai", "ollama"])
def test_a_server_on_this_machine_gets_extracts_and_no_tools(service: str, base: Path) -> None:
    with KnowledgeBase.open(base) as kb, serving(service, ANSWER) as (provider, server):
        answer = RAGAgent(kb, provider).ask(QUESTION)
    [request] = server.seen
    assert not request.body.get("tools")
    assert json.dumps(request.body).count(PASSAGE) == 1
    assert [citation.n for citation in answer.citations] == [1]


def test_greetings_and_thanks_are_not_searched(base: Path) -> None:
    provider = ScriptedProvider(["Hello."])
    with KnowledgeBase.open(base) as kb:
        result = RAGAgent(kb, provider).run("Hello, and thanks!")
    assert result.tool_calls == ()
    assert provider.requests[0].messages[-1].content == "Hello, and thanks!"


def test_a_follow_up_is_searched_as_a_question_of_its_own(base: Path) -> None:
    provider = ScriptedProvider(["In August [1].", "On Fridays [1]."])
    with KnowledgeBase.open(base) as kb:
        agent = RAGAgent(kb, provider, memory=ConversationMemory())
        agent.ask(QUESTION)
        answer = agent.ask("And the lawn?")
    assert answer.searched_for == "When is the hedge cut (the lawn)?"


def test_with_search_by_the_model_nothing_is_searched_before(base: Path) -> None:
    provider = ScriptedProvider(["In August."])
    with KnowledgeBase.open(base) as kb:
        result = RAGAgent(kb, provider, options=RAGOptions(search="model")).run(QUESTION)
    assert result.tool_calls == ()
    assert "Search before you answer" in provider.requests[0].messages[0].content


def ask_page(client: Any) -> Any:
    return client.post("/chat", json={"messages": [{"role": "user", "content": QUESTION}]}).json()["response"]


def ask_completions(client: Any) -> Any:
    body = {"model": "ragkit", "messages": [{"role": "user", "content": QUESTION}]}
    return client.post("/v1/chat/completions", json=body).json()["choices"][0]["message"]["content"]


def ask_responses(client: Any) -> Any:
    body = client.post("/v1/responses", json={"model": "ragkit", "input": QUESTION}).json()
    return body["output"][-1]["content"][0]["text"]


@pytest.mark.parametrize("ask", [ask_page, ask_completions, ask_responses])
def test_every_route_of_the_server_searches_first(ask: Any, base: Path) -> None:
    provider = ScriptedProvider(["The hedge is cut in August [1]."])
    with serving_kb(base, provider, search="first") as (_, client):
        assert ask(client) == "The hedge is cut in August [1]."
    assert [PASSAGE in request.messages[-1].content for request in provider.requests] == [True]


def test_a_stream_shows_the_first_search_and_its_trace_says_whose_it_is(base: Path) -> None:
    provider = ScriptedProvider(["The hedge is cut in August."])
    with serving_kb(base, provider, search="first") as (_, client):
        text = client.post("/chat", json={"message": QUESTION, "stream": True}).text
        [trace] = client.get("/traces").json()["traces"]
        calls = client.get(f"/traces/{trace['id']}").json()["tool_calls"]
    names = [line.removeprefix("event: ") for line in text.splitlines() if line.startswith("event: ")]
    assert (names[:3], names[-1]) == (["start", "tool", "tool_result"], "done")
    done = json.loads(text.rpartition("data: ")[2])["message"]
    assert (done["content"], done["citations"][0]["by"]) == ("The hedge is cut in August [1].", "ragkit")
    assert [(call["name"], call["by"]) for call in calls] == [("search_knowledge_base", "ragkit")]


def test_the_tool_ask_of_mcp_searches_first(base: Path) -> None:
    provider = ScriptedProvider(["The hedge is cut in August [1]."])
    with KnowledgeBaseWithProvider.open(base) as kb:
        kb.provider, kb.answer_search = provider, "first"
        result = asyncio.run(McpTools(kb).ask(QUESTION))
    assert "August [1]" in result.content
    assert PASSAGE in provider.requests[0].messages[-1].content
