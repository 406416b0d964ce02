"""Documents as Pinecone records, and filters in its syntax: flat metadata, lists of strings, no null.

The metadata of a record are limited to 40 KB: a longer document is split into parts in separate records. Does not
import Pinecone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeAlias, TypedDict
from urllib.parse import unquote_to_bytes

from ragkit.records import Document
from ragkit.store.backends.adapter_utils import document_to_json
from ragkit.store.base import Rows
from ragkit.store.filters.pushdown import (
    NEGATED_RANGE_OPERATORS,
    AllOf,
    AnyOf,
    Condition,
    FieldMatches,
    FieldMatchesNone,
    FieldPresent,
)
from ragkit.store.filters.tokens import to_column_filter, to_token_columns

PineconeValue: TypeAlias = str | float | bool | list[str]
PineconeFilter: TypeAlias = "dict[str, PineconeFilter | list[PineconeFilter] | list[str] | str | float | bool]"

DOCUMENT_KEY = "document"
"""The document, if it fits."""
PART_COUNT_KEY = "parts"
"""The number of parts of a longer document."""
WRITE_KEY = "write"
"""The id of the call that wrote the record, to detect when the write is visible."""
OVERFLOW_KEY = "over"
"""Set if the filter columns did not fit: every filter matches, and the evaluator decides."""
NUMBER_PREFIX = "n_"
"""Prefix of the key of a column's number, if it has exactly one."""
MANY_NUMBERS = "#many"
"""The token of a field with several numbers."""

MAX_KEY_BYTES = 400
"""Maximum length of a record id; Pinecone's limit is 512, and the ids of parts have a suffix."""
MAX_METADATA_BYTES = 40_000
MAX_COLUMNS_BYTES = 16_000
PART_CHARACTERS = 18_000
"""ASCII characters, at most doubled by escaping."""

_ESCAPED_BYTE = re.compile(rb"[^A-Za-z0-9_.-]")


class PineconeRecord(TypedDict):
    """A vector with its metadata."""

    id: str
    values: list[float]
    metadata: dict[str, PineconeValue]


@dataclass(frozen=True, slots=True)
class DocumentRecords:
    """The records of one document."""

    main: PineconeRecord
    parts: tuple[PineconeRecord, ...]


def to_records(document: Document, row: Rows, write: str) -> DocumentRecords:
    """The records of a document; `write` is unique for each call."""
    key, text, values = to_record_id(document.id), document_to_json(document), row.tolist()
    metadata = _filter_columns(document)
    metadata[WRITE_KEY] = write
    if _json_size(metadata) + len(json.dumps(text)) + 20 <= MAX_METADATA_BYTES:
        metadata[DOCUMENT_KEY] = text
        return DocumentRecords(PineconeRecord(id=key, values=values, metadata=metadata), ())
    pieces = [text[start : start + PART_CHARACTERS] for start in range(0, len(text), PART_CHARACTERS)]
    metadata[PART_COUNT_KEY] = len(pieces)
    # a record must have a vector that is not all zero
    dummy = [1.0] + [0.0] * (len(values) - 1)
    parts = [
        PineconeRecord(id=part_key, values=dummy, metadata={DOCUMENT_KEY: piece})
        for part_key, piece in zip(part_keys(key, metadata), pieces, strict=True)
    ]
    return DocumentRecords(PineconeRecord(id=key, values=values, metadata=metadata), tuple(parts))


def part_keys(key: str, metadata: Mapping[str, PineconeValue]) -> list[str]:
    """The keys of the parts of a document; none if it fits into one record."""
    count = metadata.get(PART_COUNT_KEY, 0)
    return [f"{key}#{metadata[WRITE_KEY]}#{n}" for n in range(int(count) if isinstance(count, float | int) else 0)]


def _filter_columns(document: Document) -> dict[str, PineconeValue]:
    columns: dict[str, PineconeValue] = {}
    for name, column in to_token_columns(document.metadata).items():
        columns[name] = [*column.tokens, MANY_NUMBERS] if len(column.numbers) > 1 else column.tokens
        if len(column.numbers) == 1:
            columns[NUMBER_PREFIX + name] = column.numbers[0]
    return columns if _json_size(columns) <= MAX_COLUMNS_BYTES else {OVERFLOW_KEY: True}


def _json_size(metadata: Mapping[str, PineconeValue]) -> int:
    return len(json.dumps(metadata, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def to_record_id(name: str) -> str:
    """The record id of an id: ASCII, percent-encoded; `%%` and a hash if it is empty or too long."""
    raw = name.encode("utf-8", "surrogatepass")
    key = _ESCAPED_BYTE.sub(lambda match: b"%%%02X" % match[0][0], raw).decode("ascii")
    return key if 0 < len(key) <= MAX_KEY_BYTES else "%%" + blake2b(raw, digest_size=16).hexdigest()


def from_record_id(key: str) -> str | None:
    """The inverse of `to_record_id`; None for a hash."""
    return None if key.startswith("%%") else unquote_to_bytes(key).decode("utf-8", "surrogatepass")


def to_pinecone_filter(condition: Condition) -> PineconeFilter | None:
    """The filter of a condition; None for all documents."""
    if isinstance(condition, bool):
        return None
    is_over: PineconeFilter = {OVERFLOW_KEY: {"$eq": True}}
    return {"$or": [_render(condition), is_over]}


def _render(condition: Condition) -> PineconeFilter:
    match condition:
        case AllOf(parts):
            return {"$and": [_render(part) for part in parts]}
        case AnyOf(parts):
            return {"$or": [_render(part) for part in parts]}
        case FieldPresent(expected=expected):
            return {to_column_filter(condition).name: {"$exists": expected}}
        case FieldMatches():
            return _render_matches(condition)
        case FieldMatchesNone():
            return _render_matches_none(condition)
        case _:
            raise AssertionError("True and False are not rendered")


def _render_matches(condition: FieldMatches) -> PineconeFilter:
    column = to_column_filter(condition)
    tokens = [*column.tokens, MANY_NUMBERS] if column.ranges else list(column.tokens)
    number = NUMBER_PREFIX + column.name
    ranges: list[PineconeFilter] = [{number: {f"${range_.op}": range_.value}} for range_ in column.ranges]
    return _any_of([{column.name: {"$in": tokens}}, *ranges])


def _render_matches_none(condition: FieldMatchesNone) -> PineconeFilter:
    """None of the tokens, and no number in a range; a missing field matches.

    Correct as a pre-filter whether `$nin` tests all elements of a list or only one.
    """
    column = to_column_filter(condition)
    parts: list[PineconeFilter] = []
    if column.tokens:
        parts.append(_any_of([{column.name: {"$exists": False}}, {column.name: {"$nin": list(column.tokens)}}]))
    for range_ in column.ranges:
        number, negated = NUMBER_PREFIX + column.name, f"${NEGATED_RANGE_OPERATORS[range_.op]}"
        parts.append(_any_of([{number: {"$exists": False}}, {number: {negated: range_.value}}]))
    if not parts:
        return _any_of([{column.name: {"$exists": True}}, {column.name: {"$exists": False}}])
    return parts[0] if len(parts) == 1 else {"$and": parts}


def _any_of(parts: Sequence[PineconeFilter]) -> PineconeFilter:
    return parts[0] if len(parts) == 1 else {"$or": list(parts)}
