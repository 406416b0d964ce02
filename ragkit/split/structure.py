"""Pieces of texts that have headings, fenced code and tables: markdown, and whatever a loader found headings in.

Reads the structure that chunks should keep; running text between the blocks is cut by `prose`.
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
"""Of beginning a chunk at a heading, by depth below the sections of the document; the last for all deeper ones."""
BLOCK_LINE_COST = 400
"""Of cutting a block that no chunk holds between two of its lines."""
BLOCK_PARAGRAPH_COST = 200
"""The same, at a blank line in it."""

_MAX_HEADING_CHARS = 400  # characters; a "heading" longer than this is running text
_MAX_HEADING_MARKUP_CHARS = 10  # characters before the words of a heading: "  ###### "
_FENCE = re.compile(r"`{3,}|~{3,}")
_ATX_HEADING = re.compile(r"(#{1,6})[ \t]+(?=\S)")
_SETEXT_UNDERLINE = re.compile(r"[ \t]*\r?\n[ \t]{0,3}(?:=+|-+)[ \t]*(?=[\r\n]|\Z)")
_TABLE_RULE = re.compile(r"\|?[ \t]*+:?-++:?[ \t]*+(?:\|[ \t]*+:?-++:?[ \t]*+)++\|?")
_LINE_BREAK = re.compile(r"[\n\r\v\f\x85\u2028\u2029]")


class BlockSpan(NamedTuple):
    """A heading, or something that should stay whole: a fenced block or a table."""

    start: int
    end: int
    level: int = 0
    """Of a heading, 1 is the highest; 0 for what is no heading."""


def markdown_blocks(document: Document) -> list[BlockSpan]:
    """Fenced blocks, tables and headings in order; headings are looked for where the loader named none."""
    text = document.text
    whole, atx = _scan_markdown(text)
    return _merge_blocks(whole, _locate_headings(text, document.headings, setext=True) if document.headings else atx)


def heading_blocks(document: Document) -> list[BlockSpan]:
    """The headings that the loader found, in order."""
    return _locate_headings(document.text, document.headings, setext=False)


def section_level(levels: Sequence[int]) -> int:
    """The level of the document's sections: the highest one with more than a title at or above it."""
    ordered = sorted(levels)
    return ordered[1] if len(ordered) > 1 else 1


def structured_segments(ruler: TokenIndex, blocks: Sequence[BlockSpan], limit: int) -> SegmentArray:
    """The pieces of a text with these blocks; a block of at most `limit` tokens is one piece."""
    text = ruler.text
    top = section_level([block.level for block in blocks if block.level])
    pieces: list[Segment] = []
    resumes: list[int] = []
    position, behind_heading = 0, False
    for block in [*blocks, BlockSpan(len(text), len(text))]:
        for prose in prose_segments(text, position, block.start):
            pieces.append(prose._replace(cost=LAST_RESORT_COST) if behind_heading else prose)
            resumes.append(prose.start)
            behind_heading = False
        parts = list(_block_segments(ruler, block, top, limit))
        if parts and (behind_heading or not block.level):
            cost = (
                LAST_RESORT_COST
                if behind_heading
                else boundary_cost(text, pieces[-1].end if pieces else 0, block.start)
            )
            parts[0] = parts[0]._replace(cost=cost)
        pieces.extend(parts)
        resumes.extend(line.start for line in _block_lines(text, block))
        position, behind_heading = block.end, block.level > 0
    return SegmentArray.from_segments(pieces, resumes)


def _block_segments(ruler: TokenIndex, block: BlockSpan, top: int, limit: int) -> Iterator[Segment]:
    if block.level:
        depth = max(0, block.level - top)
        yield Segment(
            block.start, block.end, HEADING_COSTS[min(depth, len(HEADING_COSTS) - 1)], starts_section=not depth
        )
    elif ruler.token_count_before(block.end) - ruler.token_count_before(block.start) <= limit:
        if block.end > block.start:
            yield Segment(block.start, block.end, 0, atomic=True)
    else:
        for line in _block_lines(ruler.text, block):
            cost = BLOCK_PARAGRAPH_COST if line.after_blank else BLOCK_LINE_COST
            yield Segment(line.start, line.end, cost, atomic=True)


def _block_lines(text: str, block: BlockSpan) -> Iterator[TextLine]:
    for line in iter_lines(text[block.start : block.end]):
        yield TextLine(
            line.start + block.start, line.text_start + block.start, line.end + block.start, line.after_blank
        )


def _locate_headings(text: str, headings: Sequence[Heading], *, setext: bool) -> list[BlockSpan]:
    blocks: list[BlockSpan] = []
    for heading in headings:
        start = heading.start
        line = text.rfind("\n", max(0, start - _MAX_HEADING_MARKUP_CHARS), start) + 1
        if (line or start <= _MAX_HEADING_MARKUP_CHARS) and not any(
            character.isalnum() for character in text[line:start]
        ):
            start = line
        stop = _LINE_BREAK.search(text, heading.start, heading.start + _MAX_HEADING_CHARS)
        end = stop.start() if stop else min(len(text), heading.start + _MAX_HEADING_CHARS)
        underline = _SETEXT_UNDERLINE.match(text, end) if setext else None
        end = underline.end() if underline else end
        start, end = trim_span(text, (start, end))
        if start < end <= start + _MAX_HEADING_CHARS and (not blocks or start >= blocks[-1].end):
            blocks.append(BlockSpan(start, end, max(1, heading.level)))
    return blocks


def _merge_blocks(whole: Sequence[BlockSpan], headings: Sequence[BlockSpan]) -> list[BlockSpan]:
    """Both lists in order of start; a heading that lies in a block is part of it."""
    merged: list[BlockSpan] = []
    for block in sorted([*whole, *headings], key=lambda block: (block.start, block.level)):
        if not merged or block.start >= merged[-1].end:
            merged.append(block)
    return merged


def _scan_markdown(text: str) -> tuple[list[BlockSpan], list[BlockSpan]]:
    """Fenced blocks and tables, and the headings that begin with number signs."""
    whole: list[BlockSpan] = []
    headings: list[BlockSpan] = []
    lines = list(iter_lines(text))
    number = 0
    while number < len(lines):
        line = lines[number]
        fence = _FENCE.match(text, line.text_start, line.end)
        last = _fence_end(text, lines, number, fence.group()) if fence else _table_end(text, lines, number)
        if last > number:
            whole.append(BlockSpan(line.start, lines[last].end))
        elif (
            mark := _ATX_HEADING.match(text, line.text_start, line.end)
        ) and line.end - line.text_start <= _MAX_HEADING_CHARS:
            headings.append(BlockSpan(line.text_start, line.end, len(mark.group(1))))
        number = last + 1
    return whole, headings


def _fence_end(text: str, lines: Sequence[TextLine], number: int, mark: str) -> int:
    """The number of the line that closes the fenced block; the last line when none does."""
    for last in range(number + 1, len(lines)):
        line = lines[last]
        closing = _FENCE.match(text, line.text_start, line.end)
        if closing and closing.end() == line.end and closing.group().startswith(mark):
            return last
    return len(lines) - 1


def _table_end(text: str, lines: Sequence[TextLine], number: int) -> int:
    """The number of the last row of a table that begins with this line; the line's own when it is no row."""
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
    """The line holds a column mark and the next one is the rule between a table's head and its rows."""
    if number + 1 == len(lines) or lines[number + 1].after_blank:
        return False
    below = lines[number + 1]
    if _TABLE_RULE.fullmatch(text, below.text_start, below.end) is None:
        return False
    return "|" in text[lines[number].text_start : lines[number].end]
