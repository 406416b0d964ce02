"""The facts of a passage that a model was shown: its units with their words, numbers, dates and names.

Only the chunk counts, with its title, headings, context, the name of its file and what was said of its document: what
stands around it in the document was not shown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ragkit.answer.extractive.units import UnitKind, extract_answer_units
from ragkit.answer.facts.names import Name, NameIndex, find_names, has_quotation
from ragkit.answer.facts.quantities import Date, Quantity, find_dates, find_quantities
from ragkit.lexical.analyzer import extract_terms
from ragkit.records import Hit
from ragkit.split.sentence_segmentation import sentence_spans

_CLAUSE = re.compile(r"[;:]\s|,\s|\b(?:but|while|whereas|although|because|if|when|unless)\b", re.IGNORECASE)
_MIN_CLAUSE_TERMS = 2


@dataclass(frozen=True)
class Facts:
    """The words and exact facts of a piece of text."""

    text: str

    @cached_property
    def terms(self) -> frozenset[str]:
        """Stemmed words."""
        return frozenset(extract_terms(self.text))

    @cached_property
    def index(self) -> NameIndex:
        """Looks up names."""
        return NameIndex(self.text)

    @cached_property
    def quantities(self) -> list[Quantity]:
        """Numbers with units; those of dates as well, since a year may be given alone."""
        years = [Quantity(float(date.year), "", str(date.year)) for date in self.dates if date.year]
        return find_quantities(self.text) + years

    @cached_property
    def dates(self) -> list[Date]:
        """Dates."""
        return find_dates(self.text)

    @cached_property
    def years(self) -> frozenset[int]:
        """The years that the text names."""
        return frozenset(int(q.value) for q in self.quantities if not q.unit and 1000 <= q.value < 3000)

    @cached_property
    def names(self) -> frozenset[str]:
        """Its names in lower case."""
        return frozenset(name.text.lower() for name in find_names(self.text) if not name.may_be_word)

    @cached_property
    def clauses(self) -> list[Facts]:
        """Its clauses of at least two words that count; the whole text if there is one."""
        parts = [part for part in _CLAUSE.split(self.text) if part.strip()]
        clauses = [facts for part in parts if len((facts := Facts(part)).terms) >= _MIN_CLAUSE_TERMS]
        return clauses if len(clauses) > 1 else [self]

    def has_quantity(self, wanted: Quantity) -> bool:
        """Whether the text gives this number."""
        return any(wanted.matches(quantity) for quantity in self.quantities)

    def has_date(self, wanted: Date, years: frozenset[int]) -> bool:
        """Whether the text gives this date; `years` are those of its passage."""
        is_bare = wanted.year is None and wanted.day is None  # it may stand in a range, as May in "May to June"
        return any(wanted.matches(date, years) for date in self.dates) or (
            is_bare and self.index.has(Name(wanted.text.rstrip("."), is_code=True))
        )

    def has_quotation(self, quotation: str) -> bool:
        """Whether the text has these words in order."""
        return has_quotation(self.text, quotation)


class PassageFacts(Facts):
    """The facts of a passage: of all that was shown of it, and of each unit."""

    def __init__(self, hit: Hit, described: str = "") -> None:
        """`described`: what was said of its document beside the passage, as its date."""
        chunk = hit.chunk
        self.head = Facts("\n".join((chunk.header, chunk.context, chunk.source.rpartition("/")[2], described)))
        """The title, headings, context, file name, and what was said of the document."""
        super().__init__(f"{self.head.text}\n{chunk.text}")
        self.units: Sequence[Facts] = _units(hit)
        """Sentences, list items with their introduction, table rows with column names, in order."""


def _units(hit: Hit) -> list[Facts]:
    units = [unit.text for unit in extract_answer_units([hit]) if unit.kind is not UnitKind.LIST]
    seen = " ".join(" ".join(units).split())
    text = hit.chunk.text
    rest = (" ".join(text[start:end].split()) for start, end in sentence_spans(text))
    return [*map(Facts, units), *(Facts(line) for line in rest if line not in seen)]
