"""The weighted terms of a question, and the share of them that a text covers."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from itertools import pairwise

import numpy as np

from ragkit.answer.base import Searcher
from ragkit.lexical.analyzer import extract_terms
from ragkit.lexical.word_forms import content_terms, find_forms

_PREFIX_LENGTH = 5
"""Words with a common prefix of this many letters are assumed to be related (settle, settlement)."""

_TOKEN = re.compile(r"[\w'-]+(?:\.\d+)*")
_AUXILIARY = (
    r"\b(?:is|are|was|were|do|does|did|has|have|had|can|could|would|will|may|might|must|should)\b|\b[a-z]+(?:ed|s)\b"
)
_ASKED_NOUN = re.compile(
    rf"\b(?:what|which|whose|how many|how much)\s+((?:(?!{_AUXILIARY})[\w'-]+\s+){{1,4}}?)(?={_AUXILIARY})",
    re.IGNORECASE,
)


class QuestionTerms:
    """The terms of a question, weighted by the searcher's inverse document frequencies; the weights sum to 1."""

    def __init__(self, question: str, searcher: Searcher) -> None:
        """Calls `searcher.term_weights` once; `find_terms` too for a question in another language than English."""
        terms = content_terms(question)
        self.terms: frozenset[str] = frozenset(terms)
        """Every term of the question; empty for a question without words."""
        self.name_terms = self.terms & capitalized_terms(question)
        """Terms of names and numbers: a capital letter or a digit, except for the first word."""
        self.noun_terms = self.terms & frozenset(extract_terms(_find_asked_noun(question)))
        """Terms of the noun after "which", "what" or "how many": they name the kind of answer."""
        self.bigrams = frozenset(pairwise(terms))
        """Adjacent term pairs of the question."""
        self._weights = _normalized_weights(sorted(self.terms), searcher)
        forms, _ = find_forms(question, searcher.find_terms)
        self._forms = {form: term for term, own in forms.items() for form in own}
        self._prefixes = {
            term: term[:_PREFIX_LENGTH] for term in self.terms if term.isalpha() and len(term) >= _PREFIX_LENGTH - 1
        }

    def coverage(self, present: Set[str]) -> float:
        """The total weight of the question's terms that are in `present`, in [0, 1]."""
        known = self._with_forms(present)
        return sum(weight for term, weight in self._weights.items() if term in known)

    def prefix_coverage(self, present: Set[str]) -> float:
        """The total weight of the terms that are absent while a term with the same prefix is present, in [0, 1]."""
        present = self._with_forms(present)
        prefixes = {term[:_PREFIX_LENGTH] for term in present}
        prefixes |= {term[: _PREFIX_LENGTH - 1] for term in present if len(term) == _PREFIX_LENGTH}
        return sum(self._weights[t] for t, prefix in self._prefixes.items() if t not in present and prefix in prefixes)

    def missing(self, present: Set[str]) -> frozenset[str]:
        """The terms that are absent while no term with the same prefix is present."""
        present = self._with_forms(present)
        prefixes = {term[:_PREFIX_LENGTH] for term in present}
        prefixes |= {term[: _PREFIX_LENGTH - 1] for term in present if len(term) == _PREFIX_LENGTH}
        absent = self.terms - present
        return frozenset(term for term in absent if self._prefixes.get(term) not in prefixes)

    def _with_forms(self, present: Set[str]) -> Set[str]:
        """The terms, and those of the question that they are forms of."""
        return present | {self._forms[form] for form in self._forms.keys() & present} if self._forms else present

    def name_coverage(self, present: Set[str]) -> float:
        """The weighted share of the question's names and numbers that are in `present`, in [0, 1]; 0 without names."""
        total = self.coverage(self.name_terms)
        return self.coverage(self.name_terms & present) / total if total else 0.0

    def noun_coverage(self, present: Set[str]) -> float:
        """The share of the terms of the asked noun that are in `present`, in [0, 1]; 0 without such a noun."""
        return len(self.noun_terms & present) / len(self.noun_terms) if self.noun_terms else 0.0

    def bigram_coverage(self, terms: Sequence[str]) -> float:
        """The share of the question's bigrams that occur in the terms of a text, in [0, 1]."""
        return len(self.bigrams.intersection(pairwise(terms))) / max(1, len(self.bigrams))


def _normalized_weights(terms: Sequence[str], searcher: Searcher) -> dict[str, float]:
    if not terms:
        return {}
    weights = np.asarray(searcher.term_weights(terms), np.float64)
    return dict(zip(terms, (weights / (weights.sum() or 1.0)).tolist(), strict=True))


def capitalized_terms(question: str) -> frozenset[str]:
    """The terms of the names and numbers of a question: a capital letter or a digit, except for the first word."""
    names = (token for token in _TOKEN.findall(question)[1:] if token[0].isupper() or token[0].isdigit())
    return frozenset(term for name in names for term in extract_terms(name))


def _find_asked_noun(question: str) -> str:
    match = _ASKED_NOUN.search(question)
    return match[1] if match else ""
