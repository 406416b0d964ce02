"""Search from another place than the question's: with a row that was moved, and with further terms.

Knows nothing of where either comes from: feedback and hypothetical passages both do it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ragkit.embed.base import Row, Rows
from ragkit.records import Chunk, Hit, Span
from ragkit.retrieve.base import NO_EXTRA, Explanation, Extra, Found, Parts, Passages, Retriever, Where

DENSE, LEXICAL = "dense", "lexical"


class Move(Protocol):
    """Says where a question is searched from. Made anew for each question."""

    def row(self, query: Row, passages: Passages, where: Where) -> Row:
        """The unit row that is searched with: (dimension,)."""

    def extra(self, terms: Sequence[str], passages: Passages, where: Where) -> Extra:
        """The terms that are searched beside those of the question."""


class MovedPassages:
    """Keeps `Passages`, for one question: searches with the moved row and with the further terms."""

    def __init__(self, passages: Passages, moves: Sequence[Move]) -> None:
        self._passages, self._moves = passages, moves
        self._row: tuple[Row, Row] | None = None
        self._terms: tuple[Sequence[str], Extra] | None = None
        self._keys: dict[str, int] = {}

    def search_terms(self, terms: Sequence[str], top_k: int, where: Where = None, extra: Extra = NO_EXTRA) -> Found:
        """The best chunks for these terms and the further ones."""
        found = dict(extra)
        for move in self._moves:
            found |= move.extra(terms, self._passages, where)
        self._terms = (terms, found)
        return self._passages.search_terms(terms, top_k, where, found)

    def term_scores(self, terms: Sequence[str], keys: Sequence[int], extra: Extra = NO_EXTRA) -> NDArray[np.float32]:
        """As the last search scores them."""
        return self._passages.term_scores(terms, keys, self._terms[1] if self._terms else extra)

    def search_dense(self, query: Row, top_k: int, where: Where = None) -> Found:
        """The chunks nearest to the moved row."""
        moved = query
        for move in self._moves:
            moved = move.row(moved, self._passages, where)
        self._row = (query, moved)
        return self._passages.search_dense(moved, top_k, where)

    def cosines(self, query: Row, keys: Sequence[int]) -> NDArray[np.float32]:
        """With the row of the last search."""
        return self._passages.cosines(self._row[1] if self._row else query, keys)

    def rows(self, keys: Sequence[int]) -> Rows:
        """As they are."""
        return self._passages.rows(keys)

    def chunks(self, keys: Sequence[int]) -> list[Chunk]:
        """These chunks; their keys are remembered."""
        found = self._passages.chunks(keys)
        self._keys |= zip((chunk.id for chunk in found), keys, strict=True)
        return found

    def outline(self, chunk: Chunk) -> list[Span]:
        """As it is."""
        return self._passages.outline(chunk)

    def text_of(self, chunk: Chunk) -> str:
        """As it is."""
        return self._passages.text_of(chunk)

    def as_asked(self, found: Sequence[Explanation]) -> list[Explanation]:
        """The same hits, whose `dense` and `lexical` are those of the question itself.

        Whoever judges by them how well a passage answers must not be told how near it is to something else.
        """
        keys = [self._keys[one.hit.chunk.id] for one in found]
        given: dict[str, list[float]] = {}
        if self._row is not None and keys:
            given[DENSE] = self._passages.cosines(self._row[0], keys).tolist()
        if self._terms is not None and keys:
            given[LEXICAL] = self._passages.term_scores(self._terms[0], keys).tolist()
        return [
            replace(one, hit=_scored(one.hit, {name: values[at] for name, values in given.items()}))
            for at, one in enumerate(found)
        ]


class MovedRetriever:
    """A retriever that searches from another place than the question's."""

    def __init__(
        self, build: Callable[[Parts], Retriever], parts: Parts, moves: Callable[[str], Sequence[Move]]
    ) -> None:
        """`build` makes the retriever; `moves` says for a question where it is searched from."""
        self._build, self._parts, self._moves = build, parts, moves

    def retrieve(self, question: str, top_k: int | None = None, where: Where = None) -> list[Hit]:
        """The best hits; their `dense` and `lexical` scores are those of the question itself."""
        return [one.hit for one in self.explain(question, top_k, where)]

    def explain(self, question: str, top_k: int | None = None, where: Where = None) -> list[Explanation]:
        """The same hits; ranks and shares are those of the search that was moved."""
        if not question.strip():
            return []
        passages = MovedPassages(self._parts.passages, self._moves(question))
        found = self._build(replace(self._parts, passages=passages)).explain(question, top_k, where)
        return passages.as_asked(found)


def _scored(hit: Hit, scores: dict[str, float]) -> Hit:
    return replace(hit, scores={**hit.scores, **{name: scores[name] for name in scores if name in hit.scores}})
