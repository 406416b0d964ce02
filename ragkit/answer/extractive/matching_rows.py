"""The rows of a table that a question asks for: "Which stations are on the Bakerloo line?"

A row that answers was found; the others with the same value may be in passages that were not. A small table is read
as a whole, so that the list is complete or says how many rows it leaves out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from ragkit.answer.base import Searcher
from ragkit.answer.extractive.composition import AnswerPassage
from ragkit.answer.extractive.units import MAX_LIST_ITEMS, REGION_CHARS, AnswerUnit, UnitKind, extract_answer_units
from ragkit.lexical.analyzer import extract_terms
from ragkit.records import Chunk, Document, Hit

MAX_TABLE_CHARS = 100_000
"""Of a document that is read as a whole."""
_SINGULAR = r"(?!(?:is|was|has|does|this|its|as)\b)"
_SEVERAL = re.compile(
    rf"^(?:and |in |on |at |for |from |by )?(?:which|what) (?:[\w'&-]{{1,40}} ){{0,4}}?"
    rf"(?:{_SINGULAR}[^\W\d_]{{1,30}}[^s\W]s\b"
    r"|[^\W\d_]{2,30} (?:are|were|have|do)\b)"
    r"|^(?:list|name|show|enumerate|give)\b"
    r"|^(?:[^\W\d_]{2,12} )?welchen?\b(?![^?]{0,40}\b(?:ist|hat|wird|war)\b)"
    r"|^(?:[^\W\d_]{1,12} )?quel(?:le)?s\b|^[¿]?(?:[^\W\d_]{1,12} )?(?:cuáles|qué [^\W\d_]{2,30}s)\b",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"[\d.,+-]+")
_RECORD = re.compile(r"(\S{0,200}\[\d{1,9}\])\.")
"""The beginning of a record within an object of JSON."""
_ITEM = re.compile(r",\s|[;|]")

MAX_IDENTIFYING = 3
"""Columns that identify a row, such as name, city and stadium of a team: the first ones are shown."""
_DISTINCT = 0.9  # share of rows with another name


def asks_for_several(question: str) -> bool:
    """Whether a question asks for all things of a kind, in English, German, French or Spanish."""
    return _SEVERAL.search(question.strip()) is not None


def complete_rows(
    question: str,
    composed: Sequence[AnswerPassage],
    units: Sequence[AnswerUnit],
    hits: Sequence[Hit],
    searcher: Searcher,
) -> list[AnswerPassage]:
    """The rows of the table of the first row of an answer that have what the question says; `composed` without others.

    Args:
        question: as it was searched.
        composed: the passages of the answer.
        units: all units of the passages.
        hits: the passages that units refer to.
        searcher: knows their documents.
    """
    found = _first_row(composed, units) if asks_for_several(question) else None
    if found is None:
        return list(composed)
    document = searcher.find_document(hits[found.hit_index].chunk.document_id)
    if document is None or len(document.text) > MAX_TABLE_CHARS:
        return list(composed)
    table = _table_of(found, _rows_of(document, hits[found.hit_index].chunk))
    every = _matching(frozenset(extract_terms(question)), table)
    first: dict[str, AnswerUnit] = {}
    for row in every:
        first.setdefault(row.body, row)
    matching = list(first.values())
    if not 1 < len(matching) <= len(every) < len(table):
        return list(composed)
    return _passages(question, table, matching, found.hit_index)


def _first_row(composed: Sequence[AnswerPassage], units: Sequence[AnswerUnit]) -> AnswerUnit | None:
    """The row that the first passage with one consists of."""
    rows = {(unit.source, unit.start, unit.end): unit for unit in _with_cells(units)}
    places = ((passage.source, passage.start, passage.end) for passage in composed)
    return next((rows[place] for place in places if place in rows), None)


def _rows_of(document: Document, chunk: Chunk) -> list[AnswerUnit]:
    end = len(document.text)
    whole = replace(chunk, text=document.text, start=0, end=end, start_line=1, end_line=1, heading=())
    rows: list[AnswerUnit] = []
    record = ""
    for row in _with_cells(extract_answer_units([Hit(whole, 0.0)], lambda _: document)):
        found = _RECORD.match(document.text, row.start)
        if found and found[1] == record:  # the rest of a long record
            rows[-1] = replace(rows[-1], end=row.end, cells=(*rows[-1].cells, *row.cells))
        else:
            rows.append(row)
        record = found[1] if found else ""
    return rows


def _with_cells(units: Sequence[AnswerUnit]) -> list[AnswerUnit]:
    """The units that are rows: with named cells, or records within an object of JSON (`name: Bank; zones: 1`)."""
    rows = (unit if unit.cells or unit.kind is not UnitKind.ROW else _read_cells(unit) for unit in units)
    return [row for row in rows if row.cells]


def _read_cells(unit: AnswerUnit) -> AnswerUnit:
    cells: list[tuple[str, str]] = []
    for part in unit.body.split("; "):
        name, separator, text = part.partition(": ")
        if separator and " " not in name:
            cells.append((name, text))
        elif cells:
            cells[-1] = cells[-1][0], f"{cells[-1][1]}; {part}"
    return replace(unit, cells=tuple(cells))


def _table_of(found: AnswerUnit, rows: Sequence[AnswerUnit]) -> list[AnswerUnit]:
    """The rows with the first column of the one that was found, of which a passage may have the end only."""
    whole = next((row for row in rows if row.start < found.end and found.start < row.end), None)
    return [row for row in rows if whole is not None and row.cells[0][0] == whole.cells[0][0]]


def _matching(terms: frozenset[str], table: Sequence[AnswerUnit]) -> list[AnswerUnit]:
    """The rows that have, in each column that has any, a value that the question says."""
    held = [_held_values(terms, row) for row in table]
    values = {value for of_row in held for _, value in of_row}
    largest = {value for value in values if not any(value < other for other in values)}  # "noble gas" and not "gas"
    wanted = {column for of_row in held for column, value in of_row if value in largest}
    key = table[0].cells[0][0] if table else ""
    if not wanted or sum(any(column == key for column, _ in of_row) for of_row in held) == 1:
        return []  # the question names one row
    kept = [{column for column, value in of_row if value in largest} for of_row in held]
    return [row for row, columns in zip(table, kept, strict=True) if columns == wanted]


def _held_values(terms: frozenset[str], row: AnswerUnit) -> list[tuple[str, frozenset[str]]]:
    """(column, terms) of the values of a row that the question says; a number only if it names its column."""
    held = []
    for column, text in row.cells:
        for item in _ITEM.split(text):
            value = frozenset(extract_terms(item))
            is_said = bool(value) and value <= terms
            if is_said and (_NUMBER.fullmatch(item.strip()) is None or not terms.isdisjoint(extract_terms(column))):
                held.append((column, value))
    return held


def _passages(
    question: str, table: Sequence[AnswerUnit], matching: Sequence[AnswerUnit], hit_index: int
) -> list[AnswerPassage]:
    """The rows with what the question says; those that follow each other in one passage."""
    terms = frozenset(extract_terms(question))
    identifying = _identifying_columns(table)
    shown = matching[:MAX_LIST_ITEMS]
    is_whole = sum(len(row.body) for row in shown) <= REGION_CHARS and not _asks_column(terms, shown[0])
    passages: list[AnswerPassage] = []
    last = -2
    for at, row in ((table.index(row), row) for row in shown):
        text = row.body if is_whole else _asked_cells(terms, identifying, row)
        if at == last + 1:
            before = passages.pop()
            passages.append(AnswerPassage(hit_index, row.source, before.start, row.end, f"{before.text}\n{text}", 0.0))
        else:
            passages.append(AnswerPassage(hit_index, row.source, row.start, row.end, text, 0.0))
        last = at
    if left_out := len(matching) - len(shown):
        passages[-1] = replace(passages[-1], text=f"{passages[-1].text}\n... and {left_out} more")
    return passages


def _asks_column(terms: frozenset[str], row: AnswerUnit) -> bool:
    """Whether a question names a column, other than by its text and than the first, which says what the rows are."""
    held = {column for column, _ in _held_values(terms, row)}
    return any(column not in held and not terms.isdisjoint(extract_terms(column)) for column, _ in row.cells[1:])


def _identifying_columns(table: Sequence[AnswerUnit]) -> list[str]:
    """The columns with another text in nearly each row, neither numbers nor addresses."""
    found = []
    for column in dict(table[0].cells):
        texts = [text for row in table for name, text in row.cells if name == column]
        is_text = not any(_NUMBER.fullmatch(text) or "://" in text for text in texts)
        if is_text and len(set(texts)) > _DISTINCT * len(table):
            found.append(column)
    return found


def _asked_cells(terms: frozenset[str], identifying: Sequence[str], row: AnswerUnit) -> str:
    """The cells of a row that identify it, or whose name or text the question has; all if none identifies rows."""
    held = {column for column, _ in _held_values(terms, row)}
    named = {column for column, _ in row.cells if not terms.isdisjoint(extract_terms(column))}
    shown = set(identifying[:MAX_IDENTIFYING])
    kept = shown | held | named if shown or named - held else set(dict(row.cells))
    return "; ".join(f"{name}: {text}" for name, text in row.cells if name in kept)
