"""Measure how well the text of web pages is told from what stands around it: menus, cookie notices, related links.

    python -m benchmarks.html_text FOLDER... [--reader ragkit|everything|trafilatura|readability] [--half 0|1]

Each FOLDER holds pages with their texts in one of these forms:
- WCXB (Murrough-Foley/web-content-extraction-benchmark, CC BY 4.0): `html/*.html.gz`, `ground-truth/*.json`;
- scrapinghub/article-extraction-benchmark (MIT): `html/*.html.gz`, `ground-truth.json`;
- mozilla/readability (Apache 2.0), `test/test-pages`: `*/source.html`, `*/expected.html`;
- HTML written by Sphinx: pages with their sources, `_sources/*.txt`.

Printed for each folder, as means over its pages: the precision and recall of words (letters and digits in lower case,
each counted as often as it occurs). The sources that Sphinx keeps lack what it generates, such as the documentation of
functions, so they measure recall. Titles of pages and captions of figures are text; some of the sets leave them out, so
their words do not count against a reader. The other readers are installed by the caller, and run for comparison only;
`everything` keeps all visible text. `--half` takes every second site: choose rules on one half, measure on the other.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from urllib.parse import urlsplit

from lxml import etree, html

from ragkit.load.html.html import HtmlLoader
from ragkit.load.options import HtmlOptions

_WORD = re.compile(r"\w+")
_MARKUP = re.compile(r"^\s*(?:\.\. .*|:[\w-]+:.*|[=\-~^\"'*+#`]{3,}\s*)$|:[\w:+-]+:(?=`)|<[^<>`]*>(?=`)", re.MULTILINE)
"""Directives, fields, underlines, roles and targets of reStructuredText."""


@dataclass(frozen=True)
class Page:
    """A page and its text."""

    name: str
    site: str
    kind: str
    data: bytes
    text: str


def read_pages(folder: Path) -> Iterator[Page]:
    """The pages of a folder."""
    if (folder / "ground-truth.json").is_file():
        for name, truth in sorted(json.loads((folder / "ground-truth.json").read_text()).items()):
            data = gzip.decompress((folder / "html" / f"{name}.html.gz").read_bytes())
            yield Page(name[:12], _site(truth["url"]), "article", data, truth["articleBody"])
    elif (folder / "ground-truth").is_dir():
        for path in sorted((folder / "ground-truth").glob("*.json")):
            truth = json.loads(path.read_text())
            data = gzip.decompress((folder / "html" / f"{path.stem}.html.gz").read_bytes())
            kind = truth["_internal"]["page_type"]["primary"]
            if text := truth["ground_truth"].get("main_content"):
                yield Page(path.stem, _site(truth.get("url") or path.stem), kind, data, text)
    elif any(folder.rglob("_sources")):
        for path in sorted(folder.rglob("_sources/**/*.txt")):
            root = next(parent for parent in path.parents if parent.name == "_sources")
            page = root.parent / path.relative_to(root).with_suffix("").with_suffix(".html")
            if page.is_file():
                text = _MARKUP.sub(" ", path.read_text(errors="replace"))
                yield Page(str(page.relative_to(folder)), str(root.parent), "sphinx", page.read_bytes(), text)
    else:
        for path in sorted(folder.glob("*/source.html")):
            wanted = html.fromstring(path.with_name("expected.html").read_text()).itertext()
            yield Page(path.parent.name, path.parent.name, "article", path.read_bytes(), " ".join(wanted))


def _site(url: str) -> str:
    return urlsplit(url).netloc.removeprefix("www.")


def score(found: str, page: Page) -> tuple[float, float]:
    """Precision and recall of the words."""
    a, b = count_words(found), count_words(page.text)
    right = (a & b).total()
    a -= count_words(captions(page.data)) - b
    return (right / a.total() if a else float(not b)), (right / b.total() if b else 1.0)


def count_words(text: str) -> Counter[str]:
    """Word -> how often it occurs."""
    return Counter(_WORD.findall(text.lower()))


def captions(data: bytes) -> str:
    """The title of a page, its headings of the first level, and the captions of figures."""
    try:
        found = html.fromstring(data).xpath("//title | //h1 | //figcaption")
    except (etree.LxmlError, ValueError):
        return ""
    return " ".join(" ".join(element.itertext()) for element in found)


def read_ragkit(data: bytes) -> str:
    """The text that is indexed."""
    return HtmlLoader().load(data, "page").text


def read_everything(data: bytes) -> str:
    """All visible text."""
    return HtmlLoader(HtmlOptions(navigation=True)).load(data, "page").text


def read_trafilatura(data: bytes) -> str:
    """The text of trafilatura, with the option for recall."""
    import trafilatura  # type: ignore[import-not-found]

    return trafilatura.extract(data, favor_recall=True, include_comments=False) or ""


def read_readability(data: bytes) -> str:
    """The text of readability-lxml."""
    import readability  # type: ignore[import-not-found]

    try:
        summary = readability.Document(data.decode("utf-8", "replace")).summary()
    except (readability.readability.Unparseable, ValueError) as error:
        print(f"not parsed: {error}")
        return ""
    return " ".join(html.fromstring(summary).itertext())


READERS: dict[str, Callable[[bytes], str]] = {
    "ragkit": read_ragkit,
    "everything": read_everything,
    "trafilatura": read_trafilatura,
    "readability": read_readability,
}


def print_means(label: str, scores: Sequence[tuple[float, float]]) -> None:
    """One line of means."""
    precision, recall = (fmean(values) for values in zip(*scores, strict=True))
    print(f"{label:28} {len(scores):5} pages  precision {precision:.3f}  recall {recall:.3f}")


def main() -> None:
    """Print the means of each folder and kind of page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--reader", choices=sorted(READERS), default="ragkit")
    parser.add_argument("--half", type=int, choices=(0, 1), help="every second site")
    parser.add_argument("--worst", type=int, default=0, metavar="N", help="pages of the lowest precision and recall")
    options = parser.parse_args()
    read, seconds = READERS[options.reader], 0.0
    for folder in options.folders:
        scores: dict[tuple[str, str], tuple[float, float]] = {}
        for page in read_pages(folder):
            if options.half is not None and zlib.crc32(page.site.encode()) % 2 != options.half:
                continue
            started = time.process_time()
            text = read(page.data)
            seconds += time.process_time() - started
            scores[page.kind, page.name] = score(text, page)
        for kind in sorted({kind for kind, _ in scores}):
            print_means(f"{folder.name}, {kind}", [value for (other, _), value in scores.items() if other == kind])
        print_means(folder.name, list(scores.values()))
        for column, figure in enumerate(("precision", "recall")):
            for key in sorted(scores, key=lambda key: scores[key][column])[: options.worst]:
                print(f"  {figure} {scores[key][column]:.2f}: {' '.join(key)}")
    print(f"{options.reader}: {seconds:.1f} CPU-s")


if __name__ == "__main__":
    main()
