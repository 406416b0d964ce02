"""CSV and its kin: one line of text for each row, with the names of its columns."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from ragkit.errors import LoadError
from ragkit.load.encoding import decode_bytes
from ragkit.load.file_types import file_suffix
from ragkit.load.loader_utils import build_metadata, collapse_whitespace
from ragkit.load.options import LOADER_VERSIONS, CsvOptions
from ragkit.load.table_text import format_table
from ragkit.records import JSON, Document

DELIMITERS = (",", ";", "\t", "|")
MAX_SNIFFED_CHARS = 65_536
"""Characters that are looked at to find the delimiter."""


class CsvLoader:
    """Reads ragged rows, huge fields and quotes that never close; numbers and formulas stay as written."""

    version = LOADER_VERSIONS["csv"]

    def __init__(self, options: CsvOptions | None = None) -> None:
        self.options = options or CsvOptions()

    def load(self, data: bytes, source: str) -> Document:
        """The table in `data`. Raises LoadError when the csv module gives it up."""
        decoded = decode_bytes(data, self.options.encoding)
        text = decoded.text
        delimiter = self.options.delimiter or (
            "\t" if file_suffix(source) in (".tsv", ".tab") else sniff_delimiter(text)
        )
        csv.field_size_limit(2**31 - 1)  # a field may be as long as the file; its length is bounded already
        try:
            header, lines = format_table(_read_rows(text, delimiter))
            whole = "\n".join(lines)
        except csv.Error as error:
            raise LoadError(source, f"no table can be read from it ({error})", "give it the suffix .txt") from error
        columns: list[JSON] = list(header[:100])
        encoding = "" if decoded.encoding == "utf-8" else decoded.encoding
        return Document(
            text=whole,
            metadata=build_metadata("csv", source, {"columns": columns, "encoding": encoding}),
            source=source,
            format="csv",
        )


def _read_rows(text: str, delimiter: str) -> Iterator[Sequence[str]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    return ([collapse_whitespace(cell) for cell in row] for row in reader if row)


def sniff_delimiter(text: str) -> str:
    """The delimiter that cuts the first lines into the most equal number of cells, more than one; else a comma."""
    sample = text[:MAX_SNIFFED_CHARS]
    if len(text) > MAX_SNIFFED_CHARS:
        sample = sample[: sample.rfind("\n") + 1] or sample
    scores = {delimiter: _score_delimiter(sample, delimiter) for delimiter in DELIMITERS}
    return max(DELIMITERS, key=lambda delimiter: scores[delimiter])


def _score_delimiter(sample: str, delimiter: str) -> tuple[float, int]:
    """The share of rows with the commonest number of cells, and that number; (0, 0) for one cell a row."""
    widths: list[int] = []
    try:
        for row in csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter):
            widths += [len(row)] if row else []
            if len(widths) >= 50:
                break
    except csv.Error:
        return 0.0, 0
    commonest = max(set(widths), key=widths.count, default=0)
    return (widths.count(commonest) / len(widths), commonest) if commonest > 1 else (0.0, 0)
