"""What holds for every test."""

from __future__ import annotations

import signal

import pytest

import tests.keys  # noqa: F401 - takes the keys of services out of the environment

# A background job of a shell inherits an ignored SIGINT, and so would every process that a test starts: Ctrl-C would
# not reach them. A handler here is reset to the default when a process is started.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_make_parametrize_id(config: object, val: object, argname: str) -> str | None:
    """Bytes give a test no name: they may hold the time of day, and two processes must collect the same names."""
    return argname if isinstance(val, bytes) else None


def pytest_addoption(parser: pytest.Parser) -> None:
    """How many cases the slow tests of random properties of stores are made of."""
    parser.addoption("--cases", type=int, default=5000, help="random cases of each store in the slow tests")
