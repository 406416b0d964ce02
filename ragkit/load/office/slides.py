"""Presentations: one page a slide."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ragkit.load.pages.text import PAGE_BREAK
from ragkit.load.shared.layout_blocks import LayoutBlock, join_blocks
from ragkit.load.shared.loader_utils import build_metadata
from ragkit.records import JSON, Document, Heading


def build_slides(
    kind: str, source: str, slides: Iterable[Iterable[LayoutBlock]], known: Mapping[str, JSON]
) -> Document:
    """The document of the blocks of each slide; `known` is its metadata, with the title."""
    pages: list[str] = []
    starts: list[int] = []
    headings: list[Heading] = []
    length = 0
    for blocks in slides:
        layout = join_blocks(blocks, length)
        pages.append(layout.text)
        starts.append(length)
        headings += layout.headings
        length += len(layout.text) + len(PAGE_BREAK)
    title, has_text = str(known.get("title", "")), any(pages)
    extra = {**{key: value for key, value in known.items() if key != "title"}, "slides": len(pages)}
    return Document(
        text=PAGE_BREAK.join(pages) if has_text else "",
        metadata=build_metadata(kind, source, extra),
        source=source,
        title="" if title.lower() == "powerpoint presentation" else title,
        page_starts=tuple(starts) if has_text else (),
        headings=tuple(headings),
        format=kind,
    )
