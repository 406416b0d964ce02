"""Format table rows as lines of text, for CSV and spreadsheets. Independent of file formats.

The column names are looked for: titles and empty rows may stand above them, and they may take several rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, pairwise

from ragkit.load.shared.access_field import is_access_field

MAX_HEADER_CHARS = 200
"""A longer cell is not a column name."""

MAX_EMPTY_CELLS = 16
"""Consecutive empty cells that are kept; longer gaps are shortened to this."""

MAX_TITLE_ROWS = 12
"""Rows above the column names, at most."""

MAX_ROW_CHARS = 700
"""A longer row with column names takes several lines, each of which begins with its first value."""

MIN_SIDE_ROWS = 3
MAX_SIDE_ROWS = 20_000
MAX_SIDE_TABLES = 50
"""Rows of tables side by side, and how many there are."""

MAX_HEADER_ROWS = 4
"""Rows of column names, at most."""


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row of a sheet or file."""

    number: int
    """From 1: of the row in its sheet, or of its first line in its file."""
    cells: Sequence[str]
    """The texts of its cells; '' for an empty one."""
    spans: Sequence[tuple[int, int]] = ()
    """Merged cells: (first column, last column) from 0; the text is in the first one."""
    names: bool = False
    """They are the column names of a table."""


@dataclass(frozen=True, slots=True)
class TableLine:
    """A row as text."""

    number: int
    """Of its row."""
    text: str
    columns: tuple[int, int]
    """The first and last column of its table, from 0."""
    is_title: bool = False
    """It stands above the column names."""
    header: tuple[str, ...] = ()
    """The column names of its table; () for none."""
    cells: Sequence[str] = ()
    """The texts of its cells, if it has column names; () for a further line of a long row."""


def format_table(rows: Iterable[TableRow]) -> Iterator[TableLine]:
    """One line per row with a value.

    With column names, a line is `name: value; name: value` without empty values; cells beyond the names are
    `column 7: value`. Without them, it is `value | value`. An empty row ends a table; its names hold on for the rows
    below unless others are found.
    """
    header: tuple[str, ...] = ()
    caption = ""
    held: list[TableRow] = []
    for region in _regions(rows):
        ahead = list(islice(region, MAX_TITLE_ROWS + MAX_HEADER_ROWS + 1))
        if held and _stands_above(held[-1], ahead[0]):
            caption, header = _spaced_header(held)
            held = []
            for row in chain(ahead, region):
                yield from _body_lines(row, header, caption)
            continue
        yield from (_title_line(row) for row in held)
        is_spaced = region.ended and len(ahead) <= MAX_HEADER_ROWS and _may_be_spaced_header(ahead)
        held = ahead if is_spaced and not any(row.names for row in ahead) else []
        if held:
            continue
        caption = ""
        if max(_column_range(row.cells)[1] for row in ahead) < _first_name(header):
            header = ()  # of a table that stood to the right
        is_note = all(_filled(row) == 1 for row in ahead) and (region.ended or len(header) > 2)
        titles, names = (len(ahead), 0) if is_note else _find_header(ahead, known=header)
        if names:
            header = _join_header_rows(ahead[titles : titles + names])
        yield from (_title_line(row) for row in ahead[:titles])
        for row in chain(ahead[titles + names :], region):
            yield from _body_lines(row, header)
    yield from (_title_line(row) for row in held)


def _may_be_spaced_header(rows: Sequence[TableRow]) -> bool:
    """Whether rows above an empty one are nothing but names, and no plain table of their own."""
    return (
        _filled(rows[-1]) > 1
        and all(map(_holds_names, rows))
        and (len(rows) == 1 or not is_header(rows[0].cells, rows[-1].cells))
    )


def _stands_above(names: TableRow, row: TableRow) -> bool:
    """Whether most names stand above numbers."""
    columns = [column for column, name in enumerate(names.cells) if name]
    below = [row.cells[column] for column in columns if column < len(row.cells)]
    return len(below) > 1 and 2 * sum(map(is_number, below)) >= len(columns)


def _spaced_header(rows: Sequence[TableRow]) -> tuple[str, tuple[str, ...]]:
    """What stands alone above the columns, such as a year, and the column names."""
    first = rows[0]
    above = [column for column, name in enumerate(first.cells) if name and column]
    if len(rows) > 1 and len(above) == 1 and not first.spans and len(above) < _filled(rows[-1]):
        cells = ["" if column == above[0] else name for column, name in enumerate(first.cells)]
        return first.cells[above[0]], _join_header_rows([replace(first, cells=cells), *rows[1:]])
    return "", _join_header_rows(rows)


def split_side_tables(rows: Iterable[TableRow]) -> Iterator[TableRow]:
    """The rows with each table of a sheet below the one before it, an empty row between them.

    Empty columns part tables that stand side by side, captions those that stand below each other; each has its names.
    """
    region: list[TableRow] = []
    for row in rows:
        if any(row.cells):
            region.append(row)
            continue
        yield from _split_tables(region)
        region = []
        yield row
    yield from _split_tables(region)


def _split_tables(region: Sequence[TableRow]) -> Iterator[TableRow]:
    """The tables of a region; the region itself if it is one."""
    if not region or len(region) > MAX_SIDE_ROWS:
        yield from region
        return
    beside = _cut_columns(region)
    parts = [part for side in beside for part in _cut_rows(side)] if len(beside) > 1 else _cut_rows(region)
    if len(parts) == 1:
        yield from region
        return
    for part in parts:
        names = _caption_rows(part) if _is_table(part) and _has_clear_names(part) else -1
        yield from (replace(row, names=True) if number == names else row for number, row in enumerate(part))
        yield TableRow(part[-1].number, ())


def _cut_columns(region: Sequence[TableRow]) -> list[list[TableRow]]:
    """The tables side by side, with their cells in the columns of the sheet."""
    width = max(len(row.cells) for row in region)
    used = [any(column < len(row.cells) and row.cells[column] for row in region) for column in range(width)]
    starts = [column for column in range(1, width) if used[column] and not used[column - 1]]
    if not starts or len(starts) >= MAX_SIDE_TABLES:
        return [list(region)]
    ends = [next((column for column in range(start, width) if not used[column]), width) for start in starts]
    blocks = zip(starts, ends, strict=True)
    cuts = [start for start, end in blocks if _is_table(_columns(region, start, end))]
    edges = pairwise([0, *cuts, width])
    parts = [part for first, last in edges if (part := _columns(region, first, last))]
    return parts if cuts else [list(region)]


def _columns(region: Sequence[TableRow], first: int, last: int) -> list[TableRow]:
    """The rows with a value in columns [first:last], with nothing else in them."""
    parts = []
    for row in region:
        cells = [cell if first <= column else "" for column, cell in enumerate(row.cells[:last])]
        if any(cells):
            spans = [span for span in row.spans if first <= span[0] and span[1] < last]
            parts.append(replace(row, cells=cells, spans=spans))
    return parts


def _cut_rows(region: Sequence[TableRow]) -> list[list[TableRow]]:
    """The tables below each other: a caption, then names that the table above does not have."""
    cuts = [0]
    for number in range(1, len(region) - MIN_SIDE_ROWS):
        if _filled(region[number]) == 1 and _filled(region[number + 1]) > 1:
            above, part = region[cuts[-1] : number], region[number:]
            names = region[number + 1]
            ends = {_column_range(row.cells)[1] for row in above[_caption_rows(above) :]}
            is_wider = bool(ends) and _column_range(names.cells)[1] > max(ends)
            if _filled(region[number - 1]) > 1 and is_wider and _is_table(part[: MIN_SIDE_ROWS + 1]):
                cuts.append(number)
    return [list(region[first:last]) for first, last in pairwise([*cuts, len(region)])]


def _caption_rows(rows: Sequence[TableRow]) -> int:
    """Whether a table begins with a caption: 1 or 0."""
    return int(len(rows) > 1 and _filled(rows[0]) == 1 and _filled(rows[1]) > 1)


def _is_table(rows: Sequence[TableRow]) -> bool:
    """Whether rows are a table of their own: names, perhaps below a caption, and rows that begin with a text.

    Numbers may as well belong to the table on the left.
    """
    caption = _caption_rows(rows)
    left = min((_column_range(row.cells)[0] for row in rows), default=0)
    filled = [row.cells[left:] for row in rows[caption:]]
    if (
        len(filled) < MIN_SIDE_ROWS
        or not is_header(filled[0], filled[1])
        or len([cell for cell in filled[0] if cell]) < 2
    ):
        return False
    keys = [cells[0] for cells in filled[1:]]
    return all(keys) and not any(map(is_number, keys)) and len(set(keys)) > 1


def _has_clear_names(rows: Sequence[TableRow]) -> bool:
    """Whether the first row of a table is certainly one of names: columns of different texts may have none."""
    caption = _caption_rows(rows)
    body = rows[caption + 1 :]
    named = [at for at, name in enumerate(rows[caption].cells) if name]
    columns = [[row.cells[at] for row in body if at < len(row.cells)] for at in named]
    return bool(caption) or any(len(set(cells)) < len(cells) or all(map(is_number, cells)) for cells in columns)


def is_header(first: Sequence[str], second: Sequence[str]) -> bool:
    """Whether the first row is a header: short, distinct texts that are not numbers, above a non-empty row.

    A year is a name too, behind a text and above anything but a year.
    """
    names = [name for name in first if name]
    if not names or len(set(names)) < len(names) or not any(second):
        return False
    if len(names) < max(1, len(_strip_empty_cells(first)) - 1) or is_number(names[0]):
        return False
    below = [*second, *[""] * len(first)]
    return all(
        len(name) <= MAX_HEADER_CHARS and (not is_number(name) or (_is_year(name) and not _is_year(cell)))
        for name, cell in zip(first, below, strict=False)
    )


def is_number(text: str) -> bool:
    """Whether a cell is a number, an amount or a numeric date: `7`, `1e5`, `5 %`, `2024-05-06`."""
    if not any(char.isdigit() for char in text):
        return False
    try:
        float(text)
    except ValueError:
        return not any(char.isalpha() for char in text)
    return True


class _Region(Iterator[TableRow]):
    """A run of rows with a value."""

    def __init__(self, first: TableRow, rows: Iterator[TableRow]) -> None:
        self.ended = False
        """An empty row has ended it."""
        self._next: TableRow | None = first
        self._rows = rows

    def __next__(self) -> TableRow:
        row = self._next
        if row is None:
            raise StopIteration
        self._next = next(self._rows, None)
        if self._next is not None and not any(self._next.cells):
            self._next, self.ended = None, True
        return row


def _regions(rows: Iterable[TableRow]) -> Iterator[_Region]:
    """The runs of rows with a value, each to be read before the next."""
    stream = iter(rows)
    for row in stream:
        if any(row.cells):
            region = _Region(row, stream)
            yield region
            for _ in region:  # what the caller left
                pass


def _find_header(rows: Sequence[TableRow], known: tuple[str, ...]) -> tuple[int, int]:
    """How many titles and how many rows of column names a region starts with; `known`: the names so far."""
    titles = next((number for number, row in enumerate(rows[:MAX_TITLE_ROWS]) if _filled(row) > 1), 0)
    names = 1
    while names < MAX_HEADER_ROWS and titles + names < len(rows) - 1 and _spans_columns(rows[titles + names - 1]):
        names += 1
    head, body = rows[titles : titles + names], rows[titles + names :]
    if not body:
        return titles, 0
    left = min((_column_range(row.cells)[0] for row in rows[titles:] if _filled(row) > 1), default=0)
    found = all(map(_holds_names, head)) if names > 1 else is_header(head[0].cells[left:], body[0].cells[left:])
    if found and known:  # clear names only, or a row without numbers would be taken for them
        is_clear = titles > 0 or head[-1].names or any(map(is_access_field, head[-1].cells))
        found = is_clear or _stands_above_numbers(head[-1], body)
    return titles, names if found else 0


def _holds_names(row: TableRow) -> bool:
    return not any(len(name) > MAX_HEADER_CHARS or (is_number(name) and not _is_year(name)) for name in row.cells)


def _stands_above_numbers(row: TableRow, body: Sequence[TableRow]) -> bool:
    """Whether a text of the row stands above a column of numbers."""
    for column, name in enumerate(row.cells):
        below = [cells[column] for cells in (line.cells for line in body) if column < len(cells) and cells[column]]
        if name and below and not is_number(name) and all(map(is_number, below)):
            return True
    return False


def _is_year(text: str) -> bool:
    return len(text) == 4 and text.isdecimal() and "1900" <= text <= "2100"


def _spans_columns(row: TableRow) -> bool:
    """Whether names stand above several columns each: the next row names these."""
    return any(first < last for first, last in row.spans)


def _filled(row: TableRow) -> int:
    return len(row.cells) - list(row.cells).count("")


def _join_header_rows(rows: Sequence[TableRow]) -> tuple[str, ...]:
    """One name per column: `2024 / Q1` for a name below another one."""
    width = max(len(_strip_empty_cells(row.cells)) for row in rows)
    columns: list[list[str]] = [[] for _ in range(width)]
    for row in rows:
        names = [*row.cells, *[""] * width][:width]
        for first, last in row.spans:
            for column in range(first + 1, min(last + 1, width)):
                names[column] = names[first]
        for above, name in zip(columns, names, strict=True):
            if name and name not in above:
                above.append(name)
    return tuple(" / ".join(column) or f"column {number}" for number, column in enumerate(columns, 1))


def _title_line(row: TableRow) -> TableLine:
    first, last = _column_range(row.cells)
    return TableLine(row.number, _format_plain_row(row.cells[first:]), (first, last), is_title=True)


def _body_lines(row: TableRow, header: tuple[str, ...], caption: str = "") -> Iterator[TableLine]:
    if not header:
        yield TableLine(row.number, _format_plain_row(row.cells), _column_range(row.cells))
        return
    first, last = _column_range(row.cells)
    columns = min(first, _first_name(header)), max(last, len(header) - 1)
    cells = row.cells
    for text in _format_named_row(header, row.cells):
        line = f"{caption}; {text}" if caption else text
        yield TableLine(row.number, line, columns, header=header, cells=cells)
        cells = ()


def _first_name(header: Sequence[str]) -> int:
    """The first column with a name of its own."""
    return next((number for number, name in enumerate(header) if name != f"column {number + 1}"), 0)


def _column_range(row: Sequence[str]) -> tuple[int, int]:
    first = next((number for number, cell in enumerate(row) if cell), 0)
    return first, max(first, len(_strip_empty_cells(row)) - 1)


def _strip_empty_cells(row: Sequence[str]) -> Sequence[str]:
    """A row without trailing empty cells."""
    end = len(row)
    while end and not row[end - 1]:
        end -= 1
    return row[:end]


def _format_named_row(header: Sequence[str], row: Sequence[str]) -> Iterator[str]:
    """The row on one line, or a long one on several that begin with its first value."""
    cells = [
        f"{header[column] if column < len(header) else f'column {column + 1}'}: {value}"
        for column, value in enumerate(row)
        if value
    ]
    line = key = cells[0]
    for cell in cells[1:]:
        if len(line) + len(cell) > MAX_ROW_CHARS and len(line) > len(key) and len(key) <= MAX_HEADER_CHARS:
            yield line
            line = key
        line = f"{line}; {cell}"
    yield line


def _format_plain_row(row: Sequence[str]) -> str:
    cells: list[str] = []
    empty = 0
    for cell in _strip_empty_cells(row):
        empty = 0 if cell else empty + 1
        if empty <= MAX_EMPTY_CELLS:
            cells.append(cell)
    return " | ".join(cells)
