"""Writes tool analytics to a table of a DuckDB file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ragkit.errors import InvalidOption, MissingExtra

try:
    import duckdb
except ImportError as error:
    raise MissingExtra("the DuckDB export of analytics", extra="duckdb") from error


def write_table(
    path: str | Path, table: str, columns: Sequence[str], rows: Sequence[Sequence[str | int | float]]
) -> None:
    """Create or replace a table. Strings become VARCHAR, numbers DOUBLE or BIGINT."""
    if not table.isidentifier():
        raise InvalidOption("table", table, "a name of letters, digits and '_'")
    types = {str: "VARCHAR", int: "BIGINT", float: "DOUBLE"}
    first = rows[0] if rows else [""] * len(columns)
    declared = ", ".join(f'"{name}" {types[type(value)]}' for name, value in zip(columns, first, strict=True))
    placeholders = ", ".join("?" for _ in columns)
    with duckdb.connect(str(path)) as connection:
        connection.execute(f'CREATE OR REPLACE TABLE "{table}" ({declared})')
        for row in rows:
            connection.execute(f'INSERT INTO "{table}" VALUES ({placeholders})', list(row))  # noqa: S608 - validated above
