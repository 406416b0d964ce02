"""The non-blank lines of a text, for all Unicode line breaks; and line numbers."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

_LINE_BREAK_AND_SPACE = re.compile(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]\s*")
_LINE_BREAK = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_WHITESPACE = re.compile(r"\s*")
_NUMBERED_LINE_BREAK = re.compile(r"\r\n|\n|\r")


class TextLine(NamedTuple):
    """A line that is not blank. Offsets are character offsets into the text."""

    start: int
    """Its first character, indentation included."""
    text_start: int
    """Its first character that is not white space."""
    end: int
    """One past its last character that is not white space."""
    after_blank: bool
    """A blank line or a page break precedes it. False for the first line of the text."""


def iter_lines(text: str) -> Iterator[TextLine]:
    """The non-blank lines of `text`, in order. Linear in the length of `text`."""
    first = skip_whitespace(text, 0, len(text))
    start = _line_start(text, 0, first)
    after_blank = False
    for gap in _LINE_BREAK_AND_SPACE.finditer(text, first):
        stop, following = gap.span()
        end = rstrip_end(text, first, stop) if text[stop - 1].isspace() else stop
        yield TextLine(start, first, end, after_blank)
        first = following
        if following - stop == 1:  # most line breaks
            start, after_blank = first, False
        else:
            start, after_blank = _line_start(text, stop, first), len(_LINE_BREAK.findall(gap.group())) > 1
    if first < len(text):
        yield TextLine(start, first, rstrip_end(text, first, len(text)), after_blank)


def rstrip_end(text: str, start: int, end: int) -> int:
    """The end of `text[start:end]` without trailing white space; `start` when it is blank."""
    if end > start and not text[end - 1].isspace():
        return end
    return start + len(text[start:end].rstrip())


def skip_whitespace(text: str, start: int, end: int) -> int:
    """The offset of the first character of `text[start:end]` that is not white space; `end` when it is blank."""
    space = _WHITESPACE.match(text, start, end)
    return space.end() if space else start


def _line_start(text: str, start: int, first: int) -> int:
    """The start of the line that contains `first`; `text[start:first]` is white space."""
    indent = first
    while indent > start and text[indent - 1] in " \t":
        indent -= 1
    return indent


class LineNumbers:
    r"""Converts character offsets of a text to line numbers, from 1.

    A line ends at "\n", "\r\n" or a lone "\r", as text editors count.
    """

    def __init__(self, text: str) -> None:
        self._starts = [match.end() for match in _NUMBERED_LINE_BREAK.finditer(text)]

    def line_at(self, offset: int) -> int:
        """The number of the line that contains the character at `offset`."""
        return bisect_right(self._starts, offset) + 1
