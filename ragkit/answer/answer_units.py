"""Splits passages into answer units: quotable pieces of text that can be read on their own.

A unit is a sentence, a table row with its column names, or a list item with its introduction. A sentence that is
unclear alone ("He declined.") is merged with its neighbour. Headings, rules and code fences are not units.
Independent of the question and the index.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ragkit.records import Chunk, Hit
from ragkit.split.sentence_segmentation import sentence_spans

MIN_STANDALONE_CHARS = 40
"""A shorter sentence is merged with its neighbour and does not count as a sentence."""
MAX_PRONOUN_START_CHARS = 100
"""A shorter sentence that begins with "he", "it", "this" is merged with the previous one."""
_MAX_MERGED_CHARS = 400
_MAX_LEAD_CHARS = 160
_MIN_WRAPPED_CHARS = 40  # a shorter line was broken on purpose


@dataclass(frozen=True)
class AnswerUnit:
    """A quotable piece of a passage. `start` and `end` are offsets into its document."""

    hit_index: int
    """Index of its hit, from 0."""
    source: str
    start: int
    end: int
    text: str
    """[start:end] on one line without markup, with column names for a table row and the introduction of a list item."""
    heading_context: str = ""
    """Title and headings of the passage, and the question above the unit in an FAQ."""
    sentence_count: int = 1
    """Number of sentences, at least 1; very short ones and questions do not count."""


def extract_answer_units(hits: Sequence[Hit]) -> list[AnswerUnit]:
    """The units of all passages, ordered by hit and offset; overlapping passages yield a unit once."""
    units: dict[tuple[str, int], AnswerUnit] = {}
    for hit_index, hit in enumerate(hits):
        for unit in _extract_from_chunk(hit.chunk, hit_index):
            # keyed by the end: a chunk that begins inside a sentence or a row has only the rest of it
            key = (unit.source, unit.end)
            if key not in units or units[key].start > unit.start:
                units[key] = unit
    return sorted(units.values(), key=lambda unit: (unit.hit_index, unit.start))


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
    """A span of a chunk that becomes an answer unit."""

    start: int
    end: int
    raw: str
    heading_context: str
    lead: str = ""
    """Text to prepend."""
    columns: tuple[str, ...] = ()
    sentence_count: int = 1


def _extract_from_chunk(chunk: Chunk, hit_index: int) -> Iterator[AnswerUnit]:
    pieces = _split_chunk(chunk)
    if chunk.metadata.get("format") != "code":  # in code, a bar is an operator
        pieces = _attach_columns(pieces)
    for piece in _merge_fragments(_attach_leads(pieces, chunk.text), chunk.text):
        text = _to_readable_text(piece)
        if _WORD.search(text):
            start, end = chunk.start + piece.start, chunk.start + piece.end
            source = chunk.source or chunk.document_id
            yield AnswerUnit(hit_index, source, start, end, text, piece.heading_context, piece.sentence_count)


def _split_chunk(chunk: Chunk) -> list[_TextSpan]:
    """The sentences of a chunk, without headings, rules and code fences."""
    names = {_normalize_heading(name) for name in (chunk.title, *chunk.heading)}
    hash_is_heading = chunk.metadata.get("format", "markdown") == "markdown"
    pieces: list[_TextSpan] = []
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
        pieces.append(_TextSpan(start, end, raw, " ".join(filter(None, (chunk.header, heading, question)))))
    return pieces


def _with_next_text(pieces: Sequence[_TextSpan]) -> Iterator[tuple[_TextSpan, str]]:
    """Each piece with the text of the next one; '' for the last."""
    for i, piece in enumerate(pieces, start=1):
        yield piece, pieces[i].raw if i < len(pieces) else ""


def _normalize_heading(text: str) -> str:
    """A heading without markup, in lower case."""
    return " ".join(re.sub(r"[#*_`>|]+", " ", text).lower().split()).rstrip(".:")


def _is_on_own_line(text: str, start: int, end: int) -> bool:
    """Whether no other text shares the lines of [start:end]."""
    line = text.rfind("\n", 0, start) + 1
    return not text[line:start].strip() and text[end : end + 1] in ("", "\n", "\r")


def _is_table_rule(raw: str) -> bool:
    """Whether this is the line between header and body of a Markdown table."""
    return "|" in raw and "--" in raw and not _WORD.search(raw)


def _split_cells(raw: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in raw.strip().strip("|").split("|"))


def _is_table_row(raw: str) -> bool:
    return "\n" not in raw and (raw.startswith("|") or " | " in raw)


def _attach_columns(pieces: Sequence[_TextSpan]) -> list[_TextSpan]:
    """Attach column names to table rows, and drop table headers and rules."""
    attached: list[_TextSpan] = []
    columns: tuple[str, ...] = ()
    previous = ""
    for piece, following in _with_next_text(pieces):
        first = _is_table_row(piece.raw) and not _is_table_row(previous)
        previous = piece.raw
        if not _is_table_row(piece.raw):
            columns = ()
        elif first and _is_table_header(piece.raw, following):
            columns = _split_cells(piece.raw)
            continue
        elif _is_table_rule(piece.raw):
            continue
        attached.append(replace(piece, columns=columns))
    return attached


def _is_table_header(row: str, following: str) -> bool:
    """Whether a first row is a header: a rule follows, or a row of the same size and the first row has no digits."""
    if _is_table_rule(following):
        return True
    return (
        _is_table_row(following)
        and len(_split_cells(following)) == len(_split_cells(row))
        and not re.search(r"\d", row)
    )


def _attach_leads(pieces: Sequence[_TextSpan], text: str) -> list[_TextSpan]:
    """Attach the introduction to list items, and the naming line to entries of a record."""
    attached: list[_TextSpan] = []
    lead = ""
    names: dict[str, str] = {}
    for piece, following in _with_next_text(pieces):
        entry = _RECORD_ENTRY.match(piece.raw)
        if entry is not None:
            attached.append(_attach_record_name(piece, entry, names))
        elif _LIST_ITEM.match(piece.raw) is not None:
            attached.append(replace(piece, lead=lead))
        elif piece.raw.endswith(":") and len(piece.raw) <= _MAX_LEAD_CHARS:
            lead = piece.raw
            if not _LIST_ITEM.match(following):
                attached.append(piece)
        else:
            if attached and "\n" in text[attached[-1].end : piece.start]:  # else it continues an item
                lead = ""
            attached.append(piece)
    return attached


def _attach_record_name(piece: _TextSpan, entry: re.Match[str], names: dict[str, str]) -> _TextSpan:
    """Attach the line that names telescopes[1] to an entry such as `telescopes[1].lens.diameter: 23`."""
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
    """Merge pieces that cannot be read alone with a neighbour."""
    merged: list[_TextSpan] = []
    for piece in pieces:
        if merged and _should_merge(merged[-1], piece, text):
            merged[-1] = _merge(merged[-1], piece, text)
        else:
            merged.append(piece)
    return merged


def _merge(first: _TextSpan, second: _TextSpan, text: str) -> _TextSpan:
    gap = text[first.end : second.start]
    wrapped = _is_wrapped_line(first, second, text)
    if "\n" in gap and not wrapped and not _ends_sentence(first.raw):  # a title, or a term and its definition
        gap = ": "
    both_count = (
        len(first.raw) >= MIN_STANDALONE_CHARS
        and len(second.raw) >= MIN_STANDALONE_CHARS
        and not wrapped
        and not first.raw.endswith("?")
    )
    count = first.sentence_count + (second.sentence_count if both_count else 0)
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
        refers_back = len(second.raw) < MAX_PRONOUN_START_CHARS and _PRONOUN_START.match(second.raw) is not None
        return len(first.raw) < MIN_STANDALONE_CHARS or len(second.raw) < MIN_STANDALONE_CHARS or refers_back
    if second.raw.startswith(_DOCSTRING) or _is_wrapped_line(first, second, text):
        return True
    is_title = len(first.raw) < MIN_STANDALONE_CHARS and not _BULLET.match(first.raw)
    is_question = first.raw.endswith("?") and second.heading_context.endswith(first.raw)
    return (
        (is_title or is_question)
        and _ends_sentence(second.raw)
        and not _LIST_ITEM.match(second.raw)
        and not _KEY_VALUE_LINE.match(second.raw)
    )


def _is_wrapped_line(first: _TextSpan, second: _TextSpan, text: str) -> bool:
    """Whether a line break is inside a sentence: no full stop before it, a lower-case letter after it."""
    if text.count("\n", first.end, second.start) != 1 or len(first.raw) < _MIN_WRAPPED_CHARS:
        return False
    if _ends_sentence(first.raw) or _KEY_VALUE_LINE.match(second.raw):
        return False
    return second.raw.lstrip("> ")[:1].islower()


def _ends_sentence(raw: str) -> bool:
    """Whether a piece ends with a full stop, a colon or a quotation mark."""
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
    """Remove the markup of lists, quotations and emphasis."""
    return _EMPHASIS.sub("", _BLOCK_MARKS.sub("", text))
