"""Captions and footnotes of a PDF: captions are paragraphs of their own, footnotes stand behind their paragraph.

Independent of the PDF library.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from ragkit.load.pages.headings import CAPTION
from ragkit.load.pages.layout import PageLayout, PdfLine

SMALLER = 0.93
"""The size of a footnote, at most, as a share of that of the text."""
LOWEST = 0.4
"""A footnote stands below this share of the page."""
MAX_CAPTION_GAP = 0.6
"""White space inside a caption, at most, as a share of its height."""

_FOOTNOTE = re.compile(r"(\d{1,3}|[*∗†‡§¶]{1,3})[.)]?\s*[\"“„«(]?[^\W\d_]")
_TITLE_BEHIND_SIGN = re.compile(r"[.:](?:\s|$)")
_TITLE = re.compile(r"[.:]?(?:$|\s*[-–—|(]|\s+[^\W_a-z])")
"""What follows the number of a caption: a sign, or words that begin in upper case; a sentence goes on in lower case."""
_FIRST_LETTERS = "TtFfLlAa"
"""Of captions, as in `CAPTION`."""
_BEFORE_MARK = r"(?:(?<=[^\W\d_])|(?<=[^\W\d_][.,;:!?)\"”’»]))"
"""A reference to a footnote follows a word, or the sign behind it."""


def mark_captions(page: PageLayout) -> None:
    """Captions of figures and tables begin and end a paragraph."""
    lines = page.lines
    caption: PdfLine | None = None
    for before, line in zip([None, *lines], lines, strict=False):
        if line.table or line.level:
            caption = None
        elif line.text and line.text[0] in _FIRST_LETTERS and _begins_caption(line, before):
            line.new_block, line.is_note, caption = True, True, line
        elif caption is not None and before is not None and (line.new_block or _leaves_caption(caption, before, line)):
            line.new_block, caption = True, None


def _begins_caption(line: PdfLine, before: PdfLine | None) -> bool:
    """Whether a line starts with `Figure 3:`; a sentence that goes on with `Figure 3 shows` does not."""
    found = CAPTION.match(line.text)
    if found is None:
        return False
    behind = line.text[found.end() :]
    if before is None or before.table or line.new_block:
        return _TITLE.match(behind) is not None
    return _TITLE_BEHIND_SIGN.match(behind) is not None and before.text[-1:] in ".:!?"


def _leaves_caption(caption: PdfLine, before: PdfLine, line: PdfLine) -> bool:
    """Whether a line is in another size than the caption above it, or below a gap."""
    if abs(line.height - caption.height) > 0.05 * caption.height:
        return True
    return line.top - before.bottom > MAX_CAPTION_GAP * line.height


def place_footnotes(pages: Sequence[PageLayout]) -> None:
    """Put each footnote behind the paragraph with its mark on the same page; without a mark it stays where it is."""
    sizes: Counter[float] = Counter()
    for page in pages:
        for line in page.lines:
            if line.table is None:
                sizes[line.height] += len(line.text)
    if not sizes:
        return
    size = sizes.most_common(1)[0][0]
    for page in pages:
        if not any(line.height <= SMALLER * size and line.top > LOWEST * page.height for line in page.lines):
            continue
        for start, end in reversed(list(_small_runs(page, SMALLER * size))):
            _place_run(page, start, end)


def _small_runs(page: PageLayout, largest: float) -> Iterator[tuple[int, int]]:
    """The first and the end of runs of small lines that end a text column and begin with the mark of a footnote."""
    lines = page.lines
    start = -1
    for number in range(len(lines) + 1):
        line = lines[number] if number < len(lines) else None
        is_end = line is None or (number > 0 and line.bottom < lines[number - 1].top)
        if start >= 0 and is_end:
            yield start, number
            start = -1
        if line is None:
            return
        is_small = not line.table and not line.level and line.height <= largest
        if not is_small:
            start = -1
        elif start < 0 and line.top > LOWEST * page.height and _FOOTNOTE.match(line.text):
            start = number


def _place_run(page: PageLayout, start: int, end: int) -> None:
    """Move the footnotes of one run."""
    notes = list(_split_notes(page.lines[start:end]))
    kept: list[PdfLine] = []
    moves: list[tuple[int, list[PdfLine]]] = []
    for mark, note in notes:
        at = _paragraph_end(page.lines, start, mark)
        if at is None:
            kept += note
        else:
            moves.append((at, note))
    if not moves:
        return  # a list, or lines of a program
    for _, note in notes:
        note[0].new_block = note[0].is_note = True
    lines = page.lines[:start]
    for at, note in reversed(moves):
        lines[at:at] = note
    page.lines = [*lines, *kept, *page.lines[end:]]


def _split_notes(lines: Sequence[PdfLine]) -> Iterator[tuple[str, list[PdfLine]]]:
    """The mark and the lines of each footnote: numbers count up."""
    mark, note = "", list[PdfLine]()
    for line in lines:
        found = _FOOTNOTE.match(line.text)
        if found and (not mark or _follows(mark, found[1])):
            if note:
                yield mark, note
            mark, note = found[1], []
        note.append(line)
    if note:
        yield mark, note


def _follows(mark: str, behind: str) -> bool:
    if mark.isdigit() and behind.isdigit():
        return int(behind) == int(mark) + 1
    return not mark.isdigit() and not behind.isdigit() and mark != behind


def _paragraph_end(lines: Sequence[PdfLine], end: int, mark: str) -> int | None:
    """The number of the line behind the paragraph whose text refers to a footnote; None if none does."""
    pattern = re.compile(rf"{_BEFORE_MARK}{re.escape(mark)}(?=[\s.,;:!?)]|$)")
    found = [number for number, line in enumerate(lines[:end]) if not line.table and pattern.search(line.text)]
    if len(found) != 1:
        return None
    return next((n for n in range(found[0] + 1, end) if lines[n].new_block or lines[n].table or lines[n].level), end)
