"""Tables without ruled lines: rows of pieces that stand below each other in columns."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Sequence
from statistics import median

from ragkit.load.pages.page import CAPTION, Piece, Rule
from ragkit.load.pages.tables.rows import NEAR, merge_rules, split_pieces, sub_piece, visual_rows
from ragkit.load.pages.tables.table import PdfCell, PdfTable, is_data, is_value, join_text

LEADER = re.compile(r"(?:\. ?){4,}|…{2,}")
MARKER = re.compile(r"(?:[-•▪◦‣–○●■□*]|\(?\w{1,3}[.)]|\[\d{1,3}\])$")
LIST_MARK = re.compile(r"\(?[\da-zA-Z]{1,4}[.)] ")
MONOSPACED = re.compile(r"cour|mono|typewr|consol|cmtt|sftt|ectt|lmtt|luximono|txtt", re.IGNORECASE)
_SIGN_BEFORE = re.compile(r"[$€£¥(]+|US\$|-\s?[$€£]")
_SIGN_AFTER = re.compile(r"[)%]+\s*[†*]*|\(\w\)|bps|pts")
_NUMBER = re.compile(r"\(?[-–−]?\d[\d.,–-]*%?\)?")
_NUMBER_ENDS = frozenset("0123456789)%")
LONG_LABEL = 40
"""A label of this many characters may have been broken before its column ends."""
MAX_TAIL = 2
"""Lines below the last row that may belong to it."""
PROSE_CHARS = 28
"""A piece with this many characters and 4 spaces is a line of a paragraph."""
MIN_GAP = 0.4
"""The gap between two names, as a share of their height, if not each stands on its column."""
ALIGNED = 2.0
"""Points that a name is off its column, at most."""
MAX_GAP = 6.0
"""The gap between two rows, as a multiple of their height, if the values of one stand below the texts of the other."""
MIN_VALUES = 3
"""Rows of a label and values, at least, that tell the columns of a table alone."""
Row = list[Piece]


def find_open_tables(pieces: Sequence[Piece], rules: Sequence[Rule] = ()) -> list[PdfTable]:
    """The tables among the pieces of one text column, from top to bottom; `rules` are the lines of the page."""
    lines = merge_rules([rule for rule in rules if rule.is_horizontal], across=True)
    visible = visual_rows(pieces)
    rows = [join_signs(row) if len(row) > 1 else row for row in visible]
    is_table = list(map(_is_table_row, rows))
    ends = [number for number in range(1, len(rows)) if _are_apart(rows[number - 1], rows[number], lines)]
    tables: list[PdfTable] = []
    start = 0
    while start < len(rows):
        end = _run_end(rows[: next((at for at in ends if at > start), None)], is_table, start)
        if end - start >= 2:
            first = _with_names_above(rows, start, tables[-1].bottom if tables else 0)
            table, used = _read_run(rows[first:end], rows[end : end + MAX_TAIL], lines)
            if table is not None:
                end += used
                table.starts = frozenset(piece.start for row in visible[first:end] for piece in row)
                tables.append(table)
                start = end
                continue
        start = max(start + 1, end)
    return tables


def is_prose(piece: Piece) -> bool:
    """Whether a piece is a line of a paragraph."""
    return len(piece.text) >= PROSE_CHARS and piece.text.count(" ") >= 4


def join_signs(row: Row) -> Row:
    """A currency sign is joined to the amount behind it, a closing bracket to the amount before it."""
    joined: Row = []
    for piece in row:
        before = joined[-1] if joined else None
        if before is not None and (
            (_SIGN_BEFORE.fullmatch(before.text) and is_data(piece.text) and not _SIGN_BEFORE.fullmatch(piece.text))
            or (_SIGN_AFTER.fullmatch(piece.text) and is_data(before.text) and piece.x0 - before.x1 < 5 * piece.height)
            or (len(joined) == 1 and MARKER.match(before.text) and piece.x0 - before.x1 < 4 * piece.height)
        ):
            joined[-1] = _join_two(before, piece)
        else:
            joined.append(piece)
    return joined


def _join_two(before: Piece, piece: Piece) -> Piece:
    gap = "" if piece.text[0] == ")" else " "
    text, shift = before.text + gap + piece.text, len(before.text) + len(gap)
    words = [*before.words, *((a + shift, b + shift, x0, x1) for a, b, x0, x1 in piece.words)]
    x1 = max(before.x1, piece.x1)  # a sign may be printed over the amount
    if is_data(piece.text):  # one word, so that no column runs through it
        words = [(0, len(text), before.x0, x1)]
    top, bottom = min(before.top, piece.top), max(before.bottom, piece.bottom)
    return Piece(text, before.x0, top, x1, bottom, before.fonts, before.size, words, before.start)


def _run_end(rows: Sequence[Row], is_table: Sequence[bool], start: int) -> int:
    """The end of the run of table rows that begins at `start`; `start` when none begins there."""
    if not is_table[start]:
        return start
    left, right = _extent(rows[start])
    values = rows[start][1].x0
    end = start + 1
    single = 0
    for number in range(start + 1, len(rows)):
        row = rows[number]
        before = rows[number - 1]
        height = max(row[0].height, 4)
        gap = min(p.top for p in row) - max(p.bottom for p in before)
        if gap > 2.2 * height and (gap > MAX_GAP * height or not _stands_below(row, rows[end - 1])):
            break
        if is_table[number]:
            low, high = _extent(row)
            if high < left or low > right:
                break
            left, right, values = min(left, low), max(right, high), min(values, row[1].x0)
            single, end = 0, number + 1
            continue
        single += 1
        if len(row) > 1 and all(any(abs(p.x0 - q.x0) < ALIGNED for q in rows[end - 1]) for p in row):
            continue  # long texts of several cells
        if single > 3 or len(row) != 1 or LEADER.search(row[0].text):
            break
        if _is_caption(row) and sum(is_table[number + 1 : number + 6]) > 3:
            break
        piece = row[0]
        is_wide = piece.x1 - piece.x0 > 0.62 * (right - left) and len(piece.text) > 60
        if is_prose(piece) and is_wide and piece.x1 > values:
            break
    return end


def _are_apart(row: Row, below: Row, lines: Sequence[Rule]) -> bool:
    """Whether two lines over the width of both rows are between them: below a running head, and above a table."""
    (left, right), (low, high) = _extent(row), _extent(below)
    top, bottom = _bottom(row), _top(below)
    between = [
        line.top
        for line in lines
        if top - 1 < line.top < bottom + 1 and line.x0 < min(left, low) + NEAR and line.x1 > max(right, high) - NEAR
    ]
    return len(between) > 1 and between[-1] - between[0] > 0.5 * row[0].height


def _stands_below(row: Row, above: Row) -> bool:
    """Whether a row of values has one below most texts of the table row above it."""
    values = [piece for piece in row if is_data(piece.text)]
    covered = [text for text in above[1:] if any(piece.x0 < text.x1 and text.x0 < piece.x1 for piece in values)]
    return len(covered) > 2 and len(covered) >= max(0.75 * (len(above) - 1), 0.5 * len(values))


def _is_table_row(row: Row) -> bool:
    if len(row) < 2 or any(LEADER.search(piece.text) for piece in row) or _is_caption(row):
        return False
    if all(MONOSPACED.search(piece.fonts[0]) for piece in row):
        return False
    return sum(map(is_prose, row)) < max(2, len(row) - 1)


def _is_caption(row: Row) -> bool:
    """Whether a row is a caption: `Table 2.` and its title, which may stand apart."""
    found = CAPTION.match(row[0].text)
    return found is not None and is_prose(row[-1]) and len(row) <= 2


def _top(row: Row) -> float:
    return min(piece.top for piece in row)


def _bottom(row: Row) -> float:
    return max(piece.bottom for piece in row)


def _extent(row: Row) -> tuple[float, float]:
    return row[0].x0, max(piece.x1 for piece in row)


def _with_names_above(rows: Sequence[Row], start: int, floor: float) -> int:
    """The first row of names above the first row of a run: names over some of the columns, close to it.

    Between them may be lines of the name of the first column.
    """
    left = min(row[0].x0 for row in rows[start : start + 3])
    right = max(_extent(row)[1] for row in rows[start : start + 3])
    values = min(row[1].x0 for row in rows[start : start + 3] if len(row) > 1)
    is_named = not any(is_value(piece.text) or LEADER.search(piece.text) for piece in rows[start])
    first = start
    for number in range(start - 1, max(start - 5, -1), -1):
        row, below = rows[number], rows[number + 1]
        piece = row[0]
        gap = min(p.top for p in below) - max(p.bottom for p in row)
        if row[0].top < floor or gap > 0.9 * piece.height or piece.x1 - piece.x0 > 0.7 * (right - left):
            break
        if row[-1].x1 > right + 3 * piece.height or _is_caption(row):
            break
        if piece.x0 >= left + 0.15 * (right - left):
            first = number
        elif not is_named or piece.x1 > values or is_prose(piece) or first - number > MAX_TAIL:
            break
    return first


def _read_run(rows: Sequence[Row], tail: Sequence[Row], lines: Sequence[Rule]) -> tuple[PdfTable | None, int]:
    """The table of a run of rows, and how many of the lines of text below them its last row goes on in."""
    strips = find_columns(rows)
    edges = [(left + right) / 2 for left, right in strips]
    if not edges:
        return None, 0
    left, right = min(row[0].x0 for row in rows), max(_extent(row)[1] for row in rows)
    columns = list(itertools.pairwise([left, *itertools.chain.from_iterable(strips), right]))[::2]
    below = [*rows[1:], []]
    split = [sorted(_split_row(*pair, columns), key=lambda piece: piece.x0) for pair in zip(rows, below, strict=True)]
    placed = [_place(row, strips) for row in split]
    for row in itertools.takewhile(lambda row: not _has_values(row), placed):
        _widen_over_lines(row, columns, lines)
    if not _is_table(placed, len(edges) + 1) or _has_axis(placed, len(edges) + 1):  # with an axis: a chart
        return None, 0
    limits = [*sorted(row[0, 0][-1].x1 for row in placed if (0, 0) in row), strips[0][1]]
    width = right - left
    ruled = {
        number
        for number, (row, under) in enumerate(itertools.pairwise(rows), 1)
        for line in lines
        if _bottom(row) - 1 < line.top < _top(under) + 1 and line.x1 - line.x0 > 0.9 * width
    }
    groups = _join_rows(placed, limits, ruled)
    used = 0
    for line in tail:
        if len(line) > 1 or not _continues(groups[-1], _place(line, strips), limits, in_names=False):
            break
        groups = _join_rows([*groups, _place(line, strips)], limits)
        split.append(line)
        used += 1
    _widen_names(groups)
    cells = []
    for number, row in enumerate(groups):
        for (first, last), pieces in sorted(row.items()):
            x0, x1 = min(piece.x0 for piece in pieces), max(piece.x1 for piece in pieces)
            cells.append(PdfCell(number, first, join_text(pieces), 1, last - first + 1, x0, x1))
    everything = [piece for row in split for piece in row]
    table = PdfTable(
        min(piece.x0 for piece in everything),
        min(piece.top for piece in everything),
        max(piece.x1 for piece in everything),
        max(piece.bottom for piece in everything),
        cells,
        everything,
    )
    return table, used


def find_columns(rows: Sequence[Row]) -> list[tuple[float, float]]:
    """The white strips between columns, from left to right."""
    most = max(len(row) for row in rows)
    full = [row for row in rows if len(row) >= max(2, 0.5 * most)]
    values = [row for row in full if not is_value(row[0].text) and any(is_value(piece.text) for piece in row[1:])]
    strips = _find_strips(full)
    behind = _find_strips(values) if len(values) >= MIN_VALUES else []  # names may stand over several columns
    return behind if len(behind) > len(strips) else strips


def _find_strips(body: Sequence[Row]) -> list[tuple[float, float]]:
    left = int(min(row[0].x0 for row in body))
    right = int(max(_extent(row)[1] for row in body)) + 1
    counts = [0] * (right - left + 2)
    for row in body:
        for x0, x1 in itertools.chain.from_iterable(map(_values_apart, row)):
            counts[int(x0) - left] += 1
            counts[int(x1) - left + 1] -= 1
    limit = int(0.1 * len(body))
    height = median(piece.height for row in body for piece in row)
    edges: list[tuple[float, float]] = []
    covered = begin = 0
    inside = False
    for x, change in enumerate(counts):
        covered += change
        if covered <= limit:
            if inside:
                begin, inside = x, False
        elif not inside:
            if x - begin >= 0.3 * height and begin:
                edges.append((left + begin, left + x))
            inside = True
    return edges


def _values_apart(piece: Piece) -> list[tuple[float, float]]:
    """The edges of a piece, or of each of its words if these are numbers of several columns."""
    texts = piece.text.split() if piece.text[-1:] in _NUMBER_ENDS else []
    if len(texts) < 2 or not all(map(_NUMBER.fullmatch, texts)) or all(len(text) == 3 for text in texts[1:]):
        return [(piece.x0, piece.x1)]  # groups of three digits are one number
    return [(x0, x1) for _, _, x0, x1 in piece.words]


def _split_row(row: Row, below: Row, columns: Sequence[tuple[float, float]]) -> Row:
    """The pieces of a row cut between columns; a name that stands over several of them stays whole."""
    edges = [(left[1] + right[0]) / 2 for left, right in itertools.pairwise(columns)]
    if any(is_data(piece.text) for piece in row[1:]):
        return split_pieces(row, edges)
    split: Row = []
    for piece in row:
        parts = split_pieces([piece], edges)
        apart = all(b.x0 - a.x1 > MIN_GAP * piece.height for a, b in itertools.pairwise(parts))
        if len(parts) > 1:
            split += parts if apart or all(_is_aligned(part, columns) for part in parts) else [piece]
        else:
            split += _split_over_names(piece, below)
    return split


def _split_over_names(piece: Piece, below: Row) -> Row:
    """A piece cut into a part above each of the names below it, if all parts end, or all begin, where these do.

    Such names are wider than what stands in their columns, so that no white strip runs between them.
    """
    under = [name for name in below if name.x0 < piece.x1 and piece.x0 < name.x1]
    over = [min(under, key=lambda name: abs(name.x0 + name.x1 - a - b), default=piece) for _, _, a, b in piece.words]
    cuts = [number for number, name in enumerate(over) if not number or name is not over[number - 1]]
    parts = [sub_piece(piece, first, last) for first, last in itertools.pairwise([*cuts, len(over)])]
    if len(parts) != len(under):
        return [piece]
    begins = all(abs(part.x0 - name.x0) < ALIGNED for part, name in zip(parts, under, strict=True))
    ends = all(abs(part.x1 - name.x1) < ALIGNED for part, name in zip(parts, under, strict=True))
    return parts if begins or ends else [piece]


def _is_aligned(piece: Piece, columns: Sequence[tuple[float, float]]) -> bool:
    """Whether a piece begins, ends or has its middle where a column does."""
    return any(
        min(abs(piece.x0 - left), abs(piece.x1 - right), abs(piece.x0 + piece.x1 - left - right) / 2) < ALIGNED
        for left, right in columns
        if left < piece.x1 and piece.x0 < right
    )


Placed = dict[tuple[int, int], list[Piece]]
Cell = tuple[tuple[int, int], list[Piece]]


def _place(row: Row, strips: Sequence[tuple[float, float]]) -> Placed:
    """The pieces of a row by their first and last column: those that they overlap, not only the strip beside."""
    placed: Placed = {}
    before = (-1, -1)
    for piece in row:
        first = sum(1 for left, right in strips if right < piece.x1 and piece.x0 > left - 1)
        first = max(first, sum(1 for left, right in strips if piece.x0 > (left + right) / 2 - 1))
        last = max(first, sum(1 for left, right in strips if right < piece.x1 - 1))
        if first <= before[1]:  # it reaches into the column of the piece before
            first = before[1] + 1
        if first > last:
            placed[before].append(piece)
            continue
        before = first, last
        placed[before] = [piece]
    return placed


def _is_table(rows: Sequence[Placed], width: int) -> bool:
    texts = [join_text(pieces) for row in rows for (first, _), pieces in row.items() if first]
    full = sum(1 for row in rows if len(row) >= 2)
    values = sum(map(is_data, texts))
    if full < 2 or full < 0.4 * len(rows):
        return False
    if width == 2:
        return full >= 3 and values >= 0.5 * len(texts)
    return (full >= 3 and (values >= 0.25 * len(texts) or (full >= 4 and _average(texts) < 25))) or (
        values >= 0.4 * len(texts) and full >= 2
    )


def _has_axis(rows: Sequence[Placed], width: int) -> bool:
    """Whether a column is the axis of a chart: a scale with few values beside it, or one that falls from the top."""
    for column in range(width):
        beside = [row for row in rows if (column, column) in row]
        texts = [join_text(row[column, column]) for row in beside]
        if _is_scale(texts):
            numbers = [float(text.strip("%").replace(",", "")) for text in texts if is_data(text)]
            full = sum(sum(is_data(join_text(cell)) for cell in row.values()) > 2 for row in beside)
            if full < 0.8 * len(numbers) or numbers[0] > numbers[-1]:
                return True
    return False


def _is_scale(texts: Sequence[str]) -> bool:
    """Whether numbers rise or fall in equal steps: an axis of a chart. Steps of one number rows or years."""
    try:
        numbers = [float(text.strip("%").replace(",", "")) for text in texts if is_data(text)]
    except ValueError:
        return False
    steps = {round(b - a, 6) for a, b in itertools.pairwise(numbers)}
    return len(numbers) >= 5 and len(steps) == 1 and abs(min(steps)) not in (0, 1)


def _average(texts: Sequence[str]) -> float:
    return sum(map(len, texts)) / max(1, len(texts))


def _join_rows(rows: Sequence[Placed], limits: Sequence[float], ruled: Collection[int] = ()) -> list[Placed]:
    """Rows of cells, whose texts may take several lines.

    `limits` are the right edges of the labels, ascending, and the left edge of the second column; `ruled` the numbers
    of the rows below a line as wide as the table.
    """
    joined: list[Placed] = []
    in_names = not _is_full(rows)
    for number, row in enumerate(rows):
        if list(row) == [(0, 0)] and number + 1 < len(rows) and _overlaps(row, rows[number + 1]):
            joined.append({(0, 0): list(row[0, 0])})  # a label that stands a little higher than its values
            continue
        if number in ruled and joined and 2 * len(joined[-1]) > max(map(len, rows)):
            in_names = False
            joined.append({span: list(pieces) for span, pieces in row.items()})
        elif joined and _continues(joined[-1], row, limits, in_names=in_names):
            for span, pieces in row.items():
                joined[-1].setdefault(_span_in(joined[-1], span), []).extend(pieces)
        else:
            joined.append({span: list(pieces) for span, pieces in row.items()})
        in_names = in_names and not _has_values(row)
    return joined


def _is_full(rows: Sequence[Placed]) -> bool:
    """Whether rows of texts have one in each column, unlike the lines of cells that wrap."""
    width = max(map(len, rows))
    return len(rows) > 2 and all(len(row) == width and not _has_values(row) for row in rows)


def _widen_names(rows: list[Placed]) -> None:
    """Names that stand in the middle above several names count for all of these."""
    for number, row in enumerate(rows):
        if _has_values(row):
            return
        names = _names(row)
        under = next(filter(lambda found: len(found) > len(names), map(_names, rows[number + 1 :])), [])
        size = len(under) // max(1, len(names))
        if not names or size < 2 or size * len(names) != len(under):
            continue
        groups = [under[first : first + size] for first in range(0, len(under), size)]
        if all(_stands_over(pieces, group) for (_, pieces), group in zip(names, groups, strict=True)):
            for span, _ in names:
                del row[span]
            row.update({(g[0][0][0], g[-1][0][1]): pieces for (_, pieces), g in zip(names, groups, strict=True)})


def _widen_over_lines(row: Placed, columns: Sequence[tuple[float, float]], lines: Sequence[Rule]) -> None:
    """Each name of a row that stands alone above a line over several columns counts for these."""
    for (first, last), pieces in _names(row):
        bottom, height = max(piece.bottom for piece in pieces), pieces[0].height
        for line in lines:
            if not -0.3 * height < line.top - bottom < height or not line.x0 < _middle(pieces) < line.x1:
                continue
            over = [n for n, (left, right) in enumerate(columns) if line.x0 < (left + right) / 2 < line.x1]
            others = any(a <= over[-1] and over[0] <= b for a, b in row if over and (a, b) != (first, last))
            if over and over[0] and over[0] <= first <= last <= over[-1] and not others:
                del row[first, last]
                row[over[0], over[-1]] = pieces
                break


def _names(row: Placed) -> list[Cell]:
    return sorted((span, pieces) for span, pieces in row.items() if span[0])


def _stands_over(pieces: Sequence[Piece], group: Sequence[Cell]) -> bool:
    """Whether a name stands above the middle of a group of names, and is not the first line of one of them."""
    name = _middle(pieces)
    edges = [edge for _, found in group for piece in found for edge in (piece.x0, piece.x1)]
    left, right = min(edges), max(edges)
    off = abs(name - (left + right) / 2)
    off_one = min(abs(name - _middle(found)) for _, found in group)
    return off < 0.15 * (right - left) and not off_one < ALIGNED < 0.5 * off


def _middle(pieces: Sequence[Piece]) -> float:
    return (min(piece.x0 for piece in pieces) + max(piece.x1 for piece in pieces)) / 2


def _span_in(row: Placed, span: tuple[int, int]) -> tuple[int, int]:
    """The cell of a row that a line of text belongs to."""
    for first, last in row:
        if first <= span[1] and span[0] <= last:
            return first, last
    return span


def _has_values(row: Placed) -> bool:
    texts = [join_text(pieces) for (first, _), pieces in row.items() if first]
    return any(is_data(text) and not re.fullmatch(r"(?:19|20)\d\d", text) for text in texts)


def _continues(before: Placed, row: Placed, limits: Sequence[float], *, in_names: bool) -> bool:
    """Whether a line holds the next line of text of the cells of the row before."""
    gap = min(p.top for ps in row.values() for p in ps) - max(p.bottom for ps in before.values() for p in ps)
    height = max(p.height for ps in row.values() for p in ps)
    if gap > 0.5 * height:
        return False
    label = next((join_text(ps) for (first, _), ps in row.items() if first == 0), "")
    label_before = next((join_text(ps) for (first, _), ps in before.items() if first == 0), "")
    values = _has_values(row)
    spans = any(first < last for first, last in [*before, *row])
    if not label:
        is_name = in_names and len(row) == 1 and len(before) > 2
        is_same = len(before) == 1 and label_before != "" and _overlaps(before, row)
        is_text = not values and (not spans if in_names else len(row) < len(before) or not _has_values(before))
        return is_name or is_same or is_text
    if in_names and not values and len(row) > 1:
        return not spans and not (label_before and len(before) == 1)
    if not label_before or spans or 1 not in (len(before), len(row)):
        return False
    is_joined = label_before[-1] in "(/&" or (len(row) > 1 and label_before[-1] in ",-–")
    return is_joined or begins_inside(label) or _is_wrapped(before, row, limits)


def _overlaps(label: Placed, row: Placed) -> bool:
    """Whether a line without a label stands at nearly the height of the label above it."""
    bottom = max(piece.bottom for pieces in label.values() for piece in pieces)
    top = min(piece.top for pieces in row.values() for piece in pieces)
    return top < bottom - 1 and not any(first == 0 for first, _ in row)


def _is_wrapped(before: Placed, row: Placed, limits: Sequence[float]) -> bool:
    """Whether the first word of the label of a row had no room behind the label above it."""
    # without spans, both labels stand in the first column alone
    above, label = max(before[0, 0], key=lambda piece: piece.bottom), row[0, 0][0]
    words = label.words
    if not words:
        return False
    is_long = len(above.text) >= LONG_LABEL and len(before) == 1 and above.x1 < limits[-2]
    longest = limits[-2] if is_long else limits[-1]
    return above.x1 + 0.5 * label.height + words[0][3] - words[0][2] > longest


def begins_inside(text: str) -> bool:
    """Whether a text begins in the middle of a sentence."""
    return (text[:1].islower() or text[:1] in "(&/") and not LIST_MARK.match(text)
