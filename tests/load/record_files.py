"""The same two rows as files of several formats."""

from __future__ import annotations

import io
import sqlite3
from contextlib import closing

import pyarrow as pa
import pyarrow.parquet

from ragkit.records import JSON

ROWS: list[dict[str, JSON]] = [
    {"name": "Pump", "note": "red", "price": 120, "day": "2024-05-01"},
    {"name": "Valve", "note": "blue", "price": 9.5, "day": "2024-06-01"},
]


def table_data() -> bytes:
    """A Parquet table."""
    out = io.BytesIO()
    pa.parquet.write_table(pa.Table.from_pylist(ROWS), out)
    return out.getvalue()


def database() -> bytes:
    """A SQLite database with a table and a view."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE stock (name TEXT, note TEXT, price REAL, day TEXT, photo BLOB)")
        connection.execute("CREATE VIEW everything AS SELECT * FROM stock")
        connection.executemany("INSERT INTO stock VALUES (:name, :note, :price, :day, x'00')", ROWS)
        connection.commit()
        return connection.serialize()
