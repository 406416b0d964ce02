"""A few chunks with vectors that are easy to verify by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ragkit.embed.base import Row, Rows, normalize_rows
from ragkit.records import JSON, Chunk
from ragkit.retrieve.base import RetrieverDependencies
from ragkit.retrieve.in_memory_index import InMemoryChunkIndex


class Compass:
    """An embedder with a table of vectors; other texts get the vector (0, 1)."""

    dimension = 2
    fingerprint = "compass"

    def __init__(self, rows: Mapping[str, Sequence[float]]) -> None:
        self._rows = {text: normalize_rows(np.array(row, np.float32)) for text, row in rows.items()}

    def embed_texts(self, texts: Sequence[str]) -> Rows:
        """One row for each text."""
        return np.stack([self.embed_query(text) for text in texts])

    def embed_query(self, text: str) -> Row:
        """The vector of the table."""
        return self._rows.get(text, np.array([0, 1], np.float32))


def chunk(text: str, **metadata: JSON) -> Chunk:
    """A chunk whose id is its text."""
    return Chunk(text, "document", "", text, 0, len(text), 1, 1, metadata=metadata)


def retriever_parts(
    chunks: Sequence[Chunk], rows: Sequence[Sequence[float]], **questions: Sequence[float]
) -> RetrieverDependencies:
    """The chunks with their rows, scaled to length 1, and the rows of questions (`_` stands for a space)."""
    embedder = Compass({question.replace("_", " "): row for question, row in questions.items()})
    return RetrieverDependencies(
        InMemoryChunkIndex(chunks, normalize_rows(np.array(rows, np.float32).reshape(-1, 2))), embedder
    )
