"""HTML pages, with the event parser of lxml."""

from __future__ import annotations

import codecs
import re
from itertools import pairwise

from lxml import etree

from ragkit.errors import InvalidOption, LoadError
from ragkit.load.file_types import file_suffix
from ragkit.load.html.text import PageReader, PageText, extract_page_text
from ragkit.load.options import LOADER_VERSIONS, HtmlOptions
from ragkit.load.shared.encoding import (
    BYTE_ORDER_MARKS,
    decode_bytes,
    guess_encoding,
    normalize_codec,
    replace_invalid_chars,
)
from ragkit.load.shared.layout_blocks import LayoutBlock, join_blocks
from ragkit.load.shared.loader_utils import build_document, collapse_whitespace
from ragkit.load.shared.ooxml import find_child, local_name, parse_xml
from ragkit.load.text.front_matter import find_access
from ragkit.records import Document, Place

FEED_SIZE = 65_536
"""Bytes per call of the parser."""

META_NAMES = ("author", "description", "keywords", "lang")
"""`<meta>` names that become metadata."""

DRAWING_TEXTS = frozenset({"title", "desc", "text", "foreignObject"})
"""Elements of an SVG file with words."""

_META_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*+=\s*+["']?\s*+([\w.:-]{1,40})""", re.IGNORECASE)
_XML_ENCODING = re.compile(rb"""<\?xml[^>]{0,100}?encoding\s*=\s*["']([\w.:-]{1,40})["']""")
_IMPOSSIBLE_CODECS = frozenset({"utf-7", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"})
"""Codecs that are wrong when the declaration is readable as ASCII; UTF-7 is an attack."""


class HtmlLoader:
    """The main text of a page, in reading order, without menus, scripts and hidden elements."""

    version = LOADER_VERSIONS["html"]

    def __init__(self, options: HtmlOptions | None = None) -> None:
        self.options = options or HtmlOptions()

    def load(self, data: bytes, source: str) -> Document:
        """The page in `data`; invalid markup is repaired as in a browser."""
        if file_suffix(source) == ".svg":
            return _load_drawing(data, source)
        page = read_page(data, source, navigation=self.options.navigation)
        extra = {**{key: page.meta.get(key) for key in META_NAMES}, **page.access}
        return build_document("html", source, page.layout, extra, page.title)


def _load_drawing(data: bytes, source: str) -> Document:
    """The words of an SVG file: its title, description and texts, in the order of the file."""
    root = parse_xml(data, source, "the file")
    blocks: list[LayoutBlock] = []
    for node in root.iter("{*}title", "{*}desc", "{*}text", "{*}foreignObject"):
        above = list(node.iterancestors())
        is_fallback = any(
            local_name(outer) == "switch" and inner is not outer[0] for inner, outer in pairwise([node, *above])
        )
        if is_fallback or any(local_name(outer) in DRAWING_TEXTS for outer in above):
            continue
        text = collapse_whitespace(replace_invalid_chars(" ".join(node.itertext())))
        if blocks and blocks[-1].text == text:
            continue  # the title of a part that is its label
        blocks.append(LayoutBlock("line", text, place=Place(0, "line", node.sourceline or 1)))
    title = next((block.text for block in blocks), "") if find_child(root, "title") is not None else ""
    return build_document("html", source, join_blocks(blocks), {}, title)


def read_page(data: bytes | str, source: str, *, navigation: bool = False) -> PageText:
    """The text of a page. Raises LoadError."""
    text = data if isinstance(data, str) else decode_bytes(data, declared_encoding(data)).text
    written = find_access(text)
    raw = replace_invalid_chars(written.hide(text)).encode("utf-8")
    reader = PageReader()
    reader.access = written.metadata
    parser = etree.HTMLParser(target=reader, encoding="utf-8", no_network=True, remove_pis=True)
    try:
        for line, markup in enumerate(raw.splitlines(keepends=True), start=1):
            reader.line = line
            for start in range(0, len(markup), FEED_SIZE):
                parser.feed(markup[start : start + FEED_SIZE])
        reader.line += raw.endswith((b"\n", b"\r"))
        page = parser.close() if raw else PageReader().close()
    except etree.LxmlError as error:
        hint = "open it in a browser and save it again"
        raise LoadError(source, f"invalid HTML ({error})", hint) from error
    return extract_page_text(page, navigation=navigation)


def declared_encoding(data: bytes) -> str:
    """The codec that a page declares; '' when it declares none or a wrong one."""
    if data.startswith(tuple(mark for mark, _ in BYTE_ORDER_MARKS)):
        return ""
    match = _XML_ENCODING.match(data[:200]) or _META_CHARSET.search(data[:4096])
    if match is None:
        return ""
    try:
        name = normalize_codec(match[1].decode("ascii", "replace"))
    except InvalidOption:
        return ""
    if name in _IMPOSSIBLE_CODECS or (name == "utf-8") != (guess_encoding(data) == "utf-8" and not data.isascii()):
        return ""  # contradicts the bytes
    latin = codecs.lookup("latin-1").name
    return "cp1252" if name in (latin, "ascii") else name
