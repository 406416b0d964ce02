"""What every store of conversations must do: files, SQLite, Redis, PostgreSQL."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pytest

from ragkit.agent.memory.memory import ConversationMemory, ConversationStore
from ragkit.agent.memory.stores import (
    ConversationConflict,
    ConversationStoreError,
    FileConversationStore,
    SQLiteConversationStore,
)
from ragkit.agent.memory.stores_postgres import PostgresConversationStore
from ragkit.agent.memory.stores_redis import RedisConversationStore
from ragkit.agent.messages import Message, Role
from ragkit.errors import InvalidOption
from tests.agent.parts import call, scripted
from tests.servers.plugin import SERVERS
from tests.servers.postgres import Postgres


class KeyedStore(ConversationStore, Protocol):
    """A store of many conversations."""

    def keys(self) -> list[str]: ...


OpenStore = Callable[[str], ConversationStore]
OpenKeyedStore = Callable[[str], KeyedStore]
DATABASES = ["sqlite", "redis", "postgres"]


def postgres_dsn() -> str:
    server = SERVERS["pgvector"]
    assert isinstance(server, Postgres)
    server.start()
    return server.dsn


@pytest.fixture
def databases(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], OpenKeyedStore]:
    """The databases by name; each test has its own place in them."""
    place = f"t{secrets.token_hex(6)}"

    def choose(name: str) -> OpenKeyedStore:
        if name == "sqlite":
            return lambda key: SQLiteConversationStore(tmp_path / "deep" / "talks.db", key)
        if name == "redis":
            url = request.getfixturevalue("redis_url")
            return lambda key: RedisConversationStore(key, url, prefix=f"{place}:")
        dsn = postgres_dsn()
        return lambda key: PostgresConversationStore(dsn, key, table=place)

    return choose


@pytest.fixture(params=["file", *DATABASES])
def open_store(request: pytest.FixtureRequest, databases: Callable[[str], OpenKeyedStore], tmp_path: Path) -> OpenStore:
    """Opens the store of a key."""
    if request.param == "file":
        return lambda key: FileConversationStore(tmp_path / "talks" / f"{key.encode().hex()}.json")
    return databases(str(request.param))


@pytest.fixture(params=DATABASES)
def open_keyed(request: pytest.FixtureRequest, databases: Callable[[str], OpenKeyedStore]) -> OpenKeyedStore:
    """Opens the store of a key in a database."""
    return databases(str(request.param))


def texts(store: ConversationStore) -> list[str]:
    return [message.content for message in ConversationMemory(store=store)]


def test_a_new_conversation_is_empty(open_store: OpenStore) -> None:
    assert open_store("anna").load() is None
    assert texts(open_store("anna")) == []


def test_what_was_saved_is_loaded_unchanged(open_store: OpenStore) -> None:
    message = Message(
        Role.TOOL, "grüße 🙂 \x00 '; DROP TABLE x; --", tool_call_id="c1", name="t", data={"a": [1, None]}
    )
    first = ConversationMemory(store=open_store("anna"))
    first.record_turn([Message.user("hi"), Message.assistant("", [call("t")]), message], {"count": 1})
    second = ConversationMemory(store=open_store("anna"))
    assert second.get_history() == first.get_history()
    assert (second.get_history()[-1].data, second.tool_state) == ({"a": [1, None]}, {"count": 1})
    assert open_store("anna").load() == first.to_json()


def test_an_agent_continues_its_conversation_in_another_process(open_store: OpenStore) -> None:
    for answer in ("Hello Anna.", "Your name is Anna."):
        agent, provider = scripted([answer])
        agent.run("My name?", memory=ConversationMemory(store=open_store("anna")))
    assert [message.content for message in provider.requests[-1].messages][-3:] == [
        "My name?",
        "Hello Anna.",
        "My name?",
    ]
    assert texts(open_store("anna")) == ["My name?", "Hello Anna.", "My name?", "Your name is Anna."]


def test_conversations_do_not_mix(open_store: OpenStore) -> None:
    keys = ["anna", "ANNA", "anna ", "an%na", "an*na", "ünna", "a/b", "a:b"]
    for key in keys:
        ConversationMemory(store=open_store(key)).add_user(f"I am {key}")
    assert [texts(open_store(key)) for key in keys] == [[f"I am {key}"] for key in keys]


def test_clearing_a_memory_clears_the_saved_conversation(open_store: OpenStore) -> None:
    memory = ConversationMemory(store=open_store("anna"))
    memory.add_user("hi")
    memory.clear()
    assert texts(open_store("anna")) == []


def test_a_long_conversation_fits(open_store: OpenStore) -> None:
    ConversationMemory(store=open_store("anna")).add_user("x" * 3_000_000)
    assert len(texts(open_store("anna"))[0]) == 3_000_000


def test_a_database_lists_its_conversations(open_keyed: OpenKeyedStore) -> None:
    for key in ("ben", "anna", "a*b"):
        ConversationMemory(store=open_keyed(key)).add_user("hi")
    assert open_keyed("other").keys() == ["a*b", "anna", "ben"]


def test_an_empty_key_is_rejected(open_keyed: OpenKeyedStore) -> None:
    with pytest.raises(InvalidOption, match="key must be a non-empty text"):
        open_keyed("")


def test_a_save_does_not_overwrite_the_turn_of_another_process(open_keyed: OpenKeyedStore) -> None:
    first, second = (ConversationMemory(store=open_keyed("anna")) for _ in range(2))
    first.add_user("from the first")
    with pytest.raises(ConversationConflict, match="the conversation 'anna' was saved elsewhere since it was loaded"):
        second.add_user("from the second")
    assert (texts(open_keyed("anna")), list(second)) == (["from the first"], [])
    first.add_user("and again")
    assert texts(open_keyed("anna")) == ["from the first", "and again"]


def test_of_many_processes_that_save_at_once_one_wins(open_keyed: OpenKeyedStore) -> None:
    memories = [ConversationMemory(store=open_keyed("anna")) for _ in range(6)]
    together, outcomes = threading.Barrier(len(memories)), list[str]()

    def save(number: int) -> None:
        together.wait()
        try:
            memories[number].add_user(str(number))
        except ConversationConflict:
            outcomes.append("lost")
        else:
            outcomes.append("won")

    threads = [threading.Thread(target=save, args=(number,)) for number in range(len(memories))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["lost"] * 5 + ["won"]
    assert len(texts(open_keyed("anna"))) == 1


def test_a_redis_conversation_expires_some_time_after_its_last_turn(redis_url: str) -> None:
    memory = ConversationMemory(store=RedisConversationStore("anna", redis_url, prefix="short:", ttl_s=0.3))
    memory.add_user("one")
    assert texts(RedisConversationStore("anna", redis_url, prefix="short:")) == ["one"]
    time.sleep(0.4)
    assert texts(RedisConversationStore("anna", redis_url, prefix="short:")) == []
    memory.add_user("two")
    assert texts(RedisConversationStore("anna", redis_url, prefix="short:")) == ["one", "two"]
    with pytest.raises(InvalidOption, match="ttl_s must be > 0"):
        RedisConversationStore("anna", redis_url, ttl_s=0)


def test_two_processes_may_create_the_table_at_once() -> None:
    dsn, table, failures = postgres_dsn(), f"t{secrets.token_hex(6)}", list[BaseException]()

    def create() -> None:
        try:
            PostgresConversationStore(dsn, "anna", table=table)
        except ConversationStoreError as error:
            failures.append(error)

    threads = [threading.Thread(target=create) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_server_that_is_down_is_a_clear_error_without_its_password() -> None:
    with pytest.raises(ConversationStoreError, match="check that it runs, and REDIS_URL") as redis_error:
        RedisConversationStore("anna", "redis://:hunter22hunter@127.0.0.1:1/0", timeout_s=0.5).load()
    with pytest.raises(ConversationStoreError, match="PostgreSQL does not serve conversations") as postgres_error:
        PostgresConversationStore("postgresql://me:hunter22hunter@127.0.0.1:1/db", "anna", timeout_s=2)
    assert "hunter22" not in f"{redis_error.value} {postgres_error.value}"
