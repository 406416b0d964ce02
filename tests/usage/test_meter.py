"""The meter: what is counted, for whom, and where."""

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
    "by_tool",
    "iterations",
]


def test_usage_has_exactly_the_keys_that_are_promised() -> None:
    assert list(Meter().usage().to_dict()) == KEYS


def test_the_total_is_llm_cost_and_embedding_cost() -> None:
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


def test_one_unknown_price_makes_the_sum_unknown_and_only_that_sum() -> None:
    meter = Meter()
    meter.record_chat("local", "m", Tokens(1, 1, cost_usd=0.5))
    with use_meter(meter):
        record_embedding("nobody knows", 40, None)
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


def test_what_a_tool_spends_is_counted_for_the_tool_and_the_iteration() -> None:
    meter = Meter()
    meter.record_chat("local", "m", Tokens(10, 1, cost_usd=1.0), iteration=1)
    with use_meter(meter, iteration=1, tool="search"):
        record_embedding("e", 5, 2.0)
    meter.record_tool_execution("search")
    meter.begin_iteration(2)
    usage = meter.usage()
    spent = UsageStats(embedding_tokens=5, embedding_cost_usd=2.0)
    assert usage.by_tool == {"search": ToolUsage(1, spent)}
    assert usage.iterations == (UsageStats(10, 1, 5, 0, 1.0, 2.0), UsageStats())


def test_an_answer_from_the_cache_costs_nothing_and_says_what_it_saved() -> None:
    meter = Meter()
    meter.record_cache_hit("local", "m", Tokens(100, 20, cost_usd=0.5), iteration=1)
    usage = meter.usage()
    assert (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens) == (0, 0, 120)
    assert (usage.total_cost_usd, usage.saved_cost_usd) == (0.0, 0.5)


def test_nothing_is_counted_where_no_meter_counts() -> None:
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


def test_a_meter_inside_another_reports_to_it_too() -> None:
    outer = Meter()
    with use_meter(outer, iteration=3, tool="ask_expert"):
        inner = Meter()
        inner.record_chat("local", "m", Tokens(10, 2, cost_usd=0.5), iteration=1)
    assert inner.usage().prompt_tokens == 10
    assert outer.usage().by_tool["ask_expert"].stats.llm_cost_usd == 0.5
    assert [one.prompt_tokens for one in outer.usage().iterations] == [0, 0, 10]


def test_the_calls_are_kept_with_who_made_them() -> None:
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


def test_usage_survives_being_written_as_json() -> None:
    meter = Meter()
    meter.record_chat("local", "m", Tokens(10, 1, cost_usd=None), iteration=1)
    with use_meter(meter, iteration=1, tool="search"):
        record_embedding("e", 5, 2.0)
    usage = meter.usage()
    assert AgentUsage.from_dict(json.loads(json.dumps(usage.to_dict()))) == usage


def test_a_meter_goes_on_from_what_was_used_before() -> None:
    first = Meter()
    first.record_chat("local", "m", Tokens(10, 1, cost_usd=1.0), iteration=1)
    second = Meter()
    second.restore(first.usage())
    second.record_chat("local", "m", Tokens(5, 1, cost_usd=0.5), iteration=2)
    assert (second.usage().prompt_tokens, second.usage().total_cost_usd, second.known_cost_usd) == (15, 1.5, 1.5)
    assert [one.prompt_tokens for one in second.usage().iterations] == [10, 5]


def test_many_threads_report_to_one_meter_and_nothing_is_lost() -> None:
    with use_meter(Meter()) as meter, ThreadPoolExecutor(8) as pool:
        for _ in range(400):
            pool.submit(copy_context().run, record_embedding, "e", 3, 0.5)
    assert (meter.usage().embedding_tokens, meter.usage().embedding_cost_usd) == (1200, 200.0)


def test_tasks_each_report_to_the_meter_of_their_own() -> None:
    async def one(number: int) -> int:
        with use_meter(Meter()) as meter:
            await asyncio.sleep(0)
            record_embedding("e", number, 0.0)
            await asyncio.gather(asyncio.to_thread(record_embedding, "e", number, 0.0))
        return meter.usage().embedding_tokens

    async def everyone() -> list[int]:
        return await asyncio.gather(*(one(number) for number in range(50)))

    assert asyncio.run(everyone()) == [2 * number for number in range(50)]


def test_a_price_that_is_not_given_is_looked_up() -> None:
    with use_meter(Meter()) as meter:
        record_embedding("text-embedding-3-small", 1_000_000, None, provider="openai")
        record_rerank("rerank-v3.5", None, provider="cohere", searches=1000)
    assert meter.usage().embedding_cost_usd == pytest.approx(0.02 + 2.0)


def test_a_budget_is_spent_when_it_is_reached_and_not_before() -> None:
    meter = Meter(budget_usd=1.0)
    meter.check_budget()
    meter.record_chat("local", "m", Tokens(1, cost_usd=0.75))
    meter.check_budget()
    assert meter.remaining_usd == 0.25
    meter.record_chat("local", "m", Tokens(1, cost_usd=0.5))
    with pytest.raises(BudgetExceeded, match=r"budget of 1 USD exceeded .1.25 spent."):
        meter.check_budget()
    assert meter.remaining_usd == 0.0


def test_a_budget_of_nothing_stops_nothing_that_costs_nothing() -> None:
    meter = Meter(budget_usd=0.0)
    meter.record_chat("local", "m", Tokens(5, cost_usd=0.0))
    meter.check_budget()


def test_the_budget_around_a_run_holds_inside_it() -> None:
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


def test_a_call_is_told_once_however_many_meters_count_it() -> None:
    told: list[tuple[str, MeteredCall]] = []
    with use_meter(Meter(on_call=lambda call: told.append(("outer", call)))):
        middle = Meter()
        assert middle.has_call_listener
        with use_meter(middle, tool="expert"):
            inner = Meter(on_call=lambda call: told.append(("inner", call)))
            with use_meter(inner, tool="search"):
                record_embedding("e", 5, 1.0)
        middle.record_chat("local", "m", Tokens(1, cost_usd=0.0))
    assert [(who, call.kind, call.tool) for who, call in told] == [
        ("inner", "embedding", "search"),
        ("outer", "chat", ""),
    ]


def test_what_a_run_inside_a_plain_meter_does_keeps_its_tools() -> None:
    with use_meter(Meter()) as outer:
        run = Meter()
        with use_meter(run, iteration=1, tool="search"):
            record_embedding("e", 5, 1.0)
        run.record_tool_execution("search")
    assert outer.usage().by_tool == run.usage().by_tool == {"search": ToolUsage(1, UsageStats(0, 0, 5, 0, 0.0, 1.0))}
    assert (len(outer.usage().iterations), len(run.usage().iterations)) == (0, 1)


def test_threads_of_many_runs_at_once_are_counted_each_for_its_own_and_all_for_the_outer() -> None:
    def one(number: int) -> tuple[int, float]:
        with use_meter(Meter()) as meter, ThreadPoolExecutor(3) as pool:
            for _ in range(5):
                pool.submit(copy_context().run, record_embedding, "e", number, number / 1000)
        return meter.usage().embedding_tokens, meter.known_cost_usd

    with use_meter(Meter()) as outer, ThreadPoolExecutor(20) as pool:
        found = [future.result() for future in [pool.submit(copy_context().run, one, n) for n in range(100)]]
    assert [tokens for tokens, _ in found] == [5 * number for number in range(100)]
    assert outer.usage().embedding_tokens == 5 * sum(range(100))
    assert outer.known_cost_usd == pytest.approx(sum(cost for _, cost in found))
