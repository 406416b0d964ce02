"""Hold a knowledge base against itself: do its parts agree, and is each row what was written?"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ragkit.errors import KnowledgeBaseDamaged, KnowledgeBaseError
from ragkit.index.catalog.checksums import CHECKSUM_FILE, find_changed_files, read_checksums
from ragkit.index.catalog.directory import CATALOG_FILE, MARKER_FILE, open_catalog, read_marker_id, repair_command
from ragkit.index.catalog.row_checks import find_bad_rows
from ragkit.index.catalog.schema import CORRUPT_DATA_ERRORS
from ragkit.index.catalog.sqlite import Catalog, document_from_row, row_checksum
from ragkit.index.external_store import ExternalStore
from ragkit.store.native.vector_file import VectorFile


@dataclass(frozen=True, slots=True)
class VerificationProblem:
    """Something that is not as it should be."""

    part: str
    """`files`, `catalog`, `vectors`, `lexicon` or `store`."""
    message: str
    """One plain line."""


@dataclass(frozen=True)
class VerificationReport:
    """What `verify` looked at and found."""

    kb: str
    documents: int
    chunks: int
    vectors: int
    problems: tuple[VerificationProblem, ...]
    repaired: tuple[str, ...] = ()
    """What was mended, a line each."""

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


class LexicalIndexChecker(Protocol):
    """The full text index, as far as it is checked here."""

    def keys(self) -> NDArray[np.int64]:
        """The chunks that are in it, rising."""

    def find_problems(self) -> list[str]:
        """What is wrong inside it, a line each; empty when nothing is."""


def verify(
    directory: Path, lexicon: Callable[[sqlite3.Connection], LexicalIndexChecker], derived: ExternalStore | None = None
) -> VerificationReport:
    """Read all of a knowledge base and say what is wrong with it. Changes nothing.

    What is wrong is looked at again when a writer was at work meanwhile: it may have taken files away.

    Args:
        directory: where it is.
        lexicon: opens the full text index in its catalog.
        derived: the vector store beside the catalog, if there is one.

    Raises:
        NotAKnowledgeBase: there is none.
    """
    while True:
        generation = _read_generation(directory)
        found = _verify_once(directory, lexicon, derived)
        if found.is_sound or _read_generation(directory) == generation:
            return found


def _read_generation(directory: Path) -> int | None:
    """How many times the content has changed; None where that cannot be read."""
    try:
        with closing(open_catalog(directory, check_seal=False)) as connection:
            return Catalog(connection).generation()
    except (KnowledgeBaseDamaged, sqlite3.DatabaseError, ValueError):
        return None


def _verify_once(
    directory: Path, lexicon: Callable[[sqlite3.Connection], LexicalIndexChecker], derived: ExternalStore | None
) -> VerificationReport:
    problems = [VerificationProblem("files", f"{fault.file} {fault.reason}") for fault in find_changed_files(directory)]
    if (directory / CHECKSUM_FILE).exists() and read_checksums(directory) is None:
        problems.append(VerificationProblem("files", f"{CHECKSUM_FILE} cannot be read"))
    if (directory / MARKER_FILE).exists() and read_marker_id(directory) is None:
        problems.append(VerificationProblem("files", f"{MARKER_FILE} cannot be read"))
    try:
        connection = open_catalog(directory, check_seal=False)
    except KnowledgeBaseDamaged as error:
        problems.append(VerificationProblem("catalog", f"{CATALOG_FILE} {error.reason}"))
        return VerificationReport(str(directory), 0, 0, 0, tuple(problems))
    try:
        connection.execute("BEGIN")
        counts = [_count_rows(connection, f"{table} WHERE live = 1") for table in ("documents", "chunks")]
        vectors = _count_rows(connection, "vectors")
        problems += _find_catalog_problems(connection)
        problems += (astray := list(_find_vector_problems(connection, directory)))
        problems += _find_lexical_problems(connection, lexicon(connection))
        if derived is not None:
            with closing(derived), _open_matrix(connection, None if astray else directory) as matrix:
                problems += [
                    VerificationProblem("store", line) for line in derived.find_problems(Catalog(connection), matrix)
                ]
    except sqlite3.DatabaseError as error:
        problems.append(VerificationProblem("catalog", f"{CATALOG_FILE} cannot be read ({error})"))
        return VerificationReport(str(directory), 0, 0, 0, tuple(problems))
    except CORRUPT_DATA_ERRORS as error:
        if not problems and read_checksums(directory) is not None:  # the file is what was written: then it is no damage
            raise
        problems.append(
            VerificationProblem("catalog", f"{CATALOG_FILE} cannot be understood ({type(error).__name__}: {error})")
        )
        return VerificationReport(str(directory), 0, 0, 0, tuple(problems))
    finally:
        connection.close()
    return VerificationReport(str(directory), counts[0], counts[1], vectors, tuple(problems))


@contextmanager
def _open_matrix(connection: sqlite3.Connection, directory: Path | None) -> Iterator[NDArray[np.float32] | None]:
    """The rows of the embedder in use; None when there is none, or they cannot be trusted (no directory is given)."""
    row = connection.execute(
        "SELECT file, dimension, file_id, rows FROM embedders e JOIN meta m ON m.key = 'embedder'"
        " AND m.value = e.fingerprint"
    ).fetchone()
    if row is None or directory is None:
        yield None
        return
    name, dimension, file_id, rows = row
    fix = repair_command(directory)
    with closing(VectorFile.open(directory / name, dimension=dimension, file_id=file_id, rows=rows, fix=fix)) as file:
        yield file.matrix(rows)


def _count_rows(connection: sqlite3.Connection, what: str) -> int:
    return int(connection.execute(f"SELECT count(*) FROM {what}").fetchone()[0])  # noqa: S608 - names of ours


def _find_catalog_problems(connection: sqlite3.Connection) -> Iterator[VerificationProblem]:
    for (line,) in connection.execute("PRAGMA integrity_check(20)"):
        if line != "ok":
            yield VerificationProblem("catalog", str(line))
    orphans = (
        ("chunks without a document", "chunks WHERE document NOT IN (SELECT key FROM documents)"),
        ("chunks that are visible while their document is not, or the other way round",
         "chunks c JOIN documents d ON d.key = c.document WHERE c.live <> d.live"),
        ("visible documents of no file", "documents WHERE live = 1 AND key NOT IN "
         "(SELECT document FROM files WHERE document IS NOT NULL)"),
        ("files whose document is missing",
         "files WHERE document IS NOT NULL AND document NOT IN (SELECT key FROM documents WHERE live = 1)"),
    )  # fmt: skip
    for what, query in orphans:
        if count := _count_rows(connection, query):
            yield VerificationProblem("catalog", f"{count} {what}")
    yield from _find_row_problems(connection)


def _find_row_problems(connection: sqlite3.Connection) -> Iterator[VerificationProblem]:
    """Every document and chunk against its checksum, and every chunk against its document's text."""
    columns = "key, id, source, title, format, language, metadata, page_starts, headings, body, checksum"
    for key, *values, crc in connection.execute(f"SELECT {columns} FROM documents"):  # noqa: S608
        if row_checksum(tuple(values)) != crc:
            yield VerificationProblem("catalog", f"the document of {values[1]} is not what was written")
            continue
        text = document_from_row(values).text
        chunks = connection.execute(
            "SELECT key, id, start, end, start_line, end_line, page, heading, text, checksum FROM chunks"
            " WHERE document = ?",
            (key,),
        )
        for chunk, *row, row_crc in chunks:
            if row_checksum(tuple(row)) != row_crc or text[row[1] : row[2]] != row[7]:
                yield VerificationProblem("catalog", f"chunk {chunk} of {values[1]} is not what was written")


def _find_vector_problems(connection: sqlite3.Connection, directory: Path) -> Iterator[VerificationProblem]:
    fix = repair_command(directory)
    for key, dimension, name, file_id, rows in connection.execute(
        "SELECT key, dimension, file, file_id, rows FROM embedders"
    ).fetchall():
        try:
            path = directory / name
            file = VectorFile.open(path, dimension=dimension, file_id=file_id, rows=rows, fix=fix)
        except KnowledgeBaseError as error:
            yield VerificationProblem("vectors", str(error).removesuffix(f": run {fix}"))
            continue
        matrix = file.matrix(rows)
        bad = find_bad_rows(connection, key, matrix)
        if bad:
            yield VerificationProblem(
                "vectors", f"{len(bad)} rows of {name} are not what was written, the first is {bad[0]}"
            )
        with np.errstate(over="ignore", invalid="ignore"):  # a flipped bit can make a number of any size
            lengths = np.linalg.norm(matrix, axis=1)
        if len(wrong := np.flatnonzero(~(np.abs(lengths - 1) < 1e-3))) and not bad:
            yield VerificationProblem("vectors", f"row {wrong[0]} of {name} has length {lengths[wrong[0]]:.4g}")
        file.close()
    missing = _count_rows(
        connection,
        "chunks c WHERE NOT EXISTS (SELECT 1 FROM vectors v JOIN embedders e ON e.key = v.embedder"
        " JOIN meta m ON m.key = 'embedder' AND m.value = e.fingerprint WHERE v.row = c.vector) AND c.live = 1",
    )
    if missing:
        yield VerificationProblem("vectors", f"{missing} chunks have no vector")


def _find_lexical_problems(
    connection: sqlite3.Connection, lexicon: LexicalIndexChecker
) -> Iterator[VerificationProblem]:
    for fault in lexicon.find_problems():
        yield VerificationProblem("lexicon", fault)
    wanted = {row[0] for row in connection.execute("SELECT key FROM chunks")}
    there = set(lexicon.keys().tolist())
    if wanted - there:
        yield VerificationProblem("lexicon", f"{len(wanted - there)} chunks are missing from it")
    if there - wanted:
        yield VerificationProblem("lexicon", f"{len(there - wanted)} entries belong to no chunk")
