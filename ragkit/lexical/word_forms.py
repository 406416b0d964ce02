"""The words of a question in another language than English: what they ask, their forms and the parts of compounds.

The index stems Latin words as English. Of a question whose language is detected, words that only ask are left out, and
a word counts wherever the index has a form of it: `volljährig` finds `Volljährigkeit`. German verbs also change at
their beginning (`wählt`, `gewählt`). German and Dutch nouns are compounds: `Urlaubstage` finds `Urlaub`, and
`verjähren` `Verjährungsfrist`, with less weight.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from threading import Lock
from typing import TypeAlias

import Stemmer  # type: ignore[import-not-found]  # PyStemmer has no types

from ragkit.lexical.analyzer import extract_terms, fold_word
from ragkit.lexical.base import NO_EXTRA_TERMS, ExtraTerms, OneOf
from ragkit.lexical.languages import asking_words, detect_question_language

PART_WEIGHT = 0.25
"""Weight of a part of a compound of the question, and of the compounds that begin with one of its words."""
MIN_LETTERS = 5
"""Shorter words and stems have too many relatives that are other words."""
MIN_PART_LETTERS = 4
"""Of a part of a compound."""
MAX_PARTS = 4
MAX_WORDS = 32
"""Words of a question whose forms and parts are looked up: the first ones."""
MAX_FORMS = 20
"""Forms of a word, and compounds that begin with it: the most frequent ones."""
_COMPOUNDING = frozenset({"German", "Dutch"})
"""Languages that write compounds as one word."""
_LINKS = ("", "s", "es", "n", "en", "e")
"""Letters between the parts."""
_PARTICIPLE = re.compile(r"\Age(?=\w{4})")
_VERB_ENDING = re.compile(r"(?<=\w{3})(?:test|tet|ten|te|st|t|en|e|n)\Z")
_MARKS = ".,;:!?¿¡\"'()[]«»„“”‘’"
_STEMMER_LOCK = Lock()  # a stemmer object is not thread-safe

FindTerms: TypeAlias = Callable[[Sequence[str]], Mapping[str, int]]
"""Prefixes -> the terms of the index that begin with one of them, with the number of their chunks."""
Relatives: TypeAlias = dict[str, list[str]]
"""Term of a question -> terms of the index."""


def question_terms(question: str, find_terms: FindTerms) -> tuple[list[str], ExtraTerms]:
    """The terms of a question, each with its forms as alternatives; and parts and compounds, with their weight."""
    terms, language = content_terms(question), detect_question_language(question)
    if not language:
        return terms, NO_EXTRA_TERMS
    forms, longer = find_forms(question, find_terms)
    joined = [OneOf((term, *forms[term])) if term in forms else term for term in terms]
    if language not in _COMPOUNDING:
        return joined, NO_EXTRA_TERMS
    extra = [*find_parts(question, find_terms), *map(OneOf, longer.values())]
    return joined, dict.fromkeys(extra, PART_WEIGHT)


def content_terms(question: str) -> list[str]:
    """The terms of a question without those that only ask; all of them if there are no others."""
    terms, language = extract_terms(question), detect_question_language(question)
    if not language:
        return terms
    asking = asking_words(language)
    words = (word for word in question.split() if word.strip(_MARKS).lower() not in asking)
    return extract_terms(" ".join(words)) or terms


def find_forms(question: str, find_terms: FindTerms) -> tuple[Relatives, Relatives]:
    """The forms of the words of a question, and the compounds that begin with them; none if its language is unknown."""
    forms: Relatives = {}
    longer: Relatives = {}
    language = detect_question_language(question)
    stemmer = _stemmer(language) if language else None
    terms = dict.fromkeys(content_terms(question))
    words = [term for term in terms if len(term) >= MIN_LETTERS and term.isalpha()][:MAX_WORDS]
    if stemmer is None or not words:
        return forms, longer
    verbs = _lower_case_terms(question) if language == "German" else frozenset[str]()
    stems = dict(zip(words, _stem(stemmer, words), strict=True))
    roots = {word: {stems[word], *(_verb_roots(word) if word in verbs else ())} for word in words}
    prefixes = {root for own in roots.values() for root in own if len(root) >= MIN_LETTERS - 1}
    prefixes |= {f"ge{root}" for word in verbs.intersection(words) for root in roots[word]}
    found = dict(find_terms(sorted(prefixes)))
    frequent_first = sorted(zip(found, _stem(stemmer, list(found)), strict=True), key=lambda pair: -found[pair[0]])
    for term, stem in frequent_first:
        for word, own in roots.items():
            is_form = stem in own or (word in verbs and not own.isdisjoint(_verb_roots(term)))
            relatives = (forms if is_form else longer).setdefault(word, [])
            if term not in words and len(relatives) < MAX_FORMS and (is_form or _begins_compound(own, term)):
                relatives.append(term)
    return _without_empty(forms), _without_empty(longer)


def _without_empty(relatives: Relatives) -> Relatives:
    return {word: terms for word, terms in relatives.items() if terms}


def _begins_compound(roots: Iterable[str], term: str) -> bool:
    """Whether a term is a longer word that begins with one of the stems."""
    return any(
        len(root) > MIN_LETTERS and len(term) >= len(root) + MIN_PART_LETTERS and term.startswith(root)
        for root in roots
    )


def _verb_roots(word: str) -> frozenset[str]:
    """What is left of a German verb without its ending; of a participle also without `ge`."""
    root = _VERB_ENDING.sub("", word, count=1)
    return frozenset((root, _PARTICIPLE.sub("", root))) if len(root) >= MIN_LETTERS - 1 else frozenset()


def _lower_case_terms(question: str) -> frozenset[str]:
    """The terms of the words that are written in lower case: in German, no nouns."""
    words = re.findall(r"\b[^\W\d_]+", question)
    return frozenset(extract_terms(" ".join(word for word in words if word[0].islower())))


def find_parts(question: str, find_terms: FindTerms) -> list[str]:
    """The terms of the parts of the compounds in a question, of which each is a word of the index too."""
    words = list(dict.fromkeys(map(fold_word, re.findall(r"[^\W\d_]{8,40}", question))))[:MAX_WORDS]
    starts = {word[start:][:MIN_PART_LETTERS] for word in words for start in range(len(word) - MIN_PART_LETTERS + 1)}
    known = find_terms(sorted(starts)) if starts else {}
    return [part for word in words for part in _split(word, known)]


def _split(word: str, known: Container[str]) -> list[str]:
    """The terms of the parts of a compound, by the split with the fewest parts; empty if there is none."""
    splits: dict[int, list[str]] = {0: []}  # end -> the parts before it
    for end in range(MIN_PART_LETTERS, len(word) + 1):
        for start, parts in list(splits.items()):
            if end - start < MIN_PART_LETTERS or end - start == len(word) or len(parts) == MAX_PARTS:
                continue
            term = next((term for term in _part_terms(word[start:end], is_last=end == len(word)) if term in known), "")
            if term and (end not in splits or len(splits[end]) > len(parts) + 1):
                splits[end] = [*parts, term]
    return splits.get(len(word), [])


@lru_cache(maxsize=4096)
def _part_terms(part: str, *, is_last: bool) -> tuple[str, ...]:
    """The terms that a part of a compound may stand for: without the letters that link it to the next one."""
    words = [part] if is_last else [part.removesuffix(link) for link in _LINKS if part.endswith(link)]
    return tuple(term for word in words if len(word) >= MIN_PART_LETTERS for term in extract_terms(word)[:1])


def _stem(stemmer: Stemmer.Stemmer, words: Sequence[str]) -> list[str]:
    with _STEMMER_LOCK:
        return list(map(str, stemmer.stemWords(list(words))))


@cache
def _stemmer(language: str) -> Stemmer.Stemmer | None:
    """Snowball's stemmer of a language, if there is one."""
    name = language.lower()
    return Stemmer.Stemmer(name, 0) if name in Stemmer.algorithms() else None
