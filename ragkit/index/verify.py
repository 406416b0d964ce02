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

from ragkit.errors import Damaged, KnowledgeBaseError
from ragkit.index.catalog import Catalog, checksum, document_of
from ragkit.index.derived import Derived
from ragkit.index.home import CATALOG, MARKER, marker_id, open_catalog, repair_command
from ragkit.index.schema import UNREADABLE
from ragkit.index.seal import SEAL_FILE, broken_seals, read_seal
from ragkit.index.unsealed import bad_rows
from ragkit.store.vectorfile import VectorFile


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is not as it should be."""

    part: str
    """`files`, `catalog`, `vectors`, `lexicon` or `store`."""
    what: str
    """One plain line."""


@dataclass(frozen=True)
class Verification:
    """What `verify` looked at and found."""

    kb: str
    documents: int
    chunks: int
    vectors: int
    problems: tuple[Problem, ...]
    repaired: tuple[str, ...] = ()
    """What was mended, a line each."""

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


class CheckableLexicon(Protocol):
    """The full text index, as far as it is checked here."""

    def keys(self) -> NDArray[np.int64]:
        """The chunks that are in it, rising."""

    def check(self) -> list[str]:
        """What is wrong inside it, a line each; empty when nothing is."""


def verify(
    directory: Path, lexicon: Callable[[sqlite3.Connection], CheckableLexicon], derived: Derived | None = None
) -> Verification:
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
        generation = _generation(directory)
        found = _verify(directory, lexicon, derived)
        if found.sound or _generation(directory) == generation:
            return found


def _generation(directory: Path) -> int | None:
    """How many times the content has changed; None where that cannot be read."""
    try:
        with closing(open_catalog(directory, check_seal=False)) as connection:
            return Catalog(connection).generation()
    except (Damaged, sqlite3.DatabaseError, ValueError):
        return None


def _verify(
    directory: Path, lexicon: Callable[[sqlite3.Connection], CheckableLexicon], derived: Derived | None
) -> Verification:
    problems = [Problem("files", f"{fault.file} {fault.reason}") for fault in broken_seals(directory)]
    if (directory / SEAL_FILE).exists() and read_seal(directory) is None:
        problems.append(Problem("files", f"{SEAL_FILE} cannot be read"))
    if (directory / MARKER).exists() and marker_id(directory) is None:
        problems.append(Problem("files", f"{MARKER} cannot be read"))
    try:
        connection = open_catalog(directory, check_seal=False)
    except Damaged as error:
        problems.append(Problem("catalog", f"{CATALOG} {error.reason}"))
        return Verification(str(directory), 0, 0, 0, tuple(problems))
    try:
        connection.execute("BEGIN")
        counts = [_count(connection, f"{table} WHERE live = 1") for table in ("documents", "chunks")]
        vectors = _count(connection, "vectors")
        problems += _catalog(connection)
        problems += (astray := list(_vectors(connection, directory)))
        problems += _lexicon(connection, lexicon(connection))
        if derived is not None:
            with closing(derived), _matrix(connection, None if astray else directory) as matrix:
                problems += [Problem("store", line) for line in derived.problems(Catalog(connection), matrix)]
    except sqlite3.DatabaseError as error:
        problems.append(Problem("catalog", f"{CATALOG} cannot be read ({error})"))
        return Verification(str(directory), 0, 0, 0, tuple(problems))
    except UNREADABLE as error:
        if not problems and read_seal(directory) is not None:  # the file is what was written: then it is no damage
            raise
        problems.append(Problem("catalog", f"{CATALOG} cannot be understood ({type(error).__name__}: {error})"))
        return Verification(str(directory), 0, 0, 0, tuple(problems))
    finally:
        connection.close()
    return Verification(str(directory), counts[0], counts[1], vectors, tuple(problems))


@contextmanager
def _matrix(connection: sqlite3.Connection, directory: Path | None) -> Iterator[NDArray[np.float32] | None]:
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


def _count(connection: sqlite3.Connection, what: str) -> int:
    return int(connection.execute(f"SELECT count(*) FROM {what}").fetchone()[0])  # noqa: S608 - names of ours


def _catalog(connection: sqlite3.Connection) -> Iterator[Problem]:
    for (line,) in connection.execute("PRAGMA integrity_check(20)"):
        if line != "ok":
            yield Problem("catalog", str(line))
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
        if count := _count(connection, query):
            yield Problem("catalog", f"{count} {what}")
    yield from _rows(connection)


def _rows(connection: sqlite3.Connection) -> Iterator[Problem]:
    """Every document and chunk against its checksum, and every chunk against its document's text."""
    columns = "key, id, source, title, format, language, metadata, page_starts, headings, body, checksum"
    for key, *values, crc in connection.execute(f"SELECT {columns} FROM documents"):  # noqa: S608
        if checksum(tuple(values)) != crc:
            yield Problem("catalog", f"the document of {values[1]} is not what was written")
            continue
        text = document_of(values).text
        chunks = connection.execute(
            "SELECT key, id, start, end, start_line, end_line, page, heading, text, checksum FROM chunks"
            " WHERE document = ?",
            (key,),
        )
        for chunk, *row, row_crc in chunks:
            if checksum(tuple(row)) != row_crc or text[row[1] : row[2]] != row[7]:
                yield Problem("catalog", f"chunk {chunk} of {values[1]} is not what was written")


def _vectors(connection: sqlite3.Connection, directory: Path) -> Iterator[Problem]:
    fix = repair_command(directory)
    for key, dimension, name, file_id, rows in connection.execute(
        "SELECT key, dimension, file, file_id, rows FROM embedders"
    ).fetchall():
        try:
            path = directory / name
            file = VectorFile.open(path, dimension=dimension, file_id=file_id, rows=rows, fix=fix)
        except KnowledgeBaseError as error:
            yield Problem("vectors", str(error).removesuffix(f": run {fix}"))
            continue
        matrix = file.matrix(rows)
        bad = bad_rows(connection, key, matrix)
        if bad:
            yield Problem("vectors", f"{len(bad)} rows of {name} are not what was written, the first is {bad[0]}")
        with np.errstate(over="ignore", invalid="ignore"):  # a flipped bit can make a number of any size
            lengths = np.linalg.norm(matrix, axis=1)
        if len(wrong := np.flatnonzero(~(np.abs(lengths - 1) < 1e-3))) and not bad:
            yield Problem("vectors", f"row {wrong[0]} of {name} has length {lengths[wrong[0]]:.4g}")
        file.close()
    missing = _count(
        connection,
        "chunks c WHERE NOT EXISTS (SELECT 1 FROM vectors v JOIN embedders e ON e.key = v.embedder"
        " JOIN meta m ON m.key = 'embedder' AND m.value = e.fingerprint WHERE v.row = c.vector) AND c.live = 1",
    )
    if missing:
        yield Problem("vectors", f"{missing} chunks have no vector")


def _lexicon(connection: sqlite3.Connection, lexicon: CheckableLexicon) -> Iterator[Problem]:
    for fault in lexicon.check():
        yield Problem("lexicon", fault)
    wanted = {row[0] for row in connection.execute("SELECT key FROM chunks")}
    there = set(lexicon.keys().tolist())
    if wanted - there:
        yield Problem("lexicon", f"{len(wanted - there)} chunks are missing from it")
    if there - wanted:
        yield Problem("lexicon", f"{len(there - wanted)} entries belong to no chunk")
