"""Whether an answer holds what was expected, as a person judges it: every part of it, in any of the accepted wordings.

Strings are compared in lower case with white space collapsed; a string that begins or ends with a digit matches whole
numbers only, so that "5" is not found in "15".
"""

from __future__ import annotations

import re
from collections.abc import Sequence

AnswerParts = Sequence[Sequence[str]]
"""The parts of an answer, each with its accepted wordings. An answer holds one wording of every part."""

_CITATION_MARKS = re.compile(r"\s?\[\d+(?:,\s*\d+)*\]")
_LIST_ITEM = re.compile(r"\s*(?:[-*•]|\d+[.)])\s")
_SENTENCE_END = re.compile(r"[.!?][\"')’”]*(?=\s+[\"'(‘“]?[A-Z0-9])|(?=\s\[\d+\])")
_ABBREVIATION = re.compile(r"(?:^\W*\d[\d.]*|\b(?:e\.?g|i\.?e|etc|cf|vs|No|Dr|resp))\.$", re.IGNORECASE)


def strip_citation_marks(text: str) -> str:
    """Remove the citation marks [n] from an answer."""
    return _CITATION_MARKS.sub("", text)


def holds_answer(parts: AnswerParts, text: str) -> bool:
    """Whether `text` holds one wording of every part; citation marks do not count as text."""
    plain = _plain(strip_citation_marks(text))
    return all(any(_holds(plain, _plain(wording)) for wording in part) for part in parts)


def first_statement(text: str) -> str:
    """What a reader sees first: the first sentence of an answer, or the list that it begins with, and its lead."""
    rows = [row for row in text.splitlines() if row.strip()] or [""]
    lead = 0 if _LIST_ITEM.match(rows[0]) else 1
    end = lead
    while end < len(rows) and _LIST_ITEM.match(rows[end]):
        end += 1
    if end > lead and (lead == 0 or rows[0].rstrip().endswith(":")):
        return "\n".join(rows[:end])
    for mark in _SENTENCE_END.finditer(rows[0]):
        if not _ABBREVIATION.search(rows[0][: mark.start() + 1]):
            return rows[0][: mark.end()]
    return rows[0]


def _plain(text: str) -> str:
    return " ".join(text.lower().split())


def _holds(text: str, wording: str) -> bool:
    before, after = (r"(?<!\d)" if wording[:1].isdigit() else ""), (r"(?!\d)" if wording[-1:].isdigit() else "")
    return re.search(before + re.escape(wording) + after, text) is not None
