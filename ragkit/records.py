"""The records of the data path: Document, Chunk, Hit, Citation.

All are frozen and hold plain values, without access to files, models or stores.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from types import MappingProxyType
from typing import Literal, TypeAlias

from ragkit.argument_types import check_types

JSON: TypeAlias = "bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None"
"""A value that can be serialized to JSON."""

Metadata: TypeAlias = Mapping[str, JSON]
"""The metadata of a document or chunk."""

PlaceUnit: TypeAlias = Literal["line", "row", "paragraph", "record", "cell", "message", "time"]
"""What the number of a `Place` counts."""

NO_METADATA: Metadata = MappingProxyType({})

Where: TypeAlias = Mapping[str, JSON] | None
"""A metadata filter; None or an empty filter matches everything."""

SearchMode: TypeAlias = Literal["dense", "lexical", "hybrid"]
"""How passages are searched."""


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
    end: int | None = None
    """Where its section ends at the latest. Set for the column names of a table, whose section is the rows below them:
    `TABLE_LEVEL`, from the first row below the names to the end of the table. Otherwise None."""

    def to_row(self) -> list[JSON]:
        """The arguments of the constructor, without an `end` of None."""
        row: list[JSON] = [self.start, self.level, self.text]
        return row if self.end is None else [*row, self.end]


TABLE_LEVEL = 100
"""The level of the column names of a table: below every heading."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the text from `start` up to the next place stands in its file."""

    start: int
    """Character offset in the document's text."""
    unit: PlaceUnit
    """What `number` counts: lines of the file, rows of a sheet or table, paragraphs, records, cells of a notebook or
    messages, from 1; or milliseconds. Each line break of the text is one line or row more."""
    number: int
    last: int = 0
    """The end of a time; 0 for other units."""
    section: str = ""
    """The sheet or table of a row."""
    columns: str = ""
    """The columns of a row of a sheet: `A:D`."""

    def moved(self, start: int) -> Place:
        """The same place for a text that begins at `start`."""
        return Place(start, self.unit, self.number, self.last, self.section, self.columns)

    def to_row(self) -> list[JSON]:
        """The arguments of the constructor."""
        return [self.start, self.unit, self.number, self.last, self.section, self.columns]


@check_types()
@dataclass(frozen=True, slots=True)
class Document:
    """The text of one source, with the positions of its pages and headings.

    Offsets are character offsets into `text`; `page_starts`, `headings` and `places` are in ascending order.
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
    places: tuple[Place, ...] = ()
    """Where the text stands in the file; empty when it is the text of the file, character by character."""
    parts: tuple[Document, ...] = ()
    """Documents of their own inside this one: attachments of a mail, rows of a table. Their sources lie below its
    source: `mail.eml/report.pdf`, `prices.csv/48`."""

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
        """The headings above this character, highest first; for a table row, then the column names."""
        path: list[Heading] = []
        for heading in self.headings:
            if heading.start > offset:
                break
            extend_heading_path(path, heading)
        return heading_texts(path, offset)


def extend_heading_path(path: list[Heading], heading: Heading) -> None:
    """Add the next heading of a document to the path of open sections, and close the sections that end at it."""
    while path and path[-1].level >= heading.level:
        path.pop()
    path.append(heading)


def heading_texts(path: Sequence[Heading], offset: int) -> tuple[str, ...]:
    """The texts of a path of open sections at an offset."""
    return tuple(heading.text for heading in path if heading.end is None or offset < heading.end)


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
    """Line of the first character in the document's text, from 1."""
    end_line: int
    """Line of the last character in the document's text, from 1."""
    page: int | None = None
    heading: tuple[str, ...] = ()
    title: str = ""
    metadata: Metadata = field(default_factory=lambda: NO_METADATA)
    context: str = ""
    """Where the chunk stands in its document, in a sentence that a model wrote; empty without `split.context`."""
    place: str = ""
    """Where it stands in the file: `line 48`, `page 3`, `Pumps!A20:D23`. See `describe_place`."""

    @property
    def header(self) -> str:
        """What the embedder and the lexical index get before the text: title and heading path on one line, then the
        context."""
        return join_header(self.title, self.heading, self.context)


def join_header(title: str, heading: Sequence[str], context: str = "") -> str:
    """`Chunk.header` of a chunk with these values."""
    parts = [title, *(part for part in heading if part != title)]
    path = " > ".join(part for part in parts if part)
    return "\n".join(line for line in (path, context) if line)


@dataclass(frozen=True, slots=True)
class ChunkSpan:
    """The position of a chunk in its document, without its text."""

    start: int
    end: int
    heading: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A document found by a vector store, and its cosine with the query, in [-1, 1]. Read like a `Hit`."""

    document: Document
    score: float

    @property
    def text(self) -> str:
        """The text of the document."""
        return self.document.text

    @property
    def source(self) -> str:
        """The source of the document, or `source` in its metadata."""
        return self.document.source or str(self.document.metadata.get("source", ""))


@dataclass(frozen=True, slots=True)
class Hit:
    """A retrieved chunk. `score` is the ranking score: higher is nearer, comparable within one search only."""

    chunk: Chunk
    score: float
    scores: Mapping[str, float] = field(default_factory=dict)
    """By retriever: `dense` is a cosine in [-1, 1], `lexical` a BM25 score >= 0, `rerank` on the reranker's scale."""
    rank: int = 0
    """Position in the list of hits, from 1."""
    also_in: tuple[str, ...] = ()
    """Other sources that hold a passage that says the same, at most 100."""

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
    place: str = ""
    """Where the quote stands in the file: `line 48`, `page 3`, `Pumps!A23:D23`."""
    support: str = ""
    """What was checked of the statements that cite it, in plain words: "numbers match", "not supported"."""
    also_in: tuple[str, ...] = ()
    """Other sources that hold a passage that says the same, at most 100."""
    by: str = "ragkit"
    """Who cites it: `model`, or `ragkit` for quotes without a model and for numbers that ragkit has added."""

    def to_json(self, display: Callable[[str], str] = str) -> dict[str, JSON]:
        """A citation of `ask --json`. `display` formats the names of sources."""
        return {
            "n": self.n,
            "source": display(self.source),
            "place": self.place,
            "page": self.page,
            "rectangles": None,
            "start_line": self.start_line,
            "end_line": self.end_line,
            "start": self.start,
            "end": self.end,
            "quote": self.quote,
            "verified": self.verified,
            "stale": self.stale,
            "score": round(self.score, 4),
            "heading": list(self.heading),
            "chunk_id": self.chunk_id,
            "support": self.support,
            "also_in": [display(source) for source in self.also_in],
            "by": self.by,
        }
