"""Embed the candidates of a question that have no vector yet.

The candidates are the best chunks by words and by static vectors. Those that are best by both are embedded; the cosines
of the others are estimated from their static vectors. With more and more vectors the results become those of a
knowledge base whose chunks are all embedded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ragkit.embed.base import EmbeddingProvider, Row, embed_texts
from ragkit.index.kept_vectors import KeptVectors
from ragkit.index.reader import CatalogSnapshot
from ragkit.lexical.word_forms import question_terms
from ragkit.records import Chunk, Where

MAX_EMBEDDED = 64
"""Chunks that are embedded for a question at most, unless more than `CANDIDATES` hits are asked for."""
CANDIDATES = 100
"""Chunks without a vector that are considered, by words and by static vectors each."""
STATIC_WEIGHT = 0.5
"""Weight of the static vectors in the choice of the chunks to embed; the words have the rest."""

Scores = NDArray[np.float64]


@dataclass
class OnDemandVectors:
    """The vectors that one search needs beside those of the knowledge base."""

    kept: KeptVectors
    """Of earlier searches."""
    embedder: EmbeddingProvider
    """The embedder of the chunks."""
    static: EmbeddingProvider
    embedding_texts: Callable[[Sequence[Chunk]], list[str]]
    """The texts that are embedded of chunks of one document."""
    _static_query: Row | None = None
    _pairs: list[tuple[float, float]] = field(default_factory=list)
    """(static cosine, cosine) of embedded candidates of the question."""

    def find_candidates(
        self, snapshot: CatalogSnapshot, query: Row, top_k: int, where: Where, question: str
    ) -> list[tuple[int, float]]:
        """The candidates without a stored vector that were embedded now or for earlier questions: (key, cosine)."""
        stored = snapshot.arrays.static
        if stored is None:
            return []
        # vectors of another version of the static model say nothing: then the words choose
        is_comparable = stored.fingerprint == self.static.fingerprint
        if is_comparable:
            self._static_query = Context().run(self.static.embed_query, question)  # costs nothing: it is not metered
        else:
            self._static_query = np.zeros(stored.matrix.shape[1], np.float32)
        depth = max(top_k, CANDIDATES)
        terms, forms = question_terms(question, snapshot.find_terms)
        near = snapshot.search_static(self._static_query, depth, where) if is_comparable else []
        found = [*near, *(snapshot.search_terms(terms, depth, where, forms) if terms else ())]
        found += snapshot.search_documents(question, terms, depth, where) if terms else ()
        keys = np.unique(np.array([key for key, _ in found], np.int64))
        keys = keys[snapshot.lacks_vector(keys)]
        if not len(keys):
            return []
        static = snapshot.static_vectors(keys) @ self._static_query
        words = snapshot.term_scores(terms, keys.tolist(), forms) if terms else np.zeros(len(keys))
        fused = STATIC_WEIGHT * _z_scores(static) + (1 - STATIC_WEIGHT) * _z_scores(words)
        limit = MAX_EMBEDDED if top_k <= CANDIDATES else top_k
        best = keys[np.argsort(-fused, kind="stable")[:limit]]
        self.compute(snapshot, best.tolist())
        known = self.find(snapshot, keys.tolist())
        cosines = {key: float(row @ query) for key, row in known.items()}
        self._pairs = [(float(static[i]), cosines[key]) for i, key in enumerate(keys.tolist()) if key in cosines]
        return list(cosines.items())

    def find(self, snapshot: CatalogSnapshot, keys: Sequence[int]) -> dict[int, Row]:
        """The vectors of chunks without a stored one that searches have computed."""
        hashes = snapshot.text_hashes(keys)
        rows = self.kept.find(list(hashes.values()))
        return {key: rows[text_hash] for key, text_hash in hashes.items() if text_hash in rows}

    def compute(self, snapshot: CatalogSnapshot, keys: Sequence[int]) -> None:
        """Embed those of these chunks, none of which has a stored vector, that no search has embedded."""
        hashes = snapshot.text_hashes(keys)
        known = self.kept.find(list(hashes.values()))
        missing = [key for key in keys if hashes[key] not in known]
        if not missing:
            return
        texts = embedding_texts_by_key(dict(zip(missing, snapshot.chunks(missing), strict=True)), self.embedding_texts)
        distinct = {hashes[key]: texts[key] for key in missing}
        self.kept.add(list(distinct), embed_texts(self.embedder, list(distinct.values())))

    def estimate_cosines(self, snapshot: CatalogSnapshot, keys: Sequence[int]) -> Scores:
        """Cosines of chunks without a vector, from their static vectors: (len(keys),)."""
        if self._static_query is None:
            return np.zeros(len(keys))
        static = np.asarray(snapshot.static_vectors(keys) @ self._static_query, np.float64)
        if not self._pairs:
            return static
        mean_static, mean = np.mean(self._pairs, axis=0)
        slope = float(getattr(self.static, "cosine_slope", 1))
        return np.asarray(mean + slope * (static - mean_static), np.float64)


def embedding_texts_by_key(
    chunks: Mapping[int, Chunk], embedding_texts: Callable[[Sequence[Chunk]], list[str]]
) -> dict[int, str]:
    """The texts that are embedded of these chunks, by key."""
    by_source: dict[str, list[int]] = {}
    for key, chunk in chunks.items():
        by_source.setdefault(chunk.source, []).append(key)
    texts: dict[int, str] = {}
    for keys in by_source.values():
        texts.update(zip(keys, embedding_texts([chunks[key] for key in keys]), strict=True))
    return texts


def _z_scores(values: NDArray[np.floating]) -> Scores:
    spread = float(np.std(values))
    return np.asarray((values - np.mean(values)) / (spread if spread > 1e-12 else 1), np.float64)
