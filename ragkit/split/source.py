"""Pieces of source code: its lines, with the cost of the border before each.

Blank lines between definitions are the best borders, by the loader's headings where it found definitions
(Python), else by what definitions look like in the language, else by indentation alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from ragkit.records import Document
from ragkit.split.blocks import section_level
from ragkit.split.lines import Line, lines_of
from ragkit.split.units import Piece, Units

DEFINITION_COSTS = (-400, -200, -100)
"""Of beginning a chunk at a definition, by depth; the last for all deeper ones."""
_TOP_PARAGRAPH = -150  # a blank line, then a line that is not indented
_PARAGRAPH = 50  # a blank line within something
_LINE = 200
_PER_INDENT = 40  # more for each level of indentation, up to 5
_ATTACHED = 800  # between a decorator or a comment and what it belongs to; before a closing bracket

_LEADS_IN = re.compile(r"@|#(?!include|define|if|endif)|//|/\*|\*|--|;|\[\w|%|\"\"\"|'''")
_CLOSES = re.compile(r"[)}\]]|(?:else|elif|except|finally|catch|end|fi|done|esac)\b")
_MODIFIERS = (
    r"(?:(?:export|default|async|public|private|protected|internal|static|final|abstract|sealed|open|override"
    r"|virtual|inline|extern|unsafe|pub(?:\(\w+\))?)\s+)*"
)
_GENERIC = re.compile(
    _MODIFIERS + r"(?:function|func|fun|fn|def|defp|defmodule|class|interface|struct|enum|trait|impl|mod|module|type"
    r"|namespace|object|record|protocol|extension|union|macro_rules!|sub|package|data|instance|message|service)\b"
)
_DEFINITIONS: Mapping[str, re.Pattern[str]] = {
    "c": re.compile(r"(?:\w+[\s*]+){1,6}\w+\s*\(|(?:typedef|struct|enum|union)\b"),
    "cpp": re.compile(
        r"(?:[\w:<>,]+[\s*&]+){1,6}[\w:~]+\s*\(|(?:typedef|struct|enum|union|class|namespace|template)\b"
    ),
    "css": re.compile(r"[.#@\w*:\[]"),
    "shell": re.compile(r"function\b|[\w-]+\s*\(\s*\)"),
    "sql": re.compile(r"(?:create|alter|drop|insert|update|delete|select|with|begin|grant)\b", re.IGNORECASE),
    "terraform": re.compile(r"[a-z]+\s"),
    "yaml": re.compile(r"[\w\"'-]+:|---"),
}
_SAME_AS: Mapping[str, str] = {"objectivec": "cpp", "cuda": "cpp", "scss": "css", "less": "css"}
_SEEN_OF_A_LINE = 200  # characters that a definition is looked for in


def code_units(document: Document) -> Units:
    """The lines of the document that are not blank, indentation kept; an overlap may begin at each."""
    lines = list(lines_of(document.text))
    found = _named_definitions(document, lines) if document.headings else _likely_definitions(document, lines)
    pieces = []
    for number, line in enumerate(lines):
        depth = found.get(number)
        if depth is None:
            cost = _line_cost(document.text, line, lines[number - 1] if number else None)
        else:
            cost = DEFINITION_COSTS[min(depth, len(DEFINITION_COSTS) - 1)]
        pieces.append(Piece(line.start, line.end, cost, hard=depth == 0, rigid=True))
    return Units.of(pieces)


def _line_cost(text: str, line: Line, before: Line | None) -> int:
    if _CLOSES.match(text, line.first, line.end):
        return _ATTACHED
    indent = min(5, (line.first - line.start + 3 * text.count("\t", line.start, line.first)) // 4)
    if line.after_blank:
        return _PARAGRAPH + _PER_INDENT * indent if line.first > line.start else _TOP_PARAGRAPH
    if before and _LEADS_IN.match(text, before.first, before.end):
        return _ATTACHED
    return _LINE + _PER_INDENT * indent


def _named_definitions(document: Document, lines: Sequence[Line]) -> dict[int, int]:
    """Line number -> depth of the definition that begins there, decorators and comments above it included."""
    top = section_level([heading.level for heading in document.headings])
    found: dict[int, int] = {}
    for number, level in _heading_lines(document, lines):
        first = number
        while first and not lines[first].after_blank and _leads_in(document.text, lines[first - 1]):
            first -= 1
        found.setdefault(first, max(0, level - top))
    return found


def _heading_lines(document: Document, lines: Sequence[Line]) -> Iterator[tuple[int, int]]:
    number = 0
    for heading in document.headings:
        while number < len(lines) and lines[number].end <= heading.start:
            number += 1
        if number < len(lines):
            yield number, heading.level


def _likely_definitions(document: Document, lines: Sequence[Line]) -> dict[int, int]:
    """Unindented lines behind a blank one that look like a definition, or like the comment above one."""
    language = _SAME_AS.get(document.language, document.language)
    definition = _DEFINITIONS.get(language, _GENERIC)
    return {
        number: 0
        for number, line in enumerate(lines)
        if (line.after_blank or not number)
        and line.first == line.start
        and (
            definition.match(document.text, line.first, min(line.end, line.first + _SEEN_OF_A_LINE))
            or _leads_in(document.text, line)
        )
    }


def _leads_in(text: str, line: Line) -> bool:
    """A decorator, an attribute or a comment: it belongs to what follows."""
    return _LEADS_IN.match(text, line.first, line.end) is not None
