"""Fuzz targets of rows, filters, and the check of answers."""

from __future__ import annotations

import csv
import io
import json
import math
import random
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import cast

import numpy as np
import pyarrow as pa
from pyarrow import feather, parquet

from ragkit.answer.base import Support
from ragkit.answer.support.support import check_statements
from ragkit.errors import LoadError
from ragkit.load.data.csv import CsvLoader
from ragkit.load.data.json import JsonlLoader, JsonLoader
from ragkit.load.data.parquet import ParquetLoader
from ragkit.load.data.structured import DataLoader
from ragkit.load.options import CsvOptions, DataOptions, JsonOptions, RecordOptions, RowOptions
from ragkit.records import JSON, Document, Hit, Metadata
from ragkit.store.backends.duckdb import DuckdbStore
from ragkit.store.base import Filter
from ragkit.store.filters.language import evaluate, parse_filter
from ragkit.store.native.metadata_index import MetadataIndex
from ragkit.store.options import DuckdbOptions
from ragkit.testing.filter_strategies import FIELD_NAMES, NUMBERS, SCALARS, STRINGS
from tests.answer.passages import Shelf, chunk
from tests.fuzz.reader import Reader

# records

RECORDS = RecordOptions()
_TYPES: Sequence[Callable[[Reader], object]] = (
    lambda reader: reader.number(1 << 16) - (1 << 15),
    lambda reader: reader.choice((0.0, -1.5, math.nan, math.inf, 1e300, 5e-324)),
    Reader.word,
    lambda reader: reader.number(2) == 1,
    lambda reader: date(1900, 1, 1) + timedelta(days=reader.number(1 << 16)),
    lambda reader: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(minutes=reader.number(1 << 16)),
    lambda reader: Decimal(reader.number(1 << 16)) / 100,
    lambda reader: [reader.word() for _ in range(reader.number(4))],
    lambda reader: [reader.choice((1.0, math.nan, math.inf)) for _ in range(reader.number(4))],
    lambda reader: {"a": reader.word(), "b": reader.number(9)},
    lambda reader: reader.bytes(reader.number(8)),
)
_TEXT_LOADERS = (
    (CsvLoader(CsvOptions(records=RECORDS)), "/x/a.csv"),
    (CsvLoader(CsvOptions(records=RECORDS)), "/x/a.tsv"),
    (JsonlLoader(JsonOptions(records=RECORDS)), "/x/a.jsonl"),
    (JsonLoader(JsonOptions(records=RECORDS)), "/x/a.json"),
    (DataLoader(DataOptions()), "/x/a.yaml"),
    (DataLoader(DataOptions()), "/x/a.toml"),
    (DataLoader(DataOptions()), "/x/a.xml"),
)


def records(data: bytes) -> None:
    """Rows become documents with metadata that JSON can hold, or one LoadError; no row is lost."""
    reader = Reader(data)
    kind = reader.number(len(_TEXT_LOADERS) + 2)
    if kind >= len(_TEXT_LOADERS):
        _check_table(reader, as_feather=kind == len(_TEXT_LOADERS))
        return
    loader, source = _TEXT_LOADERS[kind]
    body = reader.bytes(reader.left)
    try:
        document = loader.load(body, source)
    except LoadError as error:
        assert error.reason and "\n" not in error.reason, error.reason
        return
    _check_records(document)
    if source.endswith(".tsv") and b'"' not in body and _is_plain(body):
        rows = [
            row
            for row in csv.reader(io.StringIO(body.decode(), newline=""), delimiter="\t")
            if any(map(str.strip, row))
        ]
        assert len(document.parts) <= max(0, len(rows))


def _is_plain(body: bytes) -> bool:
    return body.isascii() and b"\0" not in body


def _check_table(reader: Reader, *, as_feather: bool) -> None:
    """Rows of any types. Damaged files are of the target `formats`; pyarrow may crash, which ends a parser process."""
    names = [f"c{number}" for number in range(1 + reader.number(5))]
    makers = [reader.choice(_TYPES) for _ in names]
    count = reader.number(12)
    columns = {
        name: [None if reader.number(8) == 1 else make(reader) for _ in range(count)]
        for name, make in zip(names, makers, strict=True)
    }
    try:
        table = pa.table(columns)
        out = io.BytesIO()
        if as_feather:
            feather.write_feather(table, out)
        else:
            parquet.write_table(table, out)
    except (pa.ArrowException, ValueError, OverflowError):
        return  # this table cannot be written
    document = ParquetLoader(RowOptions(records=RECORDS)).load(out.getvalue(), "/x/a.parquet")
    _check_records(document)
    filled = [row for row in table.to_pylist() if any(_shows(value) for value in row.values())]
    assert len(document.parts) == len(filled), (len(document.parts), filled)


def _shows(value: object) -> bool:
    """Whether a value has a text: neither missing, nor blank, nor bytes, nor a list of such values."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, str):
        return bool(value.strip())
    if isinstance(value, list):
        return any(map(_shows, value))
    return value is not None and not isinstance(value, bytes)


def _check_records(document: Document) -> None:
    for part in (document, *document.parts):
        assert "\0" not in part.text
        part.text.encode("utf-8")
        json.dumps(dict(part.metadata), allow_nan=False).encode("utf-8")
    sources = [part.source for part in document.parts]
    assert len(set(sources)) == len(sources), "two rows have one source"


# filters


def _metadata(reader: Reader) -> Metadata:
    fields: dict[str, JSON] = {}
    for _ in range(reader.number(5)):
        fields[reader.choice(FIELD_NAMES)] = _value(reader, 2)
    return fields


def _value(reader: Reader, depth: int) -> JSON:
    kind = reader.number(8) if depth else 0
    if kind == 6:
        return [_value(reader, depth - 1) for _ in range(reader.number(4))]
    if kind == 7:
        return {reader.choice(("b", "c", "b.c")): _value(reader, depth - 1) for _ in range(reader.number(3))}
    return reader.choice(SCALARS)


def _filter(reader: Reader, depth: int) -> dict[str, JSON]:
    kind = reader.number(10) if depth else 0
    if kind == 9:
        return {"$not": _filter(reader, depth - 1)}
    if kind in (7, 8):
        return {("$and", "$or")[kind - 7]: [_filter(reader, depth - 1) for _ in range(1 + reader.number(3))]}
    field, ordered = reader.choice(FIELD_NAMES), (*NUMBERS, *STRINGS)
    conditions: Sequence[Callable[[], JSON]] = (
        lambda: reader.choice(SCALARS),
        lambda: {reader.choice(("$eq", "$ne")): reader.choice(SCALARS)},
        lambda: {reader.choice(("$gt", "$gte", "$lt", "$lte")): reader.choice(ordered)},
        lambda: {reader.choice(("$in", "$nin")): [reader.choice(SCALARS) for _ in range(reader.number(4))]},
        lambda: {"$exists": reader.number(2) == 1},
        lambda: {"$gte": reader.choice(NUMBERS), "$lt": reader.choice(NUMBERS)},
    )
    return {field: reader.choice(conditions)()}


@cache
def _database() -> tuple[DuckdbStore, list[Document]]:
    """A store whose filters are SQL, with 80 rows of all kinds of values."""
    chance = random.Random(1)
    documents = [
        Document(f"row {number}", source=f"/r/{number}", metadata=_metadata(Reader(chance.randbytes(80))))
        for number in range(80)
    ]
    store = DuckdbStore(DuckdbOptions(Path(tempfile.mkdtemp()) / "rows.duckdb", 2))
    rows = np.tile(np.array([1, 0], np.float32), (len(documents), 1))
    store.add_documents(documents, rows)
    return store, documents


def filters(data: bytes) -> None:
    """A filter selects the same rows by the columns, by SQL, and by looking at each row."""
    reader = Reader(data)
    held = [_metadata(reader) for _ in range(reader.number(8))]
    where: Filter = _filter(reader, 3)
    node = parse_filter(where)
    index = MetadataIndex()
    index.extend(held)
    assert index.mask(node, len(held)).tolist() == [evaluate(node, each) for each in held], where
    store, documents = _database()
    expected = {document.source for document in documents if evaluate(node, document.metadata)}
    found = store.search(np.array([1, 0], np.float32), len(documents), where)
    assert {result.document.source for result in found} == expected, where


# support


def support(data: bytes) -> None:
    """Every statement of an answer has a verdict, whatever the answer and the passages are."""
    reader = Reader(data)
    question, answer = reader.text(), reader.text()
    passages: list[str] = []
    while reader.left and len(passages) < 4:
        passages.append(reader.text())
    shelf = Shelf({f"/{number}.md": text for number, text in enumerate(passages)})
    shown = {n: Hit(chunk(document), 1.0) for n, document in enumerate(shelf._documents.values(), start=1)}
    _check_statements(answer, shown, shelf, question)
    if passages:
        _check_statements(f"{passages[0]} [1]", shown, shelf, question)


def _check_statements(answer: str, shown: Mapping[int, Hit], shelf: Shelf, question: str) -> None:
    statements = check_statements(answer, shown, shelf, question)
    for statement in statements:
        assert statement.text.strip()
        assert "\n" not in statement.reason
        assert statement.found_in is None or statement.found_in in shown
        assert (statement.found_in is None) == (statement.found_at == "")
        assert statement.support is not Support.SUPPORTED or statement.citations
    assert statements == check_statements(answer, shown, shelf, question), "a second look gives other verdicts"
    json.dumps([cast("JSON", [s.text, *s.checks, s.reason, s.found_at]) for s in statements])
