"""A question that was asked before costs nothing again, over the same documents and with the same rights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest

from ragkit.agent.messages import Message, ToolCall
from ragkit.agent.providers.base import Completion, ModelRequest
from ragkit.agent.providers.scripted import FunctionProvider
from ragkit.cli.commands.serve import create_application
from ragkit.index.access.rules import AccessSettings, User
from ragkit.index.access.tokens import create_token
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.settings import Pipeline
from ragkit.usage.tokens import Tokens
from tests.server.parts import Served, limited, serving

QUESTION = "When is the hedge cut?"
CITED = "It is cut in August [1]."
HASHING = "embed: {name: hashing, dimension: 64}\n"


class Counted:
    """A model that searches, then cites the first passage; each request costs a dollar."""

    def __init__(self) -> None:
        self.requests: list[ModelRequest] = []

    def complete(self, request: ModelRequest) -> Completion:
        self.requests.append(request)
        if not any(message.role == "tool" for message in request.messages[-1:]):
            call = ToolCall("search_knowledge_base", {"query": "hedge"}, f"call_{len(self.requests)}")
            return Completion(Message.assistant("", [call]), Tokens(5, 5, cost_usd=0.05), "tool_calls")
        return Completion(Message.assistant(CITED), Tokens(5, 5, cost_usd=0.05))


@pytest.fixture
def model() -> Counted:
    return Counted()


@pytest.fixture
def client(base: Path, model: Counted) -> Iterator[httpx2.Client]:
    with serving(base, FunctionProvider(model.complete), limited(cached_answers=64)) as (_, opened):
        yield opened


def ask(client: httpx2.Client, **options: Any) -> Mapping[str, Any]:
    response = client.post("/chat", json={"message": QUESTION, **options})
    assert response.status_code == 200, response.text
    result: dict[str, Any] = response.json()
    return result


def test_the_same_question_costs_nothing_again(client: httpx2.Client, model: Counted) -> None:
    first, again = ask(client), ask(client)
    assert len(model.requests) == 2
    assert again["response"] == first["response"] == CITED
    assert again["message"]["citations"] == first["message"]["citations"]
    assert again["trace_id"] != first["trace_id"]
    assert first["message"]["usage"]["total_cost_usd"] == pytest.approx(0.1)
    assert again["message"]["usage"]["total_cost_usd"] == 0
    assert again["message"]["usage"]["saved_cost_usd"] == pytest.approx(0.1)
    [span] = [s for s in client.get(f"/traces/{again['trace_id']}").json()["spans"] if s["type"] == "cache"]
    assert span["attributes"]["hit"] is True
    with client.stream("POST", "/v1/chat/completions", json={
        "model": "ragkit", "messages": [{"role": "user", "content": QUESTION}], "stream": True,
    }) as stream:  # fmt: skip
        assert "cut in August" in "".join(stream.iter_text())
    assert len(model.requests) == 2


def test_a_conversation_a_filter_or_another_option_is_another_question(client: httpx2.Client, model: Counted) -> None:
    session = ask(client)["session_id"]
    calls = 2
    others = ({"session_id": session}, {"top_k": 1}, {"where": "year > 2000"})
    for other in others:
        ask(client, **other)
        calls += 2
        assert len(model.requests) == calls, other
    ask(client)
    assert len(model.requests) == calls


def test_to_ask_again_in_a_session_is_to_want_another_answer(client: httpx2.Client, model: Counted) -> None:
    first = ask(client)
    ask(client, session_id=first["session_id"], replace=first["trace_id"])
    assert len(model.requests) == 4


def test_tools_of_the_caller_and_a_temperature_are_not_answered_from_memory(
    client: httpx2.Client, model: Counted
) -> None:
    tool = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}
    messages = [{"role": "user", "content": QUESTION}]
    for body in ({"tools": [tool]}, {"temperature": 0.7}):
        before = len(model.requests)
        for _ in range(2):
            reply = client.post("/v1/chat/completions", json={"model": "ragkit", "messages": messages, **body})
            assert reply.status_code == 200, reply.text
        assert len(model.requests) == before + 4, body


def test_without_a_cache_each_question_is_answered_anew(base: Path, model: Counted) -> None:
    with serving(base, FunctionProvider(model.complete), limited(cached_answers=0)) as (_, client):
        ask(client)
        ask(client)
    assert len(model.requests) == 4


def test_a_change_of_the_documents_is_answered_anew_and_a_changed_file_is_said(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "hedge.md").write_text("# Garden\n\nThe hedge is cut in August.\n")
    KnowledgeBase.open(tmp_path / "kb", Pipeline.from_yaml(HASHING)).index(docs)
    with serving(tmp_path / "kb", settings=limited(cached_answers=64)) as (served, client):
        assert "August" in ask(client)["response"]
        (docs / "hedge.md").write_text("# Garden\n\nThe hedge is cut in January.\n")
        again = ask(client)
        assert "August" in again["response"]
        assert [citation["stale"] for citation in again["message"]["citations"]] == [True]
        with KnowledgeBase(served.kb.location.reopen(), served.kb.pipeline, served.kb.components) as writer:
            writer.index(docs)
        assert "January" in ask(client)["response"]


def test_an_answer_is_given_again_only_to_those_who_may_read_the_same(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "open.md").write_text("# Hedge\n\nThe hedge is cut by the gardeners.\n")
    (docs / "plan.md").write_text("---\naccess: [group:board]\n---\n# Hedge\n\nThe hedge is cut in August.\n")
    with KnowledgeBase.open(tmp_path / "kb", Pipeline.from_yaml(HASHING)) as kb:
        kb.index(docs)
        tokens, settings = {}, AccessSettings()
        for name, groups in (("ann", ("board",)), ("bea", ("board", "x")), ("cal", ()), ("dan", ())):
            tokens[name], digest = create_token()
            settings = settings.with_user(User(name, groups, "reader", (digest,)))
        kb.location.access.update(lambda _: settings)
        chosen = limited(cached_answers=64)
        served = Served(kb, chosen, create_application({"": kb}, chosen))
        try:
            said, is_cached = {}, {}
            for name in ("ann", "cal", "bea", "dan"):
                with served.client(headers={"authorization": f"Bearer {tokens[name]}"}) as client:
                    result = ask(client)
                    said[name] = result["response"]
                    spans = client.get(f"/traces/{result['trace_id']}").json()["spans"]
                    is_cached[name] = any(span["name"] == "answer cache" for span in spans)
            assert "August" in said["ann"] and "August" in said["bea"]
            assert "August" not in said["cal"] + said["dan"]
            assert is_cached == {"ann": False, "cal": False, "bea": True, "dan": True}
            kb.location.access.update(lambda known: known.with_rule("plan.md", ["user:ann"]))
            with served.client(headers={"authorization": f"Bearer {tokens['bea']}"}) as client:
                assert "August" not in ask(client)["response"]
        finally:
            served.stop()
