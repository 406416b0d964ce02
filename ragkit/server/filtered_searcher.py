"""A searcher that applies the filter and the top_k limit of one request to every search."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ragkit.answer.base import Searcher, Where
from ragkit.records import Document, Hit


class FilteredSearcher:
    """A `Searcher` that adds `where` to every filter and limits top_k to `max_top_k`, whatever the model asks for."""

    def __init__(self, searcher: Searcher, where: Where, max_top_k: int) -> None:
        self.inner = searcher
        self._where = where
        self._max_top_k = max_top_k

    def search(self, question: str, top_k: int | None = None, where: Where = None) -> list[Hit]:
        """The hits for a question, best first."""
        both = {"$and": [self._where, where]} if self._where and where else self._where or where
        return self.inner.search(question, None if top_k is None else min(top_k, self._max_top_k), both)

    def term_weights(self, terms: Sequence[str]) -> NDArray[np.float32]:
        """Inverse document frequency of each term: (len(terms),)."""
        return self.inner.term_weights(terms)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors of texts: (len(texts), dimension)."""
        return self.inner.embed(texts)

    def embed_question(self, question: str) -> NDArray[np.float32]:
        """The unit vector of a question: (dimension,)."""
        return self.inner.embed_question(question)

    def document(self, source: str) -> Document | None:
        """The document of a source."""
        return self.inner.document(source)

    def is_stale(self, source: str) -> bool:
        """Whether the file changed since it was indexed."""
        return self.inner.is_stale(source)
