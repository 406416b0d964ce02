"""Measure headings and running heads of PDF files against their outlines, and how fast they are read.

    python -m benchmarks.pdf_structure FILE.pdf... [--worst]

Files whose outline has at least 8 entries below another are taken. The loader reads them without their outline; a
heading that it finds is right when the outline has its title on the same page. A running head that is left is a line
that comes back, but for its numbers, at least three times in the first or last line of a page of the text, and is no
heading.

Speed is that of PDFium alone (open each page, get its text) divided by that of the loader, in CPU time.
"""

from __future__ import annotations

import argparse
import platform
import re
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import pypdfium2 as pdfium

from ragkit.load.options import PdfOptions
from ragkit.load.pages import pdf as loader
from ragkit.load.pages.pdfium import PdfiumFile
from ragkit.load.pages.text import OutlineEntry
from ragkit.load.process.parser_state import reduce_gc
from ragkit.records import TABLE_LEVEL, Document

NUMBER_CHARS = 12
"""The number of a heading that its outline entry may lack, in letters and digits."""

NEAR = 2
"""How many pages further a running head comes back: left and right pages may differ."""


def normalize(text: str) -> str:
    """Letters and digits."""
    return "".join(char for char in text.casefold() if char.isalnum())


def is_same(found: tuple[int, str], wanted: tuple[int, str]) -> bool:
    """Whether two headings are equal, but for a number before one of them."""
    a, b = sorted((found[1], wanted[1]), key=len)
    return found[0] == wanted[0] and b.endswith(a) and len(b) - len(a) < NUMBER_CHARS


def page_texts(document: Document) -> list[str]:
    """The text of each page."""
    return [document.text[a:b] for a, b in pairwise([*document.page_starts, len(document.text)])]


def score_headings(document: Document, outline: Sequence[OutlineEntry]) -> tuple[int, int, int, int]:
    """Headings that are right, found, wanted and found again."""
    texts = list(map(normalize, page_texts(document)))
    titles = [(entry.page, normalize(entry.title)) for entry in outline]
    wanted = [title for title in titles if title[1] and title[1] in texts[title[0]]]
    headings = [heading for heading in document.headings if heading.level != TABLE_LEVEL]
    found = [((document.page_at(heading.start) or 1) - 1, normalize(heading.text)) for heading in headings]
    right = sum(any(is_same(one, other) for other in wanted) for one in found)
    again = sum(any(is_same(other, one) for other in found) for one in wanted)
    return right, len(found), len(wanted), again


def running_heads_left(document: Document) -> tuple[int, int]:
    """Lines at the edge of a page that come back on a page near it, three times in all; and pages."""
    texts = page_texts(document)
    headings = {heading.text for heading in document.headings}
    edges: dict[str, list[int]] = {}
    for page, text in enumerate(texts):
        lines = [line for line in text.split("\n") if line]
        for line in {lines[0], lines[-1]} if lines else ():
            if line not in headings and " | " not in line:
                edges.setdefault(re.sub(r"\d+", "#", line), []).append(page)
    running = [[page for page in pages if any(0 < abs(page - o) <= NEAR for o in pages)] for pages in edges.values()]
    return sum(len(pages) for pages in running if len(pages) >= 3), len(texts)


def read_outline(data: bytes) -> list[OutlineEntry]:
    """The outline; [] when nothing stands below another entry."""
    with PdfiumFile(data, "") as pdf:
        outline = list(pdf.outline())
    return outline if sum(entry.level > 1 for entry in outline) >= 8 else []


def read_text(data: bytes) -> None:
    """PDFium alone."""
    pdf = pdfium.PdfDocument(data)
    for page in pdf:
        page.get_textpage().get_text_bounded()
        page.close()
    pdf.close()


def cpu_seconds(work: Callable[[], object]) -> float:
    """The better of two runs."""

    def run() -> Iterator[float]:
        for _ in range(2):
            started = time.process_time()
            work()
            yield time.process_time() - started

    return min(run())


def main() -> None:
    """Print the means over the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--worst", action="store_true", help="one line per file")
    options = parser.parse_args()
    reduce_gc()  # as the processes that parse files do
    scores, left, pages = list[float](), 0, 0
    alone = with_tables = without = 0.0
    for path in options.files:
        data = path.read_bytes()
        outline = read_outline(data)
        with patch.object(PdfiumFile, "outline", return_value=iter(())):
            document = loader.PdfLoader().load(data, str(path))
        heads, count = running_heads_left(document)
        left, pages = left + heads, pages + count
        alone += cpu_seconds(lambda data=data: read_text(data))  # type: ignore[misc]
        with_tables += cpu_seconds(lambda data=data: loader.PdfLoader().load(data, ""))  # type: ignore[misc]
        plain = loader.PdfLoader(PdfOptions(tables=False))
        without += cpu_seconds(lambda data=data, plain=plain: plain.load(data, ""))  # type: ignore[misc]
        if outline:
            right, found, wanted, again = score_headings(document, outline)
            precision, recall = right / max(1, found), again / max(1, wanted)
            scores.append(2 * precision * recall / max(1e-9, precision + recall))
            if options.worst:
                figures = f"P {precision:.2f} R {recall:.2f} F1 {scores[-1]:.2f}"
                print(f"{path.name}: {figures}, {heads} heads left, {count} pages")
    versions = f"pypdfium2 {version('pypdfium2')}, Python {platform.python_version()}"
    print(f"{versions}, {len(options.files)} files, {pages} pages")
    print(f"headings: mean F1 {sum(scores) / max(1, len(scores)):.3f} over {len(scores)} files with a deep outline")
    print(f"running heads left at the edges of pages: {left}/{2 * pages} = {left / max(1, 2 * pages):.3f}")
    print(f"speed: {alone / with_tables:.2f} of PDFium alone, {alone / without:.2f} without tables")


if __name__ == "__main__":
    main()
