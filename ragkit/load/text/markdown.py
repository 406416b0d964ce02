"""Markdown as a reader of its site sees it, with headings and front matter."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.token import Token

from ragkit.load.file_types import file_suffix
from ragkit.load.options import LOADER_VERSIONS, MarkdownOptions
from ragkit.load.shared.access_field import is_access_field
from ragkit.load.shared.encoding import decode_bytes
from ragkit.load.shared.layout_blocks import TextLayout, shift_layout
from ragkit.load.shared.loader_utils import build_document, collapse_whitespace, line_starts
from ragkit.load.text.front_matter import FrontMatter, blank_text, find_access, front_matter_length, parse_front_matter
from ragkit.load.text.site_markup import hide_markup
from ragkit.records import TABLE_LEVEL, Document, Heading

MAX_PARSED_CHARS = 4_000_000
"""In longer texts, headings are found line by line, without a parser."""

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_ATX_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")


class MarkdownLoader:
    """Keeps the length of the text without the byte order mark, so offsets and line numbers are those of the file."""

    version = LOADER_VERSIONS["markdown"]

    def __init__(self, options: MarkdownOptions | None = None) -> None:
        self.options = options or MarkdownOptions()

    def load(self, data: bytes, source: str) -> Document:
        """The document in `data`. Front matter and marks of site builders have spaces in their place."""
        decoded = decode_bytes(data, self.options.encoding)
        known = parse_front_matter(decoded.text, json_head=True)
        access = find_access(decoded.text, known, closes=True)
        text = access.hide(decoded.text)
        front_matter = known if self.options.front_matter else FrontMatter()
        length = max(front_matter.length, access.length)
        tables: tuple[Heading, ...] = ()
        if self.options.front_matter:
            hidden = front_matter_length(decoded.text, known)
            length = max(length, hidden)
            page = hide_markup(text[length:], is_mdx=file_suffix(source) == ".mdx")
            text = blank_text(text[:hidden]) + text[hidden:length] + page.text
            tables = shift_layout(TextLayout("", page.headings), length).headings
        found = [*markdown_headings(text, length), *tables]
        headings = tuple(sorted(found, key=lambda heading: heading.start))
        front_title = front_matter.values.get("title")
        sections = (heading for heading in headings if heading.end is None)
        first = min(sections, key=lambda heading: (heading.level, heading.start), default=None)
        title = collapse_whitespace(str(front_title)) if front_title else (first.text if first else "")
        values = {key: value for key, value in front_matter.values.items() if not is_access_field(key)}
        extra = {**values, "encoding": decoded.legacy_encoding, **access.metadata}
        return build_document("markdown", source, TextLayout(text, headings), extra, title)


def markdown_headings(text: str, offset: int = 0) -> Iterator[Heading]:
    """The headings of a text from `offset` on, and the column names of its tables, in order."""
    body = text[offset:]
    if len(body) > MAX_PARSED_CHARS:
        yield from _scan_headings(body, offset)
        return
    starts = line_starts(body)
    for opened, inline in pairwise(_BLOCK_PARSER.parse(body)):
        if opened.type == "table_open" and opened.map is not None:
            yield from _table_heading(body, starts, (opened.map[0], opened.map[1]), offset)
        elif opened.type == "heading_open" and opened.map is not None:
            title = _heading_text(inline)
            if title:
                yield Heading(offset + starts[opened.map[0]], int(opened.tag[1:]), title)


def _heading_text(inline: Token) -> str:
    if len(inline.content) > 1000:
        return collapse_whitespace(inline.content[:1000])
    [parsed] = _INLINE_PARSER.parseInline(inline.content)
    return collapse_whitespace("".join(_iter_inline_text(parsed.children or [])))


def _table_heading(text: str, starts: list[int], lines: tuple[int, int], offset: int) -> Iterator[Heading]:
    """The column names of a table, as the heading of the rows below them."""
    first, last = lines
    ends = [*starts[1:], len(text)]
    cells = re.split(r"(?<!\\)\|", text[starts[first] : ends[first]].strip().strip("|"))
    names = " | ".join(collapse_whitespace(cell.replace("\\|", "|")) for cell in cells)
    if last > first + 2 and names.strip(" |"):
        yield Heading(offset + starts[first + 2], TABLE_LEVEL, names[:1000], offset + ends[last - 1])


def _create_block_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark").enable("table").disable(["html_inline", "link", "image"])
    parser.core.ruler.disable("inline")  # only headings need inline parsing
    return parser


_BLOCK_PARSER = _create_block_parser()
_INLINE_PARSER = MarkdownIt("commonmark")


def _iter_inline_text(tokens: list[Token]) -> Iterator[str]:
    for token in tokens:
        if token.type in ("text", "code_inline", "text_special"):
            yield token.content
        elif token.type == "image":
            yield from _iter_inline_text(token.children or [])
        elif token.type in ("softbreak", "hardbreak"):
            yield " "


def _scan_headings(text: str, offset: int) -> Iterator[Heading]:
    """`#` headings outside fenced code, for texts that are too long for the parser."""
    fence = ""
    starts = line_starts(text)
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        line = text[start : min(end, start + 1000)].rstrip("\r\n")
        marker = _FENCE.match(line)
        if marker and not fence:
            fence = marker[1]
        elif fence:
            closes = marker and marker[1].startswith(fence) and not line.strip().strip(fence[0])
            fence = "" if closes else fence
        elif (heading := _ATX_HEADING.match(line)) and heading[2]:
            yield Heading(offset + start, len(heading[1]), collapse_whitespace(heading[2]))
