"""Remove near-duplicate hits: copies and versions of a file, and overlapping chunks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from ragkit.records import Where
from ragkit.retrieve.base import Explanation, Retriever
from ragkit.retrieve.explanations import fill_top_k
from ragkit.retrieve.options import DistinctOptions, validate_top_k

SHINGLE_WORDS = 3
"""Words per shingle. A shorter text is one shingle."""

_WORD = re.compile(r"\w+")


class DeduplicatingRetriever(Retriever):
    """Drops each hit that is a near-duplicate of a higher one; lower hits fill the list."""

    def __init__(self, inner: Retriever, options: DistinctOptions, top_k: int) -> None:
        """`top_k` is the default number of hits."""
        self._inner, self._max_similarity, self._top_k = inner, options.likeness, top_k

    def explain(self, question: str, top_k: int | None = None, where: Where = None) -> list[Explanation]:
        """The best hits without near-duplicates, with ranks and score contributions."""
        top_k = validate_top_k(self._top_k if top_k is None else top_k)
        return fill_top_k(lambda depth: self._inner.explain(question, depth, where), self._deduplicate, top_k)

    def _deduplicate(self, explanations: list[Explanation]) -> list[Explanation]:
        kept = deduplicate([explanation.hit.chunk.text for explanation in explanations], self._max_similarity)
        return [explanations[i] for i in kept]


def deduplicate(texts: Sequence[str], max_similarity: float) -> list[int]:
    """Indexes of the texts that are no near-duplicate of a text kept before, ascending.

    Two texts are near-duplicates if they share at least `max_similarity` of the shingles of the text with fewer
    shingles (containment). Source: Broder, On the resemblance and containment of documents, SEQUENCES 1997.
    """
    kept: list[int] = []
    texts_by_shingle: dict[str, list[int]] = {}
    sizes: dict[int, int] = {}
    for index, text in enumerate(texts):
        own = shingles(text)
        shared = Counter(other for shingle in own for other in texts_by_shingle.get(shingle, ()))
        if any(count >= max_similarity * min(len(own), sizes[other]) for other, count in shared.items()):
            continue
        kept.append(index)
        sizes[index] = len(own)
        for shingle in own:
            texts_by_shingle.setdefault(shingle, []).append(index)
    return kept


def shingles(text: str) -> frozenset[str]:
    """Word n-grams of a text, in lower case; a text without words is its own only shingle."""
    words = _WORD.findall(text.lower())
    if len(words) < SHINGLE_WORDS:
        return frozenset([" ".join(words) or text])
    return frozenset(" ".join(words[start : start + SHINGLE_WORDS]) for start in range(len(words) - SHINGLE_WORDS + 1))
