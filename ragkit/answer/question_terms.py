"""The words of a question, each with its weight, and how many of them a text holds."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from itertools import pairwise

import numpy as np

from ragkit.answer.base import Searcher
from ragkit.lexical.analyzer import extract_terms

_PREFIX_LENGTH = 5
"""Letters: words that begin alike for this long are taken for relatives (settle, settlement)."""

_TOKEN = re.compile(r"[\w'-]+")
_AUXILIARY = (
    r"\b(?:is|are|was|were|do|does|did|has|have|had|can|could|would|will|may|might|must|should)\b|\b[a-z]+(?:ed|s)\b"
)
_ASKED_NOUN = re.compile(
    rf"\b(?:what|which|whose|how many|how much)\s+((?:(?!{_AUXILIARY})[\w'-]+\s+){{1,4}}?)(?={_AUXILIARY})",
    re.IGNORECASE,
)


class QuestionTerms:
    """The terms of a question. Their weights are those of the searcher (the rarer, the higher) and sum up to 1."""

    def __init__(self, question: str, searcher: Searcher) -> None:
        """Asks the searcher once for the weights of all terms."""
        asked = extract_terms(question)
        self.terms: frozenset[str] = frozenset(asked)
        """Every term of the question; empty for a question without words."""
        self.name_terms = self.terms & _capitalized_terms(question)
        """Terms of names and numbers: those with a capital letter or a digit, the first word left out."""
        self.noun_terms = self.terms & frozenset(extract_terms(_find_asked_noun(question)))
        """Terms of the noun behind "which", "what" or "how many": they name the kind of the answer."""
        self.bigrams = frozenset(pairwise(asked))
        """Terms that stand side by side in the question."""
        self._weights = _normalized_weights(sorted(self.terms), searcher)
        self._prefixes = {
            term: term[:_PREFIX_LENGTH] for term in self.terms if term.isalpha() and len(term) >= _PREFIX_LENGTH - 1
        }

    def coverage(self, there: Set[str]) -> float:
        """The weight of the terms that are there, in [0, 1]."""
        return sum(weight for term, weight in self._weights.items() if term in there)

    def prefix_coverage(self, there: Set[str]) -> float:
        """The weight of the terms that are not there while a word with the same beginning is, in [0, 1]."""
        beginnings = {term[:_PREFIX_LENGTH] for term in there}
        beginnings |= {term[: _PREFIX_LENGTH - 1] for term in there if len(term) == _PREFIX_LENGTH}
        return sum(self._weights[t] for t, start in self._prefixes.items() if t not in there and start in beginnings)

    def name_coverage(self, there: Set[str]) -> float:
        """The share of the weight of the question's names and numbers that is there, in [0, 1]; 0 without names."""
        whole = self.coverage(self.name_terms)
        return self.coverage(self.name_terms & there) / whole if whole else 0.0

    def noun_coverage(self, there: Set[str]) -> float:
        """The share of the terms of the noun asked for that are there, in [0, 1]; 0 without such a noun."""
        return len(self.noun_terms & there) / len(self.noun_terms) if self.noun_terms else 0.0

    def bigram_coverage(self, text: Sequence[str]) -> float:
        """The share of the question's pairs that stand side by side in the terms of a text, in [0, 1]."""
        return len(self.bigrams.intersection(pairwise(text))) / max(1, len(self.bigrams))


def _normalized_weights(wanted: Sequence[str], searcher: Searcher) -> dict[str, float]:
    if not wanted:
        return {}
    weights = np.asarray(searcher.term_weights(wanted), np.float64)
    return dict(zip(wanted, (weights / (weights.sum() or 1.0)).tolist(), strict=True))


def _capitalized_terms(question: str) -> frozenset[str]:
    tokens = _TOKEN.findall(question)[1:]
    return frozenset(
        term for token in tokens if token[0].isupper() or token[0].isdigit() for term in extract_terms(token)
    )


def _find_asked_noun(question: str) -> str:
    found = _ASKED_NOUN.search(question)
    return found[1] if found else ""
