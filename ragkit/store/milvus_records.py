"""Documents as rows of a collection of Milvus, and filters as its expressions.

What an expression compares are hashes of our own making and numbers, so that no character of a document or of a
filter ever stands in one. Nothing here speaks to an engine.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import TypedDict

from ragkit.errors import StoreError
from ragkit.records import Document
from ragkit.store.base import Rows
from ragkit.store.portable import document_of, document_text
from ragkit.store.pushdown import All, Condition, Holds, Lacks, Present, Some
from ragkit.store.tokens import columns_of, sieve_of

MAX_TOKENS = 4_096
"""Elements that an array of Milvus may have."""
MAX_NUMBERS_BYTES = 60_000
"""Milvus takes 65,536 bytes of JSON in a field."""
PIECE_CHARACTERS = 60_000
"""Milvus takes 65,535 bytes of text; these are ASCII."""
MAX_PIECES = 4_096
MAX_NAME_BYTES = 60_000
OVER = "over"
"""The token of a document with more of them than fit: every filter lets it through, for a second look."""
_ANY, _ONE, _MANY = "#any", "#one", "#many"
"""Tokens of a field that is there, and of one with one number or several."""


class Row(TypedDict):
    """A row as the client takes it."""

    key: str
    name: str
    document: list[str]
    tokens: list[str]
    numbers: dict[str, float]
    row: list[float]


def row_of(document: Document, row: Rows) -> Row:
    """The row that stands for a document."""
    text, name = document_text(document), json.dumps(document.id)
    if len(name) > MAX_NAME_BYTES or len(text) > MAX_PIECES * PIECE_CHARACTERS:
        raise StoreError(f"the document {document.id[:40]!r} is too long for the store 'milvus'")
    tokens: list[str] = []
    numbers: dict[str, float] = {}
    for column, each in columns_of(document.metadata).items():
        marks = [_ANY] + ([_MANY] if len(each.numbers) > 1 else [_ONE] if each.numbers else [])
        tokens += [_hash(column, token) for token in (*each.tokens, *marks)]
        if len(each.numbers) == 1:
            numbers[column] = each.numbers[0]
    if len(tokens) > MAX_TOKENS or len(json.dumps(numbers)) > MAX_NUMBERS_BYTES:
        tokens, numbers = [OVER], {}
    pieces = [text[start : start + PIECE_CHARACTERS] for start in range(0, len(text), PIECE_CHARACTERS)]
    return Row(key=key_of(document.id), name=name, document=pieces, tokens=tokens, numbers=numbers, row=row.tolist())


def document_in(pieces: list[str]) -> Document:
    """The document of a row."""
    return document_of("".join(pieces))


def key_of(name: str) -> str:
    """A key for an id, whatever its length and characters."""
    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def expression_of(condition: Condition) -> str:
    """The expression of a filter; empty for all."""
    if isinstance(condition, bool):
        return ""
    return f'array_contains(tokens, "{OVER}") or ({_expression(condition)})'


def _expression(condition: Condition) -> str:
    match condition:
        case All(parts):
            return " and ".join(f"({_expression(part)})" for part in parts)
        case Some(parts):
            return " or ".join(f"({_expression(part)})" for part in parts)
        case Present(wanted=wanted):
            there = _contains(sieve_of(condition).name, (_ANY,))
            return there if wanted else f"not {there}"
        case Holds():
            return _holds(condition)
        case Lacks():
            return _lacks(condition)
        case _:
            raise AssertionError("a condition that is always or never so is not rendered")


_SIGNS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
_OPPOSITES = {"gt": "<=", "gte": "<", "lt": ">=", "lte": ">"}


def _holds(condition: Holds) -> str:
    sieve = sieve_of(condition)
    tokens = (*sieve.tokens, _MANY) if sieve.ranges else sieve.tokens
    ranges = [f'numbers["{sieve.name}"] {_SIGNS[each.op]} {each.value!r}' for each in sieve.ranges]
    return " or ".join([_contains(sieve.name, tokens), *ranges])


def _lacks(condition: Lacks) -> str:
    """None of the tokens, and no number in a range. A comparison with what is missing is false, so it is asked for."""
    sieve = sieve_of(condition)
    parts = [f"not {_contains(sieve.name, sieve.tokens)}"] if sieve.tokens else []
    for each in sieve.ranges:
        missing = f"not {_contains(sieve.name, (_ONE,))}"
        parts.append(f'({missing} or numbers["{sieve.name}"] {_OPPOSITES[each.op]} {each.value!r})')
    return " and ".join(parts) or 'key != ""'


def _contains(column: str, tokens: tuple[str, ...]) -> str:
    listed = ", ".join(f'"{_hash(column, token)}"' for token in tokens)
    return f"array_contains_any(tokens, [{listed}])"


def _hash(column: str, token: str) -> str:
    return blake2b(f"{column}\0{token}".encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()
