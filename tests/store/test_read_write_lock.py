"""A lock for many readers or one writer."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from ragkit.store.read_write_lock import ReadWriteLock
from tests.alarms import call_interrupted, may_leave_warnings


def start_thread(target: threading.Event, lock: ReadWriteLock, *, alone: bool) -> threading.Thread:
    def hold() -> None:
        with lock.write() if alone else lock.read():
            target.set()

    thread = threading.Thread(target=hold)
    thread.start()
    return thread


def test_readers_share_the_lock() -> None:
    lock, other = ReadWriteLock(), threading.Event()
    with lock.read():
        start_thread(other, lock, alone=False).join(10)
    assert other.is_set()


def test_a_writer_waits_for_readers() -> None:
    lock, writer = ReadWriteLock(), threading.Event()
    with lock.read():
        thread = start_thread(writer, lock, alone=True)
        assert not writer.wait(0.05)
    thread.join(10)
    assert writer.is_set()


def test_readers_and_writers_wait_for_a_writer() -> None:
    lock, reader, writer = ReadWriteLock(), threading.Event(), threading.Event()
    with lock.write():
        threads = [start_thread(reader, lock, alone=False), start_thread(writer, lock, alone=True)]
        assert not reader.wait(0.05)
        assert not writer.wait(0.05)
    for thread in threads:
        thread.join(10)
    assert reader.is_set()
    assert writer.is_set()


def test_a_waiting_writer_goes_before_new_readers() -> None:
    lock, late, writer = ReadWriteLock(), threading.Event(), threading.Event()
    with lock.read():
        threads = [start_thread(writer, lock, alone=True)]
        writer.wait(0.05)  # it waits by now
        threads.append(start_thread(late, lock, alone=False))
        assert not late.wait(0.05)
    for thread in threads:
        thread.join(10)
    assert late.is_set()


def test_a_writer_that_is_interrupted_while_it_waits_stops_nobody() -> None:
    lock, waiting, late = ReadWriteLock(), threading.Event(), threading.Event()
    threads: list[threading.Thread] = []
    main = threading.get_ident()

    def interrupt() -> None:
        while not lock._waiting_writers:
            time.sleep(0.001)
        threads.append(start_thread(late, lock, alone=False))
        waiting.wait(0.05)  # the reader waits by now
        assert not late.is_set()
        signal.pthread_kill(main, signal.SIGINT)

    with lock.read():
        interrupter = threading.Thread(target=interrupt)
        interrupter.start()
        with pytest.raises(KeyboardInterrupt), lock.write():
            raise AssertionError("two hold the lock")
        interrupter.join(10)
        threads[0].join(10)
        assert late.is_set()
    with lock.write():
        assert not lock._waiting_writers


def test_an_error_releases_the_lock() -> None:
    lock, other = ReadWriteLock(), threading.Event()
    try:
        with lock.write():
            raise KeyError
    except KeyError:
        start_thread(other, lock, alone=True).join(10)
    assert other.is_set()


@may_leave_warnings
@pytest.mark.parametrize("hold", [ReadWriteLock.read, ReadWriteLock.write])
def test_an_interrupt_leaves_the_lock_free(hold: Callable[[ReadWriteLock], AbstractContextManager[None]]) -> None:
    lock, rng = ReadWriteLock(), random.Random(1)

    def hold_again_and_again() -> None:
        while True:
            with hold(lock):
                pass

    for _ in range(2000):
        call_interrupted(hold_again_and_again, 0.0003, rng)
        assert not lock._mutex.locked()
        assert (lock._readers, lock._is_writing, lock._waiting_writers) == (0, False, 0)
