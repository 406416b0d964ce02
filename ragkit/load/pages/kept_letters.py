"""Count the letters and digits of each page before and after the steps that move and remove text: none may be lost but
those of page numbers and of heads that come back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from ragkit.load.pages.layout import PageLayout, PdfLine
from ragkit.load.pages.page import PdfPage
from ragkit.load.shared.layout_blocks import LayoutBlock
from ragkit.load.shared.noise import LEFT_OUT
from ragkit.records import JSON

LETTERS_READ = "letters_read"
"""The metadata with the number of letters and digits on the pages, if some of the file are not in the text."""
LETTERS_OUTSIDE = "letters_outside_page"
"""The metadata with the number of letters and digits in the file that stand outside the visible part of their page."""
LETTERS_IN_HEADS = "letters_in_running_heads"
"""The metadata with the number of letters read that were taken out with running heads, feet and page numbers."""
LETTERS_LOST = "letters_lost"
"""The metadata with the number of letters read that are not in the text for no such reason."""
PAGES_WITH_LOSS = "pages_with_loss"
"""The metadata with the numbers of the pages that lost letters."""


class KeptLetters:
    """The letters and digits of the pages of one file, step by step."""

    def __init__(self) -> None:
        self._read: list[Counter[str]] = []
        self._laid_out: list[Counter[str]] = []
        self._in_heads: list[Counter[str]] = []
        self._outside = 0
        self._left_out = 0
        self._without_text: set[int] = set()
        """Pages, from 0, that have characters that are no text."""

    def leave_out(self, text: str, content: PdfPage) -> None:
        """The page that is added next has the characters of `content` alone; the others of `text` are no text."""
        kept = sum(len("".join(piece.text.split())) for piece in (*content.pieces, *content.turned))
        self._left_out += max(0, len("".join(text.split())) - kept)
        self._without_text.add(len(self._read))

    def add_page(self, text: str, content: PdfPage | None, more: Iterable[PdfLine] = ()) -> None:
        """A page as it was read, or None for one that could not be read.

        `text` is all that the file has of it; `more` are lines of notes and pictures.
        """
        pieces = (*content.pieces, *content.turned) if content else ()
        read = _count(piece.text for piece in pieces)
        if content is not None and not content.is_scan and len(self._read) not in self._without_text:
            self._outside += (_count([text]) - read).total()
        self._read.append(read + _count(_texts(more)))

    def before_heads(self, pages: Sequence[PageLayout | None]) -> None:
        """The pages before running heads are taken out."""
        self._laid_out = [_count(_page_texts(page)) for page in pages]

    def after_heads(self, pages: Sequence[PageLayout | None]) -> None:
        """The pages after that."""
        rest = [_count(_page_texts(page)) for page in pages]
        self._in_heads = [before - after for before, after in zip(self._laid_out, rest, strict=True)]

    def report(self, blocks: Sequence[Sequence[LayoutBlock]]) -> dict[str, JSON]:
        """The metadata of the file, from the blocks of its pages; {} if all that it says is in its text."""
        lost = [
            (read - heads - _count(_block_texts(page))).total()
            for read, heads, page in zip(self._read, self._in_heads or [Counter()] * len(blocks), blocks, strict=True)
        ]
        counts: dict[str, JSON] = {
            LETTERS_OUTSIDE: self._outside,
            LETTERS_IN_HEADS: sum(page.total() for page in self._in_heads),
            LETTERS_LOST: sum(lost),
            LEFT_OUT: self._left_out,
            PAGES_WITH_LOSS: [number for number, count in enumerate(lost, start=1) if count],
        }
        left = {name: value for name, value in counts.items() if value}
        return {LETTERS_READ: sum(page.total() for page in self._read), **left} if left else {}


def _count(texts: Iterable[str]) -> Counter[str]:
    return Counter(filter(str.isalnum, "".join(texts)))


def _page_texts(page: PageLayout | None) -> Iterator[str]:
    return _texts([*page.lines, *page.turned] if page else ())


def _texts(lines: Iterable[PdfLine]) -> Iterator[str]:
    for line in lines:
        if line.table is None:
            yield line.text
        else:
            yield from (cell.text for cell in line.table.cells)


def _block_texts(blocks: Sequence[LayoutBlock]) -> Iterator[str]:
    """The texts of a page; its first row also has the column names of a table that goes on from the page before."""
    yield from (block.text for block in blocks)
    if blocks and blocks[0].kind == "row":
        yield blocks[0].header
