"""Headings of a PDF without an outline: by size, weight and numbering. Independent of the PDF library."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import median

from ragkit.load.pages.layout import PageLayout, PdfLine, is_page_number
from ragkit.load.pages.page import CAPTION

MAX_CHARS = 160
"""A longer text is no heading."""
MAX_WORDS = 18
MAX_LINES = 3
LARGER = 1.08
"""How much larger than the text of the document a heading in no other weight is."""

_BOLD = re.compile(r"bold|black|heavy|semib|demi|\bbx|cmbx|cmssbx|sfbx|ecbx|medi$|-b$|,b", re.IGNORECASE)
_NUMBER = re.compile(
    r"(?:(?:chapter|part|appendix|section|annex|item|kapitel|chapitre)\s+)?((?:\d{1,2}|[A-Z]|[IVX]{1,5})(?:\.\d{1,3}){0,4})[.)]?:?\s+\S",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W\d_]{3}|[\u2e80-\u9fff\uac00-\ud7af]{2}")
_STYLE_OF_NAME = re.compile(r"[\d,-]|(?:Bold|Ital|Obli|Regu|Roman$|Medi|Light)")
_SYMBOLS = re.compile(r"mono|cour|typewr|cmtt|tt\d|consol|math|symbol|cmsy|cmmi|cmex|slant|ital|-it", re.IGNORECASE)
_ADDRESS = re.compile(r"https?:|www\.|\w@\w")
"""Of a person or publisher, on the first page."""


def mark_headings(pages: Sequence[PageLayout]) -> None:
    """Set the level of the lines that are headings, and join those of several lines."""
    body = _body_style(pages)
    if body is None:
        return
    found = [(page, block) for page in pages for block in _blocks(page, body) if _is_heading(block, body)]
    styles = sorted({_rank(block[0]) for _, block in found}, reverse=True)
    ranks = {style: rank for rank, style in enumerate(styles, 1)}
    for page, block in found:
        text = " ".join(line.text for line in block)
        number = _NUMBER.match(text)
        level = ranks[_rank(block[0])]
        if number and "." in number[1]:
            level = max(level, number[1].count(".") + 1)
        first = block[0]
        first.text, first.level, first.new_block = text, min(level, 6), True
        joined = {id(line) for line in block[1:]}
        if joined:
            page.lines = [line for line in page.lines if id(line) not in joined]


def largest_text(page: PageLayout) -> str:
    """The lines of the largest size on a page, if they read as a title and are larger than its text; else ''."""
    lines = [
        line
        for line in page.lines
        if not line.table and not is_page_number(line.text) and sum(map(str.isalpha, line.text)) > 2
    ]
    size = max((line.height for line in lines), default=0)
    found = [line for line in lines if line.height > 0.97 * size]
    first = lines.index(found[0]) if found else 0
    block = [line for line in lines[first : first + MAX_LINES] if line in found]
    text = " ".join(" ".join(line.text for line in block).split())
    is_larger = size > LARGER * median([line.height for line in lines] or [0]) or len(lines) < MAX_LINES
    return text if block and is_larger and len(found) <= MAX_LINES and _reads_as_heading(block) else ""


@lru_cache(maxsize=1024)
def is_bold(fonts: tuple[str, str]) -> bool:
    """Whether the names of the fonts of a line say that it is bold."""
    return _BOLD.search(fonts[0]) is not None and _BOLD.search(fonts[1]) is not None


@dataclass(frozen=True, slots=True)
class _BodyStyle:
    """The style of most of the text."""

    size: float
    is_bold: bool
    families: frozenset[str]
    """The font families of at least a tenth of the text."""


def _rank(line: PdfLine) -> tuple[float, bool]:
    return round(line.height * 2) / 2, is_bold(line.fonts)


@lru_cache(maxsize=1024)
def _family(font: str) -> str:
    """The name of a font without its prefix, size, weight and slope: `LMSans` of `XYZABC+LMSans10-Oblique`."""
    return _STYLE_OF_NAME.split(font.rpartition("+")[2], maxsplit=1)[0]


def _body_style(pages: Sequence[PageLayout]) -> _BodyStyle | None:
    """None for pages without text outside tables."""
    sizes: Counter[tuple[float, bool]] = Counter()
    families: Counter[str] = Counter()
    for page in pages:
        for line in page.lines:
            if not line.table:
                sizes[_rank(line)] += len(line.text)
                families[_family(line.fonts[0])] += len(line.text)
    if not sizes:
        return None
    (size, bold), _ = sizes.most_common(1)[0]
    most = 0.1 * sum(families.values())
    return _BodyStyle(size, bold, frozenset(family for family, count in families.items() if count > most))


def _blocks(page: PageLayout, body: _BodyStyle) -> Iterator[list[PdfLine]]:
    """Lines of one style without a gap between them."""
    block: list[PdfLine] = []
    for line in page.lines:
        if block and not _continues(block[-1], line, body):
            yield block
            block = []
        if line.table is None:
            block.append(line)
    if block:
        yield block


def _continues(before: PdfLine, line: PdfLine, body: _BodyStyle) -> bool:
    if (
        line.table
        or is_bold(before.fonts) != is_bold(line.fonts)
        or abs(before.height - line.height) > 0.06 * before.height
    ):
        return False
    if _family(before.fonts[0]) != _family(line.fonts[0]) and not is_bold(line.fonts):
        return False
    if not line.new_block:
        return True
    close = -0.5 * line.height < line.top - before.bottom < 0.45 * line.height
    stands_out = line.height > LARGER * body.size or (is_bold(line.fonts) and not body.is_bold)
    return close and stands_out and not _NUMBER.match(line.text)


def _is_heading(block: Sequence[PdfLine], body: _BodyStyle) -> bool:
    first = block[0]
    larger = first.height > LARGER * body.size
    bold = is_bold(first.fonts) and not body.is_bold
    other = first.new_block and _is_other_font(block, body)
    if len(block) > MAX_LINES or not (larger or bold or other) or not _reads_as_heading(block):
        return False
    text = " ".join(line.text for line in block).rstrip()
    if larger and (bold or first.height > 1.15 * body.size):
        return not (text.endswith(".") and len(text) > 60)
    if not (bold or other) or first.height < 0.88 * body.size:
        return False
    return text[-1] not in ".:" or _NUMBER.match(text) is not None


def _is_other_font(block: Sequence[PdfLine], body: _BodyStyle) -> bool:
    """Whether a line is set in a font that the text hardly uses, and begins like a heading."""
    fonts = {font for line in block for font in line.fonts}
    if len(block) > 1 or any(_family(font) in body.families or _SYMBOLS.search(font) for font in fonts):
        return False
    text = block[0].text
    return bool(fonts - {""}) and (text[0].isupper() or text[0].isdigit()) and " " in text


def _reads_as_heading(block: Sequence[PdfLine]) -> bool:
    text = " ".join(line.text for line in block).rstrip()
    if not text or len(text) > MAX_CHARS or len(text.split()) > MAX_WORDS or not _WORD.search(text):
        return False
    if CAPTION.match(text) or _ADDRESS.search(text) or text[-1] in ",;" or text[0] in "•-–*=+":
        return False
    letters = sum(map(str.isalpha, text))
    return letters >= 3 and letters >= 0.5 * len(text.replace(" ", ""))
