"""The records of the data path: Document, Chunk, Hit, Citation.

All are frozen and hold plain values, without access to files, models or stores.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from types import MappingProxyType
from typing import TypeAlias

JSON: TypeAlias = "bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None"
"""A value that can be serialized to JSON."""

Metadata: TypeAlias = Mapping[str, JSON]
"""The metadata of a document or chunk."""

NO_METADATA: Metadata = MappingProxyType({})


def content_id(*parts: str) -> str:
    """A stable id of 32 hex digits: equal parts have equal ids on every machine.

    The hash includes the length of each part, so that ("ab", "c") and ("a", "bc") differ.
    """
    digest = blake2b(digest_size=16)
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8, "little"))
        digest.update(raw)
    return digest.hexdigest()


def metadata_key(metadata: Metadata) -> str:
    """Metadata as text that does not depend on the order of its keys. Values that JSON cannot represent use `str`."""
    try:
        return json.dumps(sorted(metadata.items(), key=str), default=str)
    except (TypeError, ValueError, RecursionError):  # not storable, which the store reports
        return ""


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of a document. Its section ends at the next heading of the same or a higher level."""

    start: int
    """Character offset in the document's text."""
    level: int
    """1 is the highest."""
    text: str
    """Without markup."""


@dataclass(frozen=True, slots=True)
class Document:
    """The text of one source, with the positions of its pages and headings.

    Offsets are character offsets into `text`; `page_starts` and `headings` are in ascending order.
    """

    text: str
    metadata: Metadata = field(default_factory=lambda: NO_METADATA)
    source: str = ""
    """An absolute path or a URL; empty for text passed by the caller."""
    title: str = ""
    page_starts: tuple[int, ...] = ()
    """Start offset of each page, page 1 first; empty for formats without pages."""
    headings: tuple[Heading, ...] = ()
    format: str = "text"
    """The detected format: text, markdown, code, html, pdf, docx, ..."""
    language: str = ""
    """The programming language of code, in lower case; empty otherwise."""
    id: str = ""
    """Set by the caller, or derived from source, text and metadata."""

    def __post_init__(self) -> None:
        if not self.id:
            parts = (self.source, self.text)
            object.__setattr__(
                self, "id", content_id(*parts, *([metadata_key(self.metadata)] if self.metadata else ()))
            )

    def page_at(self, offset: int) -> int | None:
        """The page of a character, from 1; None without pages."""
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
    """A piece of a document. `document.text[start:end] == text` always holds."""

    id: str
    document_id: str
    source: str
    text: str
    start: int
    end: int
    start_line: int
    """Line of the first character, from 1."""
    end_line: int
    """Line of the last character, from 1."""
    page: int | None = None
    heading: tuple[str, ...] = ()
    title: str = ""
    metadata: Metadata = field(default_factory=lambda: NO_METADATA)
    context: str = ""
    """Where the chunk stands in its document, in a sentence that a model wrote; empty without `split.context`."""

    @property
    def header(self) -> str:
        """What the embedder and the lexical index get before the text: title and heading path on one line, then the
        context."""
        parts = [self.title, *(part for part in self.heading if part != self.title)]
        path = " > ".join(part for part in parts if part)
        return "\n".join(line for line in (path, self.context) if line)


@dataclass(frozen=True, slots=True)
class ChunkSpan:
    """The position of a chunk in its document, without its text."""

    start: int
    end: int
    heading: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A document found by a vector store, and its cosine with the query, in [-1, 1]."""

    document: Document
    score: float


@dataclass(frozen=True, slots=True)
class Hit:
    """A retrieved chunk. `score` is the ranking score: higher is nearer, comparable within one search only."""

    chunk: Chunk
    score: float
    scores: Mapping[str, float] = field(default_factory=dict)
    """By retriever: `dense` is a cosine in [-1, 1], `lexical` a BM25 score >= 0, `rerank` on the reranker's scale."""
    rank: int = 0
    """Position in the list of hits, from 1."""

    @property
    def text(self) -> str:
        """The text of the chunk."""
        return self.chunk.text

    @property
    def source(self) -> str:
        """The source of the chunk: a path, a URL, or the name of a document of a program's own."""
        return self.chunk.source


@dataclass(frozen=True, slots=True)
class Citation:
    """A place in a source that supports an answer. `start` and `end` are offsets into the loader's text."""

    n: int
    """The number in the answer's text, as [n]; from 1."""
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
    """The quote is equal to [start:end] of the indexed text."""
    stale: bool
    """The file on disk has changed or is gone since it was indexed."""
    support: str = ""
    """What was checked of the statements that cite it, in plain words: "numbers match", "not supported"."""
