"""Verify the integrity of a knowledge base: consistency between its tables and files, and checksums of all rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ragkit.errors import KnowledgeBaseDamaged, KnowledgeBaseError
from ragkit.index.catalog.checksums import CHECKSUM_FILE, find_changed_files, read_checksums
from ragkit.index.catalog.directory import (
    CATALOG_FILE,
    MARKER_FILE,
    open_catalog,
    open_vectors,
    place_name,
    read_marker_id,
    repair_command,
)
from ragkit.index.catalog.row_checks import find_bad_rows, find_row_problems
from ragkit.index.catalog.schema import CORRUPT_DATA_ERRORS
from ragkit.index.catalog.sqlite import Catalog
from ragkit.index.external_store import ExternalStore
from ragkit.lexical.base import LexicalIndex

_CONTEXTS_WITHOUT_CHUNK = "chunk_contexts WHERE chunk NOT IN (SELECT key FROM chunks)"


@dataclass(frozen=True, slots=True)
class VerificationProblem:
    """One inconsistency."""

    part: str
    """`files`, `catalog`, `vectors`, `lexicon` or `store`."""
    message: str
    """One line."""


@dataclass(frozen=True)
class VerificationReport:
    """Result of `verify`."""

    kb: str
    documents: int
    chunks: int
    vectors: int
    problems: tuple[VerificationProblem, ...]
    repaired: tuple[str, ...] = ()
    """Completed repairs, one line each."""

    @property
    def is_sound(self) -> bool:
        """Whether there are no problems."""
        return not self.problems


def verify(
    directory: Path, lexicon: Callable[[sqlite3.Connection], LexicalIndex], derived: ExternalStore | None = None
) -> VerificationReport:
    """Read a complete knowledge base and report all inconsistencies. Read-only.

    If a writer published in the meantime, problems may be false: verification runs again.

    Args:
        directory: the knowledge base.
        lexicon: opens the lexical index in the catalog.
        derived: the external vector store, if any.

    Raises:
        NotAKnowledgeBase: the directory holds no knowledge base.
    """
    while True:
        generation = _read_generation(directory)
        report = _verify_once(directory, lexicon, derived)
        if report.is_sound or _read_generation(directory) == generation:
            return report


def _read_generation(directory: Path) -> int | None:
    """The generation; None if it cannot be read."""
    try:
        with closing(open_catalog(directory, verify_checksums=False)) as connection:
            return Catalog(connection).generation()
    except (KnowledgeBaseDamaged, sqlite3.DatabaseError, ValueError):
        return None


def _verify_once(
    directory: Path, lexicon: Callable[[sqlite3.Connection], LexicalIndex], derived: ExternalStore | None
) -> VerificationReport:
    changes = find_changed_files(directory)
    problems = [VerificationProblem("files", f"{change.file} {change.reason}") for change in changes]
    if (directory / CHECKSUM_FILE).exists() and read_checksums(directory) is None:
        problems.append(VerificationProblem("files", f"{CHECKSUM_FILE} cannot be read"))
    if (directory / MARKER_FILE).exists() and read_marker_id(directory) is None:
        problems.append(VerificationProblem("files", f"{MARKER_FILE} cannot be read"))
    try:
        connection = open_catalog(directory, verify_checksums=False)
    except KnowledgeBaseDamaged as error:
        problems.append(VerificationProblem("catalog", f"{CATALOG_FILE} {error.reason}"))
        return VerificationReport(place_name(directory), 0, 0, 0, tuple(problems))
    try:
        connection.execute("BEGIN")
        counts = [_count_rows(connection, f"{table} WHERE live = 1") for table in ("documents", "chunks")]
        vectors = _count_rows(connection, "vectors")
        problems += _find_catalog_problems(connection)
        problems += (vector_problems := list(_find_vector_problems(connection, directory)))
        problems += _find_lexical_problems(connection, lexicon(connection))
        if derived is not None:
            with closing(derived), _open_matrix(connection, None if vector_problems else directory) as matrix:
                lines = derived.find_problems(Catalog(connection), matrix)
                problems += [VerificationProblem("store", line) for line in lines]
    except sqlite3.DatabaseError as error:
        problems.append(VerificationProblem("catalog", f"{CATALOG_FILE} cannot be read ({error})"))
        return VerificationReport(place_name(directory), 0, 0, 0, tuple(problems))
    except CORRUPT_DATA_ERRORS as error:
        if not problems and read_checksums(directory) is not None:  # the checksum matches: a bug, not damage
            raise
        message = f"{CATALOG_FILE} cannot be parsed ({type(error).__name__}: {error})"
        problems.append(VerificationProblem("catalog", message))
        return VerificationReport(place_name(directory), 0, 0, 0, tuple(problems))
    finally:
        connection.close()
    return VerificationReport(place_name(directory), counts[0], counts[1], vectors, tuple(problems))


@contextmanager
def _open_matrix(connection: sqlite3.Connection, directory: Path | None) -> Iterator[NDArray[np.float32] | None]:
    """The rows of the current embedder; None if there is none, or no directory is given."""
    embedder = Catalog(connection).current_embedder()
    if embedder is None or directory is None:
        yield None
        return
    with closing(open_vectors(directory, embedder)) as file:
        yield file.matrix(embedder.rows)


def _count_rows(connection: sqlite3.Connection, selection: str) -> int:
    return int(connection.execute(f"SELECT count(*) FROM {selection}").fetchone()[0])  # noqa: S608 - constant names


def _find_catalog_problems(connection: sqlite3.Connection) -> Iterator[VerificationProblem]:
    for (line,) in connection.execute("PRAGMA integrity_check(20)"):
        if line != "ok":
            yield VerificationProblem("catalog", str(line))
    orphans = (
        ("chunks without a document", "chunks WHERE document NOT IN (SELECT key FROM documents)"),
        ("chunks whose live flag differs from that of their document",
         "chunks c JOIN documents d ON d.key = c.document WHERE c.live <> d.live"),
        ("live documents without a file", "documents WHERE live = 1 AND key NOT IN "
         "(SELECT document FROM files WHERE document IS NOT NULL)"),
        ("files with a missing document",
         "files WHERE document IS NOT NULL AND document NOT IN (SELECT key FROM documents WHERE live = 1)"),
    )  # fmt: skip
    for label, query in orphans:
        if count := _count_rows(connection, query):
            yield VerificationProblem("catalog", f"{count} {label}")
    for line in find_row_problems(connection):
        yield VerificationProblem("catalog", line)
    if Catalog(connection).has_contexts() and (count := _count_rows(connection, _CONTEXTS_WITHOUT_CHUNK)):
        yield VerificationProblem("catalog", f"{count} contexts without a chunk")


def _find_vector_problems(connection: sqlite3.Connection, directory: Path) -> Iterator[VerificationProblem]:
    for embedder in Catalog(connection).embedders():
        try:
            file = open_vectors(directory, embedder)
        except KnowledgeBaseError as error:
            yield VerificationProblem("vectors", str(error).removesuffix(f": run {repair_command(directory)}"))
            continue
        matrix = file.matrix(embedder.rows)
        bad = find_bad_rows(connection, embedder.key, matrix)
        if bad:
            message = f"{len(bad)} rows of {embedder.file} have a checksum mismatch (first: {bad[0]})"
            yield VerificationProblem("vectors", message)
        with np.errstate(over="ignore", invalid="ignore"):  # a flipped bit can produce any number
            lengths = np.linalg.norm(matrix, axis=1)
        if len(wrong := np.flatnonzero(~(np.abs(lengths - 1) < 1e-3))) and not bad:
            message = f"row {wrong[0]} of {embedder.file} must have length 1 (got {lengths[wrong[0]]:.4g})"
            yield VerificationProblem("vectors", message)
        file.close()
    if not Catalog(connection).has_vectors():
        return
    missing = _count_rows(
        connection,
        "chunks c WHERE NOT EXISTS (SELECT 1 FROM vectors v JOIN embedders e ON e.key = v.embedder"
        " JOIN meta m ON m.key = iif(c.vector < 0, 'static_embedder', 'embedder') AND m.value = e.fingerprint"
        " WHERE v.row = iif(c.vector < 0, ~c.vector, c.vector)) AND c.live = 1",
    )
    if missing:
        yield VerificationProblem("vectors", f"{missing} chunks have no vector")


def _find_lexical_problems(connection: sqlite3.Connection, lexicon: LexicalIndex) -> Iterator[VerificationProblem]:
    for problem in lexicon.find_problems():
        yield VerificationProblem("lexicon", problem)
    expected = {row[0] for row in connection.execute("SELECT key FROM chunks")}
    indexed = set(lexicon.keys().tolist())
    if expected - indexed:
        yield VerificationProblem("lexicon", f"{len(expected - indexed)} chunks are not indexed")
    if indexed - expected:
        yield VerificationProblem("lexicon", f"{len(indexed - expected)} entries have no chunk")
