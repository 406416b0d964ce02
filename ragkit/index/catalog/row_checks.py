"""Verify vectors, documents, chunks and contexts against the checksums of their rows in the catalog."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ragkit.errors import KnowledgeBaseDamaged
from ragkit.index.catalog.checksums import read_checksums
from ragkit.index.catalog.directory import CATALOG_FILE, open_catalog, open_vectors, repair_command
from ragkit.index.catalog.sqlite import Catalog, document_from_row, row_checksum
from ragkit.sqlite_errors import DATABASE_ERRORS
from ragkit.store.native.vector_file import row_checksums


def verify_before_writing(directory: Path) -> None:
    """Verify the files of a knowledge base; if there is no checksum file, all of its rows.

    An interrupted run leaves no checksum file. The next run must not write checksums of rows damaged since then. The
    caller holds the writer lock: without it, rows that another process is writing would be reported.

    Raises:
        NotAKnowledgeBase, KnowledgeBaseDamaged: as `open_catalog`.
    """
    with closing(open_catalog(directory, locked=True)) as connection:
        if read_checksums(directory) is not None:
            return
        fix = repair_command(directory)
        for embedder in Catalog(connection).embedders():
            with closing(open_vectors(directory, embedder)) as file:
                verify_vector_rows(connection, embedder.key, file.matrix(embedder.rows), file.path, fix)
        try:
            problem = next(find_row_problems(connection), None)
        except DATABASE_ERRORS as error:
            raise KnowledgeBaseDamaged(str(directory / CATALOG_FILE), f"cannot be read ({error})", fix) from error
        if problem:
            raise KnowledgeBaseDamaged(str(directory / CATALOG_FILE), f"is damaged: {problem}", fix)


def verify_vector_rows(
    connection: sqlite3.Connection, embedder: int, matrix: NDArray[np.float32], path: Path, fix: str
) -> None:
    """Compare every vector row with its checksum in the catalog. Raises KnowledgeBaseDamaged."""
    bad = find_bad_rows(connection, embedder, matrix)
    if bad:
        raise KnowledgeBaseDamaged(str(path), f"has a checksum mismatch in {len(bad)} rows (first: {bad[0]})", fix)


def find_bad_rows(connection: sqlite3.Connection, embedder: int, matrix: NDArray[np.float32]) -> list[int]:
    """Numbers of the rows whose checksum differs or that the file lacks, ascending."""
    pairs = connection.execute("SELECT row, checksum FROM vectors WHERE embedder = ? ORDER BY row", (embedder,))
    rows, stored = np.ascontiguousarray(np.array(pairs.fetchall(), np.int64).reshape(-1, 2).T)
    present = (rows >= 0) & (rows < len(matrix))
    bad = ~present
    bad[present] = row_checksums(matrix)[rows[present]] != stored[present]
    return [int(row) for row in rows[bad]]


def find_row_problems(connection: sqlite3.Connection) -> Iterator[str]:
    """Compare settings, documents, chunks and contexts with their checksums, and chunks with the text of the document.

    Yields one line for each problem.
    """
    if not Catalog(connection).has_intact_settings():
        yield "the settings have a checksum mismatch"
    columns = "key, id, source, title, format, language, metadata, page_starts, headings, body, checksum"
    for key, *values, crc in connection.execute(f"SELECT {columns} FROM documents"):  # noqa: S608
        if row_checksum(tuple(values)) != crc:
            yield f"the document of {values[1]} has a checksum mismatch"
            continue
        text = document_from_row(values).text
        chunks = connection.execute(
            "SELECT key, id, start, end, start_line, end_line, page, heading, text, checksum FROM chunks"
            " WHERE document = ?",
            (key,),
        )
        for chunk, *row, row_crc in chunks:
            if row_checksum(tuple(row)) != row_crc or text[row[1] : row[2]] != row[7]:
                yield f"chunk {chunk} of {values[1]} has a checksum mismatch"
    if not Catalog(connection).has_contexts():
        return
    for table, column in (("chunk_contexts", "chunk"), ("contexts", "request")):
        for *values, crc in connection.execute(f"SELECT {column}, sentence, checksum FROM {table}"):  # noqa: S608
            if row_checksum(tuple(values)) != crc:
                yield f"a row of {table} has a checksum mismatch"
