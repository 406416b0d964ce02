"""An HTML page as a tree of a few harmless elements: what a reader sees of it, without anything that runs or loads.

The tree is data, not markup: whoever shows it creates the elements. Scripts, styles, images, frames, forms, comments,
event handlers and all attributes but the targets of links and the spans of cells are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast
from urllib.parse import urlsplit

from lxml import etree

from ragkit.errors import LoadError
from ragkit.load.html.html import FEED_SIZE, declared_encoding
from ragkit.load.html.text import SKIPPED_TAGS, is_hidden
from ragkit.load.shared.encoding import decode_bytes, replace_invalid_chars
from ragkit.records import JSON

MAX_NODES = 50_000
"""Elements and texts of a tree, at most; the rest of the page is left out."""
MAX_DEPTH = 40
"""Elements inside each other, at most; deeper ones are left out, their text is not."""
MAX_TREE_CHARS = 2_000_000
"""Characters of a tree, at most."""
ELEMENTS = frozenset((
    "h1", "h2", "h3", "h4", "h5", "h6", "p", "ul", "ol", "li", "dl", "dt", "dd", "table", "thead", "tbody", "tr", "th",
    "td", "blockquote", "pre", "code", "strong", "em", "del", "br", "hr", "a", "div", "mark",
))  # fmt: skip
"""The elements of a tree."""
RENAMED = {
    "b": "strong", "i": "em", "s": "del", "strike": "del", "cite": "em", "var": "em", "kbd": "code", "samp": "code",
    "tt": "code", "tfoot": "tbody", "caption": "div", "section": "div", "article": "div", "main": "div",
    "figcaption": "p", "address": "p", "summary": "p", "center": "div", "menu": "ul", "dir": "ul", "listing": "pre",
    "xmp": "pre", "header": "div", "footer": "div", "aside": "div", "legend": "p",
}  # fmt: skip
"""Elements of a page that another one stands for."""
DROPPED = SKIPPED_TAGS - {"head"} | {"nav", "title", "select", "option", "frame", "frameset", "plaintext"}
"""Elements that are left out with everything inside. `head` holds nothing else, and its end is often missing."""
EMPTY = frozenset((
    "br", "hr", "img", "input", "meta", "link", "base", "embed", "col", "wbr", "area", "source", "track",
))  # fmt: skip
"""Elements without an end."""
SCHEMES = frozenset(("http", "https", "mailto"))
MAX_SPAN = 100


def read_tree(data: bytes, source: str) -> list[JSON]:
    """The tree of a page: texts, and elements as `{"tag", "children"}`, some with `href`, `colspan` or `rowspan`.

    Raises LoadError.
    """
    raw = replace_invalid_chars(decode_bytes(data, declared_encoding(data)).text).encode("utf-8")
    builder = _TreeBuilder()
    parser = etree.HTMLParser(target=builder, encoding="utf-8", no_network=True, remove_pis=True)
    try:
        for start in range(0, len(raw), FEED_SIZE):
            parser.feed(raw[start : start + FEED_SIZE])
        return cast("list[JSON]", parser.close()) if raw else []
    except etree.LxmlError as error:
        raise LoadError(source, f"invalid HTML ({error})", "open it in a browser and save it again") from error


class _TreeBuilder:
    """Receives the events of the parser."""

    def __init__(self) -> None:
        self._root: list[JSON] = []
        self._open: list[tuple[str, bool]] = []
        """Tag of each open element, and whether it is in the tree."""
        self._tops = [self._root]
        """The children of the open elements of the tree, from the root."""
        self._dropped: list[str] = []
        """Open elements that are left out, from the outermost."""
        self._text: list[str] = []
        """The text since the last event of an element."""
        self._nodes = 0
        self._chars = 0

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """An element begins."""
        self._add_text()
        if self._dropped or tag in DROPPED or is_hidden(attributes):
            if tag not in EMPTY:
                self._dropped.append(tag)
            return
        name = RENAMED.get(tag, tag)
        if name not in ELEMENTS or len(self._tops) > MAX_DEPTH or self._nodes >= MAX_NODES:
            self._open.append((tag, False))
            return
        self._nodes += 1
        children: list[JSON] = []
        self._tops[-1].append({"tag": name, **_kept(name, attributes), "children": children})
        self._open.append((tag, True))
        self._tops.append(children)

    def end(self, tag: str) -> None:
        """An element ends."""
        self._add_text()
        if self._dropped:
            if tag in self._dropped:
                while self._dropped.pop() != tag:
                    continue
            return
        if not any(name == tag for name, _ in self._open):
            return
        while True:
            name, is_in_tree = self._open.pop()
            if is_in_tree:
                self._tops.pop()
            if name == tag:
                return

    def data(self, text: str) -> None:
        """Text of the innermost element."""
        if self._dropped or self._nodes >= MAX_NODES or self._chars >= MAX_TREE_CHARS:
            return
        text = text[: MAX_TREE_CHARS - self._chars]
        self._chars += len(text)
        self._text.append(text)

    def comment(self, text: str) -> None:
        """A comment, which is left out."""

    def close(self) -> list[JSON]:
        """The tree."""
        self._add_text()
        return self._root

    def _add_text(self) -> None:
        if self._text:
            self._nodes += 1
            self._tops[-1].append("".join(self._text))
            self._text = []


def _kept(name: str, attributes: Mapping[str, str]) -> dict[str, JSON]:
    """The attributes that are kept."""
    if name == "a":
        target = attributes.get("href", "").strip()
        return {"href": target} if is_web_address(target) else {}
    if name in ("td", "th"):
        spans = {key: attributes.get(key, "").strip() for key in ("colspan", "rowspan")}
        return {
            key: min(int(value), MAX_SPAN)
            for key, value in spans.items()
            if value.isascii() and value.isdigit() and int(value[:9]) > 1
        }
    return {}


def is_web_address(target: str) -> bool:
    """Whether a link leads to the web or a mail address; not to a script, a file, or a place in the page."""
    try:
        return len(target) <= 2000 and target.isprintable() and urlsplit(target).scheme.lower() in SCHEMES
    except ValueError:
        return False
