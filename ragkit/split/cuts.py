"""Where a text may be cut: at words, else between characters without tearing what a reader sees as one.

Covers combining marks, emoji sequences, flags, Hangul jamo, surrogate pairs and CRLF: the cases of Unicode
Annex 29 that occur in texts, not its whole table.
"""

from __future__ import annotations

import re
import unicodedata

from ragkit.split.lines import first_visible, rstripped

LONGEST_CLUSTER = 32
"""Characters: a longer cluster (marks heaped on marks) may be cut, so that every search stays short."""

_WORD_START = re.compile(r"(?<=\s)\S")
_MARKS = frozenset({"Mn", "Me", "Mc"})
_ZERO_WIDTH_JOINER = "\u200d"
_FLAG_HALVES = "".join(map(chr, range(0x1F1E6, 0x1F200)))
_FLAGS_LOOKED_AT = 512  # characters: in a longer row of flags a cut may fall inside one
_TRAILING = frozenset("\u200c\u200d\u0e33\u0eb3\uff9e\uff9f")  # joiners, Thai and Lao AM, half-width voicing


def tears(text: str, offset: int) -> bool:
    """Whether a cut between `text[offset - 1]` and `text[offset]` would tear a cluster."""
    if not 0 < offset < len(text):
        return False
    before, after = text[offset - 1], text[offset]
    if after < "\u0300":
        return after == "\n" and before == "\r"
    if before == _ZERO_WIDTH_JOINER or _attaches(after):
        return True
    if "\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff":
        return True
    return before in _FLAG_HALVES and after in _FLAG_HALVES and _flag_halves_before(text, offset) % 2 == 1


def word_after(text: str, offset: int, end: int) -> int:
    """The first word that begins in [offset, end); else the first cut between characters there; else `end`."""
    if offset >= end:
        return end
    word = _WORD_START.search(text, offset, end)
    return word.start() if word else first_visible(text, next_cut(text, offset, end), end)


def word_end(text: str, offset: int, start: int = 0) -> int:
    """The last offset in (start, offset] that lies in no word; the last cut between characters if there is none."""
    if offset >= len(text) or text[offset].isspace() or text[offset - 1].isspace():
        return rstripped(text, start, offset) or offset
    words = text[start:offset].rsplit(None, 1)
    return (
        rstripped(text, start, offset - len(words[1])) if len(words) == 2 else last_cut(text, start, offset) or offset
    )


def next_cut(text: str, offset: int, end: int) -> int:
    """The first offset from `offset` up to `end` that tears nothing; `offset` when there is none nearby."""
    for cut in range(offset, min(end, offset + LONGEST_CLUSTER) + 1):
        if not tears(text, cut):
            return cut
    return offset


def last_cut(text: str, start: int, offset: int) -> int | None:
    """The last offset in (start, offset] that tears nothing; None when there is none nearby."""
    for cut in range(offset, max(start, offset - LONGEST_CLUSTER), -1):
        if not tears(text, cut):
            return cut
    return None


def _attaches(character: str) -> bool:
    """The character belongs to the one before it."""
    return (
        character in _TRAILING
        or unicodedata.category(character) in _MARKS
        or "\u1160" <= character <= "\u11ff"  # Hangul vowels and finals
        or "\ud7b0" <= character <= "\ud7ff"
        or "\U0001f3fb" <= character <= "\U0001f3ff"  # skin tones
        or "\U000e0020" <= character <= "\U000e007f"  # tags of a flag
    )


def _flag_halves_before(text: str, offset: int) -> int:
    before = text[max(0, offset - _FLAGS_LOOKED_AT) : offset]
    return len(before) - len(before.rstrip(_FLAG_HALVES))
