"""Helpers of store adapters: portable encodings and complete results."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragkit.errors import StoreError
from ragkit.records import JSON, Document, Heading, SearchResult
from ragkit.store.backends.adapter_utils import (
    batches,
    collect_top_k,
    deduplicate_by_id,
    document_from_json,
    document_to_json,
    escape_text,
    normalize_number,
)
from ragkit.store.filters.flatten import flatten_metadata
from ragkit.store.filters.language import Always, get_field, matches_value, parse_filter
from ragkit.testing import filter_strategies as dirty

ANY_TEXT = st.text(st.sampled_from("ab\0\1\2\ud7ff\ud800\udbff\udc80\udfff\ue000\ue001\uf000\uffff😀"))


def documents(scores: Sequence[float]) -> list[SearchResult]:
    return [SearchResult(Document("t", {"n": n}, id=f"{n:03}"), score) for n, score in enumerate(scores)]


def test_a_document_is_restored_from_its_text() -> None:
    complete = Document(
        text="\ud800\0é",
        metadata={"a": [1, None, {"b": 2**70}], "": 1.5},
        source="/s",
        title="t",
        page_starts=(0, 2),
        headings=(Heading(0, 1, "h"),),
        format="",
        language="py",
        id="i\udcff",
    )
    assert document_from_json(document_to_json(complete)) == complete


def test_a_text_of_a_document_is_ascii_on_one_line() -> None:
    text = document_to_json(Document("a\nb\0é\ud800"))
    assert text.isascii()
    assert text.isprintable()


def test_empty_fields_are_not_stored() -> None:
    assert json.loads(document_to_json(Document("x", id="1"))) == {"id": "1", "text": "x", "format": "text"}


def test_a_number_of_too_many_digits_is_rejected() -> None:
    with pytest.raises(StoreError, match="the metadata of document 'x' cannot be stored: Exceeds the limit"):
        document_to_json(Document("t", {"n": 10**5000}, id="x"))


@given(ANY_TEXT, ANY_TEXT)
def test_storable_texts_keep_order_and_distinctness(left: str, right: str) -> None:
    item, other = escape_text(left), escape_text(right)
    assert (item < other, item == other) == (left < right, left == right)
    assert "\0" not in item
    item.encode()


def test_storable_does_not_change_ordinary_text() -> None:
    assert escape_text("Zwölf 日本 😀\n") == "Zwölf 日本 😀\n"


@given(
    dirty.metadata(), st.sampled_from((*dirty.FIELD_NAMES, "a.b.c", "b.c", "missing")), st.sampled_from(dirty.SCALARS)
)
def test_flat_metadata_have_every_field_that_the_evaluator_sees(
    metadata: dict[str, JSON], field: str, expected: str | int | float | bool | None
) -> None:
    there = flatten_metadata(metadata).get(field)
    value = get_field(metadata, field)
    assert (there is not None) == (field in metadata or value is not get_field({}, field))
    assert matches_value("eq", expected, there or []) == matches_value("eq", expected, value)


def test_a_key_with_a_dot_has_precedence_over_the_path() -> None:
    assert flatten_metadata({"a": {"b": 1, "c.d": 2}, "a.b": [3, [4], {}]}) == {"a": [], "a.b": [3]}


def test_whole_numbers_keep_every_digit() -> None:
    assert [normalize_number(each) for each in (1e23, 2.0, 2.5, -0.0)] == [99999999999999991611392, 2, 2.5, 0]


def test_of_equal_ids_the_last_is_kept_in_the_order_of_ids() -> None:
    documents_ = [Document("1", id="b"), Document("2", id="a"), Document("3", id="b")]
    stored, rows = deduplicate_by_id(documents_, np.arange(3, dtype=np.float32).reshape(3, 1))
    assert [document.text for document in stored] == ["2", "3"]
    assert rows.tolist() == [[1.0], [2.0]]


def test_batches_are_limited_by_count() -> None:
    assert list(batches("abcde", 2)) == ["ab", "cd", "e"]


def test_more_hits_are_requested_until_the_filter_is_satisfied() -> None:
    values, requested = documents([1 - n / 1000 for n in range(500)]), []

    def fetch(limit: int) -> list[SearchResult]:
        requested.append(limit)
        return values[:limit]

    results = collect_top_k(fetch, parse_filter({"n": {"$gte": 498}}), 2)
    assert [result.document.id for result in results] == ["498", "499"]
    assert requested == [3, 64, 256, 1024]


def test_more_hits_are_requested_while_ties_are_possible() -> None:
    values = documents([0.5] * 30)[::-1]
    results = collect_top_k(lambda limit: values[:limit], Always(), 3)
    assert [result.document.id for result in results] == ["000", "001", "002"]


def test_scores_are_clipped_to_the_range_of_a_cosine() -> None:
    results = collect_top_k(lambda _: documents([1.0000001, -1.0000001]), Always(), 2)
    assert [result.score for result in results] == [1.0, -1.0]


def test_near_ties_of_an_engine_are_resolved_by_exact_scores() -> None:
    scores = [0.9, 0.5, 0.5 - 1e-7, 0.5 - 2e-7, 0.3, 0.1, 0.1]
    right = {"001": 0.5, "002": 0.5, "003": 0.5 + 3e-7}
    requested: list[str] = []

    def exact(documents: Sequence[Document]) -> list[float]:
        requested.extend(document.id for document in documents)
        return [right[document.id] for document in documents]

    values = documents(scores)
    results = collect_top_k(lambda limit: values[:limit], Always(), 2, exact)
    assert [(result.document.id, result.score) for result in results] == [("000", 0.9), ("003", 0.5 + 3e-7)]
    assert [result.document.id for result in collect_top_k(lambda limit: values[:limit], Always(), 5, exact)] == [
        "000",
        "003",
        "001",
        "002",
        "004",
    ]
    assert requested == ["001", "002", "003"] * 2


def test_exact_scores_are_not_computed_without_near_ties() -> None:
    def exact(documents: Sequence[Document]) -> list[float]:
        raise AssertionError("nothing is near")

    values = documents([0.9, 0.5, 0.4, 0.4])
    results = collect_top_k(lambda limit: values[:limit], Always(), 2, exact)
    assert [result.document.id for result in results] == ["000", "001"]
