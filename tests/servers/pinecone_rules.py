"""What Pinecone takes: vectors, metadata and filters, as its documentation says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

MAX_ID_BYTES = 512
MAX_METADATA_BYTES = 40 * 1024
COMPARISONS = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$exists")


class Refused(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.status, self.code = status, code


def checked_vector(vector: Mapping[str, Any], dimension: int) -> dict[str, Any]:
    """A vector of an upsert. Raises RequestRejected."""
    name, values, metadata = vector["id"], vector["values"], vector.get("metadata", {})
    if not name.isascii() or not 1 <= len(name) <= MAX_ID_BYTES:
        raise Refused(400, f"the id {name[:20]!r} is not ASCII of 1 to {MAX_ID_BYTES} bytes", 3)
    if len(values) != dimension:
        raise Refused(400, f"Vector dimension {len(values)} does not match the dimension of the index {dimension}", 3)
    if not any(values):
        raise Refused(400, "Dense vectors must contain at least one non-zero value", 3)
    size = len(json.dumps(metadata, separators=(",", ":"), ensure_ascii=False).encode())
    if size > MAX_METADATA_BYTES:
        raise Refused(400, f"Metadata size is {size} bytes, which exceeds the limit of {MAX_METADATA_BYTES} bytes", 3)
    for key, value in metadata.items():
        if key.startswith("$") or not _is_taken(value):
            raise Refused(400, f"Metadata value must be a string, number, boolean or list of strings, got {value!r}", 3)
    return {"id": name, "values": values, "metadata": dict(metadata)}


def _is_taken(value: object) -> bool:
    if isinstance(value, list):
        return all(isinstance(each, str) for each in value)
    return isinstance(value, str | bool | int | float)


def checked_filter(where: Mapping[str, Any]) -> Mapping[str, Any]:
    """A filter of a query. Raises RequestRejected."""
    for key, value in where.items():
        if key in {"$and", "$or"}:
            if not isinstance(value, list) or not value:
                raise Refused(400, f"{key} takes a list that is not empty", 3)
            for part in value:
                checked_filter(part)
        elif key.startswith("$"):
            raise Refused(400, f"{key} is not a valid operator", 3)
        else:
            _check_condition(key, value)
    return where


def _check_condition(key: str, value: object) -> None:
    if not isinstance(value, dict):
        return
    for op, operand in value.items():
        if op not in COMPARISONS:
            raise Refused(400, f"{op} on {key} is not a valid operator", 3)
        if op in {"$gt", "$gte", "$lt", "$lte"} and (isinstance(operand, bool) or not isinstance(operand, int | float)):
            raise Refused(400, f"{op} on {key} takes a number", 3)
        if op in {"$in", "$nin"} and (not isinstance(operand, list) or not operand):
            raise Refused(400, f"{op} on {key} takes a list that is not empty", 3)


def lets_through(where: Mapping[str, Any], metadata: Mapping[str, Any]) -> bool:
    """Whether a record with this metadata is found."""
    return all(_holds(key, value, metadata) for key, value in where.items())


def _holds(key: str, value: Any, metadata: Mapping[str, Any]) -> bool:
    if key in {"$and", "$or"}:
        parts = [lets_through(part, metadata) for part in value]
        return all(parts) if key == "$and" else any(parts)
    conditions = value if isinstance(value, dict) else {"$eq": value}
    return all(_compared(op, operand, metadata.get(key)) for op, operand in conditions.items())


def _compared(op: str, operand: Any, met: Any) -> bool:
    if op == "$exists":
        return bool((met is not None) == operand)
    values = met if isinstance(met, list) else [] if met is None else [met]
    if op in {"$ne", "$nin"}:
        return not _compared("$in", operand if op == "$nin" else [operand], met)
    if op in {"$eq", "$in"}:
        wanted = operand if op == "$in" else [operand]
        return any(each == one and isinstance(each, bool) == isinstance(one, bool) for each in values for one in wanted)
    numbers = [each for each in values if isinstance(each, int | float) and not isinstance(each, bool)]
    tests = {
        "$gt": lambda each: each > operand,
        "$gte": lambda each: each >= operand,
        "$lt": lambda each: each < operand,
        "$lte": lambda each: each <= operand,
    }
    return any(tests[op](each) for each in numbers)
