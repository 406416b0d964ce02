"""Cuts passages into statements: the pieces of text that an answer can quote, each readable on its own.

A statement is a sentence, a row of a table with the names of its columns, or an item of a list with the line that
introduces it. Headings, rules and code fences are no statements; what is too short to say anything is joined with
what follows. Knows no question and no index.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ragkit.records import Chunk, Hit
from ragkit.split.sentences import sentence_spans

SHORT = 24
"""Characters: a statement below this is joined with the one behind it."""
_LONGEST_JOINED = 400
_LONGEST_LEAD = 160
_WRAPPED = 40  # characters: shorter lines end where their author wanted them to


@dataclass(frozen=True)
class Statement:
    """A piece of a passage. `start` and `end` are offsets into its document."""

    hit: int
    """Place of its hit in the list that was searched, from 0."""
    start: int
    end: int
    text: str
    """As it reads in an answer: the words of [start:end] on one line, with the context that a row or an item needs."""


def statements(hits: Sequence[Hit]) -> list[Statement]:
    """The statements of all passages, in order; what overlapping passages share comes once."""
    found: dict[tuple[str, int], Statement] = {}
    for number, hit in enumerate(hits):
        for statement in _of_chunk(hit.chunk, number):
            # by their ends: a chunk that begins within a sentence or a row holds only the rest of it
            place = (hit.chunk.source or hit.chunk.document_id, statement.end)
            if place not in found or found[place].start > statement.start:
                found[place] = statement
    return sorted(found.values(), key=lambda statement: (statement.hit, statement.start))


_NO_WORDS = re.compile(r"[\W_]*")
_FENCE = re.compile(r"(?:`{3}|~{3})\w*$")
_MARKS = re.compile(r"^\s*(?:(?:#{1,6}|>|[-*+•▪◦‣])\s+)+", re.MULTILINE)
_ITEM = re.compile(r"(?:[-*+•▪◦‣]|\d{1,3}[.)]|[A-Za-z][.)])\s")
_EMPHASIS = re.compile(r"\*{2,3}|(?<![\w*])\*(?=\w)|(?<=[\w.,:;!?)])\*(?![\w*])|\"{3}")
_ENTRY = re.compile(r"[\w.\[\] -]{1,60}[:=]\s")
_CELL_BORDER = re.compile(r"\s*\|\s*")


@dataclass(frozen=True)
class _Piece:
    """A span of a chunk on the way to becoming a statement."""

    start: int
    end: int
    raw: str
    lead: str = ""
    """What has to be read before it."""
    columns: tuple[str, ...] = ()


def _of_chunk(chunk: Chunk, number: int) -> Iterator[Statement]:
    pieces = _with_leads(list(_with_columns(list(_pieces(chunk)))))
    for piece in _joined(pieces, chunk.text):
        text = _readable(piece)
        if text:
            yield Statement(number, chunk.start + piece.start, chunk.start + piece.end, text)


def _pieces(chunk: Chunk) -> Iterator[_Piece]:
    """The sentences of a chunk, without those that only mark or name a part of it."""
    names = {_plain(name) for name in (chunk.title, *chunk.heading)}
    for start, end in sentence_spans(chunk.text):
        raw = chunk.text[start:end]
        heading = (raw.startswith("#") and "\n" not in raw) or _plain(raw) in names
        if not heading and not _FENCE.match(raw) and (not _NO_WORDS.fullmatch(raw) or _is_rule(raw)):
            yield _Piece(start, end, raw)


def _plain(text: str) -> str:
    return " ".join(re.sub(r"[#*_`>|]+", " ", text).lower().split()).rstrip(".:")


def _is_rule(raw: str) -> bool:
    """The line between the head and the body of a Markdown table."""
    return "|" in raw and "--" in raw and not re.search(r"\w", raw)


def _cells(raw: str) -> tuple[str, ...]:
    return tuple(_CELL_BORDER.split(raw.strip().strip("|").strip()))


def _is_row(raw: str) -> bool:
    return "\n" not in raw and (raw.startswith("|") or " | " in raw)


def _with_columns(pieces: Sequence[_Piece]) -> Iterator[_Piece]:
    """Rows of tables with the names of their columns. The row of names is no statement, nor is the rule under it."""
    columns: tuple[str, ...] = ()
    before: _Piece | None = None
    for at, piece in enumerate(pieces):
        if not _is_row(piece.raw):
            columns, before = (), piece
            yield piece
            continue
        first = before is None or not _is_row(before.raw)
        before = piece
        following = pieces[at + 1] if at + 1 < len(pieces) else None
        if _is_rule(piece.raw):
            continue
        if first and following is not None and _is_head(piece, following):
            columns = _cells(piece.raw)
        else:
            yield replace(piece, columns=columns)


def _is_head(row: _Piece, following: _Piece) -> bool:
    """A first row is the names of the columns when a rule follows, or another row and no cell of it is a number."""
    if _is_rule(following.raw):
        return True
    named = not any(re.search(r"\d", cell) for cell in _cells(row.raw))
    return named and _is_row(following.raw) and len(_cells(following.raw)) == len(_cells(row.raw))


def _with_leads(pieces: Sequence[_Piece]) -> list[_Piece]:
    """Items of a list with the line that introduces them."""
    found: list[_Piece] = []
    lead = ""
    for piece in pieces:
        item = _ITEM.match(piece.raw) is not None
        found.append(replace(piece, lead=lead) if item and lead else piece)
        if piece.raw.endswith(":") and len(piece.raw) <= _LONGEST_LEAD and not item:
            lead = piece.raw
        elif not item:
            lead = ""
    return found


def _joined(pieces: Sequence[_Piece], text: str) -> list[_Piece]:
    """What is too short to say anything goes with the piece before it in its line, or else with the one behind it."""
    found: list[_Piece] = []
    for piece in pieces:
        if found and _belong_together(found[-1], piece, text):
            found[-1] = replace(found[-1], end=piece.end, raw=text[found[-1].start : piece.end])
        else:
            found.append(piece)
    return found


def _belong_together(first: _Piece, second: _Piece, text: str) -> bool:
    if _is_row(first.raw) or _is_row(second.raw) or second.end - first.start > _LONGEST_JOINED:
        return False
    gap = text[first.end : second.start]
    if "\n" not in gap:
        return len(second.raw) < SHORT or len(first.raw) < SHORT
    if second.raw.startswith('"""') or _is_cut(first.raw, gap, second.raw):
        return True
    return len(first.raw) < SHORT and not _ITEM.match(second.raw)


def _is_cut(first: str, gap: str, second: str) -> bool:
    """A line that was wrapped in a text where most were not: no stop at its end, a small letter behind the break."""
    if gap.count("\n") != 1 or len(first) < _WRAPPED or first[-1] in ".!?:;" or _ENTRY.match(second):
        return False
    return second.lstrip("> ")[:1].islower()


def _readable(piece: _Piece) -> str:
    if _is_row(piece.raw):
        cells = _cells(piece.raw)
        if len(cells) == len(piece.columns):
            named = (f"{name}: {cell}" if name else cell for name, cell in zip(piece.columns, cells, strict=True))
            return "; ".join(part for part in named if part)
        return " | ".join(cell for cell in cells if cell)
    text = " ".join(f"{_MARKS.sub('', piece.lead)} {_EMPHASIS.sub('', _MARKS.sub('', piece.raw))}".split())
    return text
