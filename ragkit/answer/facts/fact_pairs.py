"""Finds facts that stand in a passage, yet not together: "Ben pays 5 euros" where Ann pays 5 and Ben pays 7."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from ragkit.answer.facts.names import Name, find_names
from ragkit.answer.facts.passage_facts import Facts
from ragkit.answer.facts.quantities import UNITS, Date, Quantity, find_quantities
from ragkit.lexical.analyzer import extract_terms

MARGIN = 0.25
"""How much more of a statement's words another place must have before its number or name counts as the right one."""
MIN_COVERAGE = 0.5
"""Share of the words of a statement that the place with the other number or name must have."""
NEIGHBOUR_SHARE = 0.6
"""What the words of the sentences before and after count."""
_CLAUSE_CHARS = 60  # what the end of a clause counts as distance
_MAX_CHARS = 200
_BOUNDARY = re.compile(r"[,:.](?=\s)|\b(?:and|but|while|whereas|otherwise|or)\b")
_CELL = re.compile(r"[;|\n]")
_WORD = re.compile(r"[^\W\d_][\w'’-]*|\b(?:1[5-9]|20|21)\d\d\b")


def find_swap(statement: Facts, units: Sequence[Facts], weights: Mapping[str, float]) -> str:
    """What does not belong together, in plain words; '' if nothing was found.

    Args:
        statement: its facts, all of which stand somewhere in the units.
        units: the units of the cited passages, in order.
        weights: the weights of the statement's words.
    """
    names = find_names(statement.text, frozenset().union(*(unit.names for unit in units)))
    quantities = find_quantities(statement.text)
    for quantity in quantities:
        if problem := _number_elsewhere(statement, quantity, units, weights):
            return problem
    for date in statement.dates:
        if problem := _date_elsewhere(statement, date, units, weights):
            return problem
    for clause in statement.clauses:
        inside = [name for name in names if name.text in clause.text]
        for name in inside:
            if problem := _name_elsewhere(clause, name, inside, units, weights):
                return problem
    return _crossed_numbers(statement, quantities, units, weights) or _crossed_names(statement, names, units, weights)


def _share(words: frozenset[str], terms: frozenset[str], weights: Mapping[str, float]) -> float:
    total = sum(weights.get(word, 1.0) for word in words)
    return sum(weights.get(word, 1.0) for word in words if word in terms) / total if total else 0.0


def _is_row(unit: Facts) -> bool:
    return bool(_CELL.search(unit.text))


def _shares(words: frozenset[str], units: Sequence[Facts], weights: Mapping[str, float]) -> list[float]:
    """The share of the words in each unit; those of its neighbours count for less, those of other rows not at all."""
    own = [_share(words, unit.terms, weights) for unit in units]
    wide = []
    for i, unit in enumerate(units):
        near = frozenset[str]().union(*(unit.terms for unit in units[max(0, i - 1) : i + 2]))
        wide.append(own[i] if _is_row(unit) else own[i] + NEIGHBOUR_SHARE * (_share(words, near, weights) - own[i]))
    return wide


def _find_elsewhere(
    words: frozenset[str], holders: Sequence[int], units: Sequence[Facts], weights: Mapping[str, float]
) -> int | None:
    """The unit that has clearly more of the words than any that holds the fact; None if there is none."""
    if not holders:
        return None
    shares = _shares(words, units, weights)
    best = max(range(len(units)), key=shares.__getitem__)
    holder = max(holders, key=shares.__getitem__)
    margin, least = MARGIN, MIN_COVERAGE
    if abs(best - holder) < 2 and not _is_row(units[best]):
        margin, least = 0.25, 0.8
    return best if shares[best] >= least and shares[best] - shares[holder] >= margin else None


def _plain_words(facts: Facts) -> frozenset[str]:
    return frozenset(term for term in facts.terms if not term[:1].isdigit())


def _is_same_kind(quantity: Quantity, other: Quantity) -> bool:
    """Whether two numbers could be told for one another."""
    if quantity.unit or other.unit:
        return quantity.unit == other.unit
    return not (_is_year(quantity) or _is_year(other)) and (not other.is_word or other.value > 2)


def _is_year(quantity: Quantity) -> bool:
    return not quantity.unit and 1500 <= quantity.value < 2200


def _number_elsewhere(
    statement: Facts, quantity: Quantity, units: Sequence[Facts], weights: Mapping[str, float]
) -> str:
    """The place with the statement's words gives another number of this kind."""
    if _is_year(quantity):
        return ""
    holders = [i for i, unit in enumerate(units) if unit.has_quantity(quantity)]
    best = _find_elsewhere(_plain_words(statement), holders, units, weights)
    for other in find_quantities(units[best].text) if best is not None else ():
        if _is_same_kind(quantity, other) and not any(own.matches(other) for own in statement.quantities):
            return f"the passage gives {other.text} for this, not {quantity.text}"
    return ""


def _date_elsewhere(statement: Facts, date: Date, units: Sequence[Facts], weights: Mapping[str, float]) -> str:
    """The place with the statement's words gives another date."""
    holders = [i for i, unit in enumerate(units) if unit.has_date(date, unit.years)]
    words = _plain_words(statement) - frozenset(extract_terms(date.text))
    best = _find_elsewhere(words, holders, units, weights) if date.day else None
    for other in units[best].dates if best is not None else ():
        if other.day and not any(own.matches(other, frozenset()) for own in statement.dates):
            return f"the passage gives {other.text} for this, not {date.text}"
    return ""


def _name_elsewhere(
    statement: Facts, name: Name, names: Sequence[Name], units: Sequence[Facts], weights: Mapping[str, float]
) -> str:
    """The place with the statement's other words has another name, and not this one."""
    named = frozenset(term for other in names for term in extract_terms(other.text))
    words = _plain_words(statement) - named
    if len(words) < 2 or not name.text[:1].isupper():
        return ""
    shares = [_share(words, unit.terms, weights) for unit in units]
    holders = [i for i, unit in enumerate(units) if unit.index.has(name)]
    if not holders or max(shares, default=0.0) < MIN_COVERAGE:
        return ""
    best = max(range(len(units)), key=shares.__getitem__)
    holder = max(holders, key=shares.__getitem__)
    if best in holders or shares[best] - shares[holder] < MARGIN or _PRONOUN.match(units[best].text):
        return ""
    if _is_row(units[best]) != _is_row(units[holder]):
        return ""
    own = {other.text.lower() for other in names}
    rivals = [n for n in find_names(units[best].text) if n.text[:1].isupper() and n.text.lower() not in own]
    rivals = [n for n in rivals if not n.may_be_word and n.text.isalpha() == name.text.isalpha()]
    return f"the passage does not say this of {name.text}" if rivals else ""


_PRONOUN = re.compile(r"(?:he|she|it|they|this|these|those|that|his|her|their|its|such|both)\b", re.IGNORECASE)

Place = tuple[int, int]
"""Offset of a number or name in a text, and which one it is."""


def _nearest(text: str, words: frozenset[str], places: Sequence[Place]) -> dict[str, int]:
    """The number or name that each word of a text stands nearest to; the end of a clause counts as distance.

    A word that stands with several is left out.
    """
    near: dict[str, set[int]] = {}
    boundaries = [match.start() for match in _BOUNDARY.finditer(text)]
    cells = [match.start() for match in _CELL.finditer(text)]
    for match in _WORD.finditer(text):
        term = extract_terms(match[0])[0]
        distances = []
        for at, which in places if term in words else ():
            low, high = sorted((match.start(), at))
            if not any(low < cell < high for cell in cells):
                crossed = sum(low < boundary < high for boundary in boundaries)
                distances.append((high - low + _CLAUSE_CHARS * crossed, which))
        if distances and min(distances)[0] <= _MAX_CHARS:
            near.setdefault(term, set()).add(min(distances)[1])
    return {term: next(iter(found)) for term, found in near.items() if len(found) == 1}


def _is_crossed(said: Mapping[str, int], found: Mapping[str, int], weights: Mapping[str, float]) -> bool:
    """Whether most words stand with another number or name in the passage than in the statement."""
    both = said.keys() & found.keys()
    crossed = sum(weights.get(term, 1.0) for term in both if said[term] != found[term])
    straight = sum(weights.get(term, 1.0) for term in both if said[term] == found[term])
    return crossed > 2 * straight and crossed > 0


def _crossed_numbers(
    statement: Facts, quantities: Sequence[Quantity], units: Sequence[Facts], weights: Mapping[str, float]
) -> str:
    """Within one sentence or row, the statement's words stand with another number of this kind."""
    years = frozenset(str(year) for year in statement.years)
    words = _plain_words(statement) - _UNIT_TERMS | years
    for quantity in quantities:
        if _is_year(quantity):
            continue
        holders = [unit for unit in units if unit.has_quantity(quantity)]
        shares = [_share(words, unit.terms, weights) for unit in holders]
        if not holders or max(shares) < MIN_COVERAGE:
            continue
        best = [unit for unit, share in zip(holders, shares, strict=True) if share >= 0.8 * max(shares)]
        if all(_is_number_crossed(statement, quantity, unit, words, weights) for unit in best):
            return f"the passage does not give {quantity.text} for this"
    return ""


_UNIT_TERMS = frozenset(extract_terms(" ".join(word for word in UNITS if word.isalpha() and len(word) > 2)))


def _is_number_crossed(
    statement: Facts, quantity: Quantity, unit: Facts, words: frozenset[str], weights: Mapping[str, float]
) -> bool:
    rivals = [q for q in find_quantities(unit.text) if _is_same_kind(quantity, q)]
    values = _group_values(rivals, unit.text)
    own = [q for q in find_quantities(statement.text) if _is_same_kind(quantity, q) and q.value in values]
    if len(set(values.values())) < 2 or quantity.value not in values:
        return False
    this = values[quantity.value]
    said = _nearest(statement.text, words, [(q.start, values[q.value]) for q in own])
    found = _nearest(unit.text, words, [(q.start, values[q.value]) for q in rivals])
    here = {term: which for term, which in said.items() if which == this}
    others = {found[term] for term in here if found.get(term, this) != this}
    swapped = all(
        any(which == other and found.get(term) == this for term, which in said.items())
        for other in others
        if other in said.values()
    )
    return bool(others) and swapped and _is_crossed(here, found, weights)


def _group_values(quantities: Sequence[Quantity], text: str) -> dict[float, int]:
    """Which group each number belongs to: those of a range or pair ("1 to 6", "7 and 8") belong together."""
    groups: dict[float, int] = {}
    for i, quantity in enumerate(quantities):
        before = quantities[i - 1] if i else None
        gap = text[before.start + len(before.text) : quantity.start] if before else ""
        joined = before is not None and re.fullmatch(r"\s*(?:-|–|to|and|or|,)\s*", gap)
        groups.setdefault(quantity.value, groups[before.value] if joined and before else i)
    return groups


def _crossed_names(
    statement: Facts, names: Sequence[Name], units: Sequence[Facts], weights: Mapping[str, float]
) -> str:
    """Two names of one sentence have changed places, as in "A replaces B" for "B replaces A"."""
    for first, second in pairwise(names):
        gap = statement.text[first.start + len(first.text) : second.start]
        if first.text.lower() == second.text.lower() or not re.search(r"\w|,", gap):
            continue
        named = frozenset(extract_terms(f"{first.text} {second.text}"))
        words = _plain_words(statement) - named
        both = [unit for unit in units if unit.index.has(first) and unit.index.has(second)]
        shares = [_share(words, unit.terms, weights) for unit in both]
        if not both or max(shares) < MIN_COVERAGE:
            continue
        unit = both[shares.index(max(shares))]
        if _has_other_roles(first, second, statement, unit) or _is_pair_crossed(
            (first, second), statement, unit, words, weights
        ):
            return f"the passage has {first.text} and {second.text} the other way round"
    return ""


def _is_pair_crossed(
    pair: tuple[Name, Name], statement: Facts, unit: Facts, words: frozenset[str], weights: Mapping[str, float]
) -> bool:
    find: Callable[[str], list[Place]] = lambda text: [  # noqa: E731
        (match.start(), which)
        for which, name in enumerate(pair)
        for match in re.finditer(rf"(?<!\w){re.escape(name.text)}(?!\w)", text, re.IGNORECASE)
    ]
    said, found = _nearest(statement.text, words, find(statement.text)), _nearest(unit.text, words, find(unit.text))
    both = said.keys() & found.keys()
    return (
        {said[term] for term in both} == {0, 1}
        and {found[term] for term in both} == {0, 1}
        and all(said[term] != found[term] for term in both)
    )


_PASSIVE = re.compile(r"\b(?:by|from|after|than|under|below|behind)\b", re.IGNORECASE)


def _has_other_roles(first: Name, second: Name, statement: Facts, unit: Facts) -> bool:
    """The same verb between two names, which stand in the other order in the same voice."""
    said = statement.text[first.start + len(first.text) : second.start]
    verbs = frozenset(term for term in extract_terms(said) if term.isalpha())
    if not re.search(r"[a-z]{3}", said) or re.fullmatch(r"\s*(?:,|and|or|&|/|\(|\)|\s)*", said):
        return False
    text = unit.text.lower()
    a, b = text.find(first.text.lower()), text.find(second.text.lower())
    between = unit.text[b + len(second.text) : a] if 0 <= b < a else ""
    same_voice = bool(_PASSIVE.search(said)) == bool(_PASSIVE.search(between))
    return 0 < len(between) < _CLAUSE_CHARS and same_voice and verbs <= frozenset(extract_terms(between))
