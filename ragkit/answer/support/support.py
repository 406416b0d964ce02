"""Holds each statement of an answer against the passages that it cites.

Numbers with units, dates, names and quotations are compared exactly, once normalized, and must stand together in one
place of a passage; negations and opposites must agree; of the other words, the share that the passages have and the
cosine with the nearest places decide. Only what the model was shown counts. Rules and embeddings: no model is called.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from ragkit.answer.base import Searcher, Statement, Support
from ragkit.answer.facts.fact_pairs import find_swap
from ragkit.answer.facts.names import Name, find_names, find_quotations
from ragkit.answer.facts.passage_facts import Facts, PassageFacts
from ragkit.answer.facts.quantities import Date, Quantity, find_quantities
from ragkit.answer.passage_text import describe_fields, describe_validity
from ragkit.answer.support.polarity import negates, negation_conflicts, opposites_in
from ragkit.answer.support.statements import ClaimedStatement, find_assent, find_bare_answer, split_statements
from ragkit.answer.support.wording import (
    CERTAIN_SHARE,
    LEXICAL_COSINE,
    PARTLY_AT,
    SUPPORTED_AT,
    coverage,
    needs_cosine,
    wording_probability,
)
from ragkit.lexical.analyzer import extract_terms
from ragkit.lexical.stopwords import STOP_WORDS
from ragkit.records import Hit


@dataclass
class _Case:
    """A statement on its way to a verdict."""

    claim: ClaimedStatement
    facts: Facts
    passages: Sequence[PassageFacts]
    weights: Mapping[str, float]
    problem: str = ""
    checks: tuple[str, ...] = ()
    features: dict[str, float] | None = None
    places: tuple[str, ...] = ()


def check_statements(
    text: str, shown: Mapping[int, Hit], searcher: Searcher, question: str = ""
) -> tuple[Statement, ...]:
    """The statements of an answer, judged.

    Args:
        text: the answer of a model, with citations as [n].
        shown: the passages that the model was shown, by citation number.
        searcher: weighs words and embeds.
        question: names of the question are not taken for names that the model invented.
    """
    claims = split_statements(text)
    asked = frozenset(extract_terms(question))
    assent = find_assent(text, asked)
    bare = assent or (None if claims or not question else find_bare_answer(text))
    claims = [bare] if bare else claims
    if not claims:
        return ()
    passages = {n: PassageFacts(hit, _described(hit, asked, searcher)) for n, hit in shown.items()}
    weights = _term_weights(claims, searcher)
    judge = _Judge(searcher, weights, asked, frozenset(_NUMBERED_NAME.findall(question)))
    if bare:
        passages = {
            n: passage
            for n, passage in passages.items()
            if _answers(bare, asked, passage, searcher, assents=assent is not None)
        }
    first = judge.judge_all([(claim, [passages[n] for n in claim.citations if n in passages]) for claim in claims])
    return tuple(
        _with_other_place(verdict, claim, passages, shown, judge) for verdict, claim in zip(first, claims, strict=True)
    )


def _with_other_place(
    verdict: Statement,
    claim: ClaimedStatement,
    passages: Mapping[int, PassageFacts],
    shown: Mapping[int, Hit],
    judge: _Judge,
) -> Statement:
    """The verdict with another passage that supports the statement, if the cited ones do not."""
    if verdict.support not in (Support.NOT_FOUND, Support.NO_CITATION):
        return verdict
    words = frozenset(term for term in extract_terms(claim.text) if not term[:1].isdigit()) - STOP_WORDS
    asked = words & judge.asked
    others = [
        n
        for n, passage in passages.items()
        if n not in claim.citations
        and len((words - asked) & passage.terms) >= _MIN_OWN_WORDS * len(words) - len(asked)
        and all(len(part & passage.terms) >= _MIN_SHARED_WORDS * len(part) for part in (words, asked))
    ]
    found = judge.judge_all([(claim, [passages[n]]) for n in others], embeds=False)
    for n, other in zip(others, found, strict=True):
        if other.support is Support.SUPPORTED:
            return replace(verdict, found_in=n, found_at=shown[n].chunk.source)
    return verdict


def _answers(
    bare: ClaimedStatement, asked: Collection[str], passage: PassageFacts, searcher: Searcher, *, assents: bool
) -> bool:
    """Whether a sentence or row of the passage that has the words of a bare answer speaks of the question, too.

    One that denies anything is none for an answer that `assents`.
    """
    words, wanted = frozenset(extract_terms(bare.text)), frozenset(asked)
    terms = sorted(wanted)
    weights = dict(zip(terms, np.asarray(searcher.term_weights(terms), np.float64).tolist(), strict=True))
    near = (
        sentence
        for unit in passage.units
        if words <= unit.terms
        for part in _SENTENCE_END.split(unit.text)  # short sentences share a unit
        if words <= (sentence := frozenset(extract_terms(part))) and not (assents and negates(part))
    )
    return any(
        coverage(wanted - words, sentence | passage.head.terms, weights) >= _MIN_ASKED_SHARE for sentence in near
    )


_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
_MIN_ASKED_SHARE = 0.4  # of the words of the question, by weight, in the sentence that has a bare answer
_MIN_OWN_WORDS = 2 / 3  # of a statement without a citation that the passage or the question has, however rare
_MIN_SHARED_WORDS = (
    1 / 2
)  # of it, and of those that it takes from the question: a small index weighs unknown ones too low
_NUMBERED_NAME = re.compile(r"\b[A-Z]{2,8}[ -]\d{1,6}\b")
"""As ISO 4217: in a question, what is asked about. Its number need not stand in the passage."""


def _described(hit: Hit, asked: Collection[str], searcher: Searcher) -> str:
    """What was said of the document beside the passage."""
    fields = describe_fields(hit.chunk, asked, {})
    return "\n".join([*fields, describe_validity(hit.chunk, searcher)])


class _Judge:
    def __init__(
        self, searcher: Searcher, weights: Mapping[str, float], asked: frozenset[str], names: Collection[str] = ()
    ) -> None:
        """`asked`: the terms of the question; `names`: its names with a number."""
        self._searcher = searcher
        self._weights = weights
        self.asked = asked
        self._names = names

    def judge_all(
        self, pairs: Sequence[tuple[ClaimedStatement, Sequence[PassageFacts]]], *, embeds: bool = True
    ) -> list[Statement]:
        """Judge statements against passages; all texts that need it are embedded in one call."""
        cases = [_Case(claim, self._facts(claim), passages, self._weights) for claim, passages in pairs]
        for case in cases:
            if case.passages:
                self._check_facts(case)
                if not case.problem:
                    _measure_wording(case)
        if embeds:
            _add_cosines([case for case in cases if case.places], self._searcher)
        return [_verdict(case) for case in cases]

    def _facts(self, claim: ClaimedStatement) -> Facts:
        """The facts of a statement that a passage must give."""
        text = claim.text
        for name in self._names:
            text = text.replace(name, name.rstrip("0123456789"))
        return Facts(text)

    def _check_facts(self, case: _Case) -> None:
        if case.claim.is_code:
            self._check_code(case)
            return
        problems: list[str] = []
        checks: list[str] = []
        for check in (self._check_quotations, self._check_numbers, self._check_dates, self._check_names):
            check(case, problems, checks)
        if not problems:
            units = [unit for passage in case.passages for unit in passage.units]
            parts = case.facts.clauses if len(case.passages) > 1 else [case.facts]
            swaps = (find_swap(part, units, case.weights) for part in parts)
            problems += [swap for swap in swaps if swap][:1]
        if not problems:
            problems += _polarity_problem(case)
        case.problem, case.checks = "; ".join(problems[:3]), tuple(checks)

    def _check_code(self, case: _Case) -> None:
        lines = [line.strip() for line in case.claim.text.splitlines() if line.strip()]
        missing = [line for line in lines if not any(p.index.has(Name(line, is_code=True)) for p in case.passages)]
        case.problem = f"`{missing[0]}` is not in the passage" if missing else ""
        case.checks = () if missing else ("code found",)

    def _check_quotations(self, case: _Case, problems: list[str], checks: list[str]) -> None:
        quotations = find_quotations(case.claim.text)
        missing = [q for q in quotations if not any(p.has_quotation(q) for p in case.passages)]
        problems += [f'the quotation "{_short(quotation)}" is not in the passage' for quotation in missing]
        checks += ["quote found"] if quotations and not missing else []

    def _check_numbers(self, case: _Case, problems: list[str], checks: list[str]) -> None:
        wanted = required_quantities(replace(case.claim, text=case.facts.text))
        missing = [quantity for quantity in wanted if not any(p.has_quantity(quantity) for p in case.passages)]
        problems += [f"{quantity.text} is not in the passage" for quantity in missing]
        checks += ["numbers match"] if wanted and not missing else []

    def _check_dates(self, case: _Case, problems: list[str], checks: list[str]) -> None:
        wanted: dict[tuple[str, int | None], list[Date]] = defaultdict(list)
        for date in case.facts.dates:
            wanted[date.text, None if date.is_ambiguous else date.day].append(date)
        missing = [
            text
            for (text, _), readings in wanted.items()
            if not any(p.has_date(date, p.years) for p in case.passages for date in readings)
        ]
        problems += [f"{text.rstrip('.')} is not in the passage" for text in missing]
        checks += ["dates match"] if wanted and not missing else []

    def _check_names(self, case: _Case, problems: list[str], checks: list[str]) -> None:
        known = frozenset().union(*(passage.names for passage in case.passages))
        wanted = find_names(case.claim.text, known)
        missing = [
            name
            for name in wanted
            if not any(p.index.has(name) or p.index.has_acronym(name) for p in case.passages)
            and not self._is_harmless(name)
        ]
        problems += [f"{name.text} is not in the passage" for name in missing]
        problems += [] if missing else _parted_names(case, wanted)
        checks += ["names match"] if wanted and not missing else []

    def _is_harmless(self, name: Name) -> bool:
        """Whether a missing name may be a plain word, or was said by the user."""
        if name.is_code:
            return False
        return name.may_be_word or frozenset(extract_terms(name.text)[:1]) <= self.asked


def _parted_names(case: _Case, names: Sequence[Name]) -> list[str]:
    """Names of several words that stand in the passages only apart, as the parts of other names."""
    problems = []
    for first, second in pairwise(names):
        adjoin = case.claim.text[first.start + len(first.text) : second.start] == " "
        words = (first, second)
        is_name = adjoin and not first.may_be_word and all(n.text.isalpha() and not n.text.isupper() for n in words)
        if is_name and not any(p.index.has_together(first, second) for p in case.passages):
            problems.append(f"{first.text} {second.text} is not in the passage")
    return problems


def required_quantities(claim: ClaimedStatement) -> list[Quantity]:
    """The numbers that a passage must give; not figures of speech, nor what the statement counts up itself."""
    members = claim.text.count(",") + 2 if claim.text.count(",") else 0
    wanted = []
    for quantity in find_quantities(claim.text):
        is_figure = quantity.is_word and (quantity.value <= 2 or quantity.value != int(quantity.value))
        if is_figure and not (quantity.value == 2 and quantity.unit):
            continue
        if not quantity.unit and quantity.value in (claim.item_count or -1, members if ":" in claim.text else -1):
            continue
        wanted.append(quantity)
    return wanted


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def _term_weights(claims: Sequence[ClaimedStatement], searcher: Searcher) -> dict[str, float]:
    terms = sorted({term for claim in claims for term in extract_terms(claim.text)})
    return dict(zip(terms, np.asarray(searcher.term_weights(terms), np.float64).tolist(), strict=True)) if terms else {}


def _words(case: _Case) -> frozenset[str]:
    """The words of a statement without numbers, which are compared on their own; of "In May." none are left."""
    words = frozenset(term for term in case.facts.terms if not term[:1].isdigit())
    return words - STOP_WORDS if case.checks else words


def _measure_wording(case: _Case) -> None:
    """Set the features of the wording, and the two places to compare by embedding."""
    words, near_terms, places = _words(case), frozenset[str](), []
    for passage in case.passages:
        ranked = sorted(range(len(passage.units)), key=lambda i: -coverage(words, passage.units[i].terms, case.weights))
        if not ranked:
            continue
        best = ranked[0]
        near = passage.head.terms.union(*(unit.terms for unit in passage.units[max(0, best - 1) : best + 2]))
        left = words - near
        second = max(ranked, key=lambda i: coverage(left, passage.units[i].terms, case.weights) if left else 0.0)
        near_terms |= near | passage.units[second].terms
        places.append(" ".join(unit.text for unit in passage.units[best : best + 2])[:_MAX_PLACE_CHARS])
    case.features = {
        "near": coverage(words, near_terms, case.weights),
        "anywhere": coverage(words, frozenset().union(*(p.terms for p in case.passages)), case.weights),
        "cosine": LEXICAL_COSINE,
    }
    case.places = tuple(places[:_MAX_PLACES]) if needs_cosine(case.features) and not case.claim.is_code else ()


_MAX_PLACES = 3
_MAX_PLACE_CHARS = 400


def _add_cosines(cases: Sequence[_Case], searcher: Searcher) -> None:
    if not cases or not searcher.calibration().is_discriminative:
        return
    texts = list(dict.fromkeys(text for case in cases for text in (case.claim.text, *case.places)))
    rows = dict(zip(texts, searcher.embed(texts), strict=True))
    for case in cases:
        if case.features is not None:
            case.features["cosine"] = max(float(rows[case.claim.text] @ rows[place]) for place in case.places)


def _polarity_problem(case: _Case) -> list[str]:
    """A negation or an opposite in a clause that the best places for it contradict."""
    units = [unit for passage in case.passages for unit in passage.units]
    whole = [coverage(case.facts.terms, unit.terms, case.weights) for unit in units]
    for clause in case.facts.clauses:
        own = [coverage(clause.terms, unit.terms, case.weights) for unit in units]
        if not own or max(own) < _MIN_ALIGNED:
            continue
        shares = [a + 0.5 * b for a, b in zip(own, whole, strict=True)]
        best = [i for i, share in enumerate(shares) if share >= _SAME_PLACE * max(shares)]
        opposites = [opposites_in(clause.text, units[i].text) for i in best]
        if all(opposites):
            word, other = opposites[0][0]
            return [f'the passage says "{other}", not "{word}"']
        around = [" ".join(unit.text for unit in units[max(0, i - 1) : i + 2]) for i in best]
        if all(negation_conflicts(clause.text, units[i].text, near) for i, near in zip(best, around, strict=True)):
            return ["the passage says the opposite"]
    return []


_MIN_ALIGNED = 0.45  # share of the words of a clause that a place must have to speak of the same thing
_SAME_PLACE = 0.85  # of the best share: such a place may be meant as well


def _verdict(case: _Case) -> Statement:
    claim = case.claim
    if not case.passages:
        reason = "no passage is cited" if not claim.citations else "the cited passage was not shown"
        return Statement(claim.text, claim.citations, Support.NO_CITATION, (), reason)
    if case.problem:
        return Statement(claim.text, claim.citations, Support.NOT_FOUND, case.checks, case.problem)
    if claim.is_code:
        return Statement(claim.text, claim.citations, Support.SUPPORTED, case.checks)
    features = case.features or {}
    probability = 1.0 if features["near"] >= CERTAIN_SHARE else wording_probability(features)
    if probability >= SUPPORTED_AT:
        return Statement(claim.text, claim.citations, Support.SUPPORTED, (*case.checks, "wording matches"))
    if probability >= PARTLY_AT:
        return Statement(claim.text, claim.citations, Support.PARTLY, case.checks, "only a part is in the passage")
    return Statement(claim.text, claim.citations, Support.NOT_FOUND, case.checks, "the passage does not say this")
