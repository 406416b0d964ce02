"""Markdown, as it stands in the file, with its headings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.token import Token

from ragkit.load.encoding import decode
from ragkit.load.frontmatter import FrontMatter, front_matter
from ragkit.load.meta import line_starts, metadata, one_line
from ragkit.load.options import VERSIONS, MarkdownOptions
from ragkit.records import Document, Heading

MAX_PARSED = 4_000_000
"""Characters up to which the text is parsed; above it headings are found line by line."""

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HASHES = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")


class MarkdownLoader:
    """Keeps every character but the byte order mark, so that offsets and lines are those of the file."""

    version = VERSIONS["markdown"]

    def __init__(self, options: MarkdownOptions | None = None) -> None:
        self.options = options or MarkdownOptions()
        self._parser = MarkdownIt("commonmark").enable("table").disable(["html_inline", "link", "image"])
        self._parser.core.ruler.disable("inline")  # block structure is enough; headings are read one by one

    def load(self, data: bytes, source: str) -> Document:
        """The document in `data`. The head stays part of the text."""
        decoded = decode(data, self.options.encoding)
        head = front_matter(decoded.text) if self.options.front_matter else FrontMatter()
        headings = tuple(self._headings(decoded.text, head.length))
        encoding = "" if decoded.encoding == "utf-8" else decoded.encoding
        named = head.values.get("title")
        first = min(headings, key=lambda heading: (heading.level, heading.start), default=None)
        return Document(
            text=decoded.text,
            metadata=metadata("markdown", source, {**head.values, "encoding": encoding}),
            source=source,
            title=one_line(str(named)) if named else (first.text if first else ""),
            headings=headings,
            format="markdown",
        )

    def _headings(self, text: str, begin: int) -> Iterator[Heading]:
        body = text[begin:]
        if len(body) > MAX_PARSED:
            yield from _headings_by_line(body, begin)
            return
        starts = line_starts(body)
        tokens = self._parser.parse(body)
        for opened, inline in pairwise(tokens):
            if opened.type != "heading_open" or opened.map is None:
                continue
            words = self._words(inline)
            if words:
                yield Heading(begin + starts[opened.map[0]], int(opened.tag[1:]), words)

    def _words(self, inline: Token) -> str:
        if len(inline.content) > 1000:
            return one_line(inline.content[:1000])
        [parsed] = _INLINE.parseInline(inline.content)
        return one_line("".join(_leaves(parsed.children or [])))


_INLINE = MarkdownIt("commonmark")


def _leaves(tokens: list[Token]) -> Iterator[str]:
    for token in tokens:
        if token.type in ("text", "code_inline", "text_special"):
            yield token.content
        elif token.type == "image":
            yield from _leaves(token.children or [])
        elif token.type in ("softbreak", "hardbreak"):
            yield " "


def _headings_by_line(text: str, begin: int) -> Iterator[Heading]:
    """`#` headings outside fenced code, for texts that are too long to parse in good time."""
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
        elif (found := _HASHES.match(line)) and found[2]:
            yield Heading(begin + start, len(found[1]), one_line(found[2]))
