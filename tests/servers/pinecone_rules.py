"""Pinecone's documented rules for vectors, metadata and filters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

MAX_ID_BYTES = 512
MAX_METADATA_BYTES = 40 * 1024
COMPARISONS = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$exists")


class RequestRejected(Exception):
    """An error response."""

    def __init__(self, status: int, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.status, self.code = status, code


def check_vector(vector: Mapping[str, Any], dimension: int) -> dict[str, Any]:
    """Validate a vector of an upsert. Raises RequestRejected."""
    name, values, metadata = vector["id"], vector["values"], vector.get("metadata", {})
    if not name.isascii() or not 1 <= len(name) <= MAX_ID_BYTES:
        raise RequestRejected(400, f"the id {name[:20]!r} is not ASCII of 1 to {MAX_ID_BYTES} bytes", 3)
    if len(values) != dimension:
        raise RequestRejected(
            400, f"Vector dimension {len(values)} does not match the dimension of the index {dimension}", 3
        )
    if not any(values):
        raise RequestRejected(400, "Dense vectors must contain at least one non-zero value", 3)
    size = len(json.dumps(metadata, separators=(",", ":"), ensure_ascii=False).encode())
    if size > MAX_METADATA_BYTES:
        raise RequestRejected(
            400, f"Metadata size is {size} bytes, which exceeds the limit of {MAX_METADATA_BYTES} bytes", 3
        )
    for key, value in metadata.items():
        if key.startswith("$") or not _is_allowed_value(value):
            raise RequestRejected(
                400, f"Metadata value must be a string, number, boolean or list of strings, got {value!r}", 3
            )
    return {"id": name, "values": values, "metadata": dict(metadata)}


def _is_allowed_value(value: object) -> bool:
    if isinstance(value, list):
        return all(isinstance(item, str) for item in value)
    return isinstance(value, str | bool | int | float)


def check_filter(where: Mapping[str, Any]) -> Mapping[str, Any]:
    """Validate a filter of a query. Raises RequestRejected."""
    for key, value in where.items():
        if key in {"$and", "$or"}:
            if not isinstance(value, list) or not value:
                raise RequestRejected(400, f"{key} takes a list that is not empty", 3)
            for part in value:
                check_filter(part)
        elif key.startswith("$"):
            raise RequestRejected(400, f"{key} is not a valid operator", 3)
        else:
            _check_condition(key, value)
    return where


def _check_condition(key: str, value: object) -> None:
    if not isinstance(value, dict):
        return
    for op, operand in value.items():
        if op not in COMPARISONS:
            raise RequestRejected(400, f"{op} on {key} is not a valid operator", 3)
        if op in {"$gt", "$gte", "$lt", "$lte"} and (isinstance(operand, bool) or not isinstance(operand, int | float)):
            raise RequestRejected(400, f"{op} on {key} takes a number", 3)
        if op in {"$in", "$nin"} and (not isinstance(operand, list) or not operand):
            raise RequestRejected(400, f"{op} on {key} takes a list that is not empty", 3)


def matches(where: Mapping[str, Any], metadata: Mapping[str, Any]) -> bool:
    """Whether a record with this metadata matches the filter."""
    return all(_condition_matches(key, value, metadata) for key, value in where.items())


def _condition_matches(key: str, value: Any, metadata: Mapping[str, Any]) -> bool:
    if key in {"$and", "$or"}:
        parts = [matches(part, metadata) for part in value]
        return all(parts) if key == "$and" else any(parts)
    conditions = value if isinstance(value, dict) else {"$eq": value}
    return all(_compare(op, operand, metadata.get(key)) for op, operand in conditions.items())


def _compare(op: str, operand: Any, value: Any) -> bool:
    if op == "$exists":
        return bool((value is not None) == operand)
    values = value if isinstance(value, list) else [] if value is None else [value]
    if op in {"$ne", "$nin"}:
        return not _compare("$in", operand if op == "$nin" else [operand], value)
    if op in {"$eq", "$in"}:
        expected = operand if op == "$in" else [operand]
        return any(
            element == item and isinstance(element, bool) == isinstance(item, bool)
            for element in values
            for item in expected
        )
    numbers = [element for element in values if isinstance(element, int | float) and not isinstance(element, bool)]
    tests = {
        "$gt": lambda element: element > operand,
        "$gte": lambda element: element >= operand,
        "$lt": lambda element: element < operand,
        "$lte": lambda element: element <= operand,
    }
    return any(tests[op](element) for element in numbers)
