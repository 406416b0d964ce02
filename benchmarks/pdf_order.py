"""Measure the order of text of PDF files: python -m benchmarks.pdf_order [--lines] FILE.pdf...

Tagged files say in which order the parts of a page are read. Each part of at least 40 letters and digits is looked for
in the text of the loader; Kendall's tau compares the order of those that stand on the page once.

`--lines` needs no tags: lines of prose that follow each other in the text of pdftotext (poppler) are looked for in the
text of the loader and in that of PDFium, which is in the order of the file. A page is clearly worse than the file when
it keeps at least two pairs of lines and 5 % less together. Scans are not read.
"""

from __future__ import annotations

import argparse
import ctypes
import subprocess
from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

from benchmarks.pdf_structure import normalize, page_texts
from ragkit.load.options import PdfOptions
from ragkit.load.pages.pdf import PdfLoader

PART_CHARS = 40
"""Letters and digits at the beginning of a part that are looked for; shorter parts are left out."""
BLOCKS = {"P", "H", "H1", "H2", "H3", "H4", "H5", "H6", "LBody", "Caption", "Note", "BlockQuote", "TD", "TH", "LI"}
"""Tags of paragraphs and what else is read in one piece."""


def marked_texts(page: pdfium.PdfPage) -> dict[int, str]:
    """The text of each marked part of a page, by its number."""
    texts: dict[int, str] = {}
    text_page = page.get_textpage()
    for item in page.get_objects(filter=[pdfium_c.FPDF_PAGEOBJ_TEXT]):
        number = pdfium_c.FPDFPageObj_GetMarkedContentID(item.raw)
        if number >= 0:
            size = pdfium_c.FPDFTextObj_GetText(item.raw, text_page.raw, None, 0)
            buffer = (ctypes.c_ushort * (size // 2 + 1))()
            pdfium_c.FPDFTextObj_GetText(item.raw, text_page.raw, buffer, size)
            texts[number] = texts.get(number, "") + bytes(buffer)[: max(0, size - 2)].decode("utf-16-le", "replace")
    return texts


def tagged_parts(element: Any, texts: dict[int, str]) -> Iterator[str]:
    """The texts of paragraphs below an element, in the order of the tags."""
    size = pdfium_c.FPDF_StructElement_GetType(element, None, 0)
    buffer = ctypes.create_string_buffer(size + 2)
    pdfium_c.FPDF_StructElement_GetType(element, buffer, size)
    if buffer.raw[:size].decode("utf-16-le", "replace").rstrip("\0") in BLOCKS:
        yield "".join(texts.get(number, "") for number in marked_numbers(element))
        return
    for child in range(pdfium_c.FPDF_StructElement_CountChildren(element)):
        below = pdfium_c.FPDF_StructElement_GetChildAtIndex(element, child)
        if below:
            yield from tagged_parts(below, texts)


def marked_numbers(element: Any) -> Iterator[int]:
    """The numbers of the marked parts of an element, in order."""
    for child in range(pdfium_c.FPDF_StructElement_CountChildren(element)):
        number = pdfium_c.FPDF_StructElement_GetChildMarkedContentID(element, child)
        below = pdfium_c.FPDF_StructElement_GetChildAtIndex(element, child)
        if number >= 0:
            yield number
        elif below:
            yield from marked_numbers(below)


def read_parts(page: pdfium.PdfPage) -> list[str]:
    """The paragraphs of a tagged page, in order."""
    tree = pdfium_c.FPDF_StructTree_GetForPage(page.raw)
    if not tree:
        return []
    texts = marked_texts(page)
    children = range(pdfium_c.FPDF_StructTree_CountChildren(tree))
    return [
        part
        for child in children
        for part in tagged_parts(pdfium_c.FPDF_StructTree_GetChildAtIndex(tree, child), texts)
    ]


def kendall_tau(places: Sequence[int]) -> float:
    """1 for ascending numbers, -1 for descending ones."""
    pairs = list(combinations(places, 2))
    return sum(1 if a < b else -1 for a, b in pairs) / len(pairs)


def prose_lines(text: str) -> list[str]:
    """The letters and digits of each line of at least five words."""
    return [
        normalize(line) for line in text.splitlines() if len(line.split()) >= 5 and sum(map(str.isalpha, line)) >= 25
    ]


def pairs_kept(lines: Sequence[tuple[int, int]]) -> int:
    """How many lines, as (place, length), follow the one before them, with at most a short line between."""
    return sum(0 <= place - before - length <= 60 for (before, length), (place, _) in pairwise(lines))


def compare_lines(paths: Sequence[Path], max_pages: int, worst: int) -> None:
    """Print how many pairs of lines follow each other in the loader's text, and in the order of the file."""
    loader = PdfLoader(PdfOptions(ocr=None))
    kept, in_file, total, pages = 0, 0, 0, 0
    apart: list[tuple[float, str, int]] = []
    for path in paths:
        pdf = pdfium.PdfDocument(path)
        document = loader.load(path.read_bytes(), str(path))
        garbled = document.metadata.get("pages_garbled") or []
        command = ["pdftotext", "-cropbox", "-l", str(max_pages), str(path), "-"]
        wanted = subprocess.run(command, capture_output=True, check=True).stdout.decode("utf-8", "replace").split("\f")
        for number, (text, lines) in enumerate(zip(page_texts(document), map(prose_lines, wanted), strict=False), 1):
            ours, theirs = normalize(text), normalize(pdf[number - 1].get_textpage().get_text_range())
            once = [line for line in lines if ours.count(line) == 1 and theirs.count(line) == 1]
            if len(once) < 5 or (isinstance(garbled, list) and number in garbled):
                continue
            here = pairs_kept([(ours.find(line), len(line)) for line in once])
            there = pairs_kept([(theirs.find(line), len(line)) for line in once])
            count = len(once) - 1
            kept, in_file, total, pages = kept + here, in_file + there, total + count, pages + 1
            if abs(here - there) >= 2 and abs(here - there) > 0.05 * count:
                apart.append(((here - there) / count, path.name, number))
    worse = sum(difference < 0 for difference, *_ in apart)
    files = f"{pages} pages of {len(paths)} files"
    print(f"{files}, {total} pairs of lines: {kept / total:.4f} kept, {in_file / total:.4f} in the file")
    print(f"clearly worse than the file: {worse} ({worse / pages:.2%}), clearly better: {len(apart) - worse}")
    for difference, name, page in sorted(apart)[:worst]:
        print(f"{difference:.2f} {name} page {page}")


def main() -> None:
    """Print the mean over all pages with at least five parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--worst", type=int, default=0, help="pages to print")
    parser.add_argument("--lines", action="store_true", help="compare lines with pdftotext, without tags")
    parser.add_argument("--max-pages", type=int, default=60, help="pages of each file that --lines reads")
    options = parser.parse_args()
    if options.lines:
        compare_lines(options.files, options.max_pages, options.worst)
        return
    scores: list[tuple[float, str, int, int]] = []
    wanted = found = 0
    for path in options.files:
        pdf = pdfium.PdfDocument(path)
        texts = page_texts(PdfLoader().load(path.read_bytes(), str(path)))
        for number, page in enumerate(pdf):
            text = normalize(texts[number])
            parts = [part[:PART_CHARS] for part in map(normalize, read_parts(page)) if len(part) >= PART_CHARS]
            places = [text.find(part) for part in parts if text.count(part) == 1]
            wanted, found = wanted + len(parts), found + len(places)
            if len(places) >= 5:
                scores.append((kendall_tau(places), path.name, number + 1, len(places)))
    mean = sum(score for score, *_ in scores) / max(1, len(scores))
    files = len({name for _, name, *_ in scores})
    print(f"{len(scores)} tagged pages of {files} files, {found} of {wanted} parts found once: mean tau {mean:.4f}")
    for score, name, page_number, count in sorted(scores)[: options.worst]:
        print(f"{score:.2f} {name} page {page_number}, {count} parts")


if __name__ == "__main__":
    main()
