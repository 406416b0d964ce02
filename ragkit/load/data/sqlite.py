"""Tables of a SQLite database: one section per table, one line of text per row, with the column names."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing

from ragkit.errors import LoadError, LoadLimitExceeded
from ragkit.load.options import LOADER_VERSIONS, SqliteTableOptions
from ragkit.load.shared.access_field import is_access_field
from ragkit.load.shared.encoding import replace_invalid_chars
from ragkit.load.shared.layout_blocks import LayoutBlock, join_blocks
from ragkit.load.shared.loader_utils import build_document, collapse_whitespace
from ragkit.load.shared.table_records import Record, build_record_documents, check_chars, fields_length
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
                records = list(self._records(connection, source))
        except (*DATABASE_ERRORS, OverflowError) as error:
            raise LoadError(source, f"not a SQLite database ({error})", "open it with sqlite3 and dump it") from error
        if self.options.records is not None:
            return build_record_documents("sqlite", source, records, self.options.records)
        return build_document("sqlite", source, join_blocks(_blocks(records)), {"rows": len(records)})

    def _records(self, connection: sqlite3.Connection, source: str) -> Iterator[Record]:
        count = chars = 0
        names = sorted(str(row[0]) for row in connection.execute(TABLES_SQL))
        for table in [name for name in names if not self.options.tables or name in self.options.tables]:
            quoted = table.replace('"', '""')
            rows = connection.execute(f'SELECT * FROM "{quoted}"')  # noqa: S608 - a quoted name
            columns = [str(column[0]) for column in rows.description]
            for number, row in enumerate(rows, start=1):
                count += 1
                if count > self.options.max_rows:
                    reason = f"has more than {self.options.max_rows} rows"
                    raise LoadLimitExceeded(source, reason, "raise max_rows, or choose tables")
                fields = _fields(columns, row)
                chars += fields_length(fields)
                check_chars(chars, source)
                yield Record(fields, Place(0, "row", number, section=table))


def _fields(columns: Sequence[str], row: Sequence[object]) -> dict[str, JSON]:
    values: dict[str, JSON] = {}
    for name, value in zip(columns, row, strict=True):
        if is_access_field(name):
            values[name] = value if value is None or isinstance(value, str) else [None]  # not understood
        elif isinstance(value, str) and value:
            values[name] = replace_invalid_chars(value)
        elif isinstance(value, int | float) and math.isfinite(value):  # JSON has no infinite numbers
            values[name] = value
    return values


def _blocks(records: Sequence[Record]) -> Iterator[LayoutBlock]:
    table = ""
    for record in records:
        if record.place.section != table:
            table = record.place.section
            yield LayoutBlock("h", collapse_whitespace(table), 1, place=record.place)
        cells = (f"{name}: {collapse_whitespace(str(value))}" for name, value in record.fields.items())
        yield LayoutBlock("row", "; ".join(cells), place=record.place)
