"""Lexical retrieval: BM25 over stemmed terms. Finds names, numbers and identifiers of a question."""

from __future__ import annotations

from ragkit.lexical.word_forms import question_terms
from ragkit.records import Where
from ragkit.retrieve.base import LEXICAL, Explanation, Retriever, RetrieverDependencies
from ragkit.retrieve.explanations import explain_ranking
from ragkit.retrieve.options import LexicalOptions, validate_top_k


class LexicalRetriever(Retriever):
    """Ranks chunks by the BM25 score of the question's terms: > 0, without upper bound."""

    def __init__(self, options: LexicalOptions, parts: RetrieverDependencies) -> None:
        self._options, self._dependencies = options, parts

    def explain(self, question: str, top_k: int | None = None, where: Where = None) -> list[Explanation]:
        """The best chunks that contain a term of the question, with their ranks."""
        top_k = validate_top_k(self._options.top_k if top_k is None else top_k)
        index = self._dependencies.chunk_index
        terms, forms = question_terms(question, index.find_terms)
        return explain_ranking(LEXICAL, index.search_terms(terms, top_k, where, forms) if terms else [], index)
