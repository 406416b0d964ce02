"""A thousand concurrent runs of one agent: no run sees the messages, context, tool results or costs of another."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from ragkit.agent.agent import Agent
from ragkit.agent.messages import Role, ToolCall
from ragkit.agent.providers.base import Completion, ModelRequest
from ragkit.agent.providers.scripted import InstantProvider, ScriptedProvider
from ragkit.agent.result import AgentResult
from ragkit.agent.tools.base import ToolContext, tool
from ragkit.usage.meter import record_embedding

RUNS = 1000
Secrets = set[str]


def secrets_in(request: ModelRequest) -> Secrets:
    text = " ".join(message.content for message in request.messages if message.role is not Role.SYSTEM)
    return {word for word in text.replace("\n", " ").split() if word.startswith("secret-")}


class SecretProvider(InstantProvider):
    """Calls a tool once, then returns the secret in the request. Records every request without exactly one secret."""

    name = "keeper"

    def __init__(self) -> None:
        self.mixed_requests: list[Secrets] = []
        self.request_count = 0
        self._lock = threading.Lock()

    def complete(self, request: ModelRequest) -> Completion:
        seen = secrets_in(request)
        with self._lock:
            self.request_count += 1
            if len(seen) != 1:
                self.mixed_requests.append(seen)
        last = request.messages[-1]
        turn = min(seen) if last.role is Role.TOOL else ToolCall("look", {"n": len(request.messages)})
        return ScriptedProvider([turn]).complete(request)


@tool
def look(n: int, ctx: ToolContext) -> str:
    """Look."""
    secret = str(ctx.context["secret"])
    ctx.state["seen"] = secret
    record_embedding("e", int(secret.rpartition("-")[2]), 0.0)
    return f"{secret} after {n}"


@tool(name="look", description="Look.")
async def alook(n: int, ctx: ToolContext) -> str:
    await asyncio.sleep(0)
    return str(look(n, ctx))


def check(results: list[AgentResult], provider: SecretProvider) -> None:
    assert (provider.mixed_requests, provider.request_count) == ([], 2 * len(results))
    for number, result in enumerate(results):
        secret = f"secret-{number}"
        assert (result.content, result.state, result.context.data) == (secret, {"seen": secret}, {"secret": secret})
        assert (result.usage.embedding_tokens, result.usage.by_tool["look"].calls) == (number, 1)
        assert [message.content for message in result.messages if message.role is Role.TOOL] == [f"{secret} after 2"]
    assert len({result.run_id for result in results}) == len(results)


def build_input(number: int) -> tuple[str, dict[str, str]]:
    return f"mine is secret-{number}", {"secret": f"secret-{number}"}


def test_a_thousand_runs_in_threads_keep_their_secrets() -> None:
    provider = SecretProvider()
    agent = Agent(provider, [look])

    def run_one(number: int) -> AgentResult:
        words, context = build_input(number)
        return agent.run(words, context=context)

    with ThreadPoolExecutor(100) as pool:
        check(list(pool.map(run_one, range(RUNS))), provider)


@pytest.mark.parametrize("looking", [look, alook], ids=["tools in threads", "tools in tasks"])
def test_a_thousand_runs_in_tasks_keep_their_secrets(looking: Callable[..., object]) -> None:
    provider = SecretProvider()
    agent = Agent(provider, [looking])

    async def run_all() -> list[AgentResult]:
        runs = [build_input(number) for number in range(RUNS)]
        return await asyncio.gather(*(agent.arun(words, context=context) for words, context in runs))

    check(asyncio.run(run_all()), provider)


def test_batch_and_abatch_keep_the_secrets_of_a_thousand_inputs() -> None:
    class Echo(SecretProvider):
        def complete(self, request: ModelRequest) -> Completion:
            seen = secrets_in(request)
            with self._lock:
                self.request_count += 1
                if len(seen) != 1:
                    self.mixed_requests.append(seen)
            return ScriptedProvider([min(seen)]).complete(request)

    provider = Echo()
    agent = Agent(provider)
    inputs = [f"mine is secret-{number}" for number in range(RUNS)]
    expected = [f"secret-{number}" for number in range(RUNS)]
    assert [result.content for result in agent.batch(inputs, max_concurrency=50)] == expected
    assert [result.content for result in asyncio.run(agent.abatch(inputs, max_concurrency=200))] == expected
    assert (provider.mixed_requests, provider.request_count) == ([], 2 * RUNS)
