"""Tables of contents and indexes, with leaders or as links: their lines repeat a document, and are no passages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ragkit.split.base import CharSpan
from ragkit.split.lines import TextLine, iter_lines

MIN_ENTRIES = 4
"""Fewer lines with leaders in a row may be anything."""
MAX_GAP_LINES = 3
MAX_GAP_CHARS = 120
"""Lines without leaders that may stand between two entries: the first line of a long title, a part, the head of a
page."""
MAX_CHECKED = 40
"""Entries of a table whose titles are looked for in the text."""
MIN_REPEATED = 0.6
"""Share of their titles that stand in the text, too: those of a menu or a list of prices do not."""
MIN_ASCENDING = 0.9
"""Share of entries of a table of contents whose page is not before that of the entry above them; of entries of an index
that are in the order of the alphabet."""
MAX_LINE_CHARS = 600
"""A longer line is no entry."""

_ENTRY = re.compile(
    r"(?P<title>(?:[^\n]{0,300}?\w[^\n]{0,20}?)?)[ \t|]*(?:(?:\.[ \t]?){4,}|(?:…[ \t]?){2,})[ \t|]*"
    r"(?P<page>\d{1,4}|[ivxlc]{1,7})"
)
_LINK_ENTRY = re.compile(r"(?:[-*+]|\d{1,3}[.)])[ \t]{1,4}\[(?P<title>[^\n]{1,300}?)\]\(#[^()\s]{1,300}\)")
"""An item of a list in Markdown that is nothing but a link to a heading of the same document."""
_NUMBER = re.compile(
    r"^(?:(?:chapter|part|appendix|section|annex)\s+)?(?:[A-Z]|[\dIVXivx]+)(?:[.-]\d+)*[.):]?\s+", re.I
)
_HEADING = re.compile(r"\s*\w{1,40}(?: \w{1,40}){0,2}\s*")
"""A line such as `Table of Contents`, or the number of a page."""


@dataclass(frozen=True, slots=True)
class _Entry:
    start: int
    end: int
    title: str
    page: str
    """Empty for a link."""


def find_contents(text: str) -> list[CharSpan]:
    """The spans of the tables of contents of a text, from their first entry to their last one."""
    if all(mark not in text for mark in ("....", ". . . .", "……", "… …", "](#")):
        return []
    tables = [table for table in _group_entries(text) if len(table) >= MIN_ENTRIES and _is_ordered(table)]
    if not tables:
        return []
    spans = [(table[0].start, table[-1].end) for table in tables]
    rest = _letters("".join(text[a:b] for (_, a), (b, _) in pairwise([(0, 0), *spans, (len(text), len(text))])))
    return [span for span, table in zip(spans, tables, strict=True) if _is_repeated(table, rest)]


def without_contents(spans: Sequence[CharSpan], contents: Sequence[CharSpan], text: str) -> Iterator[CharSpan]:
    """The spans of chunks without tables of contents; a span around one becomes two, unless only a heading is left."""
    for start, end in spans:
        begin = start
        for first, last in contents:
            if first < end and begin < last:
                if text[begin:first].strip() and not _HEADING.fullmatch(text, begin, first):
                    yield begin, begin + len(text[begin:first].rstrip())
                begin = max(begin, min(last, end))
        is_cut = begin > start
        begin += len(text[begin:end]) - len(text[begin:end].lstrip())
        if begin < end and not (is_cut and _HEADING.fullmatch(text, begin, end)):
            yield begin, end


def _group_entries(text: str) -> Iterator[list[_Entry]]:
    """Entries that follow each other, with few lines between them."""
    table: list[_Entry] = []
    gap: list[TextLine] = []
    for line in iter_lines(text):
        found = _match_entry(text, line)
        if found is None:
            gap.append(line)
            continue
        entry = _Entry(line.text_start, line.end, found["title"], found.groupdict().get("page", ""))
        is_near = len(gap) <= MAX_GAP_LINES and all(line.end - line.text_start <= MAX_GAP_CHARS for line in gap)
        if table and (not is_near or bool(entry.page) != bool(table[-1].page) or (gap and not entry.page)):
            yield table
            table = []
        table.append(entry)
        gap = []
    if table:
        yield table


def _match_entry(text: str, line: TextLine) -> re.Match[str] | None:
    length = line.end - line.text_start
    if not 5 <= length <= MAX_LINE_CHARS:
        return None
    if text[line.end - 1] == ")":
        return _LINK_ENTRY.fullmatch(text, line.text_start, line.end)
    may_be = text[line.end - 1].isalnum() and _has_leader(text, line)
    return _ENTRY.fullmatch(text, line.text_start, line.end) if may_be else None


def _has_leader(text: str, line: TextLine) -> bool:
    """Whether a line has as many dots as the shortest leader: most have not, which takes less time than `_ENTRY`."""
    return text.count(".", line.text_start, line.end) >= 4 or text.count("…", line.text_start, line.end) >= 2


def _is_ordered(table: Sequence[_Entry]) -> bool:
    """Whether the pages of a table ascend, as those of contents do, or its titles, as those of an index do."""
    if not any(entry.page for entry in table):  # links
        return True
    pages = [int(entry.page) for entry in table if entry.page.isdigit()]
    titles = [title for title in (_letters(entry.title) for entry in table) if title]
    falls = sum(b < a for a, b in pairwise(pages)), sum(b < a for a, b in pairwise(titles))
    return min(falls) <= (1 - MIN_ASCENDING) * len(table)


def _is_repeated(table: Sequence[_Entry], letters: str) -> bool:
    """Whether the text has most of the titles again; `letters` are those of the text outside of tables."""
    step = -(-len(table) // MAX_CHECKED)
    titles = [_letters(_NUMBER.split(entry.title, 1)[-1]) for entry in table[::step]]
    known = [title for title in titles if title]
    return bool(known) and sum(title in letters for title in known) >= MIN_REPEATED * len(known)


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))
