"""The text of a table cell that holds paragraphs, lists or a table of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ragkit.load.shared.layout_blocks import LayoutBlock
from ragkit.load.shared.loader_utils import collapse_whitespace
from ragkit.load.shared.table_text import is_header


def cell_text(blocks: Iterable[LayoutBlock]) -> str:
    """One line; rows of an inner table are `name: value, name: value; ...`."""
    parts: list[str] = []
    rows: list[list[str]] = []
    for block in [*blocks, LayoutBlock("p", "")]:
        if block.kind == "row":
            rows.append([cell.strip() for cell in block.text.split(" | ")])
            continue
        if rows:
            parts.append(_inner_table(rows))
            rows = []
        parts.append(block.text)
    return collapse_whitespace(" ".join(parts))


def _inner_table(rows: Sequence[Sequence[str]]) -> str:
    names = rows[0] if len(rows) > 1 and is_header(rows[0], rows[1]) else ()
    lines = [
        ", ".join(
            f"{names[number]}: {cell}" if number < len(names) and names[number] else cell
            for number, cell in enumerate(row)
            if cell
        )
        for row in rows[1 if names else 0 :]
    ]
    return "; ".join(lines)
