"""Forms of the words of a question in another language than English.

The index stems Latin words as English. Of a question whose language is detected, the terms of the index that have the
same stem in that language are searched for too: `volljährig` finds `Volljährigkeit`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from threading import Lock

import Stemmer  # type: ignore[import-not-found]  # PyStemmer has no types

from ragkit.lexical.analyzer import extract_terms
from ragkit.lexical.base import NO_EXTRA_TERMS, ExtraTerms
from ragkit.lexical.languages import detect_question_language

FORM_WEIGHT = 0.6
"""Weight of a form, relative to the word of the question."""
MIN_LETTERS = 5
"""Shorter words and stems have too many relatives that are other words."""
MAX_FORMS = 20
"""Forms of a word: the most frequent ones."""
_STEMMER_LOCK = Lock()  # a stemmer object is not thread-safe


def question_terms(
    question: str, find_terms: Callable[[Sequence[str]], Mapping[str, int]]
) -> tuple[list[str], ExtraTerms]:
    """The terms of a question, and forms of them that the index has, with their weights.

    `find_terms`: prefixes -> the terms of the index that begin with one of them, with the number of their chunks.
    """
    terms, language = extract_terms(question), detect_question_language(question)
    stemmer = _stemmer(language) if language else None
    return terms, NO_EXTRA_TERMS if stemmer is None else _find_forms(terms, stemmer, find_terms)


def _find_forms(
    terms: Sequence[str], stemmer: Stemmer.Stemmer, find_terms: Callable[[Sequence[str]], Mapping[str, int]]
) -> ExtraTerms:
    words = [term for term in dict.fromkeys(terms) if len(term) >= MIN_LETTERS and term.isalpha()]
    stems = _stem(stemmer, words)
    prefixes = list(dict.fromkeys(stem for stem in stems if len(stem) >= MIN_LETTERS - 1))
    found = dict(find_terms(prefixes)) if prefixes else {}
    forms: dict[str, list[str]] = {}
    for term, stem in zip(found, _stem(stemmer, list(found)), strict=True):
        forms.setdefault(stem, []).append(term)
    best = (
        term for stem in prefixes for term in sorted(forms.get(stem, ()), key=lambda term: -found[term])[:MAX_FORMS]
    )
    return {term: FORM_WEIGHT for term in best if term not in terms}


def _stem(stemmer: Stemmer.Stemmer, words: Sequence[str]) -> list[str]:
    with _STEMMER_LOCK:
        return list(map(str, stemmer.stemWords(list(words))))


@cache
def _stemmer(language: str) -> Stemmer.Stemmer | None:
    """Snowball's stemmer of a language, if there is one."""
    name = language.lower()
    return Stemmer.Stemmer(name, 0) if name in Stemmer.algorithms() else None
