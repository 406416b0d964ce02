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

    def __post_init__(self) -> None:
        if not self.text.strip() or len(self.text) > MAX_PATTERN_CHARS:
            raise InvalidOption(
                "pattern", self.text[:80], f"1 to {MAX_PATTERN_CHARS} characters that are not all blank"
            )
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
    """A finder that looks for the first word with `str.find`, twenty times as fast as a pattern that ignores case."""
    words = pattern.text.lower().split()
    rest = re.compile("".join(rf"\s+{re.escape(word)}" for word in words[1:]))
    whole = re.compile(r"\s+".join(map(re.escape, pattern.text.split())), re.IGNORECASE)

    def find(text: str) -> Iterator[Span]:
        lowered = text.lower()
        if len(lowered) != len(text):  # a few letters become two: offsets would move
            yield from (match.span() for match in whole.finditer(text) if is_allowed(text, *match.span()))
            return
        at = lowered.find(words[0])
        while at >= 0:
            match = rest.match(lowered, at + len(words[0]))
            if match and is_allowed(text, at, match.end()):
                yield at, match.end()
                at = lowered.find(words[0], match.end())
            else:
                at = lowered.find(words[0], at + 1)

    def is_allowed(text: str, start: int, end: int) -> bool:
        if not pattern.whole_words:
            return True
        before, after = text[start - 1 : start], text[end : end + 1]
        return not (_joins(before) and _joins(text[start])) and not (_joins(after) and _joins(text[end - 1]))

    return find


def _joins(character: str) -> bool:
    return character.isalnum() or character == "_"
