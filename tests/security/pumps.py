"""Attack texts for regular expressions: for each repetition, a prefix that reaches it and many repeated units."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from typing import Any

codes: Any = import_module("re._constants")
parser: Any = import_module("re._parser")
"""The parser of `re`: not public, but always consistent with `re`."""
SIGNS = " \n\ta0Z_-.,:;/\\\"'`{}[]()<>#*=|@&%$!?~+^é漢\x00\u200b\ud800"
MAX_ATTACKS = 40
"""Attacks for one expression."""


@dataclass(frozen=True)
class Attack:
    """A prefix, a repeated unit, and a suffix that prevents the match."""

    before: str
    unit: str
    after: str

    def text(self, length: int) -> str:
        """The attack text with about `length` characters."""
        return self.before + self.unit * max(1, length // len(self.unit)) + self.after


def attacks(pattern: re.Pattern[str]) -> list[Attack]:
    """Texts for one expression: for each of its repetitions, and for a restart at every position."""
    tree = parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG)
    results: dict[Attack, None] = {}
    for before, unit in islice(_pumps(tree, ""), 200):
        for after in ("", "\x01"):
            results[Attack(before, unit, after)] = None
        if before:
            results[Attack("", before + unit, "\x01")] = None
    return list(results)[:MAX_ATTACKS]


def _pumps(tree: Sequence[Any], before: str) -> Iterator[tuple[str, str]]:
    """(prefix that reaches a repetition, repeated items), for every repetition without a small bound."""
    for code, value in tree:
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, getattr(codes, "POSSESSIVE_REPEAT", None)):
            low, high, inner = value
            if high > 50:
                for unit in _units(inner):
                    yield before, unit
            yield from _pumps(inner, before)
            before += _sample(inner) * max(low, 0)
        elif code is codes.SUBPATTERN:
            yield from _pumps(value[3], before)
            before += _sample(value[3])
        elif code is codes.BRANCH:
            for branch in value[1]:
                yield from _pumps(branch, before)
            before += _sample(value[1][0])
        elif code in (codes.ASSERT, codes.ASSERT_NOT):
            yield from _pumps(value[1], before)
        elif code is getattr(codes, "ATOMIC_GROUP", None):
            yield from _pumps(value, before)
            before += _sample(value)
        else:
            before += _sample([(code, value)])


def _units(inner: Sequence[Any]) -> Iterator[str]:
    """Texts that an inner expression matches: each kind of character for a set, else one sample."""
    if len(inner) == 1 and inner[0][0] in (codes.IN, codes.ANY, codes.NOT_LITERAL, codes.CATEGORY):
        matches = _matcher(inner)
        stored = [sign for sign in SIGNS if matches(sign)]
        yield from stored[:6]
    else:
        unit = _sample(inner)
        if unit:
            yield unit


def _matcher(items: Sequence[Any]) -> Callable[[str], bool]:
    key = repr(items)
    if key not in _COMPILED:
        state = parser.State()
        state.str = ""
        _COMPILED[key] = re._compiler.compile(parser.SubPattern(state, list(items)))  # type: ignore[attr-defined]
    compiled = _COMPILED[key]
    return lambda sign: compiled.fullmatch(sign) is not None


_COMPILED: dict[str, re.Pattern[str]] = {}


def _sample(items: Sequence[Any]) -> str:
    """A text that the items match, ignoring look-arounds; '' if none is found."""
    out = ""
    for code, value in items:
        if code is codes.LITERAL:
            out += chr(value)
        elif code in (codes.IN, codes.ANY, codes.NOT_LITERAL, codes.CATEGORY):
            matches = _matcher([(code, value)])
            extra = "".join(chr(each[1]) for each in value if each[0] is codes.LITERAL) if code is codes.IN else ""
            ranges = "".join(chr(each[1][0]) for each in value if each[0] is codes.RANGE) if code is codes.IN else ""
            out += next((sign for sign in SIGNS + extra + ranges if matches(sign)), "")
        elif code in (codes.MAX_REPEAT, codes.MIN_REPEAT):
            out += _sample(value[2]) * value[0]
        elif code is codes.SUBPATTERN:
            out += _sample(value[3])
        elif code is codes.BRANCH:
            out += _sample(value[1][0])
        elif code is getattr(codes, "ATOMIC_GROUP", None):
            out += _sample(value)
    return out
