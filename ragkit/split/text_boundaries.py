"""Boundaries of words and grapheme clusters.

Covers combining marks, emoji sequences, flags, Hangul jamo, surrogate pairs and CRLF: the common cases of Unicode
Annex 29.
"""

from __future__ import annotations

import re
import unicodedata

from ragkit.split.lines import rstrip_end, skip_whitespace

MAX_GRAPHEME_CHARS = 32
"""A longer cluster may be split, which bounds the search."""

_WORD_START = re.compile(r"(?<=\s)\S")
_MARK_CATEGORIES = frozenset({"Mn", "Me", "Mc"})
_ZERO_WIDTH_JOINER = "\u200d"
_REGIONAL_INDICATORS = "".join(map(chr, range(0x1F1E6, 0x1F200)))
_MAX_FLAG_CHARS = 512  # in a longer sequence of flags, a flag may be split
_EXTENDING_CHARS = frozenset("\u200c\u200d\u0e33\u0eb3\uff9e\uff9f")  # joiners, Thai and Lao AM, half-width voicing


def splits_grapheme(text: str, offset: int) -> bool:
    """Whether `offset` is inside a grapheme cluster."""
    if not 0 < offset < len(text):
        return False
    before, after = text[offset - 1], text[offset]
    if after < "\u0300":
        return after == "\n" and before == "\r"
    if before == _ZERO_WIDTH_JOINER or _is_extending(after):
        return True
    if "\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff":
        return True
    return (
        before in _REGIONAL_INDICATORS
        and after in _REGIONAL_INDICATORS
        and _count_regional_indicators_before(text, offset) % 2 == 1
    )


def next_word_start(text: str, offset: int, end: int) -> int:
    """The first word start in [offset, end); else the first grapheme break there; else `end`."""
    if offset >= end:
        return end
    word = _WORD_START.search(text, offset, end)
    return word.start() if word else skip_whitespace(text, next_grapheme_break(text, offset, end), end)


def last_word_end(text: str, offset: int, start: int = 0) -> int:
    """The last word end in (start, offset]; else the last grapheme break there."""
    if offset >= len(text) or text[offset].isspace() or text[offset - 1].isspace():
        return rstrip_end(text, start, offset) or offset
    words = text[start:offset].rsplit(None, 1)
    return (
        rstrip_end(text, start, offset - len(words[1]))
        if len(words) == 2
        else last_grapheme_break(text, start, offset) or offset
    )


def next_grapheme_break(text: str, offset: int, end: int) -> int:
    """The first grapheme break in [offset, end]; `offset` when there is none nearby."""
    for cut in range(offset, min(end, offset + MAX_GRAPHEME_CHARS) + 1):
        if not splits_grapheme(text, cut):
            return cut
    return offset


def last_grapheme_break(text: str, start: int, offset: int) -> int | None:
    """The last grapheme break in (start, offset]; None when there is none nearby."""
    for cut in range(offset, max(start, offset - MAX_GRAPHEME_CHARS), -1):
        if not splits_grapheme(text, cut):
            return cut
    return None


def _is_extending(character: str) -> bool:
    """Whether the character extends the previous one."""
    return (
        character in _EXTENDING_CHARS
        or unicodedata.category(character) in _MARK_CATEGORIES
        or "\u1160" <= character <= "\u11ff"  # Hangul vowels and finals
        or "\ud7b0" <= character <= "\ud7ff"
        or "\U0001f3fb" <= character <= "\U0001f3ff"  # skin tones
        or "\U000e0020" <= character <= "\U000e007f"  # tags of a flag
    )


def _count_regional_indicators_before(text: str, offset: int) -> int:
    before = text[max(0, offset - _MAX_FLAG_CHARS) : offset]
    return len(before) - len(before.rstrip(_REGIONAL_INDICATORS))
