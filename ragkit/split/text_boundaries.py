"""Where a text may be cut: at words, else between characters without tearing what a reader sees as one.

Covers combining marks, emoji sequences, flags, Hangul jamo, surrogate pairs and CRLF: the cases of Unicode
Annex 29 that occur in texts, not its whole table.
"""

from __future__ import annotations

import re
import unicodedata

from ragkit.split.lines import rstrip_end, skip_whitespace

MAX_GRAPHEME_CHARS = 32
"""Characters: a longer cluster (marks heaped on marks) may be cut, so that every search stays short."""

_WORD_START = re.compile(r"(?<=\s)\S")
_MARK_CATEGORIES = frozenset({"Mn", "Me", "Mc"})
_ZERO_WIDTH_JOINER = "\u200d"
_REGIONAL_INDICATORS = "".join(map(chr, range(0x1F1E6, 0x1F200)))
_MAX_FLAG_CHARS = 512  # characters: in a longer row of flags a cut may fall inside one
_EXTENDING_CHARS = frozenset("\u200c\u200d\u0e33\u0eb3\uff9e\uff9f")  # joiners, Thai and Lao AM, half-width voicing


def splits_grapheme(text: str, offset: int) -> bool:
    """Whether a cut between `text[offset - 1]` and `text[offset]` would tear a cluster."""
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
    """The first word that begins in [offset, end); else the first cut between characters there; else `end`."""
    if offset >= end:
        return end
    word = _WORD_START.search(text, offset, end)
    return word.start() if word else skip_whitespace(text, next_grapheme_break(text, offset, end), end)


def last_word_end(text: str, offset: int, start: int = 0) -> int:
    """The last offset in (start, offset] that lies in no word; the last cut between characters if there is none."""
    if offset >= len(text) or text[offset].isspace() or text[offset - 1].isspace():
        return rstrip_end(text, start, offset) or offset
    words = text[start:offset].rsplit(None, 1)
    return (
        rstrip_end(text, start, offset - len(words[1]))
        if len(words) == 2
        else last_grapheme_break(text, start, offset) or offset
    )


def next_grapheme_break(text: str, offset: int, end: int) -> int:
    """The first offset from `offset` up to `end` that tears nothing; `offset` when there is none nearby."""
    for cut in range(offset, min(end, offset + MAX_GRAPHEME_CHARS) + 1):
        if not splits_grapheme(text, cut):
            return cut
    return offset


def last_grapheme_break(text: str, start: int, offset: int) -> int | None:
    """The last offset in (start, offset] that tears nothing; None when there is none nearby."""
    for cut in range(offset, max(start, offset - MAX_GRAPHEME_CHARS), -1):
        if not splits_grapheme(text, cut):
            return cut
    return None


def _is_extending(character: str) -> bool:
    """The character belongs to the one before it."""
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
