"""Background threads, background event loops, and cancellation."""

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar

import pytest

from ragkit.agent.runtime import background_tasks
from ragkit.agent.runtime.background_tasks import BACKGROUND_LOOP, DaemonThreadPool, iterate_in_thread, iterate_sync
from ragkit.agent.runtime.cancellation import Cancellation

NAME: ContextVar[str] = ContextVar("NAME", default="nobody")


def test_a_function_runs_in_another_thread_with_the_context_of_the_caller() -> None:
    NAME.set("anna")
    result = (
        DaemonThreadPool().submit(lambda: (NAME.get(), threading.current_thread() is threading.main_thread())).result(2)
    )
    assert result == ("anna", False)


def test_an_idle_thread_is_reused() -> None:
    pool = DaemonThreadPool()
    first = pool.submit(threading.get_ident).result(2)
    time.sleep(0.02)
    assert pool.submit(threading.get_ident).result(2) == first


def test_a_function_never_waits_for_another_one() -> None:
    pool, barrier = DaemonThreadPool(), threading.Barrier(20, timeout=5)
    futures = [pool.submit(barrier.wait) for _ in range(20)]
    assert sorted(future.result(5) for future in futures) == list(range(20))


def test_the_future_raises_the_error_of_the_function() -> None:
    future = DaemonThreadPool().submit(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError, match="integer division"):
        future.result(2)


def test_idle_threads_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_tasks, "IDLE_TIMEOUT_S", 0.02)
    pool = DaemonThreadPool()
    thread = pool.submit(threading.current_thread).result(2)
    thread.join(2)
    assert not thread.is_alive()
    assert pool.submit(lambda: "again").result(2) == "again"


def test_every_function_runs_while_threads_start_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_tasks, "IDLE_TIMEOUT_S", 0.0005)
    pool = DaemonThreadPool()
    for number in range(300):
        assert pool.submit(lambda number=number: number).result(2) == number  # type: ignore[misc]
        time.sleep(0.0005)


def test_a_thread_that_hangs_does_not_block_process_exit() -> None:
    code = """
import time
from ragkit.agent.runtime.background_tasks import THREAD_POOL
THREAD_POOL.submit(lambda: time.sleep(60))
print("done")
"""
    started_at = time.monotonic()
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=20)
    assert (process.stdout, time.monotonic() - started_at < 15) == ("done\n", True)


def test_a_coroutine_runs_in_the_background_with_the_context_of_the_caller() -> None:
    NAME.set("ben")

    async def who() -> str:
        await asyncio.sleep(0)
        return NAME.get()

    assert BACKGROUND_LOOP.submit(who()).result(2) == "ben"


def test_a_forked_child_gets_its_own_loop() -> None:
    code = """
import asyncio, os, warnings
from ragkit.agent.runtime.background_tasks import BACKGROUND_LOOP
warnings.simplefilter("ignore")
async def one(): return 1
assert BACKGROUND_LOOP.submit(one()).result(5) == 1
child = os.fork()
if child == 0:
    os._exit(0 if BACKGROUND_LOOP.submit(one()).result(5) == 1 else 3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=20)


async def letters() -> AsyncIterator[str]:
    for letter in "abc":
        await asyncio.sleep(0)
        yield letter


def test_iterators_convert_between_synchronous_and_asynchronous() -> None:
    async def collect() -> list[str]:
        return [letter async for letter in iterate_in_thread(lambda: iter("abc"))]

    assert list(iterate_sync(letters())) == asyncio.run(collect()) == ["a", "b", "c"]


def test_an_error_of_an_iterator_is_raised_in_its_consumer() -> None:
    def fails() -> Iterator[str]:
        yield "a"
        raise ValueError("broken")

    async def collect() -> None:
        async for _ in iterate_in_thread(fails):
            pass

    with pytest.raises(ValueError, match="broken"):
        asyncio.run(collect())


def test_a_cancellation_calls_each_listener_once() -> None:
    cancellation, calls = Cancellation(), list[str]()
    cancellation.add_listener(lambda: calls.append("a"))
    remove_listener = cancellation.add_listener(lambda: calls.append("b"))
    remove_listener()
    assert not cancellation.cancelled
    cancellation.cancel()
    cancellation.cancel()
    cancellation.add_listener(lambda: calls.append("late"))
    assert (cancellation.cancelled, calls) == (True, ["a", "late"])
