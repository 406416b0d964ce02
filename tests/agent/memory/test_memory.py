"""Memory: limits, pruning, formats, stores, serialized runs."""

import asyncio
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragkit.agent.agent import Agent
from ragkit.agent.events import TextChunk
from ragkit.agent.loop import memory_turn
from ragkit.agent.loop.config import AgentConfig
from ragkit.agent.memory.memory import ConversationMemory, ConversationStore, FifoLock, estimate_message_tokens
from ragkit.agent.memory.stores import FileConversationStore, SQLiteConversationStore
from ragkit.agent.messages import Message, Role, ToolCall
from ragkit.agent.providers.base import ModelRequest
from ragkit.agent.providers.scripted import FunctionProvider, ScriptedProvider
from ragkit.agent.runner import ConversationState
from ragkit.agent.tools.base import ToolContext
from ragkit.errors import BudgetExceeded, InvalidOption, RunError
from ragkit.usage.limits import Limits
from tests.agent.parts import call, request_messages, scripted, user

GOLDEN = Path(__file__).parent / "golden" / "conversation-v1.json"


def texts(memory: ConversationMemory) -> list[str]:
    return [message.content for message in memory.get_history()]


def exchange(number: int) -> list[Message]:
    """A tool call with two results."""
    calls = [ToolCall("t", {}, f"{number}a"), ToolCall("t", {}, f"{number}b")]
    results = [Message(Role.TOOL, "r", tool_call_id=call.id, name="t") for call in calls]
    return [Message.assistant(f"call {number}", calls), *results]


def test_the_oldest_messages_go_when_there_are_too_many() -> None:
    memory = ConversationMemory(max_messages=2)
    dropped = [memory.add(user(text)) for text in "abcd"]
    assert texts(memory) == ["c", "d"]
    assert [[message.content for message in batch] for batch in dropped] == [[], [], ["a"], ["b"]]


def test_the_oldest_messages_go_when_there_are_too_many_tokens() -> None:
    size = estimate_message_tokens(user("x" * 40))
    memory = ConversationMemory(max_tokens=2 * size)
    memory.add_many([user("x" * 40), user("y" * 40), user("z" * 40)])
    assert texts(memory) == ["y" * 40, "z" * 40]
    assert memory.count_tokens() == 2 * size


def test_a_tool_call_and_its_results_are_dropped_together() -> None:
    memory = ConversationMemory(max_messages=4)
    memory.add_many([user("q"), *exchange(1), user("next")])
    assert texts(memory) == ["next"]
    memory = ConversationMemory(max_messages=4)
    memory.add_many([user("a"), user("b"), *exchange(1)])
    assert texts(memory) == ["b", "call 1", "r", "r"]


def test_the_history_begins_with_a_user_message() -> None:
    memory = ConversationMemory(max_messages=3)
    for number in range(4):
        memory.add_user(f"question {number}")
        memory.add_assistant(f"answer {number}")
    assert texts(memory) == ["question 3", "answer 3"]
    memory = ConversationMemory(max_messages=2, messages=[Message.assistant("only"), Message.assistant("answers")])
    memory.add_assistant("here")
    assert texts(memory) == ["answers", "here"]


def test_recent_messages_and_truth() -> None:
    memory = ConversationMemory()
    assert memory
    memory.add_many([user(text) for text in "abc"])
    assert [[message.content for message in memory.get_recent(n)] for n in (0, 2, 9)] == [[], ["b", "c"], list("abc")]
    with pytest.raises(InvalidOption, match=r"n must be >= 0 \(got -1\)"):
        memory.get_recent(-1)


def count_calls(x: int, context: ToolContext) -> str:
    """Count."""
    context.state["calls"] = int(str(context.state.get("calls", 0))) + x
    return str(context.state["calls"])


@pytest.mark.parametrize("is_async", [False, True])
def test_the_state_of_tools_lives_as_long_as_the_memory(tmp_path: Path, is_async: bool) -> None:
    store = FileConversationStore(tmp_path / "chat.json")
    memory = ConversationMemory(store=store)
    for turn in (1, 2, 3):
        if turn == 3:
            memory = ConversationMemory(store=store)
        agent = Agent(ScriptedProvider([call("count_calls", x=1), "done"]), [count_calls], memory=memory)
        result = asyncio.run(agent.arun("count")) if is_async else agent.run("count")
        assert (result.state, memory.tool_state) == ({"calls": turn}, {"calls": turn})
    memory.clear()
    assert ConversationMemory(store=store).tool_state == {}


def test_a_memory_over_a_saved_conversation_keeps_its_agent_state_and_data(tmp_path: Path) -> None:
    store = FileConversationStore(tmp_path / "chat.json")
    saved = ConversationState((user("hi"), Message.assistant("hello")), "billing", {"cart": [1]}, {"user": "anna"})
    store.save(saved.to_json())
    memory = ConversationMemory(store=store)
    Agent(ScriptedProvider(["fine"]), memory=memory).run("how are you?")
    after = ConversationState.from_json(store.load() or "")
    assert (after.current_agent, after.state, after.data) == ("billing", {"cart": [1]}, {"user": "anna"})
    assert [message.content for message in after.messages] == ["hi", "hello", "how are you?", "fine"]
    for copied in (memory.fork(), ConversationMemory.from_json(memory.to_json())):
        assert ConversationState.from_json(copied.to_json()) == after


def test_the_newest_exchange_stays_whatever_its_size() -> None:
    memory = ConversationMemory(max_messages=1)
    memory.add_many([user("q"), *exchange(1)])
    assert texts(memory) == ["q", "call 1", "r", "r"]


@given(st.lists(st.sampled_from(["user", "answer", "exchange", "orphan"]), max_size=12), st.integers(1, 8))
def test_a_trim_never_leaves_an_answer_or_a_result_first(kinds: list[str], limit: int) -> None:
    for together in (True, False):
        memory = ConversationMemory(max_messages=limit)
        batches: list[list[Message]] = []
        for number, kind in enumerate(["user", *kinds]):
            made = {"user": [user("u")], "answer": [Message.assistant("a")], "exchange": exchange(number)}
            batches.append(made.get(kind, [Message(Role.TOOL, "lost", tool_call_id="gone")]))
        if together:
            memory.add_many([message for batch in batches for message in batch])
        else:
            for batch in batches:
                memory.add_many(batch)
        assert memory.get_history()[0].role is Role.USER


def test_a_long_turn_loses_its_oldest_tool_calls_and_keeps_its_question() -> None:
    memory = ConversationMemory(max_messages=6)
    memory.add_many([user("old"), Message.assistant("answer")])
    memory.add_many([user("q"), *exchange(1), *exchange(2), Message.assistant("done")])
    assert texts(memory) == ["q", "call 2", "r", "r", "done"]


def test_pinned_messages_stay() -> None:
    memory = ConversationMemory(max_messages=2)
    memory.add(user("rules"))
    memory.pin(0)
    memory.add_many([user("a"), user("b"), user("c")])
    assert texts(memory) == ["rules", "c"]
    memory.clear()
    assert len(memory) == 0


@given(st.lists(st.sampled_from(["user", "exchange"]), max_size=12), st.integers(1, 8))
def test_no_result_is_ever_left_without_its_call(kinds: list[str], limit: int) -> None:
    memory = ConversationMemory(max_messages=limit)
    for number, kind in enumerate(kinds):
        memory.add_many([user("u")] if kind == "user" else exchange(number))
    open_calls: set[str] = set()
    for message in memory:
        if message.role is Role.TOOL:
            open_calls.remove(message.tool_call_id)
        else:
            assert not open_calls
            open_calls = {call.id for call in message.tool_calls}
    assert not open_calls


def test_the_oldest_format_is_read() -> None:
    memory = ConversationMemory.from_json(GOLDEN.read_text("utf-8"))
    first, second, third, fourth = memory.get_history()
    assert (first.content, first.pinned) == ("What is 2 + 3?", True)
    assert second.tool_calls == (ToolCall("add", {"a": 2, "b": 3}, "c1"),)
    assert (third.tool_call_id, third.name, third.data) == ("c1", "add", {"sum": 5})
    assert (fourth.agent_name, fourth.reasoning) == ("math", "the tool said so")
    assert json.loads(memory.to_json()) == json.loads(GOLDEN.read_text("utf-8"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "a saved conversation must be JSON"),
        ("[]", "must be a JSON object with format 'ragkit.conversation'"),
        ('{"format": "ragkit.conversation", "version": 99}', "the version of a saved conversation must be <= 1"),
    ],
)
def test_an_invalid_conversation_is_rejected(text: str, words: str) -> None:
    with pytest.raises(InvalidOption, match=words):
        ConversationMemory.from_json(text)


def test_limits_below_one_are_rejected() -> None:
    with pytest.raises(InvalidOption, match="max_messages must be >= 1 or None"):
        ConversationMemory(max_messages=0)


@pytest.fixture(params=["file", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ConversationStore:
    if request.param == "file":
        return FileConversationStore(tmp_path / "deep" / "chat.json")
    return SQLiteConversationStore(tmp_path / "deep" / "chats.db", "anna")


def test_a_stored_conversation_is_loaded_again(store: ConversationStore) -> None:
    first = ConversationMemory(store=store)
    first.add_many([user("hello"), *exchange(1)])
    second = ConversationMemory(store=store)
    assert second.get_history() == first.get_history()
    second.clear()
    assert ConversationMemory(store=store).get_history() == []


def test_every_store_holds_the_same_json(store: ConversationStore) -> None:
    memory = ConversationMemory(store=store)
    memory.add_many(exchange(1))
    assert store.load() == memory.to_json()


def test_a_database_holds_many_conversations(tmp_path: Path) -> None:
    for key in ("anna", "ben"):
        ConversationMemory(store=SQLiteConversationStore(tmp_path / "c.db", key)).add(user(f"I am {key}"))
    assert SQLiteConversationStore(tmp_path / "c.db", "anna").keys() == ["anna", "ben"]
    assert texts(ConversationMemory(store=SQLiteConversationStore(tmp_path / "c.db", "ben"))) == ["I am ben"]
    with pytest.raises(InvalidOption, match="key must be a non-empty text"):
        SQLiteConversationStore(tmp_path / "c.db", "")


def test_a_save_replaces_the_file_and_leaves_no_temporary_file(tmp_path: Path) -> None:
    memory = ConversationMemory(store=FileConversationStore(tmp_path / "c.json"))
    for text in "abc":
        memory.add(user(text))
    assert [path.name for path in tmp_path.iterdir()] == ["c.json"]


def test_a_fork_is_independent_of_the_original() -> None:
    memory = ConversationMemory(max_messages=9)
    memory.add_user("a")
    fork = memory.fork()
    fork.add_assistant("b")
    assert (texts(memory), texts(fork), fork.max_messages) == (["a"], ["a", "b"], 9)


def test_an_agent_continues_the_conversation_in_its_memory() -> None:
    memory = ConversationMemory()
    provider = ScriptedProvider(["hello Anna", "Anna"])
    agent = Agent(provider, memory=memory)
    agent.run("I am Anna")
    assert agent.run("Who am I?").content == "Anna"
    assert request_messages(provider) == [("user", "I am Anna"), ("assistant", "hello Anna"), ("user", "Who am I?")]
    agent.reset()
    assert len(memory) == 0


def test_tool_calls_and_results_are_remembered_too() -> None:
    memory = ConversationMemory()
    agent, provider = scripted([call("add", a=1, b=2), "three", "still three"])
    agent.run("1 + 2?", memory=memory)
    agent.run("And now?", memory=memory)
    assert [role for role, _ in request_messages(provider)] == ["user", "assistant", "tool", "assistant", "user"]


def test_a_run_that_fails_leaves_memory_as_it_was() -> None:
    memory = ConversationMemory()
    agent, _ = scripted(["fine", RuntimeError("boom"), "good again"])
    agent.run("one", memory=memory)
    with pytest.raises(RuntimeError, match="boom"):
        agent.run("two", memory=memory)
    assert texts(memory) == ["one", "fine"]
    assert agent.run("three", memory=memory).content == "good again"


def counting_provider(active: list[int], maximum: list[int]) -> FunctionProvider:
    def answer(_: ModelRequest) -> str:
        active[0] += 1
        maximum[0] = max(maximum[0], active[0])
        time.sleep(0.003)
        active[0] -= 1
        return "ok"

    return FunctionProvider(answer)


def test_threads_that_share_a_memory_take_turns() -> None:
    active, maximum = [0], [0]
    agent = Agent(counting_provider(active, maximum), memory=ConversationMemory())
    threads = [threading.Thread(target=agent.run, args=(f"m{n}",)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert maximum == [1]
    history = agent.memory.get_history() if agent.memory else []
    assert [message.role.value for message in history] == ["user", "assistant"] * 12


def test_tasks_that_share_a_memory_take_turns() -> None:
    memory = ConversationMemory()
    agent = Agent(FunctionProvider(lambda request: str(len(request.messages))), memory=memory)

    async def run_all() -> list[str]:
        return [result.content for result in await asyncio.gather(*(agent.arun("x") for _ in range(20)))]

    assert asyncio.run(run_all()) == [str(2 * n + 2) for n in range(20)]


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_run_that_times_out_while_waiting_for_the_memory_stops_waiting(mode: str) -> None:
    memory = ConversationMemory()
    waiter = memory.run_lock.acquire()
    agent, provider = scripted(["never"], config=AgentConfig(limits=Limits(max_seconds=0.05)))
    with pytest.raises(BudgetExceeded, match=r"budget of 0\.05 seconds exceeded"):
        agent.run("x", memory=memory) if mode == "sync" else asyncio.run(agent.arun("x", memory=memory))
    assert provider.requests == []
    memory.run_lock.release(waiter)
    assert memory.run_lock.acquire().done()


def test_a_fifo_lock_skips_a_waiter_that_gave_up() -> None:
    turns = FifoLock()
    first, second, third = turns.acquire(), turns.acquire(), turns.acquire()
    assert (first.done(), second.done()) == (True, False)
    turns.release(second)
    turns.release(first)
    assert third.done()
    turns.release(third)
    assert turns.acquire().done()


def test_a_run_does_not_wait_for_a_stream_that_only_its_caller_could_continue() -> None:
    agent = Agent(ScriptedProvider(["one two", "three"]), memory=ConversationMemory())
    stream = agent.stream("first")
    next(event for event in stream if isinstance(event, TextChunk))
    with pytest.raises(RunError, match="the memory is in use by a stream that has not ended"):
        agent.run("second")
    stream.close()
    assert agent.run("second").content == "three"


def test_a_task_does_not_wait_for_its_own_open_stream() -> None:
    async def consume() -> str:
        agent = Agent(ScriptedProvider(["one two", "three"]), memory=ConversationMemory())
        stream = agent.astream("first")
        async for event in stream:
            if isinstance(event, TextChunk):
                break
        with pytest.raises(RunError, match="read it to its end, or close it"):
            await agent.arun("second")
        await stream.aclose()
        return (await agent.arun("second")).content

    assert asyncio.run(asyncio.wait_for(consume(), 20)) == "three"


def test_another_thread_waits_for_an_open_stream() -> None:
    agent = Agent(ScriptedProvider(["one two", "three"]), memory=ConversationMemory())
    stream = agent.stream("first")
    next(event for event in stream if isinstance(event, TextChunk))
    contents: list[str] = []
    thread = threading.Thread(target=lambda: contents.append(agent.run("second").content))
    thread.start()
    thread.join(0.3)
    assert contents == []
    list(stream)
    thread.join(20)
    assert contents == ["three"]


@pytest.mark.parametrize("mode", ["thread", "task"])
def test_a_stream_that_nobody_reads_loses_the_memory_to_a_run_that_waits(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_turn, "MAX_UNREAD_S", 0.2)
    agent = Agent(ScriptedProvider(["one two", "three", "four"]), memory=ConversationMemory())
    stream = agent.stream("first")
    next(event for event in stream if isinstance(event, TextChunk))
    if mode == "thread":
        with ThreadPoolExecutor(2) as pool:
            waiting = [pool.submit(agent.run, text) for text in ("second", "third")]
            contents = {item.result(20).content for item in waiting}
    else:

        async def run_both() -> set[str]:
            return {result.content for result in await asyncio.gather(agent.arun("second"), agent.arun("third"))}

        with ThreadPoolExecutor(1) as pool:  # another thread than that of the stream
            contents = pool.submit(lambda: asyncio.run(asyncio.wait_for(run_both(), 20))).result(20)
    assert contents == {"three", "four"}
    with pytest.raises(RunError, match=r"not read for 0\.2 seconds, and another run took over"):
        list(stream)
    assert agent.memory is not None
    assert [message.role.value for message in agent.memory.load_messages()] == ["user", "assistant"] * 2
    assert agent.memory.run_lock.acquire().done()


def test_a_stream_that_is_read_slowly_keeps_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_turn, "MAX_UNREAD_S", 0.3)
    agent = Agent(ScriptedProvider(["a b c d e f g h", "other"]), memory=ConversationMemory())
    stream = agent.stream("first")
    next(event for event in stream if isinstance(event, TextChunk))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(agent.run, "second")
        for _ in stream:
            time.sleep(0.08)
        assert waiting.result(20).content == "other"
    assert agent.memory is not None
    contents = [message.content for message in agent.memory.load_messages()]
    assert contents == ["first", "a b c d e f g h", "second", "other"]


def test_a_broken_off_asynchronous_stream_does_not_block_its_task() -> None:
    async def consume() -> str:
        agent = Agent(ScriptedProvider(["one two", "three"]), memory=ConversationMemory())
        async for event in agent.astream("first"):
            if isinstance(event, TextChunk):
                break
        return (await agent.arun("second")).content

    assert asyncio.run(asyncio.wait_for(consume(), 20)) == "three"
