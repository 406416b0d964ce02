"""Splits passages into answer units: quotable pieces of text that can be read on their own.

A unit is a sentence, a table row with its column names, a list item with its introduction, a term with its definition,
or a command with the sentence that introduces it. A sentence that is unclear alone ("He declined.") is merged with its
neighbour. Headings, rules and page numbers are not units. Independent of the question and the index.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cache

from ragkit.answer.extractive.blocks import (
    IMAGE,
    LEAD_IN,
    LINK,
    MAX_HEADING_CHARS,
    MAX_TERM_CHARS,
    Block,
    BlockKind,
    parse_blocks,
)
from ragkit.answer.extractive.faq_labels import is_answered, is_asked, labelled_parts
from ragkit.records import TABLE_LEVEL, Chunk, Document, Heading, Hit, extend_heading_path, heading_texts
from ragkit.split.lines import TextLine, iter_lines
from ragkit.split.sentence_segmentation import sentence_spans, wrap_width

MIN_STANDALONE_CHARS = 40
"""A shorter sentence is merged with its neighbour and does not count as a sentence."""
MAX_PRONOUN_START_CHARS = 100
"""A shorter sentence that begins with "he", "it", "this" is merged with the previous one."""
MAX_CODE_LINES = 8
"""Lines of code in one unit."""
MAX_LIST_ITEMS = 24
MAX_LIST_WORDS = 150
"""A longer list is no unit."""
REGION_CHARS = 800
"""Characters that are read before and after a chunk, so that no sentence or list of it is cut."""
_WRAPPED_CHARS = 20_000
"""Characters at the beginning of a document that tell whether its lines are wrapped."""
_MAX_MERGED_CHARS = 400
_MAX_LEAD_CHARS = 260
_MAX_ITEM_CHARS = 420  # a longer item is divided into its sentences


class UnitKind(Enum):
    """What a unit is."""

    SENTENCE = "sentence"
    ITEM = "item"
    ROW = "row"
    ENTRY = "entry"
    """The beginning of a definition, with its term."""
    LIST = "list"
    """A list with its introduction, or the terms of neighbouring definitions with their first sentences."""
    CODE = "code"
    """A command or other code, with the sentence that introduces it."""


@dataclass(frozen=True)
class AnswerUnit:
    """A quotable piece of a passage. `start` and `end` are offsets into its document."""

    hit_index: int
    """Index of its hit, from 0."""
    source: str
    start: int
    end: int
    body: str
    """[start:end] without markup, with column names for a table row; one line for each item or line of code."""
    heading_context: str = ""
    """Title and headings of the passage, and the question above the unit in an FAQ."""
    sentence_count: int = 1
    """Number of sentences, at least 1; very short ones and questions do not count."""
    kind: UnitKind = UnitKind.SENTENCE
    group: int = 0
    """Offset of the paragraph, list, table or definition that the unit belongs to."""
    lead: str = ""
    """The sentence that introduces a list item or code, or the term of a definition."""
    is_first: bool = False
    """The first unit under a heading, a question or a term."""
    cells: tuple[tuple[str, str], ...] = ()
    """Column name and text of each cell of a table row with column names, without empty cells."""

    @property
    def text(self) -> str:
        """The unit with its introduction, on one line."""
        return " ".join(f"{self.lead} {self.body}".split())


Documents = Callable[[str], Document | None]
"""The document with an id, None if its text is not stored."""


def extract_answer_units(hits: Sequence[Hit], documents: Documents | None = None) -> list[AnswerUnit]:
    """The units of all passages, ordered by hit and offset; overlapping passages yield a unit once.

    With `documents`, a sentence, list or definition that the chunk cuts is read to its end.
    """
    units: dict[tuple[str, int, bool], AnswerUnit] = {}
    documents = cache(documents) if documents else None  # several passages may be of one document
    widths: dict[str, int] = {}
    for hit_index, hit in enumerate(hits):
        document = documents(hit.chunk.document_id) if documents else None
        # of the document: passages that overlap must be cut into the same sentences
        if document is not None and hit.chunk.document_id not in widths:
            beginning = document.text[:_WRAPPED_CHARS]
            widths[hit.chunk.document_id] = wrap_width(beginning, list(iter_lines(beginning)))
        region = _region(hit.chunk, document, widths.get(hit.chunk.document_id, 0))
        extracted = list(_extract_from_region(region, hit_index))
        for unit in [*extracted, *_lists(extracted)]:
            # keyed by the end: a chunk that begins inside a sentence or a row has only the rest of it
            key = (unit.source, unit.end, unit.kind is UnitKind.LIST)
            if key not in units or units[key].start > unit.start:
                units[key] = unit
    return sorted(units.values(), key=lambda unit: (unit.hit_index, unit.start))


_WORD = re.compile(r"[^\W_]")
_BLOCK_MARKS = re.compile(r"^[^\S\n]*+(?:(?:#{1,6}|>|[-*+:•▪◦‣○●■□])\s+)+", re.MULTILINE)
"""Of lines of Markdown; a colon begins a definition."""
_EMPHASIS = re.compile(r"\*{2,3}|(?<![\w*])\*(?=\w)|(?<=[\w.,:;!?)])\*(?![\w*])|\"{3}|`{3}\w*")
_UNDERLINED = re.compile(r"(?<![\w`])_(?=[^\W_])([^_`\n]{1,80})(?<=[\w.!?:])_(?![\w`])")
_ITEM_MARK = re.compile(r"(?:[-*+•▪◦‣–○●■□]|o(?=\s{2,}))\s+")
_HYPHENATION = re.compile(r"(?<=\w)‐\n\s*")  # man pages break words with U+2010
KEY_VALUE_LINE = re.compile(r"[\w.\[\] -]{1,60}[:=]\s")
"""The beginning of a line `name: value`."""
_RECORD_ENTRY = re.compile(r"(?<!\S)(\S{0,200}\[\d{1,9}\])\.(\S{1,200}): ")
_DOCSTRING = '"""'
_SENTENCE_ENDS = frozenset('.!?…:;"”)')
_STATEMENT_ENDS = _SENTENCE_ENDS - {":"}
_PRONOUN_START = re.compile(r"(?:he|she|it|they|this|these|those|that|his|her|their|its|such|both)\b", re.IGNORECASE)
_COMMENT = re.compile(r"^[ \t]*(?:#+|;;+|//)(?=\s)", re.MULTILINE)
_PROMPT = re.compile(r"(?:\$|%|>>>|C:\\[^>]{0,40}>|[\w.-]{1,30}@[\w.-]{1,30}[:~ ][^$#\n]{0,40}[$#]|#)\s*(?=\S)")


@dataclass(frozen=True)
class _Region:
    """A part of a document around a chunk."""

    chunk: Chunk
    text: str
    offset: int
    """Offset of the text in its document."""
    lines: Sequence[TextLine]
    """Of `text`."""
    headings: frozenset[int]
    """Offsets in `text` of lines that are headings."""
    fenced: bool = False
    document: Document | None = None
    width: int = 0
    """The width at which the lines of the document are wrapped; 0 if they are not, or it is not known."""

    @property
    def is_code(self) -> bool:
        """Whether the document is the text of a program, where a bar is an operator."""
        return self.chunk.metadata.get("format") == "code"

    @property
    def is_data(self) -> bool:
        """Whether the document is one of JSON: its records are `key: value` lines."""
        return self.chunk.metadata.get("format") in ("json", "jsonl")


def _region(chunk: Chunk, document: Document | None, width: int) -> _Region:
    names = frozenset(_normalize_heading(name) for name in (chunk.title, *chunk.heading)) - {""}
    is_markdown = chunk.metadata.get("format", "markdown") in ("markdown", "html")
    if document is None or document.text[chunk.start : chunk.end] != chunk.text:
        text = _read_comments(chunk.text, is_markdown)
        lines = list(iter_lines(text))
        return _Region(chunk, text, chunk.start, lines, _named_lines(text, lines, names))
    text = document.text
    start, end = _region_start(text, chunk.start), _region_end(text, chunk.end)
    # the offset of column names is that of the first row below them, which is no heading
    lines_above = (heading.start for heading in document.headings if heading.level != TABLE_LEVEL)
    headings = {offset - start for offset in lines_above if start <= offset < end}
    fenced = document.format == "markdown" and len(re.findall(r"^```", text[:start], re.MULTILINE)) % 2 == 1
    part = _read_comments(text[start:end], is_markdown)
    lines = list(iter_lines(part))
    return _Region(chunk, part, start, lines, _named_lines(part, lines, names) | headings, fenced, document, width)


def _named_lines(text: str, lines: Sequence[TextLine], names: Collection[str]) -> frozenset[int]:
    """The offsets of the lines that are one of the names."""
    short = (line for line in lines if line.end - line.text_start <= MAX_HEADING_CHARS)
    return frozenset(line.text_start for line in short if _normalize_heading(text[line.text_start : line.end]) in names)


def _read_comments(text: str, is_markdown: bool) -> str:
    """The text with a space in place of the number sign of a comment; in Markdown, it marks a heading."""
    return text if is_markdown else _COMMENT.sub(lambda match: " " * len(match[0]), text)


def _region_start(text: str, start: int) -> int:
    """The start of a paragraph at most REGION_CHARS before `start`, or of a line."""
    first = max(0, start - REGION_CHARS)
    blank = text.find("\n\n", first, start) if first else -2
    if blank != -1:
        return blank + 2
    line = text.find("\n", first, start)
    return line + 1 if line != -1 else start


def _region_end(text: str, end: int) -> int:
    last = min(len(text), end + REGION_CHARS)
    if last == len(text):
        return last
    blank = text.rfind("\n\n", end, last)
    if blank != -1:
        return blank
    line = text.rfind("\n", end, last)
    return line if line != -1 else end


@dataclass(frozen=True)
class _TextSpan:
    """A span of a region that becomes an answer unit."""

    start: int
    end: int
    raw: str
    kind: UnitKind
    group: int
    heading_context: str = ""
    lead: str = ""
    columns: tuple[str, ...] = ()
    sentence_count: int = 1
    is_first: bool = False
    code: str = ""


def _extract_from_region(region: _Region, hit_index: int) -> Iterator[AnswerUnit]:
    spans = _SpanReader(region).read()
    chunk = region.chunk
    inside = {
        span.group
        for span in spans
        if region.offset + span.start < chunk.end and region.offset + span.end > chunk.start
    }
    for span in spans:
        if span.group in inside and _WORD.search(body := _to_readable_text(span)):
            yield AnswerUnit(
                hit_index,
                chunk.source or chunk.document_id,
                region.offset + span.start,
                region.offset + span.end,
                body,
                span.heading_context,
                span.sentence_count,
                span.kind,
                region.offset + span.group,
                " ".join(strip_markup(span.lead).split()),
                span.is_first,
                _named_cells(span),
            )


def _lists(units: Sequence[AnswerUnit]) -> Iterator[AnswerUnit]:
    """The lists among the units of a region: items with one introduction, and definitions under one heading."""
    run: list[AnswerUnit] = []
    for unit in units:
        if unit.kind is UnitKind.SENTENCE and run and run[-1].kind is UnitKind.ENTRY:
            continue  # it continues the definition
        if run and not _is_same_list(run[-1], unit):
            yield from _list_of(run)
            run = []
        if unit.kind in (UnitKind.ITEM, UnitKind.ENTRY):
            run.append(unit)
    yield from _list_of(run)


def _is_same_list(before: AnswerUnit, unit: AnswerUnit) -> bool:
    if before.kind is not unit.kind:
        return False
    return before.group == unit.group if unit.kind is UnitKind.ITEM else before.heading_context == unit.heading_context


def _list_of(run: Sequence[AnswerUnit]) -> Iterator[AnswerUnit]:
    if not 2 <= len(run) <= MAX_LIST_ITEMS:
        return
    is_item = run[0].kind is UnitKind.ITEM
    lines = [unit.body if is_item else unit.text for unit in run]
    if sum(len(line.split()) for line in lines) > MAX_LIST_WORDS:
        lines = [line[:end] for line in lines for _, end in sentence_spans(line)[:1]]
    if sum(len(line.split()) for line in lines) <= MAX_LIST_WORDS:
        first = run[0]
        yield replace(
            first,
            end=run[-1].end,
            body="\n".join(lines),
            kind=UnitKind.LIST,
            lead=first.lead if is_item else "",
            sentence_count=1,
        )


@dataclass
class _SpanReader:
    """Reads the blocks of a region in order."""

    region: _Region
    group: int = 0
    spans: list[_TextSpan] = field(default_factory=list)
    heading: str = ""
    question: str = ""
    is_asked: bool = False
    """Whether the last question has a label, or is a heading."""
    is_first: bool = True
    previous: Block | None = None
    term: Block | None = None
    columns: tuple[str, ...] = ()
    list_lead: str = ""
    sections: list[Heading] = field(default_factory=list)
    """The open sections of the document at the last block."""
    headings_read: int = 0
    """Headings of the document before the last block."""

    def read(self) -> list[_TextSpan]:
        region = self.region
        blocks = parse_blocks(
            region.text,
            region.headings,
            is_code=region.is_code,
            is_data=region.is_data,
            fenced=region.fenced,
            lines=region.lines,
        )
        for i, block in enumerate(blocks):
            following = blocks[i + 1] if i + 1 < len(blocks) else None
            self._read_block(block, following)
            if block.kind is not BlockKind.NOISE:
                self.previous = block
        return self.spans

    def _read_block(self, block: Block, following: Block | None) -> None:
        raw = self._raw(block)
        if block.kind is BlockKind.NOISE:
            return
        if block.kind is BlockKind.HEADING:
            self.heading, self.question, self.is_first = _normalize_heading(raw), "", True
            self.is_asked = is_asked(raw.lstrip("# ")) or raw.rstrip("*_# ").endswith("?")
            return
        if not self._continues_group(block):
            self.group = block.start
        if block.kind is BlockKind.TERM or self._is_item_term(block, following) or self._is_lead_in(block, following):
            if following is None or following.kind in (BlockKind.HEADING, BlockKind.TERM, BlockKind.ROW):
                self._add_sentences(block)
            else:
                self.term, self.is_first = block, True
            return
        if block.kind is BlockKind.ROW:
            self._add_row(block, following)
        elif block.kind is BlockKind.CODE:
            self._add_code(block)
        elif block.kind is BlockKind.ITEM and not self._is_question(block, following):
            self._add_item(block)
        else:
            self._add_sentences(block)
        self.term = None

    def _is_item_term(self, block: Block, following: Block | None) -> bool:
        """Whether a list item only names what the deeper paragraph below it describes."""
        return (
            block.kind is BlockKind.ITEM
            and following is not None
            and following.kind is BlockKind.PARAGRAPH
            and following.indent > block.indent
            and block.end - block.start <= MAX_TERM_CHARS
            and self.region.text[block.end - 1] not in ".!?;,"
        )

    def _is_labelled(self, raw: str) -> bool:
        """Whether a text is a question, or the answer of the one before it, by its label."""
        return is_asked(raw) or (self.is_asked and is_answered(raw))

    def _is_question(self, block: Block, following: Block | None) -> bool:
        """Whether a numbered line asks what the paragraph below it answers."""
        if self._is_labelled(self._raw(block)):
            return True
        has_answer = following is not None and following.kind in (BlockKind.PARAGRAPH, BlockKind.CODE)
        return has_answer and self.region.text[block.end - 1] == "?"

    def _is_lead_in(self, block: Block, following: Block | None) -> bool:
        """Whether a line in bold introduces the paragraph below it."""
        is_before = following is not None and following.kind is BlockKind.PARAGRAPH
        return is_before and block.kind is BlockKind.PARAGRAPH and LEAD_IN.match(self._raw(block)) is not None

    def _raw(self, block: Block) -> str:
        return self.region.text[block.start : block.end]

    def _continues_group(self, block: Block) -> bool:
        """Whether a block belongs to the list, table or definition of the previous one."""
        before = self.previous
        if before is None:
            return False
        if before.kind is block.kind and block.kind in (BlockKind.ITEM, BlockKind.ROW):
            return True
        return before.kind is BlockKind.TERM and block.kind is BlockKind.PARAGRAPH

    def _context(self, block: Block) -> str:
        region, path = self.region, self._heading_path(self.region.offset + block.start)
        title = (
            region.chunk.header if not path else " > ".join(dict.fromkeys(filter(None, (region.chunk.title, *path))))
        )
        parts = (title, "" if path else self.heading, self.question)
        return " ".join(filter(None, parts))

    def _heading_path(self, offset: int) -> tuple[str, ...]:
        """`Document.heading_path_at` without column names, for offsets in ascending order: each is read once."""
        headings = self.region.document.headings if self.region.document is not None else ()
        while self.headings_read < len(headings) and headings[self.headings_read].start <= offset:
            extend_heading_path(self.sections, headings[self.headings_read])
            self.headings_read += 1
        return heading_texts([heading for heading in self.sections if heading.level != TABLE_LEVEL], offset)

    def _loaded_columns(self, offset: int) -> tuple[str, ...]:
        """The column names that the loader has found for the row at an offset of the document; empty if none."""
        self._heading_path(offset)
        names = self.sections[-1] if self.sections else None
        if names is None or names.level != TABLE_LEVEL or (names.end is not None and offset >= names.end):
            return ()
        return _split_cells(names.text)

    def _add(
        self, block: Block, start: int, end: int, kind: UnitKind, lead: str = "", columns: tuple[str, ...] = ()
    ) -> None:
        raw, context = self.region.text[start:end], self._context(block)
        span = _TextSpan(start, end, raw, kind, self.group, context, lead, columns, is_first=self.is_first)
        self.spans.append(span)
        self.is_first = False

    def _add_sentences(self, block: Block) -> None:
        raw = self._raw(block)
        first = len(self.spans)
        for low, high, asked in labelled_parts(raw) if self._is_labelled(raw) else ((0, len(raw), False),):
            if asked and high - low < _MAX_LEAD_CHARS:
                self.question, self.is_first, self.is_asked = raw[low:high].strip("*_"), True, True
                continue
            spans = sentence_spans(raw[low:high], self.region.width)
            for start, end in ((low + a, low + b) for a, b in spans):
                if raw[end - 1] == "?" and end - start < _MAX_LEAD_CHARS:  # a question is no answer
                    self.question, self.is_first = raw[start:end], True
                    continue
                self._add(block, block.start + start, block.start + end, UnitKind.SENTENCE)
        merged = _merge_fragments(self.spans[first:], self.region)
        if self.term is not None and merged:
            term = _ITEM_MARK.sub("", self._raw(self.term), count=1)
            lead = strip_markup(", ".join(part.strip() for part in term.splitlines())).rstrip(":.") + ":"
            merged[0] = replace(merged[0], kind=UnitKind.ENTRY, lead=lead, start=self.term.start)
            context = f"{merged[0].heading_context} {term}"
            merged[1:] = [replace(span, heading_context=context) for span in merged[1:]]
        self.spans[first:] = merged

    def _add_item(self, block: Block) -> None:
        raw = self._raw(block)
        lead = self._list_lead()
        if len(raw) <= _MAX_ITEM_CHARS:
            self._add(block, block.start, block.end, UnitKind.ITEM, lead=lead)
            return
        for start, end in sentence_spans(raw, self.region.width):
            self._add(block, block.start + start, block.start + end, UnitKind.ITEM, lead=lead)
            lead = ""

    def _list_lead(self) -> str:
        """The introduction of the current list: the sentence before its first item."""
        before = self.spans[-1] if self.spans else None
        if before is None or before.group != self.group:
            raw = before.raw.rstrip("*_ ") if before is not None else ""
            is_adjacent = before is not None and self.previous is not None and before.end == self.previous.end
            self.list_lead = raw if raw.endswith(":") and len(raw) <= _MAX_LEAD_CHARS and is_adjacent else ""
        return self.list_lead

    def _add_code(self, block: Block) -> None:
        code = _readable_code(self._raw(block))
        before = self.spans[-1] if self.spans else None
        adjacent = before is not None and self.previous is not None and before.end == self.previous.end
        if before is None or not adjacent or before.kind is UnitKind.ROW or len(before.raw) > _MAX_LEAD_CHARS:
            self._add(block, block.start, block.end, UnitKind.CODE)
            self.spans[-1] = replace(self.spans[-1], code=code)
            return
        lead = " ".join(f"{before.lead} {before.raw}".split())
        span = replace(before, end=block.end, raw="", kind=UnitKind.CODE, lead=lead, code=code)
        # "Type", "run:", without their code they say nothing
        if before.raw.rstrip("*_ ")[-1:] not in _STATEMENT_ENDS and before.kind is not UnitKind.CODE:
            self.spans.pop()
        elif before.kind is UnitKind.CODE:
            span = replace(before, start=block.start, end=block.end, lead="", code=code)
        self.spans.append(replace(span, group=before.group))

    def _add_row(self, block: Block, following: Block | None) -> None:
        raw = self._raw(block)
        if "\n" in raw or _RECORD_ENTRY.match(raw):
            self._add(block, block.start, block.end, UnitKind.ROW)
            return
        is_first_row = self.previous is None or self.previous.kind is not BlockKind.ROW
        if is_first_row:
            self.columns = ()
        if _is_table_rule(raw):
            return
        if columns := self._loaded_columns(self.region.offset + block.start):
            self._add(block, block.start, block.end, UnitKind.ROW, columns=columns)
            return
        after = self._raw(following) if following is not None and following.kind is BlockKind.ROW else ""
        if is_first_row and _is_table_header(raw, after):
            self.columns = _split_cells(raw)
            return
        self._add(block, block.start, block.end, UnitKind.ROW, columns=self.columns)


def _normalize_heading(text: str) -> str:
    """A heading without markup, in lower case."""
    return " ".join(re.sub(r"[#*_`>|]+", " ", text).lower().split()).rstrip(".:")


def _is_table_rule(raw: str) -> bool:
    """Whether this is the line between header and body of a Markdown table."""
    return "|" in raw and "--" in raw and not _WORD.search(raw)


def _split_cells(raw: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in raw.strip().strip("|").split("|"))


def _is_table_row(raw: str) -> bool:
    return "\n" not in raw and (raw.startswith("|") or " | " in raw)


def _is_table_header(row: str, following: str) -> bool:
    """Whether a first row is a header: a rule follows, or a row of the same size and the first row has no digits."""
    if not _is_table_row(row):
        return False
    if _is_table_rule(following):
        return True
    return (
        _is_table_row(following)
        and len(_split_cells(following)) == len(_split_cells(row))
        and not re.search(r"\d", row)
    )


def _merge_fragments(spans: Sequence[_TextSpan], region: _Region) -> list[_TextSpan]:
    """Merge the sentences of a paragraph that cannot be read alone with a neighbour."""
    merged: list[_TextSpan] = []
    for span in spans:
        if merged and _should_merge(merged[-1], span, region):
            merged[-1] = _merge(merged[-1], span, region.text)
        else:
            merged.append(span)
    return merged


def _merge(first: _TextSpan, second: _TextSpan, text: str) -> _TextSpan:
    gap = text[first.end : second.start]
    if "\n" in gap and not _ends_sentence(first.raw):  # a title, or a term and its definition
        gap = ": "
    both_count = (
        len(first.raw) >= MIN_STANDALONE_CHARS
        and len(second.raw) >= MIN_STANDALONE_CHARS
        and not first.raw.endswith("?")
    )
    count = first.sentence_count + (second.sentence_count if both_count else 0)
    return replace(first, end=second.end, raw=f"{first.raw}{gap}{second.raw}", sentence_count=count)


def _should_merge(first: _TextSpan, second: _TextSpan, region: _Region) -> bool:
    if second.end - first.start > _MAX_MERGED_CHARS:
        return False
    gap = region.text[first.end : second.start]
    if gap.strip():  # a question between them
        return False
    if second.raw.startswith(_DOCSTRING):
        return True
    if "\n" not in gap or (_ends_sentence(first.raw) and not region.is_code):
        refers_back = len(second.raw) < MAX_PRONOUN_START_CHARS and _PRONOUN_START.match(second.raw) is not None
        return len(first.raw) < MIN_STANDALONE_CHARS or len(second.raw) < MIN_STANDALONE_CHARS or refers_back
    is_title = len(first.raw) < MIN_STANDALONE_CHARS
    return is_title and _ends_sentence(second.raw) and not KEY_VALUE_LINE.match(second.raw)


def _ends_sentence(raw: str) -> bool:
    """Whether a piece ends with a full stop, a colon or a quotation mark."""
    return raw.rstrip("*_`")[-1:] in _SENTENCE_ENDS


def _readable_code(raw: str) -> str:
    """The commands of a code block without prompts and output; or the code itself, at most MAX_CODE_LINES lines."""
    lines = [line.rstrip() for line in raw.splitlines() if line.strip()] or [""]
    indent = min(len(line) - len(line.lstrip()) for line in lines)
    lines = [lines[0].strip(), *(line[indent:] for line in lines[1:])]
    commands = [_PROMPT.sub("", line.strip(), count=1) for line in lines if _is_command(line.strip())]
    return "\n".join((commands or lines)[:MAX_CODE_LINES])


def _is_command(line: str) -> bool:
    match = _PROMPT.match(line)
    return match is not None and not line.startswith("# ")


def _to_readable_text(span: _TextSpan) -> str:
    if span.kind is UnitKind.CODE:
        return span.code
    raw = _HYPHENATION.sub("", span.raw)
    if span.kind is UnitKind.ITEM:
        raw = _ITEM_MARK.sub("", raw, count=1) if _ITEM_MARK.match(raw) else raw
    if span.kind is UnitKind.ROW and _RECORD_ENTRY.match(raw):
        return "; ".join(_RECORD_ENTRY.sub(r"\2: ", line.strip(), count=1) for line in raw.splitlines())
    if not (span.kind is UnitKind.ROW and (_is_table_row(raw) or "\n" in raw)):
        return " ".join(strip_markup(raw).split())
    if cells := _named_cells(span):
        return "; ".join(f"{name}: {cell}" if name else cell for name, cell in cells)
    return " | ".join(cell for cell in _split_cells(strip_markup(raw)) if cell)


def _named_cells(span: _TextSpan) -> tuple[tuple[str, str], ...]:
    """The cells of a table row or record with their names; empty without names, or with another number of them."""
    if span.kind is not UnitKind.ROW or _RECORD_ENTRY.match(span.raw):
        return ()
    if not _is_table_row(span.raw):
        parts = span.raw.splitlines() if "\n" in span.raw else span.raw.split("; ")
        pairs = [part.strip().partition(": ") for part in parts]
        return tuple((name, cell) for name, _, cell in pairs) if all(separator for _, separator, _ in pairs) else ()
    cells = _split_cells(strip_markup(_HYPHENATION.sub("", span.raw)))
    if len(cells) != len(span.columns):
        return ()
    return tuple((name, cell) for name, cell in zip(span.columns, cells, strict=True) if cell)


def strip_markup(text: str) -> str:
    """Remove the markup of lists, quotations, emphasis and links, and images."""
    text = LINK.sub(r"\1", IMAGE.sub("", text)) if "](" in text else text
    return _UNDERLINED.sub(r"\1", _EMPHASIS.sub("", _BLOCK_MARKS.sub("", text)))
