"""The place of a text in its source: source, pages, headings and first line."""

from __future__ import annotations

from dataclasses import replace

from ragkit.records import JSON, Chunk, Document, Heading
from ragkit.split.lines import LineNumbers


def resolve_place(document: Document) -> Document:
    """The document with what only its metadata tell about its place.

    `source`, `title`, `page` (from 1) and `heading` (a text or a path) in the metadata fill empty fields.
    """
    metadata, title = document.metadata, document.metadata.get("title")
    page, heading = metadata.get("page"), metadata.get("heading")
    path = [heading] if isinstance(heading, str) else heading if isinstance(heading, list | tuple) else ()
    headings = tuple(Heading(0, level, text) for level, text in enumerate(map(str, path), start=1) if text)
    return replace(
        document,
        source=document.source or str(metadata.get("source") or ""),
        title=document.title or (title if isinstance(title, str) else ""),
        page_starts=document.page_starts or (0,) * _read_number(page),
        headings=document.headings or headings,
    )


def first_line(document: Document) -> int:
    """The line of its source where the document starts: `start_line` in its metadata, or 1."""
    return _read_number(document.metadata.get("start_line")) or 1


def shift_lines(chunk: Chunk, line: int) -> Chunk:
    """A chunk of a document that starts at this line of its source."""
    return replace(chunk, start_line=chunk.start_line + line - 1, end_line=chunk.end_line + line - 1)


def extract_document(document: Document, start: int, end: int, lines: LineNumbers, id: str) -> Document:
    """`document.text[start:end]` as a document that knows its place.

    It keeps source, title, format, language, pages and headings. Its metadata get `start` and `end` (character
    offsets), `start_line` and `end_line`, and where known `page` and `heading`.
    """
    base, page, path = first_line(document) - 1, document.page_at(start), document.heading_path_at(start)
    pages, headings = slice_place(document, start, end)
    metadata = {
        **document.metadata,
        "start": start,
        "end": end,
        "start_line": base + lines.line_at(start),
        "end_line": base + lines.line_at(end - 1),
        **({} if page is None else {"page": page}),
        **({"heading": list(path)} if path else {}),
    }
    return replace(
        document, text=document.text[start:end], metadata=metadata, page_starts=pages, headings=headings, id=id
    )


def slice_place(document: Document, start: int, end: int) -> tuple[tuple[int, ...], tuple[Heading, ...]]:
    """`page_starts` and `headings` of `document.text[start:end]` as a document."""
    pages = tuple(max(0, offset - start) for offset in document.page_starts if offset < end)
    above = [heading for heading in document.headings if heading.start <= start]
    path: list[Heading] = []
    for heading in above:
        while path and path[-1].level >= heading.level:
            path.pop()
        path.append(replace(heading, start=0))
    below = (
        replace(heading, start=heading.start - start) for heading in document.headings if start < heading.start < end
    )
    return pages, (*path, *below)


def _read_number(value: JSON) -> int:
    """A page or line number; 0 if it is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 1 else 0
