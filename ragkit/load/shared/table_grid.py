"""The grid of a table of HTML or Word: spans, and the column names and labels that head its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ragkit.load.shared.loader_utils import collapse_whitespace

MAX_COLUMNS = 1_000
"""Columns of a grid; cells beyond have no names."""


@dataclass(slots=True)
class TableCell:
    """A cell while it is read."""

    is_name: bool
    """A `<th>`."""
    columns: int = 1
    rows: int = 1
    texts: list[str] = field(default_factory=list)

    @classmethod
    def from_attributes(cls, tag: str, attributes: Mapping[str, str]) -> TableCell:
        """The cell that a start tag opens."""
        return cls(tag == "th", _span(attributes.get("colspan")), _span(attributes.get("rowspan")))

    @property
    def text(self) -> str:
        """Its text on one line."""
        return collapse_whitespace(" ".join(self.texts))


class TableGrid:
    """The rows of one table, in order."""

    def __init__(self) -> None:
        self.in_head = False
        """Inside `<thead>`."""
        self._names: list[list[str]] = []
        self._header = ""
        self._labels: list[str] = []
        """Texts that stand alone in a row above the next rows."""
        self._has_body = False
        self._is_below_row = True
        self._from_above: dict[int, tuple[int, str]] = {}
        """Column -> rows that a cell of several rows still covers, and its text."""

    def add_row(self, cells: Sequence[TableCell]) -> tuple[str, str]:
        """The text of a row, and the column names above it; '' for a row of names and for a table without them."""
        row = self._place(cells)
        if self._is_name_row(cells):
            self._names += [[] for _ in range(len(row) - len(self._names))]
            for names, (text, _) in zip(self._names, row, strict=False):
                if text and text not in names:
                    names.append(text)
            self._header = self._join_names()
            return " | ".join(text for text, is_start in row if is_start), ""
        self._has_body = self._has_body or len(cells) > 1
        if not self._header:
            return " | ".join(cell.text for cell in cells), ""
        shown = [text if is_start else "" for text, is_start in row]
        if shown[0] and not any(shown[1:]):  # it heads the rows below it
            self._labels = [shown[0]] if self._is_below_row else [*self._labels, shown[0]]
            self._header = self._join_names()
        self._is_below_row = any(shown[1:])
        return " | ".join(shown).rstrip(" |"), self._header

    def _join_names(self) -> str:
        first = [*self._names[0], *self._labels]
        return " | ".join(" / ".join(names) for names in [first, *self._names[1:]]).strip(" |")

    def _is_name_row(self, cells: Sequence[TableCell]) -> bool:
        if self._has_body or (len(cells) < 2 and (not self._names or not self.in_head)):
            return False
        return self.in_head or all(cell.is_name for cell in cells)

    def _place(self, cells: Sequence[TableCell]) -> list[tuple[str, bool]]:
        """The texts of a row by column, and whether the text is to be shown there: not beside the first of a span."""
        row: list[tuple[str, bool]] = []
        pending = list(reversed(cells))
        while (pending or len(row) in self._from_above) and len(row) < MAX_COLUMNS:
            left, text = self._from_above.pop(len(row), (0, ""))
            if left:
                self._cover(len(row), left - 1, text)
                row.append((text, True))
                continue
            cell = pending.pop()
            for number in range(min(cell.columns, MAX_COLUMNS - len(row))):
                self._cover(len(row), cell.rows - 1, cell.text)
                row.append((cell.text, not number))
        return [*row, *((cell.text, True) for cell in reversed(pending))]

    def _cover(self, column: int, rows: int, text: str) -> None:
        if rows > 0:
            self._from_above[column] = rows, text


def _span(value: str | None) -> int:
    text = (value or "").strip()
    return min(max(1, int(text)), 65_534) if text.isdecimal() and len(text) < 9 else 1
