"""SIGINT during a block that it must not interrupt."""

from __future__ import annotations

import signal
import threading

import pytest

from ragkit.store.backends.interrupts import delay_interrupts


def test_an_interrupt_waits_for_the_end_of_the_block() -> None:
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt), delay_interrupts():
        signal.raise_signal(signal.SIGINT)
        done.append("the rest of the block")
    assert done == ["the rest of the block"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_interrupt_does_not_wait() -> None:
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt), delay_interrupts():
        signal.raise_signal(signal.SIGINT)
        done.append("first")
        signal.raise_signal(signal.SIGINT)
        done.append("second")
    assert done == ["first"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_nested_blocks_wait_for_the_outer_one() -> None:
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt), delay_interrupts():
        with delay_interrupts():
            signal.raise_signal(signal.SIGINT)
            done.append("inner")
        done.append("outer")
    assert done == ["inner", "outer"]


def test_an_error_of_the_block_stands_behind_the_interrupt() -> None:
    with pytest.raises(KeyboardInterrupt) as caught, delay_interrupts():
        signal.raise_signal(signal.SIGINT)
        raise ValueError("broken")
    assert isinstance(caught.value.__context__, ValueError)


def test_the_handler_of_the_program_is_called() -> None:
    calls: list[int] = []
    previous = signal.signal(signal.SIGINT, lambda number, frame: calls.append(number))
    try:
        with delay_interrupts():
            signal.raise_signal(signal.SIGINT)
            assert calls == []
        assert calls == [signal.SIGINT]
    finally:
        signal.signal(signal.SIGINT, previous)


def test_an_ignored_interrupt_stays_ignored() -> None:
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with delay_interrupts():
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, previous)


def test_other_threads_leave_the_handler_alone() -> None:
    handlers: list[object] = []

    def look() -> None:
        with delay_interrupts():
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert handlers == [signal.default_int_handler]
