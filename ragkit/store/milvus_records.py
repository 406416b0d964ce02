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
from ragkit.store.base import Rows
from ragkit.store.portable import document_of, document_text
from ragkit.store.pushdown import All, Condition, Holds, Lacks, Present, Some
from ragkit.store.tokens import columns_of, sieve_of

MAX_TOKENS = 5_000
"""Of 13 characters each; Milvus takes 65,535 bytes of text."""
MAX_NUMBERS_BYTES = 60_000
"""Milvus takes 65,536 bytes of dynamic fields."""
MAX_LIKES = 64
"""A condition with more tokens is left to the second look: each of them is a walk through all texts."""
PIECE_CHARACTERS = 60_000
"""Milvus takes 65,535 bytes of text; these are ASCII."""
MAX_PIECES = 4_096
MAX_NAME_BYTES = 60_000
_ANY, _ONE, _MANY = "#any", "#one", "#many"
"""Tokens of a field that is there, and of one with one number or several."""


class Row(TypedDict):
    """A row as the client takes it, but for its numbers."""

    key: str
    name: str
    document: list[str]
    tokens: str
    over: bool
    """More tokens or numbers than fit: every filter lets it through, for a second look."""
    row: list[float]


def row_of(document: Document, row: Rows) -> tuple[Row, dict[str, float]]:
    """The row that stands for a document, and its numbers by the names of their fields."""
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
    is_over = len(tokens) > MAX_TOKENS or len(json.dumps(numbers)) > MAX_NUMBERS_BYTES
    held = Row(
        key=key_of(document.id),
        name=name,
        document=[text[start : start + PIECE_CHARACTERS] for start in range(0, len(text), PIECE_CHARACTERS)],
        tokens="" if is_over else "".join(tokens),
        over=is_over,
        row=row.tolist(),
    )
    return held, {} if is_over else numbers


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
    return f"over == true or ({_expression(condition)})"


def _expression(condition: Condition) -> str:
    match condition:
        case All(parts):
            return " and ".join(f"({_expression(part)})" for part in parts)
        case Some(parts):
            return " or ".join(f"({_expression(part)})" for part in parts)
        case Present(wanted=wanted):
            there = _contains(sieve_of(condition).name, (_ANY,))
            return there if wanted else f"not ({there})"
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
    if len(tokens) > MAX_LIKES:
        return _contains(sieve.name, (_ANY,))
    ranges = [f"{sieve.name} {_SIGNS[each.op]} {each.value!r}" for each in sieve.ranges]
    return " or ".join([_contains(sieve.name, tokens), *ranges])


def _lacks(condition: Lacks) -> str:
    """None of the tokens, and no number in a range. A comparison with what is missing is false, so it is asked for."""
    sieve = sieve_of(condition)
    parts = [f"not ({_contains(sieve.name, sieve.tokens)})"] if 0 < len(sieve.tokens) <= MAX_LIKES else []
    for each in sieve.ranges:
        missing = f"not ({_contains(sieve.name, (_ONE,))})"
        parts.append(f"({missing} or {sieve.name} {_OPPOSITES[each.op]} {each.value!r})")
    return " and ".join(parts) or 'key != ""'


def _contains(column: str, tokens: tuple[str, ...]) -> str:
    return " or ".join(f'tokens like "%{_hash(column, token)}%"' for token in tokens)


def _hash(column: str, token: str) -> str:
    """A mark where it begins, and 72 bits in twelve characters, none of which means something to `like`."""
    raw = blake2b(f"{column}\0{token}".encode("utf-8", "surrogatepass"), digest_size=9).digest()
    return "~" + b64encode(raw, b"+-").decode()
