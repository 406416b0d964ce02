"""The rows of tables that a question names: "Debian 12" is the row with the version 12, though rows are much alike."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ragkit.answer.base import Searcher
from ragkit.answer.extractive.question_terms import capitalized_terms
from ragkit.answer.extractive.units import AnswerUnit
from ragkit.lexical.analyzer import extract_terms
from ragkit.lexical.stopwords import STOP_WORDS
from ragkit.records import Chunk, Hit

MAX_ROW_PASSAGES = 2
"""Passages of the table that are added for the rows that a question names."""
UnitT = TypeVar("UnitT", bound=AnswerUnit)
_ABOVE = 1e-6  # so that it comes first
_NUMBERED = re.compile(r"(?<!\w)([^\W\d_]{1,40}) (\d{1,12}(?:\.\d{1,6}){0,4})(?!\w|[.,:/-]\d)")


def row_names(question: str) -> frozenset[str]:
    """The terms of a question that may name a row: of its names, and of numbers after a noun.

    "Debian 12" and "room 12" name rows; "more than 12", "in 2018" and "the 12 rooms" do not.
    """
    numbers = (number for noun, number in _NUMBERED.findall(question) if noun.lower() not in STOP_WORDS)
    names = (term for term in capitalized_terms(question) if not term[0].isdigit())
    return frozenset(chain(names, *map(extract_terms, numbers)))


def named_rows_first(
    units: Sequence[AnswerUnit], scores: NDArray[np.float64], names: frozenset[str], terms: frozenset[str]
) -> NDArray[np.float64]:
    """The scores, where the rows that a question names best are as far up as the best row of their table.

    Of a row in several units, the one with the column that is asked for comes first.

    Args:
        units: the candidates.
        scores: one for each.
        names: see `row_names`.
        terms: of the question.
    """
    lifted = scores.copy()
    rows, found = _named_rows(units, names)
    for table in {units[n].source for n, row in rows.items() if found[row]}:
        of_table = [n for n in rows if units[n].source == table]
        most = max(len(found[rows[n]]) for n in of_table)
        named = [n for n in of_table if len(found[rows[n]]) == most]
        lifted[named] += max(scores[of_table]) - max(scores[named])
        for row in {rows[n] for n in named}:
            parts = [n for n in named if rows[n] == row]
            asked = max(parts, key=lambda n: (_count_asked(units[n], terms), scores[n]))
            lifted[asked] = max(lifted[parts]) + _ABOVE
    return lifted


def without_other_rows(units: Sequence[UnitT], names: frozenset[str]) -> list[UnitT]:
    """The units without the rows beside those that a question names."""
    rows, found = _named_rows(units, names)
    tables = {units[n].source for n, row in rows.items() if found[row]}
    return [u for n, u in enumerate(units) if n not in rows or found[rows[n]] or u.source not in tables]


def find_named_rows(question: str, ranked: Sequence[AnswerUnit], hits: Sequence[Hit], searcher: Searcher) -> list[Hit]:
    """Passages with the rows that a question names, from the table of the best row; none if a passage has them.

    Rows of a table are much alike for a search, too: of a long one, the right passage may not be among the best.

    Args:
        question: as it was searched.
        ranked: the candidates, best first.
        hits: the passages of the candidates.
        searcher: searches the table.
    """
    names = row_names(question)
    table = next((unit.source for unit in ranked if unit.cells), "")
    of_table = [unit for unit in ranked if unit.source == table]
    if not names or not table or any(_named_by(u, names) and holding_hit(u, hits, -1) >= 0 for u in of_table):
        return []
    known = {hit.chunk.id for hit in hits}
    documents = {hits[unit.hit_index].chunk.document_id for unit in of_table}  # of the search, whose filter they passed
    lowest = min((hit.scores["dense"] for hit in hits if "dense" in hit.scores), default=None)
    scores = {} if lowest is None else {"dense": lowest}
    found = searcher.search(" ".join(sorted(names)), MAX_ROW_PASSAGES, {"source": table}, "lexical")
    chunks = (hit.chunk for hit in found if hit.chunk.document_id in documents)
    return [Hit(chunk, 0.0, scores) for chunk in chunks if chunk.id not in known]


def holding_hit(unit: AnswerUnit, hits: Sequence[Hit], default: int) -> int:
    """The index of the hit that has a unit: units are read some way beyond their passage, where another may begin."""
    own = hits[unit.hit_index].chunk

    def holds(chunk: Chunk) -> bool:
        return chunk.document_id == own.document_id and chunk.start <= unit.start and unit.end <= chunk.end

    if holds(own):
        return unit.hit_index
    return next((index for index, hit in enumerate(hits) if holds(hit.chunk)), default)


def _named_rows(units: Sequence[AnswerUnit], names: frozenset[str]) -> tuple[dict[int, int], dict[int, frozenset[str]]]:
    """The number of the row of each unit of a table, by its index; and the names that are whole cells of each row."""
    rows = _number_rows(units)
    found: dict[int, frozenset[str]] = {}
    for n, row in rows.items():
        found[row] = found.get(row, frozenset()) | _named_by(units[n], names)
    return rows, found


def _number_rows(units: Sequence[AnswerUnit]) -> dict[int, int]:
    """The index of each unit of a table, and the number of its row.

    A row of many columns is several units, with other columns and the same first cell.
    """
    rows: dict[int, int] = {}
    columns: set[str] = set()
    before: tuple[object, ...] = ()
    for n in sorted((n for n, unit in enumerate(units) if unit.cells), key=lambda n: (units[n].source, units[n].start)):
        first, own = (units[n].source, units[n].cells[0]), {name for name, _ in units[n].cells[1:]}
        if first != before or columns & own:
            before, columns = first, set()
        rows[n] = max(rows.values(), default=0) + (not columns)
        columns |= own
    return rows


def _named_by(unit: AnswerUnit, names: frozenset[str]) -> frozenset[str]:
    """The names that are whole cells of a row."""
    cells = (extract_terms(text) for _, text in unit.cells) if names else ()
    return frozenset(chain.from_iterable(terms for terms in cells if names.issuperset(terms)))


def _count_asked(unit: AnswerUnit, terms: frozenset[str]) -> int:
    """The most words of a question that the name of a column has whose text is not in the question itself."""
    columns = (name for name, text in unit.cells if not terms.issuperset(extract_terms(text)))
    return max((len(terms.intersection(extract_terms(name))) for name in columns), default=0)
