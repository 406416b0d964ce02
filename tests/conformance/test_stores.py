"""The conformance suite for every registered store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ragkit.errors import MissingExtra
from ragkit.store import STORES
from ragkit.testing.store_factory import StoreUnavailable, open_store, scratch_options
from ragkit.testing.store_under_test import StoreUnderTest
from ragkit.testing.stores import StoreCheck, checks_for

RANDOM = ("random_filters_match_the_evaluator", "random_writes_match_a_dict", "a_killed_writer_leaves_whole_batches")
FEW = 40
"""Examples of the random checks in `make test`; thousands in `make test-slow`."""


def cases(names: tuple[str, ...] = ()) -> Iterator[object]:
    """One case per store and check; a store whose package or server is missing is one skipped case."""
    for name in STORES:
        try:
            store = STORES.find(name)
            scratch_options(name, Path())
        except (MissingExtra, StoreUnavailable) as error:
            yield pytest.param(name, None, id=name, marks=pytest.mark.skip(reason=str(error)))
            continue
        for check in checks_for(store):
            if not names or check.__name__ in names:
                yield pytest.param(name, check, id=f"{name}-{check.__name__}")


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
