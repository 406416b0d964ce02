"""Corrects misspelled words of a question by the terms of the index.

A word is corrected only if no document contains it, no dictionary of common words knows it, and one term of the
documents is by far the nearest. Every other word is left unchanged, and so are identifiers, numbers, quoted words,
names in capitals and short words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragkit.embed.minilm import common_words
from ragkit.lexical.analyzer import extract_terms

if TYPE_CHECKING:  # a search needs no answers
    from ragkit.answer.base import Searcher

MIN_LETTERS = 5
"""Shorter words are never corrected: too many words are near to them."""
TWO_EDITS_LETTERS = 8
"""Words of this many letters may differ in two edits, shorter ones in one."""
MIN_CHUNKS = 2
"""Chunks that contain the term meant, at least."""
DOMINANCE = 3
"""The term meant is in this many times more chunks than any other term as near."""
_WORD = re.compile(r"(?:(?<=^)|(?<=[\s(¿¡]))[^\W\d_]+(?=(?:['’]s)?[?!.,;:)]*(?:\s|$))")
_ENDINGS = ("e", "s", "es", "ed", "d", "ing", "er", "ers")
_MORE_ENDINGS = ("est", "ly", "al", "ally", "ness", "able", "ment")
_FOREIGN_WORD = re.compile(
    r"\b(?:der|das|und|ist|sind|wie|wer|wann|warum|welche[rs]?|dem|den|eine[nr]?|sich|von|für|wor[ai]n|la|les|est|qu[ei]"
    r"|quel(?:le)?s?|où|pourquoi|une|dans|du|el|l[ao]s|del|por|qué|cuál|cómo|cuándo|dónde|quién|una)\b",
    re.IGNORECASE,
)
"""A word of a question in another language than English: the dictionary does not know its words."""
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_MAX_SUFFIX = 7  # letters that stemming removes, at most


@dataclass(frozen=True)
class _Candidate:
    """A word that may be meant."""

    edits: int
    chunks: int
    """Chunks that contain its term."""
    word: str
    term: str


def correct_spelling(question: str, searcher: Searcher) -> str:
    """The question with its misspelled words corrected; unchanged if there are none."""
    if _FOREIGN_WORD.search(question):
        return question
    words = {word: word.lower() for word in _WORD.findall(question) if _may_be_misspelled(word)}
    missing = set(searcher.missing_terms([term for word in words.values() for term in extract_terms(word)]))
    corrected = {
        word: meant
        for word, plain in words.items()
        if missing.issuperset(extract_terms(plain))
        and not _is_common(plain)
        and (meant := _find_meant(plain, searcher))
    }
    if not corrected:
        return question
    return _WORD.sub(lambda match: _match_case(corrected.get(match[0], match[0]), match[0]), question)


def _may_be_misspelled(word: str) -> bool:
    """Whether a word has enough letters, all of them Latin, and capitals only at its beginning."""
    return len(word) >= MIN_LETTERS and word.isascii() and (word[1:].islower())


def _is_common(word: str) -> bool:
    """Whether a word, or the word without its ending, is one of a language rather than of the documents."""
    known = common_words()
    stems = [word.removesuffix(ending) for ending in (*_ENDINGS, *_MORE_ENDINGS) if word.endswith(ending)]
    doubled = [stem[:-1] for stem in stems if len(stem) > 3 and stem[-1] == stem[-2]]  # running, stopped
    vowels = [f"{stem}e" for stem in stems] + [f"{stem[:-1]}y" for stem in stems if stem.endswith("i")]
    return any(form in known for form in (word, *stems, *doubled, *vowels))


def _find_meant(word: str, searcher: Searcher) -> str:
    """The word that was meant; '' if none or more than one may be."""
    common = {form: extract_terms(form)[0] for form in _edit(word) if form in common_words()}
    prefixes = {word[:2], word[1] + word[0], word[0] + word[2], *common.values()}
    terms = searcher.find_terms(sorted(prefixes))
    candidates = [_Candidate(1, terms.get(term, 0), form, term) for form, term in common.items()]
    limit = 2 if len(word) >= TWO_EDITS_LETTERS else 1
    for term, chunks in terms.items():
        if chunks >= MIN_CHUNKS and (candidate := _read_candidate(word, term, chunks, limit)):
            candidates.append(candidate)
    if not candidates:
        return ""
    best = min(candidates, key=lambda item: (item.edits, -item.chunks))
    rivals = [item.chunks for item in candidates if item.edits == best.edits and item.term != best.term]
    # a common word as near that is in no document may be the one that was meant
    clear = 0 not in rivals and best.chunks >= max(MIN_CHUNKS, DOMINANCE * max(rivals, default=0))
    return best.word if clear else ""


def _read_candidate(word: str, term: str, chunks: int, limit: int) -> _Candidate | None:
    """The form of a term that is at most `limit` edits from the word; None if there is none."""
    limit = min(limit, len(term) // 4)  # two edits of a short stem leave little of it
    if not (-limit <= len(word) - len(term) <= _MAX_SUFFIX and term.isalpha() and len(set(term) - set(word)) <= limit):
        return None
    known, bases = common_words(), sorted(_complete_term(term, word, limit))
    for edits, _, form, ending in bases:
        if edits and (not ending or ending in _ENDINGS or form in known) and extract_terms(form) == [term]:
            return _Candidate(edits, chunks, form, term)
    for edits, _, base, _ in bases[:1]:
        for form in _edit(base, len(term) - 1) if edits < limit else ():
            if (form == term or form in known) and extract_terms(form) == [term]:
                return _Candidate(edits + 1, chunks, form, term)
    return None


def _complete_term(term: str, word: str, limit: int) -> Iterator[tuple[int, int, str, str]]:
    """The term with each ending of the word, where the beginning of the word is at most `limit` edits from the term.

    Yields (edits, difference of length, the term and its ending, the ending). An edit inserts, deletes or replaces a
    letter, or swaps two neighbours.
    """
    before: list[int] = []
    row = list(range(len(word) + 1))
    for i, letter in enumerate(term, start=1):
        following = [i]
        for j, other in enumerate(word, start=1):
            cost = min(row[j] + 1, following[j - 1] + 1, row[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == word[j - 2] and term[i - 2] == other:
                cost = min(cost, before[j - 2] + 1)
            following.append(cost)
        before, row = row, following
        if min(row) > limit:
            return
    for length, edits in enumerate(row):
        if edits <= limit:
            yield edits, abs(length - len(term)), term + word[length:], word[length:]


def _edit(word: str, start: int = 0) -> Iterator[str]:
    """The words at one edit from a word, behind its first `start` letters; swapped letters first."""
    places = range(start, len(word) + 1)
    yield from (word[:i] + word[i + 1] + word[i] + word[i + 2 :] for i in places if i + 1 < len(word))
    yield from (word[:i] + word[i + 1 :] for i in places if i < len(word))
    yield from (word[:i] + letter + word[i:] for i in places for letter in _LETTERS)
    yield from (word[:i] + letter + word[i + 1 :] for i in places if i < len(word) for letter in _LETTERS)


def _match_case(word: str, model: str) -> str:
    return word[0].upper() + word[1:] if model[0].isupper() else word
