"""XML files as their readers want them, without tags, comments, processing instructions and schemas.

Elements of text, as in DocBook, DITA, JATS and TEI, become headings, paragraphs, lists and tables. All others are data:
elements of one name that follow each other are rows, `name: value; name: value`, others are lines of their own.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import groupby, pairwise

from lxml import etree

from ragkit.errors import LoadError
from ragkit.load.html.html import read_page
from ragkit.load.html.text import PageReader
from ragkit.load.options import LOADER_VERSIONS
from ragkit.load.shared.access_field import is_access_field
from ragkit.load.shared.encoding import decode_bytes
from ragkit.load.shared.layout_blocks import TextLayout, join_blocks
from ragkit.load.shared.loader_utils import build_document, collapse_whitespace
from ragkit.load.shared.ooxml import local_name, parse_xml
from ragkit.load.text.front_matter import find_access
from ragkit.records import Document

MAX_ROW_CHARS = 700
"""An element with more text is no row."""
MAX_LIST_CHARS = 400
"""Elements of one name with more text are no list on one line."""

_TAGS: Mapping[str, str] = {
    name: tag
    for tag, names in {
        "h1": "title head heading article-title invention-title",
        "p": "p para simpara ab l v shortdesc cmd",
        "pre": "pre programlisting screen codeblock literallayout synopsis preformat code",
        "ul": "ul itemizedlist simplelist list choices",
        "ol": "ol orderedlist procedure steps substeps",
        "li": "li listitem list-item item member step substep choice sli",
        "table": "table informaltable tgroup simpletable",
        "thead": "thead sthead",
        "tbody": "tbody",
        "tr": "tr row strow",
        "td": "td entry stentry cell",
        "th": "th",
        "math": "math",
    }.items()
    for name in names.split()
}
"""Names of elements of text -> the element of HTML that is the same."""
_PARENTS = {
    "li": ("ul", "ol"),
    "tbody": ("table",),
    "td": ("tr", "thead"),
    "th": ("tr", "thead"),
    "thead": ("table",),
    "tr": ("table", "tbody", "thead"),
}
"""Elements that are text only inside others; an `item` of a feed is a record."""
_CELLS = ("{*}td", "{*}th", "{*}entry", "{*}stentry", "{*}cell", "{*}Cell")
_PROSE = frozenset({"p", "pre", "li", "td", "th", "math"})
_BLOCKS_IN_TEXT = frozenset({"p", "pre", "ul", "ol", "table", "math"})
"""Elements that end the line of text that they stand in."""
_SILENT_NAMES = frozenset({"Alt", "Bag", "Description", "RDF", "Seq", "li"})
"""Elements of RDF, whose names say nothing of the values inside."""
_SKIPPED_ATTRIBUTES = frozenset({"noNamespaceSchemaLocation", "ref-type", "rid", "schemaLocation"})
_XML_NAMESPACE = "{http://www.w3.org/XML/1998/namespace}"
_MARKUP = re.compile(r"</(?:a|b|div|em|h[1-6]|i|li|p|span|strong|td|ul)>|<(?:br|p|img)\b[^<>]{0,1000}>", re.IGNORECASE)

_Path = tuple[str, ...]


class XmlLoader:
    """Keeps a file that is not valid XML as it is."""

    version = LOADER_VERSIONS["xml"]

    def load(self, data: bytes, source: str) -> Document:
        """The text of the elements in `data`."""
        text = decode_bytes(data).text
        access = find_access(text)
        try:
            layout = join_blocks(_XmlReader(source).read(parse_xml(data, source, "the file")).blocks)
        except (LoadError, RecursionError):
            layout = TextLayout(access.hide(text))
        return build_document("xml", source, layout, access.metadata)


class _XmlReader:
    """Hands the elements of a file to a reader of web pages, as elements of HTML."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._page = PageReader()
        self._prose: set[etree._Element] = set()
        """Elements with text that is no data, in them or in their children."""
        self._is_text = False
        """The file has paragraphs, lists or tables: its attributes say how they are set, not what they say."""

    def read(self, root: etree._Element) -> PageReader:
        """The blocks of the file."""
        for node in root.iter("*"):
            is_text = _html_tag(node) in _PROSE
            self._is_text |= is_text
            if node not in self._prose and (is_text or _is_mixed(node)):
                self._prose.update([node, *node.iterancestors()])
        self._read(root, (), 1)
        return self._page.close()

    def _read(self, node: etree._Element, path: _Path | None, level: int) -> None:
        """An element that begins a block.

        Args:
            path: the names of the data around it; None in a text, where names are left out.
            level: of its heading.
        """
        tag = _html_tag(node)
        self._page.line = node.sourceline or 1
        if tag == "math":
            self._formula(node)
        elif tag in ("h1", "p", "pre"):
            self._page.line += "".join(node.itertext()).strip().count("\n") if tag == "pre" else 0
            self._element(f"h{min(level, 6)}" if tag == "h1" else tag, node, level)
        elif tag:
            self._page.start(tag, _spans(node) if tag in ("td", "th") else {})
            if _is_mixed(node) or not len(node):
                self._inline(node, level)
            else:
                self._children(node, None, level)
            self._page.end(tag)
        elif _is_mixed(node):
            self._element(
                "p", node, level, "" if path is None or not path[1:] else f"{_label((*path, local_name(node)))}: "
            )
        elif len(node):
            self._container(node, path, level)
        elif path is None:
            self._line(collapse_whitespace(node.text or ""))
        elif not node.attrib and _MARKUP.search(node.text or ""):  # a feed
            self._line(f"{_label((*path, local_name(node)))}: {read_page(node.text, self._source).layout.text}")
        else:
            self._line(self._row_text(node, path[-1:]))

    def _element(self, tag: str, node: etree._Element, level: int, label: str = "") -> None:
        self._page.start(tag, {})
        self._page.data(label)
        self._inline(node, level, keeps_lines=tag == "pre")
        self._page.end(tag)

    def _inline(self, node: etree._Element, level: int, *, keeps_lines: bool = False) -> None:
        """The text in an element, with that of the elements inside."""

        def add(text: str | None) -> None:
            self._page.data((text or "") if keeps_lines else re.sub(r"\s+", " ", text or ""))

        add(node.text)
        is_mixed = _is_mixed(node)
        for child, following in pairwise([*node, None]):
            if not local_name(child):
                add(html.unescape(child.text))
            elif _html_tag(child) in _BLOCKS_IN_TEXT and not keeps_lines:
                self._read(child, None, level)
            else:
                self._inline(child, level, keeps_lines=keeps_lines)
            add(child.tail)
            if not is_mixed and following is not None and local_name(following) != local_name(child):
                add(" ")  # `<surname>Lee</surname><given-names>Ann</given-names>`

    def _container(self, node: etree._Element, path: _Path | None, level: int) -> None:
        is_data = node not in self._prose and path is not None
        if any(_html_tag(child) == "h1" for child in node):
            path = path and ()
        elif is_data and node.getparent() is not None and local_name(node) not in _SILENT_NAMES:
            path = (*(path or ()), local_name(node))
        if is_data:
            for name, value in self._attributes(node):
                self._line(f"{_label((*(path or ()), name))}: {value}")
        self._children(node, path, level)

    def _children(self, node: etree._Element, path: _Path | None, level: int) -> None:
        below = level + any(_html_tag(child) == "h1" for child in node)
        for name, group in groupby(filter(local_name, node), key=local_name):
            run = list(group)
            texts = [self._leaf_text(child) for child in run]
            if path is not None and len(run) > 1 and all(texts) and sum(map(len, texts)) <= MAX_LIST_CHARS:
                self._page.line = run[0].sourceline or 1
                self._line(f"{_label((*path, name))}: {', '.join(texts)}")
                continue
            for child in run:
                if path is not None and len(run) > 1 and self._is_row(child):
                    self._page.line = child.sourceline or 1
                    self._line(self._row_text(child))
                else:
                    self._read(child, path, level if _html_tag(child) == "h1" else below)

    def _is_row(self, node: etree._Element) -> bool:
        is_data = node not in self._prose and not _html_tag(node)
        return is_data and sum(len(value) for _, value in self._fields(node, ())) <= MAX_ROW_CHARS

    def _leaf_text(self, node: etree._Element) -> str:
        """The text of an element with nothing but text; '' for any other."""
        is_leaf = not len(node) and not _html_tag(node) and not any(self._attributes(node))
        return collapse_whitespace(node.text or "") if is_leaf else ""

    def _attributes(self, node: etree._Element) -> Iterator[tuple[str, str]]:
        for key, value in node.attrib.items() if not self._is_text else ():
            name, text = str(key).rpartition("}")[2], collapse_whitespace(str(value))
            if text and name not in _SKIPPED_ATTRIBUTES and not str(key).startswith(_XML_NAMESPACE):
                yield name, text

    def _fields(self, node: etree._Element, path: _Path) -> Iterator[tuple[_Path, str]]:
        """(path of names, value) of the text and attributes of an element and those inside it."""
        here = path if path and local_name(node) in _SILENT_NAMES else (*path, local_name(node))
        text = collapse_whitespace(node.text or "")
        if text or is_access_field(local_name(node)):
            yield here, text
        yield from (((*here, name), value) for name, value in self._attributes(node))
        for child in filter(local_name, node):
            yield from self._fields(child, here)

    def _row_text(self, node: etree._Element, path: _Path = ()) -> str:
        """The fields of an element on one line; the first one has the name of the element too.

        Of a setting, its name and value, with the name of what it is in.
        """
        fields = list(self._fields(node, path))
        found = {names[-1]: value for names, value in fields}
        key = found.get("key") or found.get("name")
        value = found.get("value") or found.get(local_name(node))
        if key and value and len(fields) == 2 and not any(map(is_access_field, (key, *found))):
            outer = node.getparent()
            is_inside = outer is not None and outer.getparent() is not None
            return f"{local_name(outer)}.{key}: {value}" if is_inside else f"{key}: {value}"
        values: dict[_Path, list[str]] = {}
        for names, text in fields:
            values.setdefault(names, []).append(text)
        last_names = Counter(names[-1] for names in values)
        cells = [
            f"{names[-1] if is_access_field(names[-1]) else label}: {', '.join(texts)}"
            for number, (names, texts) in enumerate(values.items())
            for label in [_label(names) if not number or last_names[names[-1]] > 1 else names[-1]]
        ]
        return "; ".join(cells)

    def _line(self, text: str) -> None:
        self._page.start("dt", {})
        self._page.data(text)
        self._page.end("dt")

    def _formula(self, node: etree._Element) -> None:
        self._page.start(local_name(node), {})
        self._page.data(node.text or "")
        for child in filter(local_name, node):
            self._formula(child)
        self._page.end(local_name(node))


def _html_tag(node: etree._Element) -> str:
    """The element of HTML that an element of text is the same as; '' for data and for what stands in a line."""
    name = local_name(node).lower()
    tag = _TAGS.get(name, "")
    parent = node.getparent()
    if tag == "table":
        return tag if next(node.iter(*_CELLS), None) is not None else ""
    if tag in _PARENTS:
        return tag if parent is not None and _html_tag(parent) in _PARENTS[tag] else ""
    if (name == "code" and "\n" not in (node.text or "").strip()) or (name == "list" and not len(node)):
        return ""
    is_inline = tag == "h1" and parent is not None and _is_mixed(parent)
    return "" if is_inline else tag


def _is_mixed(node: etree._Element) -> bool:
    """Whether text and elements stand side by side in an element."""
    return bool(len(node)) and any(text and text.strip() for text in (node.text, *(child.tail for child in node)))


def _label(path: _Path) -> str:
    return ".".join(path[-2:])


def _spans(cell: etree._Element) -> Mapping[str, str]:
    """The columns and rows that a cell covers, as attributes of HTML."""
    known = {name: str(cell.get(name)) for name in ("colspan", "rowspan") if cell.get(name)}
    first, last = (re.sub(r"\D", "", cell.get(name, "")) for name in ("namest", "nameend"))
    if first.isdecimal() and last.isdecimal() and len(last) < 4:
        known["colspan"] = str(max(1, int(last) - int(first) + 1))
    if cell.get("morerows", "").isdecimal():
        known["rowspan"] = str(int(cell.get("morerows", "")) + 1)
    return known
