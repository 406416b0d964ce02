"""Segments of text with headings, fenced code and tables: Markdown, and any document with headings.

Running text between the blocks is split by `prose`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ragkit.records import Document, Heading
from ragkit.split.lines import TextLine, iter_lines
from ragkit.split.prose import boundary_cost, prose_segments, trim_span
from ragkit.split.segments import LAST_RESORT_COST, Segment, SegmentArray
from ragkit.split.token_index import TokenIndex

HEADING_COSTS = (-450, -350, -250, -200)
"""Cost of a boundary before a heading, by depth below the top sections; the last applies to all deeper ones."""
BLOCK_LINE_COST = 400
"""Cost of a boundary between two lines of a block that does not fit into a chunk."""
BLOCK_PARAGRAPH_COST = 200
"""The same, at a blank line."""

_MAX_HEADING_CHARS = 400  # a longer heading is treated as running text
_MAX_HEADING_MARKUP_CHARS = 10  # before the text of a heading: "  ###### "
_FENCE = re.compile(r"`{3,}|~{3,}")
_ATX_HEADING = re.compile(r"(#{1,6})[ \t]+(?=\S)")
_SETEXT_UNDERLINE = re.compile(r"[ \t]*\r?\n[ \t]{0,3}(?:=+|-+)[ \t]*(?=[\r\n]|\Z)")
_TABLE_RULE = re.compile(r"\|?[ \t]*+:?-++:?[ \t]*+(?:\|[ \t]*+:?-++:?[ \t]*+)++\|?")
_LINE_BREAK = re.compile(r"[\n\r\v\f\x85\u2028\u2029]")
_CODE_DIRECTIVE = re.compile(r"\.\. (?:code|code-block|sourcecode|parsed-literal|math|prompt|doctest)::")
_LITERAL_LEAD = re.compile(r"::$")
_ENVIRONMENT = re.compile(
    r"(?P<begin>\\begin\{)|\\end\{\w{1,40}\*?\}|(?P<formula>\$\$[^$]{1,600}\$\$|\\\[[^$]{1,600}?\\\])"
)


class BlockSpan(NamedTuple):
    """A heading, or a block of code, an environment or table rows, which should not be split."""

    start: int
    end: int
    level: int = 0
    """Of a heading, from 1 (highest); else 0."""
    is_whole: bool = False
    """No overlap begins inside: code and environments, whose lines mean little without those above."""


def markdown_blocks(document: Document) -> list[BlockSpan]:
    """Fenced blocks, tables and headings, in order; ATX headings are detected if the document has no headings."""
    text = document.text
    blocks, headings = _scan_markdown(text)
    if document.headings:
        headings = _locate_headings(text, document.headings, setext=True)
    return _merge_blocks(blocks, headings)


def heading_blocks(document: Document, row: re.Pattern[str] | None = None, max_chars: int = 0) -> list[BlockSpan]:
    """The headings of the document, its table rows, the lines in which `row` is found, and in reStructuredText and
    LaTeX its literal blocks, and environments of at most `max_chars` characters; in order."""
    headings = _locate_headings(document.text, document.headings, setext=False)
    text, taken = document.text, {heading.start for heading in headings}
    blocks = list(_BLOCK_FINDERS[document.format](text, max_chars)) if document.format in _BLOCK_FINDERS else []
    if row is not None:
        lines = (line for line in iter_lines(text) if line.text_start not in taken)
        blocks += [BlockSpan(line.text_start, line.end) for line in lines if row.search(text, line.start, line.end)]
    return _merge_blocks(blocks, headings) if blocks else headings


def _literal_blocks(text: str, _: int) -> Iterator[BlockSpan]:
    """The indented lines below a line that ends with `::`, or below a directive of code."""
    opened, lines = -1, list[TextLine]()
    for line in [*iter_lines(text), TextLine(len(text), len(text), len(text), after_blank=True)]:
        if opened >= 0 and line.text_start - line.start > opened:
            lines.append(line)
            continue
        if lines:
            yield BlockSpan(lines[0].start, lines[-1].end, is_whole=True)
        lines = []
        ends = _LITERAL_LEAD.search(text, line.start, line.end) and not text.startswith(".. ", line.text_start)
        is_lead = bool(ends) or _CODE_DIRECTIVE.match(text, line.text_start) is not None
        opened = line.text_start - line.start if is_lead else -1


def _environments(text: str, max_chars: int) -> Iterator[BlockSpan]:
    """The environments and displayed formulas of LaTeX of at most `max_chars` characters."""
    opened: list[int] = []
    for mark in _ENVIRONMENT.finditer(text):
        if mark["begin"]:
            opened.append(mark.start())
        elif mark["formula"]:
            yield BlockSpan(*mark.span(), is_whole=True)
        elif opened and mark.end() - (start := opened.pop()) <= max_chars:
            yield BlockSpan(start, mark.end(), is_whole=True)


_BLOCK_FINDERS = {"latex": _environments, "rst": _literal_blocks}


def section_level(levels: Sequence[int]) -> int:
    """The level of the top sections: the highest level with more than one heading at or above it."""
    ordered = sorted(levels)
    return ordered[1] if len(ordered) > 1 else 1


def structured_segments(token_index: TokenIndex, blocks: Sequence[BlockSpan], limit: int) -> SegmentArray:
    """The segments of a text with these blocks; a block of at most `limit` tokens is one segment."""
    text = token_index.text
    top = section_level([block.level for block in blocks if block.level])
    segments: list[Segment] = []
    overlap_starts: list[int] = []
    position, behind_heading = 0, False
    for block in [*blocks, BlockSpan(len(text), len(text))]:
        for prose in prose_segments(text, position, block.start):
            segments.append(prose._replace(cost=LAST_RESORT_COST) if behind_heading else prose)
            overlap_starts.append(prose.start)
            behind_heading = False
        parts = list(_block_segments(token_index, block, top, limit))
        if parts and (behind_heading or not block.level):
            before = segments[-1].end if segments else 0
            cost = LAST_RESORT_COST if behind_heading else boundary_cost(text, before, block.start)
            parts[0] = parts[0]._replace(cost=cost)
        segments.extend(parts)
        overlap_starts.extend([block.start] if block.is_whole else (line.start for line in _block_lines(text, block)))
        position, behind_heading = block.end, block.level > 0
    return SegmentArray.from_segments(segments, overlap_starts)


def _block_segments(token_index: TokenIndex, block: BlockSpan, top: int, limit: int) -> Iterator[Segment]:
    if block.level:
        depth = max(0, block.level - top)
        cost = HEADING_COSTS[min(depth, len(HEADING_COSTS) - 1)]
        yield Segment(block.start, block.end, cost, starts_section=not depth)
    elif token_index.token_count_before(block.end) - token_index.token_count_before(block.start) <= limit:
        if block.end > block.start:
            yield Segment(block.start, block.end, 0, atomic=True)
    else:
        for line in _block_lines(token_index.text, block):
            cost = BLOCK_PARAGRAPH_COST if line.after_blank else BLOCK_LINE_COST
            tokens = token_index.token_count_before(line.end) - token_index.token_count_before(line.start)
            sentences = prose_segments(token_index.text, line.start, line.end) if tokens > limit else ()
            for number, sentence in enumerate(sentences):  # of a row that is longer than a chunk
                yield sentence._replace(cost=sentence.cost if number else cost)
            if not sentences:
                yield Segment(line.start, line.end, cost, atomic=True)


def _block_lines(text: str, block: BlockSpan) -> Iterator[TextLine]:
    for line in iter_lines(text[block.start : block.end]):
        start, text_start, end = (offset + block.start for offset in (line.start, line.text_start, line.end))
        yield TextLine(start, text_start, end, line.after_blank)


def _locate_headings(text: str, headings: Sequence[Heading], *, setext: bool) -> list[BlockSpan]:
    blocks: list[BlockSpan] = []
    for heading in headings:
        if heading.end is not None:
            continue  # column names, which stand above the section that they head
        start = heading.start
        line = text.rfind("\n", max(0, start - _MAX_HEADING_MARKUP_CHARS), start) + 1
        if (line or start <= _MAX_HEADING_MARKUP_CHARS) and not any(map(str.isalnum, text[line:start])):
            start = line
        line_break = _LINE_BREAK.search(text, heading.start, heading.start + _MAX_HEADING_CHARS)
        end = line_break.start() if line_break else min(len(text), heading.start + _MAX_HEADING_CHARS)
        underline = _SETEXT_UNDERLINE.match(text, end) if setext else None
        end = underline.end() if underline else end
        start, end = trim_span(text, (start, end))
        if start < end <= start + _MAX_HEADING_CHARS and (not blocks or start >= blocks[-1].end):
            blocks.append(BlockSpan(start, end, max(1, heading.level)))
    return blocks


def _merge_blocks(blocks: Sequence[BlockSpan], headings: Sequence[BlockSpan]) -> list[BlockSpan]:
    """Both lists, sorted by start; headings inside a block are dropped."""
    merged: list[BlockSpan] = []
    for block in sorted([*blocks, *headings], key=lambda block: (block.start, block.level)):
        if not merged or block.start >= merged[-1].end:
            merged.append(block)
    return merged


def _scan_markdown(text: str) -> tuple[list[BlockSpan], list[BlockSpan]]:
    """Fenced blocks and tables, and ATX headings."""
    blocks: list[BlockSpan] = []
    headings: list[BlockSpan] = []
    lines = list(iter_lines(text))
    number = 0
    while number < len(lines):
        line = lines[number]
        fence = _FENCE.match(text, line.text_start, line.end)
        last = _fence_end(text, lines, number, fence.group()) if fence else _table_end(text, lines, number)
        if last > number:
            blocks.append(BlockSpan(line.start, lines[last].end, is_whole=fence is not None))
        elif (
            heading := _ATX_HEADING.match(text, line.text_start, line.end)
        ) and line.end - line.text_start <= _MAX_HEADING_CHARS:
            headings.append(BlockSpan(line.text_start, line.end, len(heading.group(1))))
        number = last + 1
    return blocks, headings


def _fence_end(text: str, lines: Sequence[TextLine], number: int, fence: str) -> int:
    """The number of the line that closes the fenced block; the last line when it is not closed."""
    for last in range(number + 1, len(lines)):
        line = lines[last]
        closing = _FENCE.match(text, line.text_start, line.end)
        if closing and closing.end() == line.end and closing.group().startswith(fence):
            return last
    return len(lines) - 1


def _table_end(text: str, lines: Sequence[TextLine], number: int) -> int:
    """The number of the last row of a table that starts with this line; `number` when there is no table."""
    last = number
    piped = text[lines[number].text_start] == "|"
    if not piped and not _has_table_rule_below(text, lines, number):
        return number
    while last + 1 < len(lines) and not lines[last + 1].after_blank:
        row = lines[last + 1]
        if text[row.text_start] != "|" and (piped or "|" not in text[row.text_start : row.end]):
            break
        last += 1
    return last


def _has_table_rule_below(text: str, lines: Sequence[TextLine], number: int) -> bool:
    """Whether the line contains `|` and the next one is the delimiter row of a table."""
    if number + 1 == len(lines) or lines[number + 1].after_blank:
        return False
    below = lines[number + 1]
    if _TABLE_RULE.fullmatch(text, below.text_start, below.end) is None:
        return False
    return "|" in text[lines[number].text_start : lines[number].end]
