"""Metadata columns give the results of the reference evaluator for each row."""

from __future__ import annotations

import random
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragkit.records import JSON, Metadata
from ragkit.store.base import Filter
from ragkit.store.filters.language import evaluate, parse_filter
from ragkit.store.native.metadata_index import MetadataIndex
from ragkit.testing import filter_strategies as dirty
from tests.alarms import call_interrupted, may_leave_warnings
from tests.scheduling import sampled


def passed(columns: MetadataIndex, where: Filter) -> list[bool]:
    answer: list[bool] = columns.mask(parse_filter(where), columns.rows).tolist()
    return answer


def filled(*metadata: Mapping[str, JSON] | dict[str, int] | dict[str, object]) -> MetadataIndex:
    columns = MetadataIndex()
    columns.extend(cast("list[Metadata]", metadata))
    return columns


@settings(max_examples=300)
@given(st.lists(dirty.metadata(), max_size=12), st.lists(dirty.filters(), min_size=1, max_size=6))
def test_the_mask_equals_the_result_of_the_evaluator(held: list[dict[str, JSON]], wheres: list[Filter]) -> None:
    columns = filled(*held)
    for where in wheres:
        assert passed(columns, where) == [evaluate(parse_filter(where), each) for each in held], where


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.sampled
@settings(max_examples=sampled(4000))
@given(st.lists(dirty.metadata(), max_size=12), st.lists(dirty.filters(), min_size=1, max_size=6))
def test_the_mask_equals_the_result_of_the_evaluator_many_times(
    held: list[dict[str, JSON]], wheres: list[Filter]
) -> None:
    columns = filled(*held)
    for where in wheres:
        assert passed(columns, where) == [evaluate(parse_filter(where), each) for each in held], where


OPERATORS = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte")


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_pair_of_values_is_compared_as_by_the_evaluator(operator: str) -> None:
    values: list[dict[str, JSON]] = [{"f": value} for value in dirty.SCALARS]
    values += [{"f": [value, "b", 2]} for value in dirty.SCALARS]
    values += [{"f": {"b": value}} for value in dirty.SCALARS]
    columns = filled(*values)
    for operand in dirty.SCALARS if operator in {"$eq", "$ne"} else (*dirty.NUMBERS, *dirty.STRINGS):
        for field in ("f", "f.b"):
            where: Filter = {field: {operator: operand}}
            assert passed(columns, where) == [evaluate(parse_filter(where), each) for each in values], where


@given(st.lists(dirty.metadata(), max_size=8), st.lists(dirty.metadata(), max_size=8), dirty.filters())
def test_later_rows_are_included_unless_the_row_count_is_limited(
    first: list[dict[str, JSON]], second: list[dict[str, JSON]], where: Filter
) -> None:
    node = parse_filter(where)
    columns = filled(*first)
    columns.mask(node, len(first))
    columns.extend(second)
    expected = [evaluate(node, each) for each in [*first, *second]]
    assert columns.mask(node, columns.rows).tolist() == expected
    assert columns.mask(node, len(first)).tolist() == expected[: len(first)]


def test_many_distinct_values_are_compared_by_value() -> None:
    columns = filled(*({"n": n / 7, "s": f"{n:05}", "i": n} for n in range(20_000)))
    assert sum(passed(columns, {"n": {"$lt": 1000}})) == 7000
    assert sum(passed(columns, {"s": {"$gte": "00100", "$lt": "00200"}})) == 100
    assert sum(passed(columns, {"i": {"$in": [5, 5.0, 70.0, -1]}})) == 2


def test_a_mask_of_a_hundred_thousand_rows_is_faster_than_two_thousand_evaluations() -> None:
    # About five times on an idle machine: 2 ms, where each row on its own takes 4 to 6 microseconds.
    rows: list[dict[str, JSON]] = [
        {"bucket": n % 10, "name": f"doc {n}", "year": 1900 + n % 120} for n in range(100_000)
    ]
    columns = filled(*rows)
    node = parse_filter({"bucket": 3, "year": {"$gte": 1950}, "name": {"$gt": "doc 5"}})
    columns.mask(node, columns.rows)

    def seconds(work: Callable[[], object]) -> float:
        start = time.process_time()
        work()
        return time.process_time() - start

    def evaluate_some() -> list[bool]:
        return [evaluate(node, row) for row in rows[:2000]]

    rounds = [(seconds(lambda: columns.mask(node, columns.rows)), seconds(evaluate_some)) for _ in range(15)]
    masks, evaluations = (statistics.median(each) for each in zip(*rounds, strict=True))
    assert masks < evaluations


def test_fill_reads_just_the_rows_that_are_missing() -> None:
    columns = filled({"a": 1})
    reads: list[int] = []

    def read(first: int) -> Iterator[Metadata]:
        reads.append(first)
        yield from [{"a": 2}, {"a": 3}]

    columns.extend_to(3, read)
    columns.extend_to(3, read)
    columns.extend_to(2, read)
    assert reads == [1]
    assert passed(columns, {"a": {"$gte": 2}}) == [False, True, True]


def test_a_read_that_fails_halfway_can_be_repeated() -> None:
    columns = MetadataIndex()

    def broken(first: int) -> Iterator[Metadata]:
        yield {"a": first}
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        columns.extend_to(2, broken)
    columns.extend_to(2, lambda first: [{"a": first}])
    assert passed(columns, {"a": 1}) == [False, True]


def test_threads_can_filter_while_rows_are_added() -> None:
    columns = MetadataIndex()
    node = parse_filter({"n": {"$lt": 500}})
    wrong: list[int] = []

    def ask() -> None:
        for _ in range(200):
            rows = columns.rows
            if int(columns.mask(node, rows).sum()) != min(rows, 500):
                wrong.append(rows)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for n in range(1000):
        columns.extend([{"n": n}])
    for thread in threads:
        thread.join()
    assert wrong == []


@may_leave_warnings
def test_interrupts_leave_whole_rows() -> None:
    rows: list[Metadata] = [{"a": f"x{n % 7}", "b": [n % 3, True], "c": {"d": n % 5}} for n in range(2000)]
    wheres: list[Filter] = [{"a": "x3"}, {"b": 2}, {"c.d": {"$gt": 3}}]
    expected = [[evaluate(parse_filter(where), row) for row in rows] for where in wheres]
    rng = random.Random(1)
    for _ in range(40):
        columns = MetadataIndex()
        while columns.rows < len(rows):
            call_interrupted(partial(columns.extend_to, len(rows), lambda first: rows[first:]), 0.003, rng)
        assert [passed(columns, where) for where in wheres] == expected
