"""CSV and TSV: one line of text per row, with the column names."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from ragkit.errors import LoadError
from ragkit.load.file_types import file_suffix
from ragkit.load.options import LOADER_VERSIONS, CsvOptions
from ragkit.load.shared.encoding import decode_bytes
from ragkit.load.shared.layout_blocks import LayoutBlock, join_blocks
from ragkit.load.shared.loader_utils import build_document, collapse_whitespace
from ragkit.load.shared.table_records import build_record_documents, table_record
from ragkit.load.shared.table_text import TableRow, format_table
from ragkit.records import JSON, Document, Place

DELIMITERS = (",", ";", "\t", "|")
MAX_SNIFFED_CHARS = 65_536
"""Characters that are read to detect the delimiter."""


class CsvLoader:
    """Accepts ragged rows, huge fields and unclosed quotes; keeps numbers and formulas as written."""

    version = LOADER_VERSIONS["csv"]

    def __init__(self, options: CsvOptions | None = None) -> None:
        self.options = options or CsvOptions()

    def load(self, data: bytes, source: str) -> Document:
        """The table in `data`. Raises LoadError when the csv module cannot parse it."""
        decoded = decode_bytes(data, self.options.encoding)
        text = decoded.text
        is_tabbed = file_suffix(source) in (".tsv", ".tab")
        delimiter = self.options.delimiter or ("\t" if is_tabbed else sniff_delimiter(text))
        csv.field_size_limit(2**31 - 1)  # the size of the file is limited already
        try:
            lines = list(format_table(_read_rows(text, delimiter)))
        except csv.Error as error:
            raise LoadError(source, f"invalid CSV ({error})", "rename it to .txt to load it as plain text") from error
        if self.options.records is not None:
            rows = (line for line in lines if line.cells)
            records = (table_record(line.header, line.cells, Place(0, "line", line.number)) for line in rows)
            return build_record_documents("csv", source, records, self.options.records)
        columns = list[JSON](lines[-1].header[:100] if lines else ())
        blocks = (LayoutBlock("row", line.text, place=Place(0, "line", line.number)) for line in lines)
        extra: dict[str, JSON] = {"columns": columns, "encoding": decoded.legacy_encoding}
        return build_document("csv", source, join_blocks(blocks), extra)


def _read_rows(text: str, delimiter: str) -> Iterator[TableRow]:
    """The rows with the number of their first line; an empty line is no row."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    line = 1
    for row in reader:
        if row:
            yield TableRow(line, [collapse_whitespace(cell) for cell in row])
        line = reader.line_num + 1


def sniff_delimiter(text: str) -> str:
    """The delimiter that gives the first rows the most uniform number of cells (2 or more); else a comma."""
    sample = text[:MAX_SNIFFED_CHARS]
    if len(text) > MAX_SNIFFED_CHARS:
        sample = sample[: sample.rfind("\n") + 1] or sample
    scores = {delimiter: _score_delimiter(sample, delimiter) for delimiter in DELIMITERS}
    return max(DELIMITERS, key=lambda delimiter: scores[delimiter])


def _score_delimiter(sample: str, delimiter: str) -> tuple[float, int]:
    """The share of rows with the most common number of cells, and that number; (0, 0) for one cell per row."""
    widths: list[int] = []
    try:
        for row in csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter):
            widths += [len(row)] if row else []
            if len(widths) >= 50:
                break
    except csv.Error:
        return 0.0, 0
    most_common = max(set(widths), key=widths.count, default=0)
    return (widths.count(most_common) / len(widths), most_common) if most_common > 1 else (0.0, 0)
