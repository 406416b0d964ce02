"""How likely it is that the passages found hold an answer to the question.

A logistic regression over what is known of a passage; the likeliest passage decides. Where the embedder tells
nothing, or the hits come without cosines, a second one looks at the words alone. Both were fitted on questions of
SQuAD 2.0, against questions about articles that were not indexed; `benchmarks/answers.py` tells what they reach.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from ragkit.answer.answer_units import extract_answer_units
from ragkit.answer.base import Searcher
from ragkit.answer.question_terms import QuestionTerms
from ragkit.answer.score_calibration import ScoreCalibration, get_calibration
from ragkit.lexical.analyzer import extract_terms
from ragkit.records import Hit

EVIDENCE_THRESHOLD = 0.45
"""Below this the answer is that the documents do not say."""
MAX_PASSAGES = 8
"""Passages that are looked at."""

EMBEDDING_WEIGHTS: Mapping[str, float] = MappingProxyType(
    {"offset": -9.0, "nearness": 8.6, "words": 2.8, "statement_words": 4.2, "names": 1.6, "pairs": 2.7}
)
"""What counts where the embedder knows meanings.

`nearness`: cosine of question and passage on the scale of `Ruler`. `words`: the share of the question's words that the
passage holds, by weight; `statement_words`: that one of its statements holds. `names`: the share of the question's
names and numbers that the passage holds, 1 where the question has none. `pairs`: the share of the question's pairs of
neighbouring words that stand side by side in one of its statements.
"""
LEXICAL_WEIGHTS: Mapping[str, float] = MappingProxyType(
    {"offset": -5.5, "nearness": 0.0, "words": 5.1, "statement_words": 3.1, "names": 2.2, "pairs": 4.6}
)
"""The same where it does not."""


def estimate_evidence(question: str, hits: Sequence[Hit], searcher: Searcher) -> float:
    """The probability, in [0, 1], that one of the best passages answers the question; 0 without passages."""
    best = hits[:MAX_PASSAGES]
    if not best:
        return 0.0
    asked = QuestionTerms(question, searcher)
    ruler = get_calibration(searcher) if any("dense" in hit.scores for hit in best) else None
    return 1 / (1 + math.exp(-max(_log_odds(asked, hit, ruler) for hit in best)))


def _log_odds(asked: QuestionTerms, hit: Hit, ruler: ScoreCalibration | None) -> float:
    cosine = hit.scores.get("dense")
    meant = ruler is not None and ruler.is_discriminative and cosine is not None
    weights = EMBEDDING_WEIGHTS if meant else LEXICAL_WEIGHTS
    nearness = ruler.normalize(cosine) if meant and ruler is not None and cosine is not None else 0.0
    there = frozenset(extract_terms(f"{hit.chunk.header} {hit.chunk.text}"))
    found = extract_answer_units([hit])
    known = {
        "offset": 1.0,
        "nearness": nearness,
        "words": asked.coverage(there),
        "statement_words": max(
            (asked.coverage(frozenset(extract_terms(f"{one.heading_context} {one.text}"))) for one in found), default=0
        ),
        "names": asked.name_coverage(there) if asked.name_terms else 1.0,
        "pairs": max((asked.bigram_coverage(extract_terms(one.text)) for one in found), default=0.0),
    }
    return sum(weights[name] * value for name, value in known.items())
