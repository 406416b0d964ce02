"""Measure the order of paragraphs of PDF files against their tags: python -m benchmarks.pdf_order FILE.pdf...

Tagged files say in which order the parts of a page are read. Each part of at least 40 letters and digits is looked for
in the text of the loader; Kendall's tau compares the order of those that stand on the page once.
"""

from __future__ import annotations

import argparse
import ctypes
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

from benchmarks.pdf_structure import normalize, page_texts
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


def main() -> None:
    """Print the mean over all pages with at least five parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--worst", type=int, default=0, help="pages to print")
    options = parser.parse_args()
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
