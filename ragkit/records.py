"""The records that flow along the data path: Document, Chunk, Hit, Citation, Answer.

All are frozen, hold plain values and know nothing of files, models or stores.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from types import MappingProxyType
from typing import TypeAlias

JSON: TypeAlias = "bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None"
"""A value that JSON can hold."""

Metadata: TypeAlias = Mapping[str, JSON]
"""What is known of a document or chunk beside its text; keys are strings."""

NO_METADATA: Metadata = MappingProxyType({})


def content_id(*parts: str) -> str:
    """A stable id of 32 hex digits: equal parts give an equal id on every machine.

    Parts are joined with their lengths, so that ("ab", "c") and ("a", "bc") differ.
    """
    digest = blake2b(digest_size=16)
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8, "little"))
        digest.update(raw)
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of a document: everything after it, up to the next one of its level, stands under it."""

    start: int
    """Character offset of the heading in the document's text."""
    level: int
    """1 is the highest."""
    text: str
    """The words of the heading, without markup."""


@dataclass(frozen=True, slots=True)
class Document:
    """The text that a loader found in one file, and where each part of it came from.

    Offsets are character offsets into `text`; `page_starts` and `headings` are in rising order.
    """

    text: str
    metadata: Metadata = field(default_factory=lambda: NO_METADATA)
    source: str = ""
    """Where it came from: an absolute path or a URL; empty for text that was handed over."""
    title: str = ""
    page_starts: tuple[int, ...] = ()
    """Where each page begins, page 1 first; empty for formats without pages."""
    headings: tuple[Heading, ...] = ()
    format: str = "text"
    """What the loader took it for: text, markdown, code, html, pdf, docx, ..."""
    language: str = ""
    """For code: the programming language, in lower case; else empty."""
    id: str = ""
    """Given by the caller, or derived from source and text."""

    def __post_init__(self) -> None:
        if not self.id:
            object.__setattr__(self, "id", content_id(self.source, self.text))

    def page_at(self, offset: int) -> int | None:
        """The page, counted from 1, that holds this character; None without pages."""
        if not self.page_starts:
            return None
        return max(1, bisect_right(self.page_starts, offset))

    def heading_path_at(self, offset: int) -> tuple[str, ...]:
        """The headings above this character, highest first."""
        path: list[Heading] = []
        for heading in self.headings:
            if heading.start > offset:
                break
            while path and path[-1].level >= heading.level:
                path.pop()
            path.append(heading)
        return tuple(heading.text for heading in path)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a document: `document.text[start:end] == text`, always."""

    id: str
    document_id: str
    source: str
    text: str
    start: int
    end: int
    start_line: int
    """Line of the first character, counted from 1."""
    end_line: int
    """Line of the last character, counted from 1."""
    page: int | None = None
    heading: tuple[str, ...] = ()
    title: str = ""
    metadata: Metadata = field(default_factory=lambda: NO_METADATA)

    @property
    def header(self) -> str:
        """Title and heading path on one line: what the embedder and the lexical index see before the text."""
        parts = [self.title, *(part for part in self.heading if part != self.title)]
        return " > ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class ChunkSpan:
    """A chunk's place in its document, without its text."""

    start: int
    end: int
    heading: tuple[str, ...] = ()
    """As of the chunk."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What a vector store found: a document and its cosine with the query, in [-1, 1]."""

    document: Document
    score: float


@dataclass(frozen=True, slots=True)
class Hit:
    """A retrieved chunk. `score` is what it was ranked by: higher is nearer, comparable within one search only."""

    chunk: Chunk
    score: float
    scores: Mapping[str, float] = field(default_factory=dict)
    """By retriever: `dense` is a cosine in [-1, 1], `lexical` a BM25 score >= 0, `rerank` as its reranker says."""
    rank: int = 0
    """Counted from 1 in the list that this hit stands in."""


@dataclass(frozen=True, slots=True)
class Citation:
    """A place in a source that an answer leans on. `start` and `end` are offsets into the loader's text."""

    n: int
    """The number that stands in the answer's text, as [n]; counted from 1."""
    source: str
    quote: str
    start: int
    end: int
    start_line: int
    end_line: int
    page: int | None
    heading: tuple[str, ...]
    chunk_id: str
    score: float
    verified: bool
    """The quote stands at [start:end] of the text that was indexed."""
    stale: bool
    """The file on disk has changed, or is gone, since it was indexed."""
