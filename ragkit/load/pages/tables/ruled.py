"""Tables between ruled lines: a grid of lines, whose fields without a line between them are one cell."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

from ragkit.load.pages.page import PdfPage, Piece, Rule
from ragkit.load.pages.tables.open import begins_inside, find_columns, join_signs
from ragkit.load.pages.tables.rows import NEAR, merge_rules, split_pieces, visual_rows
from ragkit.load.pages.tables.table import PdfCell, PdfTable, column_extents, is_data, is_value, join_text

Box: TypeAlias = tuple[float, float, float, float]
"""Left, top, right, bottom."""
NARROW = 5.0
"""A row or column that is not wider is none: the space between two lines."""
SAME_LINE = 0.7
"""How much lower than its label a figure stands at most, as a share of its height."""
MAX_LINES_ABOVE = 5
"""Lines of column names above the lines of a table."""
MAX_FIELDS = 20_000
"""Fields of a grid; a larger one is a drawing."""


def find_ruled_tables(page: PdfPage) -> list[PdfTable]:
    """The tables with ruled lines around their cells or columns, from top to bottom."""
    return sorted(_read_rules(page.rules, [*page.pieces, *page.turned]), key=lambda table: table.top)


def _read_rules(rules: Sequence[Rule], pieces: Sequence[Piece]) -> list[PdfTable]:
    horizontal = merge_rules([rule for rule in rules if rule.is_horizontal], across=True)
    vertical = merge_rules([rule for rule in rules if not rule.is_horizontal], across=False)
    grids = [_Grid(rows, columns) for rows, columns in _groups(horizontal, vertical)]
    kept: list[PdfTable] = []
    left = list(pieces)  # a piece on the edge of two tables belongs to the larger one
    for grid in sorted(grids, key=_area, reverse=True):
        if len(grid.ys) == 2 and any(_holds(grid.box, other.box) for other in grids if other is not grid):
            continue  # a frame around a table
        if any(_overlap(grid.box, (table.x0, table.top, table.x1, table.bottom)) for table in kept):
            continue
        table = grid.read(left)
        if table is not None:
            kept.append(table)
            read = set(map(id, table.pieces))
            left = [piece for piece in left if not grid.holds(piece) and id(piece) not in read]
    return kept


def _area(grid: _Grid) -> float:
    left, top, right, bottom = grid.box
    return (right - left) * (bottom - top)


def _holds(box: Box, other: Box) -> bool:
    return box[0] <= other[0] and box[1] <= other[1] and box[2] >= other[2] and box[3] >= other[3]


def _overlap(box: Box, other: Box) -> bool:
    width = min(box[2], other[2]) - max(box[0], other[0])
    height = min(box[3], other[3]) - max(box[1], other[1])
    return width > 2 and height > 2


def _groups(horizontal: Sequence[Rule], vertical: Sequence[Rule]) -> Iterator[tuple[list[Rule], list[Rule]]]:
    """Lines that meet each other."""
    rules = [*horizontal, *vertical]
    parents = list(range(len(rules)))

    def find(number: int) -> int:
        while parents[number] != number:
            parents[number] = parents[parents[number]]
            number = parents[number]
        return number

    order = sorted(range(len(horizontal)), key=lambda number: horizontal[number].top)
    tops = [horizontal[number].top for number in order]
    for number, rule in enumerate(vertical, len(horizontal)):
        for index in range(bisect_left(tops, rule.top - NEAR), len(order)):
            other = horizontal[order[index]]
            if other.top > rule.bottom + NEAR:
                break
            if other.x0 - NEAR <= rule.x0 <= other.x1 + NEAR:
                parents[find(order[index])] = find(number)
    groups: dict[int, tuple[list[Rule], list[Rule]]] = {}
    for number, rule in enumerate(rules):
        groups.setdefault(find(number), ([], []))[number >= len(horizontal)].append(rule)
    for rows, columns in groups.values():
        if len(rows) >= 2 and columns and len(rows) * len(columns) <= MAX_FIELDS:
            yield rows, columns


class _Grid:
    """The lines of one table."""

    def __init__(self, rows: list[Rule], columns: list[Rule]) -> None:
        self.rows, self.columns = rows, columns
        left = min(rule.x0 for rule in [*rows, *columns])
        right = max(rule.x1 for rule in [*rows, *columns])
        top = min(rule.top for rule in [*rows, *columns])
        bottom = max(rule.bottom for rule in [*rows, *columns])
        self.box = left, top, right, bottom
        self.xs = _positions([left, right, *(rule.x0 for rule in columns)])
        starts = sorted(rule.top for rule in columns if rule.bottom > bottom - NEAR)
        # where three or more of them begin, names stand below others that span their columns
        heads = [first for first, third in zip(starts, starts[2:], strict=False) if third - first < 1]
        lines = [top, bottom, *(rule.top for rule in rows)]
        heads = [at for at in heads if all(abs(at - line) > 2 * NARROW for line in lines)]  # else no text has room
        self.ys = _positions([*lines, *heads])

    def holds(self, piece: Piece) -> bool:
        """Whether a piece is between the outer lines, or on them."""
        left, top, right, bottom = self.box
        return left - NEAR < (piece.x0 + piece.x1) / 2 < right + NEAR and top - 1 < piece.middle < bottom + 1

    def read(self, pieces: Sequence[Piece]) -> PdfTable | None:
        """The table; None when the lines are a frame, an underline or a drawing."""
        left, top, right, bottom = self.box
        inside = [piece for piece in pieces if self.holds(piece)]
        if len(self.xs) < 3 or len(inside) < 4:
            return None
        inside = [piece for row in visual_rows(inside) for piece in join_signs(row)]
        inside = split_pieces(inside, self.xs[1:-1])
        self._add_columns(inside)
        self._add_rows(inside)
        width, height = len(self.xs) - 1, len(self.ys) - 1
        if width < 2 or height < 2 or width * height > MAX_FIELDS:
            return None
        owner = self._fields(width, height, inside)
        texts: dict[tuple[int, int], list[Piece]] = {}
        for piece in inside:
            column = _index(self.xs, (piece.x0 + piece.x1) / 2)
            row = _index(self.ys, piece.middle)
            texts.setdefault(owner[row][column], []).append(piece)
        cells = []
        for (row, column), found in texts.items():
            fields = [(r, c) for r in range(height) for c in range(width) if owner[r][c] == (row, column)]
            rows = max(r for r, _ in fields) - row + 1
            columns = max(c for _, c in fields) - column + 1
            x0, x1 = min(piece.x0 for piece in found), max(piece.x1 for piece in found)
            cells.append(PdfCell(row, column, join_text(found), rows, columns, x0, x1))
        table = PdfTable(left, top, right, bottom, cells, inside)
        self._add_names_above(table, pieces)
        return _compact(table)

    def _add_names_above(self, table: PdfTable, pieces: Sequence[Piece]) -> None:
        """Column names that stand above the lines, as the first row of a table that begins with values."""
        if not any(is_value(cell.text) for cell in table.cells if cell.row == 0):
            return
        left, top, right, _ = self.box
        above = [
            piece
            for piece in pieces
            if left - NEAR < (piece.x0 + piece.x1) / 2 < right + NEAR and piece.middle <= top - 1
        ]
        columns = column_extents(table)
        names: dict[tuple[int, int], list[Piece]] = {}
        for line in visual_rows(above)[: -MAX_LINES_ABOVE - 1 : -1]:
            width = max(piece.x1 for piece in line) - min(piece.x0 for piece in line)
            is_wide = width > right - left + 2 * NEAR or any(p.x1 - p.x0 > 0.7 * (right - left) for p in line)
            if is_wide or any(is_value(p.text) for p in line) or top - max(p.bottom for p in line) > line[0].height:
                break
            top = min(top, *(piece.top for piece in line))
            for piece in line:
                gaps = [max(x0 - piece.x1, piece.x0 - x1) for x0, x1 in columns]
                inside = [column for column, gap in enumerate(gaps) if gap < 0] or [gaps.index(min(gaps))]
                names.setdefault((inside[0], inside[-1]), []).append(piece)
        if 2 * len(names) < len(self.xs) - 1:
            return
        for cell in table.cells:
            cell.row += 1
        for (first, last), found in names.items():
            x0, x1 = min(piece.x0 for piece in found), max(piece.x1 for piece in found)
            table.cells.append(PdfCell(0, first, join_text(found), 1, last - first + 1, x0, x1))
        table.pieces = [*table.pieces, *(piece for found in names.values() for piece in found)]
        table.top = top

    def _add_columns(self, pieces: Sequence[Piece]) -> None:
        """Columns without a line between them."""
        added: list[float] = []
        for left, right in zip(self.xs, self.xs[1:], strict=False):
            rows = visual_rows([piece for piece in pieces if left - NEAR < piece.x0 and piece.x1 < right + NEAR])
            several = [row for row in rows if len(row) > 1]
            if len(several) >= 3 and len(several) > 0.4 * len(rows):
                added += [(first + last) / 2 for first, last in find_columns(several)]
        self.xs = _positions([*self.xs, *added])

    def _add_rows(self, pieces: Sequence[Piece]) -> None:
        """Rows without a line between them: lines of text that begin a new record."""
        bands = [self._lines([piece for piece in pieces if a <= piece.middle < b]) for a, b in pairwise(self.ys)]
        bands = [band for band in bands if band]
        single = sum(sum(0 in self._columns(line) for line in band) < 2 for band in bands)
        is_ruled = len(bands) > 3 and single > len(bands) / 2
        added: list[float] = []
        for number, band in enumerate(bands):
            if number == 0 and len(bands) > 1 and not any(is_data(piece.text) for line in band for piece in line):
                continue  # column names
            labels = [line for line in band if 0 in self._columns(line)]
            lines, left = band, self.box[0]
            is_middle = len(labels) == 1 and (len(labels[0]) == 1 or 2 * band.index(labels[0]) == len(band) - 1)
            if is_middle and labels[0] not in (band[0], band[-1]):  # the label of all rows of the band
                left = self.xs[1]
                lines = [rest for line in band if (rest := [piece for piece in line if piece.x0 + piece.x1 > 2 * left])]
            for before, line in self._starts(lines, is_ruled=is_ruled and not is_middle):
                at = (max(piece.bottom for piece in before) + min(piece.top for piece in line)) / 2
                added.append(at)
                self.rows.append(Rule(left, at, self.box[2], at))
        self.ys = _positions([*self.ys, *added], 0.5)

    def _columns(self, line: Sequence[Piece]) -> dict[int, Piece]:
        return {_index(self.xs, (piece.x0 + piece.x1) / 2): piece for piece in line}

    def _lines(self, pieces: Sequence[Piece]) -> list[list[Piece]]:
        """Lines of text; a label that stands a little higher than its figures is on their line."""
        lines: list[list[Piece]] = []
        rows = visual_rows(pieces)
        between = [line for a, line, b in zip(rows, rows[1:], rows[2:], strict=False) if self._is_between(a, line, b)]
        for line in rows:
            before = lines[-1] if lines else None
            if line in between or before in between:
                lines.append(line)
                continue
            if before is not None and not self._columns(before).keys() & self._columns(line).keys():
                step = line[0].middle - before[0].middle
                if step < SAME_LINE * min(line[0].height, before[0].height):
                    before += line
                    continue
            lines.append(line)
        return lines

    def _is_between(self, above: Sequence[Piece], line: Sequence[Piece], below: Sequence[Piece]) -> bool:
        """Whether a label stands half-way between two lines without one: it is that of both."""
        if list(self._columns(line)) != [0] or 0 in self._columns(above) or 0 in self._columns(below):
            return False
        up, down = line[0].middle - above[0].middle, below[0].middle - line[0].middle
        return max(up, down) < 1.4 * min(up, down)

    def _starts(self, band: Sequence[list[Piece]], *, is_ruled: bool) -> Iterator[tuple[list[Piece], list[Piece]]]:
        """(line before, line) of each line that begins a record."""
        record = self._columns(band[0])
        for number in range(1, len(band)):
            before, line = band[number - 1], band[number]
            columns, behind = self._columns(line), self._columns(band[min(number + 1, len(band) - 1)])
            is_start = self._begins(record, columns, is_ruled=is_ruled)
            if list(columns) == [0] and not is_ruled and not is_start:  # a label: of the next line, or of this record
                goes_on = 0 in behind and len(behind) > 1 and begins_inside(behind[0].text)
                is_start = goes_on or not (begins_inside(line[0].text) or self._is_wrapped(0, record.get(0), line[0]))
            if is_start and list(record) == [0] and begins_inside(columns.get(0, line[0]).text):
                is_start = False
            if is_start:
                yield before, line
                record = {}
            record |= columns

    def _begins(self, record: Mapping[int, Piece], columns: Mapping[int, Piece], *, is_ruled: bool) -> bool:
        """Whether a line of several columns begins a record, and does not continue the cells of the one before."""
        again = [column for column in columns if column in record and is_data(columns[column].text)]
        values = sum(is_data(record[column].text) for column in again)
        if not columns.keys() & record.keys():  # cells of one line that stand half-way beside one of several lines
            return False
        if len(columns) < 2 or (0 not in columns and all(columns[column].text[0] == "(" for column in columns)):
            return False
        if values > 1 or (values and 0 in columns and len(self.xs) > 3):
            return True
        shared = columns.keys() & record.keys()
        hard = sum(
            column in again or not self._is_wrapped(column, record[column], columns[column]) for column in shared
        )
        return not is_ruled and 2 * hard >= len(shared) and (0 in shared or values > 0)

    def _is_wrapped(self, column: int, before: Piece | None, piece: Piece) -> bool:
        """Whether a line continues the one above it in its cell: its first word had no room there."""
        if before is None or not piece.words:
            return before is not None
        edge = self.xs[column + 1] - max(2.0, min(before.x0, piece.x0) - self.xs[column])
        word = piece.words[0]
        return before.x1 + 0.25 * piece.height + word[3] - word[2] > edge

    def _fields(self, width: int, height: int, pieces: Sequence[Piece]) -> list[list[tuple[int, int]]]:
        """The first field of the cell of each field."""
        owner = [[(row, column) for column in range(width)] for row in range(height)]
        for column in range(1, width):
            lines = [self._has_line(self.columns, self.xs[column], row, upright=True) for row in range(height)]
            is_ruled = sum(lines) >= 0.5 * height  # else a missing line tells nothing
            crossing = {
                _index(self.ys, piece.middle) for piece in pieces if piece.x0 + 1 < self.xs[column] < piece.x1 - 1
            }
            apart = self._rows_apart(pieces, column)
            for row in range(height):
                if not lines[row] and row not in apart and (is_ruled or row in crossing):
                    owner[row][column] = owner[row][column - 1]
        beside = [self._labels_beside(pieces, column) for column in range(width)]
        for row, column in self._beside_values(pieces, height, width):
            beside[column].add(row)
        for row in range(1, height):
            for column in range(width):
                if (
                    owner[row][column] == (row, column)
                    and row not in beside[column]
                    and not self._has_line(self.rows, self.ys[row], column, upright=False)
                ):
                    above = owner[row - 1][column]
                    if above[1] == column and owner[row - 1].count(above) == owner[row].count((row, column)):
                        owner[row][column] = above
                elif owner[row][column][1] < column:
                    owner[row][column] = owner[row][column - 1]
        for row in range(1, height):  # a cell of several rows is as wide in each of them
            for column in range(width):
                first = owner[row][column]
                if first[0] < row and owner[row - 1][column] != first:
                    owner[row][column] = (row, column)
        return owner

    def _beside_values(self, pieces: Sequence[Piece], height: int, width: int) -> Iterator[tuple[int, int]]:
        """The fields of rows that no line parts in their columns, one of which has a value in each of the rows."""
        texts: dict[tuple[int, int], list[str]] = {}
        for piece in pieces:
            field = _index(self.ys, piece.middle), _index(self.xs, (piece.x0 + piece.x1) / 2)
            texts.setdefault(field, []).append(piece.text)
        runs: dict[tuple[int, int], list[int]] = {}
        for column in range(width):
            lines = [row for row in range(1, height) if self._has_line(self.rows, self.ys[row], column, upright=False)]
            for first, end in pairwise([0, *lines, height]):
                if end - first > 1 and all((row, column) in texts for row in range(first, end)):
                    runs.setdefault((first, end), []).append(column)
        for (first, end), columns in runs.items():
            found = [[" ".join(texts[row, column]) for row in range(first, end)] for column in columns]
            if any(2 * sum(map(is_data, cells)) > len(cells) for cells in found):
                yield from ((row, column) for row in range(first + 1, end) for column in columns)

    def _labels_beside(self, pieces: Sequence[Piece], column: int) -> set[int]:
        """The rows whose line of text in a column without lines is theirs alone: labels beside the lines of a table.

        Each of them has one line, at the height of another one in its row.
        """
        height = len(self.ys) - 1
        if sum(self._has_line(self.rows, self.ys[row], column, upright=False) for row in range(1, height)) > 1:
            return set()
        inside: dict[int, list[Piece]] = {}
        others: dict[int, list[Piece]] = {}
        for piece in pieces:
            is_inside = _index(self.xs, (piece.x0 + piece.x1) / 2) == column
            (inside if is_inside else others).setdefault(_index(self.ys, piece.middle), []).append(piece)
        beside = {
            row
            for row, (label, *more) in inside.items()
            if not more and any(abs(piece.middle - label.middle) < 0.3 * label.height for piece in others.get(row, ()))
        }
        return beside if len(beside) >= max(3, len(inside) - 1) else set()

    def _rows_apart(self, pieces: Sequence[Piece], column: int) -> set[int]:
        """The rows with texts on each side of the left edge of a column, beside each other and far from each other."""
        rows: dict[int, list[Piece]] = {}
        for piece in pieces:
            if self.xs[column - 1] < (piece.x0 + piece.x1) / 2 < self.xs[column + 1]:
                rows.setdefault(_index(self.ys, piece.middle), []).append(piece)
        edge = self.xs[column]
        apart: set[int] = set()
        for row, found in rows.items():
            left = [piece for piece in found if piece.x0 + piece.x1 < 2 * edge]
            right = [piece for piece in found if piece.x0 + piece.x1 >= 2 * edge]
            if not left or not right:
                continue
            gap = min(piece.x0 for piece in right) - max(piece.x1 for piece in left)
            room = 0.5 if min(len(visual_rows(left)), len(visual_rows(right))) > 1 else 1.5  # not one gap between words
            is_beside = any(abs(a.middle - b.middle) < 0.5 * a.height for a in left for b in right)
            if is_beside and gap > room * left[0].height:
                apart.add(row)
        return apart

    def _has_line(self, rules: Sequence[Rule], at: float, number: int, *, upright: bool) -> bool:
        edges = self.ys if upright else self.xs
        middle = (edges[number] + edges[number + 1]) / 2
        for rule in rules:
            position, start, end = (rule.x0, rule.top, rule.bottom) if upright else (rule.top, rule.x0, rule.x1)
            if abs(position - at) <= NARROW and start - NEAR <= middle <= end + NEAR:
                return True
        return False


def _positions(values: list[float], near: float = NARROW) -> list[float]:
    found: list[float] = []
    for value in sorted(values):
        if not found or value - found[-1] > near:
            found.append(value)
    return found


def _index(edges: Sequence[float], value: float) -> int:
    return min(max(0, bisect_left(edges, value) - 1), len(edges) - 2)


def _compact(table: PdfTable) -> PdfTable | None:
    """The table without rows and columns that hold nothing; None when less than two of either are left."""
    rows = sorted({cell.row for cell in table.cells})
    columns = sorted({cell.column for cell in table.cells})
    if len(rows) < 2 or len(columns) < 2:
        return None
    for cell in table.cells:
        last_row, last_column = cell.row + cell.rows, cell.column + cell.columns
        cell.row, cell.column = bisect_left(rows, cell.row), bisect_left(columns, cell.column)
        cell.rows = max(1, bisect_left(rows, last_row) - cell.row)
        cell.columns = max(1, bisect_left(columns, last_column) - cell.column)
    table.cells.sort(key=lambda cell: (cell.row, cell.column))
    if sum(len(cell.text) for cell in table.cells) > 400 * len(table.cells):
        return None  # frames around paragraphs
    return table
