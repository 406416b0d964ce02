"""`VectorStore.create`, the registry of the stores, and custom stores."""

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
from ragkit.registry import ComponentSpec
from ragkit.store import STORES, StoreRegistry
from ragkit.store.backends.memory import MemoryStore
from ragkit.store.backends.sqlite import SqliteStore
from ragkit.store.base import (
    MAX_METADATA_DEPTH,
    Filter,
    Rows,
    Store,
    missing_methods,
    validate_documents,
    validate_rows,
)
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
            r"dimensions must be an option of the store 'memory' \(did you mean 'dimension'\?\), one of: dimension",
        ),
        ("memory", {"zzz": 3}, r"zzz must be an option of the store 'memory', one of: dimension \(got 3\)"),
        ("sqlite", {}, r"path must be set: the store 'sqlite' requires it \(got None\)"),
        ("memory", {"dimension": 0}, r"dimension must be >= 1 \(got 0\)"),
        ("faiss", {"path": "x", "method": "ivf"}, r"method must be 'flat', 'hnsw' or 'ivfpq' \(got 'ivf'\)"),
        ("chroma", {"path": "x", "port": 0}, r"port must be between 1 and 65535 \(got 0\)"),
    ],
)
def test_invalid_options_are_rejected(name: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        VectorStore.create(name, **options)


def test_an_unknown_store_name_gets_a_suggestion() -> None:
    with pytest.raises(UnknownName, match=r"unknown store 'sqlit' \(did you mean 'sqlite'\?\)"):
        VectorStore.create("sqlit")


def test_every_store_has_a_frozen_dataclass_of_options() -> None:
    for name in STORES:
        kind = STORES.options_class(name)
        assert is_dataclass(kind)
        assert kind.__dataclass_params__.frozen  # type: ignore[attr-defined]  # what @dataclass leaves on the class


def test_the_registry_and_the_options_import_no_adapter() -> None:
    code = (
        "import sys, ragkit.store, ragkit.store.options, ragkit.store.vector_store, ragkit.store.filters.language\n"
        "heavy = {'sqlite3', 'simsimd', 'hypothesis', 'pytest', 'ragkit.store.backends.memory', 'ragkit.testing'}\n"
        "sys.exit(', '.join(heavy & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


class Upside(VectorStore):
    """A custom store with only the four abstract methods."""

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


def test_a_custom_store_works_with_four_methods() -> None:
    with Upside() as store:
        store.add_documents(make_documents("ab"), sample_vectors()[:2])
        assert [result.document.id for result in store.search(-sample_vectors()[1], 1)] == ["b"]
        with pytest.raises(StoreError, match="Upside does not implement `count`: a knowledge base needs it"):
            store.count()
        with pytest.raises(StoreError, match="Upside does not implement `scan`: a knowledge base needs it"):
            store.scan()


class Countable(Upside):
    """The four methods, and `count`."""

    def count(self) -> int:
        return self.inner.count()


class Complete(Countable):
    """The six methods of a registered store."""

    def scan(self) -> Iterator[tuple[str, Document, Rows]]:
        return self.inner.scan()


class Standalone:
    """A store that does not inherit `VectorStore`."""

    search = Upside.search


@pytest.mark.parametrize(
    ("store", "missing"),
    [(Upside, "count, scan"), (Countable, "scan"), (Standalone, "add_documents, delete, clear, count, scan, close")],
)
def test_a_registered_store_that_lacks_methods_is_rejected_by_name(store: type[Store], missing: str) -> None:
    registry = StoreRegistry("store", "stores", {"mine": ComponentSpec(f"{__name__}:{store.__name__}")})
    message = (
        rf"the store 'mine' \({__name__}\.{store.__name__}\) lacks the methods {missing}: "
        "a registered store implements add_documents, search, delete, clear, count, scan, close"
    )
    with pytest.raises(StoreError, match=message):
        registry.find("mine")


def test_a_registered_store_with_all_methods_is_accepted() -> None:
    assert StoreRegistry("store", "stores", {"mine": ComponentSpec(f"{__name__}:Complete")}).find("mine") is Complete
    assert [name for name in STORES.specs if missing_methods(STORES.find(name))] == []


def test_a_class_without_the_four_methods_cannot_be_instantiated() -> None:
    class Half(VectorStore):
        pass

    with pytest.raises(TypeError, match="abstract method"):
        Half()  # type: ignore[abstract]  # on purpose


class IgnoresFilter(MemoryStore):
    """Ignores the filter of a search."""

    def search(self, query_embedding: Rows, top_k: int = 5, filter: Filter | None = None) -> list[SearchResult]:
        return super().search(query_embedding, top_k)


@pytest.fixture
def no_shrinking() -> Iterator[None]:
    """Hypothesis stops at the first failing case."""
    settings.register_profile("no shrinking", phases=[Phase.generate])
    before = settings.get_current_profile_name()
    settings.load_profile("no shrinking")
    yield
    settings.load_profile(before)


@pytest.mark.usefixtures("no_shrinking")
@pytest.mark.parametrize("check", ["random_filters_match_the_evaluator", "results_are_complete_under_a_rare_filter"])
def test_the_conformance_suite_detects_a_store_that_ignores_its_filter(check: str) -> None:
    chosen = {function.__name__: function for function in CHECKS}[check]
    with pytest.raises(AssertionError, match="ids found with the filter"):
        chosen(StoreUnderTest(open=lambda: IgnoresFilter(MemoryOptions()), examples=50))


class FiltersLate(MemoryStore):
    """Applies its filter after top_k, and so loses results."""

    def search(self, query_embedding: Rows, top_k: int = 5, filter: Filter | None = None) -> list[SearchResult]:
        passing = {result.document.id for result in super().search(query_embedding, 10**6, filter)}
        return [result for result in super().search(query_embedding, top_k) if result.document.id in passing]


def test_the_conformance_suite_detects_a_store_that_filters_after_top_k() -> None:
    chosen = {function.__name__: function for function in CHECKS}["results_are_complete_under_a_rare_filter"]
    with pytest.raises(AssertionError, match="ids found with the filter"):
        chosen(StoreUnderTest(open=lambda: FiltersLate(MemoryOptions())))


def test_the_checks_follow_the_declarations_of_a_store() -> None:
    assert checks_for(MemoryStore) == CHECKS
    assert len(checks_for(SqliteStore)) == len(CHECKS) + 4


def test_a_store_that_cannot_be_opened_names_the_variable_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragkit.testing.store_factory.PATH_OPTIONS", ())
    with pytest.raises(
        StoreUnavailable, match="the store 'sqlite' requires the option 'path': set RAGKIT_TEST_SQLITE_PATH"
    ):
        open_store("sqlite", Path())


def test_rows_are_converted_from_lists_and_other_floats() -> None:
    assert validate_rows(np.array([[0, 1], [1, 0]], np.float16), 2, 2).dtype == np.float32
    assert validate_rows([[0.6, 0.8]], 1, None).tolist() == np.array([[0.6, 0.8]], np.float32).tolist()  # type: ignore[arg-type]  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.array([[1e300, 0]]), "vector 0 has length inf"),
        (np.array([[1, 0], [1e30, 0]]), "vector 1 has length inf"),
        (np.array([[1, 0], [np.nan, 0]]), "vector 1 has length nan"),
        (np.array([[0.998, 0]]), r"vector 0 has length 0\.998: vectors must be finite and of length 1"),
        (np.ones(2), r"vector 0 has shape \(2,\) instead of \(1, dimension\)"),
    ],
)
def test_rows_that_are_not_of_length_one_are_rejected_by_number(rows: Rows, message: str) -> None:
    with pytest.raises(InvalidVector, match=message):
        validate_rows(rows, len(rows) if rows.ndim == 2 else 1, None)


def test_the_dimension_is_checked_before_the_length() -> None:
    with pytest.raises(DimensionMismatch, match="embedding dimension mismatch: the store has 2, got 3"):
        validate_rows(unit_rows(1, 3, seed=1) * 5, 1, 2)


def test_too_deeply_nested_metadata_are_rejected() -> None:
    deep: list[object] = []
    for _ in range(MAX_METADATA_DEPTH * 100):
        deep = [deep]
    with pytest.raises(
        StoreError, match="the metadata of document 'x' cannot be stored: 'a' exceeds the nesting limit of 64"
    ):
        validate_documents([Document("text", {"a": deep}, id="x")])  # type: ignore[dict-item]  # what JSON would allow


def test_keys_of_metadata_must_be_strings() -> None:
    with pytest.raises(StoreError, match=r"cannot be stored: keys must be strings \(got 1\)"):
        validate_documents([Document("text", {"a": {1: 2}})])  # type: ignore[dict-item]  # on purpose
