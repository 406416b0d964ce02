"""PowerPoint files: one page per slide, its title as a heading, its notes below."""

from __future__ import annotations

from collections.abc import Iterator

from lxml import etree

from ragkit.load.encoding import replace_invalid_chars
from ragkit.load.layout_blocks import LayoutBlock, join_blocks
from ragkit.load.loader_utils import build_metadata, collapse_whitespace
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
    read_relationships,
)
from ragkit.load.options import LOADER_VERSIONS, PptxOptions
from ragkit.load.pdf_text import PAGE_BREAK
from ragkit.load.zip_archive import ZipArchive
from ragkit.records import Document, Heading

BOILERPLATE_PLACEHOLDERS = frozenset({"dt", "ftr", "hdr", "sldImg", "sldNum"})
"""Placeholders that repeat on every slide."""


class PptxLoader:
    """The text of shapes and tables in file order; hidden slides are skipped and counted."""

    version = LOADER_VERSIONS["pptx"]

    def __init__(self, options: PptxOptions | None = None) -> None:
        self.options = options or PptxOptions()

    def load(self, data: bytes, source: str) -> Document:
        """The document in `data`. Raises LoadError and LoadLimitExceeded."""
        archive = ZipArchive(data, source, self.options)
        properties = read_core_properties(archive)
        pages: list[str] = []
        starts: list[int] = []
        headings: list[Heading] = []
        hidden, length = 0, 0
        for name in _slide_parts(archive):
            slide = parse_part(archive, name)
            if slide.get("show") in ("0", "false"):
                hidden += 1
                continue
            text, slide_headings = join_blocks([*_slide_blocks(slide), *self._notes(archive, name)], length)
            pages.append(text)
            starts.append(length)
            headings += slide_headings
            length += len(text) + len(PAGE_BREAK)
        title = str(properties.pop("title", ""))
        extra = {**properties, "slides": len(pages), "hidden_slides": hidden or None}
        return Document(
            text=PAGE_BREAK.join(pages) if any(pages) else "",
            metadata=build_metadata("pptx", source, extra),
            source=source,
            title="" if title.lower() == "powerpoint presentation" else title,
            page_starts=tuple(starts) if any(pages) else (),
            headings=tuple(headings),
            format="pptx",
        )

    def _notes(self, archive: ZipArchive, slide: str) -> Iterator[LayoutBlock]:
        part = find_related_part(archive, slide, "notesSlide") if self.options.notes else ""
        lines = [block.text for block in _slide_blocks(parse_part(archive, part))] if part else []
        if lines:
            yield LayoutBlock("p", "Notes: " + "\n".join(lines))


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


def _slide_blocks(slide: etree._Element) -> Iterator[LayoutBlock]:
    """The title of a slide, then its other shapes in file order."""
    shapes = [shape for shape in slide.iter("{*}sp", "{*}tbl") if not is_fallback(shape)]
    titles = [shape for shape in shapes if _placeholder_type(shape) in ("title", "ctrTitle")]
    for shape in titles:
        title_text = collapse_whitespace(" ".join(_paragraph_lines(shape)))
        if title_text:
            yield LayoutBlock("h", title_text, 1)
    for shape in shapes:
        if local_name(shape) == "tbl":
            yield from _table_rows(shape)
        elif shape not in titles and _placeholder_type(shape) not in BOILERPLATE_PLACEHOLDERS:
            text = "\n".join(_paragraph_lines(shape))
            if text:
                yield LayoutBlock("p", text)


def _placeholder_type(shape: etree._Element) -> str:
    """The placeholder type of a shape: title, body, sldNum, ...; '' for a shape that is not a placeholder."""
    holder = find_child(shape, "nvSpPr", "nvPr", "ph")
    return get_attribute(holder, "type") or ("body" if holder is not None else "")


def _paragraph_lines(parent: etree._Element) -> Iterator[str]:
    """The paragraphs below an element; deeper levels as indented list items."""
    for paragraph in iter_elements(parent, "p"):
        text = collapse_whitespace(replace_invalid_chars("".join(_iter_text(paragraph))))
        level = get_attribute(find_child(paragraph, "pPr"), "lvl")
        if text:
            yield "  " * (int(level) - 1) + "- " + text if level in tuple("12345678") else text


def _iter_text(paragraph: etree._Element) -> Iterator[str]:
    for element in paragraph.iter():
        if local_name(element) == "t":
            yield element.text or ""
        elif local_name(element) in ("br", "tab"):
            yield " "


def _table_rows(table: etree._Element) -> Iterator[LayoutBlock]:
    for row in iter_elements(table, "tr"):
        cells = [collapse_whitespace(" ".join(_paragraph_lines(cell))) for cell in row if local_name(cell) == "tc"]
        if any(cells):
            yield LayoutBlock("row", " | ".join(cells))
