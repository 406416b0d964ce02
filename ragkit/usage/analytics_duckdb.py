"""Analytics as a table of a DuckDB file. The one file that knows duckdb."""

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
    """Write a table in the place of one of the same name. Texts become VARCHAR, numbers DOUBLE or BIGINT."""
    if not table.isidentifier():
        raise InvalidOption("the name of a table", table, "letters, digits and '_'")
    kinds = {str: "VARCHAR", int: "BIGINT", float: "DOUBLE"}
    first = rows[0] if rows else [""] * len(columns)
    declared = ", ".join(f'"{name}" {kinds[type(value)]}' for name, value in zip(columns, first, strict=True))
    places = ", ".join("?" for _ in columns)
    with duckdb.connect(str(path)) as connection:
        connection.execute(f'CREATE OR REPLACE TABLE "{table}" ({declared})')
        for row in rows:
            connection.execute(f'INSERT INTO "{table}" VALUES ({places})', list(row))  # noqa: S608 - checked above
