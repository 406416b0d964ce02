"""The metadata of many documents, by field: filters are judged on distinct values and then spread over the rows.

Gives the same answers as `filters.evaluate`, document by document, without looking at every document.
"""

from __future__ import annotations

import json
import threading
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from ragkit.records import Metadata
from ragkit.store.filters.language import (
    MISSING,
    Always,
    And,
    Compare,
    Exists,
    FilterNode,
    Never,
    Not,
    Operator,
    Or,
    Scalar,
    matches_value,
)

Mask: TypeAlias = NDArray[np.bool_]
ValueCodes: TypeAlias = NDArray[np.int32]

_MAX_EXACT_INT = 2**53
"""Whole numbers up to this are exact as float64."""


class MetadataIndex:
    """Metadata by row; rows are added at the end, and what a row holds never changes.

    May be used by several threads. A column is laid out when a filter first asks for it.
    """

    def __init__(self) -> None:
        self.rows = 0
        """How many rows there are."""
        self._raw_columns: dict[str, _RawColumn] = {}
        self._built_columns: dict[str, _IndexedColumn] = {}
        self._lock = threading.RLock()

    def extend_to(self, rows: int, read: Callable[[int], Iterable[Metadata]]) -> None:
        """See to it that there are `rows` rows: `read(first)` gives those from `first` on, when some are wanted."""
        with self._lock:
            if self.rows < rows:
                self.extend(read(self.rows))

    def extend(self, metadata: Iterable[Metadata]) -> None:
        """Add rows at the end."""
        with self._lock:
            for each in metadata:
                for key, value in each.items():
                    raw = self._raw_columns.get(key)
                    if raw is None:
                        raw = self._raw_columns[key] = _RawColumn()
                    raw.add(self.rows, value)
                self.rows += 1

    def mask(self, node: FilterNode, rows: int) -> Mask:
        """Which of the first `rows` rows the filter lets through, as (rows,) booleans."""
        with self._lock:
            return self._mask(node, rows)

    def _mask(self, node: FilterNode, rows: int) -> Mask:
        match node:
            case Compare(field, op, value):
                return self._get_column(field, rows).compare(op, value)[:rows]
            case Exists(field, wanted):
                return np.equal(self._get_column(field, rows).codes[:rows] >= 0, wanted)
            case And(parts):
                return _combine_masks(np.logical_and, [self._mask(part, rows) for part in parts], np.ones(rows, bool))
            case Or(parts):
                return _combine_masks(np.logical_or, [self._mask(part, rows) for part in parts], np.zeros(rows, bool))
            case Not(part):
                return ~self._mask(part, rows)
            case Always() | Never():
                return np.full(rows, isinstance(node, Always))

    def _get_column(self, field: str, rows: int) -> _IndexedColumn:
        column = self._built_columns.get(field)
        if column is None or len(column.codes) < rows:
            column = self._built_columns[field] = self._build_column(field)
        return column

    def _build_column(self, field: str) -> _IndexedColumn:
        codes = np.full(self.rows, -1, np.int32)
        values: list[object] = []
        literal = self._raw_columns.get(field)
        if literal is not None:
            literal.write_codes(codes)
            values = list(literal.values)
        head, dot, _ = field.partition(".")
        nested = self._raw_columns.get(head) if dot else None
        if nested is not None:
            _write_nested(nested, field.split(".")[1:], codes, values)
        return _IndexedColumn(codes, values)


class _RawColumn:
    """The values of one key of the documents, as they come: which rows hold it, and a code for each distinct value."""

    def __init__(self) -> None:
        self.values: list[object] = []
        self._index: dict[object, int] = {}
        self._rows = array("q")
        self._codes = array("i")

    def add(self, row: int, value: object) -> None:
        key = value if type(value) is str else _hashable_key(value)
        code = self._index.get(key)
        if code is None:
            code = self._index[key] = len(self.values)
            self.values.append(value)
        self._rows.append(row)
        self._codes.append(code)

    def write_codes(self, codes: ValueCodes) -> None:
        """Put the code of every row that holds the key into its place."""
        codes[np.array(self._rows, np.int64)] = np.array(self._codes, np.int32)


def _hashable_key(value: object) -> object:
    """A hashable stand-in: the type belongs to it, as True, 1 and 1.0 are equal to Python."""
    return (type(value), json.dumps(value) if isinstance(value, list | tuple | Mapping) else value)


def _write_nested(raw: _RawColumn, path: list[str], codes: ValueCodes, values: list[object]) -> None:
    """Fill the gaps of `codes` from the mappings of another key, along a path; new values go to the end of `values`."""
    outer = np.full(len(codes), -1, np.int32)
    raw.write_codes(outer)
    translated = np.full(len(raw.values) + 1, -1, np.int32)  # the last one is for -1: the key is missing
    for code, value in enumerate(raw.values):
        inner = _get_path(value, path)
        if inner is not MISSING:
            translated[code] = len(values)
            values.append(inner)
    gaps = codes < 0
    codes[gaps] = translated[outer[gaps]]


def _get_path(value: object, path: list[str]) -> object:
    for part in path:
        if not isinstance(value, Mapping) or part not in value:
            return MISSING
        value = value[part]
    return value


class _IndexedColumn:
    """One field of every row, laid out for filters."""

    def __init__(self, codes: ValueCodes, values: list[object]) -> None:
        self.codes = codes
        """(rows,): which of the distinct values a row holds; -1 for none."""
        scalars: list[Scalar] = []
        self._scalar_of = np.full(len(values), -1, np.int32)
        owners, elements = array("i"), array("i")
        index: dict[object, int] = {}
        for code, value in enumerate(values):
            for element in value if isinstance(value, list | tuple) else (value,):
                if isinstance(element, list | tuple | Mapping):
                    continue
                key = (type(element), element)
                place = index.setdefault(key, len(scalars))
                if place == len(scalars):
                    scalars.append(cast("Scalar", element))
                owners.append(code)
                elements.append(place)
        self._value_places = np.array(owners, np.int64)
        self._scalar_places = np.array(elements, np.int64)
        self._value_count = len(values)
        self._scalars = _ScalarIndex(scalars, index)

    def compare(self, op: Operator, wanted: Scalar | tuple[Scalar, ...]) -> Mask:
        """Which rows a comparison is true of, as (rows,) booleans."""
        if op in {"ne", "nin"}:
            return ~self.compare("eq" if op == "ne" else "in", wanted)
        verdicts = np.zeros(self._value_count + 1, bool)  # the last one is for -1: the field is missing
        matching = self._scalars.find_matching(op, wanted)
        verdicts[self._value_places[matching[self._scalar_places]]] = True
        return verdicts[self.codes]


class _ScalarIndex:
    """Distinct scalars, with an order for the strings and one for the numbers."""

    def __init__(self, values: list[Scalar], index: dict[object, int]) -> None:
        self._values = values
        self._index = index
        numbers = [i for i, v in enumerate(values) if isinstance(v, int | float) and not isinstance(v, bool)]
        self._exact_places = np.array([i for i in numbers if _is_exact(values[i])], np.int64)
        self._inexact_places = [i for i in numbers if not _is_exact(values[i])]
        self._numbers = np.array([values[i] for i in self._exact_places], np.float64)
        self._strings: list[str] | None = None
        self._string_places = np.empty(0, np.int64)

    def find_matching(self, op: Operator, wanted: Scalar | tuple[Scalar, ...]) -> Mask:
        """Which of the scalars a comparison other than `ne` and `nin` is true of."""
        found = np.zeros(len(self._values), bool)
        if op in {"eq", "in"}:
            for each in cast("tuple[Scalar, ...]", wanted) if op == "in" else (wanted,):
                found[self._find_equal(cast("Scalar", each))] = True
        elif isinstance(wanted, str):
            found[self._find_strings(op, wanted)] = True
        else:
            self._mark_numbers(found, op, cast("float", wanted))
        return found

    def _find_equal(self, wanted: Scalar) -> list[int]:
        keys: list[object] = [(type(wanted), wanted)]
        if isinstance(wanted, int | float) and not isinstance(wanted, bool):
            keys = [(int, wanted), (float, wanted)]  # Python's hashes agree where int and float are equal
        return [self._index[key] for key in keys if key in self._index]

    def _find_strings(self, op: Operator, wanted: str) -> NDArray[np.int64]:
        if self._strings is None:
            pairs = sorted((value, place) for place, value in enumerate(self._values) if isinstance(value, str))
            self._strings = [value for value, _ in pairs]
            self._string_places = np.array([place for _, place in pairs], np.int64)
        cut = (bisect_left if op in {"lt", "gte"} else bisect_right)(self._strings, wanted)
        return self._string_places[:cut] if op in {"lt", "lte"} else self._string_places[cut:]

    def _mark_numbers(self, found: Mask, op: Operator, wanted: float) -> None:
        inexact: Iterable[int] = self._inexact_places
        if _is_exact(wanted):
            compare = {"gt": np.greater, "gte": np.greater_equal, "lt": np.less, "lte": np.less_equal}[op]
            found[self._exact_places[compare(self._numbers, float(wanted))]] = True
        else:
            inexact = [*self._exact_places.tolist(), *self._inexact_places]
        for place in inexact:
            found[place] = matches_value(op, wanted, self._values[place])


def _is_exact(value: Scalar) -> bool:
    return isinstance(value, float) or (isinstance(value, int) and abs(value) <= _MAX_EXACT_INT)


def _combine_masks(operation: np.ufunc, masks: list[Mask], start: Mask) -> Mask:
    for mask in masks:
        operation(start, mask, out=start)
    return start
