"""A searcher whose filter and top_k limit apply to every search, whatever a model asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from ragkit.answer.base import ChunkFinder, ChunkLocator, ContentsDescriber, MultiModeSearcher, Searcher, Where
from ragkit.answer.searchers.aggregate_tool import Aggregator
from ragkit.index.aggregate import FieldAggregate
from ragkit.records import Chunk, Document, Hit


class FilteredSearcher:
    """A `Searcher` that adds `where` to every filter and limits top_k to `max_top_k`."""

    def __init__(self, searcher: Searcher, where: Where, max_top_k: int | None = None) -> None:
        """Without `max_top_k`, top_k is not limited."""
        self.inner = searcher
        self._where = where
        self._max_top_k = max_top_k

    def search(
        self,
        question: str,
        top_k: int | None = None,
        where: Where = None,
        mode: Literal["dense", "lexical", "hybrid"] | None = None,
    ) -> list[Hit]:
        """The hits for a question, best first."""
        both = self._restrict(where)
        limit = min(top_k, self._max_top_k) if top_k is not None and self._max_top_k is not None else top_k
        if mode is None:
            return self.inner.search(question, limit, both)
        return cast("MultiModeSearcher", self.inner).search(question, limit, both, mode)

    @property
    def has_records(self) -> bool:
        """Whether the searcher has records that can be counted and added up."""
        return isinstance(self.inner, Aggregator) and self.inner.has_records

    def aggregate(self, field: str = "", where: Where = None) -> FieldAggregate:
        """The numbers in a field of the documents that both filters select."""
        return cast("Aggregator", self.inner).aggregate(field, self._restrict(where))

    def filter_notes(self, where: Where) -> list[str]:
        """What both filters cannot match."""
        return cast("Aggregator", self.inner).filter_notes(self._restrict(where))

    def _restrict(self, where: Where) -> Where:
        return {"$and": [self._where, where]} if self._where and where else self._where or where

    def term_weights(self, terms: Sequence[str]) -> NDArray[np.float32]:
        """Inverse document frequency of each term: (len(terms),)."""
        return self.inner.term_weights(terms)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors of texts: (len(texts), dimension)."""
        return self.inner.embed(texts)

    def embed_question(self, question: str) -> NDArray[np.float32]:
        """The unit vector of a question: (dimension,)."""
        return self.inner.embed_question(question)

    def find_document(self, document_id: str) -> Document | None:
        """The document with this id."""
        return self.inner.find_document(document_id)

    def is_stale(self, source: str) -> bool:
        """Whether the file changed since it was indexed."""
        return self.inner.is_stale(source)

    def chunk(self, chunk_id: str) -> Chunk | None:
        """The chunk with this id, which an earlier search of the conversation found."""
        return self.inner.chunk(chunk_id) if isinstance(self.inner, ChunkFinder) else None

    def describe_contents(self, where: Where = None) -> str:
        """What the documents are that match its filter and `where`."""
        both = {"$and": [self._where, where]} if self._where and where else self._where or where
        return self.inner.describe_contents(both) if isinstance(self.inner, ContentsDescriber) else ""

    def first_chunk(self, document_id: str) -> Chunk | None:
        """The chunk at the beginning of a document that a search found."""
        return self.inner.first_chunk(document_id) if isinstance(self.inner, ChunkLocator) else None
