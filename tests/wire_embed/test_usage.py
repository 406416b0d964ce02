"""The embedding usage of agent runs equals the count of the service, for one run and for a hundred concurrent runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from ragkit.agent.messages import Message, Role, ToolCall
from ragkit.agent.providers.base import Completion, ModelRequest
from ragkit.agent.providers.scripted import InstantProvider
from ragkit.agent.result import AgentResult
from ragkit.answer.agent import RAGAgent, RAGOptions
from ragkit.answer.passages import TOOL_NAME
from ragkit.records import Document
from ragkit.usage.pricing import PriceBook
from ragkit.usage.tokens import Tokens
from tests.wire_embed.conftest import ServiceUnderTest
from tests.wire_embed.dialects import EmbeddingRequest, tokens_of
from tests.wire_embed.server import Fault, Faults

Start = Callable[[str, Faults], ServiceUnderTest]
DOCUMENTS = [Document(f"Chapter {number} is about {animal}.") for number, animal in enumerate(("cats", "dogs", "owls"))]
LLM = Tokens(100, 10, cost_usd=0.002)


class SearchesOnce(InstantProvider):
    """Searches once per word of the question, then answers."""

    def complete(self, request: ModelRequest) -> Completion:
        """One search for each word, all in one turn; then the answer."""
        question = next(item.content for item in request.messages if item.role is Role.USER)
        if request.messages[-1].role is Role.TOOL:
            return Completion(Message.assistant("Found."), LLM)
        calls = [ToolCall(TOOL_NAME, {"query": f"{question} {word}"}) for word in question.split()]
        return Completion(Message.assistant("", tool_calls=tuple(calls)), LLM)


def tokens_of_run(question: str) -> int:
    return tokens_of([f"{question} {word}" for word in question.split()])


def sometimes_busy(number: int, request: EmbeddingRequest) -> Fault | None:
    """Every seventh request is rejected at first."""
    return Fault("status", 429, "slow down", {"Retry-After": "0"}) if number % 7 == 5 else None


def price(wire: ServiceUnderTest, model: str, bills: Sequence[int]) -> float:
    """The price of requests with these token counts."""
    if wire.service == "ollama":
        return 0.0
    prices = [PriceBook().embedding_cost(wire.service, model, tokens) for tokens in bills]
    return sum(item for item in prices if item is not None)


def test_the_first_run_reports_the_usage_counted_by_the_server(service: str, wire_of: Start) -> None:
    """What building the agent embedded, and what the run embedded: each once."""
    wire = wire_of(service, sometimes_busy)
    embedder = wire.embedder()
    agent = RAGAgent.from_documents(DOCUMENTS, SearchesOnce(), embedder=embedder, options=RAGOptions(search="model"))
    before = len(wire.server.bills)
    usage = agent.run("what is about owls").usage
    bills, of_run = wire.server.bills, wire.server.bills[before:]
    assert usage.embedding_tokens == sum(bills) > sum(of_run) >= tokens_of_run("what is about owls")
    assert usage.embedding_cost_usd == pytest.approx(price(wire, embedder.model, bills), rel=1e-9)
    assert (usage.prompt_tokens, usage.completion_tokens, usage.llm_cost_usd) == (200, 20, 0.004)
    assert usage.embedding_cost_usd is not None
    assert usage.total_cost_usd == pytest.approx(0.004 + usage.embedding_cost_usd, rel=1e-12)
    assert usage.by_tool[TOOL_NAME].stats.embedding_tokens == sum(of_run)
    assert usage.iterations[0].embedding_tokens == sum(of_run)


def test_an_extractive_answer_reports_the_usage_counted_by_the_server(service: str, wire_of: Start) -> None:
    wire = wire_of(service, sometimes_busy)
    agent = RAGAgent.from_documents(DOCUMENTS, embedder=wire.embedder())
    assert agent.run("which chapter is about owls?").usage.embedding_tokens == wire.server.tokens
    before = wire.server.tokens
    usage = agent.run("which chapter is about mice?").usage
    assert usage.embedding_tokens == wire.server.tokens - before >= tokens_of(["which chapter is about mice?"])


def test_a_hundred_concurrent_runs_report_their_own_usage_and_add_up_to_the_total(service: str, wire_of: Start) -> None:
    wire = wire_of(service, sometimes_busy)
    embedder = wire.embedder(concurrency=16)
    agent = RAGAgent.from_documents(DOCUMENTS, SearchesOnce(), embedder=embedder, options=RAGOptions(search="model"))
    agent.run("what is embedded once, for all runs, is embedded now")
    before, start = wire.server.tokens, Barrier(100)
    questions = [" ".join(["question", str(number), *["again"] * (number % 3)]) for number in range(100)]

    def run(question: str) -> AgentResult:
        start.wait()
        return agent.run(question)

    with ThreadPoolExecutor(100) as pool:
        results = list(pool.map(run, questions))
    usages = [result.usage for result in results]
    assert [usage.embedding_tokens for usage in usages] == [tokens_of_run(question) for question in questions]
    assert sum(usage.embedding_tokens for usage in usages) == wire.server.tokens - before
    bills = [[tokens_of([f"{question} {word}"]) for word in question.split()] for question in questions]
    costs = [price(wire, embedder.model, item) for item in bills]
    assert [usage.embedding_cost_usd for usage in usages] == pytest.approx(costs, rel=1e-9)
