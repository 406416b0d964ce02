"""A guard for tests: SQL that runs in the thread of an event loop is an error, since every request waits for it."""

from __future__ import annotations

import asyncio
import sqlite3
import traceback
from collections.abc import Callable
from typing import Any

import psycopg
import pytest


def forbid_sql_in_event_loops(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Make connections that are opened from now on refuse statements there. Returns what they refused."""
    refused: list[str] = []

    def check(statement: object) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        if asyncio.current_task(loop) is None:  # a browser test itself, which interrupts the loop of Playwright
            return
        callers = [
            f"{frame.name} ({frame.filename})" for frame in traceback.extract_stack() if "ragkit/" in frame.filename
        ]
        refused.append(f"{str(statement)[:300]}, from {' <- '.join(reversed(callers[-8:]))}")
        raise AssertionError(f"SQL in the thread of the event loop: {statement}")

    class Guarded(sqlite3.Connection):
        def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
            check(statement)
            return super().execute(statement, *values)

        def executemany(self, statement: str, *values: Any) -> sqlite3.Cursor:
            check(statement)
            return super().executemany(statement, *values)

    connect: Callable[..., sqlite3.Connection] = sqlite3.connect
    wait = psycopg.Connection.wait

    def connect_guarded(*args: Any, **options: Any) -> sqlite3.Connection:
        return connect(*args, **{"factory": Guarded, **options})

    def wait_guarded(self: Any, gen: Any, *args: Any, **options: Any) -> Any:
        check("a statement on PostgreSQL")
        return wait(self, gen, *args, **options)

    monkeypatch.setattr(sqlite3, "connect", connect_guarded)
    monkeypatch.setattr(psycopg.Connection, "wait", wait_guarded)
    return refused
