"""The words of a question, each with its weight, and how many of them a text holds."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from itertools import pairwise

import numpy as np

from ragkit.answer.base import Searcher
from ragkit.retrieve.terms import terms

_SAME_BEGINNING = 5
"""Letters: words that begin alike for this long are taken for relatives (settle, settlement)."""

_TOKEN = re.compile(r"[\w'-]+")
_AUXILIARY = (
    r"\b(?:is|are|was|were|do|does|did|has|have|had|can|could|would|will|may|might|must|should)\b|\b[a-z]+(?:ed|s)\b"
)
_ASKED_NOUN = re.compile(
    rf"\b(?:what|which|whose|how many|how much)\s+((?:(?!{_AUXILIARY})[\w'-]+\s+){{1,4}}?)(?={_AUXILIARY})",
    re.IGNORECASE,
)


class AskedWords:
    """The terms of a question. Their weights are those of the searcher (the rarer, the higher) and sum up to 1."""

    def __init__(self, question: str, searcher: Searcher) -> None:
        """Asks the searcher once for the weights of all terms."""
        asked = terms(question)
        self.terms: frozenset[str] = frozenset(asked)
        """Every term of the question; empty for a question without words."""
        self.names = self.terms & _capitalised(question)
        """Terms of names and numbers: those with a capital letter or a digit, the first word left out."""
        self.noun = self.terms & frozenset(terms(_asked_noun(question)))
        """Terms of the noun behind "which", "what" or "how many": they name the kind of the answer."""
        self.pairs = frozenset(pairwise(asked))
        """Terms that stand side by side in the question."""
        self._weights = _shares(sorted(self.terms), searcher)
        self._beginnings = {
            term: term[:_SAME_BEGINNING] for term in self.terms if term.isalpha() and len(term) >= _SAME_BEGINNING - 1
        }

    def share(self, there: Set[str]) -> float:
        """The weight of the terms that are there, in [0, 1]."""
        return sum(weight for term, weight in self._weights.items() if term in there)

    def share_alike(self, there: Set[str]) -> float:
        """The weight of the terms that are not there while a word with the same beginning is, in [0, 1]."""
        beginnings = {term[:_SAME_BEGINNING] for term in there}
        beginnings |= {term[: _SAME_BEGINNING - 1] for term in there if len(term) == _SAME_BEGINNING}
        return sum(self._weights[t] for t, start in self._beginnings.items() if t not in there and start in beginnings)

    def share_of_names(self, there: Set[str]) -> float:
        """The share of the weight of the question's names and numbers that is there, in [0, 1]; 0 without names."""
        whole = self.share(self.names)
        return self.share(self.names & there) / whole if whole else 0.0

    def share_of_noun(self, there: Set[str]) -> float:
        """The share of the terms of the noun asked for that are there, in [0, 1]; 0 without such a noun."""
        return len(self.noun & there) / len(self.noun) if self.noun else 0.0

    def share_of_pairs(self, text: Sequence[str]) -> float:
        """The share of the question's pairs that stand side by side in the terms of a text, in [0, 1]."""
        return len(self.pairs.intersection(pairwise(text))) / max(1, len(self.pairs))


def _shares(wanted: Sequence[str], searcher: Searcher) -> dict[str, float]:
    if not wanted:
        return {}
    weights = np.asarray(searcher.term_weights(wanted), np.float64)
    return dict(zip(wanted, (weights / (weights.sum() or 1.0)).tolist(), strict=True))


def _capitalised(question: str) -> frozenset[str]:
    tokens = _TOKEN.findall(question)[1:]
    return frozenset(term for token in tokens if token[0].isupper() or token[0].isdigit() for term in terms(token))


def _asked_noun(question: str) -> str:
    found = _ASKED_NOUN.search(question)
    return found[1] if found else ""
