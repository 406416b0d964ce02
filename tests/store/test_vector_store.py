"""`VectorStore.create`, the table of the stores, and stores of one's own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import is_dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import Phase, settings

from ragkit.errors import DimensionMismatch, InvalidOption, InvalidVector, StoreError, UnknownName
from ragkit.records import Document, SearchResult
from ragkit.store import STORES
from ragkit.store.backends.memory import MemoryStore
from ragkit.store.backends.sqlite import SqliteStore
from ragkit.store.base import MAX_METADATA_DEPTH, Filter, Rows, validate_documents, validate_rows
from ragkit.store.options import MemoryOptions
from ragkit.store.vector_store import VectorStore
from ragkit.testing.store_factory import StoreUnavailable, open_store, unit_rows
from ragkit.testing.store_under_test import StoreUnderTest, make_documents, sample_vectors
from ragkit.testing.stores import CHECKS, checks_for


def test_a_store_is_created_by_name_with_its_options(tmp_path: Path) -> None:
    assert isinstance(VectorStore.create("memory", dimension=3), MemoryStore)
    store = VectorStore.create("sqlite", path=tmp_path / "index")
    assert isinstance(store, SqliteStore)
    with store:
        assert store.count() == 0


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "memory",
            {"dimensions": 3},
            r"dimensions is 3: an option of the store 'memory' \(did you mean 'dimension'\?\)",
        ),
        ("memory", {"zzz": 3}, r"zzz is 3: an option of the store 'memory': one of dimension is wanted"),
        ("sqlite", {}, r"path is None: a value for it, which the store 'sqlite' cannot do without, is wanted"),
        ("memory", {"dimension": 0}, r"dimension is 0: a number of columns, 1 or more, is wanted"),
    ],
)
def test_options_that_do_not_fit_are_refused(name: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        VectorStore.create(name, **options)


def test_an_unknown_store_is_met_with_the_nearest_name() -> None:
    with pytest.raises(UnknownName, match=r"'sqlit' is not the name of a store \(did you mean 'sqlite'\?\)"):
        VectorStore.create("sqlit")


def test_every_store_has_a_frozen_dataclass_of_options() -> None:
    for name in STORES:
        kind = STORES.options_class(name)
        assert is_dataclass(kind)
        assert kind.__dataclass_params__.frozen  # type: ignore[attr-defined]  # what @dataclass leaves on the class


def test_the_table_and_the_options_are_light_to_import() -> None:
    code = (
        "import sys; import ragkit.store, ragkit.store.options, ragkit.store.vector_store, ragkit.store.filters.language\n"
        "heavy = {'sqlite3', 'numkong', 'hypothesis', 'pytest', 'ragkit.store.backends.memory', 'ragkit.testing'}\n"
        "sys.exit(', '.join(heavy & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


class Upside(VectorStore):
    """Somebody's own store, with no more than the four methods that are a must."""

    def __init__(self) -> None:
        self.inner = MemoryStore(MemoryOptions())

    def add_documents(self, documents: Sequence[Document], embeddings: Rows) -> list[str]:
        return self.inner.add_documents(documents, embeddings)

    def search(self, query_embedding: Rows, top_k: int = 5, filter: Filter | None = None) -> list[SearchResult]:
        return self.inner.search(-query_embedding, top_k, filter)

    def delete(self, ids: Sequence[str]) -> int:
        return self.inner.delete(ids)

    def clear(self) -> None:
        self.inner.clear()


def test_a_store_of_ones_own_needs_four_methods() -> None:
    with Upside() as store:
        store.add_documents(make_documents("ab"), sample_vectors()[:2])
        assert [result.document.id for result in store.search(-sample_vectors()[1], 1)] == ["b"]
        with pytest.raises(StoreError, match="Upside cannot count its documents: give it a method `count`"):
            store.count()
        with pytest.raises(StoreError, match="Upside cannot list its documents: give it a method `scan`"):
            store.scan()


def test_a_class_without_the_four_methods_cannot_be_made() -> None:
    class Half(VectorStore):
        pass

    with pytest.raises(TypeError, match="abstract method"):
        Half()  # type: ignore[abstract]  # on purpose


class Wrong(MemoryStore):
    """Forgets its filter."""

    def search(self, query_embedding: Rows, top_k: int = 5, filter: Filter | None = None) -> list[SearchResult]:
        return super().search(query_embedding, top_k)


@pytest.fixture
def no_shrinking() -> Iterator[None]:
    """Hypothesis stops at the first case that fails: which one does not matter here."""
    settings.register_profile("no shrinking", phases=[Phase.generate])
    before = settings.get_current_profile_name()
    settings.load_profile("no shrinking")
    yield
    settings.load_profile(before)


@pytest.mark.usefixtures("no_shrinking")
@pytest.mark.parametrize("check", ["filters_mean_what_the_evaluator_says", "results_are_complete_under_a_rare_filter"])
def test_the_conformance_suite_finds_a_store_that_forgets_its_filter(check: str) -> None:
    chosen = {each.__name__: each for each in CHECKS}[check]
    with pytest.raises(AssertionError, match="ids found with the filter"):
        chosen(StoreUnderTest(open=lambda: Wrong(MemoryOptions()), examples=50))


class Late(MemoryStore):
    """Applies its filter after top_k, and so loses results."""

    def search(self, query_embedding: Rows, top_k: int = 5, filter: Filter | None = None) -> list[SearchResult]:
        passing = {result.document.id for result in super().search(query_embedding, 10**6, filter)}
        return [result for result in super().search(query_embedding, top_k) if result.document.id in passing]


def test_the_conformance_suite_finds_a_store_that_filters_after_top_k() -> None:
    chosen = {each.__name__: each for each in CHECKS}["results_are_complete_under_a_rare_filter"]
    with pytest.raises(AssertionError, match="ids found with the filter"):
        chosen(StoreUnderTest(open=lambda: Late(MemoryOptions())))


def test_a_store_is_held_to_what_it_says_of_itself() -> None:
    assert checks_for(MemoryStore) == CHECKS
    assert len(checks_for(SqliteStore)) == len(CHECKS) + 4


def test_a_store_that_cannot_be_opened_names_the_variable_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragkit.testing.store_factory.PATH_OPTIONS", ())
    with pytest.raises(
        StoreUnavailable, match="the store 'sqlite' needs its option 'path': set RAGKIT_TEST_SQLITE_PATH"
    ):
        open_store("sqlite", Path())


def test_rows_are_taken_from_lists_and_other_floats() -> None:
    assert validate_rows(np.array([[0, 1], [1, 0]], np.float16), 2, 2).dtype == np.float32
    assert validate_rows([[0.6, 0.8]], 1, None).tolist() == np.array([[0.6, 0.8]], np.float32).tolist()  # type: ignore[arg-type]  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.array([[1e300, 0]]), "vector 0 has length inf"),
        (np.array([[1, 0], [1e30, 0]]), "vector 1 has length inf"),
        (np.array([[1, 0], [np.nan, 0]]), "vector 1 has length nan"),
        (np.array([[0.998, 0]]), r"vector 0 has length 0\.998: stores take finite vectors of length 1"),
        (np.ones(2), r"vector 0 has shape \(2,\) where \(1, dimension\) is wanted"),
    ],
)
def test_rows_that_are_not_of_length_one_are_refused_by_number(rows: Rows, message: str) -> None:
    with pytest.raises(InvalidVector, match=message):
        validate_rows(rows, len(rows) if rows.ndim == 2 else 1, None)


def test_the_width_is_checked_before_the_length() -> None:
    with pytest.raises(DimensionMismatch, match="vectors have 3 columns but the store holds 2"):
        validate_rows(unit_rows(1, 3, seed=1) * 5, 1, 2)


def test_metadata_that_are_nested_too_deep_are_refused() -> None:
    deep: list[object] = []
    for _ in range(MAX_METADATA_DEPTH * 100):
        deep = [deep]
    with pytest.raises(StoreError, match="the metadata of document 'x' cannot be stored: 'a' is nested more than 64"):
        validate_documents([Document("text", {"a": deep}, id="x")])  # type: ignore[dict-item]  # what JSON would allow


def test_keys_of_metadata_are_strings() -> None:
    with pytest.raises(StoreError, match="cannot be stored: the key 1 is not a string"):
        validate_documents([Document("text", {"a": {1: 2}})])  # type: ignore[dict-item]  # on purpose
