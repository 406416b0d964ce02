"""PowerPoint files: one page per slide, its title as a heading, its notes below."""

from __future__ import annotations

from collections.abc import Iterator

from lxml import etree

from ragkit.load.office.flat_package import to_package
from ragkit.load.office.ooxml_drawings import comment_block, graphic_blocks, paragraph_text, paragraph_texts
from ragkit.load.office.pptx_shapes import Placeholders, read_placeholders, shapes_in_order
from ragkit.load.office.slides import build_slides
from ragkit.load.options import LOADER_VERSIONS, PptxOptions
from ragkit.load.shared.layout_blocks import LayoutBlock
from ragkit.load.shared.loader_utils import collapse_whitespace
from ragkit.load.shared.ooxml import (
    child_text,
    find_child,
    find_main_part,
    find_related_part,
    get_attribute,
    iter_elements,
    local_name,
    parse_part,
    read_core_properties,
    read_people,
    read_relationships,
)
from ragkit.load.shared.zip_archive import ZipArchive
from ragkit.records import Document

BOILERPLATE_PLACEHOLDERS = frozenset({"dt", "ftr", "hdr", "sldImg", "sldNum"})
"""Placeholders that repeat on every slide."""


class PptxLoader:
    """The text of shapes, tables, charts and SmartArt by position; hidden slides are skipped and counted."""

    version = LOADER_VERSIONS["pptx"]

    def __init__(self, options: PptxOptions | None = None) -> None:
        self.options = options or PptxOptions()

    def load(self, data: bytes, source: str) -> Document:
        """The document in `data`. Raises LoadError and LoadLimitExceeded."""
        archive = ZipArchive(to_package(data, source), source, self.options)
        reader, hidden = _SlideReader(archive), 0
        slides: list[list[LayoutBlock]] = []
        for name in _slide_parts(archive):
            slide = parse_part(archive, name)
            if slide.get("show") in ("0", "false"):
                hidden += 1
                continue
            blocks = reader.slide_blocks(name, slide)
            slides.append([*blocks, *self._comments(archive, name), *self._notes(archive, name, reader)])
        return build_slides("pptx", source, slides, {**read_core_properties(archive), "hidden_slides": hidden or None})

    def _notes(self, archive: ZipArchive, slide: str, reader: _SlideReader) -> Iterator[LayoutBlock]:
        part = find_related_part(archive, slide, "notesSlide") if self.options.notes else ""
        lines = [block.text for block in reader.slide_blocks(part, parse_part(archive, part))] if part else []
        if lines:
            yield LayoutBlock("p", "Notes: " + "\n".join(lines))

    def _comments(self, archive: ZipArchive, slide: str) -> Iterator[LayoutBlock]:
        for kind, part in read_relationships(archive, slide).values() if self.options.comments else ():
            if kind == "comments" and part in archive:
                main = find_main_part(archive, "ppt/presentation.xml")
                authors = read_people(archive, main, ("commentAuthors", "authors"), "name")
                for comment in iter_elements(parse_part(archive, part), "cm"):
                    words = " ".join([child_text(comment, "text"), *paragraph_texts(comment)]).strip()
                    yield comment_block(words, authors.get(get_attribute(comment, "authorId"), ""))


def _slide_parts(archive: ZipArchive) -> Iterator[str]:
    """The names of the slide parts, in presentation order."""
    main = find_main_part(archive, "ppt/presentation.xml")
    relationships = read_relationships(archive, main)
    slide_list = find_child(parse_part(archive, main), "sldIdLst")
    for entry in slide_list if slide_list is not None else ():
        # there are two `id` attributes: the one with a namespace is the relationship
        key = next((value for name, value in entry.attrib.items() if name.endswith("}id")), "")
        _, part = relationships.get(key, ("", ""))
        if part in archive:
            yield part


class _SlideReader:
    """Converts slides to blocks."""

    def __init__(self, archive: ZipArchive) -> None:
        self._archive = archive
        self._placeholders: dict[str, Placeholders] = {}

    def slide_blocks(self, part: str, slide: etree._Element) -> Iterator[LayoutBlock]:
        """The title of a slide, then its other shapes by position."""
        tree = find_child(slide, "cSld", "spTree")
        shapes = [] if tree is None else shapes_in_order(tree, self._layout_placeholders(part))
        titles = [shape for shape in shapes if _placeholder_type(shape) in ("title", "ctrTitle")]
        for shape in titles:
            title_text = collapse_whitespace(" ".join(_paragraph_lines(shape)))
            if title_text:
                yield LayoutBlock("h", title_text, 1)
        for shape in shapes:
            if local_name(shape) == "graphicFrame":
                yield from self._frame_blocks(part, shape)
            elif shape not in titles and _placeholder_type(shape) not in BOILERPLATE_PLACEHOLDERS:
                text = "\n".join(_paragraph_lines(shape))
                if text:
                    yield LayoutBlock("p", text)

    def _frame_blocks(self, part: str, frame: etree._Element) -> Iterator[LayoutBlock]:
        for graphic in iter_elements(frame, "graphicData"):
            for table in iter_elements(graphic, "tbl"):
                yield from _table_rows(table)
            yield from graphic_blocks(self._archive, part, graphic)

    def _layout_placeholders(self, part: str) -> Placeholders:
        """The placeholders of the layout of a slide, then of its master."""
        layout = find_related_part(self._archive, part, "slideLayout")
        if layout not in self._placeholders:
            master = find_related_part(self._archive, layout, "slideMaster") if layout else ""
            roots = [parse_part(self._archive, name) for name in (master, layout) if name]
            self._placeholders[layout] = {key: box for root in roots for key, box in read_placeholders(root).items()}
        return self._placeholders[layout]


def _placeholder_type(shape: etree._Element) -> str:
    """The placeholder type of a shape: title, body, sldNum, ...; '' for a shape that is not a placeholder."""
    holder = find_child(shape, "nvSpPr", "nvPr", "ph")
    return get_attribute(holder, "type") or ("body" if holder is not None else "")


def _paragraph_lines(parent: etree._Element) -> Iterator[str]:
    """The paragraphs below an element; deeper levels as indented list items."""
    for paragraph in iter_elements(parent, "p"):
        text = paragraph_text(paragraph)
        level = get_attribute(find_child(paragraph, "pPr"), "lvl")
        if text:
            yield "  " * (int(level) - 1) + "- " + text if level in tuple("12345678") else text


def _table_rows(table: etree._Element) -> Iterator[LayoutBlock]:
    header, cells = "", list[str]()
    for number, row in enumerate(iter_elements(table, "tr")):
        above, cells = cells, []
        for column, cell in enumerate(cell for cell in row if local_name(cell) == "tc"):
            goes_on = get_attribute(cell, "vMerge") in ("1", "true") and column < len(above)
            cells.append(above[column] if goes_on else collapse_whitespace(" ".join(_paragraph_lines(cell))))
        if any(cells):
            yield LayoutBlock("row", " | ".join(cells), header=header)
        if not number and get_attribute(find_child(table, "tblPr"), "firstRow") in ("1", "true"):
            header = " | ".join(cells)
