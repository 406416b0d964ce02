"""Reranking with the bundled embedder: score each hit by its best sentence.

The vector of a passage averages over its sentences; separate sentence vectors keep the one that answers the question.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from ragkit.embed.base import EmbeddingProvider, Row, Rows
from ragkit.embed.minilm import MiniLM
from ragkit.lexical.analyzer import extract_terms
from ragkit.lexical.bm25_index import inverse_document_frequency
from ragkit.lru_cache import LruCache
from ragkit.records import Hit
from ragkit.retrieve.base import RerankScores
from ragkit.retrieve.options import RerankOptions
from ragkit.split.sentence_segmentation import sentence_spans

TERM_WEIGHT = 0.3
"""Weight of the term coverage of a sentence, relative to its cosine."""
MAX_CACHED_SENTENCES = 20_000
"""Sentence vectors cached in memory, about 30 MB. Related questions share hits."""


class SentenceReranker:
    """Scores a hit by its best sentence: cosine with the question + TERM_WEIGHT * coverage of the question's terms.

    Terms are weighted by their idf among the hits. The weights were tuned on half of the questions of two public
    collections; see `benchmarks/beir.py`. Thread-safe.
    """

    weight, diversity = 0.75, 0.0

    def __init__(self, options: RerankOptions, embedder: EmbeddingProvider) -> None:
        """Uses `embedder` if it is the bundled one. Others may cost money: then a new `MiniLM` is used."""
        self._embedder = embedder if isinstance(embedder, MiniLM) else MiniLM()
        self._cached_rows: LruCache[str, Row] = LruCache(MAX_CACHED_SENTENCES)

    def scores(self, question: str, hits: Sequence[Hit]) -> RerankScores:
        """The score of each hit's best sentence: (len(hits),), at most 1.3."""
        texts = [hit.chunk.text for hit in hits]
        sentences = [[text[start:end] for start, end in sentence_spans(text)] or [text] for text in texts]
        flat = [sentence for hit_sentences in sentences for sentence in hit_sentences]
        cosines = self._embed_sentences(flat) @ self._embedder.embed_query(question)
        values = cosines + TERM_WEIGHT * _term_coverage(question, sentences)
        starts = np.cumsum([0, *map(len, sentences[:-1])])
        return np.maximum.reduceat(values.astype(np.float64), starts)

    def _embed_sentences(self, texts: Sequence[str]) -> Rows:
        """The vector of each sentence: (len(texts), dimension)."""
        rows = {text: row for text in texts if (row := self._cached_rows.get(text)) is not None}
        new = list(dict.fromkeys(text for text in texts if text not in rows))
        for text, row in zip(new, self._embedder.embed_texts(new) if new else (), strict=True):
            rows[text] = row
            self._cached_rows.set(text, row)
        return np.stack([rows[text] for text in texts])


def _term_coverage(question: str, sentences: Sequence[Sequence[str]]) -> RerankScores:
    """Share of the question's terms in each sentence, weighted by idf, in [0, 1]: (number of sentences,)."""
    query_terms = list(dict.fromkeys(extract_terms(question)))
    if not query_terms:
        return np.zeros(sum(map(len, sentences)))
    terms_by_hit = [[frozenset(extract_terms(sentence)) for sentence in hit] for hit in sentences]
    counts = Counter(term for hit in terms_by_hit for term in frozenset[str]().union(*hit))
    idf = inverse_document_frequency([counts[term] for term in query_terms], len(sentences))
    present = np.array([[term in own for term in query_terms] for hit in terms_by_hit for own in hit], np.float64)
    coverage: RerankScores = present.reshape(-1, len(query_terms)) @ idf / (float(idf.sum()) or 1.0)
    return coverage
