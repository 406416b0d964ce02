"""Finds facts that stand in a passage, yet not together: "Ben pays 5 euros" where Ann pays 5 and Ben pays 7."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ragkit.answer.names import Name, find_names
from ragkit.answer.passage_facts import Facts
from ragkit.answer.quantities import Quantity
from ragkit.lexical.analyzer import extract_terms

MARGIN = 0.25
"""How much more of a statement's words another place must have before its number or name counts as the right one."""
MIN_COVERAGE = 0.5
"""Share of the words of a statement that the place with the other number or name must have."""


def find_swap(statement: Facts, units: Sequence[Facts], weights: Mapping[str, float]) -> str:
    """What does not belong together, in plain words; '' if nothing was found.

    Args:
        statement: its facts, all of which stand somewhere in the units.
        units: the units of the cited passages, in order.
        weights: the weights of the statement's words.
    """
    names = find_names(statement.text, frozenset().union(*(unit.names for unit in units)))
    for quantity in statement.quantities:
        if problem := _number_swap(statement, quantity, units, weights):
            return problem
    for name in names:
        if problem := _name_swap(statement, name, names, units, weights):
            return problem
    return _role_swap(names, statement, units)


def _share(words: frozenset[str], unit: Facts, weights: Mapping[str, float]) -> float:
    total = sum(weights.get(word, 1.0) for word in words)
    return sum(weights.get(word, 1.0) for word in words if word in unit.terms) / total if total else 0.0


def _number_swap(
    statement: Facts, quantity: Quantity, units: Sequence[Facts], weights: Mapping[str, float]
) -> str:
    """The place with the statement's words gives another number of this kind."""
    words = frozenset(term for term in statement.terms if not term[:1].isdigit())
    shares = [_share(words, unit, weights) for unit in units]
    holders = [i for i, unit in enumerate(units) if unit.has_quantity(quantity)]
    if not holders or not shares:
        return ""
    best = max(range(len(units)), key=shares.__getitem__)
    place, holder = units[best], max(holders, key=shares.__getitem__)
    if shares[best] - shares[holder] >= MARGIN and shares[best] >= MIN_COVERAGE:
        return _other_number(statement, quantity, place)
    if shares[holder] == shares[best]:
        place = units[holder]
    if place.has_quantity(quantity):
        return _clause_swap(statement, quantity, place, words, weights)
    return ""


def _other_number(statement: Facts, quantity: Quantity, place: Facts) -> str:
    for other in place.quantities:
        same_kind = other.unit == quantity.unit and not other.is_word
        if (same_kind or (other.unit and other.unit == quantity.unit)) and not _in(statement, other):
            return f"the passage gives {other.text} for this, not {quantity.text}"
    return ""


def _in(statement: Facts, quantity: Quantity) -> bool:
    return any(own.matches(quantity) for own in statement.quantities)


def _clause_swap(
    statement: Facts, quantity: Quantity, place: Facts, words: frozenset[str], weights: Mapping[str, float]
) -> str:
    """Within one sentence or row, the clause with the statement's words gives another number of this kind."""
    clauses = place.clauses
    holders = [clause for clause in clauses if clause.has_quantity(quantity)]
    if len(clauses) < 2 or not holders:  # noqa: PLR2004
        return ""
    holder_share = max(_share(words, clause, weights) for clause in holders)
    shared = frozenset.intersection(*(frozenset(words & clause.terms) for clause in (holders[0],)))
    for clause in clauses:
        own = (words & clause.terms) - shared
        if own and not clause.has_quantity(quantity) and _share(words, clause, weights) - holder_share >= MARGIN:
            if problem := _other_number(statement, quantity, clause):
                return problem
    return ""


def _name_swap(
    statement: Facts, name: Name, names: Sequence[Name], units: Sequence[Facts], weights: Mapping[str, float]
) -> str:
    """The place with the statement's other words has another name, and not this one."""
    named = frozenset(term for other in names for term in extract_terms(other.text))
    words = frozenset(term for term in statement.terms if term not in named and not term[:1].isdigit())
    if len(words) < 2:  # noqa: PLR2004
        return ""
    shares = [_share(words, unit, weights) for unit in units]
    holders = [i for i, unit in enumerate(units) if unit.index.has(name)]
    if not holders or max(shares, default=0.0) < MIN_COVERAGE:
        return ""
    best = max(range(len(units)), key=shares.__getitem__)
    holder = max(holders, key=shares.__getitem__)
    if best in holders or shares[best] - shares[holder] < MARGIN:
        return ""
    others = {other for other in units[best].names if not any(other == own.text.lower() for own in names)}
    follows = best > 0 and best - 1 in holders and not others
    if not others or follows or _PRONOUN.match(units[best].text):
        return ""
    return f"the passage does not say this of {name.text}"


_PRONOUN = re.compile(r"(?:he|she|it|they|this|these|those|that|his|her|their|its|such|both)\b", re.IGNORECASE)
_PASSIVE = re.compile(r"\b(?:by|from|after|than)\b", re.IGNORECASE)
_LISTED = re.compile(r"\s*(?:,|and|or|&|/|\(|\)|;|\s)*\s*", re.IGNORECASE)


def _role_swap(names: Sequence[Name], statement: Facts, units: Sequence[Facts]) -> str:
    """Two names around the same verb in the other order: "A replaces B" for "B replaces A"."""
    for first, second in zip(names, names[1:], strict=False):
        said = statement.text[first.start + len(first.text) : second.start]
        verbs = frozenset(term for term in extract_terms(said) if term.isalpha())
        if not verbs or _LISTED.fullmatch(said):
            continue
        for unit in units:
            text = unit.text.lower()
            a, b = text.find(first.text.lower()), text.find(second.text.lower())
            if not 0 <= b < a:
                continue
            between = unit.text[b + len(second.text) : a]
            same_voice = bool(_PASSIVE.search(said)) == bool(_PASSIVE.search(between))
            if same_voice and len(between) < 80 and verbs <= frozenset(extract_terms(between)):  # noqa: PLR2004
                return f"the passage has {first.text} and {second.text} the other way round"
    return ""
