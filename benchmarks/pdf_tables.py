"""Measure how well tables of PDF files are read: cells beside each other, whole rows, rows with their column names.

    python -m benchmarks.pdf_tables FOLDER [--reader ragkit|pdfplumber|camelot|pymupdf] [--half 0|1] [--worst N]

FOLDER holds the PDF files of the table competition of ICDAR 2013 with their cells (`*-str.xml`; they are in
tabulapdf/tabula-java). The other readers are installed by the caller, and run for comparison only.

Printed, over all tables:
- adjacency: precision, recall and F1 of the pairs of texts that stand beside or below each other, empty cells skipped
  (Göbel et al., ICDAR 2013). A table that is none counts against the precision.
- rows whole: rows of two or more texts that stand in this order on one line of the document's text.
- rows with names: rows below column names that a chunk holds together with all the names of their columns, in its
  heading or its text; chunks of the default splitter. What is a row of names is decided here, from the cells of the
  competition, and not by the loader: rows above the first one with a number that is no year, less the labels right
  above it that head groups of rows; in a table of texts the first row. Names without a letter or digit, such as `%`,
  are not looked for. A name over several rows may stand on the line of any of them.
"""

from __future__ import annotations

import argparse
import platform
import re
import resource
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from xml.etree import ElementTree

from ragkit.embed.minilm import MiniLM
from ragkit.load.pages.pdf import PdfLoader, read_tables
from ragkit.load.pages.tables.table import PdfCell, PdfTable
from ragkit.pipeline.assemble import PipelineComponents
from ragkit.pipeline.settings import Pipeline
from ragkit.records import Chunk, Document


@dataclass(frozen=True)
class Score:
    """Sums over tables."""

    right: int = 0
    found: int = 0
    wanted: int = 0
    whole: int = 0
    rows: int = 0
    named: int = 0
    body_rows: int = 0

    def __add__(self, other: Score) -> Score:
        pairs = zip(self.values(), other.values(), strict=True)
        return Score(*(a + b for a, b in pairs))

    def values(self) -> tuple[int, ...]:
        """The sums, in order."""
        return (self.right, self.found, self.wanted, self.whole, self.rows, self.named, self.body_rows)

    def __str__(self) -> str:
        precision, recall = self.right / max(1, self.found), self.right / max(1, self.wanted)
        f1 = 2 * precision * recall / max(1e-9, precision + recall)
        return (
            f"adjacency P {precision:.3f} R {recall:.3f} F1 {f1:.3f} · rows whole {self.whole}/{self.rows}"
            f" = {self.whole / max(1, self.rows):.3f} · with names {self.named}/{self.body_rows}"
            f" = {self.named / max(1, self.body_rows):.3f}"
        )


def normalize(text: str) -> str:
    """Letters and digits; other characters only where there is nothing else."""
    return "".join(char for char in text.casefold() if char.isalnum()) or re.sub(r"\s", "", text)


def pairs_of(cells: Sequence[PdfCell]) -> Counter[tuple[str, str, str]]:
    """(text, next text, direction) of the cells of one table, empty ones skipped."""
    grid = {
        (row, column): cell
        for cell in cells
        for row in range(cell.row, cell.row + cell.rows)
        for column in range(cell.column, cell.column + cell.columns)
    }
    height = max((row for row, _ in grid), default=0)
    width = max((column for _, column in grid), default=0)
    found: set[tuple[int, int, str]] = set()
    pairs: Counter[tuple[str, str, str]] = Counter()
    for (row, column), cell in grid.items():
        right = next((grid[row, x] for x in range(column + 1, width + 1) if (row, x) in grid), None)
        below = next((grid[y, column] for y in range(row + 1, height + 1) if (y, column) in grid), None)
        for other, direction in ((right, "right"), (below, "below")):
            if other is None or other is cell or (id(cell), id(other), direction) in found:
                continue
            found.add((id(cell), id(other), direction))
            pairs[normalize(cell.text), normalize(other.text), direction] += 1
    return pairs


def read_truth(path: Path) -> list[tuple[int, list[PdfCell]]]:
    """(page from 1, cells) of each region of a file."""
    regions = []
    for region in ElementTree.parse(path).getroot().iter("region"):
        cells = []
        for cell in region.iter("cell"):
            row, column = int(cell.get("start-row", 0)), int(cell.get("start-col", 0))
            rows = int(cell.get("end-row", row)) - row + 1
            columns = int(cell.get("end-col", column)) - column + 1
            text = " ".join((cell.findtext("content") or "").split())
            if text:
                cells.append(PdfCell(row, column, text, rows, columns))
        regions.append((int(region.get("page", 1)), cells))
    return regions


def score_rows(cells: Sequence[PdfCell], document: Document, chunks: Sequence[Chunk]) -> Score:
    """Whole rows, and rows in a chunk with their column names."""
    table = PdfTable(0, 0, 0, 0, list(cells))
    left, top = min(cell.column for cell in cells), min(cell.row for cell in cells)
    for cell in cells:
        cell.row, cell.column = cell.row - top, cell.column - left
    lines = [normalize(line) for line in document.text.split("\n")]
    bodies = [(normalize(chunk.text), normalize(" ".join(chunk.heading) + " " + chunk.text)) for chunk in chunks]
    head = count_names(table)
    whole = rows = named = body = 0
    tall = {(cell.row, cell.column) for cell in cells if cell.rows > 1 and cell.row < head}
    for row, texts in enumerate(table.grid()):
        shown = [text for column, text in enumerate(texts) if (row, column) not in tall]
        wanted = [normalize(text) for text in shown if normalize(text).isalnum()]
        if len(wanted) < 2:
            continue
        rows += 1
        whole += any(_in_order(wanted, line) for line in lines)
        if head and row >= head:
            body += 1
            above = {
                normalize(cell.text)
                for cell in cells
                if cell.row < head
                and normalize(cell.text).isalnum()
                and any(
                    other.row == row
                    and other.column < cell.column + cell.columns
                    and cell.column < other.column + other.columns
                    for other in cells
                )
            }
            named += any(_in_order(wanted, text) and all(name in both for name in above) for text, both in bodies)
    return Score(whole=whole, rows=rows, named=named, body_rows=body)


def count_names(table: PdfTable) -> int:
    """Rows of column names, as the head of this file says; 0 if there are none, or no numbers."""
    grid = table.grid()
    values = [text for row in grid for text in row[1:] if text]
    first = next((row for row, texts in enumerate(grid) if any(map(_has_number, texts[1:]))), 0)
    if 2 * sum(map(_is_number, values)) < len(values):
        return min(first, 1)
    while first and not any(grid[first - 1][1:]):
        first -= 1
    return first


def _has_number(text: str) -> bool:
    return re.search(r"\d", re.sub(r"\b(?:19|20)\d\d\b", "", text)) is not None


def _is_number(text: str) -> bool:
    """Whether a text is one rather than words: `95.3 (kg)`, `-`."""
    return sum(map(str.isalpha, text)) <= sum(map(str.isdigit, text))


def _in_order(texts: Sequence[str], line: str) -> bool:
    at = 0
    for text in texts:
        at = line.find(text, at)
        if at < 0:
            return False
        at += len(text)
    return True


def _from_grid(grid: Sequence[Sequence[str | None]]) -> list[PdfCell]:
    return [
        PdfCell(y, x, " ".join(text.split()))
        for y, line in enumerate(grid)
        for x, text in enumerate(line)
        if text and text.strip()
    ]


def read_ragkit(path: Path) -> Iterator[Sequence[PdfCell]]:
    """Tables of this package."""
    for _, table in read_tables(path.read_bytes(), str(path)):
        yield table.cells


def read_pdfplumber(path: Path) -> Iterator[Sequence[PdfCell]]:
    """Tables of pdfplumber, default settings."""
    import pdfplumber  # type: ignore[import-not-found]

    with pdfplumber.open(path) as pdf:
        for page in pdf.pages:
            for grid in page.extract_tables():
                yield _from_grid(grid)


def read_camelot(path: Path) -> Iterator[Sequence[PdfCell]]:
    """Tables of camelot: between lines, else by white space."""
    import camelot  # type: ignore[import-not-found]

    tables = camelot.read_pdf(str(path), pages="all", flavor="lattice")
    if not len(tables):
        tables = camelot.read_pdf(str(path), pages="all", flavor="stream")
    for table in tables:
        yield _from_grid(table.df.values.tolist())


def read_pymupdf(path: Path) -> Iterator[Sequence[PdfCell]]:
    """Tables of PyMuPDF (AGPL: for comparison only)."""
    import pymupdf  # type: ignore[import-not-found]

    with pymupdf.open(path) as pdf:
        for page in pdf:
            for table in page.find_tables().tables:
                yield _from_grid(table.extract())


READERS: dict[str, Callable[[Path], Iterator[Sequence[PdfCell]]]] = {
    "ragkit": read_ragkit,
    "pdfplumber": read_pdfplumber,
    "camelot": read_camelot,
    "pymupdf": read_pymupdf,
}
PACKAGES = {"ragkit": "ragkit-kb", "camelot": "camelot-py"}


def main() -> None:
    """Print one line per file with --worst, and the sums."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--reader", choices=sorted(READERS), default="ragkit")
    parser.add_argument("--half", type=int, choices=(0, 1), help="every second file, from the first or the second")
    parser.add_argument("--worst", action="store_true", help="one line per file")
    options = parser.parse_args()
    paths = sorted(options.folder.glob("*.pdf"))
    if options.half is not None:
        paths = paths[options.half :: 2]

    components = PipelineComponents(Pipeline.from_yaml("extends: default\nsplit: {name: recursive}\n"), MiniLM())
    total, seconds = Score(), 0.0
    for path in paths:
        started = time.process_time()
        tables = list(READERS[options.reader](path))
        seconds += time.process_time() - started
        found = sum((pairs_of(cells) for cells in tables), Counter())
        truth = [region for part in sorted(path.parent.glob(f"{path.stem}-str.xml")) for region in read_truth(part)]
        wanted = sum((pairs_of(cells) for _, cells in truth), Counter())
        score = Score((found & wanted).total(), found.total(), wanted.total())
        if options.reader == "ragkit":
            document = PdfLoader().load(path.read_bytes(), str(path))
            chunks = components.split_document(document)
            score = sum((score_rows(cells, document, chunks) for _, cells in truth), score)
        total += score
        if options.worst:
            print(path.stem, score)
    package = PACKAGES.get(options.reader, options.reader)
    print(f"{options.reader} {version(package)}, Python {platform.python_version()}, {len(paths)} files")
    print(total)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{seconds:.1f} CPU-s for tables, peak memory {peak:.0f} MB")


if __name__ == "__main__":
    main()
