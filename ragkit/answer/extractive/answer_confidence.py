"""Estimates the probability that an answer without a model is right, from what it quotes and what it left out."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import pairwise

from ragkit.answer.base import Searcher
from ragkit.answer.confidence import LEXICAL_WEIGHTS, NEAR, WEIGHTS, confidence
from ragkit.answer.extractive.composition import AnswerPassage, overlaps
from ragkit.answer.extractive.question_terms import QuestionTerms
from ragkit.answer.extractive.selection import ScoredAnswerUnit, file_words
from ragkit.answer.extractive.units import AnswerUnit
from ragkit.lexical.analyzer import extract_terms
from ragkit.lexical.languages import detect_question_language
from ragkit.lexical.word_forms import find_forms, find_parts
from ragkit.records import Hit

UNKNOWN_NAME = 0.5
"""The highest probability of an answer to a question with a capitalized word that no document has; set by hand."""
UNKNOWN_FULL_NAME = 0.2
"""The same for two of them beside each other, one of which no document has: the closest passages are shown."""
UNKNOWN_NOUN_ODDS = 1 / 5
"""Factor of the odds of an answer to a German question with a noun that no document has. Of 397 such questions with an
answer 58 had one, of the same questions to other documents 280 and 318."""
_WORD = re.compile(r"[^\W\d_]+")
_NUMBERED = re.compile(r"(?<!\w)([^\W\d_]\w{1,40}) (\d{1,12}(?:\.\d{1,6}){0,4})(?!\w|[.,:/-]\d)")
"""A word and a number behind it: Debian 12."""

_ASKS_PRICE = re.compile(
    r"\b(?:costs?|prices?|salary|salaries|wages?|fees?|pay|paid|priced|cheap\w*|expensive|kostet|preis|gehalt|prix|salaire)\b",
    re.IGNORECASE,
)
_ASKS_AMOUNT = re.compile(
    r"[¿\W]*(?:how (?:much|expensive)|what|was|wie(?:\s?viel| hoch| teuer)|combien|quel(?:le)?s?|cuánto)\b",
    re.IGNORECASE,
)
_PRICE = re.compile(
    r"[$€£¥]|\b(?:usd|eur|gbp|euros?|dollars?|cents?|pounds|free of charge|for free|gratis|kostenlos)\b", re.IGNORECASE
)


def estimate_confidence(
    question: str,
    hits: Sequence[Hit],
    ranked: Sequence[ScoredAnswerUnit],
    quoted: Sequence[AnswerPassage],
    searcher: Searcher,
) -> float:
    """The probability, in [0, 1], that the quoted passages are a right answer; 0 without one.

    Args:
        question: as it was searched.
        hits: the passages, best first.
        ranked: the candidate units, best first.
        quoted: what the answer consists of.
        searcher: knows the documents of the passages.
    """
    if not quoted:
        return 0.0
    features = answer_features(question, hits, ranked, quoted, searcher)
    probability = confidence(features, WEIGHTS if "gap" in features else LEXICAL_WEIGHTS)
    if _has_unknown_noun(question, searcher):
        odds = UNKNOWN_NOUN_ODDS * probability
        probability = odds / (odds + 1 - probability)
    return min(probability, limit_by_names(question, searcher), _limit_by_numbers(question, hits, ranked, quoted))


def answer_features(
    question: str,
    hits: Sequence[Hit],
    ranked: Sequence[ScoredAnswerUnit],
    quoted: Sequence[AnswerPassage],
    searcher: Searcher,
) -> dict[str, float]:
    """The features of `WEIGHTS`, or of `LEXICAL_WEIGHTS` if the embedder is not discriminative; at least one quote."""
    terms = QuestionTerms(question, searcher)
    is_quoted = [any(overlaps(unit, passage) for passage in quoted) for unit in ranked]
    rows = [bool(unit.cells) and _table(unit) == _table(ranked[0]) for unit in ranked]  # of one table: much alike
    odds = [math.exp(unit.score - ranked[0].score) for unit in ranked]
    shown_odds = sum(odd for odd, is_in in zip(odds, is_quoted, strict=True) if is_in)
    other_odds = sum(odd for odd, is_in, is_row in zip(odds, is_quoted, rows, strict=True) if not is_in and not is_row)
    present = _shown_terms(hits, ranked, quoted)
    features = {
        "shown": shown_odds / (shown_odds + other_odds),
        "missing": max(0.0, 1 - terms.coverage(present) - terms.prefix_coverage(present)) ** 2,
        "missing_price": float(_lacks_price(question, hits, quoted)),
    }
    calibration = searcher.calibration() if any("dense" in hit.scores for hit in hits) else None
    if calibration is None or not calibration.is_discriminative:
        return features
    cosines = [calibration.normalize(unit.cosine) for unit in ranked]
    inside = [cosine for cosine, is_in in zip(cosines, is_quoted, strict=True) if is_in]
    outside = [cosine for cosine, is_in in zip(cosines, is_quoted, strict=True) if not is_in]
    features["gap"] = max(inside) - max(outside, default=min(cosines))
    features["far"] = max(0.0, NEAR - max(cosines)) ** 2
    return features


def _limit_by_numbers(
    question: str, hits: Sequence[Hit], ranked: Sequence[ScoredAnswerUnit], quoted: Sequence[AnswerPassage]
) -> float:
    """The same for a name with a number that the quotes lack: what is said of Debian 8 is no answer on Debian 12.

    Prose that has no other number behind that name may well be of it: "in 2015" stands once in an article, and "World
    War II" is 2. Rows of a table have a number each.
    """
    names = [match for match in _NUMBERED.finditer(question) if match.start() and match[1][0].isupper()]
    if not names:
        return 1.0
    present, text = _shown_terms(hits, ranked, quoted), " ".join(passage.text for passage in quoted)
    lacking = {match[1] for match in names if not present.issuperset(extract_terms(match[2]))}
    is_other = bool(ranked[0].cells) or any(name in lacking for name, _ in _NUMBERED.findall(text))
    return UNKNOWN_FULL_NAME if lacking and is_other else 1.0


def _shown_terms(
    hits: Sequence[Hit], ranked: Sequence[ScoredAnswerUnit], quoted: Sequence[AnswerPassage]
) -> frozenset[str]:
    """The terms of the quotes and of what stands above the best unit."""
    best = hits[ranked[0].hit_index].chunk
    shown = (passage.text for passage in quoted)
    return frozenset(extract_terms(" ".join([*shown, ranked[0].heading_context, best.header, file_words(best.source)])))


def _lacks_price(question: str, hits: Sequence[Hit], quoted: Sequence[AnswerPassage]) -> bool:
    """Whether a question is about a price, and no passage has one; of "How much ...?", none that is quoted."""
    if _ASKS_PRICE.search(question) is None:
        return False
    chunks = (
        [hits[i].chunk for i in {p.hit_index for p in quoted}]
        if _ASKS_AMOUNT.match(question)
        else [h.chunk for h in hits]
    )
    return not any(_PRICE.search(f"{chunk.header} {chunk.text}") for chunk in chunks)


def _has_unknown_noun(question: str, searcher: Searcher) -> bool:
    """Whether a German question has a noun of which the documents have no form, no compound and no parts."""
    if detect_question_language(question) != "German":
        return False
    forms, longer = find_forms(question, searcher.find_terms)
    terms = {noun: extract_terms(noun) for noun in _WORD.findall(question)[1:] if noun.istitle()}
    missing = searcher.missing_terms([term for own in terms.values() for term in own])
    unknown = set(missing).difference(forms, longer)
    lacking = (noun for noun, own in terms.items() if own and unknown.issuperset(own))
    return any(not find_parts(noun, searcher.find_terms) for noun in lacking)


def limit_by_names(question: str, searcher: Searcher) -> float:
    """The highest probability of an answer to a question with names that no document has; 1 if it has none.

    What the documents say of others is no answer to a question about Katrin Vogel. Where most words are capitalized,
    none says anything; in German, a single one may be any noun: see `UNKNOWN_NOUN_ODDS`.
    """
    tokens = _WORD.findall(question)
    capitalized = [token[0].isupper() and number > 0 for number, token in enumerate(tokens)]
    if not any(capitalized) or 2 * sum(capitalized) > len(tokens):
        return 1.0
    terms = {token: extract_terms(token) for token, is_name in zip(tokens, capitalized, strict=True) if is_name}
    found = [term for of_token in terms.values() for term in of_token if len(term) > 2 and term.isalpha()]
    missing = set(searcher.missing_terms(found)) if found else set()
    if not missing:
        return 1.0
    unknown = [
        is_name and not missing.isdisjoint(terms[token]) for token, is_name in zip(tokens, capitalized, strict=True)
    ]
    pairs = zip(pairwise(capitalized), pairwise(unknown), strict=True)
    if any(all(names) and any(lack) for names, lack in pairs):
        return UNKNOWN_FULL_NAME
    return 1.0 if detect_question_language(question) == "German" else UNKNOWN_NAME


def _table(unit: AnswerUnit) -> tuple[str, int]:
    return unit.source, unit.group
