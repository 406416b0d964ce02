"""Dense retrieval: the chunks whose vectors are nearest to the question's vector."""

from __future__ import annotations

from ragkit.records import Where
from ragkit.retrieve.base import DENSE, Explanation, Retriever, RetrieverDependencies
from ragkit.retrieve.explanations import explain_ranking
from ragkit.retrieve.options import DenseOptions, validate_top_k


class DenseRetriever(Retriever):
    """Ranks chunks by the cosine of their vector and the question's vector, in [-1, 1]."""

    def __init__(self, options: DenseOptions, parts: RetrieverDependencies) -> None:
        self._options, self._dependencies = options, parts

    def explain(self, question: str, top_k: int | None = None, where: Where = None) -> list[Explanation]:
        """The nearest chunks with a score of at least `min_score`, with their ranks."""
        top_k = validate_top_k(self._options.top_k if top_k is None else top_k)
        if not question.strip():
            return []
        query = self._dependencies.embed_question(question)
        ranking = self._dependencies.chunk_index.search_dense(query, top_k, where, question)
        min_score = self._options.min_score
        hits = ranking if min_score is None else [pair for pair in ranking if pair[1] >= min_score]
        return explain_ranking(DENSE, hits, self._dependencies.chunk_index)
