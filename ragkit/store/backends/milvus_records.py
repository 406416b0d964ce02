"""Documents as rows of a collection of Milvus, and filters as its expressions.

What an expression compares are hashes of our own making and numbers, so that no character of a document or of a
filter ever stands in one. The hashes of a document are one text, which `like` looks into: Milvus Lite goes through
texts in C++, and through arrays and JSON in Python, for seconds. Numbers are dynamic fields, for the same reason.
Nothing here speaks to an engine.
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
from ragkit.store.filters.pushdown import AllOf, AnyOf, Condition, FieldMatches, FieldMatchesNone, FieldPresent
from ragkit.store.filters.tokens import to_column_filter, to_token_columns

MAX_TOKENS = 5_000
"""Of 13 characters each; Milvus takes 65,535 bytes of text."""
MAX_NUMBERS_BYTES = 60_000
"""Milvus takes 65,536 bytes of dynamic fields."""
MAX_LIKE_CLAUSES = 64
"""A condition with more tokens is left to the second look: each of them is a walk through all texts."""
PIECE_CHARACTERS = 60_000
"""Milvus takes 65,535 bytes of text; these are ASCII."""
MAX_PIECES = 4_096
MAX_NAME_BYTES = 60_000
_HAS_FIELD, _ONE_NUMBER, _MANY_NUMBERS = "#any", "#one", "#many"
"""Tokens of a field that is there, and of one with one number or several."""


class MilvusRow(TypedDict):
    """A row as the client takes it, but for its numbers."""

    key: str
    name: str
    document: list[str]
    tokens: str
    over: bool
    """More tokens or numbers than fit: every filter lets it through, for a second look."""
    row: list[float]


def to_row(document: Document, row: Rows) -> tuple[MilvusRow, dict[str, float]]:
    """The row that stands for a document, and its numbers by the names of their fields."""
    text, name = document_to_json(document), json.dumps(document.id)
    if len(name) > MAX_NAME_BYTES or len(text) > MAX_PIECES * PIECE_CHARACTERS:
        raise StoreError(f"the document {document.id[:40]!r} is too long for the store 'milvus'")
    tokens: list[str] = []
    numbers: dict[str, float] = {}
    for column, each in to_token_columns(document.metadata).items():
        marks = [_HAS_FIELD] + ([_MANY_NUMBERS] if len(each.numbers) > 1 else [_ONE_NUMBER] if each.numbers else [])
        tokens += [_hash_token(column, token) for token in (*each.tokens, *marks)]
        if len(each.numbers) == 1:
            numbers[column] = each.numbers[0]
    is_over = len(tokens) > MAX_TOKENS or len(json.dumps(numbers)) > MAX_NUMBERS_BYTES
    held = MilvusRow(
        key=primary_key(document.id),
        name=name,
        document=[text[start : start + PIECE_CHARACTERS] for start in range(0, len(text), PIECE_CHARACTERS)],
        tokens="" if is_over else "".join(tokens),
        over=is_over,
        row=row.tolist(),
    )
    return held, {} if is_over else numbers


def join_document(pieces: list[str]) -> Document:
    """The document of a row."""
    return document_from_json("".join(pieces))


def primary_key(name: str) -> str:
    """A key for an id, whatever its length and characters."""
    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def to_expression(condition: Condition) -> str:
    """The expression of a filter; empty for all."""
    if isinstance(condition, bool):
        return ""
    return f"over == true or ({_render(condition)})"


def _render(condition: Condition) -> str:
    match condition:
        case AllOf(parts):
            return " and ".join(f"({_render(part)})" for part in parts)
        case AnyOf(parts):
            return " or ".join(f"({_render(part)})" for part in parts)
        case FieldPresent(expected=wanted):
            there = _render_contains(to_column_filter(condition).name, (_HAS_FIELD,))
            return there if wanted else f"not ({there})"
        case FieldMatches():
            return _render_matches(condition)
        case FieldMatchesNone():
            return _render_matches_none(condition)
        case _:
            raise AssertionError("a condition that is always or never so is not rendered")


_OPERATORS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
_NEGATED_OPERATORS = {"gt": "<=", "gte": "<", "lt": ">=", "lte": ">"}


def _render_matches(condition: FieldMatches) -> str:
    sieve = to_column_filter(condition)
    tokens = (*sieve.tokens, _MANY_NUMBERS) if sieve.ranges else sieve.tokens
    if len(tokens) > MAX_LIKE_CLAUSES:
        return _render_contains(sieve.name, (_HAS_FIELD,))
    ranges = [f"{sieve.name} {_OPERATORS[each.op]} {each.value!r}" for each in sieve.ranges]
    return " or ".join([_render_contains(sieve.name, tokens), *ranges])


def _render_matches_none(condition: FieldMatchesNone) -> str:
    """None of the tokens, and no number in a range. A comparison with what is missing is false, so it is asked for."""
    sieve = to_column_filter(condition)
    parts = [f"not ({_render_contains(sieve.name, sieve.tokens)})"] if 0 < len(sieve.tokens) <= MAX_LIKE_CLAUSES else []
    for each in sieve.ranges:
        missing = f"not ({_render_contains(sieve.name, (_ONE_NUMBER,))})"
        parts.append(f"({missing} or {sieve.name} {_NEGATED_OPERATORS[each.op]} {each.value!r})")
    return " and ".join(parts) or 'key != ""'


def _render_contains(column: str, tokens: tuple[str, ...]) -> str:
    return " or ".join(f'tokens like "%{_hash_token(column, token)}%"' for token in tokens)


def _hash_token(column: str, token: str) -> str:
    """A mark where it begins, and 72 bits in twelve characters, none of which means something to `like`."""
    raw = blake2b(f"{column}\0{token}".encode("utf-8", "surrogatepass"), digest_size=9).digest()
    return "~" + b64encode(raw, b"+-").decode()
