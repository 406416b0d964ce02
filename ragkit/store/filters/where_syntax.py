"""Parse the filter expressions of the command line into the filter language (`ragkit.store.filters.language`).

    lang == "en" and year >= 2020 and (tag in ("a", "b") or not has(tag))

A recursive descent parser, linear in the length of the text; nothing is evaluated as code. A field is a bare word
(letters, digits, `_`, `-`, `.`) or any text between backquotes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from ragkit.errors import InvalidFilter, closest_match
from ragkit.records import JSON
from ragkit.store.base import Filter

MAX_LENGTH = 100_000
"""Maximum number of characters of an expression."""
MAX_DEPTH = 50
"""Maximum nesting depth of parentheses and `not`."""

_OPERATORS = {"==": "$eq", "!=": "$ne", ">": "$gt", ">=": "$gte", "<": "$lt", "<=": "$lte"}
_COMMON_MISTAKES = {
    "=": "==",
    "===": "==",
    "<>": "!=",
    "!==": "!=",
    "=>": ">=",
    "=<": "<=",
    "&&": "and",
    "&": "and",
    "||": "or",
    "|": "or",
    "!": "not",
}
_LITERALS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_RESERVED = {"and", "or", "not", "in", "has", *_LITERALS}
_KEYWORDS = ("and", "or", "not", "in", "has", "true", "false", "null")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}
_TOKEN = re.compile(
    r"""\s*(?:
      (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<name>`[^`]+`)
    | (?P<number>-?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)(?![\w.])
    | (?P<word>[^\W\d][\w.\-]*)
    | (?P<sign>[=!<>&|]+)
    | (?P<mark>[(),])
    | (?P<end>\Z)
    | (?P<bad>.)
    )""",
    re.VERBOSE | re.DOTALL,
)
_VALUE_IN_FIELD = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')\s+in\s+([^\W\d][\w.\-]*)""")


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int


def parse_where(text: str) -> Filter:
    """Parse an expression into a filter for `Store.search`.

    Raises:
        InvalidFilter: a syntax error; the message names the column, counted from 1, and marks it with `^`.
    """
    if len(text) > MAX_LENGTH:
        raise InvalidFilter(f"the expression is too long: {len(text)} characters, at most {MAX_LENGTH} are allowed")
    parser = _Parser(text)
    parsed = parser.parse_or(0)
    if parser.token.kind != "end":
        parser.fail("'and', 'or' or the end")
    return parsed


class _Parser:
    """One method per level of the grammar, lowest precedence first; `token` is the next token."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokenize(text)
        self.token = next(self._tokens)

    def parse_or(self, depth: int) -> Filter:
        if depth > MAX_DEPTH:
            self.fail(f"at most {MAX_DEPTH} levels of parentheses and 'not'")
        parts = [self._parse_and(depth)]
        while self._accept("or"):
            parts.append(self._parse_and(depth))
        return parts[0] if len(parts) == 1 else {"$or": parts}

    def _suggest_membership(self) -> str:
        """`tags == "hr"` for `"hr" in tags`: a list matches a value that it contains."""
        reversed_test = _VALUE_IN_FIELD.match(self._text, self.token.start)
        return f"{reversed_test[2]} == {reversed_test[1]}" if reversed_test else ""

    def fail(self, expected: str, instead: str = "") -> NoReturn:
        """Raise InvalidFilter that points at the next token. `instead` is what was probably meant."""
        token, text = self.token, self._text
        got = "the end" if token.kind == "end" else repr(token.text)
        suggestions = {
            "sign": _COMMON_MISTAKES.get(token.text),
            "word": closest_match(token.text, _KEYWORDS, cutoff=0.66),
        }
        suggestion = suggestions.get(token.kind)
        if instead:
            raise InvalidFilter(f"column {token.start + 1}: expected {expected}, got {got} (did you mean {instead}?)")
        hint = f" (did you mean {suggestion!r}?)" if suggestion and suggestion != token.text else ""
        before, after = text[max(0, token.start - 30) : token.start], text[token.start : token.start + 30]
        excerpt = " ".join(f"{before}^{after}".split())
        raise InvalidFilter(f"column {token.start + 1}: expected {expected}, got {got}{hint}: {excerpt}")

    def _parse_and(self, depth: int) -> Filter:
        parts = [self._parse_unary(depth)]
        while self._accept("and"):
            parts.append(self._parse_unary(depth))
        return parts[0] if len(parts) == 1 else {"$and": parts}

    def _parse_unary(self, depth: int) -> Filter:
        if self._accept("not"):
            if depth > MAX_DEPTH:
                self.fail(f"at most {MAX_DEPTH} levels of parentheses and 'not'")
            return {"$not": self._parse_unary(depth + 1)}
        if self._accept("("):
            inner = self.parse_or(depth + 1)
            self._expect(")", "'and', 'or' or ')'")
            return inner
        if self._accept("has"):
            self._expect("(", "'(' and a field after 'has'")
            field = self._parse_field()
            self._expect(")", "')'")
            return {field: {"$exists": True}}
        return self._parse_comparison()

    def _parse_comparison(self) -> Filter:
        field = self._parse_field()
        if self._accept("in"):
            return {field: {"$in": self._parse_values()}}
        if self._accept("not"):
            self._expect("in", "'in' after 'not'")
            return {field: {"$nin": self._parse_values()}}
        if self.token.kind != "sign" or self.token.text not in _OPERATORS:
            self.fail("one of == != < <= > >= in")
        operator = _OPERATORS[self._advance().text]
        value_token = self.token
        value = self._parse_value()
        if operator not in {"$eq", "$ne"} and (value is None or isinstance(value, bool)):
            self.token = value_token
            self.fail("a number or a string")
        return {field: {operator: value}}

    def _parse_field(self) -> str:
        token = self.token
        is_name = token.kind == "name" or (token.kind == "word" and token.text not in _RESERVED)
        if not is_name or token.text.startswith("`$"):
            self.fail("a field name", self._suggest_membership())
        return self._advance().text.strip("`")

    def _parse_values(self) -> list[JSON]:
        self._expect("(", "'(' and a list of values")
        values: list[JSON] = []
        while not self._accept(")"):
            values.append(self._parse_value())
            if not self._accept(","):
                self._expect(")", "',' or ')'")
                break
        return values

    def _parse_value(self) -> str | int | float | bool | None:
        token = self.token
        if token.kind == "string":
            body = self._advance().text[1:-1]
            return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), body, flags=re.DOTALL)
        if token.kind == "number":
            return self._parse_number()
        if token.kind == "word" and token.text in _LITERALS:
            return _LITERALS[self._advance().text]
        return self.fail("a value (a number, true, false, null or a quoted string)")

    def _parse_number(self) -> int | float:
        text = self.token.text
        if len(text) > 400:
            self.fail("a number of at most 400 digits")
        value = int(text) if text.lstrip("-").isdigit() else float(text)
        if isinstance(value, float) and not math.isfinite(value):
            self.fail("a finite number")
        self._advance()
        return value

    def _accept(self, text: str) -> bool:
        """Consume the next token if it is this word or mark; whether it is."""
        if self.token.text != text or self.token.kind not in {"word", "mark"}:
            return False
        self._advance()
        return True

    def _expect(self, text: str, expected: str) -> None:
        if not self._accept(text):
            self.fail(expected)

    def _advance(self) -> _Token:
        token = self.token
        self.token = next(self._tokens)
        return token


def _tokenize(text: str) -> Iterator[_Token]:
    """The tokens of a text, followed by an endless sequence of tokens of the kind `end`."""
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or "bad"
        yield _Token(kind, match[kind], match.start(kind))
    while True:
        yield _Token("end", "", len(text))
