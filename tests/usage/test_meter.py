"""The meter: counts per tool, iteration and run; nested meters and budgets."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

import pytest

from ragkit.errors import BudgetExceeded
from ragkit.usage.limits import Limits
from ragkit.usage.meter import (
    AgentUsage,
    Meter,
    MeteredCall,
    ToolUsage,
    UsageStats,
    current_meter,
    record_chat,
    record_embedding,
    record_rerank,
    use_meter,
)
from ragkit.usage.tokens import Tokens

KEYS = [
    "prompt_tokens",
    "completion_tokens",
    "embedding_tokens",
    "cached_tokens",
    "llm_cost_usd",
    "embedding_cost_usd",
    "total_cost_usd",
    "saved_cost_usd",
    "by_model",
    "by_tool",
    "iterations",
]


def test_usage_has_exactly_the_documented_keys() -> None:
    assert list(Meter().usage().to_dict()) == KEYS


def test_the_total_is_the_sum_of_llm_and_embedding_cost() -> None:
    meter = Meter()
    meter.record_chat("local", "m", Tokens(100, 20, 30, cost_usd=0.5))
    with use_meter(meter):
        record_embedding("e", 40, 0.25)
        record_rerank("r", 0.125)
    usage = meter.usage()
    assert (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens, usage.embedding_tokens) == (
        100,
        20,
        30,
        40,
    )
    assert (usage.llm_cost_usd, usage.embedding_cost_usd, usage.total_cost_usd) == (0.5, 0.375, 0.875)


def test_an_unknown_price_makes_only_its_sums_unknown() -> None:
    meter = Meter()
    meter.record_chat("local", "m", Tokens(1, 1, cost_usd=0.5))
    with use_meter(meter):
        record_embedding("unknown-model", 40, None)
    usage = meter.usage()
    assert (usage.llm_cost_usd, usage.embedding_cost_usd, usage.total_cost_usd) == (0.5, None, None)
    assert meter.known_cost_usd == 0.5


def test_the_cost_of_a_call_without_usage_is_unknown() -> None:
    meter = Meter()
    assert meter.record_chat("openai", "gpt-4o-mini", Tokens(1000, 10)).llm_cost_usd == pytest.approx(0.000156)
    assert meter.record_chat("openai", "gpt-4o-mini", Tokens()).llm_cost_usd is None
    assert (meter.usage().llm_cost_usd, meter.usage().total_cost_usd) == (None, None)
    assert meter.record_chat("ollama", "llama3", Tokens()).llm_cost_usd == 0.0
    assert meter.record_chat("openai", "gpt-4o-mini", Tokens(cost_usd=0.5)).llm_cost_usd == 0.5


def test_a_local_model_costs_nothing() -> None:
    with use_meter(Meter()) as meter:
        record_embedding("minilm", 9, 0.0, provider="local")
    assert meter.usage().total_cost_usd == 0.0


def test_usage_of_a_tool_is_counted_for_the_tool_and_the_iteration() -> None:
    meter = Meter()
    meter.record_chat("local", "m", Tokens(10, 1, cost_usd=1.0), iteration=1)
    with use_meter(meter, iteration=1, tool="search"):
        record_embedding("e", 5, 2.0)
    meter.record_tool_execution("search")
    meter.begin_iteration(2)
    usage = meter.usage()
    expected = UsageStats(embedding_tokens=5, embedding_cost_usd=2.0)
    assert usage.by_tool == {"search": ToolUsage(1, expected)}
    assert usage.iterations == (UsageStats(10, 1, 5, 0, 1.0, 2.0), UsageStats())


def test_a_cache_hit_costs_nothing_and_reports_the_saved_cost() -> None:
    meter = Meter()
    meter.record_cache_hit("local", "m", Tokens(100, 20, cost_usd=0.5), iteration=1)
    usage = meter.usage()
    assert (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens) == (0, 0, 120)
    assert (usage.total_cost_usd, usage.saved_cost_usd) == (0.0, 0.5)


def test_without_a_meter_nothing_is_counted() -> None:
    record_embedding("e", 5, 1.0)
    record_rerank("r", 1.0)
    assert record_chat("p", "m", Tokens(1, 1)) is None
    assert current_meter() is None


def test_a_chat_inside_a_tool_is_priced_and_counted_for_the_tool() -> None:
    with use_meter(Meter(), tool="summarise") as meter:
        stats = record_chat("openai", "gpt-4o-mini", Tokens(1_000_000, 0))
    assert stats is not None
    assert stats.llm_cost_usd == 0.15
    assert meter.usage().by_tool["summarise"].stats == stats


def test_an_inner_meter_also_reports_to_the_outer_one() -> None:
    outer = Meter()
    with use_meter(outer, iteration=3, tool="ask_expert"):
        inner = Meter()
        inner.record_chat("local", "m", Tokens(10, 2, cost_usd=0.5), iteration=1)
    assert inner.usage().prompt_tokens == 10
    assert outer.usage().by_tool["ask_expert"].stats.llm_cost_usd == 0.5
    assert [stats.prompt_tokens for stats in outer.usage().iterations] == [0, 0, 10]


def test_calls_are_stored_with_their_tool_and_iteration() -> None:
    with use_meter(Meter(), iteration=2, tool="search") as meter:
        record_embedding("e", 5, 1.0, provider="openai")
    [call] = meter.calls
    assert (call.kind, call.provider, call.model, call.tool, call.iteration) == (
        "embedding",
        "openai",
        "e",
        "search",
        2,
    )
    assert call.at > 1.7e9


def test_usage_round_trips_through_json() -> None:
    meter = Meter()
    meter.record_chat("local", "m", Tokens(10, 1, cost_usd=None), iteration=1)
    with use_meter(meter, iteration=1, tool="search"):
        record_embedding("e", 5, 2.0)
    usage = meter.usage()
    assert AgentUsage.from_dict(json.loads(json.dumps(usage.to_dict()))) == usage


def test_a_restored_meter_adds_to_earlier_usage() -> None:
    first = Meter()
    first.record_chat("local", "m", Tokens(10, 1, cost_usd=1.0), iteration=1)
    second = Meter()
    second.restore(first.usage())
    second.record_chat("local", "m", Tokens(5, 1, cost_usd=0.5), iteration=2)
    assert (second.usage().prompt_tokens, second.usage().total_cost_usd, second.known_cost_usd) == (15, 1.5, 1.5)
    assert [stats.prompt_tokens for stats in second.usage().iterations] == [10, 5]


def test_one_meter_counts_the_calls_of_all_threads() -> None:
    with use_meter(Meter()) as meter, ThreadPoolExecutor(8) as pool:
        for _ in range(400):
            pool.submit(copy_context().run, record_embedding, "e", 3, 0.5)
    assert (meter.usage().embedding_tokens, meter.usage().embedding_cost_usd) == (1200, 200.0)


def test_each_task_reports_to_its_own_meter() -> None:
    async def record(number: int) -> int:
        with use_meter(Meter()) as meter:
            await asyncio.sleep(0)
            record_embedding("e", number, 0.0)
            await asyncio.gather(asyncio.to_thread(record_embedding, "e", number, 0.0))
        return meter.usage().embedding_tokens

    async def record_all() -> list[int]:
        return await asyncio.gather(*(record(number) for number in range(50)))

    assert asyncio.run(record_all()) == [2 * number for number in range(50)]


def test_a_missing_price_is_looked_up() -> None:
    with use_meter(Meter()) as meter:
        record_embedding("text-embedding-3-small", 1_000_000, None, provider="openai")
        record_rerank("rerank-v3.5", None, provider="cohere", searches=1000)
    assert meter.usage().embedding_cost_usd == pytest.approx(0.02 + 2.0)


def test_the_budget_check_fails_when_the_budget_is_reached() -> None:
    meter = Meter(budget_usd=1.0)
    meter.check_budget()
    meter.record_chat("local", "m", Tokens(1, cost_usd=0.75))
    meter.check_budget()
    assert meter.remaining_usd == 0.25
    meter.record_chat("local", "m", Tokens(1, cost_usd=0.5))
    with pytest.raises(BudgetExceeded, match=r"budget of 1 USD exceeded .1.25 spent."):
        meter.check_budget()
    assert meter.remaining_usd == 0.0


def test_a_budget_of_zero_allows_free_calls() -> None:
    meter = Meter(budget_usd=0.0)
    meter.record_chat("local", "m", Tokens(5, cost_usd=0.0))
    meter.check_budget()


def test_the_budget_of_an_outer_meter_applies_to_inner_ones() -> None:
    with use_meter(Meter(budget_usd=1.0)):
        inner = Meter(budget_usd=9.0)
        inner.record_chat("local", "m", Tokens(1, cost_usd=0.75))
        assert inner.remaining_usd == 0.25
        inner.record_chat("local", "m", Tokens(1, cost_usd=0.25))
        with pytest.raises(BudgetExceeded, match="budget of 1 USD"):
            inner.check_budget()
        with pytest.raises(BudgetExceeded, match="budget of 1 USD"):
            Limits().check(inner, 0.0)
    assert Meter().remaining_usd is None


def test_each_call_is_passed_to_one_listener_with_nested_meters() -> None:
    calls: list[tuple[str, MeteredCall]] = []
    with use_meter(Meter(on_call=lambda call: calls.append(("outer", call)))):
        middle = Meter()
        assert middle.has_call_listener
        with use_meter(middle, tool="expert"):
            inner = Meter(on_call=lambda call: calls.append(("inner", call)))
            with use_meter(inner, tool="search"):
                record_embedding("e", 5, 1.0)
        middle.record_chat("local", "m", Tokens(1, cost_usd=0.0))
    assert [(name, call.kind, call.tool) for name, call in calls] == [
        ("inner", "embedding", "search"),
        ("outer", "chat", ""),
    ]


def test_tools_of_an_inner_run_are_kept_by_the_outer_meter() -> None:
    with use_meter(Meter()) as outer:
        run = Meter()
        with use_meter(run, iteration=1, tool="search"):
            record_embedding("e", 5, 1.0)
        run.record_tool_execution("search")
    assert outer.usage().by_tool == run.usage().by_tool == {"search": ToolUsage(1, UsageStats(0, 0, 5, 0, 0.0, 1.0))}
    assert (len(outer.usage().iterations), len(run.usage().iterations)) == (0, 1)


def test_concurrent_runs_are_counted_separately_and_in_total() -> None:
    def record(number: int) -> tuple[int, float]:
        with use_meter(Meter()) as meter, ThreadPoolExecutor(3) as pool:
            for _ in range(5):
                pool.submit(copy_context().run, record_embedding, "e", number, number / 1000)
        return meter.usage().embedding_tokens, meter.known_cost_usd

    with use_meter(Meter()) as outer, ThreadPoolExecutor(20) as pool:
        results = [future.result() for future in [pool.submit(copy_context().run, record, n) for n in range(100)]]
    assert [tokens for tokens, _ in results] == [5 * number for number in range(100)]
    assert outer.usage().embedding_tokens == 5 * sum(range(100))
    assert outer.known_cost_usd == pytest.approx(sum(cost for _, cost in results))
