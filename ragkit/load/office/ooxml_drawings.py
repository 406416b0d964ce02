"""Charts, SmartArt, text boxes and comments of Office Open XML files as blocks of text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from lxml import etree

from ragkit.load.shared.encoding import replace_invalid_chars
from ragkit.load.shared.layout_blocks import LayoutBlock
from ragkit.load.shared.loader_utils import collapse_whitespace
from ragkit.load.shared.ooxml import (
    child_text,
    find_child,
    get_attribute,
    get_integer,
    is_fallback,
    iter_elements,
    local_name,
    parse_part,
    read_relationships,
)
from ragkit.load.shared.zip_archive import ZipArchive

_THREAD_HEAD = re.compile(
    r"\[Threaded comment\][^\n]{0,400}?\bComment: ?|\[[^\[\]]{1,60}\] [^\n]{0,600}?linkid=870924[^:]{0,60}: ?"
)

MAX_POINTS = 10_000
"""Points of a chart that are read."""


def drawing_blocks(archive: ZipArchive, part: str) -> list[LayoutBlock]:
    """The text boxes, charts and SmartArt of a drawing of a sheet, in file order."""
    blocks: list[LayoutBlock] = []
    for element in parse_part(archive, part).iter("{*}txBody", "{*}graphicData"):
        if is_fallback(element):
            continue
        if local_name(element) == "txBody":
            blocks += [LayoutBlock("p", text)] if (text := "\n".join(paragraph_texts(element))) else []
        else:
            blocks += graphic_blocks(archive, part, element)
    return blocks


def graphic_blocks(archive: ZipArchive, part: str, graphic: etree._Element) -> Iterator[LayoutBlock]:
    """The chart or SmartArt that a `graphicData` of `part` refers to."""
    for element in graphic:
        kind = local_name(element)
        attribute = {"chart": "id", "relIds": "dm"}.get(kind)
        if attribute is None:
            continue
        key = next((value for name, value in element.attrib.items() if name.endswith("}" + attribute)), "")
        _, target = read_relationships(archive, part).get(key, ("", ""))
        if target in archive:
            root = parse_part(archive, target)
            yield from chart_blocks(root) if kind == "chart" else diagram_blocks(root)


def chart_blocks(root: etree._Element) -> Iterator[LayoutBlock]:
    """The titles of a chart, then one row per category with the values of its series."""
    titles = ["; ".join(paragraph_texts(title)) for title in iter_elements(root, "title")]
    if text := "; ".join(filter(None, titles)):
        yield LayoutBlock("p", f"Chart: {text}")
    names: list[str] = []
    categories: dict[int, str] = {}
    values: dict[int, dict[int, str]] = {}
    for number, series in enumerate(iter_elements(root, "ser")):
        name = next(iter(_points(find_child(series, "tx")).values()), "")
        names.append(name or f"series {number + 1}")
        for kind in ("cat", "xVal"):
            categories = _points(find_child(series, kind)) | categories
        for kind in ("val", "yVal", "bubbleSize"):
            for key, text in _points(find_child(series, kind)).items():
                cells = values.setdefault(key, {})
                cells.setdefault(number, text)
    for key, cells in sorted(values.items())[:MAX_POINTS]:
        row = [f"{names[number]}: {text}" for number, text in sorted(cells.items()) if text]
        yield LayoutBlock("row", "; ".join(filter(None, [categories.get(key, ""), *row])))


def diagram_blocks(root: etree._Element) -> Iterator[LayoutBlock]:
    """The points of a SmartArt graphic as a nested list."""
    texts: dict[str, str] = {}
    for point in iter_elements(root, "pt"):
        texts[get_attribute(point, "modelId")] = " ".join(paragraph_texts(point))
    children: dict[str, list[tuple[int, str]]] = {}
    for link in iter_elements(root, "cxn"):
        if get_attribute(link, "type") in ("", "parOf"):
            child = get_integer(link, "srcOrd"), get_attribute(link, "destId")
            children.setdefault(get_attribute(link, "srcId"), []).append(child)
    linked = {child for links in children.values() for _, child in links}
    pending = [(key, 0) for key in reversed(texts) if key not in linked]
    seen: set[str] = set()
    while pending:
        key, depth = pending.pop()
        if key in seen:
            continue
        seen.add(key)
        if text := texts.get(key, ""):
            yield LayoutBlock("li", "  " * min(depth, 8) + "- " + text)
        below = sorted(children.get(key, ()), reverse=True)
        pending += [(child, depth + 1 if texts.get(key) else depth) for _, child in below]


def threaded_comment_blocks(root: etree._Element, people: Mapping[str, str]) -> Iterator[LayoutBlock]:
    """The comments and replies of a sheet, with their cells and authors; `people`: names by id."""
    for comment in iter_elements(root, "threadedComment"):
        author = people.get(get_attribute(comment, "personId"), "")
        yield comment_block(child_text(comment, "text"), author, f" on {get_attribute(comment, 'ref')}")


def sheet_comment_blocks(root: etree._Element) -> Iterator[LayoutBlock]:
    """The comments of a sheet, with their cells and authors; threaded ones without what Excel says of them."""
    authors = [collapse_whitespace(author.text or "") for author in iter_elements(root, "author")]
    for comment in iter_elements(root, "comment"):
        text = collapse_whitespace(
            replace_invalid_chars("".join(node.text or "" for node in iter_elements(comment, "t")))
        )
        number = get_integer(comment, "authorId", len(authors))
        author = authors[number] if number < len(authors) else ""
        if author.startswith("tc={"):
            author, text = "", _THREAD_HEAD.sub("", text)
        yield comment_block(text, author, f" on {get_attribute(comment, 'ref')}")


def comment_block(text: str, author: str, where: str = "") -> LayoutBlock:
    """A comment as a paragraph: `Comment on B2 by Ann: check this`."""
    text = text.removeprefix(f"{author}:").strip() if author else text
    return LayoutBlock("p", f"Comment{where}{f' by {author}' if author else ''}: {text}" if text else "")


def paragraph_text(paragraph: etree._Element) -> str:
    """The text of a paragraph of DrawingML on one line."""
    found = paragraph.iter("{*}t", "{*}br", "{*}tab")
    parts = ((element.text or "") if local_name(element) == "t" else " " for element in found)
    return collapse_whitespace(replace_invalid_chars("".join(parts)))


def paragraph_texts(parent: etree._Element) -> Iterator[str]:
    """The paragraphs of DrawingML below an element that hold text."""
    return filter(None, map(paragraph_text, iter_elements(parent, "p")))


def _points(data: etree._Element | None) -> dict[int, str]:
    """The cached values of a reference: index -> text; the levels of a category are joined."""
    points: dict[int, str] = {}
    if data is None:
        return points
    for point in iter_elements(data, "pt"):
        key, text = get_integer(point, "idx", -1), child_text(point, "v")
        if key >= 0 and len(points) < MAX_POINTS:
            points[key] = f"{text} {points[key]}" if key in points else text
    if not points and (value := next(iter_elements(data, "v"), None)) is not None:
        points[0] = collapse_whitespace(replace_invalid_chars(value.text or ""))
    return points
