"""Measure how well scanned pages are read: characters that are wrong, in order, and the time and memory that it takes.

    python -m benchmarks.ocr_pages LANGUAGE:FILE.pdf... [--pages N] [--data FOLDER]

Pages with text are drawn at 150 and 200 dpi, clean and as a scanner leaves them (turned by up to 0.7 degrees, blurred,
paler, with noise and specks), and read as images. What the loader reads from the same page of the PDF file is the
truth. Wrong: the edit distance between both texts, without white space, leaders and cell separators, and with plain
quotes and dashes, over the length of the truth. Text in another order counts as wrong.
"""

from __future__ import annotations

import argparse
import io
import platform
import random
import re
import resource
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from statistics import mean, median

import numpy as np
import pypdfium2 as pdfium
from numpy.typing import NDArray
from PIL import Image, ImageFilter

from ragkit.load.ocr_options import OcrOptions
from ragkit.load.options import ImageOptions, PdfOptions
from ragkit.load.pages.ocr.image import ImageLoader
from ragkit.load.pages.pdf import PdfLoader

SEED = 3
MIN_CHARS = 800
"""Pages with fewer characters are covers and the like."""
PLAIN = str.maketrans(
    {"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u2013": "-", "\u2014": "-", "\u2212": "-"}
)
LEADERS = re.compile(r"\.(?:\s*\.)+")
"""The dots between a title and its page in a table of contents."""
VARIANTS = ((150, False), (200, False), (150, True), (200, True))


def normalize(text: str) -> NDArray[np.uint32]:
    """The code points of a text without white space and leaders, quotes and dashes made plain."""
    plain = "".join(LEADERS.sub(" ", text.translate(PLAIN)).replace("|", " ").split())
    return np.frombuffer(plain.encode("utf-32-le"), dtype=np.uint32)


def edit_distance(first: NDArray[np.uint32], second: NDArray[np.uint32]) -> int:
    """Insertions, deletions and replacements (Levenshtein 1966), one row of the table at a time."""
    positions = np.arange(len(second) + 1)
    row = positions.copy()
    for number, char in enumerate(first, start=1):
        best = np.minimum(row[:-1] + (second != char), row[1:] + 1)
        row = np.minimum.accumulate(np.concatenate(([number], best)) - positions) + positions
    return int(row[-1])


def as_scanned(image: Image.Image, seed: int) -> Image.Image:
    """The page as a scanner leaves it."""
    rng = np.random.default_rng(seed)
    turned = image.rotate(rng.uniform(-0.7, 0.7), fillcolor=255, resample=Image.Resampling.BICUBIC)
    pixels = np.asarray(turned.filter(ImageFilter.GaussianBlur(0.6))).astype(float)
    pixels = pixels * 0.88 + 12 + rng.normal(0, 12, pixels.shape)
    pixels[rng.random(pixels.shape) < 0.0008] = 0
    return Image.fromarray(pixels.clip(0, 255).astype("uint8"))


def visible_chars(page: pdfium.PdfPage) -> int:
    """The characters of a page; 0 if a table runs over its edge, so that not all of them can be seen."""
    text = page.get_textpage()
    left, bottom, right, top = page.get_bbox()
    shown = text.get_text_bounded(left, bottom, right, top)
    every = text.get_text_range()
    return len(every) if len("".join(shown.split())) >= 0.98 * len("".join(every.split())) else 0


def sample_pages(path: Path, count: int) -> Iterator[tuple[int, bytes, pdfium.PdfPage]]:
    """Pages with text: number, a PDF file of this page alone, and the page."""
    with pdfium.PdfDocument(path) as document:
        numbers = [n for n in range(len(document)) if visible_chars(document[n]) >= MIN_CHARS]
        for number in sorted(random.Random(SEED).sample(numbers, min(count, len(numbers)))):
            single = pdfium.PdfDocument.new()
            single.import_pages(document, [number])
            buffer = io.BytesIO()
            single.save(buffer)
            yield number, buffer.getvalue(), document[number]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="LANGUAGE:FILE.pdf")
    parser.add_argument("--pages", type=int, default=15, help="Pages of each file.")
    parser.add_argument("--data", default="", help="Folder with the data of the languages.")
    arguments = parser.parse_args()
    print(f"ragkit {version('ragkit-kb')}, tesserocr {version('tesserocr')}, Python {platform.python_version()}")
    totals: dict[tuple[int, bool], list[tuple[float, float]]] = {variant: [] for variant in VARIANTS}
    for name in arguments.files:
        language, _, file = name.partition(":")
        reader = ImageLoader(ImageOptions(ocr=OcrOptions((language,), data=arguments.data)))
        found: dict[tuple[int, bool], list[tuple[float, float]]] = {variant: [] for variant in VARIANTS}
        for number, single, page in sample_pages(Path(file), arguments.pages):
            truth = normalize(PdfLoader(PdfOptions(ocr=None)).load(single, file).text)
            for dpi, noisy in VARIANTS:
                image = page.render(scale=dpi / 72, grayscale=True).to_pil()
                picture = io.BytesIO()
                (as_scanned(image, number) if noisy else image).save(picture, "PNG", dpi=(dpi, dpi))
                started = time.process_time()
                text = reader.load(picture.getvalue(), f"{number}.png").text
                seconds = time.process_time() - started
                found[dpi, noisy].append((edit_distance(truth, normalize(text)) / len(truth), seconds))
        for variant, rows in found.items():
            report(f"{language} {Path(file).name}", variant, rows)
            totals[variant] += rows
    for variant, rows in totals.items():
        report("all", variant, rows)
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB")


def report(name: str, variant: tuple[int, bool], rows: list[tuple[float, float]]) -> None:
    """One line of figures."""
    wrong = [share for share, _ in rows]
    dpi, noisy = variant
    print(
        f"{name}, {dpi} dpi, {'noisy' if noisy else 'clean'}: {len(rows)} pages, wrong mean {mean(wrong):.2%}, "
        f"median {median(wrong):.2%}, worst {max(wrong):.2%}; {mean(s for _, s in rows):.2f} CPU-s a page",
        flush=True,
    )


if __name__ == "__main__":
    main()
