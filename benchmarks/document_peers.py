"""Compare how well readers keep the rows of tables and the order of prose of PDF files.

    python -m benchmarks.document_peers READER FILE.pdf...

READER is ragkit, markitdown, pymupdf4llm, pdfplumber, kreuzberg or docling; the others are installed by the caller,
each in its own environment, and run for comparison only. What is right is taken from pdftotext (poppler).

Printed for each file and in all:
- rows: lines of `pdftotext -layout` with a label and three or more numbers that stand on one line of the reader's text;
- prose: pairs of lines of `pdftotext -raw`, a sentence going on from one to the next, that follow each other.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import subprocess
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

_NUMBER = re.compile(r"[\s$€£(]*[-–]?\d[\d.,]*[%)]*")
EDGE = 14
"""Letters and digits at the end of a line and at the beginning of the next that are looked for."""


def normalize(text: str) -> str:
    """Letters and digits in lower case."""
    return re.sub(r"[\W_]+", "", text.casefold())


def pdftotext(path: Path, mode: str) -> str:
    """The text of poppler."""
    command = ["pdftotext", mode, str(path), "-"]
    return subprocess.run(command, capture_output=True, check=True).stdout.decode("utf-8", "replace")


def table_rows(path: Path) -> list[list[str]]:
    """The label and numbers of each row of a table."""
    rows = []
    for line in pdftotext(path, "-layout").split("\n"):
        label, *cells = re.split(r"\s{2,}", line.strip())
        numbers = [cell for cell in cells if _NUMBER.fullmatch(cell)]
        if len(numbers) >= 3 and re.search(r"[A-Za-z]{3}", label) and len(label) < 60:
            rows.append([normalize(label), *map(normalize, numbers)])
    return rows


def prose_edges(path: Path) -> list[str]:
    """The end of a line and the beginning of the next, where a sentence goes on."""
    edges = []
    for page in pdftotext(path, "-raw").split("\f"):
        for line, below in pairwise(map(str.strip, page.split("\n"))):
            is_prose = min(len(line), len(below)) > 35 and min(line.count(" "), below.count(" ")) > 4
            if is_prose and below[0].islower() and (line[-1].isalpha() or line[-1] in ",-"):
                edges.append(normalize(line)[-EDGE:] + normalize(below)[:EDGE])
    return edges


def is_in_order(texts: list[str], line: str) -> bool:
    """Whether the texts stand on the line in this order."""
    at = 0
    for text in texts:
        at = line.find(text, at) + len(text)
        if at < len(text):
            return False
    return True


def read_ragkit(path: Path) -> str:
    """The text that is indexed."""
    from ragkit.load.pages.pdf import PdfLoader  # not installed beside the other readers

    return PdfLoader().load(path.read_bytes(), str(path)).text


def read_markitdown(path: Path) -> str:
    """markitdown."""
    from markitdown import MarkItDown  # type: ignore[import-not-found]

    return str(MarkItDown().convert(str(path)).text_content)


def read_pymupdf4llm(path: Path) -> str:
    """pymupdf4llm (AGPL: for comparison only)."""
    import pymupdf4llm  # type: ignore[import-not-found]

    return str(pymupdf4llm.to_markdown(str(path), show_progress=False))


def read_pdfplumber(path: Path) -> str:
    """pdfplumber's lines of text, without columns."""
    import pdfplumber  # type: ignore[import-not-found]

    with pdfplumber.open(path) as pdf:
        return "\n".join(page.extract_text() or "" for page in pdf.pages)


def read_kreuzberg(path: Path) -> str:
    """kreuzberg."""
    from kreuzberg import extract_file  # type: ignore[import-not-found]

    async def read() -> str:
        return str((await extract_file(str(path))).content)

    return asyncio.run(read())


def read_docling(path: Path) -> str:
    """docling, which loads models."""
    from docling.document_converter import DocumentConverter  # type: ignore[import-not-found]

    return str(DocumentConverter().convert(str(path)).document.export_to_markdown())


READERS: dict[str, Callable[[Path], str]] = {
    "ragkit": read_ragkit,
    "markitdown": read_markitdown,
    "pymupdf4llm": read_pymupdf4llm,
    "pdfplumber": read_pdfplumber,
    "kreuzberg": read_kreuzberg,
    "docling": read_docling,
}


def main() -> None:
    """Print one line per file, and the sums."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reader", choices=sorted(READERS))
    parser.add_argument("files", type=Path, nargs="+")
    options = parser.parse_args()
    sums = [0, 0, 0, 0]
    started = time.process_time()
    for path in options.files:
        rows, edges = table_rows(path), prose_edges(path)
        try:
            text = READERS[options.reader](path)
        except Exception as error:  # noqa: BLE001 - of any kind, in a package of others
            print(f"{path.name}: {type(error).__name__}: {str(error)[:100]}")
            text = ""
        lines = [normalize(line) for line in text.split("\n")]
        whole = sum(any(is_in_order(row, line) for line in lines) for row in rows)
        flat = normalize(text)
        kept = sum(edge in flat for edge in edges)
        sums = [a + b for a, b in zip(sums, (whole, len(rows), kept, len(edges)), strict=True)]
        print(f"{path.name}: rows {whole}/{len(rows)}, prose {kept}/{len(edges)}")
    seconds = time.process_time() - started
    print(f"{options.reader}: rows {sums[0]}/{sums[1]}, prose {sums[2]}/{sums[3]}, {seconds:.1f} CPU-s")


if __name__ == "__main__":
    main()
