"""The response cache: in memory and in a real Redis server."""

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragkit.agent.agent import Agent
from ragkit.agent.cache.base import CacheKeyBuilder, CacheStats, InMemoryCache
from ragkit.agent.cache.disk import DiskCache
from ragkit.agent.cache.redis import CacheUnreachable, RedisCache
from ragkit.agent.events import ModelCallEnded
from ragkit.agent.loop.config import AgentConfig
from ragkit.agent.memory.memory import ConversationMemory
from ragkit.agent.messages import Image, Message, Role, ToolCall
from ragkit.agent.providers.base import Completion, ModelRequest, ModelSettings
from ragkit.agent.providers.scripted import ScriptedProvider, ScriptExhausted
from ragkit.agent.tracing.trace import StepType
from ragkit.errors import InvalidOption, KnowledgeBaseDamaged
from ragkit.usage.meter import UsageStats
from ragkit.usage.tokens import Tokens
from tests.agent.parts import add, call, fail, final_result, scripted

CountedCache = InMemoryCache | DiskCache | RedisCache


@pytest.fixture(params=["memory", "disk", "redis"])
def cache(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[CountedCache]:
    if request.param == "memory":
        yield InMemoryCache()
        return
    if request.param == "disk":
        with DiskCache(tmp_path / "deep" / "answers.sqlite") as disk:
            yield disk
        return
    client = RedisCache(request.getfixturevalue("redis_url"))
    client.clear()
    yield client
    client.close()


FULL = Completion(
    Message(Role.ASSISTANT, "words", (ToolCall("t", {"a": [1, None]}, "c1"),), provider_state={"s": "x"}),
    Tokens(10, 5, 3, 2, 0.25),
    "tool_calls",
    "the-model",
    "the-provider",
)


def test_what_was_stored_is_found_and_counted(cache: CountedCache) -> None:
    assert cache.get("k") is None
    cache.set("k", FULL)
    assert cache.get("k") == FULL
    assert cache.stats == CacheStats(hits=1, misses=1, evictions=0, size=1)
    assert cache.stats.hit_rate == 0.5


def test_clear_removes_entries_and_resets_counters(cache: CountedCache) -> None:
    cache.set("k", FULL)
    cache.get("k")
    cache.clear()
    assert cache.stats == CacheStats()
    assert CacheStats().hit_rate == 0.0


def test_the_second_identical_call_is_a_hit(cache: CountedCache) -> None:
    provider = ScriptedProvider(["hello"])
    agent = Agent(provider, config=AgentConfig(cache=cache), memory=ConversationMemory())
    first = agent.run([Message(role=Role.USER, content="Hello")])
    agent.reset()
    second = agent.run([Message(role=Role.USER, content="Hello")])
    assert (first.content, second.content, provider.remaining) == ("hello", "hello", 0)
    assert (cache.stats.hits, cache.stats.misses) == (1, 1)


def test_a_whole_run_with_tools_is_answered_from_the_cache(cache: CountedCache) -> None:
    provider = ScriptedProvider([ToolCall("add", {"a": 1, "b": 2}), "three"])
    agent = Agent(provider, [add], config=AgentConfig(cache=cache))
    assert [agent.run("1 + 2?").content for _ in range(3)] == ["three"] * 3
    assert (provider.remaining, cache.stats.hits) == (0, 4)


def test_a_hit_costs_nothing_counts_as_cached_and_reports_the_saved_cost() -> None:
    turn = Completion(Message.assistant("hello"), Tokens(100, 20, cost_usd=0.5))
    agent = Agent(ScriptedProvider([turn]), config=AgentConfig(cache=InMemoryCache()))
    first, second = agent.run("x").usage, agent.run("x").usage
    assert (first.prompt_tokens, first.cached_tokens, first.total_cost_usd, first.saved_cost_usd) == (100, 0, 0.5, 0.0)
    assert (second.prompt_tokens, second.cached_tokens, second.total_cost_usd) == (0, 120, 0.0)
    assert second.saved_cost_usd == 0.5


def test_the_trace_and_the_observers_report_a_hit() -> None:
    agent = Agent(ScriptedProvider(["hello"]), config=AgentConfig(cache=InMemoryCache()))
    agent.run("x")
    result = agent.run("x")
    assert [span.attributes for span in result.trace.find_spans(StepType.CACHE)] == [{"hit": True}]
    assert result.trace.find_spans(StepType.LLM_CALL) == []


def test_a_streamed_run_neither_reads_nor_writes_the_cache() -> None:
    cache = InMemoryCache()
    agent = Agent(ScriptedProvider(["one", "two"]), config=AgentConfig(cache=cache))
    assert [final_result(list(agent.stream("x"))).content for _ in range(2)] == ["one", "two"]
    assert cache.stats == CacheStats()


def test_a_failed_request_is_not_stored() -> None:
    cache = InMemoryCache()
    agent = Agent(ScriptedProvider([RuntimeError("boom"), "fine"]), config=AgentConfig(cache=cache))
    with pytest.raises(RuntimeError, match="boom"):
        agent.run("x")
    assert agent.run("x").content == "fine"


BASE = ModelRequest("m", (Message.system("s"), Message.user("u")), (add,), ModelSettings())


@pytest.mark.parametrize(
    "change",
    [
        lambda: replace(BASE, model="other"),
        lambda: replace(BASE, messages=(Message.system("other"), Message.user("u"))),
        lambda: replace(BASE, messages=(Message.system("s"), Message.user("other"))),
        lambda: replace(BASE, messages=(Message.system("s"), Message(Role.USER, "u", images=(Image("QQ=="),)))),
        lambda: replace(BASE, messages=(Message.system("s"), Message.user("u"), Message.assistant("", [call("add")]))),
        lambda: replace(BASE, tools=(fail,)),
        lambda: replace(BASE, tools=()),
        lambda: replace(BASE, settings=ModelSettings(temperature=0.1)),
        lambda: replace(BASE, settings=ModelSettings(top_p=0.1)),
        lambda: replace(BASE, settings=ModelSettings(max_tokens=1)),
        lambda: replace(BASE, settings=ModelSettings(response_schema={"type": "object"})),
    ],
)
def test_everything_that_matters_changes_the_key(change: Callable[[], ModelRequest]) -> None:
    key = CacheKeyBuilder.build("p", BASE)
    assert len(key) == 64
    assert CacheKeyBuilder.build("p", change()) != key
    assert CacheKeyBuilder.build("q", BASE) != key


def test_the_ids_of_calls_do_not_change_the_key() -> None:
    def build_request(call_id: str) -> ModelRequest:
        result = Message(Role.TOOL, "3", tool_call_id=call_id, name="add")
        return replace(BASE, messages=(*BASE.messages, Message.assistant("", [call("add", call_id, a=1)]), result))

    assert CacheKeyBuilder.build("p", build_request("c1")) == CacheKeyBuilder.build("p", build_request("c2"))


def test_the_least_recently_used_entry_is_evicted_first() -> None:
    cache = InMemoryCache(max_size=2)
    cache.set("a", FULL)
    cache.set("b", FULL)
    cache.get("a")
    cache.set("c", FULL)
    assert [cache.get(key) is not None for key in "abc"] == [True, False, True]
    assert (cache.stats.evictions, cache.stats.size) == (1, 2)


def test_an_entry_expires_after_its_time_to_live() -> None:
    now = [0.0]
    cache = InMemoryCache(max_size=500, default_ttl=600, clock=lambda: now[0])
    cache.set("k", FULL)
    now[0] = 599.9
    assert cache.get("k") == FULL
    now[0] = 600.0
    assert cache.get("k") is None
    assert (cache.stats.evictions, cache.stats.size) == (1, 0)


def test_a_cache_without_a_time_to_live_keeps_its_entries() -> None:
    now = [0.0]
    cache = InMemoryCache(default_ttl=None, clock=lambda: now[0])
    cache.set("k", FULL)
    now[0] = 1e12
    assert cache.get("k") == FULL


def test_a_cache_of_size_zero_is_rejected() -> None:
    with pytest.raises(InvalidOption, match="max_size must be >= 1"):
        InMemoryCache(max_size=0)


def test_threads_may_use_one_cache() -> None:
    cache = InMemoryCache(max_size=10)

    def set_and_get(number: int) -> None:
        cache.set(str(number % 20), FULL)
        cache.get(str(number % 20))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(set_and_get, range(2000)))
    stats = cache.stats
    assert (stats.hits + stats.misses, stats.size) == (2000, 10)


def test_a_second_process_finds_what_the_first_stored(redis_url: str) -> None:
    first, second = RedisCache(redis_url, prefix="two:"), RedisCache(redis_url, prefix="two:")
    first.set("k", FULL)
    assert second.get("k") == FULL
    for client in (first, second):
        client.close()


def test_redis_stores_a_pair_of_a_message_and_its_usage(redis_url: str) -> None:
    cache = RedisCache(redis_url, prefix="pair:")
    for usage in (UsageStats(10, 5, cached_tokens=3, llm_cost_usd=0.25), Tokens(10, 5, 3, 0, 0.25)):
        cache.set("k", (Message.assistant("hi"), usage))
        assert cache.get("k") == Completion(Message.assistant("hi"), Tokens(10, 5, 3, 0, 0.25))


def test_redis_expires_entries(redis_url: str) -> None:
    client = RedisCache(redis_url, default_ttl=0.05, prefix="short:")
    client.set("k", FULL)
    assert client.get("k") == FULL
    time.sleep(0.1)
    assert client.get("k") is None
    client.close()


def test_redis_keeps_an_entry_for_its_own_time_and_forgets_it_on_demand(redis_url: str) -> None:
    client = RedisCache(redis_url, default_ttl=600, prefix="own:")
    client.set("short", FULL, ttl=0.05)
    client.set("long", FULL)
    time.sleep(0.1)
    assert (client.get("short"), client.get("long"), client.stats.size) == (None, FULL, 1)
    assert (client.delete("long"), client.delete("long"), client.get("long")) == (True, False, None)
    assert client.stats.total_requests == 3
    client.close()


ENTRY = '{"message": %s, "usage": [%s, 1, 0, 0], "cost_usd": %s, "stop_reason": "", "model": "", "provider": ""}'
FOREIGN_VALUES = [
    *("", "\xff\x00", "not json", "[]", "null", '{"message": {"role": "assistant"}}'),
    ENTRY % ('{"role": "nobody"}', 1, 0),
    ENTRY % ('{"role": "assistant"}', '"1"', 0),
    ENTRY % ('{"role": "assistant"}', 1, '"0"'),
    ENTRY % ("[]", 1, 0),
]


@pytest.mark.parametrize("value", FOREIGN_VALUES)
def test_a_foreign_value_in_redis_is_a_miss_and_is_replaced(redis_url: str, value: str) -> None:
    client = RedisCache(redis_url, prefix="foreign:")
    client.clear()
    agent = Agent(ScriptedProvider(["one", "two"]), config=AgentConfig(cache=client))
    assert agent.run("x").content == "one"
    [key] = client._keys()
    client._client.set(key, value.encode("latin-1"))
    assert agent.run("x").content == "two"
    assert (client.stats.hits, client.stats.misses) == (0, 2)
    assert agent.run("x").content == "two"
    client._client.delete(key)
    client._client.rpush(key, b"a list")
    assert client.get(key.decode().removeprefix("foreign:")) is None
    client.clear()
    client.close()


def test_prefixes_keep_caches_apart(redis_url: str) -> None:
    first, second = RedisCache(redis_url, prefix="one:"), RedisCache(redis_url, prefix="other:")
    first.set("k", FULL)
    second.clear()
    assert (second.get("k"), first.get("k")) == (None, FULL)
    for client in (first, second):
        client.close()


def test_an_unreachable_server_is_an_empty_cache_but_ping_fails() -> None:
    client = RedisCache("redis://127.0.0.1:1/0", timeout_s=0.2)
    agent = Agent(ScriptedProvider(["one", "two"]), config=AgentConfig(cache=client))
    assert [agent.run("x").content for _ in range(2)] == ["one", "two"]
    assert (client.stats.misses, client.stats.size) == (2, 0)
    for ask in (client.ping, client.clear):
        with pytest.raises(
            CacheUnreachable, match=r"no Redis at redis://127\.0\.0\.1:1/0 .*: start it, or set REDIS_URL"
        ):
            ask()


def test_the_url_may_come_from_the_environment(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", redis_url)
    client = RedisCache()
    client.ping()
    assert client.url == redis_url
    client.close()


def test_a_hit_is_an_event_like_any_answer(tmp_path: Path) -> None:
    seen: list[bool] = []

    def hook(message: Message, usage: object) -> None:
        seen.append(message.content == "hello")

    agent = Agent(ScriptedProvider(["hello"]), config=AgentConfig(cache=InMemoryCache(), hooks={"on_llm_end": hook}))
    agent.run("x")
    agent.run("x")
    assert seen == [True, True]
    assert ModelCallEnded.__slots__[-3:] == ("cached", "stop_reason", "seconds")


def test_a_file_outlives_the_process_that_wrote_it(tmp_path: Path) -> None:
    completion = Completion(Message.assistant("yes"), Tokens(7, 3), "stop", "m", "p")
    with DiskCache(tmp_path / "a.sqlite") as first:
        first.set("k", completion)
    with DiskCache(tmp_path / "a.sqlite") as second:
        assert (second.get("k"), second.get("other")) == (completion, None)
        assert second.stats == CacheStats(1, 1, 0, 1)


def test_a_file_that_is_not_a_cache_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.sqlite").write_text("a diary, and no database at all")
    with pytest.raises(
        KnowledgeBaseDamaged, match=r"a\.sqlite is not a valid response cache \(file is not a database\)"
    ):
        DiskCache(tmp_path / "a.sqlite")


class Shelf:
    """A cache of a user: `get` and `set` only."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def get(self, key: str) -> Any:
        return self.values.get(key)

    def set(self, key: str, value: Any) -> None:
        message, usage = value
        self.values[key] = value if usage is not None and message is not None else None


def test_a_cache_with_get_and_set_alone_works() -> None:
    cache = Shelf()
    agent, provider = scripted(["hello"], [], AgentConfig(cache=cache))
    assert [agent.run("hi").content, asyncio.run(agent.arun("hi")).content] == ["hello", "hello"]
    assert (len(provider.requests), len(cache.values)) == (1, 1)
    cache.values = dict.fromkeys(cache.values, "not ours")
    with pytest.raises(ScriptExhausted):
        agent.run("hi")


def test_a_key_may_be_built_from_the_parts_of_a_request() -> None:
    messages = [Message.user("What is 1 + 2?")]
    built = CacheKeyBuilder.build("m", "Be brief.", messages, [add], 0.2)
    settings = ModelSettings(0.2)
    assert built == CacheKeyBuilder.build(
        "", ModelRequest("m", (Message.system("Be brief."), *messages), (add,), settings)
    )
    others = [
        CacheKeyBuilder.build("n", "Be brief.", messages, [add], 0.2),
        CacheKeyBuilder.build("m", "Be long.", messages, [add], 0.2),
        CacheKeyBuilder.build("m", "Be brief.", [*messages, Message.assistant("3")], [add], 0.2),
        CacheKeyBuilder.build("m", "Be brief.", messages, [], 0.2),
        CacheKeyBuilder.build("m", "Be brief.", messages, [add], 0.3),
    ]
    assert len({built, *others}) == 6
