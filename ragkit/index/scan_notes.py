"""Notes of an index run: scanned pages that were left out and the time that reading them takes, and what is no text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ragkit.distribution import install_command

PAGES_WITHOUT_TEXT = "pages_without_text"
"""The metadata with the numbers of the pages of a document that are images and were not read."""
SECONDS_PER_PAGE = 2
"""CPU time of reading a page at 200 dpi, measured: 1.0 to 2.6 s."""
MAX_FILES = 5
"""Files that are named."""


def describe_scans(pages: Mapping[str, Sequence[int]], *, is_estimate: bool) -> str:
    """One line on the scanned pages of the files, by source."""
    count = sum(map(len, pages.values()))
    what = f"{_count(count, 'scanned page')} of {_count(len(pages), 'file')}"
    if is_estimate:
        return f"{what} to read: about {count * SECONDS_PER_PAGE:,} s of CPU time"
    named = "; ".join(f"{source}: {describe_pages(numbers)}" for source, numbers in list(pages.items())[:MAX_FILES])
    more = f"; and {len(pages) - MAX_FILES:,} more" if len(pages) > MAX_FILES else ""
    return f"{what} left out ({named}{more}): {install_command('ocr')}, then run `ragkit index --rebuild`"


def describe_noise(characters: Mapping[str, int]) -> str:
    """One line on what was left out of files because it is no text, by source."""
    largest = sorted(characters, key=lambda source: -characters[source])[:MAX_FILES]
    named = "; ".join(f"{source}: {characters[source]:,}" for source in largest)
    more = f"; and {len(characters) - MAX_FILES:,} more" if len(characters) > MAX_FILES else ""
    return f"{sum(characters.values()):,} characters that are no text left out, such as base64 ({named}{more})"


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def describe_pages(pages: Sequence[int]) -> str:
    """Page numbers as ranges: `1, 3-5`."""
    ranges: list[list[int]] = []
    for page in pages:
        if ranges and page == ranges[-1][1] + 1:
            ranges[-1][1] = page
        else:
            ranges.append([page, page])
    return ", ".join(f"{first}-{last}" if last > first else str(first) for first, last in ranges)
