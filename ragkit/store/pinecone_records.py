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
from ragkit.store.base import Rows
from ragkit.store.portable import document_text
from ragkit.store.pushdown import All, Condition, Holds, Lacks, Present, Some
from ragkit.store.tokens import columns_of, sieve_of

Value: TypeAlias = str | float | bool | list[str]
Clause: TypeAlias = "dict[str, Clause | list[Clause] | list[str] | str | float | bool]"

DOCUMENT = "document"
"""The whole document, where it fits."""
PARTS = "parts"
"""Of a longer one: how many records hold it."""
WRITE = "write"
"""Which call wrote the record: what is seen by readers is known by it."""
OVER = "over"
"""The fields did not fit: every filter lets the record through, for a second look."""
NUMBERS = "n_"
"""What stands before a column's name for its number, where there is just one."""
MANY = "#many"
"""The token of a field with several numbers."""

MAX_KEY = 400
"""Bytes of an id of Pinecone that ours may take; it allows 512, and the parts need some."""
MAX_METADATA_BYTES = 40_000
MAX_COLUMNS_BYTES = 16_000
PART_CHARACTERS = 18_000
"""ASCII, and twice as much at worst when it is escaped."""

_ESCAPED = re.compile(rb"[^A-Za-z0-9_.-]")


class Record(TypedDict):
    """A vector as the client takes it."""

    id: str
    values: list[float]
    metadata: dict[str, Value]


@dataclass(frozen=True, slots=True)
class Records:
    """What stands for one document."""

    main: Record
    parts: tuple[Record, ...]


def records_of(document: Document, row: Rows, write: str) -> Records:
    """The records of a document; `write` is another text for each call."""
    key, text, values = key_of(document.id), document_text(document), row.tolist()
    metadata = _columns(document)
    metadata[WRITE] = write
    if _size(metadata) + len(json.dumps(text)) + 20 <= MAX_METADATA_BYTES:
        metadata[DOCUMENT] = text
        return Records(Record(id=key, values=values, metadata=metadata), ())
    pieces = [text[start : start + PART_CHARACTERS] for start in range(0, len(text), PART_CHARACTERS)]
    metadata[PARTS] = len(pieces)
    # a record must have a vector, and one that is not all zero
    anything = [1.0] + [0.0] * (len(values) - 1)
    parts = [
        Record(id=each, values=anything, metadata={DOCUMENT: piece})
        for each, piece in zip(part_keys(key, metadata), pieces, strict=True)
    ]
    return Records(Record(id=key, values=values, metadata=metadata), tuple(parts))


def part_keys(key: str, metadata: Mapping[str, Value]) -> list[str]:
    """The keys of the records that hold the rest of a document; none for one that fits."""
    count = metadata.get(PARTS, 0)
    return [f"{key}#{metadata[WRITE]}#{n}" for n in range(int(count) if isinstance(count, float | int) else 0)]


def _columns(document: Document) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for name, column in columns_of(document.metadata).items():
        found[name] = [*column.tokens, MANY] if len(column.numbers) > 1 else column.tokens
        if len(column.numbers) == 1:
            found[NUMBERS + name] = column.numbers[0]
    return found if _size(found) <= MAX_COLUMNS_BYTES else {OVER: True}


def _size(metadata: Mapping[str, Value]) -> int:
    return len(json.dumps(metadata, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def key_of(name: str) -> str:
    """An id as Pinecone takes it: ASCII, escaped like a URL; a hash where it is long."""
    raw = name.encode("utf-8", "surrogatepass")
    key = _ESCAPED.sub(lambda found: b"%%%02X" % found[0][0], raw).decode("ascii")
    return key if 0 < len(key) <= MAX_KEY else "%%" + blake2b(raw, digest_size=16).hexdigest()


def name_of(key: str) -> str | None:
    """The id that `key_of` escaped; None where it is a hash, and only the document knows."""
    return None if key.startswith("%%") else unquote_to_bytes(key).decode("utf-8", "surrogatepass")


def clause_of(condition: Condition) -> Clause | None:
    """The filter of a query; None for all."""
    if isinstance(condition, bool):
        return None
    is_over: Clause = {OVER: {"$eq": True}}
    return {"$or": [_clause(condition), is_over]}


def _clause(condition: Condition) -> Clause:
    match condition:
        case All(parts):
            return {"$and": [_clause(part) for part in parts]}
        case Some(parts):
            return {"$or": [_clause(part) for part in parts]}
        case Present(wanted=wanted):
            return {sieve_of(condition).name: {"$exists": wanted}}
        case Holds():
            return _holds(condition)
        case Lacks():
            return _lacks(condition)
        case _:
            raise AssertionError("a condition that is always or never so is not rendered")


def _holds(condition: Holds) -> Clause:
    sieve = sieve_of(condition)
    tokens = [*sieve.tokens, MANY] if sieve.ranges else list(sieve.tokens)
    ranges: list[Clause] = [{NUMBERS + sieve.name: {f"${each.op}": each.value}} for each in sieve.ranges]
    return _any_of([{sieve.name: {"$in": tokens}}, *ranges])


_OPPOSITE = {"gt": "$lte", "gte": "$lt", "lt": "$gte", "lte": "$gt"}


def _lacks(condition: Lacks) -> Clause:
    """None of the tokens, and no number in a range; a field that is missing lacks everything.

    Said so that it holds at least where it should, whether `$nin` looks at all of a list or at one element.
    """
    sieve = sieve_of(condition)
    parts: list[Clause] = []
    if sieve.tokens:
        parts.append(_any_of([{sieve.name: {"$exists": False}}, {sieve.name: {"$nin": list(sieve.tokens)}}]))
    for each in sieve.ranges:
        number = NUMBERS + sieve.name
        parts.append(_any_of([{number: {"$exists": False}}, {number: {_OPPOSITE[each.op]: each.value}}]))
    if not parts:
        return _any_of([{sieve.name: {"$exists": True}}, {sieve.name: {"$exists": False}}])
    return parts[0] if len(parts) == 1 else {"$and": parts}


def _any_of(parts: Sequence[Clause]) -> Clause:
    return parts[0] if len(parts) == 1 else {"$or": list(parts)}
