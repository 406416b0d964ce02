"""Word files: paragraphs, headings, lists, tables and notes in document order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lxml import etree

from ragkit.load.blocks import Block, joined
from ragkit.load.encoding import clean
from ragkit.load.meta import metadata, one_line
from ragkit.load.ooxml import attribute, child, local, main_part, named, part_xml, properties, related
from ragkit.load.options import VERSIONS, DocxOptions
from ragkit.load.ziparchive import ZipArchive
from ragkit.records import Document

TRANSPARENT = frozenset({"customXml", "ins", "moveTo", "sdt", "sdtContent", "smartTag"})
"""Elements that only wrap blocks."""

LEFT_OUT = frozenset({"Fallback", "del", "delText", "instrText", "moveFrom", "pPr", "rPr", "rt", "txbxContent"})
"""Inside a paragraph: removed text, field codes, and boxes, which follow their paragraph."""

SIGNS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-", "ptab": "\t"}

_HEADING = re.compile(r"heading\s*([1-9])$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Style:
    """What a paragraph style says of its paragraphs."""

    level: int = 0
    """Of a heading, 1 to 9; else 0."""
    title: bool = False
    listed: bool = False


class DocxLoader:
    """Reads the XML itself: text in content controls, text boxes and accepted changes is not lost."""

    version = VERSIONS["docx"]

    def __init__(self, options: DocxOptions | None = None) -> None:
        self.options = options or DocxOptions()

    def load(self, data: bytes, source: str) -> Document:
        """The document in `data`. Raises LoadError and LoadLimit."""
        archive = ZipArchive(data, source, self.options)
        name = main_part(archive, "word/document.xml")
        body = child(part_xml(archive, name), "body")
        reader = _Reader(_styles(archive, name))
        blocks = list(reader.blocks(body)) if body is not None else []
        if self.options.footnotes:
            for kind in ("footnotes", "endnotes"):
                blocks += _notes(archive, related(archive, name, kind), reader)
        text, headings = joined(blocks)
        known = properties(archive)
        title = str(known.pop("title", "")) or reader.title
        return Document(
            text=text,
            metadata=metadata("docx", source, known),
            source=source,
            title=title,
            headings=headings,
            format="docx",
        )


class _Reader:
    """Turns the XML of one file into blocks; `title` is the first paragraph in the style Title."""

    def __init__(self, styles: Mapping[str, _Style]) -> None:
        self.title = ""
        self._styles = styles

    def blocks(self, parent: etree._Element) -> Iterator[Block]:
        """The blocks below an element, in order."""
        for element in parent:
            kind = local(element)
            if kind == "p":
                yield from self._paragraph(element)
            elif kind == "tbl":
                yield from self._table(element)
            elif kind in TRANSPARENT:
                yield from self.blocks(element)

    def _paragraph(self, element: etree._Element) -> Iterator[Block]:
        text = clean("".join(_words(element)))
        settings = child(element, "pPr")
        style = self._styles.get(attribute(child(settings, "pStyle"), "val") if settings is not None else "", _Style())
        level = _outline_level(settings) or style.level
        if not text.strip():
            pass
        elif level:
            yield Block("h", one_line(text), level)
        elif style.title:
            self.title = self.title or one_line(text)
            yield Block("p", one_line(text))
        elif (depth := _list_depth(settings, style)) is not None:
            yield Block("li", "  " * depth + "- " + one_line(text))
        else:
            yield Block("p", text.strip())
        for box in named(element, "txbxContent"):
            if not any(local(above) == "Fallback" for above in box.iterancestors()):
                yield from self.blocks(box)

    def _table(self, table: etree._Element) -> Iterator[Block]:
        rows = [list(_cells(row, "tc")) for row in _cells(table, "tr")]
        if all(len(row) <= 1 for row in rows):  # a frame around text, not a table
            for row in rows:
                for cell in row:
                    yield from self.blocks(cell)
            return
        for row in rows:
            cells = [one_line(" ".join(block.text for block in self.blocks(cell))) for cell in row]
            if any(cells):
                yield Block("row", " | ".join(cells))


def _cells(parent: etree._Element, kind: str) -> Iterator[etree._Element]:
    """Rows of a table or cells of a row, those in content controls too."""
    for element in parent:
        if local(element) == kind:
            yield element
        elif local(element) in TRANSPARENT:
            yield from _cells(element, kind)


def _words(element: etree._Element) -> Iterator[str]:
    """The visible text of a paragraph, piece by piece."""
    for each in element:
        kind = local(each)
        if kind in LEFT_OUT or (kind == "r" and child(each, "rPr", "vanish") is not None):
            continue
        if kind == "t":
            yield "".join([each.text or "", *(entity.tail or "" for entity in each)])  # which stays unresolved
        elif kind in SIGNS:
            yield SIGNS[kind]
        elif kind in ("footnoteReference", "endnoteReference"):
            yield f"[{attribute(each, 'id')}]"
        else:
            yield from _words(each)


def _outline_level(settings: etree._Element | None) -> int:
    """1 to 9 for a paragraph or style that says its level itself; else 0."""
    level = attribute(child(settings, "outlineLvl"), "val") if settings is not None else ""
    return int(level) + 1 if level in tuple("012345678") else 0


def _list_depth(settings: etree._Element | None, style: _Style) -> int | None:
    """How deep in a list a paragraph stands, from 0; None outside lists."""
    numbering = child(settings, "numPr") if settings is not None else None
    if numbering is None:
        return 0 if style.listed else None
    if attribute(child(numbering, "numId"), "val") == "0":
        return None
    depth = attribute(child(numbering, "ilvl"), "val")
    return min(int(depth), 8) if depth.isascii() and depth.isdigit() else 0


def _styles(archive: ZipArchive, main: str) -> Mapping[str, _Style]:
    """Style id -> what it says, its ancestors asked where it says nothing itself."""
    part = related(archive, main, "styles")
    if not part:
        return {}
    own: dict[str, tuple[_Style, str]] = {}
    for element in part_xml(archive, part):
        if local(element) == "style":
            parent = attribute(child(element, "basedOn"), "val")
            own[attribute(element, "styleId")] = (_style(element), parent)
    return {name: _inherited(name, own) for name in own}


def _style(element: etree._Element) -> _Style:
    name = attribute(child(element, "name"), "val")
    heading = _HEADING.match(name)
    settings = child(element, "pPr")
    level = int(heading[1]) if heading else _outline_level(settings)
    listed = name.lower().startswith("list ") and name.lower() != "list paragraph"
    return _Style(level, name.lower() == "title", listed)


def _inherited(name: str, own: Mapping[str, tuple[_Style, str]]) -> _Style:
    seen: set[str] = set()
    style, parent = own[name]
    while not (style.level or style.title or style.listed) and parent in own and parent not in seen:
        seen.add(parent)
        style, parent = own[parent]
    return style


def _notes(archive: ZipArchive, part: str, reader: _Reader) -> Iterator[Block]:
    if not part:
        return
    for note in part_xml(archive, part):
        if attribute(note, "type") in ("separator", "continuationSeparator", "continuationNotice"):
            continue
        text = one_line(" ".join(block.text for block in reader.blocks(note)))
        if text:
            yield Block("line", f"[{attribute(note, 'id')}] {text}")
