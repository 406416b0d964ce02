"""A second hop without a model: search with the names that the first passages add and the words that they lack.

`Who is the spouse of the director of Jaws?` shares no word with a passage on the director's family. The passage on Jaws
names him; its names and the word `spouse`, which it lacks, find the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePath

import numpy as np

from ragkit.embed.base import Row
from ragkit.lexical.analyzer import extract_terms
from ragkit.lexical.document_fields import period_terms
from ragkit.lexical.stopwords import STOP_WORDS
from ragkit.records import Chunk, Hit, Where
from ragkit.retrieve.base import ChunkIndex

FIRST_PASSAGES = 3
"""Passages of the first search whose names are followed."""
MAX_NAMES = 16
"""Names of a passage that are searched for."""
NAME_WEIGHT = 0.5
"""Weight of a name of a passage, relative to a word of the question that the passage lacks."""
FOUND_PASSAGES = 20
"""Passages that are found from each of the first ones."""
LEAST_UNCOVERED = 0.15
"""Share of the words of a question that the best of three passages lacks, from which a second hop is worth it."""

_WEIGHTS = np.array([2.8, 4.4, 1.6, 3.4])
_BIAS = -7.0
"""Logistic regression on every other question of two sets of questions of several hops, over: BM25 relative to the
best, the cosine with the question, the share of the header that the first passage adds, and that the question has."""

_WORD = re.compile(r"[^\W_][\w'-]*")
_CLAUSE = re.compile(r"\b(?:that|whose|where|whom|who|which)\b")
_GENITIVE = re.compile(r"\bof\b|['\u2019]s\b")


@dataclass(frozen=True)
class SecondHop:
    """What the second hop found."""

    keys: list[int]
    """Best first. A passage leads to others, not to itself."""
    chances: list[float]
    """Of each, in (0, 1]: its chance relative to the best one's."""


NO_SECOND_HOP = SecondHop([], [])


def asks_for_second_hop(question: str) -> bool:
    """Whether a question describes one thing by another, which has a name: `the mayor of the town where Ada ...`."""
    if not _name_terms(question.strip().partition(" ")[2]):
        return False
    rest = question.strip().lower().partition(" ")[2]
    return bool(_CLAUSE.search(rest) or _GENITIVE.search(rest))


def lacks_words(question: str, hits: Sequence[Hit]) -> bool:
    """Whether each of the first three passages lacks words of the question."""
    asked = _content_terms(question)
    if not asked or not hits:
        return False
    lacking = [sum(term not in terms for term in asked) for terms in map(_passage_terms, (h.chunk for h in hits[:3]))]
    return min(lacking) >= LEAST_UNCOVERED * len(asked)


def asks_about_document(question: str, hits: Sequence[Hit]) -> bool:
    """Whether the question names a period that the file name or title of one of the first three passages names too."""
    asked = set(period_terms(question))
    return any(asked & set(period_terms(f"{PurePath(hit.chunk.source).name} {hit.chunk.title}")) for hit in hits[:3])


def find_second_hop(question: str, query: Row, hits: Sequence[Hit], index: ChunkIndex, where: Where) -> SecondHop:
    """The passages to which the first `FIRST_PASSAGES` hits lead. `query` is the vector of the question."""
    asked = _content_terms(question)
    found = [_follow(asked, hit.chunk, index, where) for hit in hits[:FIRST_PASSAGES]]
    keys = sorted({key for ranking in found for key, _ in ranking})
    if not keys:
        return NO_SECOND_HOP
    chunks = dict(zip(keys, index.chunks(keys), strict=True))
    cosines = dict(zip(keys, index.cosines(query, keys).tolist(), strict=True))
    headers = {key: _content_terms(chunk.header) for key, chunk in chunks.items()}
    highest = max(score for ranking in found for _, score in ranking)
    chances: dict[int, float] = {}
    for hit, ranking in zip(hits, found, strict=False):
        own = _passage_terms(hit.chunk) - set(asked)
        for key, score in ranking:
            if chunks[key].id != hit.chunk.id:
                features = [score / highest, cosines[key], _share(headers[key], own), _share(headers[key], set(asked))]
                chances[key] = max(chances.get(key, 0.0), float(1 / (1 + np.exp(-(_WEIGHTS @ features + _BIAS)))))
    if not chances:
        return NO_SECOND_HOP
    best = sorted(chances, key=lambda key: (-chances[key], key))
    return SecondHop(best, [chances[key] / chances[best[0]] for key in best])


def _follow(asked: Sequence[str], chunk: Chunk, index: ChunkIndex, where: Where) -> list[tuple[int, float]]:
    """The passages found by the words that a passage lacks and the names that it adds."""
    terms = _passage_terms(chunk)
    lacking = [term for term in asked if term not in terms]
    names = [term for term in _name_terms(f"{chunk.header}\n{chunk.text}") if term not in asked][:MAX_NAMES]
    if not lacking and not names:
        return []
    return index.search_terms(lacking, FOUND_PASSAGES, where, dict.fromkeys(names, NAME_WEIGHT))


def _passage_terms(chunk: Chunk) -> set[str]:
    return set(extract_terms(f"{chunk.header}\n{chunk.text}"))


def _content_terms(text: str) -> list[str]:
    """The distinct terms of a text without stop words."""
    return _distinct_terms(word for word in _WORD.findall(text) if word.lower() not in STOP_WORDS)


def _name_terms(text: str) -> list[str]:
    """The distinct terms of the capitalized words of a text."""
    words = _WORD.findall(text)
    return _distinct_terms(word for word in words if word[0].isupper() and word.lower() not in STOP_WORDS)


def _distinct_terms(words: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(term for word in words for term in _word_terms(word)))


@lru_cache(maxsize=1 << 14)
def _word_terms(word: str) -> tuple[str, ...]:
    return tuple(extract_terms(word))


def _share(terms: Sequence[str], known: set[str]) -> float:
    return sum(term in known for term in terms) / max(1, len(terms))
