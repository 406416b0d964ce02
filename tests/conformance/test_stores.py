"""The conformance suite for every registered store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ragkit.store import STORES
from ragkit.testing.persistence_checks import PERSISTENT_CHECKS, SHARED_CHECKS
from ragkit.testing.store_factory import StoreUnavailable, open_store, scratch_options
from ragkit.testing.store_under_test import StoreUnderTest
from ragkit.testing.stores import CHECKS, StoreCheck, checks_for

RANDOM = ("random_filters_match_the_evaluator", "random_writes_match_a_dict", "a_killed_writer_leaves_whole_batches")
LONG = ("recall_is_high_among_many_documents", "every_comparison_matches_the_evaluator")
"""Checks that take seconds: a tenth of the stores by the day."""
FEW = 20
"""Examples of the random checks in `make test`; thousands in `make test-slow`."""


IN_MEMORY = ("memory",)
SHARED = ("sqlite", "faiss", "lancedb", "pgvector")


def cases(names: tuple[str, ...] = ()) -> Iterator[object]:
    """One case per store and check; a store whose server is missing is one skipped case.

    No package of a store is imported: each process of a test run collects the cases of all stores.
    """
    for name in STORES:
        try:
            scratch_options(name, Path())
        except StoreUnavailable as error:
            yield pytest.param(name, None, id=name, marks=pytest.mark.skip(reason=str(error)))
            continue
        for check in checks_of(name):
            if not names or check.__name__ in names:
                marks = (pytest.mark.rotating,) if check.__name__ in LONG else ()
                yield pytest.param(name, check, id=f"{name}-{check.__name__}", marks=marks)


def checks_of(name: str) -> tuple[StoreCheck, ...]:
    persistent = () if name in IN_MEMORY else PERSISTENT_CHECKS
    return (*CHECKS, *persistent, *(SHARED_CHECKS if name in SHARED else ()))


@pytest.mark.parametrize("name", sorted(STORES))
def test_a_store_has_the_checks_for_its_declarations(name: str) -> None:
    assert checks_of(name) == checks_for(STORES.find(name))


@pytest.fixture
def subject(name: str, tmp_path: Path, record_property: Callable[[str, object], None]) -> Iterator[StoreUnderTest]:
    """A store in a temporary directory; its counters are reported (`scripts/conformance_table.py`)."""
    store = StoreUnderTest(open=lambda: open_store(name, tmp_path), name=name, directory=tmp_path)
    yield store
    for counter, number in store.counters.items():
        record_property(counter, number)


@pytest.mark.parametrize(("name", "check"), [*cases()])
def test_the_store_passes_the_check(subject: StoreUnderTest, check: StoreCheck) -> None:
    check(replace(subject, examples=FEW))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("name", "check"), [*cases(RANDOM)])
def test_the_store_passes_the_check_on_thousands_of_cases(
    subject: StoreUnderTest, check: StoreCheck, pytestconfig: pytest.Config
) -> None:
    check(replace(subject, examples=pytestconfig.getoption("cases")))
