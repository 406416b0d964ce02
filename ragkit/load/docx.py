"""Word files: paragraphs, headings, lists, tables and notes in document order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lxml import etree

from ragkit.load.encoding import replace_invalid_chars
from ragkit.load.layout_blocks import LayoutBlock, join_blocks
from ragkit.load.loader_utils import build_document, collapse_whitespace
from ragkit.load.ooxml import (
    find_child,
    find_main_part,
    find_related_part,
    get_attribute,
    is_fallback,
    iter_elements,
    local_name,
    parse_part,
    read_core_properties,
)
from ragkit.load.options import LOADER_VERSIONS, DocxOptions
from ragkit.load.zip_archive import ZipArchive
from ragkit.records import Document

WRAPPER_ELEMENTS = frozenset({"customXml", "ins", "moveTo", "sdt", "sdtContent", "smartTag"})
"""Elements without own text that contain blocks."""

SKIPPED_ELEMENTS = frozenset({"Fallback", "del", "delText", "instrText", "moveFrom", "pPr", "rPr", "rt", "txbxContent"})
"""Inside a paragraph: deleted text, field codes, and text boxes, which are read after their paragraph."""

SPECIAL_CHARACTERS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-", "ptab": "\t"}

_HEADING_STYLE = re.compile(r"heading\s*([1-9])$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _ParagraphStyle:
    """The properties of a paragraph style."""

    level: int = 0
    """1 to 9 for a heading, else 0."""
    is_title: bool = False
    is_list_item: bool = False


class DocxLoader:
    """Reads text in content controls, text boxes and tracked insertions too."""

    version = LOADER_VERSIONS["docx"]

    def __init__(self, options: DocxOptions | None = None) -> None:
        self.options = options or DocxOptions()

    def load(self, data: bytes, source: str) -> Document:
        """The document in `data`. Raises LoadError and LoadLimitExceeded."""
        archive = ZipArchive(data, source, self.options)
        name = find_main_part(archive, "word/document.xml")
        body = find_child(parse_part(archive, name), "body")
        reader = _DocxReader(_read_styles(archive, name))
        blocks = list(reader.blocks(body)) if body is not None else []
        if self.options.footnotes:
            for kind in ("footnotes", "endnotes"):
                blocks += _read_notes(archive, find_related_part(archive, name, kind), reader)
        text, headings = join_blocks(blocks)
        known = read_core_properties(archive)
        title = str(known.pop("title", "")) or reader.title
        return build_document("docx", source, text, known, title, headings)


class _DocxReader:
    """Converts the XML of one file to blocks; `title` is the first paragraph with the style Title."""

    def __init__(self, styles: Mapping[str, _ParagraphStyle]) -> None:
        self.title = ""
        self._styles = styles

    def blocks(self, parent: etree._Element) -> Iterator[LayoutBlock]:
        """The blocks below an element, in order."""
        for element in parent:
            kind = local_name(element)
            if kind == "p":
                yield from self._paragraph(element)
            elif kind == "tbl":
                yield from self._table(element)
            elif kind in WRAPPER_ELEMENTS:
                yield from self.blocks(element)

    def _paragraph(self, element: etree._Element) -> Iterator[LayoutBlock]:
        text = replace_invalid_chars("".join(_iter_text(element)))
        settings = find_child(element, "pPr")
        style_id = get_attribute(find_child(settings, "pStyle"), "val") if settings is not None else ""
        style = self._styles.get(style_id, _ParagraphStyle())
        level = _outline_level(settings) or style.level
        if not text.strip():
            pass
        elif level:
            yield LayoutBlock("h", collapse_whitespace(text), level)
        elif style.is_title:
            self.title = self.title or collapse_whitespace(text)
            yield LayoutBlock("p", collapse_whitespace(text))
        elif (depth := _list_depth(settings, style)) is not None:
            yield LayoutBlock("li", "  " * depth + "- " + collapse_whitespace(text))
        else:
            yield LayoutBlock("p", text.strip())
        for box in iter_elements(element, "txbxContent"):
            if not is_fallback(box):
                yield from self.blocks(box)

    def _table(self, table: etree._Element) -> Iterator[LayoutBlock]:
        rows = [list(_iter_unwrapped(row, "tc")) for row in _iter_unwrapped(table, "tr")]
        if all(len(row) <= 1 for row in rows):  # one column: a frame around text
            for row in rows:
                for cell in row:
                    yield from self.blocks(cell)
            return
        for row in rows:
            cells = [collapse_whitespace(" ".join(block.text for block in self.blocks(cell))) for cell in row]
            if any(cells):
                yield LayoutBlock("row", " | ".join(cells))


def _iter_unwrapped(parent: etree._Element, kind: str) -> Iterator[etree._Element]:
    """The rows of a table or the cells of a row, including those in content controls."""
    for element in parent:
        if local_name(element) == kind:
            yield element
        elif local_name(element) in WRAPPER_ELEMENTS:
            yield from _iter_unwrapped(element, kind)


def _iter_text(element: etree._Element) -> Iterator[str]:
    """The visible text runs of a paragraph."""
    for node in element:
        kind = local_name(node)
        if kind in SKIPPED_ELEMENTS or (kind == "r" and find_child(node, "rPr", "vanish") is not None):
            continue
        if kind == "t":
            yield "".join([node.text or "", *(entity.tail or "" for entity in node)])  # entities stay unresolved
        elif kind in SPECIAL_CHARACTERS:
            yield SPECIAL_CHARACTERS[kind]
        elif kind in ("footnoteReference", "endnoteReference"):
            yield f"[{get_attribute(node, 'id')}]"
        else:
            yield from _iter_text(node)


def _outline_level(settings: etree._Element | None) -> int:
    """The outline level that a paragraph or style sets itself, 1 to 9; else 0."""
    level = get_attribute(find_child(settings, "outlineLvl"), "val") if settings is not None else ""
    return int(level) + 1 if level in tuple("012345678") else 0


def _list_depth(settings: etree._Element | None, style: _ParagraphStyle) -> int | None:
    """The list depth of a paragraph, from 0; None outside lists."""
    numbering = find_child(settings, "numPr") if settings is not None else None
    if numbering is None:
        return 0 if style.is_list_item else None
    if get_attribute(find_child(numbering, "numId"), "val") == "0":
        return None
    depth = get_attribute(find_child(numbering, "ilvl"), "val")
    return min(int(depth), 8) if depth.isascii() and depth.isdigit() else 0


def _read_styles(archive: ZipArchive, main: str) -> Mapping[str, _ParagraphStyle]:
    """Style id -> its properties, inherited ones included."""
    part = find_related_part(archive, main, "styles")
    if not part:
        return {}
    styles: dict[str, tuple[_ParagraphStyle, str]] = {}
    for element in parse_part(archive, part):
        if local_name(element) == "style":
            parent = get_attribute(find_child(element, "basedOn"), "val")
            styles[get_attribute(element, "styleId")] = (_parse_style(element), parent)
    return {name: _resolve_style(name, styles) for name in styles}


def _parse_style(element: etree._Element) -> _ParagraphStyle:
    name = get_attribute(find_child(element, "name"), "val")
    heading = _HEADING_STYLE.match(name)
    settings = find_child(element, "pPr")
    level = int(heading[1]) if heading else _outline_level(settings)
    listed = name.lower().startswith("list ") and name.lower() != "list paragraph"
    return _ParagraphStyle(level, name.lower() == "title", listed)


def _resolve_style(name: str, styles: Mapping[str, tuple[_ParagraphStyle, str]]) -> _ParagraphStyle:
    seen: set[str] = set()
    style, parent = styles[name]
    while not (style.level or style.is_title or style.is_list_item) and parent in styles and parent not in seen:
        seen.add(parent)
        style, parent = styles[parent]
    return style


def _read_notes(archive: ZipArchive, part: str, reader: _DocxReader) -> Iterator[LayoutBlock]:
    if not part:
        return
    for note in parse_part(archive, part):
        if get_attribute(note, "type") in ("separator", "continuationSeparator", "continuationNotice"):
            continue
        text = collapse_whitespace(" ".join(block.text for block in reader.blocks(note)))
        if text:
            yield LayoutBlock("line", f"[{get_attribute(note, 'id')}] {text}")
