"""Clean the text of a PDF page, join pages, convert the outline to headings.

Independent of the PDF library.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ragkit.distribution import install_command
from ragkit.errors import LoadError, LoadLimitExceeded
from ragkit.load.options import PypdfOptions
from ragkit.load.process.parser_state import reads_scans
from ragkit.load.shared.layout_blocks import TextLayout, shift_layout
from ragkit.load.shared.loader_utils import build_metadata, collapse_whitespace
from ragkit.load.shared.noise import LEFT_OUT
from ragkit.records import JSON, Document, Heading

PAGE_BREAK = "\n\n"
MAX_OUTLINE_ENTRIES = 5_000
"""Entries of an outline that are read."""
MAX_NUMBER_CHARS = 16
"""What may stand before a title on its line is shorter."""
MAX_TITLE_PLACES = 20
"""Places of a page at which the title of an entry of the outline is looked for a line that begins with it."""

DECRYPT_HINT = "remove its password, for example with `qpdf --decrypt --password=... in.pdf out.pdf`"
NO_TEXT_HINT = "the loader 'pdf' reads scans with its option `ocr`: for faint print raise `dpi`"
SAVE_PDF_AGAIN_HINT = "open it in a PDF viewer and save it again"

_DROPPED_CHARS = re.compile("[\x00-\x08\x0b\x0e-\x1f\u200b\ufeff\ufffe\uffff\ud800-\udfff]")
_SPACED_OUT = re.compile(r"(?:[\u3400-\u9fff\uf900-\ufaff] ){3,}[\u3400-\u9fff\uf900-\ufaff]")
"""Chinese characters that are set with gaps."""
_RARE = re.compile("[\x00-\x08\x0b-\x1f\xa0\xad\u2010\u200b\ufeff\ufffe\uffff\ud800-\udfff]")
"""What `clean_page_text` replaces, or may: most texts have none."""
_SURROGATES = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_HYPHEN_MARK = "[\ufffe\x02]\n?"
"""How PDFium encodes a hyphen at the end of a line; it usually removes the line break too."""
_HYPHEN_MARK_PATTERN = re.compile(_HYPHEN_MARK)
_LINE_END_HYPHEN = re.compile(f"(?<=[^\\W\\d_])(?:{_HYPHEN_MARK}|[-\u00ad\u2010]\n)(?=[^\\W\\d_])")
_COMPOUND = re.compile(r"[^\W\d_]{2,40}-[^\W\d_]{2,40}(?![^\W\d_])")
_WORD_END = re.compile(r"[^\W\d_]{1,40}\Z")
_WORD_START = re.compile(r"[^\W\d_]{1,40}")
_NUMBER_BEFORE = re.compile(r"(?:[A-Z\d][\d.]{0,9}\s{1,4})?", re.IGNORECASE)
"""What stands before a heading on its line."""
_FILE_NAME_TITLE = re.compile(r"\.(docx?|xlsx?|pptx?|pdf|tex|dvi|ps|indd|qxd|rtf|odt|pmd|fm|wpd|html?)$", re.IGNORECASE)
_PLACEHOLDER_TITLE = re.compile(
    r"(?i)(untitled\b.*|document\s*\d*|title|no title|slide \d+|powerpoint presentation|r graphics output|\(null\))$"
)
_APPLICATION_PREFIX = re.compile(r"(?i)^(microsoft (office )?(word|powerpoint|excel)|powerpoint presentation) - ")


@dataclass(frozen=True, slots=True)
class OutlineEntry:
    """An entry of a PDF outline."""

    title: str
    level: int
    """From 1 (highest)."""
    page: int
    """From 0."""


@dataclass(frozen=True, slots=True)
class PdfContent:
    """The content of a PDF file, as read by a PDF library."""

    pages: Sequence[TextLayout | None]
    """The text of each page with its headings, with offsets from its start; None when the page is unreadable."""
    outline: Sequence[OutlineEntry]
    title: str
    author: str
    extra: Mapping[str, JSON] = field(default_factory=dict)
    """More metadata; empty values are left out."""


def check_page_count(count: int, options: PypdfOptions, source: str) -> None:
    """Raises LoadLimitExceeded above `max_pages`."""
    if count > options.max_pages:
        raise LoadLimitExceeded(source, f"has {count} pages, the limit is {options.max_pages}", "raise max_pages")


def find_compounds(lines: Iterable[str]) -> frozenset[str]:
    """The words with a hyphen inside a line, in lower case: `mixed-mode`."""
    return frozenset(word.lower() for line in lines if "-" in line for word in _COMPOUND.findall(line))


def clean_page_text(text: str, *, join_hyphens: bool, compounds: Collection[str] = ()) -> str:
    """The text of a page with LF line breaks and without control characters; `compounds` keep their hyphen."""
    if not text.isascii():
        text = _SPACED_OUT.sub(lambda run: run[0].replace(" ", ""), text)
    has_marks = _RARE.search(text) is not None
    if has_marks:
        text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\x0c", "\n").replace("\xa0", " ")
    if join_hyphens and (has_marks or "-\n" in text):
        text = _join_hyphenated_words(text, compounds)
    if has_marks:
        text = _SURROGATES.sub(lambda pair: pair[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le"), text)
        text = _DROPPED_CHARS.sub("", _HYPHEN_MARK_PATTERN.sub("-", text))
    return "\n".join(map(str.rstrip, text.split("\n"))).strip()


def _join_hyphenated_words(text: str, compounds: Collection[str]) -> str:
    """Join words that are hyphenated at the end of a line and continue in lower case."""
    parts: list[str] = []
    last = 0
    for cut in _LINE_END_HYPHEN.finditer(text):
        if text[cut.end()].islower():
            parts.append(text[last : cut.start()])
            last = cut.end()
            if compounds and _compound_at(text, cut) in compounds:
                parts.append("-")
    return "".join([*parts, text[last:]])


def _compound_at(text: str, cut: re.Match[str]) -> str:
    """The word around a hyphen at the end of a line, with it."""
    before = _WORD_END.search(text, max(0, cut.start() - 40), cut.start())
    behind = _WORD_START.match(text, cut.end())
    return f"{before[0] if before else ''}-{behind[0] if behind else ''}".lower()


def build_pdf_document(pages: PdfContent, source: str, kind: str = "pdf") -> Document:
    """One Document of all pages. Raises LoadError when no page has text."""
    texts = [page.text if page else "" for page in pages.pages]
    unreadable = pages.pages.count(None)
    if not any(texts):
        if texts and unreadable == len(texts):
            raise LoadError(source, "no page can be read", SAVE_PDF_AGAIN_HINT)
        scanned = pages.extra.get("pages_without_text")
        if not scanned and not pages.extra.get(LEFT_OUT):
            raise LoadError(source, "no text on its pages", NO_TEXT_HINT)
        if scanned and reads_scans():
            fix = f"{install_command('ocr')}, then run `ragkit index --retry-failed`"
            raise LoadError(source, "no text layer (a scan?)", fix)
    starts = [0]
    for text in texts[:-1]:
        starts.append(starts[-1] + len(text) + len(PAGE_BREAK))
    extra: dict[str, JSON] = {"author": collapse_whitespace(pages.author), "pages": len(texts), **pages.extra}
    if unreadable:
        extra["pages_unreadable"] = unreadable
    shifted = [shift_layout(page, start) for page, start in zip(pages.pages, starts, strict=True) if page]
    headings = [*(heading for page in shifted for heading in page.headings)]
    headings += _outline_headings(pages.outline, texts, starts)
    return Document(
        text=PAGE_BREAK.join(texts),
        metadata=build_metadata(kind, source, extra),
        source=source,
        title=clean_title(pages.title),
        page_starts=tuple(starts),
        headings=tuple(sorted(headings, key=lambda heading: (heading.start, heading.level))),
        format=kind,
    )


def clean_title(title: str) -> str:
    """A title from the metadata, or '' for placeholders and file names that programs insert."""
    title = _APPLICATION_PREFIX.sub("", collapse_whitespace(_DROPPED_CHARS.sub("", title)))
    if not 3 <= len(title) <= 300 or _PLACEHOLDER_TITLE.match(title) or _FILE_NAME_TITLE.search(title):
        return ""
    return title


def _outline_headings(
    outline: Sequence[OutlineEntry], texts: Sequence[str], starts: Sequence[int]
) -> Iterator[Heading]:
    folded: dict[int, str] = {}
    for entry in outline[:MAX_OUTLINE_ENTRIES]:
        title = collapse_whitespace(_DROPPED_CHARS.sub("", entry.title))
        if title and 0 <= entry.page < len(starts):
            text = texts[entry.page]
            if entry.page not in folded:
                lower = text.lower().replace("\n", " ")
                # few letters are longer in lower case; offsets would not fit
                folded[entry.page] = lower if len(lower) == len(text) else text.replace("\n", " ")
            yield Heading(starts[entry.page] + _find_title(title, text, folded[entry.page]), entry.level, title[:300])


def _find_title(title: str, page: str, folded: str) -> int:
    """The offset of the title on its page, if possible of a line that begins with it or its number; else 0.

    `folded` is the page in lower case without line breaks.
    """
    wanted = " ".join(title.lower().split()[:12])
    found = first = -1
    for _ in range(MAX_TITLE_PLACES):
        found = folded.find(wanted, found + 1)
        if found < 0:
            break
        before = page[max(0, found - MAX_NUMBER_CHARS) : found].rpartition("\n")[2]
        if _NUMBER_BEFORE.fullmatch(before):
            return found - len(before)
        first = found if first < 0 else first
    if first < 0 and "  " in folded:
        match = re.search(r"\s+".join(map(re.escape, wanted.split(" "))), folded)
        first = match.start() if match else -1
    return max(0, first)
