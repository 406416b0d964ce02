"""Plain text, verbatim but for the marks of markup, with the headings of reStructuredText, AsciiDoc, LaTeX and Org."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from ragkit.load.file_types import file_suffix
from ragkit.load.options import LOADER_VERSIONS, TextOptions
from ragkit.load.shared.encoding import decode_bytes
from ragkit.load.shared.layout_blocks import TextLayout
from ragkit.load.shared.loader_utils import build_document, collapse_whitespace, line_starts
from ragkit.load.shared.noise import LEFT_OUT
from ragkit.load.text.front_matter import find_access
from ragkit.load.text.program_files import written_words
from ragkit.load.text.subtitles import is_subtitles, read_subtitles
from ragkit.load.text.text_markup import HIDERS, latex_table_headings
from ragkit.records import JSON, Document, Heading

MARKUP_BY_SUFFIX: Mapping[str, str] = {
    ".rst": "rst",
    ".adoc": "asciidoc",
    ".asciidoc": "asciidoc",
    **dict.fromkeys((".latex", ".ltx", ".sty", ".tex"), "latex"),
    ".org": "org",
}
"""Suffix -> format with headings."""

LATEX_LEVELS: Mapping[str, int] = {
    **{"title": 1, "part": 1, "chapter": 1, "section": 2, "subsection": 3, "subsubsection": 4},
    **{"frametitle": 4, "paragraph": 5, "subparagraph": 6},
}

_ASCIIDOC_HEADING = re.compile(r"^(={1,6})[ \t]+(\S.{0,500})$", re.MULTILINE)
_ORG_HEADING = re.compile(r"^(\*{1,9})[ \t]++(\S.{0,500}?)(?:[ \t]:[\w@#%:]{1,200}:[ \t]*+)?$", re.MULTILINE)
_LATEX_HEADING = re.compile(
    r"^[ \t]{0,20}(?:\\(?:clear(?:double)?page|newpage|pagebreak)[ \t]{0,9}){0,3}"
    r"\\(title|part|chapter|(?:sub){0,2}section|(?:sub)?paragraph|frametitle)\*?[ \t]{0,3}(?:\[[^\]\n]{0,200}\])?"
    r"\{((?:[^{}\n]|\{[^{}\n]{0,200}\}){1,500})\}",
    re.MULTILINE,
)
_LATEX_PACKAGE = re.compile(r"^\\(?:NeedsTeXFormat|documentclass|Provides[CPFE]\w{3,20})\b", re.MULTILINE)
"""How files of LaTeX with other suffixes begin."""
_OTHER_TEXTS = frozenset({".dtx", ".log", ".text", ".txt"})
"""What may begin so and is none; `.dtx` are manuals, written as comments."""
_LATEX_COMMAND = re.compile(r"\\[a-zA-Z]{1,30}\*?|[{}~]")
_ADORNMENT = re.compile(r"([=\-~^\"'`#*+.:_])\1{2,}$")


class TextLoader:
    """Keeps the length of the text without the byte order mark; finds headings by the suffix of the file."""

    version = LOADER_VERSIONS["text"]

    def __init__(self, options: TextOptions | None = None) -> None:
        self.options = options or TextOptions()

    def load(self, data: bytes, source: str) -> Document:
        """The text of `data`; invalid bytes are replaced. Raises InvalidOption for an unknown encoding."""
        decoded = decode_bytes(data, self.options.encoding)
        suffix = file_suffix(source)
        is_latex = suffix not in _OTHER_TEXTS and _LATEX_PACKAGE.search(decoded.text[:4000]) is not None
        kind = MARKUP_BY_SUFFIX.get(suffix, "latex" if is_latex else "text")
        if kind == "text" and is_subtitles(decoded.text):
            return read_subtitles(decoded, source)
        access = find_access(decoded.text)
        text = access.hide(decoded.text)
        if (words := written_words(text)) is not None:
            return build_document(kind, source, words, {LEFT_OUT: len(text) - len(words), **access.metadata})
        finder, hider = _HEADING_FINDERS.get(kind), HIDERS.get(kind)
        tables: tuple[Heading, ...] = ()
        fields: Mapping[str, JSON] = {}
        if hider:
            tables = tuple(latex_table_headings(text)) if kind == "latex" else ()
            text, fields = hider(text)
        found = tuple(finder(text)) if finder else ()
        title = str(fields.get("title", "")) or (found[0].text if found else "")
        headings = tuple(sorted((*found, *tables), key=lambda heading: heading.start))
        extra: dict[str, JSON] = {**fields, "encoding": decoded.legacy_encoding, **access.metadata}
        return build_document(kind, source, TextLayout(text, headings), extra, title)


def rst_headings(text: str) -> Iterator[Heading]:
    """Headings of reStructuredText: a line with an underline of one punctuation mark, at least as long.

    Each style of underline, with or without overline, is a level, in order of first appearance.
    """
    starts = line_starts(text)
    ends = [*starts[1:], len(text)]
    levels: dict[tuple[str, bool], int] = {}
    before, title, title_start = "", "", 0
    for start, end in zip(starts, ends, strict=True):
        line = text[start:end].rstrip() if end - start < 1000 else ""
        if _is_adornment(line) and title.strip() and not _is_adornment(title) and len(line) >= len(title.strip()):
            over = before == line
            if title[0] != " " or over:
                level = levels.setdefault((line[0], over), len(levels) + 1)
                yield Heading(title_start, level, collapse_whitespace(title))
                line = ""  # an underline is not the overline of the next title
        before, title, title_start = title, line, start


def _line_headings(pattern: re.Pattern[str], levels: Mapping[str, int], text: str) -> Iterator[Heading]:
    """Headings on a line of their own; groups: the mark, whose level is in `levels` or its length, and the title."""
    for found in pattern.finditer(text):
        mark, title = found[1], _LATEX_COMMAND.sub("", found[2]) if levels else found[2]
        if title := collapse_whitespace(title):
            yield Heading(found.start(), levels.get(mark, len(mark)), title)


def _is_adornment(line: str) -> bool:
    return _ADORNMENT.match(line) is not None


_HEADING_FINDERS: Mapping[str, Callable[[str], Iterator[Heading]]] = {
    "rst": rst_headings,
    "asciidoc": partial(_line_headings, _ASCIIDOC_HEADING, {}),
    "latex": partial(_line_headings, _LATEX_HEADING, LATEX_LEVELS),
    "org": partial(_line_headings, _ORG_HEADING, {}),
}
