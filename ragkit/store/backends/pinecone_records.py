"""Documents as records of Pinecone, and filters as it takes them: flat metadata, lists of strings, no null.

A record's metadata have at most 40 KB: of a longer document the text stands in records of their own, in parts.
Nothing here speaks to the service.
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
from ragkit.store.filters.pushdown import AllOf, AnyOf, Condition, FieldMatches, FieldMatchesNone, FieldPresent
from ragkit.store.filters.tokens import to_column_filter, to_token_columns

PineconeValue: TypeAlias = str | float | bool | list[str]
PineconeFilter: TypeAlias = "dict[str, PineconeFilter | list[PineconeFilter] | list[str] | str | float | bool]"

DOCUMENT_KEY = "document"
"""The whole document, where it fits."""
PART_COUNT_KEY = "parts"
"""Of a longer one: how many records hold it."""
WRITE_KEY = "write"
"""Which call wrote the record: what is seen by readers is known by it."""
OVERFLOW_KEY = "over"
"""The fields did not fit: every filter lets the record through, for a second look."""
NUMBER_PREFIX = "n_"
"""What stands before a column's name for its number, where there is just one."""
MANY_NUMBERS = "#many"
"""The token of a field with several numbers."""

MAX_KEY_BYTES = 400
"""Bytes of an id of Pinecone that ours may take; it allows 512, and the parts need some."""
MAX_METADATA_BYTES = 40_000
MAX_COLUMNS_BYTES = 16_000
PART_CHARACTERS = 18_000
"""ASCII, and twice as much at worst when it is escaped."""

_ESCAPED_BYTE = re.compile(rb"[^A-Za-z0-9_.-]")


class PineconeRecord(TypedDict):
    """A vector as the client takes it."""

    id: str
    values: list[float]
    metadata: dict[str, PineconeValue]


@dataclass(frozen=True, slots=True)
class DocumentRecords:
    """What stands for one document."""

    main: PineconeRecord
    parts: tuple[PineconeRecord, ...]


def to_records(document: Document, row: Rows, write: str) -> DocumentRecords:
    """The records of a document; `write` is another text for each call."""
    key, text, values = to_record_id(document.id), document_to_json(document), row.tolist()
    metadata = _filter_columns(document)
    metadata[WRITE_KEY] = write
    if _json_size(metadata) + len(json.dumps(text)) + 20 <= MAX_METADATA_BYTES:
        metadata[DOCUMENT_KEY] = text
        return DocumentRecords(PineconeRecord(id=key, values=values, metadata=metadata), ())
    pieces = [text[start : start + PART_CHARACTERS] for start in range(0, len(text), PART_CHARACTERS)]
    metadata[PART_COUNT_KEY] = len(pieces)
    # a record must have a vector, and one that is not all zero
    anything = [1.0] + [0.0] * (len(values) - 1)
    parts = [
        PineconeRecord(id=each, values=anything, metadata={DOCUMENT_KEY: piece})
        for each, piece in zip(part_keys(key, metadata), pieces, strict=True)
    ]
    return DocumentRecords(PineconeRecord(id=key, values=values, metadata=metadata), tuple(parts))


def part_keys(key: str, metadata: Mapping[str, PineconeValue]) -> list[str]:
    """The keys of the records that hold the rest of a document; none for one that fits."""
    count = metadata.get(PART_COUNT_KEY, 0)
    return [f"{key}#{metadata[WRITE_KEY]}#{n}" for n in range(int(count) if isinstance(count, float | int) else 0)]


def _filter_columns(document: Document) -> dict[str, PineconeValue]:
    found: dict[str, PineconeValue] = {}
    for name, column in to_token_columns(document.metadata).items():
        found[name] = [*column.tokens, MANY_NUMBERS] if len(column.numbers) > 1 else column.tokens
        if len(column.numbers) == 1:
            found[NUMBER_PREFIX + name] = column.numbers[0]
    return found if _json_size(found) <= MAX_COLUMNS_BYTES else {OVERFLOW_KEY: True}


def _json_size(metadata: Mapping[str, PineconeValue]) -> int:
    return len(json.dumps(metadata, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def to_record_id(name: str) -> str:
    """An id as Pinecone takes it: ASCII, escaped like a URL; a hash where it is long."""
    raw = name.encode("utf-8", "surrogatepass")
    key = _ESCAPED_BYTE.sub(lambda found: b"%%%02X" % found[0][0], raw).decode("ascii")
    return key if 0 < len(key) <= MAX_KEY_BYTES else "%%" + blake2b(raw, digest_size=16).hexdigest()


def from_record_id(key: str) -> str | None:
    """The id that `key_of` escaped; None where it is a hash, and only the document knows."""
    return None if key.startswith("%%") else unquote_to_bytes(key).decode("utf-8", "surrogatepass")


def to_pinecone_filter(condition: Condition) -> PineconeFilter | None:
    """The filter of a query; None for all."""
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
        case FieldPresent(expected=wanted):
            return {to_column_filter(condition).name: {"$exists": wanted}}
        case FieldMatches():
            return _render_matches(condition)
        case FieldMatchesNone():
            return _render_matches_none(condition)
        case _:
            raise AssertionError("a condition that is always or never so is not rendered")


def _render_matches(condition: FieldMatches) -> PineconeFilter:
    sieve = to_column_filter(condition)
    tokens = [*sieve.tokens, MANY_NUMBERS] if sieve.ranges else list(sieve.tokens)
    ranges: list[PineconeFilter] = [{NUMBER_PREFIX + sieve.name: {f"${each.op}": each.value}} for each in sieve.ranges]
    return _any_of([{sieve.name: {"$in": tokens}}, *ranges])


_NEGATED_OPERATORS = {"gt": "$lte", "gte": "$lt", "lt": "$gte", "lte": "$gt"}


def _render_matches_none(condition: FieldMatchesNone) -> PineconeFilter:
    """None of the tokens, and no number in a range; a field that is missing lacks everything.

    Said so that it holds at least where it should, whether `$nin` looks at all of a list or at one element.
    """
    sieve = to_column_filter(condition)
    parts: list[PineconeFilter] = []
    if sieve.tokens:
        parts.append(_any_of([{sieve.name: {"$exists": False}}, {sieve.name: {"$nin": list(sieve.tokens)}}]))
    for each in sieve.ranges:
        number = NUMBER_PREFIX + sieve.name
        parts.append(_any_of([{number: {"$exists": False}}, {number: {_NEGATED_OPERATORS[each.op]: each.value}}]))
    if not parts:
        return _any_of([{sieve.name: {"$exists": True}}, {sieve.name: {"$exists": False}}])
    return parts[0] if len(parts) == 1 else {"$and": parts}


def _any_of(parts: Sequence[PineconeFilter]) -> PineconeFilter:
    return parts[0] if len(parts) == 1 else {"$or": list(parts)}
