"""Plain text, verbatim."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ragkit.load.encoding import decode_bytes
from ragkit.load.file_types import file_suffix
from ragkit.load.layout_blocks import TextLayout
from ragkit.load.loader_utils import build_document, collapse_whitespace, line_starts
from ragkit.load.options import LOADER_VERSIONS, TextOptions
from ragkit.records import JSON, Document, Heading

_ADORNMENT = re.compile(r"([=\-~^\"'`#*+.:_])\1{2,}$")


class TextLoader:
    """Keeps every character except the byte order mark; finds the headings of reStructuredText."""

    version = LOADER_VERSIONS["text"]

    def __init__(self, options: TextOptions | None = None) -> None:
        self.options = options or TextOptions()

    def load(self, data: bytes, source: str) -> Document:
        """The text of `data`; invalid bytes are replaced. Raises InvalidOption for an unknown encoding."""
        decoded = decode_bytes(data, self.options.encoding)

        rst = file_suffix(source) == ".rst"
        headings = tuple(rst_headings(decoded.text)) if rst else ()
        kind, title = "rst" if rst else "text", headings[0].text if headings else ""
        extra: dict[str, JSON] = {"encoding": decoded.legacy_encoding}
        return build_document(kind, source, TextLayout(decoded.text, headings), extra, title)


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


def _is_adornment(line: str) -> bool:
    return _ADORNMENT.match(line) is not None
