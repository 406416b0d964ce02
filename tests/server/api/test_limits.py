"""Limits: requests beyond them are rejected or end with an error."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import httpx2
import numpy as np
import pytest
from numpy.typing import NDArray

from ragkit.agent.messages import Message
from ragkit.agent.providers.base import Completion
from ragkit.agent.providers.scripted import ScriptedProvider
from ragkit.errors import InvalidOption
from ragkit.server.settings import ServerLimits, ServerSettings
from ragkit.usage.tokens import Tokens
from tests.server.parts import SEARCH, SECONDS, Served, StepProvider, events, limited, serving

ASK = {"message": "When?", "stream": True}


def code_of(response: httpx2.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


def metric_value(client: httpx2.Client, name: str) -> float:
    lines = client.get("/metrics").text.splitlines()
    return float(next(line.rpartition(" ")[2] for line in lines if line.startswith((f"{name} ", f"{name}{{"))))


def wait_until(condition: Callable[[], bool]) -> None:
    """Poll until the condition is true."""
    deadline = threading.Event()
    timer = threading.Timer(SECONDS, deadline.set)
    timer.start()
    try:
        while not condition():
            assert not deadline.wait(0.005), "the condition is still false"
    finally:
        timer.cancel()


def test_answers_wait_in_a_queue_with_a_limit(base: Path) -> None:
    provider = StepProvider(["word"])
    statuses: list[int] = []
    with serving(base, provider, limited(max_running=1, max_waiting=1)) as (served, client):
        with served.client() as first, first.stream("POST", "/chat", json=ASK) as stream:
            received = events(stream)
            assert next(received)[0] == "start"
            second = threading.Thread(target=lambda: statuses.append(_ask(served)))
            second.start()
            wait_until(lambda: metric_value(client, "ragkit_answers_waiting") == 1.0)
            assert metric_value(client, "ragkit_answers_running") == 1.0
            refused = client.post("/chat", json={"message": "When?"})
            assert code_of(refused) == (503, "overloaded")
            assert int(refused.headers["retry-after"]) > 0
            provider.steps.release(2)
            assert list(received)[-1][0] == "done"
        second.join(SECONDS)
        assert statuses == [200]
        wait_until(lambda: metric_value(client, "ragkit_answers_running") == 0.0)


def _ask(served: Served) -> int:
    with served.client() as client:
        return client.post("/chat", json={"message": "When?"}).status_code


def test_waiting_answers_time_out(base: Path) -> None:
    provider = StepProvider(["word"])
    with (
        serving(base, provider, limited(max_running=1, max_wait_seconds=0.1)) as (served, client),
        served.client() as first,
        first.stream("POST", "/chat", json=ASK) as stream,
    ):
        received = events(stream)
        assert next(received)[0] == "start"
        assert code_of(client.post("/chat", json={"message": "When?"})) == (503, "overloaded")
        provider.steps.release()
        assert list(received)[-1][0] == "done"


def test_an_answer_that_takes_too_long_ends(base: Path) -> None:
    provider = StepProvider(["word"])
    with serving(base, provider, limited(answer_seconds=0.2)) as (_, client):
        late = client.post("/chat", json={"message": "When?"})
        assert code_of(late) == (504, "timeout")
        assert late.headers["x-should-retry"] == "false"
        assert provider.closed.wait(SECONDS)


def test_an_answer_that_costs_too_much_ends(base: Path) -> None:
    expensive = Completion(Message.assistant("", [SEARCH]), Tokens(10, 10, cost_usd=1.0))
    with serving(base, ScriptedProvider([expensive, "never requested"])) as (_, client):
        refused = client.post("/chat", json={"message": "When?"})
        assert code_of(refused) == (402, "budget_exceeded")
        assert refused.headers["x-should-retry"] == "false"
        assert metric_value(client, "ragkit_cost_usd_total") == 1.0


def test_an_answer_may_take_ten_requests_to_the_model_unless_set_otherwise(base: Path) -> None:
    searches = [replace(SEARCH, id=f"call_{n}", arguments={"query": f"hedge {n}"}) for n in range(9)]
    with serving(base, ScriptedProvider([*searches, "In August [1]."])) as (_, client):
        answered = client.post("/chat", json={"message": "When?"}).json()
    assert answered["response"] == "In August [1]."
    assert (len(answered["trace"]["tool_calls"]), answered["trace"]["config"]["max_iterations"]) == (9, 10)
    with serving(base, ScriptedProvider([searches[0], "In August [1]."]), limited(max_iterations=2)) as (_, client):
        assert client.post("/chat", json={"message": "When?"}).json()["trace"]["config"]["max_iterations"] == 2


def test_requests_for_embeddings_leave_threads_for_the_rest(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running: list[int] = []
    most, lock, resume = [0], threading.Lock(), threading.Event()

    def slow(texts: Sequence[str]) -> NDArray[np.float32]:
        with lock:
            running.append(1)
            most[0] = max(most[0], len(running))
        assert resume.wait(SECONDS)
        with lock:
            running.pop()
        return embed(texts)

    def request() -> None:
        with served.client() as other:
            statuses.append(other.post("/v1/embeddings", json={"input": ["x"] * 100}).status_code)

    statuses: list[int] = []
    with serving(base) as (served, client):
        embedder = served.kb.components.embedder
        embed = embedder.embed_texts
        monkeypatch.setattr(embedder, "embed_texts", slow)
        threads = [threading.Thread(target=request) for _ in range(40)]  # more than there are threads in the server
        for thread in threads:
            thread.start()
        wait_until(lambda: len(running) == 1)
        assert client.get("/health", timeout=5).status_code == 200
        assert client.get("/documents", timeout=5).status_code == 200
        resume.set()
        for thread in threads:
            thread.join(SECONDS)
    assert statuses == [200] * 40
    assert most == [1]  # of one client; another one has a place


def test_bodies_and_questions_have_a_limit(base: Path) -> None:
    def pieces() -> Iterator[bytes]:
        for _ in range(3):
            yield b" " * 1000

    with serving(base, settings=limited(body_bytes=2000, question_chars=100)) as (_, client):
        assert code_of(client.post("/chat", content=b" " * 2001)) == (413, "request_too_large")
        assert code_of(client.post("/chat", content=pieces())) == (413, "request_too_large")
        assert code_of(client.post("/chat", json={"message": "x" * 101})) == (400, "too_long")
        assert code_of(client.post("/v1/search", json={"query": "x" * 101})) == (400, "too_long")
        messages = [{"role": "user", "content": "x" * 101}]
        assert code_of(client.post("/v1/chat/completions", json={"messages": messages})) == (400, "too_long")
        assert code_of(client.post("/v1/search", json={"query": "x", "top_k": 101})) == (400, "too_many")


def test_invalid_limits_are_rejected() -> None:
    with pytest.raises(InvalidOption, match=r"max_running must be > 0 \(got 0\)"):
        ServerLimits(max_running=0)
    with pytest.raises(InvalidOption, match=r"max_waiting must be >= 0 \(got -1\)"):
        ServerLimits(max_waiting=-1)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.2", "::", "example.org"])
def test_other_addresses_than_loopback_require_a_token(host: str) -> None:
    with pytest.raises(InvalidOption, match="RAGKIT_SERVER_TOKEN"):
        ServerSettings(host)
    assert ServerSettings(host, tokens=("long-enough-a-token",)).host == host
    with pytest.raises(InvalidOption, match="at least 16 printable ASCII characters"):
        ServerSettings(host, tokens=("short",))
