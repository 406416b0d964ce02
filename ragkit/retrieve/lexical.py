"""Retrieval by words: BM25 over stemmed terms. Finds names, numbers and identifiers that a question spells out."""

from __future__ import annotations

from ragkit.records import Hit
from ragkit.retrieve.base import Explanation, Parts, Where
from ragkit.retrieve.hits import explained
from ragkit.retrieve.options import LexicalOptions, checked_top_k
from ragkit.retrieve.terms import terms


class LexicalRetriever:
    """Ranks chunks by the BM25 score of the question's terms. A hit's score is above 0 and has no upper bound."""

    def __init__(self, options: LexicalOptions, parts: Parts) -> None:
        self._options, self._parts = options, parts

    def retrieve(self, question: str, top_k: int | None = None, where: Where = None) -> list[Hit]:
        """The best hits; only chunks that hold one of the question's terms."""
        return [explanation.hit for explanation in self.explain(question, top_k, where)]

    def explain(self, question: str, top_k: int | None = None, where: Where = None) -> list[Explanation]:
        """The same hits, with their ranks."""
        top_k = checked_top_k(self._options.top_k if top_k is None else top_k)
        asked = terms(question)
        found = self._parts.passages.search_terms(asked, top_k, where) if asked else []
        return explained("lexical", found, self._parts.passages)
