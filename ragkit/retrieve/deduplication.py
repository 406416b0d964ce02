"""Near-duplicates left out: copies of a file, versions of it, and windows that overlap do not fill the list."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from ragkit.records import Hit
from ragkit.retrieve.base import Explanation, Retriever, Where
from ragkit.retrieve.explanations import fill_top_k
from ragkit.retrieve.options import DistinctOptions, validate_top_k

SHINGLE_WORDS = 3
"""Words of a shingle: runs of so many are compared. A text that has fewer is a shingle of its own."""

_WORD = re.compile(r"\w+")


class DeduplicatingRetriever:
    """Leaves out each hit that says what a better one says. The list is filled up with what comes behind."""

    def __init__(self, inner: Retriever, options: DistinctOptions, top_k: int) -> None:
        """`top_k` is how many hits there are when nobody says."""
        self._inner, self._max_similarity, self._top_k = inner, options.likeness, top_k

    def retrieve(self, question: str, top_k: int | None = None, where: Where = None) -> list[Hit]:
        """The best hits, no two of them alike."""
        return [one.hit for one in self.explain(question, top_k, where)]

    def explain(self, question: str, top_k: int | None = None, where: Where = None) -> list[Explanation]:
        """The same hits, each with the reasons for its place."""
        wanted = validate_top_k(self._top_k if top_k is None else top_k)
        return fill_top_k(lambda depth: self._inner.explain(question, depth, where), self._deduplicate, wanted)

    def _deduplicate(self, found: list[Explanation]) -> list[Explanation]:
        places = deduplicate([one.hit.chunk.text for one in found], self._max_similarity)
        return [found[at] for at in places]


def deduplicate(texts: Sequence[str], likeness: float) -> list[int]:
    """Places of the texts that are like none of those kept before them, in their order.

    Two texts are alike when they share at least `likeness` of the shingles of the one that has fewer, as texts that
    contain each other do. Source: Broder, On the resemblance and containment of documents, SEQUENCES 1997.
    """
    kept: list[int] = []
    holders: dict[str, list[int]] = {}
    sizes: dict[int, int] = {}
    for at, text in enumerate(texts):
        own = shingles(text)
        shared = Counter(other for one in own for other in holders.get(one, ()))
        if any(count >= likeness * min(len(own), sizes[other]) for other, count in shared.items()):
            continue
        kept.append(at)
        sizes[at] = len(own)
        for one in own:
            holders.setdefault(one, []).append(at)
    return kept


def shingles(text: str) -> frozenset[str]:
    """Runs of neighbouring words, upper and lower case counting as equal; of a text without words the text itself."""
    words = _WORD.findall(text.lower())
    if len(words) < SHINGLE_WORDS:
        return frozenset([" ".join(words) or text])
    return frozenset(" ".join(words[at : at + SHINGLE_WORDS]) for at in range(len(words) - SHINGLE_WORDS + 1))
