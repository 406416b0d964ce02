"""A columnar index of metadata: filters are evaluated on the distinct values of a field, then mapped to rows.

The results are those of `language.evaluate` for each document.
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
"""Integers up to this are exact as float64."""


class MetadataIndex:
    """Metadata by row. Append-only: the metadata of a row never change.

    Safe for several threads. A column is built when a filter first uses it.
    """

    def __init__(self) -> None:
        self.rows = 0
        """Number of rows."""
        self._raw_columns: dict[str, _RawColumn] = {}
        self._built_columns: dict[str, _IndexedColumn] = {}
        self._lock = threading.RLock()

    def extend_to(self, rows: int, read: Callable[[int], Iterable[Metadata]]) -> None:
        """Extend the index to at least `rows` rows; `read(first)` returns the metadata from row `first` on."""
        with self._lock:
            if self.rows < rows:
                self.extend(read(self.rows))

    def extend(self, metadata: Iterable[Metadata]) -> None:
        """Append rows; after an error or Ctrl-C, whole rows."""
        with self._lock:
            try:
                for row_metadata in metadata:
                    for key, value in row_metadata.items():
                        raw = self._raw_columns.get(key)
                        if raw is None:
                            raw = self._raw_columns[key] = _RawColumn()
                        raw.add(self.rows, value)
                    self.rows += 1
            except BaseException:
                for raw in self._raw_columns.values():
                    raw.truncate(self.rows)
                raise

    def mask(self, node: FilterNode, rows: int) -> Mask:
        """Which of the first `rows` rows match the filter, as (rows,) booleans."""
        with self._lock:
            return self._mask(node, rows)

    def _mask(self, node: FilterNode, rows: int) -> Mask:
        match node:
            case Compare(field, op, value):
                return self._get_column(field, rows).compare(op, value)[:rows]
            case Exists(field, expected):
                return np.equal(self._get_column(field, rows).codes[:rows] >= 0, expected)
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
            column = self._build_column(field)
            if (column.codes >= 0).any():  # a client may name any number of fields that no document has
                self._built_columns[field] = column
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
    """The values of one metadata key: the rows that have it, and a code for each distinct value."""

    def __init__(self) -> None:
        self.values: list[object] = []
        self._index: dict[object, int] = {}
        self._rows = array("q")
        self._codes = array("i")

    def add(self, row: int, value: object) -> None:
        key = _key(value)
        code = self._index.get(key)
        if code is None:
            code = self._index[key] = len(self.values)
            self.values.append(value)
        self._rows.append(row)
        self._codes.append(code)

    def truncate(self, rows: int) -> None:
        """Remove the rows from `rows` on, and what an interrupted `add` has left half done."""
        end = bisect_left(self._rows, rows)
        del self._rows[end:], self._codes[end:]
        self._index = {_key(value): code for code, value in enumerate(self.values)}

    def write_codes(self, codes: ValueCodes) -> None:
        """Set the codes of the rows that have the key."""
        codes[np.array(self._rows, np.int64)] = np.array(self._codes, np.int32)


def _key(value: object) -> object:
    """A hashable key that includes the type, because True, 1 and 1.0 are equal in Python."""
    if type(value) is str:
        return value
    return (type(value), json.dumps(value) if isinstance(value, list | tuple | Mapping) else value)


def _write_nested(raw: _RawColumn, path: list[str], codes: ValueCodes, values: list[object]) -> None:
    """Fill the gaps of `codes` with the values at a path in the mappings of a key, and append these to `values`."""
    outer = np.full(len(codes), -1, np.int32)
    raw.write_codes(outer)
    translated = np.full(len(raw.values) + 1, -1, np.int32)  # the last item is for code -1: the key is missing
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
    """One field of all rows, indexed for filters."""

    def __init__(self, codes: ValueCodes, values: list[object]) -> None:
        self.codes = codes
        """(rows,): the index of a row's value among the distinct values; -1 for none."""
        scalars: list[Scalar] = []
        owners, elements = array("i"), array("i")
        index: dict[object, int] = {}
        for code, value in enumerate(values):
            for element in value if isinstance(value, list | tuple) else (value,):
                if isinstance(element, list | tuple | Mapping):
                    continue
                key = (type(element), element)
                position = index.setdefault(key, len(scalars))
                if position == len(scalars):
                    scalars.append(cast("Scalar", element))
                owners.append(code)
                elements.append(position)
        self._value_positions = np.array(owners, np.int64)
        self._scalar_positions = np.array(elements, np.int64)
        self._value_count = len(values)
        self._scalars = _ScalarIndex(scalars, index)

    def compare(self, op: Operator, operand: Scalar | tuple[Scalar, ...]) -> Mask:
        """Which rows satisfy a comparison, as (rows,) booleans."""
        if op in {"ne", "nin"}:
            return ~self.compare("eq" if op == "ne" else "in", operand)
        value_matches = np.zeros(self._value_count + 1, bool)  # the last item is for code -1: the field is missing
        scalar_matches = self._scalars.find_matching(op, operand)
        value_matches[self._value_positions[scalar_matches[self._scalar_positions]]] = True
        return value_matches[self.codes]


class _ScalarIndex:
    """Distinct scalars, with sorted strings and an array of the numbers."""

    def __init__(self, values: list[Scalar], index: dict[object, int]) -> None:
        self._values = values
        self._index = index
        numbers = [i for i, v in enumerate(values) if isinstance(v, int | float) and not isinstance(v, bool)]
        self._exact_positions = np.array([i for i in numbers if _is_exact(values[i])], np.int64)
        self._inexact_positions = [i for i in numbers if not _is_exact(values[i])]
        self._numbers = np.array([values[i] for i in self._exact_positions], np.float64)
        self._strings: list[str] | None = None
        self._string_positions = np.empty(0, np.int64)

    def find_matching(self, op: Operator, operand: Scalar | tuple[Scalar, ...]) -> Mask:
        """Which scalars satisfy a comparison other than `ne` and `nin`."""
        matches = np.zeros(len(self._values), bool)
        if op in {"eq", "in"}:
            for item in cast("tuple[Scalar, ...]", operand) if op == "in" else (operand,):
                matches[self._find_equal(cast("Scalar", item))] = True
        elif isinstance(operand, str):
            matches[self._find_strings(op, operand)] = True
        else:
            self._mark_numbers(matches, op, cast("float", operand))
        return matches

    def _find_equal(self, operand: Scalar) -> list[int]:
        keys: list[object] = [(type(operand), operand)]
        if isinstance(operand, int | float) and not isinstance(operand, bool):
            keys = [(int, operand), (float, operand)]  # equal ints and floats have equal hashes
        return [self._index[key] for key in keys if key in self._index]

    def _find_strings(self, op: Operator, operand: str) -> NDArray[np.int64]:
        if self._strings is None:
            pairs = sorted((value, position) for position, value in enumerate(self._values) if isinstance(value, str))
            self._strings = [value for value, _ in pairs]
            self._string_positions = np.array([position for _, position in pairs], np.int64)
        boundary = (bisect_left if op in {"lt", "gte"} else bisect_right)(self._strings, operand)
        return self._string_positions[:boundary] if op in {"lt", "lte"} else self._string_positions[boundary:]

    def _mark_numbers(self, matches: Mask, op: Operator, operand: float) -> None:
        inexact: Iterable[int] = self._inexact_positions
        if _is_exact(operand):
            compare = {"gt": np.greater, "gte": np.greater_equal, "lt": np.less, "lte": np.less_equal}[op]
            matches[self._exact_positions[compare(self._numbers, float(operand))]] = True
        else:
            inexact = [*self._exact_positions.tolist(), *self._inexact_positions]
        for position in inexact:
            matches[position] = matches_value(op, operand, self._values[position])


def _is_exact(value: Scalar) -> bool:
    return isinstance(value, float) or (isinstance(value, int) and abs(value) <= _MAX_EXACT_INT)


def _combine_masks(operation: np.ufunc, masks: list[Mask], start: Mask) -> Mask:
    for mask in masks:
        operation(start, mask, out=start)
    return start
