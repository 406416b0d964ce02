"""Cuts passages into statements: the pieces of text that an answer can quote, each readable on its own.

A statement is a sentence, a row of a table with the names of its columns, or an item of a list with the line that
introduces it. A sentence that says nothing alone ("He declined.") goes together with its neighbour. Headings, rules
and code fences are no statements. Knows no question and no index.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ragkit.records import Chunk, Hit
from ragkit.split.sentence_segmentation import sentence_spans

MIN_STANDALONE_CHARS = 40
"""Characters: a sentence below this goes together with its neighbour, and is not counted as one."""
MAX_PRONOUN_START_CHARS = 100
"""Characters: below this, a sentence that begins with "he", "it", "this" goes together with the one before."""
_MAX_MERGED_CHARS = 400
_MAX_LEAD_CHARS = 160
_MIN_WRAPPED_CHARS = 40  # a shorter line ends where its author wanted it to


@dataclass(frozen=True)
class AnswerUnit:
    """A piece of a passage. `start` and `end` are offsets into its document."""

    hit_index: int
    """Place of its hit in the list that was searched, from 0."""
    source: str
    """Where its passage comes from."""
    start: int
    end: int
    text: str
    """As it reads in an answer: the words of [start:end] on one line, with the context that a row or an item needs."""
    heading_context: str = ""
    """What it stands below: title and headings of its passage, the question that it is part of the answer to."""
    sentence_count: int = 1
    """How many sentences it is made of, very short ones and questions left out; 1 at least."""


def extract_answer_units(hits: Sequence[Hit]) -> list[AnswerUnit]:
    """The statements of all passages, by hit and by place; what overlapping passages share comes once."""
    found: dict[tuple[str, int], AnswerUnit] = {}
    for number, hit in enumerate(hits):
        for statement in _extract_from_chunk(hit.chunk, number):
            # by their ends: a chunk that begins within a sentence or a row holds only the rest of it
            place = (statement.source, statement.end)
            if place not in found or found[place].start > statement.start:
                found[place] = statement
    return sorted(found.values(), key=lambda statement: (statement.hit_index, statement.start))


_WORD = re.compile(r"[^\W_]")
_CODE_FENCE = re.compile(r"(?:`{3}|~{3})\w*$")
_BLOCK_MARKS = re.compile(r"^[^\S\n]*+(?:(?:#{1,6}|>|[-*+•▪◦‣])\s+)+", re.MULTILINE)
_EMPHASIS = re.compile(r"\*{2,3}|(?<![\w*])\*(?=\w)|(?<=[\w.,:;!?)])\*(?![\w*])|\"{3}|`{3}\w*")
_LIST_ITEM = re.compile(r"(?:[-*+•▪◦‣]|\d{1,3}[.)]|[A-Za-z][.)])\s")
_BULLET = re.compile(r"[-*+•▪◦‣]\s")
_KEY_VALUE_LINE = re.compile(r"[\w.\[\] -]{1,60}[:=]\s")
_RECORD_ENTRY = re.compile(r"(\S{0,400}\[\d{1,9}\])\.(\S{1,400}): ")
_NAMING_KEYS = frozenset({"name", "title", "key", "id"})
_SENTENCE_ENDS = frozenset('.!?…:;"”)')
_DOCSTRING = '"""'
_PRONOUN_START = re.compile(r"(?:he|she|it|they|this|these|those|that|his|her|their|its|such|both)\b", re.IGNORECASE)


@dataclass(frozen=True)
class _TextSpan:
    """A span of a chunk on the way to becoming a statement."""

    start: int
    end: int
    raw: str
    heading_context: str
    lead: str = ""
    """What has to be read before it."""
    columns: tuple[str, ...] = ()
    sentence_count: int = 1


def _extract_from_chunk(chunk: Chunk, number: int) -> Iterator[AnswerUnit]:
    pieces = _split_chunk(chunk)
    if chunk.metadata.get("format") != "code":  # there a bar means "or"
        pieces = _attach_columns(pieces)
    for piece in _merge_fragments(_attach_leads(pieces, chunk.text), chunk.text):
        text = _to_readable_text(piece)
        if _WORD.search(text):
            start, end = chunk.start + piece.start, chunk.start + piece.end
            source = chunk.source or chunk.document_id
            yield AnswerUnit(number, source, start, end, text, piece.heading_context, piece.sentence_count)


def _split_chunk(chunk: Chunk) -> list[_TextSpan]:
    """The sentences of a chunk, without those that only mark or name a part of it."""
    names = {_normalize_heading(name) for name in (chunk.title, *chunk.heading)}
    hash_is_heading = chunk.metadata.get("format", "markdown") == "markdown"
    found: list[_TextSpan] = []
    heading = question = ""
    for start, end in sentence_spans(chunk.text):
        raw = chunk.text[start:end]
        if _CODE_FENCE.match(raw) or not (_WORD.search(raw) or _is_table_rule(raw)):
            continue
        if (hash_is_heading and raw.startswith("#") and "\n" not in raw) or _normalize_heading(raw) in names:
            heading, question = _normalize_heading(raw), ""
            continue
        if _is_on_own_line(chunk.text, start, end) and raw.endswith("?"):
            question = raw
        found.append(_TextSpan(start, end, raw, " ".join(filter(None, (chunk.header, heading, question)))))
    return found


def _with_next_text(pieces: Sequence[_TextSpan]) -> Iterator[tuple[_TextSpan, str]]:
    """Each piece with the text of the next one; '' behind the last."""
    for at, piece in enumerate(pieces, start=1):
        yield piece, pieces[at].raw if at < len(pieces) else ""


def _normalize_heading(text: str) -> str:
    """A heading without its marks, in small letters."""
    return " ".join(re.sub(r"[#*_`>|]+", " ", text).lower().split()).rstrip(".:")


def _is_on_own_line(text: str, start: int, end: int) -> bool:
    """Whether [start:end] has lines of its own."""
    line = text.rfind("\n", 0, start) + 1
    return not text[line:start].strip() and text[end : end + 1] in ("", "\n", "\r")


def _is_table_rule(raw: str) -> bool:
    """The line between the head and the body of a Markdown table."""
    return "|" in raw and "--" in raw and not _WORD.search(raw)


def _split_cells(raw: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in raw.strip().strip("|").split("|"))


def _is_table_row(raw: str) -> bool:
    return "\n" not in raw and (raw.startswith("|") or " | " in raw)


def _attach_columns(pieces: Sequence[_TextSpan]) -> list[_TextSpan]:
    """Rows of tables with the names of their columns. The row of names is no statement, nor is the rule under it."""
    found: list[_TextSpan] = []
    columns: tuple[str, ...] = ()
    before = ""
    for piece, following in _with_next_text(pieces):
        first = _is_table_row(piece.raw) and not _is_table_row(before)
        before = piece.raw
        if not _is_table_row(piece.raw):
            columns = ()
        elif first and _is_table_header(piece.raw, following):
            columns = _split_cells(piece.raw)
            continue
        elif _is_table_rule(piece.raw):
            continue
        found.append(replace(piece, columns=columns))
    return found


def _is_table_header(row: str, following: str) -> bool:
    """A first row is the names of the columns when a rule follows, or another row and no cell of it is a number."""
    if _is_table_rule(following):
        return True
    return (
        _is_table_row(following)
        and len(_split_cells(following)) == len(_split_cells(row))
        and not re.search(r"\d", row)
    )


def _attach_leads(pieces: Sequence[_TextSpan], text: str) -> list[_TextSpan]:
    """Items of a list with the line that introduces them, entries of a record with the one that names it."""
    found: list[_TextSpan] = []
    lead = ""
    names: dict[str, str] = {}
    for piece, following in _with_next_text(pieces):
        entry = _RECORD_ENTRY.match(piece.raw)
        if entry is not None:
            found.append(_attach_record_name(piece, entry, names))
        elif _LIST_ITEM.match(piece.raw) is not None:
            found.append(replace(piece, lead=lead))
        elif piece.raw.endswith(":") and len(piece.raw) <= _MAX_LEAD_CHARS:
            lead = piece.raw
            if not _LIST_ITEM.match(following):
                found.append(piece)
        else:
            if found and "\n" in text[found[-1].end : piece.start]:  # else it is the rest of an item
                lead = ""
            found.append(piece)
    return found


def _attach_record_name(piece: _TextSpan, entry: re.Match[str], names: dict[str, str]) -> _TextSpan:
    """An entry such as `telescopes[1].lens.diameter: 23` with the line that names telescopes[1]."""
    record, key = entry.groups()
    if key in _NAMING_KEYS:
        if record not in names or key != "id":
            names[record] = piece.raw
        return piece
    outer = " ".join(name for path, name in names.items() if record.startswith(path))
    return replace(
        piece,
        lead=f"{names[record]};" if record in names else "",
        heading_context=f"{piece.heading_context} {outer}".strip(),
    )


def _merge_fragments(pieces: Sequence[_TextSpan], text: str) -> list[_TextSpan]:
    """Pieces that cannot be read alone, put together with a neighbour."""
    found: list[_TextSpan] = []
    for piece in pieces:
        if found and _should_merge(found[-1], piece, text):
            found[-1] = _merge(found[-1], piece, text)
        else:
            found.append(piece)
    return found


def _merge(first: _TextSpan, second: _TextSpan, text: str) -> _TextSpan:
    gap = text[first.end : second.start]
    cut = _is_wrapped_line(first, second, text)
    if "\n" in gap and not cut and not _ends_sentence(first.raw):  # a title, or a term and its meaning
        gap = ": "
    whole = (
        len(first.raw) >= MIN_STANDALONE_CHARS
        and len(second.raw) >= MIN_STANDALONE_CHARS
        and not cut
        and not first.raw.endswith("?")
    )
    count = first.sentence_count + (second.sentence_count if whole else 0)
    return replace(
        first,
        end=second.end,
        raw=f"{first.raw}{gap}{second.raw}",
        heading_context=second.heading_context,
        sentence_count=count,
    )


def _should_merge(first: _TextSpan, second: _TextSpan, text: str) -> bool:
    if _is_table_row(first.raw) or _is_table_row(second.raw) or second.end - first.start > _MAX_MERGED_CHARS:
        return False
    gap = text[first.end : second.start]
    if gap.strip():
        return False
    if "\n" not in gap:
        leans = len(second.raw) < MAX_PRONOUN_START_CHARS and _PRONOUN_START.match(second.raw) is not None
        return len(first.raw) < MIN_STANDALONE_CHARS or len(second.raw) < MIN_STANDALONE_CHARS or leans
    if second.raw.startswith(_DOCSTRING) or _is_wrapped_line(first, second, text):
        return True
    title = len(first.raw) < MIN_STANDALONE_CHARS and not _BULLET.match(first.raw)
    asks = first.raw.endswith("?") and second.heading_context.endswith(first.raw)
    return (
        (title or asks)
        and _ends_sentence(second.raw)
        and not _LIST_ITEM.match(second.raw)
        and not _KEY_VALUE_LINE.match(second.raw)
    )


def _is_wrapped_line(first: _TextSpan, second: _TextSpan, text: str) -> bool:
    """A line that was wrapped in a text where most were not: no stop at its end, a small letter behind the break."""
    if text.count("\n", first.end, second.start) != 1 or len(first.raw) < _MIN_WRAPPED_CHARS:
        return False
    if _ends_sentence(first.raw) or _KEY_VALUE_LINE.match(second.raw):
        return False
    return second.raw.lstrip("> ")[:1].islower()


def _ends_sentence(raw: str) -> bool:
    """Whether a piece ends with a stop, a colon or a quotation."""
    return raw.rstrip("*_`")[-1:] in _SENTENCE_ENDS


def _to_readable_text(piece: _TextSpan) -> str:
    if not _is_table_row(piece.raw):
        return " ".join(f"{_strip_markup(piece.lead)} {_strip_markup(piece.raw)}".split())
    cells = _split_cells(_strip_markup(piece.raw))
    if len(cells) != len(piece.columns):
        return " | ".join(cell for cell in cells if cell)
    named = (f"{name}: {cell}" if name else cell for name, cell in zip(piece.columns, cells, strict=True) if cell)
    return "; ".join(named)


def _strip_markup(text: str) -> str:
    """Without the marks of lists, quotations and emphasis."""
    return _EMPHASIS.sub("", _BLOCK_MARKS.sub("", text))
