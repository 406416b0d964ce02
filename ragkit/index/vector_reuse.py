"""Vectors that knowledge bases have already, by the hash of a text: another one copies them and embeds nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from ragkit.embed.base import Row
from ragkit.index.catalog.directory import open_catalog, repair_command
from ragkit.index.catalog.sqlite import Catalog
from ragkit.store.native.vector_file import VectorFile


@dataclass
class ReusableVectors:
    """The vectors of one embedder in some knowledge bases. Opened anew for each question: a text's hash is asked once.

    The embedder's weights must be those that the vectors are from; a knowledge base looks at its own when it is opened.
    """

    directories: Sequence[Path]
    fingerprint: str
    """Of the embedder."""
    reused_count: int = 0
    """Vectors that were handed out so far."""

    def find_vectors(self, keys: Sequence[bytes]) -> Mapping[bytes, Row]:
        """The vectors of those texts that any of the knowledge bases has. Raises KnowledgeBaseDamaged."""
        found: dict[bytes, Row] = {}
        for directory in self.directories:
            missing = [key for key in keys if key not in found]
            if missing:
                found |= self._find_in(directory, missing)
        self.reused_count += len(found)
        return found

    def _find_in(self, directory: Path, keys: Sequence[bytes]) -> Mapping[bytes, Row]:
        with closing(open_catalog(directory, check_seal=False)) as connection:
            connection.execute("BEGIN")  # the file and the numbers of its rows are of one moment
            catalog = Catalog(connection)
            embedder = catalog.embedder(self.fingerprint)
            rows = catalog.find_vector_rows(embedder.key, keys) if embedder is not None else {}
            if embedder is None or not rows:
                return {}
            place, fix = directory / embedder.file, repair_command(directory)
            file = VectorFile.open(
                place, dimension=embedder.dimension, file_id=embedder.file_id, rows=embedder.rows, fix=fix
            )
            with closing(file):
                matrix = file.matrix(embedder.rows)
                return {key: matrix[row].copy() for key, row in rows.items()}


def count_distinct_vectors(directories: Iterable[Path]) -> int:
    """How many different (text, embedder) the knowledge bases have vectors of."""
    found: set[tuple[str, bytes]] = set()
    for directory in directories:
        with closing(open_catalog(directory, check_seal=False)) as connection:
            query = "SELECT e.fingerprint, v.text_hash FROM vectors v JOIN embedders e ON e.key = v.embedder"
            found.update(connection.execute(query))
    return len(found)
