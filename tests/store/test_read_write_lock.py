"""A lock for many readers or one writer."""

from __future__ import annotations

import threading

from ragkit.store.read_write_lock import ReadWriteLock


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


def test_an_error_releases_the_lock() -> None:
    lock, other = ReadWriteLock(), threading.Event()
    try:
        with lock.write():
            raise KeyError
    except KeyError:
        start_thread(other, lock, alone=True).join(10)
    assert other.is_set()
