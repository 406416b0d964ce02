"""Parquet and Feather tables, with pyarrow: one line of text per row, with the column names."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import chain

from ragkit.errors import LoadError, MissingExtra
from ragkit.load.options import LOADER_VERSIONS, RowOptions
from ragkit.load.shared.access_field import access_value, is_access_field
from ragkit.load.shared.encoding import replace_invalid_chars
from ragkit.load.shared.loader_utils import collapse_whitespace
from ragkit.load.shared.table_records import Record, build_rows_document
from ragkit.records import JSON, Document, Place

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyarrow import feather
except ImportError as error:
    raise MissingExtra("the loader 'parquet'", extra="parquet") from error

BATCH_ROWS = 1_000


class ParquetLoader:
    """Reads the columns of scalars and of lists of scalars; other values are written as text."""

    version = LOADER_VERSIONS["parquet"]

    def __init__(self, options: RowOptions | None = None) -> None:
        self.options = options or RowOptions()

    def load(self, data: bytes, source: str) -> Document:
        """The table in `data`. Raises LoadError, and LoadLimitExceeded above `max_rows`."""
        try:
            return build_rows_document("parquet", source, _records(data), self.options)
        except (pa.ArrowException, OSError, ValueError) as error:
            reason = f"invalid table ({collapse_whitespace(str(error))[:200]})"
            raise LoadError(source, reason, "write it again with its program") from error


def _records(data: bytes) -> Iterator[Record]:
    buffer = pa.BufferReader(data)
    if data.startswith(b"PAR1"):
        batches = pq.ParquetFile(buffer).iter_batches(BATCH_ROWS)
    else:
        batches = iter(feather.read_table(buffer).to_batches(BATCH_ROWS))
    rows = chain.from_iterable(batch.to_pylist() for batch in batches)
    for number, row in enumerate(rows, start=1):
        yield Record(_fields(row), Place(0, "row", number))


def _fields(row: Mapping[str, object]) -> dict[str, JSON]:
    fields: dict[str, JSON] = {}
    for name, value in row.items():
        if is_access_field(name):
            fields[name] = access_value(None if _is_missing(value) else value)
        elif _is_missing(value):
            continue
        elif isinstance(value, bool | int | float):
            fields[name] = value
        elif isinstance(value, list) and all(isinstance(item, str | int | float) for item in value):
            items = [item for item in value if not _is_missing(item)]
            fields[name] = [replace_invalid_chars(item) if isinstance(item, str) else item for item in items]
        elif value is not None and not isinstance(value, bytes):
            fields[name] = collapse_whitespace(replace_invalid_chars(str(value)))
    return fields


def _is_missing(value: object) -> bool:
    """Whether a number is none: pandas writes a missing one as NaN, and JSON has no infinite ones."""
    return isinstance(value, float) and not math.isfinite(value)
