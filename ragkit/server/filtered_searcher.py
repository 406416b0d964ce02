"""A knowledge base as one request may search it: within a filter that nobody can widen, and not for too much."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ragkit.answer.base import Searcher, Where
from ragkit.records import Document, Hit


class FilteredSearcher:
    """Keeps `Searcher`: every search is held to `where` and to `most` hits, whatever a model asks for."""

    def __init__(self, searcher: Searcher, where: Where, most: int) -> None:
        self.inner = searcher
        self._where = where
        self._max_top_k = most

    def search(self, question: str, top_k: int | None = None, where: Where = None) -> list[Hit]:
        """The passages that speak of a question, best first."""
        both = {"$and": [self._where, where]} if self._where and where else self._where or where
        return self.inner.search(question, None if top_k is None else min(top_k, self._max_top_k), both)

    def term_weights(self, terms: Sequence[str]) -> NDArray[np.float32]:
        """How rare each term is among all passages: (len(terms),)."""
        return self.inner.term_weights(terms)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit rows of sentences: (len(texts), dimension)."""
        return self.inner.embed(texts)

    def embed_question(self, question: str) -> NDArray[np.float32]:
        """The unit row of a question: (dimension,)."""
        return self.inner.embed_question(question)

    def document(self, source: str) -> Document | None:
        """The document of a source."""
        return self.inner.document(source)

    def is_stale(self, source: str) -> bool:
        """Whether the file on disk is not the one that was indexed."""
        return self.inner.is_stale(source)
