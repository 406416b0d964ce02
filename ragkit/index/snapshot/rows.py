"""Chunks and documents from rows of the catalog, each with its checksum verified."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ragkit.errors import KnowledgeBaseDamaged
from ragkit.index.catalog.directory import CATALOG_FILE, repair_command
from ragkit.index.catalog.sqlite import Catalog, document_from_row, heading_from_json, row_checksum
from ragkit.records import Chunk, Document

_DOCUMENT_SQL = (
    "SELECT id, source, title, format, language, metadata, page_starts, headings, body, checksum"
    " FROM documents WHERE live = 1"
)
_CHUNK_COLUMNS = (
    "c.key, c.id, c.start, c.end, c.start_line, c.end_line, c.page, c.heading, c.text, c.checksum,"
    " d.id, d.source, d.title, d.metadata"
)
CHUNKS_SQL = (
    f"SELECT {_CHUNK_COLUMNS}, NULL, NULL FROM chunks c JOIN documents d ON d.key = c.document"  # noqa: S608
    " WHERE c.live = 1"
)
_CHUNKS_WITH_CONTEXT_SQL = (
    f"SELECT {_CHUNK_COLUMNS}, x.sentence, x.checksum FROM chunks c JOIN documents d ON d.key = c.document"  # noqa: S608
    " LEFT JOIN chunk_contexts x ON x.chunk = c.key WHERE c.live = 1"
)


class CatalogRows:
    """The live rows of one generation. Raises KnowledgeBaseDamaged on a checksum mismatch."""

    def __init__(
        self, connection: sqlite3.Connection, directory: Path, verified_documents: set[str], *, is_verified: bool
    ) -> None:
        """`is_verified`: all files were verified on open; else documents are, once each: `verified_documents`."""
        self._connection = connection
        self._directory = directory
        self._verified = verified_documents
        self._is_verified = is_verified
        self.chunks_sql = _CHUNKS_WITH_CONTEXT_SQL if Catalog(connection).has_contexts() else CHUNKS_SQL
        """Selects the live chunks; conditions on `c` (chunks) and `d` (documents) may follow."""

    def document(self, column: str, value: str) -> Document | None:
        """The live document with a value in a column, with its complete text."""
        query = f"{_DOCUMENT_SQL} AND {column} = ? ORDER BY source LIMIT 1"
        row = self._connection.execute(query, (value,)).fetchone()
        if row is None:
            return None
        self._verify(row[-1], row[:-1], f"the document {row[1]}")
        return document_from_row(row[:-1])

    def chunk(self, row: tuple[Any, ...]) -> Chunk:
        """A chunk from its row of `chunks_sql`."""
        key, *values, crc, document_id, source, title, metadata, context, context_crc = row
        self._verify(crc, values, f"chunk {key}")
        if context is not None:
            self._verify(context_crc, (key, context), f"the context of chunk {key}")
        identity, start, end, start_line, end_line, page, heading, text = values
        self._verify_document(document_id)
        path, place = heading_from_json(heading)
        return Chunk(
            id=identity,
            document_id=document_id,
            source=source,
            text=text,
            start=start,
            end=end,
            start_line=start_line,
            end_line=end_line,
            page=page,
            heading=path,
            title=title,
            metadata=json.loads(metadata),
            place=place,
            context=context or "",
        )

    def _verify(self, stored: object, values: Sequence[object], label: str) -> None:
        if stored != row_checksum(tuple(values)):
            raise self.damaged(f"has a checksum mismatch ({label})")

    def _verify_document(self, document_id: str) -> None:
        """Verify the row of a document, whose fields are part of each of its chunks, if there is no checksum file."""
        if self._is_verified or document_id in self._verified:
            return
        row = self._connection.execute(f"{_DOCUMENT_SQL} AND id = ?", (document_id,)).fetchone()
        self._verify(row and row[-1], row[:-1] if row else (), f"the document {document_id}")
        self._verified.add(document_id)

    def damaged(self, reason: str) -> KnowledgeBaseDamaged:
        """The error for a row that is missing or not as it was written."""
        return KnowledgeBaseDamaged(str(self._directory / CATALOG_FILE), reason, repair_command(self._directory))
