"""Word files: paragraphs, headings, lists, tables, charts, comments and notes in document order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lxml import etree

from ragkit.load.office.ooxml_drawings import comment_block, graphic_blocks
from ragkit.load.options import LOADER_VERSIONS, DocxOptions
from ragkit.load.shared.encoding import replace_invalid_chars
from ragkit.load.shared.layout_blocks import LayoutBlock, join_blocks
from ragkit.load.shared.loader_utils import build_document, collapse_whitespace
from ragkit.load.shared.ooxml import (
    find_child,
    find_main_part,
    find_related_part,
    get_attribute,
    is_fallback,
    is_on,
    iter_elements,
    local_name,
    parse_part,
    read_core_properties,
    read_relationships,
)
from ragkit.load.shared.table_text import is_header
from ragkit.load.shared.zip_archive import ZipArchive
from ragkit.records import Document, Place

WRAPPER_ELEMENTS = frozenset({"customXml", "ins", "moveTo", "sdt", "sdtContent", "smartTag"})
"""Elements without own text that contain blocks."""

SKIPPED_ELEMENTS = frozenset({"Fallback", "del", "delText", "instrText", "moveFrom", "pPr", "rPr", "rt", "txbxContent"})
"""Inside a paragraph: deleted text, field codes, and text boxes, which are read after their paragraph."""

SPECIAL_CHARACTERS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-", "ptab": "\t"}

_FIRST_ROW_BIT = 0x20
_PAGE_FIELD = re.compile(r"\s*(?:NUM|SECTION)?PAGES?\b", re.IGNORECASE)
_PAGE_WORDS = re.compile(r"\W*(?:page|seite|p[aá]gina|sid[ae]|strona)?\W*(?:of|von|de|sur|di|av|z)?\W*", re.IGNORECASE)
"""What is left of a line of a page header that is only a page number, without its fields."""

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
        reader = _DocxReader(archive, name, comments=self.options.comments)
        blocks = list(reader.blocks(body)) if body is not None else []
        if self.options.page_headers:
            headers, footers = _read_page_headers(archive, name, reader)
            blocks = [*headers, *blocks, *footers]
        if self.options.footnotes:
            for kind in ("footnotes", "endnotes"):
                blocks += _read_notes(archive, find_related_part(archive, name, kind), reader)
        known = read_core_properties(archive)
        title = str(known.pop("title", "")) or reader.title
        return build_document("docx", source, join_blocks(blocks), known, title)


class _DocxReader:
    """Converts the XML of one file to blocks; `title` is the first paragraph with the style Title."""

    def __init__(self, archive: ZipArchive, main: str, *, comments: bool) -> None:
        self.title = ""
        self._archive, self._main = archive, main
        self._styles = _read_styles(archive, main)
        self._comments = _read_comments(archive, main) if comments else {}
        self._paragraph_count = 0

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
        self._paragraph_count += 1
        place = Place(0, "paragraph", self._paragraph_count)
        for block in self._paragraph_blocks(element):
            block.place = block.place or place
            yield block

    def _paragraph_blocks(self, element: etree._Element) -> Iterator[LayoutBlock]:
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
        for item in element.iter("{*}txbxContent", "{*}graphicData", "{*}commentReference"):
            kind = local_name(item)
            if is_fallback(item):
                continue
            if kind == "txbxContent":
                yield from self.blocks(item)
            elif kind == "graphicData":
                yield from graphic_blocks(self._archive, self._main, item)
            elif (comment := self._comments.get(get_attribute(item, "id"))) is not None:
                yield comment_block(*comment)

    def _table(self, table: etree._Element) -> Iterator[LayoutBlock]:
        elements = list(_iter_unwrapped(table, "tr"))
        rows = [list(_iter_unwrapped(row, "tc")) for row in elements]
        if all(len(row) <= 1 for row in rows):  # one column: a frame around text
            for row in rows:
                for cell in row:
                    yield from self.blocks(cell)
            return
        header, above = "", [""]
        for number, row in enumerate(rows):
            place = Place(0, "paragraph", self._paragraph_count + 1)
            cells = [collapse_whitespace(" ".join(block.text for block in self.blocks(cell))) for cell in row]
            if number == 1 and _is_header_row(table, elements[0]) and is_header(above, cells):
                header = " | ".join(above)
            if any(cells):
                yield LayoutBlock("row", " | ".join(cells), header=header, place=place)
            above = cells


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
        if kind in SKIPPED_ELEMENTS or (kind == "r" and is_on(find_child(node, "rPr", "vanish"))):
            continue
        if kind == "t":
            yield "".join([node.text or "", *(entity.tail or "" for entity in node)])  # entities stay unresolved
        elif kind in SPECIAL_CHARACTERS:
            yield SPECIAL_CHARACTERS[kind]
        elif kind in ("footnoteReference", "endnoteReference"):
            yield f"[{get_attribute(node, 'id')}]"
        else:
            yield from _iter_text(node)


def _is_header_row(table: etree._Element, row: etree._Element) -> bool:
    """Whether the first row is marked as one that repeats on each page, or the table's style treats it as a header."""
    if is_on(find_child(row, "trPr", "tblHeader")):
        return True
    look = find_child(table, "tblPr", "tblLook")
    first_row, bits = get_attribute(look, "firstRow"), get_attribute(look, "val")
    if first_row:
        return first_row in ("1", "true", "on")
    return re.fullmatch("[0-9A-Fa-f]{1,8}", bits) is not None and bool(int(bits, 16) & _FIRST_ROW_BIT)


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


def _read_comments(archive: ZipArchive, main: str) -> dict[str, tuple[str, str]]:
    """Comment id -> its text and author."""
    part = find_related_part(archive, main, "comments")
    comments: dict[str, tuple[str, str]] = {}
    for comment in parse_part(archive, part) if part else ():
        paragraphs = ("".join(_iter_text(paragraph)) for paragraph in iter_elements(comment, "p"))
        text = collapse_whitespace(replace_invalid_chars(" ".join(paragraphs)))
        comments[get_attribute(comment, "id")] = text, collapse_whitespace(get_attribute(comment, "author"))
    return comments


def _read_page_headers(
    archive: ZipArchive, main: str, reader: _DocxReader
) -> tuple[list[LayoutBlock], list[LayoutBlock]]:
    """The distinct lines of page headers and page footers, without page numbers."""
    found: dict[str, dict[str, None]] = {"header": {}, "footer": {}}
    for kind, part in read_relationships(archive, main).values():
        if kind in found and part in archive:
            root = parse_part(archive, part)
            _drop_page_fields(root)
            lines = (collapse_whitespace(block.text) for block in reader.blocks(root))
            found[kind].update(dict.fromkeys(line for line in lines if not _PAGE_WORDS.fullmatch(line)))
    headers, footers = ([LayoutBlock("line", line) for line in lines] for lines in found.values())
    return headers, footers


def _drop_page_fields(root: etree._Element) -> None:
    """Remove the results of fields for page numbers."""
    instruction, in_result, results = "", False, []
    for node in root.iter("{*}fldSimple", "{*}fldChar", "{*}instrText", "{*}t"):
        kind = local_name(node)
        if kind == "fldSimple" and _PAGE_FIELD.match(get_attribute(node, "instr")):
            results += list(iter_elements(node, "t"))
        elif kind == "fldChar":
            in_result = get_attribute(node, "fldCharType") == "separate"
            instruction = "" if get_attribute(node, "fldCharType") == "begin" else instruction
        elif kind == "instrText":
            instruction += node.text or ""
        elif in_result and _PAGE_FIELD.match(instruction):
            results.append(node)
    for node in results:
        node.text = ""


def _read_notes(archive: ZipArchive, part: str, reader: _DocxReader) -> Iterator[LayoutBlock]:
    if not part:
        return
    for note in parse_part(archive, part):
        if get_attribute(note, "type") in ("separator", "continuationSeparator", "continuationNotice"):
            continue
        text = collapse_whitespace(" ".join(block.text for block in reader.blocks(note)))
        if text:
            yield LayoutBlock("line", f"[{get_attribute(note, 'id')}] {text}")
