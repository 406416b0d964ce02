"""Look up vectors in existing knowledge bases by text hash, to copy them instead of embedding again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from ragkit.embed.base import Row
from ragkit.index.catalog.directory import open_catalog, open_vectors
from ragkit.index.catalog.sqlite import Catalog


@dataclass
class ReusableVectors:
    """The vectors of one embedder in some knowledge bases.

    The caller makes sure that the weights of the embedder did not change. Each lookup opens the knowledge bases again:
    every text hash is requested only once.
    """

    directories: Sequence[Path]
    fingerprint: str
    """The fingerprint of the embedder."""
    reused_count: int = 0
    """Number of vectors returned so far."""

    def find_vectors(self, keys: Sequence[bytes]) -> Mapping[bytes, Row]:
        """The known vectors, by text hash. Raises KnowledgeBaseDamaged."""
        vectors: dict[bytes, Row] = {}
        for directory in self.directories:
            missing = [key for key in keys if key not in vectors]
            if missing:
                vectors |= self._find_in(directory, missing)
        self.reused_count += len(vectors)
        return vectors

    def _find_in(self, directory: Path, keys: Sequence[bytes]) -> Mapping[bytes, Row]:
        with closing(open_catalog(directory, verify_checksums=False)) as connection:
            connection.execute("BEGIN")  # one snapshot of the file and its row numbers
            catalog = Catalog(connection)
            embedder = catalog.embedder(self.fingerprint)
            rows = catalog.find_vector_rows(embedder.key, keys) if embedder is not None else {}
            if embedder is None or not rows:
                return {}
            with closing(open_vectors(directory, embedder)) as file:
                matrix = file.matrix(embedder.rows)
                return {key: matrix[row].copy() for key, row in rows.items()}


def count_distinct_vectors(directories: Iterable[Path]) -> int:
    """Number of distinct (embedder, text) pairs with a vector in the knowledge bases."""
    pairs: set[tuple[str, bytes]] = set()
    for directory in directories:
        with closing(open_catalog(directory, verify_checksums=False)) as connection:
            query = "SELECT e.fingerprint, v.text_hash FROM vectors v JOIN embedders e ON e.key = v.embedder"
            pairs.update(connection.execute(query))
    return len(pairs)
