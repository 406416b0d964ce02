"""Setup and options of all tests."""

from __future__ import annotations

import os
import secrets
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import settings

import ragkit.masking
import tests.keys  # noqa: F401 - removes the keys of services from the environment

# A background job of a shell ignores SIGINT, one below `nohup` SIGHUP, and the processes that tests start would inherit
# this. With a handler in this process, they start with the default one.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# an example that takes long is no failure: other processes may be at work
settings.register_profile("untimed", parent=settings(deadline=None))
settings.load_profile("untimed")


@pytest.fixture(autouse=True)
def _forget_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the keys that a test registers: they would be masked in the messages of the tests after it."""
    known = set(ragkit.masking._registered_secrets)
    monkeypatch.setattr(ragkit.masking, "_registered_secrets", known)


@pytest.fixture
def database_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a knowledge base that does not exist yet, in a real PostgreSQL; copies are in `tmp_path`."""
    from tests.servers.plugin import SERVERS

    server = SERVERS["pgvector"]
    server.start()
    monkeypatch.setenv("RAGKIT_CACHE", str(tmp_path / "cache"))
    dsn = server.environment["RAGKIT_TEST_PGVECTOR_DSN"]
    return f"{dsn}&schema=t{secrets.token_hex(6)}&lease=3"


def pytest_make_parametrize_id(config: object, val: object, argname: str) -> str | None:
    """Keep bytes out of test ids: they may contain the time of day, and all processes must collect the same ids."""
    return argname if isinstance(val, bytes) else None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --cases, the number of random cases in the slow tests of stores, and --pairs, for that of rights."""
    parser.addoption("--cases", type=int, default=5000, help="random cases of each store in the slow tests")
    parser.addoption("--pairs", type=int, default=80, help="pairs of users and documents in the random test of rights")


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Print a failure at once: a run that is ended from outside prints no summary."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        sys.stderr.write(f"\n{report.when} of {report.nodeid} failed:\n{report.longreprtext}\n")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the property `figures` of the tests that measure."""
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            for name, value in report.user_properties:
                if name == "figures":
                    terminalreporter.section(report.nodeid)
                    terminalreporter.write_line(str(value))
