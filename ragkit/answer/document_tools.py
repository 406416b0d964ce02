"""Tools with which an agent navigates documents: list them, see their outlines, read parts, find exact text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from ragkit.agent.tools.base import Tool, ToolContext, ToolResult
from ragkit.answer.base import Searchable
from ragkit.answer.extractive.whole.draft import DocumentReader
from ragkit.answer.extractive.whole.look_up import find_document
from ragkit.answer.extractive.whole.parts import outline
from ragkit.answer.passage_text import format_blocks
from ragkit.answer.passages import RetrievedPassages, within_budget
from ragkit.answer.searchers.text_search import TextMatches, TextPattern
from ragkit.answer.tool import NO_CONTEXT, assign_numbers, shown_ids
from ragkit.errors import InvalidOption, UnknownName
from ragkit.index.sources.ids import display_name
from ragkit.places import describe_place
from ragkit.records import JSON, Chunk, Document, Hit, Where

DOCUMENT_TOOLS = ("list_documents", "outline", "read_document", "find_text")
"""The names of the tools."""
MAX_DOCUMENTS = 100
"""Documents of one result."""
MAX_HEADINGS = 300
MAX_PLACES = 60
"""Places that one result of `find_text` shows; all are counted."""
MAX_LINE_CHARS = 240
READ_BUDGET = 4000
"""Tokens of the passages of one `read_document`, by estimate."""
_RANGE = re.compile(r"\s*(\d{1,8})\s*(?:[-–]\s*(\d{1,8})\s*)?")


class DocumentTools:
    """The tools over a knowledge base. Pass `tools` to any agent beside `search_knowledge_base`."""

    def __init__(self, documents: Searchable, where: Where = None) -> None:
        """`where`: a metadata filter; the other documents do not exist for the tools."""
        self._documents = documents
        self._where = where

    @property
    def tools(self) -> list[Tool]:
        """All four tools, in the order of DOCUMENT_TOOLS."""
        return self.select(DOCUMENT_TOOLS)

    def select(self, names: Sequence[str]) -> list[Tool]:
        """The tools with these names. Raises UnknownName."""
        for name in names:
            if name not in DOCUMENT_TOOLS:
                raise UnknownName("tool", name, DOCUMENT_TOOLS)
        return [Tool.from_function(getattr(self, name), name=name) for name in names]

    @contextmanager
    def _open(self) -> Iterator[DocumentReader]:
        with self._documents.session() as reader:
            if not isinstance(reader, DocumentReader):
                raise InvalidOption("documents", type(reader).__name__, "a knowledge base, which keeps whole documents")
            yield reader

    def list_documents(self, query: str = "", after: str = "") -> ToolResult:
        """List the user's documents, by source.

        Args:
            query: Text in the source or title; empty for all.
            after: The last source of the previous page; empty for the first page.
        """
        with self._open() as reader:
            documents = reader.documents(self._where)
        wanted = query.casefold()
        found = [row for row in documents if wanted in f"{row[0]} {row[1]}".casefold()]
        names = [display_name(source) for source, _, _ in found]
        if after and after not in names:
            raise InvalidOption("after", after[:120], "the last source of the previous page")
        rest = found[names.index(after) + 1 :] if after else found
        lines = [f"{display_name(source)}  {title}".rstrip() for source, title, _ in rest[:MAX_DOCUMENTS]]
        more = f"more: after={display_name(rest[MAX_DOCUMENTS - 1][0])!r}" if len(rest) > MAX_DOCUMENTS else ""
        head = f"{len(found):,} of {len(documents):,} documents" if query else f"{len(documents):,} documents"
        return ToolResult("\n".join(filter(None, [f"{head}:", *lines, more])))

    def outline(self, source: str) -> ToolResult:
        """Show the headings of a document, with the lines or pages where they stand.

        Args:
            source: The source, file name or title of the document.
        """
        with self._open() as reader:
            document = _read(reader, source, self._where)
        sections = outline(document)
        shown = sections[:MAX_HEADINGS]
        name = display_name(document.source)
        lines = [f"{'  ' * (section.level - 1)}{section.title} ({section.place})" for section in shown]
        left_out = len(sections) - len(shown)
        pages = f", {len(document.page_starts)} pages" if document.page_starts else ""
        head = f"{name}: {len(sections)} headings, {document.text.count(chr(10)) + 1:,} lines{pages}"
        data: list[JSON] = [{"title": s.title, "level": s.level, "place": s.place} for s in shown]
        content = "\n".join([head, *lines, *([f"and {left_out} more"] if left_out else [])])
        return ToolResult(content, {"source": name, "title": document.title, "sections": data, "left_out": left_out})

    def read_document(
        self, source: str, section: str = "", pages: str = "", lines: str = "", *, context: ToolContext = NO_CONTEXT
    ) -> ToolResult:
        """Read a document or a part of it as numbered passages: cite [n]. A long part is cut; go on with `lines`.

        Args:
            source: The source, file name or title of the document.
            section: A heading of its outline.
            pages: Pages such as `3` or `3-5`.
            lines: Lines such as `120-200`.
        """
        context = ToolContext() if context is NO_CONTEXT else context
        with self._open() as reader:
            document = _read(reader, source, self._where)
            start, end = select_part(document, section, pages, lines)
            chunks = reader.chunks_between(document.source, start, end)
            hits = [Hit(_cut(document, chunk, start, end), 0.0) for chunk in chunks]
            shown = within_budget(hits, READ_BUDGET)
            before = len(shown_ids(context))
            numbers = assign_numbers(shown, context)
            blocks = format_blocks(shown, numbers, reader)
        rest = f"(cut: go on with lines={shown[-1].chunk.end_line}-)" if len(shown) < len(hits) else ""
        content = "\n\n".join(filter(None, [*blocks.values(), rest])) or "There is no text."
        return ToolResult(content, RetrievedPassages(source, tuple(shown), numbers, None, before, blocks))

    def find_text(self, pattern: str, regex: bool = False) -> ToolResult:
        """Find every place of an exact text in all documents; complete, unlike a search.

        Args:
            pattern: Text in any case; its spaces match line breaks too.
            regex: Whether `pattern` is a regular expression, matched line by line, without look-around.
        """
        with self._open() as reader:
            found = reader.find_text(TextPattern(pattern, regex), self._where)
            room, documents, lines = MAX_PLACES, list[JSON](), list[str]()
            for matches in found.documents[:MAX_DOCUMENTS]:
                places = _places(reader.document(matches.source) if room else None, matches, room)
                room -= len(places)
                name = display_name(matches.source)
                documents.append(
                    {"source": name, "title": matches.title, "count": matches.count, "places": list(places)}
                )
                lines.append(f"{name} ({matches.count:,})")
                lines += [f"  {place['place']}: {place['text']}" for place in places]
        count, in_all = sum(matches.count for matches in found.documents), len(found.documents)
        head = f"{count:,} place{'' if count == 1 else 's'} in {in_all:,} of {found.searched:,} documents"
        left_out = in_all - len(documents)
        notes = [f"and {left_out:,} more documents"] if left_out else []
        notes += [] if found.complete else ["incomplete: the time was used up; look for something rarer"]
        data: dict[str, JSON] = {
            "pattern": pattern, "places": count, "matching": in_all, "searched": found.searched,
            "complete": found.complete, "documents": documents, "left_out": left_out,
        }  # fmt: skip
        return ToolResult("\n".join([head, *lines, *notes]), data)


def _read(reader: DocumentReader, name: str, where: Where) -> Document:
    source = find_document(reader, name, where)
    document = reader.document(source)
    if document is None:
        raise InvalidOption("source", name[:120], "a document whose text is stored")
    return document


def _cut(document: Document, chunk: Chunk, start: int, end: int) -> Chunk:
    """What of a chunk is in [start:end] of its document."""
    low, high = max(start, chunk.start), min(end, chunk.end)
    if (low, high) == (chunk.start, chunk.end):
        return chunk
    text = document.text[low:high]
    first = chunk.start_line + document.text.count("\n", chunk.start, low)
    lines = first, first + text.rstrip("\n").count("\n")
    place = describe_place(document, low, high, lines)
    return replace(chunk, text=text, start=low, end=high, start_line=lines[0], end_line=lines[1], place=place)


def _places(document: Document | None, matches: TextMatches, room: int) -> list[dict[str, str]]:
    """Where the first places stand, each with its line."""
    places: list[dict[str, str]] = []
    for start, end in matches.spans[:room] if document is not None else ():
        assert document is not None  # noqa: S101 - there are spans
        first = document.text.count("\n", 0, start) + 1
        place = describe_place(document, start, end, (first, first + document.text.count("\n", start, end)))
        low, high = document.text.rfind("\n", 0, start) + 1, document.text.find("\n", end)
        low, high = (
            max(low, start - MAX_LINE_CHARS // 2),
            min(len(document.text) if high < 0 else high, end + MAX_LINE_CHARS // 2),
        )
        places.append({"place": place, "text": " ".join(document.text[low:high].split())[:MAX_LINE_CHARS]})
    return places


def select_part(document: Document, section: str = "", pages: str = "", lines: str = "") -> tuple[int, int]:
    """The offsets of a section, of pages or of lines of a document; the whole text without any.

    Raises InvalidOption for more than one of them, or what the document does not have.
    """
    given = [name for name, value in (("section", section), ("pages", pages), ("lines", lines)) if value.strip()]
    if len(given) > 1:
        raise InvalidOption(" and ".join(given), "both", "one of section, pages and lines")
    if section.strip():
        wanted = " ".join(section.casefold().split())
        sections = outline(document)
        exact = [found for found in sections if found.title.casefold() == wanted]
        for found in exact or [found for found in sections if wanted in found.title.casefold()]:
            return found.start, found.end
        known = ", ".join(found.title for found in sections[:20])
        raise InvalidOption(
            "section", section[:120], f"a heading of {display_name(document.source)}: {known or 'it has none'}"
        )
    if pages.strip():
        starts = [*document.page_starts, len(document.text)]
        first, last = _read_range("pages", pages, len(document.page_starts))
        return (0 if first == 1 else starts[first - 1]), starts[last]
    if lines.strip():
        ends = [match.end() for match in re.finditer(r"\n|\Z", document.text)]
        first, last = _read_range("lines", lines, len(ends))
        return (ends[first - 2] if first > 1 else 0), ends[last - 1]
    return 0, len(document.text)


def _read_range(option: str, value: str, count: int) -> tuple[int, int]:
    match = _RANGE.fullmatch(f"{value}{count}" if value.rstrip().endswith(("-", "–")) else value)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 1 <= first <= min(last, count):
        raise InvalidOption(option, value[:40], f"a number or a range such as 3-5, from 1 to {count}")
    return first, min(last, count)
