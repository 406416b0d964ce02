"""The protocol of a lexical index."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

ChunkKeys: TypeAlias = NDArray[np.int64]
Bm25Scores: TypeAlias = NDArray[np.float32]
"""BM25 scores: (n,), float32."""
ExtraTerms: TypeAlias = Mapping[str, float]
"""Additional query terms -> weight, relative to 1 for a term of the question."""
ChunkBoosts: TypeAlias = Callable[[ChunkKeys], Bm25Scores]
"""Chunk keys, (n,) -> what to add to the score of each, (n,) >= 0."""
NO_EXTRA_TERMS: ExtraTerms = MappingProxyType({})


class OneOf(str):
    """A term of a query that stands for several words of the analyzer: each of them counts as the same one."""

    __slots__ = ()

    def __new__(cls, terms: Iterable[str]) -> OneOf:
        """The analyzer's terms have no white space."""
        return super().__new__(cls, "\n".join(terms))

    @property
    def terms(self) -> list[str]:
        """The terms that it stands for."""
        return self.split("\n")


class LexicalIndex(Protocol):
    """A full text index of chunks, stored in the catalog. Its writes belong to the catalog's transaction."""

    def add(self, keys: Sequence[int], term_lists: Sequence[Sequence[str]]) -> None:
        """Index one list of terms per key; an existing key is replaced."""

    def remove(self, keys: Sequence[int]) -> None:
        """Delete these keys; unknown keys are ignored."""

    def search(
        self,
        terms: Sequence[str],
        top_k: int,
        allowed: Callable[[ChunkKeys], NDArray[np.bool_]] | None = None,
        extra: ExtraTerms = NO_EXTRA_TERMS,
        boosts: ChunkBoosts | None = None,
    ) -> list[tuple[int, float]]:
        """The best chunks that contain a term: (key, score > 0), best first, ties by key.

        Returns `min(top_k, number of matches)` chunks. `allowed` is called once, with the ascending keys of all
        matching chunks, (n,), and returns a mask of the chunks that may be returned. `boosts` gets the keys of these,
        and its values are part of the ranking, not of the scores returned.
        """

    def scores(self, terms: Sequence[str], keys: Sequence[int], extra: ExtraTerms = NO_EXTRA_TERMS) -> Bm25Scores:
        """BM25 scores of these chunks, as in `search`: (len(keys),); 0 without a matching term or for unknown keys."""

    def find_terms(self, prefixes: Sequence[str]) -> dict[str, int]:
        """The terms that begin with one of the prefixes, each with the number of chunks that contain it."""

    def keys(self) -> ChunkKeys:
        """The keys of all chunks, ascending."""

    def find_problems(self) -> list[str]:
        """Inconsistencies of the index, one line each."""
