"""Long conversations of clients that send the whole history with each question."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ragkit.agent.messages import Role
from ragkit.agent.providers.scripted import ScriptedProvider
from tests.server.parts import limited, serving

HEDGE = "When is the hedge cut?"


def conversation(turns: int, characters: int) -> list[dict[str, Any]]:
    """Questions and answers of so many characters together, and another question."""
    size = characters // (2 * turns)
    words = ("The lawn is mown on Fridays and the boiler is swept in May. " * (size // 60 + 1))[: size - 4]
    roles = ("user", "assistant")
    return [{"role": role, "content": f"{n:03} {words}"} for n in range(turns) for role in roles] + [
        {"role": "user", "content": HEDGE}
    ]


@pytest.mark.parametrize("characters", [24_000, 400_000])
def test_a_conversation_of_forty_turns_is_answered(base: Path, characters: int) -> None:
    messages = conversation(40, characters)
    system = {"role": "system", "content": "Answer as a gardener would. " * 1_000}
    with serving(base) as (_, client):
        for sent in (messages, [system, *messages]):
            completion = client.post("/v1/chat/completions", json={"messages": sent})
            assert completion.status_code == 200, completion.text
            assert completion.json()["choices"][0]["message"]["content"].startswith("The hedge is cut in August.")
        response = client.post("/v1/responses", json={"input": messages, "store": False})
        assert response.status_code == 200, response.text
        assert response.json()["output"][0]["content"][0]["text"].startswith("The hedge is cut in August.")
        chat = client.post("/chat", json={"messages": messages})
        assert chat.status_code == 200, chat.text
        assert chat.json()["response"].startswith("The hedge is cut in August.")


def test_a_model_is_shown_as_much_of_the_conversation_as_its_window_holds(base: Path) -> None:
    small, large = ScriptedProvider(["August."]), ScriptedProvider(["August."])
    small.context_window, large.context_window = 8_000, 200_000
    messages = conversation(40, 400_000)
    shown = []
    for provider in (small, large):
        with serving(base, provider) as (_, client):
            completion = client.post("/v1/chat/completions", json={"messages": messages})
        assert completion.json()["choices"][0]["message"]["content"] == "August."
        [request] = provider.requests
        shown.append([message for message in request.messages if message.role is not Role.SYSTEM])
    assert len(shown[1]) == 81
    assert 1 <= len(shown[0]) < 10
    assert sum(len(message.content) for message in shown[0]) < 8_000 * 4
    assert shown[0][-1].content.endswith(HEDGE)
    assert "left out" in shown[0][0].content


def test_a_question_has_a_limit_and_a_history_has_none(base: Path) -> None:
    long = {"role": "user", "content": "x" * 101}
    short = [long, {"role": "assistant", "content": "y" * 500}, {"role": "user", "content": HEDGE}]
    with serving(base, settings=limited(question_chars=100)) as (_, client):
        assert client.post("/v1/chat/completions", json={"messages": short}).status_code == 200
        for path, body in {
            "/v1/chat/completions": {"messages": [long]},
            "/v1/responses": {"input": "x" * 101},
            "/v1/completions": {"prompt": "x" * 101},
            "/chat": {"messages": [long]},
        }.items():
            refused = client.post(path, json=body)
            assert refused.status_code == 400, path
            error = refused.json()["error"]
            assert error["code"] == "too_long"
            assert "at most 100 characters (got 101)" in error["message"]
            assert "--max-question" in error["message"]
