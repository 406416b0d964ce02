"""Estimates the probability that the documents answer a question, from the retrieved passages.

A logistic regression over features of a passage; the passage with the
highest probability decides. A second model uses lexical features only: for embedders that do not separate answers from
other texts, and for hits without cosines. Both were fitted on questions of SQuAD 2.0, with questions about articles
outside the index as negatives; `benchmarks/answers.py` measures them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from ragkit.answer.base import Searcher
from ragkit.answer.extractive.question_terms import QuestionTerms
from ragkit.answer.extractive.units import extract_answer_units
from ragkit.answer.score_calibration import ScoreCalibration
from ragkit.lexical.analyzer import extract_terms
from ragkit.records import Hit

EVIDENCE_THRESHOLD = 0.45
"""Below this, passages are said to hold no answer."""
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
