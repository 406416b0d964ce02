"""Columns of whole numbers are read from SQLite as arrays."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragkit.sqlite_columns import read_integer_columns

whole = st.integers(-(2**63), 2**63 - 1)


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (a, b)")
    yield connection
    connection.close()


@given(st.dictionaries(whole, whole, max_size=20))
def test_the_columns_are_those_of_the_rows_sorted_by_the_first(rows: dict[int, int]) -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (a INTEGER, b INTEGER)")
    connection.executemany("INSERT INTO t VALUES (?, ?)", rows.items())
    a, b = read_integer_columns(connection, ("a", "b"), "t")
    connection.close()
    assert a.dtype == b.dtype == np.int64
    assert list(zip(a.tolist(), b.tolist(), strict=True)) == sorted(rows.items())
    assert a.flags.c_contiguous
    assert b.flags.c_contiguous


def test_a_condition_selects_rows(connection: sqlite3.Connection) -> None:
    connection.executemany("INSERT INTO t VALUES (?, ?)", [(3, 1), (1, 0), (2, 1)])
    assert read_integer_columns(connection, ("a",), "t WHERE b = 1").tolist() == [[2, 3]]


@pytest.mark.parametrize("value", [None, "", "1,2"])
def test_a_value_that_is_no_integer_is_an_error(connection: sqlite3.Connection, value: object) -> None:
    connection.executemany("INSERT INTO t VALUES (?, ?)", [(1, 5), (2, value)])
    with pytest.raises(sqlite3.DatabaseError, match="has a value that is no integer"):
        read_integer_columns(connection, ("a", "b"), "t")
