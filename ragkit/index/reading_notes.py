"""Notes of an index run on what was not read: scans and pictures, letters that were lost, and what is no text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ragkit.distribution import install_command
from ragkit.index.sources.ids import display_name
from ragkit.load.shared.noise import LEFT_OUT
from ragkit.records import JSON, Document

PAGES_WITHOUT_TEXT = "pages_without_text"
"""The metadata with the numbers of the pages of a document that are images and were not read."""
PAGES_WITH_PICTURES = "pages_with_pictures"
"""The metadata with the numbers of the pages of a document that have pictures of text that were not read."""
MIN_LOST, MIN_LOST_SHARE = 20, 0.002
"""Letters of a file that are on its pages and not in its text, and their share, above which a run says so."""
SECONDS_PER_PAGE = 2
"""CPU time of reading a page at 200 dpi, measured: 1.0 to 2.6 s."""
MAX_FILES = 5
"""Files that are named."""


class ReadingNotes:
    """What was not read of the documents of one run."""

    def __init__(self) -> None:
        self._scans: dict[str, list[int]] = {}
        self._pictures: dict[str, list[int]] = {}
        self._lost: dict[str, list[int]] = {}
        self._left_out: dict[str, int] = {}

    def add(self, document: Document) -> None:
        """A document that was read."""
        metadata, source = document.metadata, document.source
        count = metadata.get(LEFT_OUT)
        if isinstance(count, int):
            self._left_out[source] = count
        if pages := _pages(metadata, PAGES_WITHOUT_TEXT):
            self._scans[source] = pages
        if pages := _pages(metadata, PAGES_WITH_PICTURES):
            self._pictures[source] = pages
        lost, read = metadata.get("letters_lost"), metadata.get("letters_read")
        if isinstance(lost, int) and isinstance(read, int) and lost > max(MIN_LOST, MIN_LOST_SHARE * read):
            self._lost[source] = _pages(metadata, "pages_with_loss")

    def lines(self, *, is_estimate: bool) -> tuple[str, ...]:
        """A line on each kind; those of an estimate say how long scanned pages take."""
        install = f"{install_command('ocr')}, then run `ragkit index --rebuild`"
        lines: list[str] = []
        if self._scans:
            count = sum(map(len, self._scans.values()))
            what = f"{_count(count, 'scanned page')} of {_count(len(self._scans), 'file')}"
            cost = f"{what} to read: about {count * SECONDS_PER_PAGE:,} s of CPU time"
            lines.append(cost if is_estimate else f"{what} left out ({_name_pages(self._scans)}): {install}")
        if self._pictures and not is_estimate:
            count = sum(map(len, self._pictures.values()))
            what = f"pictures that look like text on {_count(count, 'page')} of {_count(len(self._pictures), 'file')}"
            lines.append(f"{what} left out ({_name_pages(self._pictures)}): {install}")
        if self._lost:
            what = f"letters lost on pages of {_count(len(self._lost), 'file')}"
            lines.append(f"{what} ({_name_pages(self._lost)}): see `ragkit doctor FILE`")
        if self._left_out:
            largest = sorted(self._left_out, key=lambda source: -self._left_out[source])
            named = _name_files([f"{display_name(source)}: {self._left_out[source]:,}" for source in largest])
            what = f"{sum(self._left_out.values()):,} characters that are no text left out"
            lines.append(f"{what}, such as base64 ({named})")
        return tuple(lines)


def _pages(metadata: Mapping[str, JSON], name: str) -> list[int]:
    pages = metadata.get(name)
    return [page for page in pages if isinstance(page, int)] if isinstance(pages, list) else []


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def _name_pages(pages: Mapping[str, Sequence[int]]) -> str:
    return _name_files([f"{display_name(source)}: {describe_pages(numbers)}" for source, numbers in pages.items()])


def _name_files(files: Sequence[str]) -> str:
    return "; ".join(files[:MAX_FILES]) + (f"; and {len(files) - MAX_FILES:,} more" if len(files) > MAX_FILES else "")


def describe_pages(pages: Sequence[int]) -> str:
    """Page numbers as ranges: `1, 3-5`."""
    ranges: list[list[int]] = []
    for page in pages:
        if ranges and page == ranges[-1][1] + 1:
            ranges[-1][1] = page
        else:
            ranges.append([page, page])
    return ", ".join(f"{first}-{last}" if last > first else str(first) for first, last in ranges)
