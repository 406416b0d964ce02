"""Segments of source code: its lines, with the cost of a chunk boundary before each.

Definitions are the best boundaries. They come from the headings of the document (Python), else from patterns of the
language, else from indentation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from ragkit.records import Document
from ragkit.split.lines import TextLine, iter_lines
from ragkit.split.segments import Segment, SegmentArray
from ragkit.split.structure import section_level

DEFINITION_COSTS = (-400, -200, -100)
"""Cost of a boundary before a definition, by depth; the last applies to all deeper ones."""
_TOP_LEVEL_PARAGRAPH_COST = -150  # after a blank line, before an unindented line
_PARAGRAPH_COST = 50  # after a blank line, before an indented line
_LINE_COST = 200
_INDENT_COST = 40  # added per level of indentation, up to 5
_ATTACHED_COST = 800  # between a decorator or comment and its definition; before a closing bracket

_LEAD_IN = re.compile(r"@|#(?!include|define|if|endif)|//|/\*|\*|--|;|\[\w|%|\"\"\"|'''")
_CLOSING_LINE = re.compile(r"[)}\]]|(?:else|elif|except|finally|catch|end|fi|done|esac)\b")
_MODIFIERS = (
    r"(?:(?:export|default|async|public|private|protected|internal|static|final|abstract|sealed|open|override"
    r"|virtual|inline|extern|unsafe|pub(?:\(\w+\))?)\s+)*"
)
_GENERIC_DEFINITION = re.compile(
    _MODIFIERS + r"(?:function|func|fun|fn|def|defp|defmodule|class|interface|struct|enum|trait|impl|mod|module|type"
    r"|namespace|object|record|protocol|extension|union|macro_rules!|sub|package|data|instance|message|service)\b"
)
_DEFINITION_BY_LANGUAGE: Mapping[str, re.Pattern[str]] = {
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
_LANGUAGE_ALIASES: Mapping[str, str] = {"objectivec": "cpp", "cuda": "cpp", "scss": "css", "less": "css"}
_KEY_DEPTH = 1  # added for a key of YAML: no boundary as good as one before a function
_MAX_DEFINITION_CHARS = 200  # characters of a line that are matched


def code_segments(document: Document) -> SegmentArray:
    """The lines that are not blank, with indentation; an overlap may start at each, and ends at a definition."""
    lines = list(iter_lines(document.text))
    depths = _heading_definitions(document, lines) if document.headings else _likely_definitions(document, lines)
    segments = []
    for number, line in enumerate(lines):
        depth = depths.get(number)
        if depth is None and document.language == "yaml" and document.text.startswith("- ", line.text_start):
            depth = _KEY_DEPTH + (line.text_start > line.start)
        if depth is None:
            cost = _line_cost(document.text, line, lines[number - 1] if number else None)
        else:
            cost = DEFINITION_COSTS[min(depth, len(DEFINITION_COSTS) - 1)]
        starts_section = depth is not None or cost == _TOP_LEVEL_PARAGRAPH_COST
        segments.append(Segment(line.start, line.end, cost, starts_section=starts_section, atomic=True))
    return SegmentArray.from_segments(segments)


def _line_cost(text: str, line: TextLine, before: TextLine | None) -> int:
    if _CLOSING_LINE.match(text, line.text_start, line.end):
        return _ATTACHED_COST
    indent = min(5, (line.text_start - line.start + 3 * text.count("\t", line.start, line.text_start)) // 4)
    if line.after_blank:
        return _PARAGRAPH_COST + _INDENT_COST * indent if line.text_start > line.start else _TOP_LEVEL_PARAGRAPH_COST
    if before and _LEAD_IN.match(text, before.text_start, before.end):
        return _ATTACHED_COST
    return _LINE_COST + _INDENT_COST * indent


def _heading_definitions(document: Document, lines: Sequence[TextLine]) -> dict[int, int]:
    """Line number -> depth of the definition that starts there, including decorators and comments above it."""
    top = section_level([heading.level for heading in document.headings])
    depths: dict[int, int] = {}
    for number, level in _heading_lines(document, lines):
        first = number
        while first and not lines[first].after_blank and _is_lead_in(document.text, lines[first - 1]):
            first -= 1
        depths.setdefault(first, max(0, level - top))
    return depths


def _heading_lines(document: Document, lines: Sequence[TextLine]) -> Iterator[tuple[int, int]]:
    number = 0
    for heading in document.headings:
        while number < len(lines) and lines[number].end <= heading.start:
            number += 1
        if number < len(lines):
            is_inner = lines[number].text_start > lines[number].start
            yield number, heading.level + (_KEY_DEPTH + is_inner if document.language == "yaml" else 0)


def _likely_definitions(document: Document, lines: Sequence[TextLine]) -> dict[int, int]:
    """Unindented lines after a blank one that match a definition, or a comment above one."""
    language = _LANGUAGE_ALIASES.get(document.language, document.language)
    definition = _DEFINITION_BY_LANGUAGE.get(language, _GENERIC_DEFINITION)
    return {
        number: 0
        for number, line in enumerate(lines)
        if (line.after_blank or not number)
        and line.text_start == line.start
        and (
            definition.match(document.text, line.text_start, min(line.end, line.text_start + _MAX_DEFINITION_CHARS))
            or _is_lead_in(document.text, line)
        )
    }


def _is_lead_in(text: str, line: TextLine) -> bool:
    """Whether a line is a decorator, an attribute or a comment, which belongs to the next line."""
    return _LEAD_IN.match(text, line.text_start, line.end) is not None
