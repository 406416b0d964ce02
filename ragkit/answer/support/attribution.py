"""Adds and corrects the citations of a model's answer, by what the passages that it was shown support.

A statement without a number that a passage supports gets that passage's number; a number whose passage does not support
its statement, while another passage does, is replaced. Nothing else in the text changes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ragkit.answer.base import Statement, Support
from ragkit.answer.citations import CITATION_MARK

_WORD = re.compile(r"\w+")
_BETWEEN = rf"(?>{CITATION_MARK.pattern}|[\W_]){{0,60}}?"
_AFTER_WORD = re.compile(r"[*_/`\"'”’»)%°€$]*")
_OWN_MARKS = re.compile(rf"[\s.!?…]{{0,3}}(?:\s?{CITATION_MARK.pattern})+")
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)[^\n]*$", re.MULTILINE)
_MAX_WORDS = 300
"""Words of a statement that are looked for in the text."""


@dataclass(frozen=True, slots=True)
class Attribution:
    """An answer with the citations that the passages support."""

    text: str
    statements: tuple[Statement, ...]
    added: frozenset[int] = frozenset()
    """Citation numbers that ragkit has put beside a statement, also in place of another one."""
    corrected: tuple[tuple[tuple[int, ...], int], ...] = ()
    """The numbers that did not support their statement, and the one in their place."""

    @property
    def notices(self) -> tuple[str, ...]:
        """What a reader must be told."""
        changed = ", ".join(f"[{', '.join(map(str, before))}] to [{after}]" for before, after in self.corrected[:5])
        more = ", ..." if len(self.corrected) > 5 else ""
        return (f"corrected where a passage did not support its statement: {changed}{more}",) if changed else ()


def attribute(text: str, statements: Sequence[Statement]) -> Attribution:
    """The answer, where each statement that another passage supports cites that one.

    Args:
        text: the answer of a model, with citations as [n].
        statements: those of the text, in order, judged; `found_in` names the passage that supports them.
    """
    parts: list[str] = []
    position = 0
    judged: list[Statement] = []
    added: set[int] = set()
    corrected: list[tuple[tuple[int, ...], int]] = []
    for statement in statements:
        n, place = statement.found_in, _find(statement.text, text, position)
        if n is None or place is None:
            judged.append(statement)
            continue
        fence = _end_of_code(text, place)
        place = fence or place
        marks = _OWN_MARKS.match(text, place)
        replaced = () if marks is None or not statement.citations else statement.citations
        parts.append(text[position:place])
        if marks is not None and replaced:
            before = marks[0].partition("[")[0]
            parts.append(f"{before}[{n}]")
            corrected.append((replaced, n))
            position = marks.end()
        else:
            parts.append(f"\n[{n}]" if fence else f" [{n}]")
            position = place
        added.add(n)
        judged.append(
            replace(statement, citations=(n,), support=Support.SUPPORTED, reason="", found_in=None, found_at="")
        )
    return Attribution("".join([*parts, text[position:]]), tuple(judged), frozenset(added), tuple(corrected))


def _end_of_code(text: str, place: int) -> int:
    """The end of the block of code that a place is in; 0 outside of code."""
    if len(_FENCE.findall(text, 0, place)) % 2 == 0:
        return 0
    closing = _FENCE.search(text, place)
    return closing.end() if closing else 0


def _find(statement: str, text: str, start: int) -> int | None:
    """The end of a statement in the text, before its full stop; None if it is not found."""
    words = _WORD.findall(statement)[:_MAX_WORDS]
    if not words:
        return None
    match = re.compile(_BETWEEN.join(map(re.escape, words))).search(text, start)
    after = _AFTER_WORD.match(text, match.end()) if match else None
    return after.end() if after else None
