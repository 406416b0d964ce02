"""Word files: paragraphs, headings, lists, tables, charts, comments and notes in document order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from lxml import etree

from ragkit.load.office.cell_text import cell_text
from ragkit.load.office.docx_numbering import BULLET, Numbering
from ragkit.load.office.flat_package import to_package
from ragkit.load.office.ooxml_drawings import comment_block, graphic_blocks
from ragkit.load.options import LOADER_VERSIONS, DocxOptions
from ragkit.load.shared.encoding import replace_invalid_chars
from ragkit.load.shared.layout_blocks import LayoutBlock, join_blocks
from ragkit.load.shared.loader_utils import build_document, collapse_whitespace
from ragkit.load.shared.math_text import formula_text
from ragkit.load.shared.ooxml import (
    find_child,
    find_main_part,
    find_related_part,
    get_attribute,
    get_integer,
    is_fallback,
    is_on,
    iter_elements,
    local_name,
    parse_part,
    read_core_properties,
    read_relationships,
)
from ragkit.load.shared.table_grid import TableCell, TableGrid
from ragkit.load.shared.table_text import is_header, is_number
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

_FORMULA_EDGE = re.compile(r" ?\0 ?(?:\0 ?)?")
_CODE_FONT = re.compile(
    r"courier|consolas|lucida console|menlo|monaco|\S.{0,30}\bmono\b|.{0,30}\bcode\b", re.IGNORECASE
)
_CODE_STYLE = re.compile(r"\b(?:source ?code|code|preformatted|verbatim|macro|listing)\b", re.IGNORECASE)
_HEADING_STYLE = re.compile(r"heading\s*([1-9])$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _ParagraphStyle:
    """The properties of a paragraph style."""

    level: int = 0
    """1 to 9 for a heading, else 0."""
    is_title: bool = False
    is_list_item: bool = False
    is_code: bool = False
    numbering: tuple[str, int] | None = None
    """Its list, and the level in it."""


class DocxLoader:
    """Reads text in content controls, text boxes and tracked insertions too."""

    version = LOADER_VERSIONS["docx"]

    def __init__(self, options: DocxOptions | None = None) -> None:
        self.options = options or DocxOptions()

    def load(self, data: bytes, source: str) -> Document:
        """The document in `data`. Raises LoadError and LoadLimitExceeded."""
        archive = ZipArchive(to_package(data, source), source, self.options)
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
        numbering = find_related_part(archive, main, "numbering")
        self._numbering = Numbering(parse_part(archive, numbering) if numbering else None)
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
        text = _visible_text(element)
        settings = find_child(element, "pPr")
        style_id = get_attribute(find_child(settings, "pStyle"), "val") if settings is not None else ""
        style = self._styles.get(style_id, _ParagraphStyle())
        level = _outline_level(settings) or style.level
        listed = _list_place(settings, style)
        label = self._numbering.next_label(*listed) if listed is not None and text.strip() else ""
        if not text.strip():
            pass
        elif level:
            number = "" if label == BULLET else label
            yield LayoutBlock("h", collapse_whitespace(f"{number} {text}"), level)
        elif style.is_title:
            self.title = self.title or collapse_whitespace(text)
            yield LayoutBlock("p", collapse_whitespace(text))
        elif listed is not None:
            yield LayoutBlock("li", f"{'  ' * listed[1]}{label} ".lstrip("\n") + collapse_whitespace(text))
        elif style.is_code or _is_monospaced(element):
            yield LayoutBlock("line", text.rstrip())
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
        merged: dict[int, str] = {}
        places: list[Place] = []
        cells: list[list[TableCell]] = []
        for row in rows:
            places.append(Place(0, "paragraph", self._paragraph_count + 1))
            cells.append(self._row_cells(row, merged))
        grid, heads = TableGrid(), _count_header_rows(table, elements, cells)
        for number, (texts, place) in enumerate(zip(cells, places, strict=True)):
            for cell in texts:
                cell.is_name = number < heads
            text, header = grid.add_row(texts)
            if text.strip(" |"):
                yield LayoutBlock("row", text, header=header, place=place)

    def _row_cells(self, row: Sequence[etree._Element], grid: dict[int, str]) -> list[TableCell]:
        """The cells of a row; one that goes on from above has its text from there, `grid` by column."""
        cells: list[TableCell] = []
        column = 0
        for cell in row:
            merged = find_child(cell, "tcPr", "vMerge")
            goes_on = merged is not None and get_attribute(merged, "val") != "restart"
            text = grid.get(column, "") if goes_on else cell_text(self.blocks(cell))
            grid[column] = text
            width = max(1, get_integer(find_child(cell, "tcPr", "gridSpan"), "val", 1))
            cells.append(TableCell(is_name=False, columns=width, texts=[text]))
            column += width
        return cells


def _iter_unwrapped(parent: etree._Element, kind: str) -> Iterator[etree._Element]:
    """The rows of a table or the cells of a row, including those in content controls."""
    for element in parent:
        if local_name(element) == kind:
            yield element
        elif local_name(element) in WRAPPER_ELEMENTS:
            yield from _iter_unwrapped(element, kind)


def _visible_text(paragraph: etree._Element) -> str:
    """The text of a paragraph, with spaces around formulas."""
    return replace_invalid_chars(_FORMULA_EDGE.sub(" ", "".join(_iter_text(paragraph))))


def _iter_text(element: etree._Element) -> Iterator[str]:
    """The visible text runs of a paragraph."""
    for node in element:
        kind = local_name(node)
        if kind in SKIPPED_ELEMENTS or (kind == "r" and is_on(find_child(node, "rPr", "vanish"))):
            continue
        if kind == "oMath":
            yield f"\0{formula_text(node)}\0"
        elif kind == "t":
            yield "".join([node.text or "", *(entity.tail or "" for entity in node)])  # entities stay unresolved
        elif kind in SPECIAL_CHARACTERS:
            yield SPECIAL_CHARACTERS[kind]
        elif kind in ("footnoteReference", "endnoteReference"):
            yield f"[{get_attribute(node, 'id')}]"
        else:
            yield from _iter_text(node)


def _count_header_rows(
    table: etree._Element, rows: Sequence[etree._Element], cells: Sequence[Sequence[TableCell]]
) -> int:
    """Rows of column names: those that repeat on each page, else the first one and those below names of several
    columns."""
    texts = [[cell.text for cell in row] for row in cells]
    count = sum(1 for _ in takewhile(lambda row: is_on(find_child(row, "trPr", "tblHeader")), rows))
    if len(rows) < 2 or not (count or _is_header_row(table)):
        return 0
    count = max(count, 1)
    while count < len(rows) - 1 and len(cells[count - 1]) > 1 and any(cell.columns > 1 for cell in cells[count - 1]):
        if any(map(is_number, texts[count])):
            break
        count += 1
    return count if count < len(rows) and (count > 1 or is_header(texts[0], texts[1])) else 0


def _is_header_row(table: etree._Element) -> bool:
    """Whether the table's style treats the first row as a header."""
    look = find_child(table, "tblPr", "tblLook")
    first_row, bits = get_attribute(look, "firstRow"), get_attribute(look, "val")
    if first_row:
        return first_row in ("1", "true", "on")
    return re.fullmatch("[0-9A-Fa-f]{1,8}", bits) is not None and bool(int(bits, 16) & _FIRST_ROW_BIT)


def _outline_level(settings: etree._Element | None) -> int:
    """The outline level that a paragraph or style sets itself, 1 to 9; else 0."""
    level = get_attribute(find_child(settings, "outlineLvl"), "val") if settings is not None else ""
    return int(level) + 1 if level in tuple("012345678") else 0


def _list_place(settings: etree._Element | None, style: _ParagraphStyle) -> tuple[str, int] | None:
    """The list of a paragraph and its level in it, from 0; None outside lists."""
    numbering = find_child(settings, "numPr") if settings is not None else None
    if numbering is None:
        return style.numbering or (("", 0) if style.is_list_item else None)
    list_id = get_attribute(find_child(numbering, "numId"), "val") or (style.numbering or ("",))[0]
    return None if list_id == "0" else (list_id, min(get_integer(find_child(numbering, "ilvl"), "val"), 8))


def _is_monospaced(paragraph: etree._Element) -> bool:
    """Whether all words of a paragraph are set as code."""
    runs = [run for run in iter_elements(paragraph, "r") if "".join(_iter_text(run)).strip()]
    fonts = [get_attribute(find_child(run, "rPr", "rFonts"), "ascii") for run in runs]
    return bool(fonts) and all(map(_CODE_FONT.match, fonts))


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
    code = _CODE_STYLE.search(name) is not None
    numbering = _list_place(settings, _ParagraphStyle())
    return _ParagraphStyle(level, name.lower() == "title", listed, code, numbering)


def _resolve_style(name: str, styles: Mapping[str, tuple[_ParagraphStyle, str]]) -> _ParagraphStyle:
    seen: set[str] = set()
    style, parent = styles[name]
    while parent in styles and parent not in seen:
        seen.add(parent)
        above, parent = styles[parent]
        if not (style.level or style.is_title or style.is_list_item or style.is_code):
            style = replace(above, numbering=style.numbering or above.numbering)
        elif style.level == above.level:
            style = replace(style, numbering=style.numbering or above.numbering)
    return style


def _read_comments(archive: ZipArchive, main: str) -> dict[str, tuple[str, str]]:
    """Comment id -> its text and author."""
    part = find_related_part(archive, main, "comments")
    comments: dict[str, tuple[str, str]] = {}
    for comment in parse_part(archive, part) if part else ():
        paragraphs = (_visible_text(paragraph) for paragraph in iter_elements(comment, "p"))
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
