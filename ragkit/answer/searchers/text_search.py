"""Finds a text in all documents: exact and complete, in the stored texts, not by an index.

Literal text ignores case, and its spaces match any white space. A regular expression is matched line by line, in linear
time whatever it is, by the engine that also matches the patterns of JSON Schemas.
"""

from __future__ import annotations

import re
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from ragkit.agent.tools.schema_validator import check_schema, compile_pattern
from ragkit.errors import InvalidOption

MAX_PATTERN_CHARS = 300
"""Characters of a pattern."""
MAX_SPANS = 5
"""Places kept for each document; all are counted."""
SEARCH_SECONDS = 10.0
"""Seconds after which a search stops and says that it is incomplete."""

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class TextPattern:
    """What is looked for."""

    text: str
    regex: bool = False
    """Whether `text` is a regular expression: without look-around and backreferences, matched line by line."""
    whole_words: bool = False
    """Whether the places of literal text begin and end at the edge of a word."""
    spellings: tuple[str, ...] = ()
    """Other literal texts that are looked for in the same pass; places that overlap count once."""

    def __post_init__(self) -> None:
        for text in (self.text, *self.spellings):
            if not text.strip() or len(text) > MAX_PATTERN_CHARS:
                raise InvalidOption("pattern", text[:80], f"1 to {MAX_PATTERN_CHARS} characters that are not all blank")
        if self.regex:
            check_schema({"pattern": self.text}, "the regular expression")


@dataclass(frozen=True, slots=True)
class TextMatches:
    """The places of a pattern in one document."""

    source: str
    title: str
    count: int
    """All places; of a regular expression, all lines that match."""
    spans: tuple[Span, ...]
    """The first places, as offsets into the text of the document."""


@dataclass(frozen=True, slots=True)
class FoundText:
    """The documents that contain a pattern, by source."""

    documents: tuple[TextMatches, ...]
    searched: int
    """Documents that were read."""
    complete: bool
    """Whether all documents were read; else the time was used up."""


def search_texts(
    pattern: TextPattern, texts: Iterable[tuple[str, str, bytes]], seconds: float = SEARCH_SECONDS
) -> FoundText:
    """Find a pattern in documents, given as source, title and compressed UTF-8 text."""
    find = _line_finder(pattern.text) if pattern.regex else _literal_finder(pattern)
    deadline = time.monotonic() + seconds
    found, searched = list[TextMatches](), 0
    for source, title, body in texts:
        if time.monotonic() > deadline:
            return FoundText(tuple(found), searched, complete=False)
        searched += 1
        count, spans = 0, list[Span]()
        for span in find(zlib.decompress(body).decode()):
            count += 1
            if count <= MAX_SPANS:
                spans.append(span)
        if count:
            found.append(TextMatches(source, title, count, tuple(spans)))
    return FoundText(tuple(found), searched, complete=True)


def _line_finder(expression: str) -> Callable[[str], Iterator[Span]]:
    matches = compile_pattern(expression)

    def find(text: str) -> Iterator[Span]:
        start = 0
        for line in text.split("\n"):
            if matches(line):
                yield start, start + len(line)
            start += len(line) + 1

    return find


def _literal_finder(pattern: TextPattern) -> Callable[[str], Iterator[Span]]:
    spellings = [_Spelling(text, pattern.whole_words) for text in dict.fromkeys((pattern.text, *pattern.spellings))]

    def find(text: str) -> Iterator[Span]:
        lowered, reached = text.lower(), 0
        for start, end in sorted(span for spelling in spellings for span in spelling.find(text, lowered)):
            if start >= reached:
                yield start, end
                reached = end

    return find


class _Spelling:
    """Looks for the first word of a text with `str.find`, twenty times as fast as a pattern that ignores case."""

    def __init__(self, text: str, whole_words: bool) -> None:
        words = text.lower().split()
        self._first = words[0]
        self._rest = re.compile("".join(rf"\s+{re.escape(word)}" for word in words[1:]))
        self._whole = re.compile(r"\s+".join(map(re.escape, text.split())), re.IGNORECASE)
        self._whole_words = whole_words

    def find(self, text: str, lowered: str) -> Iterator[Span]:
        """The places in a text, which is also given in lower case."""
        if len(lowered) != len(text):  # a few letters become two: offsets would move
            yield from (m.span() for m in self._whole.finditer(text) if self._is_allowed(text, *m.span()))
            return
        at = lowered.find(self._first)
        while at >= 0:
            match = self._rest.match(lowered, at + len(self._first))
            if match and self._is_allowed(text, at, match.end()):
                yield at, match.end()
                at = lowered.find(self._first, match.end())
            else:
                at = lowered.find(self._first, at + 1)

    def _is_allowed(self, text: str, start: int, end: int) -> bool:
        if not self._whole_words:
            return True
        before, after = text[start - 1 : start], text[end : end + 1]
        return not (_joins(before) and _joins(text[start])) and not (_joins(after) and _joins(text[end - 1]))


def _joins(character: str) -> bool:
    return character.isalnum() or character == "_"
