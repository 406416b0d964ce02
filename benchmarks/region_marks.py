"""How often the marked rectangles of a PDF page hold exactly the quote: letters and digits of both are compared.

    python benchmarks/region_marks.py FOLDER [FOLDER ...] --quotes 500 --json

Quotes are what answers cite: one to three following lines of the indexed text, from everywhere in the documents. What
stands inside the rectangles is read from the page again: the characters whose middle lies in one of them.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import Counter
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from ragkit.load.pages.pdf import PdfLoader
from ragkit.load.pages.pdfium import PdfiumFile
from ragkit.load.pages.rectangles import Rectangle, document_rectangles
from ragkit.records import Document

MIN_LETTERS = 12
"""Letters and digits of a quote, at least."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--quotes", type=int, default=500)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    files = sorted(file for folder in options.folders for file in folder.rglob("*.pdf"))
    chance = random.Random(options.seed)
    counts: Counter[str] = Counter()
    failures = []
    for number, file in enumerate(files):
        data = file.read_bytes()
        document = PdfLoader().load(data, str(file))
        share = (number + 1) * options.quotes // len(files) - number * options.quotes // len(files)
        for start, end in sample_quotes(document, chance, share):
            quote = document.text[start:end]
            verdict, found = judge(data, document_rectangles(data, document, start, end), quote)
            counts[verdict] += 1
            if verdict != "equal":
                failures.append({"file": file.name, "verdict": verdict, "quote": quote, "found": found})
    total = counts.total()
    result = {"files": len(files), "quotes": total, **counts, "share": round(counts["equal"] / max(1, total), 4)}
    print(json.dumps({**result, "failures": failures}, indent=1) if options.json else result)


def sample_quotes(document: Document, chance: random.Random, count: int) -> list[tuple[int, int]]:
    """Spans of one to three following lines, each with enough letters."""
    text, spans = document.text, list[tuple[int, int]]()
    lines = [(start, start + len(line)) for start, line in line_starts(text) if len(key(line)) >= MIN_LETTERS]
    while lines and len(spans) < count:
        first = chance.randrange(len(lines))
        last = min(first + chance.choice((0, 0, 0, 1, 2)), len(lines) - 1)
        if lines[last][1] - lines[first][0] < 2000:
            spans.append((lines[first][0], lines[last][1]))
    return spans


def line_starts(text: str) -> list[tuple[int, str]]:
    """The lines of a text with their offsets."""
    found, start = [], 0
    for line in text.split("\n"):
        found.append((start, line))
        start += len(line) + 1
    return found


def judge(data: bytes, rectangles: list[Rectangle], quote: str) -> tuple[str, str]:
    """`equal`, `none` without rectangles, `more`, `less` or `other`; and what stands in the rectangles."""
    if not rectangles:
        return "none", ""
    found = ""
    with PdfiumFile(data, "") as pdf:
        for number, group in groupby(rectangles, attrgetter("page")):
            page = pdf.page(number - 1)
            assert page is not None, "its rectangles were just read"
            with page:
                found += text_inside(page.text, page.boxes(range(len(page.text))).tolist(), list(group))
    wanted, got = Counter(key(quote)), Counter(key(found))
    if wanted == got:
        return "equal", found
    return ("more" if not wanted - got else "less" if not got - wanted else "other"), found


def text_inside(text: str, boxes: list[list[float]], rectangles: list[Rectangle]) -> str:
    """The characters whose middle lies in a rectangle."""
    kept = []
    for char, (left, top, right, bottom) in zip(text, boxes, strict=True):
        x, y = (left + right) / 2, (top + bottom) / 2
        if any(box.left <= x <= box.right and box.bottom <= y <= box.top for box in rectangles):
            kept.append(char)
    return "".join(kept)


def key(text: str) -> str:
    """Its letters and digits, folded."""
    return "".join(char.lower() for char in text if char.isalnum())


if __name__ == "__main__":
    main()
