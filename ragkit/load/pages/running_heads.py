"""Running heads, feet and page numbers: lines at the edge of a page that come back on pages near it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence, Set
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
"""Pages near it on which a line comes back that may stand close to the text; pages that show where heads stand."""
APART = 0.9
"""How far a line stands from the text that comes back on fewer pages, as a share of its height."""
MAX_KEPT = 20
"""Distinct running heads that are kept."""

_DIGITS = re.compile(r"\d+|\b[ivxlc]+\b")


class _Edge:
    """A line at the edge of a page."""

    __slots__ = ("line", "text")

    def __init__(self, line: PdfLine) -> None:
        self.line = line
        self.text = _DIGITS.sub("#", line.text.casefold())


def take_running_heads(pages: Sequence[PageLayout]) -> list[str]:
    """Take running heads, feet and page numbers out of the pages; returns the distinct ones without page numbers."""
    largest = LARGEST * median([line.height for page in pages for line in page.lines if not line.table] or [0])
    edges = [[_Edge(line) for line in _edge_lines(page) if line.height <= largest] for page in pages]
    numbers = list(map(_last_number, pages))
    found: list[list[PdfLine]] = []
    for number, page in enumerate(pages):
        near = range(max(0, number - NEAR_PAGES), min(len(pages), number + NEAR_PAGES + 1))
        running = _running_lines(page, edges[number], [edges[other] for other in near if other != number])
        found.append(running + [line for line in _counted_line(numbers, number) if line not in running])
    places = _places_of_heads(edges, found)
    taken: dict[str, None] = {}
    kept: list[list[PdfLine]] = []
    for number, page in enumerate(pages):
        running = found[number] + _in_place(page, edges[number], places, found[number])
        if number == 0:  # what heads the other pages is often the title here
            running = [line for line in running if line.top > page.height / 2 or is_page_number(line.text)]
        for line in running:
            if not is_page_number(line.text):
                taken.setdefault(re.sub(r"\s+", " ", _DIGITS.sub("", line.text)).strip(), None)
        ids = {id(line) for line in running}
        kept.append([line for line in page.lines if id(line) not in ids])
    for page, lines in zip(pages, kept, strict=True):
        page.lines = lines
    return [text for text in taken if text][:MAX_KEPT]


def _running_lines(page: PageLayout, edges: Sequence[_Edge], others: Sequence[Sequence[_Edge]]) -> list[PdfLine]:
    """The lines that come back on most of the pages near this one, or on one of them and apart from the text."""
    often = {id(edge): sum(_comes_back(edge, other) for other in others) for edge in edges}
    numbers = [edge.line for edge in edges if _is_number_line(edge.line, page)]
    found = [edge.line for edge in edges if often[id(edge)]]
    ids = {id(line) for line in [*found, *numbers]}
    text = [line for line in page.lines if id(line) not in ids]

    def is_apart(line: PdfLine) -> bool:
        return _apart(line, [other for other in text if not _beside(other, line)])

    running = [edge.line for edge in edges if often[id(edge)] >= OFTEN or (often[id(edge)] and is_apart(edge.line))]
    return running + [line for line in numbers if line not in running]


def _place(line: PdfLine) -> tuple[int, int]:
    """Where a line stands, within 4 points, and its size."""
    return round(line.top / 4), round(line.height)


def _places_of_heads(edges: Sequence[Sequence[_Edge]], found: Sequence[Sequence[PdfLine]]) -> set[tuple[int, int]]:
    """Places that hold a running head on most of the pages with a line there: not that of the first line of a text."""
    lines = Counter(place for page in edges for place in {_place(edge.line) for edge in page})
    heads = Counter(
        place for page in found for place in {_place(line) for line in page if not is_page_number(line.text)}
    )
    return {place for place, count in heads.items() if count >= OFTEN and count > lines[place] / 2}


def _in_place(
    page: PageLayout, edges: Sequence[_Edge], places: Set[tuple[int, int]], found: Sequence[PdfLine]
) -> list[PdfLine]:
    """Lines that stand apart from the text where other pages have running heads: titles of sections change often."""
    ids = {id(line) for line in found}
    lines = [edge.line for edge in edges if id(edge.line) not in ids and _place(edge.line) in places]
    ids.update(map(id, lines))
    text = [line for line in page.lines if id(line) not in ids]
    return [line for line in lines if _apart(line, text)]


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


def _comes_back(edge: _Edge, others: Sequence[_Edge]) -> bool:
    line = edge.line
    return any(
        other.text == edge.text and abs(other.line.top - line.top) <= 4 and abs(other.line.height - line.height) <= 1
        for other in others
    )


def _counted_line(numbers: Sequence[tuple[int, PdfLine] | None], number: int) -> list[PdfLine]:
    """The last line of a page, if it is a number that the last line of a page beside it continues."""
    here = numbers[number]
    before = numbers[number - 1] if number else None
    after = numbers[number + 1] if number + 1 < len(numbers) else None
    if here is None or not any(o is not None and o[0] == here[0] + step for o, step in ((before, -1), (after, 1))):
        return []
    return [here[1]]


def _last_number(page: PageLayout) -> tuple[int, PdfLine] | None:
    last = max(page.lines, key=lambda line: line.bottom, default=None)
    if last is None or last.table or not re.fullmatch(r"[-–\s]*\d{1,4}[-–\s]*", last.text):
        return None
    return int(re.sub(r"\D", "", last.text)), last


def _is_number_line(line: PdfLine, page: PageLayout) -> bool:
    return is_page_number(line.text) and (line.top > 0.9 * page.height or line.bottom < 0.08 * page.height)
