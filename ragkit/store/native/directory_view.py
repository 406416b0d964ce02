"""A snapshot of a `DirectoryStore`: the committed rows of one generation, and functions to read them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ragkit.errors import KnowledgeBaseDamaged
from ragkit.records import Document, Metadata
from ragkit.store.base import Rows
from ragkit.store.filters.language import Always, FilterNode
from ragkit.store.native.directory_tables import (
    DOCUMENT_COLUMNS,
    LAYOUT_VERSION,
    REPAIR_HINT,
    StoreState,
    column_checksum,
    decode_document,
    decode_id,
)
from ragkit.store.native.exact_search import AllowedRows, RowNumbers
from ragkit.store.native.metadata_index import MetadataIndex
from ragkit.store.native.scanner import Scanner
from ragkit.store.native.vector_file import VectorFile, row_checksums

_SQL_BATCH = 500
"""Values in one SQL list; SQLite allows 32,766, older versions 999."""

ItemT = TypeVar("ItemT")


class StaleView(Exception):
    """A write committed after the view was opened; repeat the search in a transaction."""


@dataclass(frozen=True)
class StoreView:
    """The store at one generation. Safe for several threads, each with a connection whose transaction sees it."""

    directory: Path
    state: StoreState
    file: VectorFile | None
    """None before the first rows."""
    matrix: Rows
    """(state.rows, dimension)"""
    is_live: NDArray[np.bool_]
    """(state.rows,)"""
    metadata_index: MetadataIndex
    scanner: Scanner

    def live_mask(self) -> NDArray[np.bool_] | None:
        """The live rows; None for all."""
        return self.is_live if self.state.documents < self.state.rows else None

    def allowed_rows(self, connection: sqlite3.Connection, node: FilterNode) -> AllowedRows:
        """The live rows that match the filter; None for all."""
        live = self.live_mask()
        if isinstance(node, Always):
            return live
        self.metadata_index.extend_to(self.state.rows, lambda first: self._read_metadata(connection, first))
        mask = self.metadata_index.mask(node, self.state.rows)
        return mask if live is None else mask & live

    def read_ids(self, connection: sqlite3.Connection, rows: RowNumbers) -> list[str]:
        """The ids of some live rows, in their order. Raises KnowledgeBaseDamaged if a document is missing."""
        ids: dict[int, bytes] = {}
        for batch in batches(rows.tolist()):
            sql = f"SELECT row, id FROM documents WHERE row IN ({placeholders(batch)})"  # noqa: S608  # question marks only
            ids.update(connection.execute(sql, batch))
        if len(ids) < len(rows):
            raise self._damaged("lacks the documents of some vectors")
        return [decode_id(ids[row]) for row in rows.tolist()]

    def read_documents(self, connection: sqlite3.Connection, rows: RowNumbers) -> list[Document]:
        """The documents of some live rows, in their order.

        Raises:
            KnowledgeBaseDamaged: a document is missing, or it or its vector was altered.
            StaleView: outside a transaction, if a write committed another generation.
        """
        documents: list[Document] = []
        for start in range(0, len(rows), _SQL_BATCH):
            batch = rows[start : start + _SQL_BATCH]
            numbers = batch.tolist()
            block = connection.execute(_select_by_rows(len(numbers)), numbers).fetchall()
            if block and block[0][-1] != self.state.generation:
                raise StaleView
            if [columns[0] for columns in block] != numbers:
                raise self._damaged("lacks the documents of some vectors")
            self._verify_vectors(batch, block)
            documents += [decode_document(columns, self.directory) for columns in block]
        return documents

    def iter_documents(
        self, connection: sqlite3.Connection, clause: str, values: Sequence[int] = ()
    ) -> Iterator[tuple[int, Document]]:
        """(row, document) for the rows that a WHERE or ORDER BY clause selects, streamed.

        Verifies the checksums of the documents, of their vectors and of the metadata for filters.
        """
        columns = f"{DOCUMENT_COLUMNS}, json, metadata.checksum"
        tables = "documents LEFT JOIN metadata USING (row)"
        cursor = connection.execute(f"SELECT {columns} FROM {tables} {clause}", values)  # noqa: S608  # constants
        while block := cursor.fetchmany(_SQL_BATCH):
            rows = np.array([columns[0] for columns in block])
            if rows.max() >= len(self.matrix):
                raise self._damaged("has documents without a vector")
            self._verify_vectors(rows, block)
            for columns in block:
                *document, json_checksum = columns
                if column_checksum((columns[-2],)) != json_checksum:
                    raise self._damaged(f"has altered metadata in row {columns[0]}")
                yield columns[0], decode_document(document, self.directory)

    def _verify_vectors(self, rows: RowNumbers, block: Sequence[Sequence[Any]]) -> None:
        """Raise KnowledgeBaseDamaged if the vector of a document was altered."""
        checksums = row_checksums(self.matrix.take(rows, axis=0)).tolist()
        if checksums != [columns[6] for columns in block]:
            altered = next(columns[0] for columns, vector in zip(block, checksums, strict=True) if columns[6] != vector)
            path = str(self.directory / self.state.file)
            raise KnowledgeBaseDamaged(path, f"has a checksum mismatch in row {altered}", REPAIR_HINT)

    def _read_metadata(self, connection: sqlite3.Connection, first: int) -> Iterator[Metadata]:
        """The metadata of every row from `first` on, dead ones included."""
        sql = "SELECT row, json, checksum FROM metadata WHERE row >= ? AND row < ? ORDER BY row"
        parsed: dict[str, Metadata] = {}
        expected = first
        for row, text, stored in connection.execute(sql, (first, self.state.rows)):
            if row != expected or column_checksum((text,)) != stored:
                raise self._damaged(f"has altered metadata in row {expected}")
            expected += 1
            if text not in parsed:  # consecutive chunks of one document often have the same metadata
                parsed = {text: json.loads(text)}
            yield parsed[text]
        if expected != self.state.rows:
            raise self._damaged(f"lacks the metadata of row {expected}")

    def _damaged(self, reason: str) -> KnowledgeBaseDamaged:
        return KnowledgeBaseDamaged(str(self.directory), reason, REPAIR_HINT)


def open_view(directory: Path, connection: sqlite3.Connection, state: StoreState, old: StoreView | None) -> StoreView:
    """The view of the committed state; it reuses what it shares with the old view.

    Raises:
        KnowledgeBaseDamaged: the vector file is missing, truncated or belongs to another index.
    """
    if not state.file:
        matrix, is_live = np.empty((0, 0), np.float32), np.empty(0, bool)
        return StoreView(directory, state, None, matrix, is_live, MetadataIndex(), Scanner())
    is_live = np.ones(state.rows, bool)
    if old is not None and old.file is not None and old.file.file_id == state.file_id:
        file, columns, scanner, since = old.file, old.metadata_index, old.scanner, old.state.generation
        is_live[: old.state.rows] = old.is_live
    else:
        file, columns, since = open_vector_file(directory, state), MetadataIndex(), -1
        scanner = Scanner(file.path.with_suffix(".i8"), state.file_id)
    dead = connection.execute("SELECT row FROM dead WHERE generation > ?", (since,)).fetchall()
    is_live[np.array(dead, np.int64).reshape(-1)] = False
    return StoreView(directory, state, file, file.matrix(state.rows), is_live, columns, scanner)


def open_vector_file(directory: Path, state: StoreState, *, writable: bool = False) -> VectorFile:
    """The vector file of the state. Raises KnowledgeBaseDamaged."""
    return VectorFile.open(
        directory / state.file,
        dimension=state.dimension,
        file_id=state.file_id,
        rows=state.rows,
        fix=REPAIR_HINT,
        writable=writable,
    )


def batches(items: Sequence[ItemT], size: int = _SQL_BATCH) -> Iterator[Sequence[ItemT]]:
    """Batches of at most `size` items."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def placeholders(items: Sequence[object]) -> str:
    """A question mark per item, separated by commas."""
    return ", ".join("?" * len(items))


@lru_cache(maxsize=_SQL_BATCH)
def _select_by_rows(number: int) -> str:
    """The statement that reads `number` documents by their rows, in the given order, and the generation.

    SQLite sorts a list for IN, but evaluates a CROSS JOIN in the order of the tables.
    """
    return (
        f"WITH requested (row) AS (VALUES {', '.join(['(?)'] * number)})"  # noqa: S608  # constants
        f" SELECT {DOCUMENT_COLUMNS}, (SELECT generation FROM state WHERE format = {LAYOUT_VERSION})"
        " FROM requested CROSS JOIN documents ON documents.row = requested.row"
    )
