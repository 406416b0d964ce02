"""Reranking with nothing but the shipped embedder: how well does the best sentence of a hit speak of the question?

A vector of a whole passage blurs the one sentence that answers. Here each sentence has a vector of its own.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Sequence
from threading import Lock

import numpy as np

from ragkit.embed.base import EmbeddingProvider, Row, Rows
from ragkit.embed.minilm import MiniLM
from ragkit.lexical.analyzer import extract_terms
from ragkit.records import Hit
from ragkit.retrieve.base import RerankScores
from ragkit.retrieve.options import RerankOptions
from ragkit.split.sentence_segmentation import sentence_spans

TERM_WEIGHT = 0.3
"""What a sentence gains when it holds every term of the question, against 1 for meaning the very same."""
MAX_CACHED_SENTENCES = 20_000
"""Sentences whose vectors are kept in memory: about 30 MB. Hits of one question are often hits of the next."""


class SentenceReranker:
    """Scores a hit by its best sentence: cosine with the question + the share of the question's terms that it holds.

    A term counts by how rare it is among the hits. The weights are those that did best on half of the questions of
    two public collections; see `benchmarks/beir.py`. Any number of threads may ask.
    """

    weight, diversity = 0.75, 0.0

    def __init__(self, options: RerankOptions, embedder: EmbeddingProvider) -> None:
        """`embedder` is used where it is the shipped one; any other stays out of this, as it may cost money."""
        self._embedder = embedder if isinstance(embedder, MiniLM) else MiniLM()
        self._cached_rows: OrderedDict[str, Row] = OrderedDict()
        self._lock = Lock()

    def scores(self, question: str, hits: Sequence[Hit]) -> RerankScores:
        """The score of each hit's best sentence: (len(hits),), at most 1.3."""
        sentences = [_split_sentences(hit.chunk.text) for hit in hits]
        flat = [sentence for one in sentences for sentence in one]
        cosines = self._embed_sentences(flat) @ self._embedder.embed_query(question)
        values = cosines + TERM_WEIGHT * _term_coverage(question, sentences)
        starts = np.cumsum([0, *(len(one) for one in sentences[:-1])])
        return np.maximum.reduceat(values.astype(np.float64), starts)

    def _embed_sentences(self, texts: Sequence[str]) -> Rows:
        """The row of each sentence: (len(texts), dimension)."""
        with self._lock:
            found = {text: self._cached_rows[text] for text in texts if text in self._cached_rows}
        new = list(dict.fromkeys(text for text in texts if text not in found))
        found |= zip(new, self._embedder.embed_texts(new), strict=True) if new else ()
        with self._lock:
            for text in dict.fromkeys(texts):
                self._cached_rows[text] = found[text]
                self._cached_rows.move_to_end(text)
            while len(self._cached_rows) > MAX_CACHED_SENTENCES:
                self._cached_rows.popitem(last=False)
        return np.stack([found[text] for text in texts])


def _split_sentences(text: str) -> list[str]:
    """The sentences of a passage; the passage itself when it has none."""
    return [text[start:end] for start, end in sentence_spans(text)] or [text]


def _term_coverage(question: str, sentences: Sequence[Sequence[str]]) -> RerankScores:
    """How much of the question's terms each sentence holds, in [0, 1]: (number of sentences,)."""
    asked = list(dict.fromkeys(extract_terms(question)))
    if not asked:
        return np.zeros(sum(map(len, sentences)))
    held = [[frozenset(extract_terms(sentence)) for sentence in one] for one in sentences]
    among = Counter(term for one in held for term in frozenset[str]().union(*one))
    count = len(sentences)
    rarity = np.array([np.log1p((count - among[term] + 0.5) / (among[term] + 0.5)) for term in asked])
    there = np.array([[term in one for term in asked] for hit in held for one in hit], np.float64)
    shares: RerankScores = there.reshape(-1, len(asked)) @ rarity / (float(rarity.sum()) or 1.0)
    return shares
