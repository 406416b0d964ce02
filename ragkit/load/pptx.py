"""PowerPoint files: one page a slide, its title as a heading, its notes below it."""

from __future__ import annotations

from collections.abc import Iterator

from lxml import etree

from ragkit.load.blocks import Block, joined
from ragkit.load.encoding import clean
from ragkit.load.meta import metadata, one_line
from ragkit.load.ooxml import attribute, child, local, main_part, named, part_xml, properties, related, relations
from ragkit.load.options import VERSIONS, PptxOptions
from ragkit.load.ziparchive import ZipArchive
from ragkit.records import Document, Heading

PAGE_BREAK = "\n\n"
FURNITURE = frozenset({"dt", "ftr", "hdr", "sldImg", "sldNum"})
"""Placeholders that repeat on every slide."""


class PptxLoader:
    """Text of shapes and tables in the order of the file; hidden slides are counted, not read."""

    version = VERSIONS["pptx"]

    def __init__(self, options: PptxOptions | None = None) -> None:
        self.options = options or PptxOptions()

    def load(self, data: bytes, source: str) -> Document:
        """The document in `data`. Raises LoadError and LoadLimit."""
        archive = ZipArchive(data, source, self.options)
        known = properties(archive)
        pages: list[str] = []
        starts: list[int] = []
        headings: list[Heading] = []
        hidden, length = 0, 0
        for name in _slide_names(archive):
            slide = part_xml(archive, name)
            if slide.get("show") in ("0", "false"):
                hidden += 1
                continue
            text, found = joined([*_blocks(slide), *self._notes(archive, name)], length)
            pages.append(text)
            starts.append(length)
            headings += found
            length += len(text) + len(PAGE_BREAK)
        title = str(known.pop("title", ""))
        return Document(
            text=PAGE_BREAK.join(pages) if any(pages) else "",
            metadata=metadata("pptx", source, {**known, "slides": len(pages), "hidden_slides": hidden or None}),
            source=source,
            title="" if title.lower() == "powerpoint presentation" else title,
            page_starts=tuple(starts) if any(pages) else (),
            headings=tuple(headings),
            format="pptx",
        )

    def _notes(self, archive: ZipArchive, slide: str) -> Iterator[Block]:
        part = related(archive, slide, "notesSlide") if self.options.notes else ""
        lines = [block.text for block in _blocks(part_xml(archive, part))] if part else []
        if lines:
            yield Block("p", "Notes: " + "\n".join(lines))


def _slide_names(archive: ZipArchive) -> Iterator[str]:
    """The parts of the slides, in the order in which they are shown."""
    main = main_part(archive, "ppt/presentation.xml")
    leads_to = relations(archive, main)
    listed = child(part_xml(archive, main), "sldIdLst")
    for entry in listed if listed is not None else ():
        # `id` stands twice: the slide's number, and with a namespace the relation
        key = next((value for name, value in entry.attrib.items() if name.endswith("}id")), "")
        _, part = leads_to.get(key, ("", ""))
        if part in archive:
            yield part


def _blocks(slide: etree._Element) -> Iterator[Block]:
    """The title of a slide, then its other shapes in the order of the file."""
    shapes = [each for each in slide.iter() if local(each) in ("sp", "tbl") and not _is_fallback(each)]
    titles = [shape for shape in shapes if _placeholder(shape) in ("title", "ctrTitle")]
    for shape in titles:
        words = one_line(" ".join(_lines(shape)))
        if words:
            yield Block("h", words, 1)
    for shape in shapes:
        if local(shape) == "tbl":
            yield from _rows(shape)
        elif shape not in titles and _placeholder(shape) not in FURNITURE:
            text = "\n".join(_lines(shape))
            if text:
                yield Block("p", text)


def _is_fallback(shape: etree._Element) -> bool:
    """Whether it repeats, for old programs, a shape that stands beside it."""
    return any(local(above) == "Fallback" for above in shape.iterancestors())


def _placeholder(shape: etree._Element) -> str:
    """What a shape holds the place for: title, body, sldNum, ...; '' for a free shape."""
    holder = child(shape, "nvSpPr", "nvPr", "ph")
    return attribute(holder, "type") or ("body" if holder is not None else "")


def _lines(parent: etree._Element) -> Iterator[str]:
    """The paragraphs below an element, deeper levels indented as lists."""
    for paragraph in named(parent, "p"):
        text = one_line(clean("".join(_words(paragraph))))
        level = attribute(child(paragraph, "pPr"), "lvl")
        if text:
            yield "  " * (int(level) - 1) + "- " + text if level in tuple("12345678") else text


def _words(paragraph: etree._Element) -> Iterator[str]:
    for each in paragraph.iter():
        if local(each) == "t":
            yield each.text or ""
        elif local(each) in ("br", "tab"):
            yield " "


def _rows(table: etree._Element) -> Iterator[Block]:
    for row in named(table, "tr"):
        cells = [one_line(" ".join(_lines(cell))) for cell in row if local(cell) == "tc"]
        if any(cells):
            yield Block("row", " | ".join(cells))
