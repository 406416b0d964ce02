"""Parquet and Feather tables, with pyarrow: one line of text per row, with the column names."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from ragkit.errors import LoadError, LoadLimitExceeded, MissingExtra
from ragkit.load.options import LOADER_VERSIONS, RowOptions
from ragkit.load.shared.access_field import is_access_field
from ragkit.load.shared.encoding import replace_invalid_chars
from ragkit.load.shared.layout_blocks import LayoutBlock, join_blocks
from ragkit.load.shared.loader_utils import build_document, collapse_whitespace
from ragkit.load.shared.table_records import Record, build_record_documents, check_chars, fields_length
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
            records = list(self._records(data, source))
        except (pa.ArrowException, OSError, ValueError) as error:
            reason = f"invalid table ({collapse_whitespace(str(error))[:200]})"
            raise LoadError(source, reason, "write it again with its program") from error
        if self.options.records is not None:
            return build_record_documents("parquet", source, records, self.options.records)
        blocks = (
            LayoutBlock(
                "row", "; ".join(f"{name}: {value}" for name, value in record.fields.items()), place=record.place
            )
            for record in records
        )
        return build_document("parquet", source, join_blocks(blocks), {"rows": len(records)})

    def _records(self, data: bytes, source: str) -> Iterator[Record]:
        buffer = pa.BufferReader(data)
        if data.startswith(b"PAR1"):
            file = pq.ParquetFile(buffer)
            self._check_rows(file.metadata.num_rows, source)
            batches = file.iter_batches(BATCH_ROWS)
        else:
            table = feather.read_table(buffer)
            self._check_rows(table.num_rows, source)
            batches = iter(table.to_batches(BATCH_ROWS))
        number = chars = 0
        for batch in batches:
            for row in batch.to_pylist():
                number += 1
                fields = _fields(row)
                chars += fields_length(fields)
                check_chars(chars, source)
                yield Record(fields, Place(0, "row", number))

    def _check_rows(self, rows: int, source: str) -> None:
        if rows > self.options.max_rows:
            raise LoadLimitExceeded(source, f"has {rows} rows, the limit is {self.options.max_rows}", "raise max_rows")


def _fields(row: Mapping[str, object]) -> dict[str, JSON]:
    fields: dict[str, JSON] = {}
    for name, value in row.items():
        if is_access_field(name):
            fields[name] = _access_value(value)
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


def _access_value(value: object) -> JSON:
    """A text or a list of texts; None for none; [None] for what `access` cannot be."""
    if value is None or _is_missing(value):
        return None
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return list[JSON](value)
    return value if isinstance(value, str) else [None]


def _is_missing(value: object) -> bool:
    """Whether a number is none: pandas writes a missing one as NaN, and JSON has no infinite ones."""
    return isinstance(value, float) and not math.isfinite(value)
