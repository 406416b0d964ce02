"""Hypothesis strategies for metadata and filters, with many edge cases."""

from __future__ import annotations

from typing import cast

from hypothesis import strategies as st

from ragkit.records import JSON
from ragkit.store.base import Filter

FIELD_NAMES = (
    "lang",
    "year",
    "tag",
    "a",
    "a.b",
    "a.b.c",
    "kë y",
    'it\'s "quoted"',
    "x'); DROP TABLE documents; --",
    "id",
    "",
)
"""Few names, so that documents and filters often share fields; all except `a.b` and `a.b.c` are literal keys."""

NUMBERS = (0, 1, -1, 2, 2.0, 2.5, -0.0, 1e-300, 1.5e300, 2**31, 2**53, 2**53 + 1, float(2**53), 2**70, -(2**63))
STRINGS = ("", "a", "b", "A", "é", "e\u0301", "日本", "\uffff", "😀", "1", "2.0", "true", "null", "$gt", "%",
           "a' OR '1'='1", 'b" == "b', "\\", "\n", "\x00", "a.b")  # fmt: skip
SCALARS = (None, True, False, *NUMBERS, *STRINGS)


def filter_values() -> st.SearchStrategy[JSON]:
    """Values of a filter."""
    return st.sampled_from(SCALARS)


def metadata_values() -> st.SearchStrategy[JSON]:
    """Values of metadata: scalars, nested lists and mappings."""
    keys = st.sampled_from(("b", "c", "b.c"))
    return st.recursive(
        filter_values(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=2),
        max_leaves=4,
    )


def metadata() -> st.SearchStrategy[dict[str, JSON]]:
    """Metadata of a document."""
    return st.dictionaries(st.sampled_from(FIELD_NAMES), metadata_values(), max_size=5)


def filters() -> st.SearchStrategy[Filter]:
    """Valid filters on FIELD_NAMES, nested a few levels deep."""
    return st.recursive(_comparisons(), _logical_filters, max_leaves=6)


def _comparisons() -> st.SearchStrategy[Filter]:
    orderable: st.SearchStrategy[JSON] = st.sampled_from((*NUMBERS, *STRINGS))
    conditions: list[st.SearchStrategy[JSON]] = [
        filter_values(),
        _condition(("$eq", "$ne"), filter_values()),
        _condition(("$gt", "$gte", "$lt", "$lte"), orderable),
        _condition(("$in", "$nin"), st.lists(filter_values(), max_size=3)),
        _condition(("$exists",), st.booleans()),
        st.builds(lambda low, high: {"$gte": low, "$lt": high}, orderable, orderable),
        st.builds(lambda inner: {"$not": inner}, _condition(("$gt", "$lte"), orderable)),
    ]
    return st.dictionaries(st.sampled_from((*FIELD_NAMES, "missing")), st.one_of(conditions), max_size=2)


def _condition(operators: tuple[str, ...], operands: st.SearchStrategy[object]) -> st.SearchStrategy[JSON]:
    selected = st.dictionaries(st.sampled_from(operators), operands, min_size=1, max_size=1)
    return cast("st.SearchStrategy[JSON]", selected)


def _logical_filters(inner: st.SearchStrategy[Filter]) -> st.SearchStrategy[Filter]:
    lists = st.dictionaries(st.sampled_from(("$and", "$or")), st.lists(inner, max_size=3), min_size=1, max_size=1)
    return cast("st.SearchStrategy[Filter]", lists | st.builds(lambda part: {"$not": part}, inner))
