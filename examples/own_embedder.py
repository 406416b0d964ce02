"""An embedder of your own: hashed character trigrams, which need no model and find words with typos."""

import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ragkit import Document, RAGAgent


class TrigramEmbedder:
    """Implements `ragkit.EmbeddingProvider`: unit vectors of 512 trigram counts."""

    dimension = 512
    fingerprint = "trigrams-512-v1"

    def embed_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(len(texts), 512), rows of length 1."""
        rows = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in zip(rows, texts, strict=True):
            padded = f"  {text.lower()} "
            for start in range(len(padded) - 2):
                row[zlib.crc32(padded[start : start + 3].encode()) % self.dimension] += 1
        return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9), np.float32)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """(512,), length 1."""
        return np.asarray(self.embed_texts([text])[0])


if __name__ == "__main__":
    facts = ["The compressor is serviced every 400 hours.", "The library closes at 18:00.", "Badges are grey."]
    agent = RAGAgent.from_documents([Document(fact) for fact in facts], embedder=TrigramEmbedder())
    for hit in agent.searcher.search("compresor servise", top_k=1):
        print(hit.chunk.text)
