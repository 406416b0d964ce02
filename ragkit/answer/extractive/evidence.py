"""Estimates the probability that the documents answer the question.

`estimate_evidence` sees the retrieved passages: a logistic regression over features of a passage; the passage with the
highest probability decides. A second model uses lexical features only: for embedders that do not separate answers from
other texts, and for hits without cosines. Both were fitted on questions of SQuAD 2.0, with questions about articles
outside the index as negatives.

`estimate_answer_evidence` sees the ranked answer units too. It is fitted on questions over manuals and papers, with
three kinds of negatives: questions on topic that the documents do not answer, questions with the name of another
document, and questions whose answer was taken out of the passages. `benchmarks/answers.py` measures all.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from ragkit.answer.base import Searcher
from ragkit.answer.extractive.question_terms import QuestionTerms
from ragkit.answer.extractive.selection import ScoredAnswerUnit, file_words
from ragkit.answer.extractive.units import AnswerUnit, extract_answer_units
from ragkit.answer.score_calibration import ScoreCalibration
from ragkit.lexical.analyzer import extract_terms
from ragkit.records import Hit

EVIDENCE_THRESHOLD = 0.45
"""Below this, the answer is an abstention."""
MAX_PASSAGES = 8
"""Number of passages that are scored."""

EMBEDDING_WEIGHTS: Mapping[str, float] = MappingProxyType(
    {"offset": -9.0, "nearness": 8.6, "words": 2.8, "statement_words": 4.2, "names": 1.6, "pairs": 2.7}
)
"""Weights of the features with a discriminative embedder.

`nearness`: cosine of question and passage, normalized by `ScoreCalibration`. `words`: weighted share of the question's
terms in the passage; `statement_words`: the highest such share in one of its answer units. `names`: weighted share of
the question's names and numbers in the passage, 1 if the question has none. `pairs`: the highest share of the
question's bigrams in one answer unit.
"""
LEXICAL_WEIGHTS: Mapping[str, float] = MappingProxyType(
    {"offset": -5.5, "nearness": 0.0, "words": 5.1, "statement_words": 3.1, "names": 2.2, "pairs": 4.6}
)
"""Weights of the features without one."""

ANSWER_WEIGHTS: Mapping[str, float] = MappingProxyType(
    {
        "offset": -0.16,
        "nearness": 3.63,
        "missing_near": -3.06,
        "missing": -1.84,
        "missing_noun": -0.53,
        "missing_name": -1.06,
        "missing_price": -2.85,
    }
)
"""Weights of the features of an answer.

`nearness`: the highest cosine of the question with one of the five best
units, normalized by `ScoreCalibration`. `missing_near`: share of the question's terms that are neither in the text
around the best unit nor in its headings, title and file name; `missing`: the share that is in no passage.
`missing_noun`: no passage has the noun after "which", "what" or "how many". `missing_name`: the document of the best
unit lacks a name of the question. `missing_price`: a price is asked for, and no passage has one.
"""
_BEST_UNITS = 5
_NEIGHBOURS = 2  # units before and after the best one
_ASKS_PRICE = re.compile(
    r"\b(?:costs?|prices?|salary|salaries|wages?|fees?|pay|paid|priced|cheap\w*|expensive|kostet|preis|gehalt|prix|salaire)\b",
    re.IGNORECASE,
)
_PRICE = re.compile(
    r"[$€£¥]|\b(?:usd|eur|gbp|euros?|dollars?|cents?|pounds|free of charge|for free|gratis|kostenlos)\b", re.IGNORECASE
)


def estimate_evidence(question: str, hits: Sequence[Hit], searcher: Searcher) -> float:
    """The probability, in [0, 1], that one of the best passages answers the question; 0 without passages."""
    best = hits[:MAX_PASSAGES]
    if not best:
        return 0.0
    terms = QuestionTerms(question, searcher)
    calibration = searcher.calibration() if any("dense" in hit.scores for hit in best) else None
    return 1 / (1 + math.exp(-max(_log_odds(terms, hit, calibration) for hit in best)))


def _log_odds(terms: QuestionTerms, hit: Hit, calibration: ScoreCalibration | None) -> float:
    cosine = hit.scores.get("dense")
    weights, nearness = LEXICAL_WEIGHTS, 0.0
    if cosine is not None and calibration is not None and calibration.is_discriminative:
        weights, nearness = EMBEDDING_WEIGHTS, calibration.normalize(cosine)
    passage_terms = frozenset(extract_terms(f"{hit.chunk.header} {hit.chunk.text}"))
    units = extract_answer_units([hit])
    features = {
        "offset": 1.0,
        "nearness": nearness,
        "words": terms.coverage(passage_terms),
        "statement_words": max(
            (terms.coverage(frozenset(extract_terms(f"{u.heading_context} {u.text}"))) for u in units), default=0
        ),
        "names": terms.name_coverage(passage_terms) if terms.name_terms else 1.0,
        "pairs": max((terms.bigram_coverage(extract_terms(unit.text)) for unit in units), default=0.0),
    }
    return sum(weights[name] * value for name, value in features.items())


def estimate_answer_evidence(
    question: str,
    hits: Sequence[Hit],
    ranked: Sequence[ScoredAnswerUnit],
    units: Sequence[AnswerUnit],
    searcher: Searcher,
) -> float:
    """The probability, in [0, 1], that the best units answer the question; 0 without units.

    Args:
        question: as it was searched.
        hits: the passages, best first.
        ranked: the candidate units, best first.
        units: all units of the passages, in order.
        searcher: knows the documents of the passages.
    """
    if not ranked:
        return 0.0
    calibration = searcher.calibration() if any("dense" in hit.scores for hit in hits) else None
    if calibration is None or not calibration.is_discriminative:
        return estimate_evidence(question, hits, searcher)
    features = answer_features(question, hits, ranked, units, searcher)
    return 1 / (1 + math.exp(-sum(ANSWER_WEIGHTS[name] * value for name, value in features.items())))


def answer_features(
    question: str,
    hits: Sequence[Hit],
    ranked: Sequence[ScoredAnswerUnit],
    units: Sequence[AnswerUnit],
    searcher: Searcher,
) -> dict[str, float]:
    """The features of `ANSWER_WEIGHTS`; at least one unit, and a discriminative embedder."""
    terms, calibration = QuestionTerms(question, searcher), searcher.calibration()
    best = ranked[0]
    hit = hits[best.hit_index]
    texts = [f"{other.chunk.header} {file_words(other.chunk.source)} {other.chunk.text}" for other in hits]
    near = [hit.chunk.header, file_words(hit.chunk.source), best.heading_context, *_texts_around(best, units)]
    missing = terms.missing(_terms_of(texts))
    return {
        "offset": 1.0,
        "nearness": calibration.normalize(max(unit.cosine for unit in ranked[:_BEST_UNITS])),
        "missing_near": len(terms.missing(_terms_of(near))) / max(1, len(terms.terms)),
        "missing": len(missing) / max(1, len(terms.terms)),
        "missing_noun": float(bool(terms.noun_terms) and terms.noun_terms <= missing),
        "missing_name": float(_lacks_name(terms, hit, searcher)),
        "missing_price": float(_ASKS_PRICE.search(question) is not None and not any(map(_PRICE.search, texts))),
    }


def _texts_around(best: AnswerUnit, units: Sequence[AnswerUnit]) -> list[str]:
    """The unit and its neighbours in the same passage."""
    same = [unit for unit in units if unit.hit_index == best.hit_index]
    at = next((i for i, unit in enumerate(same) if (unit.start, unit.end) == (best.start, best.end)), 0)
    return [unit.text for unit in same[max(0, at - _NEIGHBOURS) : at + _NEIGHBOURS + 1]]


def _terms_of(texts: Sequence[str]) -> frozenset[str]:
    return frozenset(extract_terms(" ".join(texts)))


def _lacks_name(terms: QuestionTerms, hit: Hit, searcher: Searcher) -> bool:
    """Whether a name or number of the question is neither in the document nor in its file name."""
    document = searcher.find_document(hit.chunk.document_id) if terms.name_terms else None
    text = f"{hit.chunk.source} {hit.chunk.header} {hit.chunk.text if document is None else document.text}".lower()
    return any(not _mentions(term, text) for term in terms.name_terms)


def _mentions(term: str, text: str) -> bool:
    """Whether a text in lower case has a name, or a number that is not a part of another one."""
    if not term.isdigit():
        return term in text
    return re.search(rf"(?<![\w.-]){term}(?![\w-]|\.\d)", text) is not None
