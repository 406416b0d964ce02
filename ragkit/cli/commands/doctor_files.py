"""`ragkit doctor FILE`: what arrives of a file, and what leaves on the way, step by step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ragkit.errors import LoadError
from ragkit.index.reading_notes import PAGES_WITH_PICTURES, PAGES_WITHOUT_TEXT, describe_pages
from ragkit.load.html.html import HtmlLoader
from ragkit.load.options import HtmlOptions
from ragkit.load.router import LoaderRoute, Router
from ragkit.load.shared.noise import LEFT_OUT
from ragkit.places import OCR_PAGES
from ragkit.records import JSON, Document

MAX_SHOWN = 5
"""Running heads that are shown."""
_KINDS = {
    "pages_unreadable": "pages that cannot be read",
    PAGES_WITHOUT_TEXT: "scanned pages that were not read",
    PAGES_WITH_PICTURES: "pages with pictures of text that were not read",
    OCR_PAGES: "pages read by OCR",
    "pages_garbled": "pages whose fonts have no characters",
    "invalid_lines": "lines that are no JSON",
}


def examine_file(path: Path, routes: Sequence[LoaderRoute]) -> dict[str, JSON]:
    """The counts of one file, by name; `error` if it cannot be read."""
    try:
        data = path.read_bytes()
        loader, document = Router(routes).load(data, str(path))
    except (LoadError, OSError) as error:
        return {"file": str(path), "error": str(error)}
    counts: dict[str, JSON] = {
        "file": str(path), "loader": loader, "title": document.title, "headings": len(document.headings),
        "letters": sum(map(str.isalnum, document.text)), "letters_read": document.metadata.get("letters_read"),
        "pages_empty": [*_empty_pages(document)],
    }  # fmt: skip
    if loader == "html":
        whole = HtmlLoader(HtmlOptions(navigation=True)).load(data, str(path))
        counts["letters_read"] = sum(map(str.isalnum, whole.text))
    names = (
        "letters_outside_page", "letters_in_running_heads", "running_heads", "letters_lost", "pages_with_loss",
        "ocr_confidence", LEFT_OUT, *_KINDS,
    )  # fmt: skip
    return {**counts, **{name: document.metadata[name] for name in names if name in document.metadata}}


def _empty_pages(document: Document) -> Iterator[int]:
    ends = [*document.page_starts[1:], len(document.text)]
    for number, (start, end) in enumerate(zip(document.page_starts, ends, strict=False), start=1):
        if not document.text[start:end].strip():
            yield number


def describe_file(counts: Mapping[str, JSON]) -> Iterator[str]:
    """The lines for a terminal."""
    yield f"{counts['file']}: {counts.get('error') or describe_text(counts)}"
    if "letters_outside_page" in counts:
        yield f"  {counts['letters_outside_page']:,} letters outside the visible part of a page left out"
    if "letters_in_running_heads" in counts:
        heads = [str(head) for head in _list(counts.get("running_heads"))]
        shown = "; ".join(f"{head!r}" for head in heads[:MAX_SHOWN]) + ("; ..." if len(heads) > MAX_SHOWN else "")
        named = f": {shown}" if shown else ""
        yield f"  {counts['letters_in_running_heads']:,} letters of running heads and page numbers taken out{named}"
    if counts.get("loader") == "html":
        left = int(str(counts["letters_read"])) - int(str(counts["letters"]))
        yield f"  {max(left, 0):,} letters of menus, sidebars, page heads and feet left out"
    if LEFT_OUT in counts:
        yield f"  {counts[LEFT_OUT]:,} characters that are no text left out, such as base64"
    for name, text in {**_KINDS, "pages_empty": "pages without text"}.items():
        value = counts.get(name)
        pages = [page for page in _list(value) if isinstance(page, int)]
        if value:
            yield f"  {text}: {describe_pages(pages) if pages else value}"
    if counts.get("loader") == "pdf":
        pages = [page for page in _list(counts.get("pages_with_loss")) if isinstance(page, int)]
        yield f"  {counts.get('letters_lost', 0):,} letters lost{f' on page {describe_pages(pages)}' if pages else ''}"


def describe_text(counts: Mapping[str, JSON]) -> str:
    """One line on the text of a file."""
    title = f"title {counts['title']!r}" if counts["title"] else "no title"
    read = f"{counts['letters_read']:,} letters and digits read, " if counts["letters_read"] is not None else ""
    return f"{counts['loader']}, {read}{counts['letters']:,} in the text, {counts['headings']} headings, {title}"


def _list(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else []
