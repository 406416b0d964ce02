"""Rebuild a damaged knowledge base, reusing its sources and the vectors that are intact."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from ragkit.embed.base import Rows
from ragkit.errors import KnowledgeBaseError
from ragkit.index.catalog.checksums import CHECKSUM_FILE, find_changed_files, fsync_directory, read_checksums
from ragkit.index.catalog.directory import (
    CATALOG_FILE,
    MARKER_FILE,
    open_vectors,
    read_marker_id,
    read_marker_roots,
    read_settings,
)
from ragkit.index.catalog.schema import CORRUPT_DATA_ERRORS, open_connection
from ragkit.index.catalog.sqlite import Catalog, EmbedderRow
from ragkit.store.native.vector_file import row_checksums

REBUILD_FOLDER = ".rebuild"
"""Folder of the new knowledge base, inside the damaged one."""


class RecoveredState:
    """What a damaged knowledge base still provides: sources, settings, and the vectors that match their checksums."""

    def __init__(self, directory: Path, fingerprint: str) -> None:
        self.roots = read_marker_roots(directory)
        self.settings: dict[str, str] = {}
        """What earlier runs were told, as `Catalog.settings`; empty if that is lost."""
        self.text_hashes: list[bytes] = []
        self.vectors: Rows | None = None
        self.contexts: dict[bytes, str] = {}
        """Sentences on chunks that models wrote, by their request."""
        self.calibration: str | None = None
        """The score calibration as stored, if the catalog is intact."""
        self.last_file_number = max((_file_number(path) for path in directory.glob("vectors-*.f32")), default=0)
        with suppress(KnowledgeBaseError):
            self.settings = read_settings(directory) or {}
        if not (directory / CATALOG_FILE).exists():
            return
        try:
            with closing(open_connection(directory / CATALOG_FILE)) as connection:
                if not _is_foreign_catalog(connection, directory):
                    if not (self.roots and _is_intact(directory, MARKER_FILE)):
                        self.roots = Catalog(connection).roots() or self.roots
                    if _is_intact(directory, CATALOG_FILE):
                        self.calibration = Catalog(connection).get_meta("calibration")
                    if Catalog(connection).has_contexts():
                        self.contexts = dict(Catalog(connection).iter_contexts())
                    self._recover_vectors(connection, directory, fingerprint)
        except (sqlite3.DatabaseError, KnowledgeBaseError, *CORRUPT_DATA_ERRORS):
            return  # unreadable data is rebuilt

    def _recover_vectors(self, connection: sqlite3.Connection, directory: Path, fingerprint: str) -> None:
        embedder = Catalog(connection).embedder(fingerprint)
        if embedder is None:
            return
        query = "SELECT text_hash, row, checksum FROM vectors WHERE embedder = ? ORDER BY row"
        with closing(open_vectors(directory, embedder)) as file:
            matrix = file.matrix(embedder.rows)
            sums = row_checksums(matrix)
            stored = connection.execute(query, (embedder.key,))
            intact = [(text_hash, row) for text_hash, row, crc in stored if 0 <= row < len(sums) and sums[row] == crc]
            self.text_hashes = [text_hash for text_hash, _ in intact]
            self.vectors = np.array(matrix[[row for _, row in intact]])


def _is_intact(directory: Path, name: str) -> bool:
    """Whether a file matches its recorded checksum."""
    is_recorded = name in (read_checksums(directory) or {})
    return is_recorded and all(change.file != name for change in find_changed_files(directory))


def _is_foreign_catalog(connection: sqlite3.Connection, directory: Path) -> bool:
    """Whether the catalog was copied from another knowledge base, so that its sources do not apply.

    Then the ids in catalog and marker file differ. The checksums tell which of the two is foreign. Without checksums
    (after an interrupted run) the vector files do: the catalog of a knowledge base holds the ids of its vector files.
    """
    catalog = Catalog(connection)
    if read_marker_id(directory) in {None, catalog.get_meta("id")}:
        return False
    if read_checksums(directory) is not None:
        return any(change.file == CATALOG_FILE for change in find_changed_files(directory))
    return not any(_has_vector_file(directory, embedder) for embedder in catalog.embedders())


def _has_vector_file(directory: Path, embedder: EmbedderRow) -> bool:
    try:
        open_vectors(directory, replace(embedder, rows=0)).close()
    except KnowledgeBaseError:
        return False
    return True


def replace_with_rebuilt(directory: Path) -> None:
    """Replace the damaged knowledge base by the one that was built in `directory/.rebuild`.

    The new vector files have new names; renaming the catalog makes the change effective. The old checksum file stays
    until the new one replaces it: after an interruption the knowledge base is still detected as damaged.
    """
    new = directory / REBUILD_FOLDER
    old = [*directory.glob("vectors-*.f32"), directory / f"{CATALOG_FILE}-wal", directory / f"{CATALOG_FILE}-shm"]
    for name in ("-wal", "-shm"):
        # SQLite would replay the old log into the new catalog
        (directory / f"{CATALOG_FILE}{name}").unlink(missing_ok=True)
    for path in new.glob("vectors-*.f32"):
        path.rename(directory / path.name)
    (new / CATALOG_FILE).rename(directory / CATALOG_FILE)
    (new / MARKER_FILE).rename(directory / MARKER_FILE)
    (new / CHECKSUM_FILE).rename(directory / CHECKSUM_FILE)
    fsync_directory(directory)
    for path in old:
        path.unlink(missing_ok=True)
    shutil.rmtree(new)


def _file_number(path: Path) -> int:
    digits = path.stem.removeprefix("vectors-")
    return int(digits) if digits.isdigit() else 0
