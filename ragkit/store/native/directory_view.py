"""What one search of a `DirectoryStore` sees: the committed rows of one generation, and how to read them."""

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
"""Values in one SQL list; SQLite takes 32,766, older ones 999."""

ItemT = TypeVar("ItemT")


class StaleView(Exception):
    """A write came between a view and what was read for it; ask again within a transaction."""


@dataclass(frozen=True)
class StoreView:
    """The store at one generation. Many threads may use it; each brings a connection whose transaction sees it."""

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
        """The rows that count; None for all."""
        return self.is_live if self.state.documents < self.state.rows else None

    def allowed_rows(self, connection: sqlite3.Connection, node: FilterNode) -> AllowedRows:
        """The rows that count and that the filter lets through; None for all."""
        live = self.live_mask()
        if isinstance(node, Always):
            return live
        self.metadata_index.extend_to(self.state.rows, lambda first: self._read_metadata(connection, first))
        mask = self.metadata_index.mask(node, self.state.rows)
        return mask if live is None else mask & live

    def read_ids(self, connection: sqlite3.Connection, rows: RowNumbers) -> list[str]:
        """The ids of some live rows, in their order."""
        found: dict[int, bytes] = {}
        for some in batches(rows.tolist(), _SQL_BATCH):
            sql = f"SELECT row, id FROM documents WHERE row IN ({placeholders(some)})"  # noqa: S608  # question marks only
            found.update(connection.execute(sql, some))
        if len(found) < len(rows):
            raise KnowledgeBaseDamaged(str(self.directory), "lacks documents that its vectors belong to", REPAIR_HINT)
        return [decode_id(found[row]) for row in rows.tolist()]

    def read_documents(self, connection: sqlite3.Connection, rows: RowNumbers) -> list[Document]:
        """The documents of some live rows, in their order.

        Raises:
            KnowledgeBaseDamaged: one of them, or its vector, was altered.
            StaleView: there is no transaction, and a write has made another generation.
        """
        found: list[Document] = []
        for start in range(0, len(rows), _SQL_BATCH):
            some = rows[start : start + _SQL_BATCH]
            numbers = some.tolist()
            block = connection.execute(_select_by_rows(len(numbers)), numbers).fetchall()
            if block and block[0][-1] != self.state.generation:
                raise StaleView
            if [columns[0] for columns in block] != numbers:
                raise KnowledgeBaseDamaged(
                    str(self.directory), "lacks documents that its vectors belong to", REPAIR_HINT
                )
            self._verify_vectors(some, block)
            found += [decode_document(columns, self.directory) for columns in block]
        return found

    def iter_documents(
        self, connection: sqlite3.Connection, clause: str, values: Sequence[int] = ()
    ) -> Iterator[tuple[int, Document]]:
        """(row, document) for what a WHERE or ORDER BY clause selects, streamed and checked.

        So is what filters are judged on, which a search does not look at.
        """
        columns = f"{DOCUMENT_COLUMNS}, json, metadata.checksum"
        tables = "documents LEFT JOIN metadata USING (row)"
        cursor = connection.execute(f"SELECT {columns} FROM {tables} {clause}", values)  # noqa: S608  # words of ours
        while block := cursor.fetchmany(_SQL_BATCH):
            rows = np.array([columns[0] for columns in block])
            if rows.max() >= len(self.matrix):
                raise KnowledgeBaseDamaged(str(self.directory), "holds documents without a vector", REPAIR_HINT)
            self._verify_vectors(rows, block)
            for columns in block:
                *document, json_checksum = columns
                if column_checksum((columns[-2],)) != json_checksum:
                    raise KnowledgeBaseDamaged(
                        str(self.directory), f"holds altered metadata in row {columns[0]}", REPAIR_HINT
                    )
                yield columns[0], decode_document(document, self.directory)

    def _verify_vectors(self, rows: RowNumbers, block: Sequence[Sequence[Any]]) -> None:
        """Raises KnowledgeBaseDamaged when the vector of a document was altered."""
        sums = row_checksums(self.matrix.take(rows, axis=0)).tolist()
        if sums != [columns[6] for columns in block]:
            wrong = next(columns[0] for columns, vector in zip(block, sums, strict=True) if columns[6] != vector)
            raise KnowledgeBaseDamaged(
                str(self.directory / self.state.file), f"has an altered row {wrong}", REPAIR_HINT
            )

    def _read_metadata(self, connection: sqlite3.Connection, first: int) -> Iterator[Metadata]:
        """The metadata of every row from `first` on, dead ones too."""
        sql = "SELECT row, json, checksum FROM metadata WHERE row >= ? AND row < ? ORDER BY row"
        parsed: dict[str, Metadata] = {}
        expected = first
        for row, text, stored in connection.execute(sql, (first, self.state.rows)):
            if row != expected or column_checksum((text,)) != stored:
                raise KnowledgeBaseDamaged(
                    str(self.directory), f"holds altered metadata in row {expected}", REPAIR_HINT
                )
            expected += 1
            if text not in parsed:  # the chunks of one document have theirs in common
                parsed = {text: json.loads(text)}
            yield parsed[text]
        if expected != self.state.rows:
            raise KnowledgeBaseDamaged(str(self.directory), f"lacks the metadata of row {expected}", REPAIR_HINT)


def open_view(
    directory: Path, connection: sqlite3.Connection, state: StoreState, before: StoreView | None
) -> StoreView:
    """The view of what is committed; what it shares with the one before is taken over, not read again.

    Raises:
        KnowledgeBaseDamaged: the vector file is missing, cut short or another one.
    """
    if not state.file:
        return StoreView(
            directory, state, None, np.empty((0, 0), np.float32), np.empty(0, bool), MetadataIndex(), Scanner()
        )
    is_live = np.ones(state.rows, bool)
    if before is not None and before.file is not None and before.file.file_id == state.file_id:
        file, columns, scanner, since = before.file, before.metadata_index, before.scanner, before.state.generation
        is_live[: before.state.rows] = before.is_live
    else:
        file, columns, since = open_vector_file(directory, state), MetadataIndex(), -1
        scanner = Scanner(file.path.with_suffix(".i8"), state.file_id)
    dead = connection.execute("SELECT row FROM dead WHERE generation > ?", (since,)).fetchall()
    is_live[np.array(dead, np.int64).reshape(-1)] = False
    return StoreView(directory, state, file, file.matrix(state.rows), is_live, columns, scanner)


def open_vector_file(directory: Path, state: StoreState, *, writable: bool = False) -> VectorFile:
    """The vector file that the state speaks of. Raises KnowledgeBaseDamaged."""
    return VectorFile.open(
        directory / state.file,
        dimension=state.dimension,
        file_id=state.file_id,
        rows=state.rows,
        fix=REPAIR_HINT,
        writable=writable,
    )


def batches(items: Sequence[ItemT], size: int = _SQL_BATCH) -> Iterator[Sequence[ItemT]]:
    """The items in runs of at most `size`."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def placeholders(items: Sequence[object]) -> str:
    """A question mark for each item, for an SQL list."""
    return ", ".join("?" * len(items))


@lru_cache(maxsize=_SQL_BATCH)
def _select_by_rows(number: int) -> str:
    """The statement that reads so many documents by their rows, in that order, each with the generation it is of.

    A list for IN would be sorted first. What joins are crossed is gone through as it is written.
    """
    return (
        f"WITH wanted (row) AS (VALUES {', '.join(['(?)'] * number)})"  # noqa: S608
        f" SELECT {DOCUMENT_COLUMNS}, (SELECT generation FROM state WHERE format = {LAYOUT_VERSION})"
        " FROM wanted CROSS JOIN documents ON documents.row = wanted.row"
    )
