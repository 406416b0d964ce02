"""The source `sql`: the rows of a query over SQLite or PostgreSQL, one document each."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import date, datetime
from decimal import Decimal
from hashlib import blake2b
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ragkit.errors import LoadError
from ragkit.load.process.saved_document import SAVED_DOCUMENT_SUFFIX, dump_document
from ragkit.load.shared.access_field import access_value, is_access_field
from ragkit.load.sources.base import DocumentGone, SourceContext, SourceFile, SourceItem
from ragkit.load.sources.options import SqlOptions
from ragkit.masking import mask_passwords
from ragkit.records import JSON, Document

FETCH_ROWS = 500
"""Rows read at a time."""


class SqlSource:
    """The key of a row is `sql://label/key`."""

    def __init__(self, options: SqlOptions) -> None:
        self._options = options

    @property
    def location(self) -> str:
        """The label."""
        return self._options.label

    def list(self, context: SourceContext) -> Iterator[SourceItem]:
        """Every row; see `Source.list`."""
        chosen = self._options
        if not chosen.changed:
            for row in self._rows(chosen.query):
                file = self._to_file(row)
                yield SourceItem(self._key(row), blake2b(file.data, digest_size=16).hexdigest(), file=file)
            return
        columns = f"{_quoted(chosen.key)}, {_quoted(chosen.changed)}"
        for row in self._rows(f"SELECT {columns} FROM ({chosen.query}) AS ragkit_rows"):  # noqa: S608 - of the user
            yield SourceItem(self._key(row), str(row[chosen.changed]), path=str(row[chosen.key]))

    def fetch(self, item: SourceItem, context: SourceContext) -> SourceFile:
        """The document of one row; see `Source.fetch`."""
        chosen, marker = self._options, "%s" if self._is_postgres else "?"
        where = f"CAST({_quoted(chosen.key)} AS TEXT) = {marker}"
        query = f"SELECT * FROM ({chosen.query}) AS ragkit_rows WHERE {where}"  # noqa: S608 - the query is the user's
        for row in self._rows(query, (item.path,)):
            return self._to_file(row)
        raise DocumentGone(item.key, "was deleted", "run again")

    @property
    def _is_postgres(self) -> bool:
        return self._options.database.startswith(("postgresql://", "postgres://"))

    def _key(self, row: Mapping[str, object]) -> str:
        return f"sql://{self._options.label}/{quote(str(row[self._options.key]), safe='')}"

    def _rows(self, query: str, values: Sequence[str] = ()) -> Iterator[Mapping[str, object]]:
        with self._translate_errors(), closing(self._connect()) as connection, closing(connection.cursor()) as cursor:
            cursor.execute(query, values or None) if self._is_postgres else cursor.execute(query, values)
            names = [column[0] for column in cursor.description or ()]
            chosen = self._options
            wanted = [chosen.key] if values or "ragkit_rows" in query else [chosen.key, *chosen.text, *chosen.metadata]
            missing = [name for name in wanted if name not in names]
            if missing:
                reason = f"the query has no column {missing[0]!r} (it has {', '.join(names)})"
                raise LoadError(self.location, reason, "correct `query`, or the name of the column")
            while rows := cursor.fetchmany(FETCH_ROWS):
                yield from (dict(zip(names, row, strict=True)) for row in rows)

    def _connect(self) -> Any:
        if not self._is_postgres:
            return sqlite3.connect(f"{Path(self._options.database).resolve().as_uri()}?mode=ro", uri=True)
        import psycopg  # noqa: PLC0415 - only PostgreSQL needs it

        connection = psycopg.connect(self._options.database)
        connection.read_only = True
        return connection

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except LoadError:
            raise
        except ModuleNotFoundError as error:
            raise LoadError(self.location, "needs psycopg", "run: pip install 'ragkit-kb[pgvector]'") from error
        except Exception as error:
            if not isinstance(error, sqlite3.Error) and type(error).__module__.partition(".")[0] != "psycopg":
                raise
            reason = mask_passwords(" ".join(str(error).split()))[:200]
            raise LoadError(self.location, f"the query failed ({reason})", "check `database` and `query`") from error

    def _to_file(self, row: Mapping[str, object]) -> SourceFile:
        chosen = self._options
        text = "\n\n".join(str(row[name]) for name in chosen.text if row[name] is not None)
        title = str(row.get(chosen.title) or "") if chosen.title else ""
        metadata: dict[str, JSON] = {name: _to_json(row[name]) for name in chosen.metadata if row[name] is not None}
        metadata |= {name: access_value(value) for name, value in row.items() if is_access_field(name)}
        document = Document(text, metadata, source=self._key(row), title=title)
        return SourceFile(dump_document(document), suffix=SAVED_DOCUMENT_SUFFIX)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _to_json(value: object) -> str | int | float | bool:
    """A value to filter by."""
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value.isoformat() if isinstance(value, date | datetime) else str(value)
