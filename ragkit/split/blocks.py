"""Pieces of texts that have headings, fenced code and tables: markdown, and whatever a loader found headings in.

Reads the structure that chunks should keep; running text between the blocks is cut by `prose`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ragkit.records import Document, Heading
from ragkit.split.lines import Line, lines_of
from ragkit.split.measure import Ruler
from ragkit.split.prose import border_cost, prose_pieces, trimmed
from ragkit.split.units import TORN, Piece, Units

HEADING_COSTS = (-450, -350, -250, -200)
"""Of beginning a chunk at a heading, by depth below the sections of the document; the last for all deeper ones."""
BLOCK_LINE = 400
"""Of cutting a block that no chunk holds between two of its lines."""
BLOCK_PARAGRAPH = 200
"""The same, at a blank line in it."""

_LONGEST_HEADING = 400  # characters; a "heading" longer than this is running text
_LONGEST_MARKUP = 10  # characters before the words of a heading: "  ###### "
_FENCE = re.compile(r"`{3,}|~{3,}")
_ATX = re.compile(r"(#{1,6})[ \t]+(?=\S)")
_UNDERLINE = re.compile(r"[ \t]*\r?\n[ \t]{0,3}(?:=+|-+)[ \t]*(?=[\r\n]|\Z)")
_TABLE_RULE = re.compile(r"\|?[ \t]*+:?-++:?[ \t]*+(?:\|[ \t]*+:?-++:?[ \t]*+)++\|?")
_BREAK = re.compile(r"[\n\r\v\f\x85\u2028\u2029]")


class Block(NamedTuple):
    """A heading, or something that should stay whole: a fenced block or a table."""

    start: int
    end: int
    level: int = 0
    """Of a heading, 1 is the highest; 0 for what is no heading."""


def markdown_blocks(document: Document) -> list[Block]:
    """Fenced blocks, tables and headings in order; headings are looked for where the loader named none."""
    text = document.text
    whole, atx = _scanned(text)
    return _merged(whole, _heading_blocks(text, document.headings, setext=True) if document.headings else atx)


def heading_blocks(document: Document) -> list[Block]:
    """The headings that the loader found, in order."""
    return _heading_blocks(document.text, document.headings, setext=False)


def section_level(levels: Sequence[int]) -> int:
    """The level of the document's sections: the highest one with more than a title at or above it."""
    ordered = sorted(levels)
    return ordered[1] if len(ordered) > 1 else 1


def structured_units(ruler: Ruler, blocks: Sequence[Block], limit: int) -> Units:
    """The pieces of a text with these blocks; a block of at most `limit` tokens is one piece."""
    text = ruler.text
    top = section_level([block.level for block in blocks if block.level])
    pieces: list[Piece] = []
    resumes: list[int] = []
    position, behind_heading = 0, False
    for block in [*blocks, Block(len(text), len(text))]:
        for prose in prose_pieces(text, position, block.start):
            pieces.append(prose._replace(cost=TORN) if behind_heading else prose)
            resumes.append(prose.start)
            behind_heading = False
        parts = list(_block_pieces(ruler, block, top, limit))
        if parts and (behind_heading or not block.level):
            cost = TORN if behind_heading else border_cost(text, pieces[-1].end if pieces else 0, block.start)
            parts[0] = parts[0]._replace(cost=cost)
        pieces.extend(parts)
        resumes.extend(line.start for line in _lines_between(text, block))
        position, behind_heading = block.end, block.level > 0
    return Units.of(pieces, resumes)


def _block_pieces(ruler: Ruler, block: Block, top: int, limit: int) -> Iterator[Piece]:
    if block.level:
        depth = max(0, block.level - top)
        yield Piece(block.start, block.end, HEADING_COSTS[min(depth, len(HEADING_COSTS) - 1)], hard=not depth)
    elif ruler.count_before(block.end) - ruler.count_before(block.start) <= limit:
        if block.end > block.start:
            yield Piece(block.start, block.end, 0, rigid=True)
    else:
        for line in _lines_between(ruler.text, block):
            cost = BLOCK_PARAGRAPH if line.after_blank else BLOCK_LINE
            yield Piece(line.start, line.end, cost, rigid=True)


def _lines_between(text: str, block: Block) -> Iterator[Line]:
    for line in lines_of(text[block.start : block.end]):
        yield Line(line.start + block.start, line.first + block.start, line.end + block.start, line.after_blank)


def _heading_blocks(text: str, headings: Sequence[Heading], *, setext: bool) -> list[Block]:
    blocks: list[Block] = []
    for heading in headings:
        start = heading.start
        line = text.rfind("\n", max(0, start - _LONGEST_MARKUP), start) + 1
        if (line or start <= _LONGEST_MARKUP) and not any(character.isalnum() for character in text[line:start]):
            start = line
        stop = _BREAK.search(text, heading.start, heading.start + _LONGEST_HEADING)
        end = stop.start() if stop else min(len(text), heading.start + _LONGEST_HEADING)
        underline = _UNDERLINE.match(text, end) if setext else None
        end = underline.end() if underline else end
        start, end = trimmed(text, (start, end))
        if start < end <= start + _LONGEST_HEADING and (not blocks or start >= blocks[-1].end):
            blocks.append(Block(start, end, max(1, heading.level)))
    return blocks


def _merged(whole: Sequence[Block], headings: Sequence[Block]) -> list[Block]:
    """Both lists in order of start; a heading that lies in a block is part of it."""
    merged: list[Block] = []
    for block in sorted([*whole, *headings], key=lambda block: (block.start, block.level)):
        if not merged or block.start >= merged[-1].end:
            merged.append(block)
    return merged


def _scanned(text: str) -> tuple[list[Block], list[Block]]:
    """Fenced blocks and tables, and the headings that begin with number signs."""
    whole: list[Block] = []
    headings: list[Block] = []
    lines = list(lines_of(text))
    number = 0
    while number < len(lines):
        line = lines[number]
        fence = _FENCE.match(text, line.first, line.end)
        last = _fence_end(text, lines, number, fence.group()) if fence else _table_end(text, lines, number)
        if last > number:
            whole.append(Block(line.start, lines[last].end))
        elif (mark := _ATX.match(text, line.first, line.end)) and line.end - line.first <= _LONGEST_HEADING:
            headings.append(Block(line.first, line.end, len(mark.group(1))))
        number = last + 1
    return whole, headings


def _fence_end(text: str, lines: Sequence[Line], number: int, mark: str) -> int:
    """The number of the line that closes the fenced block; the last line when none does."""
    for last in range(number + 1, len(lines)):
        line = lines[last]
        closing = _FENCE.match(text, line.first, line.end)
        if closing and closing.end() == line.end and closing.group().startswith(mark):
            return last
    return len(lines) - 1


def _table_end(text: str, lines: Sequence[Line], number: int) -> int:
    """The number of the last row of a table that begins with this line; the line's own when it is no row."""
    last = number
    piped = text[lines[number].first] == "|"
    if not piped and not _has_rule_below(text, lines, number):
        return number
    while last + 1 < len(lines) and not lines[last + 1].after_blank:
        row = lines[last + 1]
        if text[row.first] != "|" and (piped or "|" not in text[row.first : row.end]):
            break
        last += 1
    return last


def _has_rule_below(text: str, lines: Sequence[Line], number: int) -> bool:
    """The line holds a column mark and the next one is the rule between a table's head and its rows."""
    if number + 1 == len(lines) or lines[number + 1].after_blank:
        return False
    below = lines[number + 1]
    if _TABLE_RULE.fullmatch(text, below.first, below.end) is None:
        return False
    return "|" in text[lines[number].first : lines[number].end]
