"""OpenDocument files: texts (ODT), presentations (ODP) and sheets (ODS)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lxml import etree

from ragkit.errors import LoadError
from ragkit.load.office.cell_text import cell_text
from ragkit.load.office.odf_lists import ListStyles
from ragkit.load.office.odf_sheet import read_sheet
from ragkit.load.office.ooxml_drawings import comment_block
from ragkit.load.office.sheet_text import Workbook
from ragkit.load.office.slides import build_slides
from ragkit.load.options import LOADER_VERSIONS, OdpOptions, OdsOptions, ZipOptions
from ragkit.load.shared.encoding import replace_invalid_chars
from ragkit.load.shared.layout_blocks import LayoutBlock, join_blocks
from ragkit.load.shared.loader_utils import build_document, collapse_whitespace
from ragkit.load.shared.ooxml import (
    child_text,
    find_child,
    get_attribute,
    get_integer,
    iter_elements,
    local_name,
    parse_part,
    read_properties,
)
from ragkit.load.shared.zip_archive import ZipArchive
from ragkit.records import Document, Place

SKIPPED_ELEMENTS = frozenset(
    {"annotation", "annotation-end", "note", "frame", "tracked-changes", "ruby-text", "custom-shape", "page-number"}
)
"""Inside a paragraph: notes and frames, which are read after it, and deleted text."""

METADATA_KEYS = {"title": "title", "creator": "author", "keyword": "keywords", "date": "modified"} | {
    "creation-date": "created"
}
"""Elements of `meta.xml` -> keys of the document's metadata."""

SAVE_WITHOUT_PASSWORD = "save it without a password"  # noqa: S105 - a hint


class OdtLoader:
    """Paragraphs, headings, lists, tables, notes and comments in document order."""

    version = LOADER_VERSIONS["odt"]

    def __init__(self, options: ZipOptions | None = None) -> None:
        self.options = options or ZipOptions()

    def load(self, data: bytes, source: str) -> Document:
        """The document in `data`. Raises LoadError and LoadLimitExceeded."""
        archive = ZipArchive(data, source, self.options)
        body = _read_body(archive, "text")
        styles = [parse_part(archive, name) for name in ("styles.xml", "content.xml") if name in archive]
        reader = _OdfReader(ListStyles(styles))
        blocks = [*reader.blocks(body), *reader.notes] if body is not None else []
        known = read_properties(archive, "meta.xml", METADATA_KEYS)
        title = str(known.pop("title", "")) or reader.title
        return build_document("odt", source, join_blocks(blocks), known, title)


class OdpLoader:
    """One page per slide, its title as a heading, its notes below."""

    version = LOADER_VERSIONS["odp"]

    def __init__(self, options: OdpOptions | None = None) -> None:
        self.options = options or OdpOptions()

    def load(self, data: bytes, source: str) -> Document:
        """The document in `data`. Raises LoadError and LoadLimitExceeded."""
        archive = ZipArchive(data, source, self.options)
        body = _read_body(archive, "presentation")
        slides = iter_elements(body, "page") if body is not None else ()
        blocks = (_slide_blocks(slide, notes=self.options.notes) for slide in slides)
        return build_slides("odp", source, blocks, read_properties(archive, "meta.xml", METADATA_KEYS))


class OdsLoader:
    """One section per sheet, one line of text per row, with the column names."""

    version = LOADER_VERSIONS["ods"]

    def __init__(self, options: OdsOptions | None = None) -> None:
        self.options = options or OdsOptions()

    def load(self, data: bytes, source: str) -> Document:
        """The document in `data`. Raises LoadError, and LoadLimitExceeded above `max_cells`."""
        archive = ZipArchive(data, source, self.options)
        body = _read_body(archive, "spreadsheet")
        book = Workbook("ods", source, self.options)
        for table in body if body is not None else ():
            if local_name(table) == "table":
                book.add_sheet(get_attribute(table, "name"), read_sheet(table, book.count_cells))
        return book.to_document(read_properties(archive, "meta.xml", METADATA_KEYS))


def _read_body(archive: ZipArchive, kind: str) -> etree._Element | None:
    """The body of `content.xml`. Raises LoadError when it is missing, damaged or encrypted."""
    if "META-INF/manifest.xml" in archive:
        manifest = parse_part(archive, "META-INF/manifest.xml")
        if next(iter_elements(manifest, "encryption-data"), None) is not None:
            raise LoadError(archive.source, "password-protected", SAVE_WITHOUT_PASSWORD)
    return find_child(parse_part(archive, "content.xml"), "body", kind)


class _OdfReader:
    """Converts the XML of one file to blocks; `title` is the first paragraph with the style Title."""

    def __init__(self, lists: ListStyles | None = None) -> None:
        self.title = ""
        self._lists = lists or ListStyles()
        self.notes: list[LayoutBlock] = []
        self._paragraph_count = 0

    def blocks(self, parent: etree._Element, depth: int = 0) -> Iterator[LayoutBlock]:
        """The blocks below an element, in order; `depth` is that of the list around it."""
        for element in parent:
            kind = local_name(element)
            if kind in ("p", "h"):
                yield from self._paragraph(element, depth)
            elif kind == "table":
                yield from self._table(element)
            elif kind == "list":
                self._lists.open(element, depth)
                yield from self.blocks(element, depth + 1)
            elif kind == "list-item":
                self._lists.next_item(element, depth - 1)
                yield from self.blocks(element, depth)
            elif kind not in ("tracked-changes", "forms", "sequence-decls", "notes"):
                yield from self.blocks(element, depth)

    def _paragraph(self, element: etree._Element, depth: int) -> Iterator[LayoutBlock]:
        self._paragraph_count += 1
        place = Place(0, "paragraph", self._paragraph_count)
        text = replace_invalid_chars("".join(_iter_text(element))).strip()
        if text and local_name(element) == "h":
            level = min(max(1, get_integer(element, "outline-level", 1)), 10)
            yield LayoutBlock("h", collapse_whitespace(text), level, place=place)
        elif text and depth:
            yield LayoutBlock(
                "li",
                f"{'  ' * min(depth - 1, 8)}{self._lists.take_mark(depth - 1)} {collapse_whitespace(text)}",
                place=place,
            )
        elif text:
            if get_attribute(element, "style-name") == "Title":
                self.title = self.title or collapse_whitespace(text)
            yield LayoutBlock("p", text, place=place)
        yield from self._attached(element, place)

    def _attached(self, element: etree._Element, place: Place) -> Iterator[LayoutBlock]:
        """The comments and frames of a paragraph; its notes are kept for the end."""
        for item in element.iter("{*}annotation", "{*}text-box", "{*}note", "{*}object"):
            kind = local_name(item)
            if kind == "annotation":
                words = " ".join("".join(_iter_text(paragraph)) for paragraph in iter_elements(item, "p"))
                block = comment_block(collapse_whitespace(replace_invalid_chars(words)), child_text(item, "creator"))
                block.place = place
                yield block
            elif kind == "note":
                body = find_child(item, "note-body")
                text = " ".join(block.text for block in self.blocks(body)) if body is not None else ""
                if text:
                    self.notes.append(LayoutBlock("line", f"[{child_text(item, 'note-citation')}] {text}", place=place))
            elif kind == "text-box":
                yield from self.blocks(item)

    def _table(self, table: etree._Element) -> Iterator[LayoutBlock]:
        header, above = "", dict[int, tuple[int, str]]()
        for row in iter_elements(table, "table-row"):
            if next(row.iterancestors("{*}table")) is not table:
                continue  # of a table inside a cell
            place = Place(0, "paragraph", self._paragraph_count + 1)
            texts = self._row_texts(row, above)
            in_head = local_name(row.getparent()) == "table-header-rows"
            if any(texts):
                yield LayoutBlock("row", " | ".join(texts), header="" if in_head else header, place=place)
            header = " | ".join(texts) if in_head and len(texts) > 1 else header

    def _row_texts(self, row: etree._Element, above: dict[int, tuple[int, str]]) -> list[str]:
        """The texts of the cells; one of several rows counts for those below: `above` has the rows left, by column."""
        texts: list[str] = []
        for column, cell in enumerate(row):
            kind = local_name(cell)
            left, text = above.pop(column, (0, ""))
            if kind == "table-cell":
                text = cell_text(self.blocks(cell)).removeprefix("- ")
                left = get_integer(cell, "number-rows-spanned", 1) if text else 1
                texts.append(text)
            elif kind == "covered-table-cell" and left:
                texts.append(text)
            if left > 1:
                above[column] = left - 1, text
        return texts


def _slide_blocks(slide: etree._Element, *, notes: bool) -> Iterator[LayoutBlock]:
    reader = _OdfReader()
    frames = [frame for frame in slide if local_name(frame) not in ("notes", "forms")]
    titles = [frame for frame in frames if get_attribute(frame, "class") == "title"]
    for frame in titles:
        title = collapse_whitespace(" ".join(block.text for block in reader.blocks(frame)))
        yield LayoutBlock("h", title, 1)
    for frame in sorted((frame for frame in frames if frame not in titles), key=_position):
        yield from _without_places(reader.blocks(frame))
    page = find_child(slide, "notes")
    lines = [block.text for block in reader.blocks(page)] if notes and page is not None else []
    if lines:
        yield LayoutBlock("p", "Notes: " + "\n".join(lines))


def _without_places(blocks: Iterable[LayoutBlock]) -> Iterator[LayoutBlock]:
    """The blocks without paragraph numbers: a slide is the place."""
    for block in blocks:
        block.place = None
        yield block


def _position(frame: etree._Element) -> tuple[float, float]:
    """Top and left of a frame in its unit; frames of one file share a unit."""
    return _length(get_attribute(frame, "y")), _length(get_attribute(frame, "x"))


def _length(text: str) -> float:
    number = text.rstrip("cmintpx%")
    try:
        return float(number) if len(number) < 20 else 0.0
    except ValueError:
        return 0.0


def _iter_text(element: etree._Element) -> Iterator[str]:
    """The visible text of a paragraph."""
    yield element.text or ""
    for node in element:
        kind = local_name(node)
        if kind == "s":
            yield " " * min(get_integer(node, "c", 1), 100)
        elif kind == "tab":
            yield "\t"
        elif kind == "line-break":
            yield "\n"
        elif kind == "note":
            yield f"[{child_text(node, 'note-citation')}]"
        elif kind not in SKIPPED_ELEMENTS:
            yield from _iter_text(node)
        yield node.tail or ""
