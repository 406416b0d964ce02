"""The conformance suite of vector stores, for the stores of ragkit and for custom ones.

    for check in checks_for(MyStore):
        check(StoreUnderTest(open=lambda: MyStore(MyOptions()), examples=300))

The name of a check is its claim; it raises AssertionError if the claim does not hold. Results are compared with exact
search over a dict and with the reference evaluator of filters. Requires hypothesis.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeAlias, cast

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragkit.errors import DimensionMismatch, InvalidFilter, InvalidOption, InvalidVector, StoreError
from ragkit.records import JSON, Document, Heading
from ragkit.store.base import Filter, Store
from ragkit.testing import filter_strategies
from ragkit.testing.persistence_checks import PERSISTENT_CHECKS, SHARED_CHECKS
from ragkit.testing.store_factory import unit_rows
from ragkit.testing.store_under_test import (
    DIMENSION,
    StoreContents,
    StoreUnderTest,
    assert_equal,
    assert_raises,
    check_contents,
    check_search,
    fill_store,
    make_documents,
    sample_vectors,
)

StoreCheck: TypeAlias = Callable[[StoreUnderTest], None]

LARGE_COUNT, LARGE_DIMENSION = 12_000, 32


def an_empty_store_finds_nothing(subject: StoreUnderTest) -> None:
    store = subject.open()
    assert_equal(store.search(sample_vectors()[0], 5), [], "results")
    assert_equal(store.search(sample_vectors()[0], 5, {"a": {"$ne": 1}}), [], "results")
    assert_equal(store.add_documents([], np.empty((0, DIMENSION), np.float32)), [], "ids returned")
    assert_equal(store.delete(["missing"]), 0, "deleted")
    store.clear()
    check_contents(store, {})
    store.close()
    store.close()


def documents_round_trip(subject: StoreUnderTest) -> None:
    store = subject.open()
    document = Document(
        text="Line one\n\n# Zwölf Boxkämpfer 😀\x00\ttail",
        metadata={
            "n": None,
            "deep": {"list": [1, "a", None, {"x": [True]}]},
            "big": 2**70,
            "": "empty key",
            "ü": "\x00",
        },
        source="/data/it's; DROP TABLE documents; --.md",
        title="A “title”",
        page_starts=(0, 9),
        headings=(Heading(10, 1, "Zwölf"), Heading(20, 2, "")),
        format="markdown",
        language="py",
        id="an id with 'quotes', \"more\", % and 😀",
    )
    large = Document("x" * 300_000, {"words": ["w" * 1000] * 50})
    contents = fill_store(store, [document, large, Document("")], sample_vectors()[:3])
    check_contents(store, contents)
    check_search(store, contents, sample_vectors()[0], 3)
    store.close()


def metadata_is_copied(subject: StoreUnderTest) -> None:
    store = subject.open()
    nested: list[JSON] = [1]
    metadata: dict[str, JSON] = {"a": nested, "pair": (1, 2)}
    store.add_documents([Document("text", metadata, id="x")], sample_vectors()[:1])
    nested.append(2)
    metadata["b"] = 1
    [result] = store.search(sample_vectors()[0], 1, {"a": 1})
    assert_equal(result.document.metadata, {"a": [1], "pair": [1, 2]}, "metadata")
    assert_equal(store.search(sample_vectors()[0], 1, {"a": 2}), [], "results")
    store.close()


def an_existing_id_is_replaced(subject: StoreUnderTest) -> None:
    store = subject.open()
    fill_store(store, make_documents("abc", {"v": 1, "old": True}), sample_vectors()[:3])
    contents = fill_store(store, make_documents("abc", {"v": 2}), sample_vectors()[3:6])
    check_contents(store, contents)
    check_search(store, contents, sample_vectors()[0], 5)
    assert_equal(store.search(sample_vectors()[0], 5, {"old": True}), [], "results for the old metadata")
    store.close()


def the_last_document_of_duplicate_ids_is_stored(subject: StoreUnderTest) -> None:
    store = subject.open()
    documents = [Document("first", id="x"), Document("other", id="y"), Document("last", id="x")]
    contents = fill_store(store, documents, sample_vectors()[:3])
    check_contents(store, contents)
    check_search(store, contents, sample_vectors()[0], 5)
    store.close()


def default_ids_depend_on_the_content(subject: StoreUnderTest) -> None:
    store = subject.open()
    duplicates = [
        Document("same text", source="/a"),
        Document("same text", source="/a"),
        Document("same text", source="/b"),
    ]
    names = store.add_documents(duplicates, sample_vectors()[:3])
    assert_equal(names[0], names[1], "id of equal content")
    assert_equal(store.count(), 2, "count")
    store.close()


def deleted_documents_are_never_found_again(subject: StoreUnderTest) -> None:
    store = subject.open()
    contents = fill_store(store, make_documents("abcdef"), sample_vectors()[:6])
    assert_equal(store.delete(["b", "missing", "d", "b"]), 2, "deleted")
    assert_equal(store.delete(["b"]), 0, "deleted again")
    del contents["b"], contents["d"]
    for row in sample_vectors()[:6]:
        check_search(store, contents, row, 10)
    check_contents(store, contents)
    contents |= fill_store(store, make_documents("b"), sample_vectors()[6:7])
    check_search(store, contents, sample_vectors()[6], 10)
    store.close()


def clear_removes_all_documents_and_the_dimension(subject: StoreUnderTest) -> None:
    store = subject.open()
    fill_store(store, make_documents("abc"), sample_vectors()[:3])
    store.clear()
    check_contents(store, {})
    assert_equal(store.search(sample_vectors()[0], 3), [], "results")
    check_contents(store, fill_store(store, make_documents("xy"), unit_rows(2, DIMENSION + 1, seed=1)))
    store.close()


def repeated_replacement_keeps_only_the_latest_documents(subject: StoreUnderTest) -> None:
    """Enough writes to trigger compaction."""
    store = subject.open()
    names = [f"{position:03}" for position in range(150)]
    contents: StoreContents = {}
    for n in range(6):
        contents = fill_store(
            store, make_documents(names, {"v": n}), sample_vectors()[[(n + position) % 12 for position in range(150)]]
        )
        check_search(store, contents, sample_vectors()[n], 20)
        check_search(store, contents, sample_vectors()[n], 20, {"v": n})
    check_contents(store, contents)
    assert_equal(store.delete(names[1:]), 149, "deleted")
    check_contents(store, {names[0]: contents[names[0]]})
    store.close()


def ids_are_ordered_by_code_point(subject: StoreUnderTest) -> None:
    store = subject.open()
    names = ["b", "a", "B", "é", "z", "10", "9", "\uffff", "😀", "a b", "aa"]
    contents = fill_store(store, make_documents(names), sample_vectors()[: len(names)])
    check_contents(store, contents)
    store.close()


def equal_scores_are_ordered_by_id(subject: StoreUnderTest) -> None:
    store = subject.open()
    names = [f"{n * 37 % 101:03}" for n in range(101)]
    rows = sample_vectors()[[n % 2 for n in range(101)]]
    contents = fill_store(store, make_documents(names), rows)
    for top_k in (1, 7, 51, 60, 101, 500):
        check_search(store, contents, sample_vectors()[0], top_k)
    store.delete(["000", "050"])
    del contents["000"], contents["050"]
    check_search(store, contents, sample_vectors()[0], 20)
    store.close()


def results_are_complete_under_a_rare_filter(subject: StoreUnderTest) -> None:
    """One document in 1,000 matches, and the matches are the farthest from the query."""
    store = subject.open()
    query = unit_rows(1, DIMENSION, seed=3)[0]
    rows = unit_rows(3000, DIMENSION, seed=4)
    rows = rows[np.argsort(-(rows @ query))]
    documents = [Document(f"{n}", {"n": n, "rare": n % 1000 == 999}, id=f"{n:05}") for n in range(3000)]
    contents = fill_store(store, documents, rows)
    check_search(store, contents, query, 10)
    check_search(store, contents, query, 10, {"rare": True})
    check_search(store, contents, query, 2, {"rare": True})
    check_search(store, contents, query, 10, {"n": {"$gte": 2995}})
    check_search(store, contents, query, 10, {"n": {"$lt": 0}})
    store.close()


def recall_is_high_among_many_documents(subject: StoreUnderTest) -> None:
    """Enough vectors to build an index: recall@10 is at least 0.95, and the results are complete.

    The vectors are clustered, like embeddings of texts.
    """
    store = subject.open()
    centres, rng = unit_rows(100, LARGE_DIMENSION, seed=5), np.random.default_rng(6)
    rows = centres[rng.integers(0, 100, LARGE_COUNT)] + 0.7 * unit_rows(LARGE_COUNT, LARGE_DIMENSION, seed=8)
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    documents = [Document(f"{n}", {"tenth": n % 10}, id=f"{n:05}") for n in range(LARGE_COUNT)]
    for start in range(0, LARGE_COUNT, 1000):
        store.add_documents(documents[start : start + 1000], rows[start : start + 1000])
    for where, share in (({}, slice(None)), ({"tenth": 3}, slice(3, None, 10))):
        correct = 0
        for query in rows[:: LARGE_COUNT // 20][:20]:
            ids = [result.document.id for result in store.search(query, 10, where)]
            assert_equal(len(set(ids)), 10, "number of results")
            nearest = np.argsort(-(rows[share] @ query), kind="stable")[:10]
            correct += len({documents[share][position].id for position in nearest.tolist()}.intersection(ids))
        if correct < 0.95 * 200:
            raise AssertionError(f"recall@10 with the filter {where!r} must be >= 0.95 (got {correct / 200:.3f})")
    store.close()


def invalid_input_is_rejected_without_changes(subject: StoreUnderTest) -> None:
    store = subject.open()
    contents = fill_store(store, make_documents("ab"), sample_vectors()[:2])
    document, row = make_documents("c"), sample_vectors()[2:3]
    zero, wrong_dimension = np.zeros((1, DIMENSION), np.float32), unit_rows(1, DIMENSION + 1, seed=1)
    nan = np.full((1, DIMENSION), np.nan, np.float32)
    assert_raises(DimensionMismatch, f"got {DIMENSION + 1}", lambda: store.add_documents(document, wrong_dimension))
    assert_raises(DimensionMismatch, f"the store has {DIMENSION}", lambda: store.search(wrong_dimension[0], 1))
    assert_raises(InvalidVector, "length 0", lambda: store.add_documents(make_documents("cd"), np.vstack([row, zero])))
    assert_raises(InvalidVector, "length nan", lambda: store.add_documents(document, nan))
    assert_raises(InvalidVector, "length 2", lambda: store.add_documents(document, row * 2))
    assert_raises(InvalidVector, "shape", lambda: store.add_documents(make_documents("cd"), row))
    assert_raises(InvalidVector, "length 0", lambda: store.search(zero[0], 1))
    assert_raises(InvalidOption, "top_k", lambda: store.search(row[0], 0))
    assert_raises(InvalidOption, "ids", lambda: store.delete("ab"))
    assert_raises(InvalidFilter, "'$gtt'", lambda: store.search(row[0], 1, {"a": {"$gtt": 1}}))
    when = cast("dict[str, JSON]", {"when": datetime(2026, 1, 1, tzinfo=UTC)})
    invalid = [*make_documents("d"), Document("text", when, id="c")]
    assert_raises(StoreError, "datetime", lambda: store.add_documents(invalid, sample_vectors()[:2]))
    assert_raises(StoreError, "nan", lambda: store.add_documents([Document("text", {"x": math.nan})], row))
    check_contents(store, contents)
    store.close()


def every_comparison_matches_the_evaluator(subject: StoreUnderTest) -> None:
    """One document per value of a field, one search per operator and operand."""
    store = subject.open()
    metadata: list[dict[str, JSON]] = [{"f": value} for value in filter_strategies.SCALARS]
    metadata += [{}, {"f": ["a", 1]}, {"f": {"b": 1}}]
    documents = [Document(f"{n}", fields, id=f"{n:03}") for n, fields in enumerate(metadata)]
    contents = fill_store(store, documents, sample_vectors()[[n % 12 for n in range(len(metadata))]])
    for operand in filter_strategies.SCALARS:
        wheres: list[Filter] = [{"f": {"$eq": operand}}, {"f": {"$ne": operand}}, {"f": {"$nin": [operand, "a"]}}]
        if operand is not None and not isinstance(operand, bool):
            wheres += [{"f": {operator: operand}} for operator in ("$gt", "$gte", "$lt", "$lte")]
        for where in wheres:
            check_search(store, contents, sample_vectors()[0], len(metadata), where)
    store.close()


def random_filters_match_the_evaluator(subject: StoreUnderTest) -> None:
    """Random filters on random metadata."""
    store = subject.open()
    records = st.lists(st.tuples(filter_strategies.metadata(), st.integers(0, 11)), min_size=1, max_size=25)
    searches = st.lists(
        st.tuples(filter_strategies.filters(), st.integers(1, 30), st.integers(0, 11)), min_size=10, max_size=20
    )

    def run(records: list[tuple[dict[str, JSON], int]], searches: list[tuple[Filter, int, int]]) -> None:
        subject.counters.update(cases=1, searches=len(searches))
        store.clear()
        documents = [Document(f"{n}", fields, id=f"{n:03}") for n, (fields, _) in enumerate(records)]
        contents = fill_store(store, documents, sample_vectors()[[row for _, row in records]])
        for where, top_k, query in searches:
            check_search(store, contents, sample_vectors()[query], top_k, where)

    _run_property(run, subject.examples // 3, records, searches)
    store.close()


def random_writes_match_a_dict(subject: StoreUnderTest) -> None:
    """Random writes, with searches in between."""
    store = subject.open()
    ids = st.lists(st.sampled_from("abcdefghij"), min_size=1, max_size=5)
    step = st.tuples(st.sampled_from(("add", "add", "delete", "clear")), ids, st.integers(0, 11), st.integers(0, 3))

    def run(steps: list[tuple[str, list[str], int, int]]) -> None:
        subject.counters.update(cases=1, searches=len(steps))
        store.clear()
        contents: StoreContents = {}
        for operation, names, row, value in steps:
            _apply_step(store, contents, (operation, names, row, value))
            check_search(store, contents, sample_vectors()[row], 4, {"value": {"$ne": value}})
        check_contents(store, contents)

    _run_property(run, subject.examples // 3, st.lists(step, min_size=1, max_size=8))
    store.close()


def _apply_step(store: Store, contents: StoreContents, step: tuple[str, list[str], int, int]) -> None:
    operation, names, row, value = step
    if operation == "add":
        rows = sample_vectors()[[(row + n) % 12 for n in range(len(names))]]
        contents.update(fill_store(store, make_documents(names, {"value": value}), rows))
    elif operation == "delete":
        assert_equal(store.delete(names), len(contents.keys() & set(names)), "deleted")
        for name in names:
            contents.pop(name, None)
    else:
        store.clear()
        contents.clear()


def reader_threads_see_whole_batches(subject: StoreUnderTest) -> None:
    """Documents are added and deleted in pairs; a search returns both documents of a pair or none."""
    store = subject.open()
    stop = threading.Event()
    failures: list[BaseException] = []

    def read() -> None:
        try:
            while not stop.is_set():
                ids = [result.document.id[:-1] for result in store.search(sample_vectors()[0], 1000, {"kind": "pair"})]
                incomplete = [name for name in set(ids) if ids.count(name) != 2]
                assert_equal(incomplete, [], "halves of pairs")
        except Exception as error:  # noqa: BLE001  # raised again in the thread of the check
            failures.append(error)

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    for n in range(40):
        store.add_documents(make_documents([f"{n:03}a", f"{n:03}b"], {"kind": "pair"}), sample_vectors()[[0, 1]])
        if n % 3 == 2:
            store.delete([f"{n - 1:03}a", f"{n - 1:03}b"])
    stop.set()
    for reader in readers:
        reader.join()
    if failures:
        raise failures[0]
    assert_equal(store.count(), 2 * (40 - 13), "count")
    store.close()


def _run_property(run: Callable[..., None], examples: int, *strategies: st.SearchStrategy[object]) -> None:
    """Test a property with random cases; hypothesis shrinks a failing one."""
    limits = settings(
        max_examples=max(examples, 1), deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    limits(given(*strategies)(run))()


CHECKS: tuple[StoreCheck, ...] = (
    an_empty_store_finds_nothing,
    documents_round_trip,
    metadata_is_copied,
    an_existing_id_is_replaced,
    the_last_document_of_duplicate_ids_is_stored,
    default_ids_depend_on_the_content,
    deleted_documents_are_never_found_again,
    clear_removes_all_documents_and_the_dimension,
    repeated_replacement_keeps_only_the_latest_documents,
    ids_are_ordered_by_code_point,
    equal_scores_are_ordered_by_id,
    results_are_complete_under_a_rare_filter,
    recall_is_high_among_many_documents,
    invalid_input_is_rejected_without_changes,
    every_comparison_matches_the_evaluator,
    random_filters_match_the_evaluator,
    random_writes_match_a_dict,
    reader_threads_see_whole_batches,
)
"""The checks of every store."""


def checks_for(store: type[Store]) -> tuple[StoreCheck, ...]:
    """The checks for a class: CHECKS, and those for its declarations `persistent` and `shared`."""
    selected = CHECKS
    if getattr(store, "persistent", False):
        selected += PERSISTENT_CHECKS
    if getattr(store, "shared", False):
        selected += SHARED_CHECKS
    return selected
