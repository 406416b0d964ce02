"""Tables of a SQLite database: one section per table, one line of text per row, with the column names."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing

from ragkit.errors import LoadError
from ragkit.load.options import LOADER_VERSIONS, SqliteTableOptions
from ragkit.load.shared.access_field import access_value, is_access_field
from ragkit.load.shared.encoding import replace_invalid_chars
from ragkit.load.shared.table_records import Record, build_rows_document
from ragkit.records import JSON, Document, Place
from ragkit.sqlite_errors import DATABASE_ERRORS

TABLES_SQL = (
    "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite~_%' ESCAPE '~' AND rootpage > 0"
)
"""Not views and virtual tables, which can run code of the file."""
MAX_VALUE_BYTES = 64 * 2**20
"""Size of a value; a generated column can compute larger ones than the file."""


class SqliteLoader:
    """Reads the tables in the order of their names; BLOBs are left out."""

    version = LOADER_VERSIONS["sqlite"]

    def __init__(self, options: SqliteTableOptions | None = None) -> None:
        self.options = options or SqliteTableOptions()

    def load(self, data: bytes, source: str) -> Document:
        """The tables in `data`. Raises LoadError, and LoadLimitExceeded above `max_rows`."""
        try:
            with closing(sqlite3.connect(":memory:")) as connection:
                if data:  # an empty file is an empty database
                    connection.deserialize(data)
                connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
                connection.execute("PRAGMA trusted_schema = OFF")
                connection.execute("PRAGMA query_only = ON")
                return build_rows_document("sqlite", source, self._records(connection), self.options)
        except (*DATABASE_ERRORS, OverflowError) as error:
            raise LoadError(source, f"not a SQLite database ({error})", "open it with sqlite3 and dump it") from error

    def _records(self, connection: sqlite3.Connection) -> Iterator[Record]:
        names = sorted(str(row[0]) for row in connection.execute(TABLES_SQL))
        for table in [name for name in names if not self.options.tables or name in self.options.tables]:
            quoted = table.replace('"', '""')
            rows = connection.execute(f'SELECT * FROM "{quoted}"')  # noqa: S608 - a quoted name
            columns = [str(column[0]) for column in rows.description]
            for number, row in enumerate(rows, start=1):
                yield Record(_fields(columns, row), Place(0, "row", number, section=table))


def _fields(columns: Sequence[str], row: Sequence[object]) -> dict[str, JSON]:
    values: dict[str, JSON] = {}
    for name, value in zip(columns, row, strict=True):
        if is_access_field(name):
            values[name] = access_value(value)
        elif isinstance(value, str) and value:
            values[name] = replace_invalid_chars(value)
        elif isinstance(value, int | float) and math.isfinite(value):  # JSON has no infinite numbers
            values[name] = value
    return values
