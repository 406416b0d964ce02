"""The draft of an answer about whole documents: its lines and what they quote."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from ragkit.answer.base import Searcher
from ragkit.answer.confidence import LOOKED_UP
from ragkit.answer.extractive.composition import AnswerPassage
from ragkit.answer.extractive.quotes import ExtractiveAnswer, LookedUp, Quote
from ragkit.answer.extractive.whole.names import find_document_named
from ragkit.answer.extractive.whole.parts import LEAD_HEADING
from ragkit.answer.searchers.text_search import FoundText, TextPattern
from ragkit.index.sources.ids import display_name
from ragkit.records import Chunk, Document, Hit, Where

MAX_NAMES = 100
"""Documents that an answer names."""


@runtime_checkable
class DocumentReader(Searcher, Protocol):
    """Reads whole documents: a `Session` of a knowledge base. What its principal may not read does not exist for it."""

    def documents(self, where: Where = None) -> list[tuple[str, str, int]]:
        """(source, title, number of chunks) of every document that matches a filter."""

    def heads(self, where: Where = None) -> list[Document]:
        """The same documents with their metadata and the beginning of their text alone."""

    def document(self, source: str) -> Document | None:
        """The document of a source."""

    def find_text(self, pattern: TextPattern, where: Where = None) -> FoundText:
        """The documents that contain a text."""

    def chunks_between(self, source: str, start: int, end: int) -> list[Chunk]:
        """The chunks that overlap a part of a document."""

    def central_chunks(self, source: str, count: int) -> list[Chunk]:
        """The chunks that together say most of a document."""


class Draft:
    """The lines and quotes of an answer."""

    def __init__(self, reader: DocumentReader) -> None:
        self.reader = reader
        self.lines: list[tuple[str, int]] = []
        self.quotes: list[Quote] = []
        self.is_abstention = False

    def say(self, *lines: str) -> None:
        """Lines that quote nothing."""
        self.lines += [(line, 0) for line in lines]

    def add(self, source: str, start: int, end: int, line: str, quote: str = "") -> None:
        """A line that ends with the number of the quote [start:end] of a source; `quote`: its text, if not the line."""
        chunks = self.reader.chunks_between(source, start, end)
        n = len(self.quotes) + 1 if chunks else 0
        self.lines.append((line, n))
        if chunks:
            passage = AnswerPassage(n - 1, source, start, end, quote or line.removeprefix("- "), 0.0)
            self.quotes.append(Quote(n, Hit(chunks[0], 0.0, rank=n), passage))

    def finish(self, query: str, *, over_all: bool) -> LookedUp:
        """The answer."""
        evidence = 0.0 if self.is_abstention else LOOKED_UP
        quoted = ExtractiveAnswer(tuple(self.quotes), self.is_abstention, query, evidence)
        return LookedUp(tuple(self.lines), quoted, over_all)


def say_cut(draft: Draft, count: int) -> None:
    """Say how many documents an answer does not name."""
    if count > MAX_NAMES:
        draft.say(f"- and {count - MAX_NAMES:,} more, which are not named here")


def name_of(source: str, title: str) -> str:
    """The displayed source, with a title that says more: "Abstract" is that of a document whose title was not found."""
    name = display_name(source)
    says_more = title and title.casefold() not in name.casefold() and not LEAD_HEADING.fullmatch(title)
    return f"{name}, {title}" if says_more else name


def count_of(count: int, noun: str) -> str:
    """A number with its noun."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def find_sources(text: str, documents: Sequence[tuple[str, str, int]]) -> list[str]:
    """The sources of the documents with a name; see `find_document_named`."""
    return find_document_named(text, ((source, title) for source, title, _ in documents))
