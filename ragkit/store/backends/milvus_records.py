"""Documents as rows of a Milvus collection, and filters as Milvus expressions. Does not import Milvus.

Expressions contain only hashes and numbers, no text of a document or a filter. The hashes of a document are one string,
searched with `like`: Milvus Lite scans strings in C++, but arrays and JSON in Python, which takes seconds. Numbers are
dynamic fields for the same reason.
"""

from __future__ import annotations

import json
from base64 import b64encode
from hashlib import blake2b
from typing import TypedDict

from ragkit.errors import StoreError
from ragkit.records import Document
from ragkit.store.backends.adapter_utils import document_from_json, document_to_json
from ragkit.store.base import Rows
from ragkit.store.filters.pushdown import (
    NEGATED_RANGE_OPERATORS,
    SQL_OPERATORS,
    AllOf,
    AnyOf,
    Condition,
    FieldMatches,
    FieldMatchesNone,
    FieldPresent,
    hash_name,
)
from ragkit.store.filters.tokens import to_column_filter, to_token_columns

MAX_TOKENS = 5_000
"""Of 13 characters each; Milvus's limit is 65,535 bytes of text."""
MAX_NUMBERS_BYTES = 60_000
"""Milvus's limit is 65,536 bytes of dynamic fields."""
MAX_LIKE_CLAUSES = 64
"""A condition with more tokens is not pushed down: each of them scans all texts."""
PIECE_CHARACTERS = 60_000
"""ASCII characters; Milvus's limit is 65,535 bytes of text."""
MAX_PIECES = 4_096
MAX_NAME_BYTES = 60_000
_HAS_FIELD, _ONE_NUMBER, _MANY_NUMBERS = "#any", "#one", "#many"
"""Tokens of a field that exists, of one with one number, and of one with several."""


class MilvusRow(TypedDict):
    """A row of the collection, without its numbers."""

    key: str
    name: str
    document: list[str]
    tokens: str
    over: bool
    """Whether the tokens or numbers exceed the limits: every expression matches, and the evaluator decides."""
    row: list[float]


def to_row(document: Document, row: Rows) -> tuple[MilvusRow, dict[str, float]]:
    """The row of a document, and its numbers by column name. Raises StoreError if the document is too long."""
    text, name = document_to_json(document), json.dumps(document.id)
    if len(name) > MAX_NAME_BYTES or len(text) > MAX_PIECES * PIECE_CHARACTERS:
        raise StoreError(f"the document {document.id[:40]!r} is too long for the store 'milvus'")
    tokens: list[str] = []
    numbers: dict[str, float] = {}
    for name_of_column, column in to_token_columns(document.metadata).items():
        marks = [_HAS_FIELD] + ([_MANY_NUMBERS] if len(column.numbers) > 1 else [_ONE_NUMBER] if column.numbers else [])
        tokens += [_hash_token(name_of_column, token) for token in (*column.tokens, *marks)]
        if len(column.numbers) == 1:
            numbers[name_of_column] = column.numbers[0]
    is_over = len(tokens) > MAX_TOKENS or len(json.dumps(numbers)) > MAX_NUMBERS_BYTES
    milvus_row = MilvusRow(
        key=primary_key(document.id),
        name=name,
        document=[text[start : start + PIECE_CHARACTERS] for start in range(0, len(text), PIECE_CHARACTERS)],
        tokens="" if is_over else "".join(tokens),
        over=is_over,
        row=row.tolist(),
    )
    return milvus_row, {} if is_over else numbers


def join_document(pieces: list[str]) -> Document:
    """The document of a row."""
    return document_from_json("".join(pieces))


def primary_key(name: str) -> str:
    """The primary key of an id: a hash, because of its length and characters."""
    return hash_name(name)


def to_expression(condition: Condition) -> str:
    """The expression of a condition; empty for all documents."""
    if isinstance(condition, bool):
        return ""
    return f"over == true or ({_render(condition)})"


def _render(condition: Condition) -> str:
    match condition:
        case AllOf(parts):
            return " and ".join(f"({_render(part)})" for part in parts)
        case AnyOf(parts):
            return " or ".join(f"({_render(part)})" for part in parts)
        case FieldPresent(expected=expected):
            exists = _render_contains(to_column_filter(condition).name, (_HAS_FIELD,))
            return exists if expected else f"not ({exists})"
        case FieldMatches():
            return _render_matches(condition)
        case FieldMatchesNone():
            return _render_matches_none(condition)
        case _:
            raise AssertionError("True and False are not rendered")


def _render_matches(condition: FieldMatches) -> str:
    column = to_column_filter(condition)
    tokens = (*column.tokens, _MANY_NUMBERS) if column.ranges else column.tokens
    if len(tokens) > MAX_LIKE_CLAUSES:
        return _render_contains(column.name, (_HAS_FIELD,))
    ranges = [f"{column.name} {SQL_OPERATORS[range_.op]} {range_.value!r}" for range_ in column.ranges]
    return " or ".join([_render_contains(column.name, tokens), *ranges])


def _render_matches_none(condition: FieldMatchesNone) -> str:
    """None of the tokens, and no number in a range. Comparisons with a missing field are false, so it is tested."""
    column = to_column_filter(condition)
    parts = []
    if 0 < len(column.tokens) <= MAX_LIKE_CLAUSES:
        parts.append(f"not ({_render_contains(column.name, column.tokens)})")
    for range_ in column.ranges:
        missing = f"not ({_render_contains(column.name, (_ONE_NUMBER,))})"
        operator = SQL_OPERATORS[NEGATED_RANGE_OPERATORS[range_.op]]
        parts.append(f"({missing} or {column.name} {operator} {range_.value!r})")
    return " and ".join(parts) or 'key != ""'


def _render_contains(column: str, tokens: tuple[str, ...]) -> str:
    return " or ".join(f'tokens like "%{_hash_token(column, token)}%"' for token in tokens)


def _hash_token(column: str, token: str) -> str:
    """A start mark, and 72 bits in twelve characters, none of which is special in `like`."""
    raw = blake2b(f"{column}\0{token}".encode("utf-8", "surrogatepass"), digest_size=9).digest()
    return "~" + b64encode(raw, b"+-").decode()
