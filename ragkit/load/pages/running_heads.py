"""Running heads, feet and page numbers: lines at the edge of a page that come back on pages near it.

A line is taken out only if nothing is lost: it counts the pages, or it stands at one place with one text on other pages
too. Numbers in it may differ as page numbers do and no other way, nothing that stays may stand between it and the edge,
a rare one stays where it is first, and no page is emptied.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from statistics import median

from ragkit.load.pages.layout import PageLayout, PdfLine, is_page_number

EDGE_LINES = 3
"""Lines from the top and from the bottom that may be running heads."""
EDGE_SHARE = 0.14
"""The part of a page at its top and bottom that may hold them."""
LARGEST = 1.2
"""A line that is so much larger than half of the lines is a heading, though it comes back."""
NEAR_PAGES = 2
"""How many pages further a line comes back: left and right pages may differ."""
OFTEN = 3
"""Pages near it on which a line comes back that may stand close to the text."""
APART = 0.9
"""How far a line stands from the text that comes back on fewer pages, as a share of its height."""
MAX_PAGE_NUMBER = 999
"""A larger number is that of an invoice or a case, but for one that a wide gap sets apart from the words."""
MAX_KEPT = 20
"""Distinct running heads that are kept."""

_NUMBER = re.compile(r"\d{1,9}|\b[ivxlc]{1,7}\b")
_PAGE_WORD = re.compile(
    r"(?:\b(?:page|seite|pagina|página|sida|side|strona|strana|стр|p|pg|s|str)\b[.:]?|第|\.indb) {0,3}(?:\Z|\d)"
)
"""What stands before the number of a page."""
_LABEL = re.compile(r"(?:\bno|\bnr|\bnum|\bnumber|№|#|n[°º])[.:]? {0,3}\Z|: {0,3}\Z")
"""What stands before the number of something else."""
_SIGN_BEFORE, _SIGN_BEHIND = re.compile(r"[|–—•·-] {0,3}\Z"), re.compile(r" {0,3}(?:[|–—•·/-]|of\b|von\b|de\b)")
_TOTAL = re.compile(r" {0,3}(?:/|of\b|von\b|de\b|sur\b) {0,3}\d{1,4}\Z")
"""What stands at the end of a line behind the number of a page that says how many there are."""
_ROMAN = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}


class _Edge:
    """A line at the edge of a page."""

    __slots__ = ("line", "numbers", "page", "text", "varies")

    def __init__(self, line: PdfLine, page: int) -> None:
        text = line.text.casefold()
        found = list(_NUMBER.finditer(text))
        self.line, self.page = line, page
        self.text = _NUMBER.sub("#", text)
        self.numbers = [_value(match[0]) for match in found]
        self.varies = [_is_apart(text, match, line) for match in found]

    @property
    def key(self) -> str:
        """Its text without the number of its page."""
        numbers = ("" if varies else str(number) for number, varies in zip(self.numbers, self.varies, strict=True))
        return " ".join(re.sub("#", lambda _: next(numbers, ""), self.text).split())

    def comes_back_as(self, other: _Edge) -> bool:
        """Whether another page has the line at its place; a number may count the pages between them."""
        line, further = self.line, other.page - self.page
        if other.text != self.text or abs(other.line.top - line.top) > 4 or abs(other.line.height - line.height) > 1:
            return False
        return all(
            there == here or (varies and there - here == further)
            for here, there, varies in zip(self.numbers, other.numbers, self.varies, strict=True)
        )


def _value(number: str) -> int:
    """Of an arabic or roman number."""
    if number.isdigit():
        return int(number)
    values = [_ROMAN[sign] for sign in number] + [0]
    return sum(-a if a < b else a for a, b in pairwise(values))


def _is_apart(text: str, number: re.Match[str], line: PdfLine) -> bool:
    """Whether a number of a line may be that of the page: at one end, and apart from the words or behind `page`, or
    before the number of all pages."""
    before, behind = text[: number.start()], text[number.end() :]
    if _PAGE_WORD.search(before):
        return True
    if _TOTAL.match(behind):
        return True
    if _LABEL.search(before):
        return False
    if any(map(str.isalnum, before)) and any(map(str.isalnum, behind)):
        return False
    if number.start() - 1 in line.joints or number.end() in line.joints:
        return True
    is_alone = not any(map(str.isalnum, before + behind))
    has_sign = _SIGN_BEFORE.search(before) if any(map(str.isalnum, before)) else _SIGN_BEHIND.match(behind)
    return is_alone or (has_sign is not None and _value(number[0]) <= MAX_PAGE_NUMBER)


def take_running_heads(pages: Sequence[PageLayout]) -> list[str]:
    """Take running heads, feet and page numbers out of the pages; returns the distinct ones without page numbers."""
    largest = LARGEST * median([line.height for page in pages for line in page.lines if not line.table] or [0])
    edges = [
        [_Edge(line, number) for line in _edge_lines(page) if line.height <= largest]
        for number, page in enumerate(pages)
    ]
    numbers = _page_numbers(pages)
    found: list[list[_Edge]] = []
    for number, page in enumerate(pages):
        near = range(max(0, number - NEAR_PAGES), min(len(pages), number + NEAR_PAGES + 1))
        others = [edge for other in near if other != number for edge in edges[other]]
        found.append(_running_edges(page, edges[number], others, numbers[number]))
    body = " ".join(" ".join(line.text for line in page.lines).casefold() for page in pages)
    count = lru_cache(maxsize=None)(body.count)
    taken = list(_take(pages, found, numbers, count))
    _take_turned(pages)
    return [text for text in dict.fromkeys(taken) if text][:MAX_KEPT]


def _take(
    pages: Sequence[PageLayout],
    found: Sequence[Sequence[_Edge]],
    numbers: Sequence[Sequence[PdfLine]],
    count: Callable[[str], int],
) -> Iterator[str]:
    """Take out what may go, page by page; yields the texts of the running heads. `count`: of a text in the file."""
    often = Counter(key for edges in found for key in {edge.key for edge in edges})
    seen: set[str] = set()
    for page, running, counts in zip(pages, found, numbers, strict=True):
        going = {id(line): line for line in counts}
        for edge in running:
            is_first = edge.key not in seen
            seen.add(edge.key)
            # what heads the other pages is often the title on the first one
            is_title = page is pages[0] and edge.line.top < page.height / 2 and not is_page_number(edge.line.text)
            is_rare = often[edge.key] <= OFTEN and count(edge.key) <= often[edge.key]
            if not is_title and not (is_first and is_rare):
                going[id(edge.line)] = edge.line
        if all(id(line) in going or is_page_number(line.text) for line in page.lines):
            going = {key: line for key, line in going.items() if is_page_number(line.text)}
        if len(going) == len(page.lines):
            going = {}
        staying = [line for line in page.lines if id(line) not in going]
        inside = {id(line) for line in going.values() if not _is_outermost(line, staying, page)}
        page.lines = [line for line in page.lines if id(line) not in going or id(line) in inside]
        for edge in running:
            if not is_page_number(edge.line.text) and id(edge.line) not in inside:
                yield " ".join(_NUMBER.sub("", edge.line.text).split())


def _take_turned(pages: Sequence[PageLayout]) -> None:
    """Leave each turned line of the margin on the first page that has it at its place."""
    seen: set[tuple[str, int, int]] = set()
    for page in pages:
        keys = [(line.text, round(line.top / 4), round(line.x0 / 4)) for line in page.turned]
        page.turned = [line for line, key in zip(page.turned, keys, strict=True) if key not in seen]
        seen.update(keys)


def _is_outermost(line: PdfLine, staying: Sequence[PdfLine], page: PageLayout) -> bool:
    """Whether no line that stays is between a line and its edge of the page."""
    middle = (line.top + line.bottom) / 2
    if middle < page.height / 2:
        return all(other.bottom > line.top for other in staying)
    return all(other.top < line.bottom for other in staying)


def _running_edges(
    page: PageLayout, edges: Sequence[_Edge], others: Sequence[_Edge], numbers: Sequence[PdfLine]
) -> list[_Edge]:
    """The lines that come back on most of the pages near this one, or on one of them and apart from the text."""
    often = {id(edge): len({other.page for other in others if edge.comes_back_as(other)}) for edge in edges}
    found = [edge for edge in edges if often[id(edge)]]
    ids = {id(line) for line in [*(edge.line for edge in found), *numbers]}
    text = [line for line in page.lines if id(line) not in ids]
    return [
        edge
        for edge in found
        if often[id(edge)] >= OFTEN or _apart(edge.line, [line for line in text if not _beside(line, edge.line)])
    ]


def _beside(line: PdfLine, other: PdfLine) -> bool:
    """Whether two lines stand at the same height in the same size."""
    return abs(line.top - other.top) <= 2 and abs(line.height - other.height) <= 1


def _apart(line: PdfLine, text: Sequence[PdfLine]) -> bool:
    """Whether a line stands clearly above or below the text."""
    gap = APART * (line.bottom - line.top)
    return all(other.top > line.bottom + gap or other.bottom < line.top - gap for other in text)


def _edge_lines(page: PageLayout) -> list[PdfLine]:
    """The outermost lines of a page."""
    lines = sorted((line for line in page.lines if not line.table), key=lambda line: line.top)
    upper = [line for line in lines[: EDGE_LINES + 2] if line.bottom < EDGE_SHARE * page.height]
    lower = [line for line in lines[-EDGE_LINES - 2 :] if line.top > (1 - EDGE_SHARE) * page.height]
    return upper + lower


def _page_numbers(pages: Sequence[PageLayout]) -> list[list[PdfLine]]:
    """The lines of each page that are its number: they count the pages, or say so."""
    found: list[list[tuple[tuple[str, int], bool, PdfLine]]] = []
    counted: defaultdict[tuple[str, int], set[int]] = defaultdict(set)
    for index, page in enumerate(pages):
        lines = []
        last = max(page.lines, key=lambda line: line.bottom, default=None)
        for line in page.lines:
            at_edge = line.top > 0.9 * page.height or line.bottom < 0.08 * page.height
            if line.table or not (at_edge or line is last) or not is_page_number(line.text):
                continue
            text = line.text.casefold()
            for number in _NUMBER.findall(text)[:1]:
                label = re.sub(r"(?:of|von|de|/) *\d+|\W", "", _NUMBER.sub("", text, count=1))
                key = label, _value(number) - index
                counted[key].add(index)
                lines.append((key, at_edge and (key[1] == 1 or _PAGE_WORD.match(text) is not None), line))
        found.append(lines)
    return [[line for key, is_sure, line in lines if is_sure or len(counted[key]) > 1] for lines in found]
