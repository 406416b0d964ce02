"""A few passages to answer from, without a knowledge base."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

import numpy as np
from numpy.typing import NDArray

from ragkit.answer.score_calibration import ScoreCalibration, measure_calibration
from ragkit.embed.hashing import HashingEmbedder
from ragkit.embed.options import HashingOptions
from ragkit.lexical.analyzer import extract_terms
from ragkit.records import JSON, Chunk, Document, Hit, SearchMode, content_id


class Shelf:
    """A Searcher over whole documents: every document is one chunk, ranked by shared terms."""

    def __init__(
        self, texts: Mapping[str, str], *, stale: Sequence[str] = (), metadata: Mapping[str, JSON] | None = None
    ) -> None:
        self._documents = {source: Document(text, dict(metadata or {}), source) for source, text in texts.items()}
        self._stale = set(stale)
        self._calibration: ScoreCalibration | None = None
        self._embedder = HashingEmbedder(HashingOptions(dimension=256))
        self.asked: list[tuple[str, int | None, Mapping[str, JSON] | None]] = []

    def session(self) -> AbstractContextManager[Shelf]:
        return nullcontext(self)

    def search(
        self,
        question: str,
        top_k: int | None = None,
        where: Mapping[str, JSON] | None = None,
        mode: SearchMode | None = None,
    ) -> list[Hit]:
        self.asked.append((question, top_k, where))
        expected = set(extract_terms(question))
        query = self.embed_question(question)
        hits = []
        for document in self._documents.values():
            shared = len(expected & set(extract_terms(document.text)))
            cosine = float(self.embed([document.text])[0] @ query)
            if shared:
                hits.append(Hit(chunk(document), shared + cosine, {"dense": cosine, "lexical": float(shared)}))
        return sorted(hits, key=lambda hit: -hit.score)[: top_k or 5]

    def term_weights(self, terms: Sequence[str]) -> NDArray[np.float32]:
        holders = [sum(term in extract_terms(d.text) for d in self._documents.values()) for term in terms]
        return np.array([np.log1p(len(self._documents) / (n + 0.5)) for n in holders], np.float32)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._embedder.embed_texts(texts)

    def embed_question(self, question: str) -> NDArray[np.float32]:
        return self._embedder.embed_query(question)

    def calibration(self) -> ScoreCalibration:
        if self._calibration is None:
            self._calibration = measure_calibration(self.embed)
        return self._calibration

    def missing_terms(self, terms: Sequence[str]) -> list[str]:
        return []

    def find_terms(self, prefixes: Sequence[str]) -> dict[str, int]:
        return {}

    def chunk(self, chunk_id: str) -> Chunk | None:
        return None

    def first_chunk(self, document_id: str) -> Chunk | None:
        return None

    def describe_contents(self, where: Mapping[str, JSON] | None = None) -> str:
        return ""

    def find_document(self, document_id: str) -> Document | None:
        return next((document for document in self._documents.values() if document.id == document_id), None)

    def is_stale(self, source: str) -> bool:
        return source in self._stale


def chunk(document: Document) -> Chunk:
    """The whole document as one chunk."""
    return Chunk(
        id=content_id(document.source),
        document_id=document.id,
        source=document.source,
        text=document.text,
        start=0,
        end=len(document.text),
        start_line=1,
        end_line=document.text.count("\n") + 1,
        metadata=document.metadata,
    )
